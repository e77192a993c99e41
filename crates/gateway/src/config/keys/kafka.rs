//! `[kafka]`: brokers; `[kafka.out]`: the topic of events; `[kafka.in.NAME]`: topics with commands.

use super::namespaces::table;
use super::{EMPTY_LIST, Key};
use crate::config::layer::{Layer, Path};
use crate::config::typed::{Bytes, Field, Typed, choice, section};
use control::bridge;
use std::time::Duration;

/// The place of the tables.
pub const TABLES: [&str; 2] = ["kafka", "in"];

/// What the ack of a client means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaAck {
    Gateway,
    Kafka,
}

/// A word of the header `X-Operator`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operator(pub &'static str);

choice! {
    KafkaAck { "gateway" => KafkaAck::Gateway, "kafka" => KafkaAck::Kafka }
    bridge::Key { "user" => bridge::Key::User, "room" => bridge::Key::Room, "socket" => bridge::Key::Socket, "claim" => bridge::Key::Claim }
    Operator {
        "unicast" => Operator("unicast"), "user" => Operator("user"), "room" => Operator("room"),
        "broadcast" => Operator("broadcast"), "internal" => Operator("internal"),
    }
}

section! {
    /// The brokers.
    Kafka = "kafka." {
        brokers: Vec<String> = EMPTY_LIST,
            "Brokers of Kafka, `HOST:PORT`, without TLS; one of the cluster is enough to find the others. Empty: there is no bridge.";
        properties: Vec<String> = EMPTY_LIST,
            "Properties of librdkafka, each `name=value`, such as `linger.ms=20`. Those that promises rest on cannot be set (docs/kafka.md has the list).";
    }
}

section! {
    /// Events that are written.
    KafkaOut = "kafka.out." {
        topic: Option<String> = "",
            "Topic of the events whose rule says `action = \"kafka\"` or `kafka = true`, and of `kafka_lifecycle`.";
        key: bridge::Key = "user",
            "Events with the same key stay in order: those of a `user`, of a document (`room`), of a `socket`, or with the same value of a `claim`. What has \
             no user, document or claim has the socket as its key.";
        claim: Option<String> = "",
            "For `key = \"claim\"`: the claim of the token, or a JSON pointer into the claims (`/org/id`); a string or a whole number.";
        room: Option<String> = "",
            "Rooms that are documents, such as `doc-*`; `*` stands for any text. A record names the first one that its event names or its socket is in \
             (`X-Guid`). Unset: only records of `join` and `leave` name a room.";
        operator: Option<Operator> = "",
            "The word that programs shall answer with (`X-Operator`).";
        ack: KafkaAck = "gateway",
            "The ack of an event with `action = \"kafka\"` means that the `gateway` has taken it, or that `kafka` has written it to all replicas in sync.";
        waiting_max: Bytes = "32MiB",
            "Bytes of records that wait for Kafka, 512 more for each. Above it clients get the error `KAFKA_BUSY`.";
        record_max: Bytes = "1000KiB",
            "Bytes of a record. Brokers have a limit of their own (`message.max.bytes`, 1 MiB by default).";
        time: Duration = "30s",
            "A record that Kafka has not acknowledged by then is given up: clients that wait get the error `KAFKA_AWAY`.";
    }
}

table! {
    /// Topics with commands.
    KafkaIn {
        topics: Vec<String> = EMPTY_LIST,
            "Topics whose records are commands. Programs that may write to them have the rights below.";
        group: String = "sockeye",
            "Consumer group: each record goes to one of the nodes that have the same.";
        namespaces: Vec<String> = "/",
            "Namespaces that the records may speak in.";
        operators: Vec<String> = EMPTY_LIST,
            "What the records may ask for: `unicast`, `user`, `room`, `broadcast`, `internal` (join, leave, disconnect).";
        dead_letters: Option<String> = "",
            "Topic for records that are no commands, with the reason. Unset: they are counted (`lost`), logged and dropped.";
        value_max: Bytes = "1MiB",
            "Bytes of a record's value; larger ones are no commands.";
    }
}

impl KafkaIn {
    pub fn of(layer: &Layer, name: &str) -> Self {
        KafkaIn::read(layer, &[TABLES[0], TABLES[1], name])
    }

    pub fn all_keys() -> Vec<Key> {
        KafkaIn::keys("kafka.in.*")
    }
}
