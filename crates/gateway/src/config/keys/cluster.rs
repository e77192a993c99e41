//! `[cluster]`: other nodes, and the engine between them.

use super::EMPTY_LIST;
use crate::config::typed::{Bytes, Whole, choice, section};
use identity::Secret;
use std::time::Duration;

/// The carrier of messages between nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapter {
    /// There are no other nodes.
    Memory,
    Redis,
    Nats,
}

/// How the Redis servers belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedisMode {
    Single,
    Sentinel,
    Cluster,
}

/// What a node does while Redis cannot be reached at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartMode {
    Wait,
    Fail,
}

/// The nodes that get a message for a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    Registry,
    Broadcast,
}

choice! {
    Adapter { "memory" => Adapter::Memory, "redis" => Adapter::Redis, "nats" => Adapter::Nats }
    RedisMode { "single" => RedisMode::Single, "sentinel" => RedisMode::Sentinel, "cluster" => RedisMode::Cluster }
    StartMode { "wait" => StartMode::Wait, "fail" => StartMode::Fail }
    Routing { "registry" => Routing::Registry, "broadcast" => Routing::Broadcast }
}

section! {
    /// The directory for programs outside.
    Directory = "cluster.directory." {
        enabled: bool = "false",
            "Write to Redis which sockets there are, whose they are, and in which documents, for programs outside (docs/directory.md).";
        documents: Vec<String> = EMPTY_LIST,
            "Rooms that are documents: names, in which `*` stands for any text, such as `\"doc:*\"`.";
        renew: Duration = "5m",
            "Each entry is written again this often. Keys that nobody renews end after three times as long. At least `30s`.";
    }
}

section! {
    /// Other nodes, and the engine between them.
    Cluster = "cluster." {
        adapter: Adapter = "memory",
            "The carrier of messages between nodes: `redis`, `nats` (docs/nats.md), or `memory` for a node that is alone.";
        urls: Vec<String> = EMPTY_LIST,
            "Servers of Redis (6.2 or newer) or Valkey, as `redis://HOST:PORT`, or `rediss://HOST:PORT` for TLS. Of Sentinels or a \
             cluster, some are enough. Or those of one cluster of NATS, `nats://HOST:PORT` or `tls://HOST:PORT`.";
        mode: RedisMode = "single",
            "`single`, `sentinel` (`urls` are those of Sentinels) or `cluster` (Redis 7.0 or newer).";
        master: String = "mymaster",
            "The name by which Sentinels know the master.";
        user: Option<String> = "",
            "User at Redis or NATS; unset means the default user.";
        password: Option<Secret> = "",
            "Its password.";
        credentials_file: Option<String> = "",
            "With `nats`, in place of `user` and `password`: a file with a JWT and a seed, as `nsc` writes it. It is read anew for each connection.";
        jetstream_domain: Option<String> = "",
            "With `nats`: the domain of the JetStream that keeps the numbers of nodes, the same on all nodes. Servers behind leaf nodes need it.";
        start: StartMode = "wait",
            "While the servers cannot be reached at the start: `wait` tries again for `start_timeout`; `/health` is 200 meanwhile, `/ready` is 503, and \
             clients are told to come again. `fail` ends the process at once, as wrong credentials and missing rights always do.";
        start_timeout: Duration = "10m",
            "With `start = \"wait\"`: a node that is not in the cluster after this time ends with code 1.";
        tls_ca: Option<String> = "",
            "PEM file with the authorities to trust for `rediss://` and `tls://`; unset means those of the machine.";
        tls_cert: Option<String> = "",
            "PEM file with this node's own certificate, if the servers ask for one.";
        tls_key: Option<String> = "",
            "PEM file with the key of `tls_cert`.";
        prefix: String = "sockeye:",
            "Beginning of the names of all channels and keys. Nodes with the same prefix are one cluster. With `nats`: letters, digits, `-` and \
             `_`, and a colon at its end.";
        secret: Option<Secret> = "",
            "Messages between nodes carry a code made with it, and those without are refused: 32 random characters or more, the same on all \
             nodes. Without it, a program that can publish to the servers can speak for every node.";
        relay_listen: String = "auto",
            "Where other nodes bring requests for sessions of this one, as `IP:PORT`: no sticky sessions are needed then. `auto`: a free \
             port of the address by which this machine reaches the servers; `off`: such requests are answered as of unknown sessions. \
             It needs `secret`.";
        relay_advertise: Option<String> = "",
            "`IP:PORT` by which other nodes reach `relay_listen`; unset means that very address.";
        relay_tls: bool = "true",
            "Connections to `relay_listen` are encrypted (TLS 1.3), without certificates: this process makes a key at its start and shows it to \
             the other nodes under `secret`. Turn it off where the network encrypts.";
        relays_max: Whole<1, 65_536> = "65536",
            "Connections that this node relays to others at once. Each takes two descriptors of those that clients have.";
        routing: Routing = "registry",
            "`registry`: a message goes to the nodes that have members of its room. `broadcast`: to all nodes, if one has some.";
        join_wait: Duration = "1s",
            "Longest time that the answer to a CONNECT and the ack of a join wait for all nodes to know of the new member, from `1s` to `5s`. After \
             that the others have noticed that they hear nothing, and send everything.";
        frame_letters: Whole<1, 64> = "64",
            "Most messages of clients in one message to the engine, for measurements: leave it alone. Under load, messages wait for each other for up to \
             0.5 ms; with `1`, each goes alone and at once.";
        ring_bytes: Bytes = "64MiB",
            "Messages kept for nodes that miss some. It must hold what is sent while the engine fails over.";
        queue_bytes: Bytes = "32MiB",
            "Bytes that may wait for the engine. Above it, publishers are told that other nodes cannot be reached.";
    }
}
