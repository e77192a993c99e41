//! The table of all configuration keys. It is the only place that names a key, its kind, its
//! default, and whether a reload applies it: reading, checking, `config show`, the reference page
//! and the commented example file are all made from it.

mod access;
mod auth;
mod edges;
mod operators;
mod tls;

use super::bounds;
use super::value::{Kind, Value};
use std::sync::LazyLock;

/// A set of defaults for one use of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    Chat,
    SocketIo,
    Plain,
    Public,
}

impl Profile {
    pub const ALL: [Profile; 4] = [
        Profile::Chat,
        Profile::SocketIo,
        Profile::Plain,
        Profile::Public,
    ];
    pub const NAMES: &'static [&'static str] = &["chat", "socket.io", "plain", "public"];

    pub fn name(self) -> &'static str {
        match self {
            Profile::Chat => "chat",
            Profile::SocketIo => "socket.io",
            Profile::Plain => "plain",
            Profile::Public => "public",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Profile::ALL
            .into_iter()
            .find(|profile| profile.name() == name)
    }
}

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// On SIGHUP.
    Live,
    /// At the next start.
    Restart,
}

#[derive(Debug)]
pub struct Key {
    /// `section.key`; a `*` stands for a name the operator chooses.
    pub path: String,
    pub kind: Kind,
    /// None: unset unless the operator sets it.
    pub default: Option<Value>,
    pub profiles: Vec<(Profile, Value)>,
    pub reload: Reload,
    pub doc: &'static str,
}

/// Sections in the order of the reference page, each with its introduction.
pub const SECTIONS: &[(&str, &str)] = &[
    (
        "",
        "Which set of defaults to start from; every key below can still be set.",
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
        "compression",
        "Compression of WebSocket messages (permessage-deflate) and of long-polling answers. \
                What must stay uncompressed is marked per namespace.",
    ),
    (
        "limits",
        "Bounds of the data plane. Each has a policy and a counter \
                (`sockeye_limit_hits_total{limit=...}`).",
    ),
    (
        "auth",
        "Who clients are: tokens (JWT), the keys they are checked with, and what they say. See docs/operations.md.",
    ),
    (
        "rates",
        "Messages that clients may send, whatever they are; unset = any number. Rules may set a rate per event besides. Who \
         passes a rate is told, in the ack too if one is wanted, and the message dropped (`sockeye_rate_limited_total{scope=...}`).",
    ),
    (
        "admission",
        "When newcomers are asked to come later (503 with Retry-After), so that those who are here are served.",
    ),
    (
        "admin",
        "The operators' listener (its address is `server.admin`).",
    ),
    (
        "pages",
        "What the public port serves besides realtime: the chat page, client bundles.",
    ),
    ("log", "One line per notable moment, on stderr."),
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

pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let groups = [
        top(),
        server(),
        edges::proxies(),
        tls::keys(),
        socketio(),
        edges::socketio_access(),
        plain(),
        compression(),
        limits(),
        auth::keys(),
        access::rates(),
        access::admission(),
        operators::keys(),
        log(),
        namespaces(),
    ];
    groups.into_iter().flatten().collect()
});

impl Key {
    fn new(path: &str, kind: Kind, default: &str, doc: &'static str) -> Self {
        let default = (!default.is_empty()).then(|| literal(path, kind, default));
        Key {
            path: path.to_owned(),
            kind,
            default,
            profiles: Vec::new(),
            reload: Reload::Restart,
            doc,
        }
    }

    fn live(mut self) -> Self {
        self.reload = Reload::Live;
        self
    }

    fn on(mut self, profile: Profile, default: &str) -> Self {
        self.profiles
            .push((profile, literal(&self.path, self.kind, default)));
        self
    }

    /// The default under `profile`.
    pub fn default_on(&self, profile: Profile) -> Option<&Value> {
        let own = self.profiles.iter().find(|(name, _)| *name == profile);
        own.map(|(_, value)| value).or(self.default.as_ref())
    }

    /// The default as a cell of a table: `` `20s`; chat: `10s` ``.
    pub fn default_cell(&self, shown: impl Fn(&Value) -> String) -> String {
        let shown = |value| format!("`{}`", shown(value));
        let usual = self.default.as_ref().map_or("–".to_owned(), &shown);
        self.profiles.iter().fold(usual, |cell, (profile, value)| {
            format!("{cell}; {}: {}", profile.name(), shown(value))
        })
    }

    pub fn section(&self) -> &str {
        self.path.split_once('.').map_or("", |(section, _)| section)
    }

    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.path.split('.')
    }

    /// Whether the operator chooses a part of the path.
    pub fn is_pattern(&self) -> bool {
        self.segments().any(|segment| segment == "*")
    }
}

/// A default from this table. Wrong ones can not reach a release: a test reads the whole table.
fn literal(path: &str, kind: Kind, text: &str) -> Value {
    match kind.read_bare(text) {
        Ok(value) => value,
        Err(error) => panic!("default of {path}: {error}"),
    }
}

fn top() -> Vec<Key> {
    vec![Key::new(
        "profile",
        Kind::Choice(Profile::NAMES),
        "chat",
        "Defaults to start from: `chat` serves the chat page and its events, `socket.io` relays \
         events between Socket.IO clients, `plain` is meant for clients of the plain protocol, `public` is \
         `socket.io` with bounds per address and rates for a server that anyone can reach.",
    )]
}

fn server() -> Vec<Key> {
    vec![
        Key::new(
            "server.listen",
            Kind::List,
            "[::]:3000",
            "Public addresses, `IP:PORT`, and Unix sockets, `unix:/run/sockeye.sock`. `[::]` or no IP is every address of IPv6 and \
             IPv4 (of IPv4 only, where there is no IPv6).",
        ),
        Key::new(
            "server.admin",
            Kind::Text,
            "127.0.0.1:9090",
            "Address of metrics and health for operators; `off` for none. Keep it private.",
        ),
        Key::new(
            "server.shards",
            Kind::Integer { min: 0, max: 256 },
            "0",
            "Data-plane threads; 0 = one for each core.",
        ),
        Key::new(
            "server.pin",
            Kind::Bool,
            "true",
            "Bind each data-plane thread to a core.",
        ),
        Key::new(
            "server.node",
            Kind::Node,
            "0",
            "Number of this node in every id it makes. `hostname` takes the number at the end of \
             the host name, as Kubernetes gives it to a StatefulSet (`sockeye-3` is node 3).",
        ),
        Key::new(
            "server.drain_window",
            Kind::Duration,
            "5s",
            "On SIGTERM, clients are told and closed evenly over this time.",
        )
        .live(),
        Key::new(
            "server.drain_grace",
            Kind::Duration,
            "5s",
            "How long after the window unsent data may still flow before the process ends.",
        )
        .live(),
        Key::new(
            "server.chat_page",
            Kind::Bool,
            "false",
            "Serve the chat page at `/`.",
        )
        .on(Profile::Chat, "true"),
    ]
}

fn socketio() -> Vec<Key> {
    vec![
        Key::new(
            "socketio.path",
            Kind::Text,
            "/socket.io/",
            "Path prefix, with both slashes.",
        ),
        Key::new(
            "socketio.transports",
            Kind::List,
            "polling,websocket",
            "Transports offered; `[\"websocket\"]` switches long-polling off.",
        ),
        Key::new(
            "socketio.polling_user_agents",
            Kind::List,
            EMPTY_LIST,
            "When not empty, only clients whose User-Agent contains one of these may poll.",
        ),
        Key::new(
            "socketio.ping_interval",
            Kind::Duration,
            "25s",
            "Time between pings.",
        )
        .on(Profile::Plain, "30s"),
        Key::new(
            "socketio.ping_timeout",
            Kind::Duration,
            "20s",
            "Time a client has to answer.",
        )
        .on(Profile::Chat, "10s"),
        Key::new(
            "socketio.max_http_buffer_size",
            Kind::Size,
            "1MB",
            "Largest message a client may send; told to clients as `maxPayload`.",
        )
        .on(Profile::Plain, "64KiB"),
        Key::new(
            "socketio.connect_timeout",
            Kind::Duration,
            "45s",
            "A session that has joined no namespace by then is closed.",
        ),
        Key::new(
            "socketio.upgrade_timeout",
            Kind::Duration,
            "10s",
            "An upgrade from polling to WebSocket must be complete by then.",
        ),
    ]
}

fn plain() -> Vec<Key> {
    vec![
        Key::new(
            "plain.enabled",
            Kind::Bool,
            "true",
            "Whether the protocol is served.",
        ),
        Key::new("plain.path", Kind::Text, "/ws", "Its path."),
        Key::new(
            "plain.namespace",
            Kind::Text,
            "/",
            "Namespace that its clients are in.",
        ),
        Key::new(
            "plain.ping_interval",
            Kind::Duration,
            "30s",
            "A client that was silent for this long is sent a WebSocket ping.",
        ),
        Key::new(
            "plain.max_payload",
            Kind::Size,
            "64KiB",
            "Largest message a client may send.",
        ),
    ]
}

fn compression() -> Vec<Key> {
    vec![
        Key::new(
            "compression.websocket",
            Kind::Bool,
            "false",
            "Agree on permessage-deflate with WebSocket clients that offer it.",
        ),
        Key::new(
            "compression.polling",
            Kind::Bool,
            "true",
            "Compress long-polling answers with gzip or deflate for clients that accept it.",
        ),
        Key::new(
            "compression.threshold",
            Kind::Size,
            "1KiB",
            "Shorter messages and answers are sent as they are.",
        ),
        Key::new(
            "compression.level",
            Kind::Integer { min: 1, max: 9 },
            "6",
            "1 is fast, 9 is small.",
        ),
        Key::new(
            "compression.window_bits",
            Kind::Integer { min: 9, max: 15 },
            "15",
            "Window of the compressor as a power of two: less memory, less compression.",
        ),
        Key::new(
            "compression.server_takeover",
            Kind::Bool,
            "false",
            "Let messages to a client refer to earlier ones: smaller, at some 370 KiB for each \
             connection and a compression of its own for each broadcast. Not while `slow_consumer` \
             is `drop-oldest`.",
        ),
        Key::new(
            "compression.client_takeover",
            Kind::Bool,
            "false",
            "Let messages from a client refer to earlier ones, at some 48 KiB for each connection.",
        ),
    ]
}

fn limits() -> Vec<Key> {
    let bounds = bounds::all().into_iter().map(|bound| Key {
        path: format!("limits.{}", bound.name),
        kind: bound.kind,
        default: Some(bound.default),
        profiles: Vec::new(),
        reload: Reload::Restart,
        doc: bound.doc,
    });
    let bounds = bounds.map(|key| match key.path.as_str() {
        "limits.conns_per_address_max" => key.on(Profile::Public, "10"),
        _ => key,
    });
    let policy = Key::new(
        "limits.slow_consumer",
        Kind::Choice(&["disconnect", "drop-oldest"]),
        "disconnect",
        "What happens to a client that reads so slowly that `outbox_bytes_max` is reached.",
    );
    bounds.chain([policy]).collect()
}

fn log() -> Vec<Key> {
    vec![
        Key::new(
            "log.level",
            Kind::Text,
            "info",
            "`error`, `warn`, `info`, `debug`, `trace`, or directives such as \
             `info,control=debug`.",
        )
        .live(),
        Key::new(
            "log.format",
            Kind::Choice(&["auto", "json", "pretty"]),
            "auto",
            "`auto` is pretty on a terminal and JSON everywhere else.",
        ),
        Key::new(
            "log.connections",
            Kind::Bool,
            "true",
            "A line for each client that connects or disconnects, with id, address and reason.",
        ),
    ]
}

fn namespaces() -> Vec<Key> {
    let mut keys = vec![
        Key::new(
            "namespaces.*.chat",
            Kind::Bool,
            "false",
            "The chat events: every socket is in room `global`, `chat-message` is checked, stamped with an \
             id and sent to its room, members are told how many they are.",
        ),
        Key::new(
            "namespaces.*.client_joins",
            Kind::Bool,
            "false",
            "Clients may emit `join` and `leave` with the name of a room.",
        ),
        Key::new(
            "namespaces.*.auto_join",
            Kind::List,
            EMPTY_LIST,
            "Rooms that every socket is put into when it connects.",
        ),
        Key::new(
            "namespaces.*.compression",
            Kind::Bool,
            "true",
            "`false`: nothing of this namespace is ever compressed. For messages that hold a secret \
             beside text of other people.",
        ),
        Key::new(
            "namespaces.*.uncompressed_rooms",
            Kind::List,
            EMPTY_LIST,
            "The same for some rooms only.",
        ),
    ];
    keys.extend(event_keys("namespaces.*.default", "drop"));
    keys.extend(event_keys("namespaces.*.events.*", "rooms"));
    keys
}

/// A rule for one event, or for all events without a rule of their own.
fn event_keys(prefix: &str, action: &str) -> Vec<Key> {
    let key = |name: &str, kind, default: &str, doc| {
        Key::new(&format!("{prefix}.{name}"), kind, default, doc)
    };
    vec![
        key(
            "action",
            Kind::Choice(&["rooms", "reply", "backend", "drop"]),
            action,
            "`rooms` sends the event on to the members of a room, `reply` back to its sender, \
             `drop` nowhere; `backend` is for a later release. For `chat-message`, `join` and `leave` an action \
             replaces what the gateway does itself; a rule without one refines it.",
        ),
        key(
            "room",
            Kind::Text,
            "",
            "Room for `rooms`; unset means every room the sender is in.",
        ),
        key(
            "room_field",
            Kind::Text,
            "",
            "Member of the first argument (an object) by which a client names the room for `rooms`; plain clients may \
             also say `room` beside the payload.",
        ),
        key("echo", Kind::Bool, "false", "`rooms` includes the sender."),
        key(
            "schema",
            Kind::Json,
            "",
            "JSON Schema that the first argument must fulfil.",
        ),
        key(
            "schema_file",
            Kind::Text,
            "",
            "The same from a file, relative to this one.",
        ),
        key(
            "rate",
            Kind::Rate,
            "",
            "Events that one socket may send; more are refused. `\"100/60s fixed\"`: nothing more in the same 60 seconds; \
             without `fixed`, what was used comes back evenly. `chat-message` of `chat` has `\"10/s\"` if nothing is set.",
        ),
        key(
            "history",
            Kind::Bool,
            "false",
            "Keep recent events of the room for late joiners; those with binary attachments are not kept.",
        ),
    ]
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
                    .any(|(section, _)| *section == key.section()),
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
