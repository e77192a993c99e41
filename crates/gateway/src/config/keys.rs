//! The table of all configuration keys. It is the only place that names a key, its kind, its
//! default, and whether a reload applies it: reading, checking, `config show`, the reference page
//! and the commented example file are all made from it.

mod access;
mod auth;
mod backends;
mod cluster;
mod compat;
mod edges;
mod feed;
mod history;
mod kafka;
mod large;
mod namespaces;
mod nats;
mod operators;
mod tls;
mod traces;
mod upgrade;

use super::key::{Key, Profile, literal};
use super::layer::Layer;
use super::typed::{Bytes, NodeNumber, Section, Typed, Whole, choice, section};
use super::value::{Kind, Value};
pub use access::{Admission, LimitScope, Rates};
pub use auth::{Checks, Claims, Demands, Sources};
pub use backends::{Backend, Workers};
pub use cluster::{Adapter, Cluster, Directory, RedisMode, Routing, StartMode};
pub use compat::Compat;
pub use edges::{Origins, Proxies};
pub use feed::{Feed, TABLES as FEEDS};
pub use history::{
    AboveQuota, History, HistoryReaders, HistoryStore, HistorySync, RedisHistory, RoomHistory,
};
use hub::config::{Parser, SlowConsumer};
use hub::limits::Limits;
pub use kafka::{Kafka, KafkaAck, KafkaIn, KafkaOut, Operator, TABLES as KAFKA_INS};
pub use large::{Large, Uploads};
pub use namespaces::{
    Event, LargeEvents, Namespace, Reaction, Recovery, RecoveryLevel, RoomPresence,
};
pub use nats::{Nats, NatsAck, NatsIn, NatsOut, TABLES as NATS_INS};
pub use operators::{Admin, Pages};
use std::sync::LazyLock;
use std::time::Duration;
pub use tls::{Tls, TlsVersion, UnknownName};
pub use traces::Traces;
pub use upgrade::Upgrade;

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// Pretty on a terminal, else JSON.
    Auto,
    Json,
    Pretty,
}

choice! {
    LogFormat { "auto" => LogFormat::Auto, "json" => LogFormat::Json, "pretty" => LogFormat::Pretty }
}

choice! {
    Parser { "json" => Parser::Json, "msgpack" => Parser::Msgpack }
}

impl Typed for SlowConsumer {
    const KIND: Kind = Kind::Choice(&SlowConsumer::NAMES);
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Text(name) => SlowConsumer::from_name(name),
            _ => None,
        }
    }
}

impl Typed for Profile {
    const KIND: Kind = Kind::Choice(Profile::NAMES);
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Text(name) => Profile::from_name(name),
            _ => None,
        }
    }
}

/// Sections in the order of the reference page, each with its introduction.
pub const SECTIONS: &[(&str, &str)] = &[
    (
        "",
        "The set of defaults to start from. Every key below can still be set.",
    ),
    ("server", "Listeners, threads, shutdown."),
    (
        "tls",
        "TLS in the process, on addresses of its own. SIGHUP reads the files again; so does the \
         gateway itself when they change. Connections stay.",
    ),
    (
        "socketio",
        "Engine.IO and Socket.IO. Keys have Socket.IO's own names in snake case.",
    ),
    (
        "plain",
        "The plain WebSocket protocol (JSON text or MessagePack, see docs/protocol.md).",
    ),
    (
        "sse",
        "The plain protocol in Server-Sent Events, for clients that only listen (`GET /sse?room=…`, see docs/protocol.md).",
    ),
    (
        "heartbeat",
        "How the intervals of heartbeats grow with the number of sessions ([heartbeats.md](heartbeats.md)).",
    ),
    (
        "compression",
        "Compression of WebSocket messages (permessage-deflate) and of long-polling answers. \
                Namespaces and rooms can be left out (`namespaces`).",
    ),
    (
        "limits",
        "Bounds of the data plane. Each has a policy and a counter \
                (`sockeye_limit_hits_total{limit=...}`).",
    ),
    (
        "auth",
        "Identity of clients: tokens (JWT), the keys that check them, and their claims. See docs/operations.md.",
    ),
    (
        "rates",
        "Messages of all kinds that clients may send; unset = any number. Rules may set a rate per event besides. A message above a \
         rate is dropped, and its sender is told, in the ack too if it wants one (`sockeye_rate_limited_total{scope=...}`).",
    ),
    (
        "admission",
        "Bounds above which newcomers are asked to come later (503 with Retry-After), so that connected clients are served.",
    ),
    (
        "cluster",
        "Other nodes, and the engine between them. See docs/cluster.md.",
    ),
    (
        "cluster.directory",
        "What programs outside read in Redis of the sockets of all nodes ([directory.md](directory.md)).",
    ),
    (
        "cluster.feed",
        "Channels of Redis that programs outside share with clients, each a table `[cluster.feed.\"CHANNEL\"]` ([feed.md](feed.md)).",
    ),
    (
        "compat",
        "Servers of Node and Python in the same cluster. See docs/node-servers.md.",
    ),
    (
        "admin",
        "The operators' listener (its address is `server.admin`).",
    ),
    (
        "pages",
        "Pages that the public port serves besides realtime: the chat page, client bundles.",
    ),
    (
        "large",
        "Large events and uploads: a store keeps their bodies, and clients fetch them. See docs/large-events.md.",
    ),
    (
        "history",
        "The store of what rooms said, for programs and clients that read it. See docs/history.md.",
    ),
    ("history.redis", "Redis as that store."),
    (
        "kafka",
        "The bridge to Kafka, which packages and images have (`--features kafka`). See docs/kafka.md.",
    ),
    ("kafka.out", "Events of clients as records."),
    (
        "kafka.in",
        "Records as commands, each a table `[kafka.in.NAME]`. Its name is for the operator.",
    ),
    (
        "nats",
        "The bridge to NATS, which packages and images have (`--features nats`). See docs/nats.md.",
    ),
    ("nats.out", "Events of clients as messages."),
    (
        "nats.in",
        "Messages as commands, each a table `[nats.in.NAME]`. Its name is for the operator.",
    ),
    ("log", "One line per notable moment, on stderr."),
    (
        "traces",
        "Records for an OpenTelemetry collector. See docs/tracing.md.",
    ),
    (
        "upgrade",
        "A new process takes over live connections (`sockeye upgrade`). See docs/operations.md.",
    ),
    (
        "workers",
        "The listener for workers: programs that hold the logic of namespaces. See docs/backends.md.",
    ),
    (
        "backends",
        "Logic outside: each table `[backends.NAME]` is a backend, for which any number of workers attach.",
    ),
    (
        "namespaces",
        "Built-in rules: what a client event does without any backend.",
    ),
];

/// Names by which people look for a key, and the key they mean.
pub const ALSO_KNOWN: &[(&str, &str)] = &[
    ("max_payload", "max_http_buffer_size"),
    ("port", "listen"),
    ("bind", "listen"),
    ("address", "listen"),
    ("threads", "shards"),
    ("workers", "shards"),
    ("allowed_origins", "origins"),
    ("trust_proxy", "trusted_proxies"),
    ("real_ip_header", "client_header"),
    ("serve_client_bundle", "serve_client"),
    ("permessage_deflate", "websocket"),
    ("per_message_deflate", "websocket"),
    ("http_compression", "polling"),
    ("certificate", "cert"),
    ("cert_file", "cert"),
    ("key_file", "key"),
    ("private_key", "key"),
];

/// A list without items, as environment and table write it.
const EMPTY_LIST: &str = ",";

/// Names the sections once, in the order of the reference page.
macro_rules! settings {
    ($($field:ident: $section:ty;)*) => {
        /// Every setting that has a name of its own; those of namespaces are read by `rules`.
        #[derive(Debug)]
        pub struct Settings { $(pub $field: $section),* }

        impl Settings {
            pub fn read(layer: &Layer) -> Self {
                Self { $($field: <$section>::read(layer)),* }
            }
        }

        pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
            let sections = [$(<$section>::keys(),)* backends::Backend::all_keys(), feed::Feed::all_keys(), namespaces::keys(), RoomHistory::all_keys(), KafkaIn::all_keys(), NatsIn::all_keys()];
            sections.into_iter().flatten().collect()
        });
    };
}

settings! {
    top: Top;
    server: Server;
    proxies: Proxies;
    tls: Tls;
    socketio: SocketIo;
    origins: Origins;
    plain: Plain;
    raw: PlainRaw;
    sse: Sse;
    heartbeat: Heartbeat;
    compression: Compression;
    limits: Limits;
    policies: Policies;
    demands: Demands;
    sources: Sources;
    checks: Checks;
    claims: Claims;
    rates: Rates;
    admission: Admission;
    cluster: Cluster;
    directory: Directory;
    compat: Compat;
    admin: Admin;
    pages: Pages;
    large: Large;
    uploads: Uploads;
    history: History;
    redis_history: RedisHistory;
    kafka: Kafka;
    kafka_out: KafkaOut;
    nats: Nats;
    nats_out: NatsOut;
    log: Log;
    traces: Traces;
    upgrade: Upgrade;
    workers: Workers;
}

/// The section of the reference page that a key stands in.
pub fn section_of(key: &Key) -> &str {
    let within = |name: &&str| {
        let rest = key.path.strip_prefix(name);
        name.contains('.') && rest.is_some_and(|rest| rest.starts_with('.'))
    };
    let mut nested = SECTIONS.iter().map(|(name, _)| *name);
    let first = || key.path.split_once('.').map_or("", |(section, _)| section);
    nested.find(within).unwrap_or_else(first)
}

section! {
    /// Which set of defaults to start from.
    Top = "" {
        profile: Profile = "chat",
            "Defaults to start from: `chat` serves the chat page and its events, `socket.io` relays \
         events between Socket.IO clients, `plain` is meant for clients of the plain protocol, `public` is \
         `socket.io` with bounds per address and rates for a server that anyone can reach.";
    }
}

section! {
    /// Listeners, threads, shutdown.
    Server = "server." {
        listen: Vec<String> = "[::]:3000",
            "Public addresses, `IP:PORT`, and Unix sockets, `unix:/run/sockeye.sock`. `[::]` or no IP is every address of IPv6 and \
             IPv4 (of IPv4 only, where there is no IPv6).";
        admin: String = "127.0.0.1:9090",
            "Address of metrics and health for operators; `off` for none. Keep it private.";
        shards: Whole<0, 256> = "0",
            "Data-plane threads; 0 = one for each core.";
        pin: bool = "true",
            "Bind each data-plane thread to a core, if the process may use exactly as many cores as it has such threads. With more cores (a CPU quota \
             is no set of cores) the system places the threads, since other processes may use the same cores.";
        node: NodeNumber = "auto",
            "Number of this node in every id it makes. `auto` takes any that no other node of the cluster has, and 0 without one; `hostname` takes the number at the end of \
             the host name, as Kubernetes gives it to a StatefulSet (`sockeye-3` is node 3).";
        drain_window: Duration = "5s"
            => live(),
            "On SIGTERM, clients are told and closed evenly over this time.";
        drain_grace: Duration = "5s"
            => live(),
            "How long after the window unsent data may still flow before the process ends.";
        chat_page: bool = "false"
            => on(Profile::Chat, "true"),
            "Serve the chat page at `/`.";
    }
}

section! {
    /// Engine.IO and Socket.IO.
    SocketIo = "socketio." {
        path: String = "/socket.io/",
            "Path prefix, with both slashes.";
        allow_eio3: bool = "false",
            "Serve clients of Socket.IO 2 too, which speak Engine.IO 3. Without it they get the error `Unsupported protocol version`.";
        transports: Vec<String> = "polling,websocket",
            "Transports offered, of `polling`, `websocket` and `webtransport`. The last one needs `tls.listen`, whose ports it takes by UDP, and a build \
             with `--features webtransport`, as packages and images have it.";
        polling_user_agents: Vec<String> = EMPTY_LIST,
            "When not empty, only clients whose User-Agent contains one of these may poll.";
        ping_interval: Duration = "25s"
            => on(Profile::Plain, "30s"),
            "Time between pings.";
        ping_timeout: Duration = "20s"
            => on(Profile::Chat, "10s"),
            "Time a client has to answer.";
        max_http_buffer_size: Bytes = "1MB"
            => on(Profile::Plain, "64KiB"),
            "Largest message a client may send; told to clients as `maxPayload`.";
        parser: Parser = "json",
            "How Socket.IO packets are written: `json` as text, which clients do unless told otherwise, `msgpack` by `socket.io-msgpack-parser`. \
             Clients of one connection have one parser; those with another one are refused by the namespace. A namespace may have a parser of its own.";
        connect_timeout: Duration = "45s",
            "A session that has joined no namespace by then is closed.";
        upgrade_timeout: Duration = "10s",
            "An upgrade from polling must be complete by then.";
    }
}

section! {
    /// The plain protocol.
    Plain = "plain." {
        enabled: bool = "true",
            "Whether the protocol is served.";
        path: String = "/ws",
            "Its path. At `/` it stands beside the pages: requests without `Upgrade: websocket` are for them.";
        namespace: String = "/",
            "Namespace that its clients are in.";
        ping_interval: Duration = "30s",
            "A client that was silent for this long is sent a WebSocket ping.";
        max_payload: Bytes = "64KiB",
            "Largest message a client may send.";
    }
}

section! {
    /// WebSockets whose frames are not parsed.
    PlainRaw = "plain.raw." {
        path: Option<String> = "",
            "Path of WebSockets whose frames are not parsed, for clients that know no protocol of the gateway (docs/raw-frames.md). Each text or \
             binary frame is an event `message`, and its clients are in a room with the name of the path. `plain.enabled` does not switch it off.";
        namespace: String = "/raw",
            "Namespace of these clients. It needs no table; what its table says of `auto_join` and of the event `message` comes before the \
             keys here.";
        action: Reaction = "rooms",
            "What is done with a frame, as in a rule: `rooms` sends it on to the others at the path, `reply` back, `drop` nowhere, `backend` to the \
             namespace's backend.";
        echo: bool = "false",
            "`rooms` includes the sender.";
    }
}

section! {
    /// Server-Sent Events.
    Sse = "sse." {
        enabled: bool = "true",
            "Whether event streams are served. Their clients are in `plain.namespace`, join rooms where its rules let clients do so, and get \
             a heartbeat every `plain.ping_interval`; with `plain.enabled = false` there are none.";
        path: String = "/sse",
            "Their path.";
    }
}

section! {
    /// Heartbeats of many sessions.
    Heartbeat = "heartbeat." {
        stretch: Whole<1, 16> = "1",
            "The longest interval of a newcomer, as a multiple of `socketio.ping_interval` and `plain.ping_interval`; 1 = all intervals are as they say. \
             A session keeps the interval that it was announced.";
        per_second_max: Whole<1, 10_000_000> = "1000",
            "Heartbeats per second of this process up to which newcomers get the configured interval. Beyond, theirs is longer, so that the process \
             stays below this number when its sessions have turned over; not longer than `stretch` allows.";
    }
}

section! {
    /// What is compressed, and how.
    Compression = "compression." {
        websocket: bool = "false",
            "Agree on permessage-deflate with WebSocket clients that offer it.";
        polling: bool = "true",
            "Compress long-polling answers with gzip or deflate for clients that accept it.";
        threshold: Bytes = "1KiB",
            "Shorter messages and answers are sent as they are.";
        level: Whole<1, 9> = "6",
            "1 is fast, 9 is small.";
        window_bits: Whole<9, 15> = "15",
            "Window of the compressor as a power of two: less memory, less compression.";
        server_takeover: bool = "false",
            "Let messages to a client refer to earlier ones: smaller, at some 370 KiB for each \
             connection and a compression of its own for each broadcast. Not where \
             `slow_consumer` drops events.";
        client_takeover: bool = "false",
            "Let messages from a client refer to earlier ones, at some 48 KiB for each connection.";
    }
}

section! {
    /// What happens at a limit.
    Policies = "limits." {
        slow_consumer: SlowConsumer = "disconnect",
            "The policy for an event for which a slow client has no room (`outbox_bytes_max`): the client is \
             disconnected, the oldest events that wait are dropped, the new one is, or only the newest event \
             of each name and room waits (`conflate`). Answers and heartbeats are never dropped. A namespace \
             may have a policy of its own.";
        conns_per_address_scope: LimitScope = "node",
            "`cluster`: `conns_per_address_max` holds for all nodes together, which share it by way of Redis; `node`: for each \
             node.";
    }
}

section! {
    /// What is written where.
    Log = "log." {
        level: String = "info"
            => live(),
            "`error`, `warn`, `info`, `debug`, `trace`, or directives such as \
             `info,nodes=debug` (crates: `control`, `gateway`, `identity`, `nodes`, `workers`).";
        format: LogFormat = "auto",
            "`auto` is pretty on a terminal and JSON everywhere else.";
        connections: bool = "true",
            "A line for each client that connects or disconnects, with id, address and reason.";
    }
}

/// What a profile sets for the namespace `/` (everything else it sets is in the table above).
pub fn profile_rules(profile: Profile) -> Vec<(&'static [&'static str], &'static str)> {
    match profile {
        Profile::Chat => vec![
            (&["namespaces", "/", "chat"], "true"),
            (&["namespaces", "/", "client_joins"], "true"),
            (&["namespaces", "/", "events", "message", "action"], "rooms"),
            (&["namespaces", "/", "events", "typing", "action"], "rooms"),
        ],
        Profile::SocketIo | Profile::Plain | Profile::Public => vec![
            (&["namespaces", "/", "client_joins"], "true"),
            (&["namespaces", "/", "default", "action"], "rooms"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_key_has_its_section_and_is_named_once() {
        let mut seen = BTreeSet::new();
        for key in KEYS.iter() {
            assert!(seen.insert(key.path.as_str()), "{} twice", key.path);
            assert!(
                SECTIONS
                    .iter()
                    .any(|(section, _)| *section == section_of(key)),
                "{} has no section",
                key.path
            );
            assert!(
                key.doc.ends_with('.'),
                "{}: its line ends without a full stop",
                key.path
            );
        }
    }

    #[test]
    fn other_names_lead_to_keys_that_exist() {
        for (_, meant) in ALSO_KNOWN {
            let leaf = |key: &Key| key.segments().last() == Some(meant);
            assert!(KEYS.iter().any(leaf), "{meant}");
        }
    }

    #[test]
    fn profile_rules_use_keys_of_the_table() {
        for profile in Profile::ALL {
            for (path, text) in profile_rules(profile) {
                let key = super::super::raw::find(path).unwrap_or_else(|| panic!("{path:?}"));
                assert!(key.kind.read_bare(text).is_ok(), "{path:?}");
            }
        }
    }
}
