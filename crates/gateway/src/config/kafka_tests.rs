//! `[kafka]`: what belongs together, and what is said where it does not.

use super::layers::{Inputs, merge};
use super::problem::Problem;
use super::resolve::{Machine, Resolved, resolve};
use control::bridge::Key;
use control::kafka::Settings;

/// Brokers, a topic, one rule and one reader.
const GOOD: &str = "[kafka]\nbrokers = [\"a:9092\", \"[::1]:9093\"]\nproperties = [\"linger.ms = 20\"]\n\
     [kafka.out]\ntopic = \"events\"\nkey = \"room\"\nack = \"kafka\"\n\
     [kafka.in.shop]\ntopics = [\"commands\"]\noperators = [\"unicast\"]\ndead_letters = \"dead\"\n\
     [namespaces.\"/\".events.order]\naction = \"kafka\"\nroom_field = \"doc\"\n";

fn on(text: &str, has_kafka: bool) -> Result<Box<Resolved>, Vec<Problem>> {
    let inputs = Inputs {
        file: Some(("s.toml".to_owned(), text.to_owned())),
        ..Inputs::default()
    };
    let (layer, problems) = merge(&inputs);
    assert!(problems.is_empty(), "{problems:?}");
    let machine = Machine {
        has_kafka,
        cores: 1,
        ..Machine::default()
    };
    resolve(&layer, &machine).map(Box::new)
}

fn settings(text: &str) -> Option<Settings> {
    on(text, true)
        .unwrap_or_else(|problems| panic!("{problems:?}"))
        .kafka
}

#[test]
fn a_bridge_has_what_the_tables_say() {
    assert_eq!(settings(""), None);
    let settings = settings(GOOD).expect("a bridge");
    assert_eq!(settings.brokers, ["a:9092", "[::1]:9093"]);
    assert_eq!(
        settings.properties,
        [("linger.ms".to_owned(), "20".to_owned())]
    );
    let out = settings.out.expect("a topic");
    assert_eq!(
        (&*out.topic, out.writes.key, out.writes.waits),
        ("events", Key::Room, true)
    );
    let shop = &settings.inlets[0];
    assert_eq!(
        (&*shop.reads.group, &*shop.reads.namespaces),
        ("sockeye", &["/".to_owned()][..])
    );
}

#[test]
fn a_build_without_the_client_says_so() {
    let problems = on(GOOD, false).expect_err("no client");
    assert_eq!(problems.len(), 1, "{problems:?}");
    let message = &problems[0].message;
    assert!(
        message.contains("kafka.brokers") && message.contains("--features kafka"),
        "{message}"
    );
    assert!(on("", false).is_ok());
}

/// Each change of what is good has one problem, which names the key and what to do.
#[test]
fn what_cannot_work_is_refused_with_the_next_step() {
    for (from, to, key, advice) in [
        (
            "\"a:9092\", \"[::1]:9093\"",
            "\"a\"",
            "kafka.brokers",
            "HOST:PORT",
        ),
        (
            "linger.ms = 20",
            "linger.ms",
            "kafka.properties",
            "name=value",
        ),
        (
            "linger.ms = 20",
            "acks=1",
            "kafka.properties",
            "allowed are",
        ),
        (
            "linger.ms = 20",
            "linger.ms=soon",
            "kafka.properties",
            "linger.ms",
        ),
        (
            "linger.ms = 20",
            "group.instance.id=one",
            "kafka.properties",
            "allowed are",
        ),
        (
            "linger.ms = 20",
            "linger.ms=10000",
            "kafka.properties",
            "10 s of a dead letter",
        ),
        (
            "linger.ms = 20",
            "session.timeout.ms=300001",
            "kafka.properties",
            "at most 300000",
        ),
        (
            "linger.ms = 20",
            "reconnect.backoff.ms=3000",
            "kafka.properties",
            "reconnect.backoff.max.ms",
        ),
        (
            "linger.ms = 20",
            "fetch.max.bytes=1000",
            "kafka.properties",
            "at least 1000000",
        ),
        (
            "linger.ms = 20",
            "ssl.ca.location=x",
            "kafka.properties",
            "TLS",
        ),
        (
            "\"events\"",
            "\"my events\"",
            "kafka.out.topic",
            "cannot use the topic",
        ),
        (
            "topic = \"events\"",
            "",
            "namespaces.\\\"/\\\".events.order.action",
            "kafka.out.topic",
        ),
        (
            "ack = \"kafka\"",
            "time = \"1ms\"",
            "kafka.out.time",
            "100ms",
        ),
        (
            "ack = \"kafka\"",
            "waiting_max = \"1KiB\"",
            "kafka.out.waiting_max",
            "kafka.out.record_max",
        ),
        (
            "[\"unicast\"]",
            "[\"unicats\"]",
            "kafka.in.shop.operators",
            "known are unicast",
        ),
        (
            "[\"unicast\"]",
            "[]",
            "kafka.in.shop.operators",
            "name operators",
        ),
        (
            "[\"commands\"]",
            "[]",
            "kafka.in.shop.topics",
            "at least one topic",
        ),
        (
            "key = \"room\"",
            "key = \"claim\"",
            "kafka.out.claim",
            "set both",
        ),
        (
            "key = \"room\"",
            "claim = \"org\"",
            "kafka.out.claim",
            "set both",
        ),
        (
            "\"dead\"",
            "\"commands\"",
            "kafka.in.shop.dead_letters",
            "for ever",
        ),
        (
            "\"dead\"",
            "\"letters\"\n[kafka.in.post]\ntopics = [\"letters\"]\noperators = [\"room\"]",
            "kafka.in.shop.dead_letters",
            "read by kafka.in.post",
        ),
        (
            "\"dead\"",
            "\"dead\"\n[kafka.in.post]\ntopics = [\"commands\"]\noperators = [\"room\"]",
            "kafka.in.shop.topics",
            "read by kafka.in.post",
        ),
        (
            "\"dead\"",
            "\"events\"",
            "kafka.in.shop.dead_letters",
            "kafka.out.topic",
        ),
        (
            "[\"commands\"]",
            "[\"events\"]",
            "kafka.in.shop.topics",
            "kafka.out.topic",
        ),
        (
            "\"dead\"",
            "\"dead\"\nnamespaces = [\"*\"]",
            "kafka.in.shop.namespaces",
            "name each",
        ),
        (
            "\"dead\"",
            "\"dead\"\nnamespaces = [\"/no\"]",
            "kafka.in.shop.namespaces",
            "add a table",
        ),
        (
            "action = \"kafka\"",
            "action = \"kafka\"\nkafka = true",
            "order.kafka",
            "leave one of both out",
        ),
        (
            "action = \"kafka\"\nroom_field = \"doc\"",
            "",
            "kafka.out.topic",
            "action = \"kafka\"",
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let text = GOOD.replace(from, to);
        let problems = on(&text, true).expect_err(&text);
        assert_eq!(problems.len(), 1, "{to}: {problems:?}");
        let message = &problems[0].message;
        assert!(message.contains(advice), "{to}: {message}");
        let key = key.replace('\\', "");
        assert!(message.contains(&key), "{to}: {message}");
    }
    let without = "[namespaces.\"/\"]\nkafka_lifecycle = true\n";
    let problems = on(without, true).expect_err("no brokers");
    assert!(
        problems[0].message.contains("set kafka.brokers"),
        "{problems:?}"
    );
}
