//! `[nats]`: servers; `[nats.out]`: the subjects of events; `[nats.in.NAME]`: a subject with commands.

use super::namespaces::table;
use super::{EMPTY_LIST, Key, Operator};
use crate::config::layer::{Layer, Path};
use crate::config::typed::{Bytes, Field, Typed, Whole, choice, section};
use control::bridge;
use control::nats::Mode;
use std::time::Duration;

/// The place of the tables.
pub const TABLES: [&str; 2] = ["nats", "in"];

/// What the ack of a client means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsAck {
    Gateway,
    Nats,
}

choice! {
    NatsAck { "gateway" => NatsAck::Gateway, "nats" => NatsAck::Nats }
    Mode { "core" => Mode::Core, "jetstream" => Mode::JetStream }
}

section! {
    /// The servers.
    Nats = "nats." {
        urls: Vec<String> = EMPTY_LIST,
            "Servers of one cluster, `nats://HOST:PORT` or `tls://HOST:PORT`. Empty: there is no bridge.";
        credentials_file: Option<String> = "",
            "File with a JWT and a seed, as `nsc` writes it. It is read anew for each connection.";
        user: Option<String> = "",
            "Name of a user with a password.";
        password_file: Option<String> = "",
            "File with the password of `user`. It is read anew for each connection.";
        tls: bool = "false",
            "No connection without TLS, whatever the URL says.";
        ca_file: Option<String> = "",
            "Authorities whose certificates the gateway trusts besides the system's, PEM.";
        cert_file: Option<String> = "",
            "The gateway's own certificate for the servers, PEM.";
        key_file: Option<String> = "",
            "The key of `cert_file`, PEM.";
    }
}

section! {
    /// Events that are published.
    NatsOut = "nats.out." {
        subject: Option<String> = "",
            "Subject of the events whose rule says `action = \"nats\"` or `nats = true`, and of `nats_lifecycle`, such as `sockeye.{namespace}.{name}`: \
             the tokens in braces are the event's namespace and its name.";
        mode: Mode = "jetstream",
            "`jetstream`: a stream keeps each event, once. `core`: whoever listens gets it, and what is sent while the connection ends is lost.";
        key: bridge::Key = "user",
            "Events with the same key stay in order: those of a `user`, of a document (`room`) or of a `socket`. What has no user or document has the \
             socket as its key. With `mode = \"core\"` all events of a node stay in order.";
        room: Option<String> = "",
            "Rooms that are documents, such as `doc-*`; `*` stands for any text. A message names the first one that its event names or its socket is in \
             (`X-Guid`). Unset: only messages of `join` and `leave` name a room.";
        operator: Option<Operator> = "",
            "The word that programs shall answer with (`X-Operator`).";
        ack: NatsAck = "gateway",
            "The ack of an event with `action = \"nats\"` means that the `gateway` has taken it, or that a stream of `nats` has it.";
        waiting_max: Bytes = "32MiB",
            "Bytes of messages that wait for NATS, 512 more for each. Above it clients get the error `NATS_BUSY`.";
        record_max: Bytes = "1000KiB",
            "Bytes of a message. Servers have a limit of their own (`max_payload`, 1 MiB by default).";
        time: Duration = "30s",
            "A message that no stream has acknowledged by then is given up: clients that wait get the error `NATS_AWAY`. `1m` at most: a stream knows \
             repeats for `duplicate_window`, 2 minutes by default.";
    }
}

table! {
    /// A subject with commands.
    NatsIn {
        subject: Option<String> = "",
            "Subject whose messages are commands; `*` and `>` stand for others. Programs that may publish to it have the rights below.";
        stream: Option<String> = "",
            "Stream of JetStream that has the subject: each command is carried out at least once. Unset: core NATS, at most once.";
        group: String = "sockeye",
            "Durable consumer of the stream, or queue group: each message goes to one of the nodes that have the same.";
        pending_max: Whole<1, 65_536> = "4096",
            "Messages of the stream that are handed out to nodes and not acknowledged. With 1, commands of the stream are carried out one after the other.";
        namespaces: Vec<String> = "/",
            "Namespaces that the messages may speak in.";
        operators: Vec<String> = EMPTY_LIST,
            "What the messages may ask for: `unicast`, `user`, `room`, `broadcast`, `internal` (join, leave, disconnect).";
        dead_letters: Option<String> = "",
            "Subject for messages that are no commands, with the reason. Unset: they are counted (`lost`), logged and dropped.";
        value_max: Bytes = "1MiB",
            "Bytes of a message's value; larger ones are no commands.";
    }
}

impl NatsIn {
    pub fn of(layer: &Layer, name: &str) -> Self {
        NatsIn::read(layer, &[TABLES[0], TABLES[1], name])
    }

    pub fn all_keys() -> Vec<Key> {
        NatsIn::keys("nats.in.*")
    }
}
