//! What keeps a namespace from recovery of level `cluster`: what would be said beside the stream that all nodes read would be lost in silence.

use super::keys::{Event, FEEDS, Namespace, Recovery, RecoveryLevel, RoomHistory};
use super::layer::Layer;
use super::rules::{events, hears_others, names_below};
use super::value::Value;

/// Each of them, with what to do.
pub(super) fn hindrances(layer: &Layer, name: &str) -> Vec<String> {
    let own = Recovery::of(layer, name);
    if *own.level != RecoveryLevel::Cluster {
        return match own.replicas.get::<u16>() {
            0 => Vec::new(),
            _ => vec!["keeps nothing in Redis, whose replicas recovery.replicas asks for: set level = \"cluster\", or take that key out".to_owned()],
        };
    }
    let keys = Namespace::of(layer, name);
    let mut found = Vec::new();
    let mut hinders = |is_so: bool, why: &str| {
        if is_so {
            found.push(format!("\"cluster\" {why}"));
        }
    };
    let adapter = layer.value("cluster.adapter");
    let is_redis = adapter == Some(&Value::Text("redis".to_owned()));
    hinders(
        !is_redis,
        "keeps what is said in the Redis of the cluster: set cluster.adapter = \"redis\", or take level \"node\"",
    );
    hinders(
        name == "*",
        "is for namespaces with a table of their own: give each a table, or take level \"node\"",
    );
    let mut others = names_below(layer, &["namespaces"]).into_iter();
    let mixes = |other: &str| *Recovery::of(layer, other).level == RecoveryLevel::Node;
    hinders(
        others.any(mixes),
        "and \"node\" do not go together: set one level in all namespaces with recovery",
    );
    hinders(
        is_redis && hears_others(layer),
        "cannot be had beside other Socket.IO servers, whose words would not be in the stream: set compat.enabled = false, or cluster.secret",
    );
    hinders(
        !names_below(layer, &FEEDS).is_empty(),
        "cannot be had with [cluster.feed], whose words would not be in the stream: take level \"node\"",
    );
    hinders(
        keys.backend.is_some(),
        "cannot be had with a backend yet: what its workers say has no place in the stream. Take level \"node\"",
    );
    let keeps = |event: &str| *Event::of(layer, name, event).history;
    let history = *keys.chat
        || *Event::default_of(layer, name).history
        || events(layer, name).into_iter().any(keeps)
        || *RoomHistory::of(layer, name).stored;
    hinders(
        history,
        "cannot be had in a namespace that keeps a history (chat, history, stored) yet: take level \"node\"",
    );
    found
}

#[cfg(test)]
mod tests {
    use crate::config::layers::{Inputs, merge};
    use crate::config::resolve::{Machine, resolve};

    const GOOD: &str = "profile = \"socket.io\"\n[cluster]\nadapter = \"redis\"\nurls = [\"redis://a:6379\"]\nsecret = \"s\"\n\
         [namespaces.\"/a\"]\nclient_joins = true\n[namespaces.\"/a\".recovery]\nlevel = \"cluster\"\n";

    fn problems(text: &str) -> String {
        let inputs = Inputs {
            file: Some(("s.toml".to_owned(), text.to_owned())),
            ..Inputs::default()
        };
        let (layer, problems) = merge(&inputs);
        assert!(problems.is_empty(), "{problems:?}");
        let machine = Machine {
            cores: 1,
            ..Machine::default()
        };
        match resolve(&layer, &machine) {
            Ok(resolved) => {
                let recovery = &resolved.hub.recovery;
                assert!(recovery.chronicled().any(|(name, _)| name == "/a"));
                String::new()
            }
            Err(problems) => format!("{problems:?}"),
        }
    }

    #[test]
    fn replicas_are_for_the_level_that_has_some() {
        let text = format!("{GOOD}replicas = 1\n");
        assert_eq!(problems(&text), "");
        let wrong = text.replace("level = \"cluster\"", "level = \"node\"");
        assert!(problems(&wrong).contains("keeps nothing in Redis"));
    }

    #[test]
    fn what_would_be_lost_in_silence_is_refused() {
        assert_eq!(problems(GOOD), "");
        let node = "[namespaces.\"/b\".recovery]\nlevel = \"node\"\n";
        for (text, why) in [
            (
                GOOD.replace("secret = \"s\"\n", ""),
                "other Socket.IO servers",
            ),
            (format!("{GOOD}{node}"), "do not go together"),
            (GOOD.replace("client_joins", "chat"), "keeps a history"),
            (
                format!("{GOOD}[namespaces.\"/a\".events.say]\nhistory = true\n"),
                "keeps a history",
            ),
            (
                format!("{GOOD}[namespaces.\"/a\".default]\nhistory = true\n"),
                "keeps a history",
            ),
            (
                format!("{GOOD}[backends.b]\nurl = \"http://a/\"\n").replace(
                    "client_joins = true",
                    "client_joins = true\nbackend = \"b\"",
                ),
                "with a backend yet",
            ),
            (
                format!("{GOOD}[namespaces.\"*\".recovery]\nlevel = \"cluster\"\n"),
                "with a table of their own",
            ),
            (
                GOOD.replace("\"redis\"\nurls", "\"nats\"\nurls"),
                "set cluster.adapter",
            ),
            (
                format!("{GOOD}[cluster.feed.c]\nnamespace = \"/a\"\npublish = [\"e\"]\n"),
                "[cluster.feed]",
            ),
        ] {
            assert!(problems(&text).contains(why), "{why}: {}", problems(&text));
        }
        let alone = "[namespaces.\"/a\".recovery]\nlevel = \"cluster\"\n";
        assert!(problems(alone).contains("cluster.adapter"));
    }
}
