//! `[nats]`: what belongs together, and what is said where it does not.

use super::layers::{Inputs, merge};
use super::resolve::{Machine, resolve};
use control::bridge::Key;
use control::nats::{Mode, Settings};

/// A server, a subject, one rule and one reader.
const GOOD: &str = "[nats]\nurls = [\"nats://a:4222\"]\nuser = \"u\"\npassword_file = \"p\"\n\
     [nats.out]\nsubject = \"sockeye.{namespace}.{name}\"\nkey = \"room\"\nack = \"nats\"\n\
     [nats.in.shop]\nsubject = \"commands\"\nstream = \"COMMANDS\"\noperators = [\"unicast\"]\ndead_letters = \"dead\"\n\
     [namespaces.\"/\".events.order]\naction = \"nats\"\nroom_field = \"doc\"\n";

fn on(text: &str, has_nats: bool) -> Result<Option<Settings>, String> {
    let inputs = Inputs {
        file: Some(("s.toml".to_owned(), text.to_owned())),
        ..Inputs::default()
    };
    let (layer, problems) = merge(&inputs);
    assert!(problems.is_empty(), "{problems:?}");
    let machine = Machine {
        has_nats,
        cores: 1,
        ..Machine::default()
    };
    let resolved = resolve(&layer, &machine);
    resolved
        .map(|resolved| resolved.nats)
        .map_err(|problems| format!("{problems:?}"))
}

#[test]
fn all_parts_reach_the_bridge() {
    let settings = on(GOOD, true).expect("it is good").expect("a bridge");
    let out = settings.out.expect("events");
    assert_eq!(
        (out.mode, out.writes.key, out.writes.waits),
        (Mode::JetStream, Key::Room, true)
    );
    let inlet = &settings.inlets[0];
    assert_eq!(
        (inlet.stream.as_deref(), inlet.pending_max),
        (Some("COMMANDS"), 4_096)
    );
    assert_eq!(on("", true), Ok(None));
}

#[test]
fn what_does_not_belong_together_is_said() {
    let cases = [
        ("[\"nats://a:4222\"]", "[]", "there are no servers"),
        (
            "nats://a",
            "http://a",
            "nats://HOST:PORT or tls://HOST:PORT is needed",
        ),
        ("user = \"u\"\n", "", "belong together"),
        (
            "user = \"u\"",
            "user = \"u\"\ncredentials_file = \"c\"",
            "exclude each other",
        ),
        (
            "{name}",
            "{user}",
            "only {namespace} and {name} stand in braces",
        ),
        ("key = \"room\"", "key = \"claim\"", "must be \\\"user\\\""),
        (
            "ack = \"nats\"",
            "ack = \"nats\"\nmode = \"core\"",
            "nobody acknowledges",
        ),
        ("ack = \"nats\"", "time = \"5m\"", "100ms"),
        (
            "action = \"nats\"",
            "action = \"nats\"\nnats = true",
            "leave one of both out",
        ),
        (
            "action = \"nats\"\nroom_field = \"doc\"",
            "action = \"rooms\"",
            "nothing is published to it",
        ),
        (
            "\"commands\"",
            "\"sockeye.>\"",
            "what clients say would be carried out",
        ),
        ("\"dead\"", "\"commands\"", "come back for ever"),
        ("\"dead\"", "\"dead.*\"", "leave `*` and `>` out"),
        ("\"COMMANDS\"", "\"a.b\"", "letters, digits, underscores"),
        ("[\"unicast\"]", "[\"all\"]", "there is no operator"),
    ];
    for (from, to, said) in cases {
        assert!(GOOD.contains(from), "{from}");
        let why = on(&GOOD.replacen(from, to, 1), true).expect_err(to);
        assert!(why.contains(said), "{to}: {why}");
    }
    let why = on(GOOD, false).expect_err("no client");
    assert!(why.contains("--features nats"), "{why}");
}
