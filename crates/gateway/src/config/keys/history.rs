//! `[history]`: the store of what rooms said; `[namespaces.NAME.history]`: of which rooms, how much, and who may read it.

use super::Key;
use super::cluster::RedisMode;
use super::namespaces::{NAMESPACE, table};
use crate::config::layer::{Layer, Path};
use crate::config::typed::{Bytes, Field, Typed, Whole, choice, section};
use identity::Secret;
use std::time::Duration;

/// Where events are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryStore {
    Memory,
    Disk,
    Redis,
    Postgres,
}

/// When the folder's files are written through to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistorySync {
    Always,
    Second,
    Os,
}

/// The clients that may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryReaders {
    Nobody,
    Members,
    SinceJoin,
}

/// What happens above a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AboveQuota {
    Oldest,
    Refuse,
}

choice! {
    HistoryStore {
        "memory" => HistoryStore::Memory, "disk" => HistoryStore::Disk, "redis" => HistoryStore::Redis, "postgres" => HistoryStore::Postgres,
    }
    HistorySync { "always" => HistorySync::Always, "second" => HistorySync::Second, "os" => HistorySync::Os }
    AboveQuota { "oldest" => AboveQuota::Oldest, "refuse" => AboveQuota::Refuse }
    HistoryReaders { "nobody" => HistoryReaders::Nobody, "members" => HistoryReaders::Members, "since_join" => HistoryReaders::SinceJoin }
}

section! {
    /// The store.
    History = "history." {
        store: Option<HistoryStore> = "",
            "Where the events of namespaces with `history.stored` are kept, so that programs and clients can read them: in `memory`, in files on this \
             node's `disk`, in `redis` or in `postgres`. Unset: rooms only keep the last of them for those who join.";
        folder: String = "history",
            "Folder of the `disk` store, relative to this file. One process has it at a time.";
        sync: HistorySync = "second",
            "The `disk` store writes through to the disk with each batch (`always`), every `second`, or when the `os` does. An event counts as \
             stored after that with `always`, before it otherwise: a power cut may take the last second.";
        url: Option<Secret> = "",
            "Address of the server, with user and password: `postgres://user:password@host/database`, `redis://host:6379`, or `rediss://` for TLS. \
             Several of Redis, separated by commas; of Sentinels or a cluster some are enough. Better placed in the environment \
             (`SOCKEYE__HISTORY__URL`).";
        memory_max: Bytes = "256MiB",
            "Bytes that the `memory` store may hold. What is oldest makes way.";
        waiting_max: Bytes = "32MiB",
            "Bytes of events that wait for the store. Above it events are not stored, which is counted; members get them all the same.";
    }
}

section! {
    /// Redis as the store.
    RedisHistory = "history.redis." {
        mode: RedisMode = "single",
            "`single`, `sentinel` (`history.url` has the addresses of Sentinels, with user and password of the servers behind them) or `cluster` \
             (Redis 7.0 or newer).";
        master: String = "mymaster",
            "The name by which Sentinels know the master.";
        replicas: Option<Whole<0, 16>> = "",
            "An event counts as stored when so many replicas have it, so that a failover loses none; with fewer it is tried again. Unset: 1 with \
             `sentinel` and `cluster`, 0 with `single`.";
        tls_ca: Option<String> = "",
            "PEM file with the authorities to trust for `rediss://`; unset means those of the machine.";
        tls_cert: Option<String> = "",
            "PEM file with this node's own certificate, if Redis asks for one.";
        tls_key: Option<String> = "",
            "PEM file with the key of `tls_cert`.";
    }
}

table! {
    /// The rooms of a namespace that are stored.
    RoomHistory {
        stored: bool = "false",
            "Events with `history` are also put into `history.store`, from which they can be read (docs/history.md).";
        rooms: Vec<String> = "*",
            "Rooms that are stored; `*` in a name stands for any text.";
        events: Whole<1, 1_000_000_000> = "10000",
            "Events that each room keeps. Older ones make way.";
        bytes: Bytes = "16MiB",
            "Bytes that each room keeps, likewise.";
        age: Duration = "7d",
            "Older events are removed.";
        quota_bytes: Option<Bytes> = "",
            "Bytes that all rooms of the namespace keep together. Looked at every 5 seconds. Not with `redis`.";
        quota_rooms: Option<Whole<1, 1_000_000_000>> = "",
            "Rooms of the namespace that keep events; one more has the room make way that has been silent for longest. Not with `redis`.";
        above_quota: AboveQuota = "oldest",
            "The `oldest` events of the namespace make way for `quota_bytes`, or new ones are not stored (`refuse`), which is counted; members get them \
             all the same.";
        readers: HistoryReaders = "nobody",
            "`members` of a room may read all that is stored of it, by the event `history` with an ack; `since_join`: what was said since they joined, \
             and they get nothing kept when they join. `nobody`: only programs, by the server API.";
    }
}

impl RoomHistory {
    pub fn of(layer: &Layer, namespace: &str) -> Self {
        RoomHistory::read(layer, &["namespaces", namespace, "history"])
    }

    pub fn all_keys() -> Vec<Key> {
        RoomHistory::keys(&format!("{NAMESPACE}.history"))
    }
}
