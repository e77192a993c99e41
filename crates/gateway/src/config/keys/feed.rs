//! The keys of `[cluster.feed.CHANNEL]`.

use super::namespaces::table;
use super::{EMPTY_LIST, Key};
use crate::config::layer::{Layer, Path};
use crate::config::typed::{Bytes, Field, Typed, Whole};

/// The place of the tables.
pub const TABLES: [&str; 2] = ["cluster", "feed"];

table! {
    /// One channel of Redis that programs outside share with clients. Its name is that of the table.
    Feed {
        publish: Vec<String> = EMPTY_LIST,
            "Events of the namespace that are published to this channel of Redis as plain JSON, whoever speaks (docs/feed.md).";
        take: Vec<String> = EMPTY_LIST,
            "Events that are taken from the channel and sent to clients. Programs that may publish to it speak to clients then.";
        namespace: String = "/",
            "Where these events are.";
        room: Option<String> = "",
            "What is taken goes to this room only. Unset: to the rooms and users that the message names, or to the whole namespace.";
        bare: bool = "false",
            "A message is the first argument of the event and nothing else. Then `take` names one event at most.";
        bytes_max: Bytes = "64KiB",
            "Larger messages are neither published nor taken.";
        per_second_max: Whole<1, 1_000_000> = "1000",
            "Messages that each node takes from the channel in a second; more are skipped.";
    }
}

impl Feed {
    pub fn of(layer: &Layer, channel: &str) -> Self {
        Feed::read(layer, &[TABLES[0], TABLES[1], channel])
    }

    pub fn all_keys() -> Vec<Key> {
        Feed::keys("cluster.feed.*")
    }
}
