//! What a hub is told at start. Plain data: files, environment and flags are the binary's business.

use crate::books::heartbeat::{Step, Stretch};
use crate::books::limits::Limits;
use crate::books::proxies::Proxies;
use crate::bounds::BEHIND_MAX_MS;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Paths of health checks, which are answered on a full node too.
pub const PROBES: [&str; 2] = ["/health", "/ready"];

/// Settings shared by all hubs of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Nobody gets in yet: each newcomer is told to come again.
    pub closed: bool,
    /// Path prefix of Engine.IO, with both slashes: `/socket.io/`.
    pub socketio_path: String,
    /// Socket.IO clients of protocol 3 are served too (those of Socket.IO 2).
    pub allow_eio3: bool,
    /// Path of the plain WebSocket protocol: `/ws`; `None` switches it off.
    pub plain_path: Option<String>,
    /// Path of the plain protocol in Server-Sent Events: `/sse`; `None` switches it off.
    pub sse_path: Option<String>,
    /// Path of a bare Engine.IO echo-style endpoint (conformance application); `None` in the product.
    pub engineio_path: Option<String>,
    /// Path of a bare WebSocket endpoint whose messages go to the handler as they are (conformance application); `None` in the product.
    pub raw_path: Option<String>,
    /// Namespace that plain sockets join.
    pub plain_namespace: String,
    /// The path on which frames are not parsed; `None` = none.
    pub plain_raw: Option<PlainRaw>,
    /// Parser of Socket.IO clients.
    pub parser: Parser,
    /// Parsers of namespaces whose clients have another one.
    pub parsers: BTreeMap<String, Parser>,
    /// How Socket.IO clients may connect.
    pub transports: Transports,
    /// Time between two pings (advertised as pingInterval), before it grows with the number of sessions.
    pub ping_interval: Duration,
    /// Time in which a ping is to be answered (advertised as pingTimeout).
    pub ping_timeout: Duration,
    /// Plain protocol: RFC 6455 ping after this much silence.
    pub plain_ping_interval: Duration,
    /// The growth of both intervals with the number of sessions.
    pub stretch: Stretch,
    /// A session without any namespace is closed after this (Socket.IO connectTimeout).
    pub connect_timeout: Duration,
    /// Time that a probing WebSocket has to take over.
    pub upgrade_timeout: Duration,
    /// Largest message from a Socket.IO client, bytes (advertised as maxPayload).
    pub max_payload: usize,
    /// Largest message from a plain client, bytes.
    pub plain_max_payload: usize,
    /// Header lines for browsers of other origins.
    pub cors: Cors,
    /// Names of header lines that pages of other origins may send; empty = those that they ask for.
    pub cors_headers: Vec<String>,
    /// How long browsers may keep the answer to a preflight.
    pub cors_max_age: Duration,
    /// Allow-list for the Origin header on WebSocket and polling (403 otherwise), see [`crate::access::origin`]; empty = any.
    pub origins: Vec<String>,
    /// Proxies that may speak for others.
    pub proxies: Proxies,
    /// What happens to events for which a slow client has no room.
    pub slow_consumer: SlowConsumer,
    /// What happens instead to events of these namespaces.
    pub slow_consumers: BTreeMap<String, SlowEvents>,
    /// Keep headers, query and auth of each session for handlers (costs memory per connection).
    pub keep_handshake: bool,
    /// Compression of what is sent.
    pub compression: Compression,
    /// Whether tokens are looked at.
    pub auth: Auth,
    /// Messages that clients may send.
    pub rates: Rates,
    /// Limits that hold for all nodes together.
    pub cluster_scope: ClusterScope,
    /// Namespaces whose clients come back to what they missed.
    pub recovery: Recovery,
    /// Rooms whose members are told who is there, by namespace; `*`: all that are not named, `None`: not this one.
    pub presence: BTreeMap<String, Option<Arc<PresenceOf>>>,
    /// Namespaces whose members may see nothing that was said before they joined.
    pub since_join: BTreeSet<String>,
    /// When newcomers are asked to come later.
    pub admission: Admission,
    /// The bounds.
    pub limits: Limits,
}

/// The namespaces whose Socket.IO clients get their socket back, and what they missed, when they come again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// `*`: all that are not named; `None`: not this one.
    pub namespaces: BTreeMap<String, Option<Recover>>,
}

/// Recovery in one namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recover {
    /// A socket without a transport is kept for so long.
    pub window: Duration,
    /// The clients that it is for.
    pub offsets: Offsets,
    /// Its clients may come back to another node.
    pub goes_abroad: bool,
    /// All that is said there stands in one stream outside of the nodes, which all of them read: clients may come back when their node
    /// died.
    pub chronicle: bool,
    /// What is written there counts as stored when so many replicas of the store have it.
    pub replicas: u16,
}

named! {
    /// The clients that get an offset as one more argument of each event, and so can come back.
    pub enum Offsets {
        /// All that speak Socket.IO.
        All = "all",
        /// Those that open their session with `recovery=1` in the query.
        Asked = "asked",
    }
}

impl Recovery {
    /// Recovery in a namespace, if it has any.
    #[inline]
    pub fn of(&self, namespace: &str) -> Option<&Recover> {
        if self.namespaces.is_empty() {
            return None;
        }
        let named = self.namespaces.get(namespace);
        named.or_else(|| self.namespaces.get("*"))?.as_ref()
    }

    /// Whether clients of any namespace may come back to another node.
    pub fn goes_abroad(&self) -> bool {
        let mut recovering = self.namespaces.values().flatten();
        recovering.any(|recover| recover.goes_abroad)
    }

    /// The namespaces that have a stream.
    pub fn chronicled(&self) -> impl Iterator<Item = (&str, &Recover)> {
        let recovering = self.namespaces.iter();
        let recovering =
            recovering.filter_map(|(name, recover)| Some((&**name, recover.as_ref()?)));
        recovering.filter(|(_, recover)| recover.chronicle)
    }

    /// The longest window of all; `None`: no namespace has recovery.
    pub fn window(&self) -> Option<Duration> {
        let recovering = self.namespaces.values().flatten();
        recovering.map(|recover| recover.window).max()
    }
}

/// The rooms of a namespace whose members are told who is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceOf {
    /// Their names; `*` in a name stands for any text.
    pub rooms: Vec<String>,
    /// For so long a member whose connections were lost is believed to come back.
    pub grace: Duration,
    /// Above so many members of a room there are no names.
    pub members_max: u32,
    /// Members of a socket's data that others may see, each with its quotes.
    pub info: Vec<String>,
}

impl PresenceOf {
    pub(crate) fn fits(&self, room: &str) -> bool {
        self.rooms.iter().any(|pattern| units::fits(pattern, room))
    }
}

/// A WebSocket endpoint whose frames are events ([`crate::RAW_EVENT`]) as they are, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainRaw {
    /// Its path.
    pub path: String,
    /// Namespace of its sockets.
    pub namespace: String,
}

/// Whether and how clients show who they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Tokens are looked at.
    pub enabled: bool,
    /// Nobody without a token gets in.
    pub required: bool,
    /// How a client learns that it is not let in.
    pub style: AuthStyle,
    /// Query parameter that may hold the token.
    pub query_parameter: String,
    /// How long a client waits for the verdict.
    pub timeout: Duration,
    /// How long before its token ends a client is warned.
    pub warn_before: Duration,
}

/// How a client learns that it is not let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthStyle {
    /// It is connected, told by an event `error`, and disconnected.
    Chat,
    /// CONNECT_ERROR.
    Strict,
}

/// Messages that clients may send, whatever they are; `None` = any number. Rules may set a rate per event besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// One connection or polling session.
    pub session: Option<Rate>,
    /// All sockets of one user, over all shards.
    pub user: Option<Rate>,
    /// All connections of one address (IPv6: one /64), over all shards.
    pub address: Option<Rate>,
    /// New sessions from one address.
    pub connects: Option<Rate>,
    /// Count what would be rejected, and let it pass.
    pub dry_run: bool,
}

/// Limits that hold for all nodes of a cluster together; the others hold for each node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterScope {
    /// [`Limits::conns_per_address_max`].
    pub conns_per_address: bool,
    /// [`Rates::connects`].
    pub connects: bool,
    /// [`Rates::user`].
    pub user: bool,
    /// [`Rates::address`].
    pub address: bool,
    /// Key of the numbers that stand for users, the same on all nodes.
    pub secret: [u64; 2],
}

/// When newcomers are asked to come later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Mean duration of a turn; zero = no bound.
    pub turn_max: Duration,
    /// Mean time that a question to the control plane stays open; zero = no bound.
    pub ask_max: Duration,
    /// Memory of the process, percent of what it may have; 0 = no bound.
    pub memory_percent_max: u8,
    /// Memory from which on the slowest readers are closed, percent; 0 = never.
    pub memory_percent_shed: u8,
}

impl Default for Auth {
    fn default() -> Self {
        Self {
            enabled: false,
            required: false,
            style: AuthStyle::Strict,
            query_parameter: "token".into(),
            timeout: Duration::from_secs(5),
            warn_before: Duration::from_secs(60),
        }
    }
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            turn_max: Duration::from_millis(500),
            ask_max: Duration::from_secs(2),
            memory_percent_max: 90,
            memory_percent_shed: 95,
        }
    }
}

/// How Socket.IO clients may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transports {
    /// WebSocket.
    pub websocket: bool,
    /// HTTP long-polling.
    pub polling: bool,
    /// WebTransport, where a carrier brings its streams.
    pub webtransport: bool,
    /// When not empty, polling is only for User-Agents that contain one of these (case-insensitive).
    pub polling_user_agents: Vec<String>,
}

/// The pages of other origins that may call (CORS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cors {
    /// Nobody: no header lines are sent.
    Off,
    /// Everybody, without credentials.
    Any,
    /// These origins (see [`crate::access::origin`]), echoed, with credentials.
    Origins(Vec<String>),
}

/// How Socket.IO packets are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parser {
    /// As text, which all clients have unless told otherwise.
    Json,
    /// As MessagePack, by `socket.io-msgpack-parser`.
    Msgpack,
}

named! {
    /// What happens to an event for which a slow client has no room (`outbox_bytes_max`). Answers and heartbeats are never dropped.
    pub enum SlowConsumer {
        /// The client is disconnected.
        Disconnect = "disconnect",
        /// The oldest events are dropped.
        DropOldest = "drop-oldest",
        /// The event is dropped.
        DropNewest = "drop-newest",
        /// Of events with the same key only the newest waits; when there are too many keys, the oldest events are dropped.
        Conflate = "conflate",
    }
}

impl SlowConsumer {
    /// The policy of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [
            Self::Disconnect,
            Self::DropOldest,
            Self::DropNewest,
            Self::Conflate,
        ];
        let mut known = all.into_iter().zip(Self::NAMES);
        known
            .find(|(_, own)| *own == name)
            .map(|(policy, _)| policy)
    }
}

/// What happens to a namespace's events that a slow client has no room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowEvents {
    /// What happens to them.
    pub policy: SlowConsumer,
    /// Member of an event's first argument that, with the event's name and room, is its key for [`SlowConsumer::Conflate`].
    pub key: Option<String>,
}

/// Compression of WebSocket messages (RFC 7692) and of answers to polls.
#[derive(Clone, Debug, PartialEq)]
pub struct Compression {
    /// permessage-deflate is agreed on with clients that offer it.
    pub websocket: bool,
    /// Answers to polls are compressed for clients that accept it.
    pub polling: bool,
    /// Shorter messages go out as they are, bytes.
    pub threshold: usize,
    /// 1 (fast) to 9 (small).
    pub level: u8,
    /// Window of the compressor, base-2 logarithm, 9 to 15.
    pub window_bits: u8,
    /// Keep a window of what was sent to a client, if it agrees. Not where events may be dropped: later ones would refer to them.
    pub server_takeover: bool,
    /// Let clients refer to what they sent before, which costs a window to inflate with.
    pub client_takeover: bool,
    /// What is never compressed.
    pub exempt: Exempt,
}

/// What is never compressed: the length of a compressed message tells whether a secret in it occurs in the attacker's text
/// beside it (CRIME, BREACH).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exempt {
    /// Namespaces, with all their rooms.
    pub namespaces: BTreeSet<String>,
    /// Rooms by namespace.
    pub rooms: BTreeMap<String, BTreeSet<String>>,
}

impl Exempt {
    /// A message of this namespace that goes to any of these rooms stays as it is.
    pub(crate) fn holds(&self, namespace: &str, rooms: &[&str]) -> bool {
        if self.namespaces.is_empty() && self.rooms.is_empty() {
            return false;
        }
        let marked = self.rooms.get(namespace);
        self.namespaces.contains(namespace)
            || marked.is_some_and(|marked| rooms.iter().any(|room| marked.contains(*room)))
    }
}

/// So many events in so much time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The number of events.
    pub events: u32,
    /// The time for that number.
    pub per: Duration,
    /// Time is cut into windows of `per`, and what a window has is all there is until it ends. Otherwise what was used comes
    /// back evenly: after a burst, one event for each `per / events`.
    pub fixed: bool,
}

impl Rate {
    /// A rate whose events come back evenly.
    pub const fn new(events: u32, per: Duration) -> Self {
        Self {
            events,
            per,
            fixed: false,
        }
    }

    /// The same rate, in windows.
    #[must_use]
    pub const fn fixed(self) -> Self {
        Self {
            fixed: true,
            ..self
        }
    }
}

impl Default for Compression {
    fn default() -> Self {
        Self {
            websocket: false,
            polling: true,
            threshold: 1024,
            level: 6,
            window_bits: 15,
            server_takeover: false,
            client_takeover: false,
            exempt: Exempt::default(),
        }
    }
}

impl Config {
    /// The parser that clients of a namespace have.
    pub(crate) fn parser_of(&self, namespace: &str) -> Parser {
        self.parsers.get(namespace).copied().unwrap_or(self.parser)
    }

    /// Clients with that parser find a namespace.
    pub(crate) fn speaks(&self, parser: Parser) -> bool {
        self.parser == parser || self.parsers.values().any(|own| *own == parser)
    }

    /// What happens to events of this namespace, and the member that is their key.
    pub(crate) fn slow_events(&self, namespace: &str) -> (SlowConsumer, Option<&str>) {
        match self.slow_consumers.get(namespace) {
            Some(slow) => (slow.policy, slow.key.as_deref()),
            None => (self.slow_consumer, None),
        }
    }

    /// Events of some namespace may be dropped.
    pub fn drops_events(&self) -> bool {
        let policies = self.slow_consumers.values().map(|slow| slow.policy);
        policies
            .chain([self.slow_consumer])
            .any(|policy| policy != SlowConsumer::Disconnect)
    }

    /// The interval that a session of Engine.IO was announced.
    pub fn ping_interval(&self, step: Step) -> Duration {
        self.stretch.interval(self.ping_interval, step)
    }

    /// The interval of a plain client or event stream.
    pub fn plain_ping_interval(&self, step: Step) -> Duration {
        self.stretch.interval(self.plain_ping_interval, step)
    }

    /// The longest time between two heartbeats of a live session: an interval, a pong that was given an extension, and twice
    /// what a shard that is behind puts off.
    pub(crate) fn heartbeat_gap_max(&self, step: Step) -> Duration {
        let put_off = Duration::from_millis(BEHIND_MAX_MS);
        let interval = self.ping_interval.max(self.plain_ping_interval);
        let interval = self.stretch.interval(interval, step);
        interval.saturating_add(2 * (self.ping_timeout + put_off))
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            closed: false,
            socketio_path: "/socket.io/".into(),
            allow_eio3: false,
            plain_path: Some("/ws".into()),
            sse_path: Some("/sse".into()),
            engineio_path: None,
            raw_path: None,
            plain_namespace: "/".into(),
            plain_raw: None,
            parser: Parser::Json,
            parsers: BTreeMap::new(),
            transports: Transports {
                websocket: true,
                polling: true,
                webtransport: false,
                polling_user_agents: Vec::new(),
            },
            ping_interval: Duration::from_secs(25),
            ping_timeout: Duration::from_secs(20),
            plain_ping_interval: Duration::from_secs(30),
            stretch: Stretch::default(),
            connect_timeout: Duration::from_secs(45),
            upgrade_timeout: Duration::from_secs(10),
            max_payload: 1_000_000,
            plain_max_payload: 64 * 1024,
            cors: Cors::Off,
            cors_headers: Vec::new(),
            cors_max_age: Duration::from_secs(600),
            origins: Vec::new(),
            proxies: Proxies::default(),
            slow_consumer: SlowConsumer::Disconnect,
            slow_consumers: BTreeMap::new(),
            keep_handshake: false,
            compression: Compression::default(),
            auth: Auth::default(),
            rates: Rates::default(),
            cluster_scope: ClusterScope::default(),
            recovery: Recovery::default(),
            presence: BTreeMap::new(),
            since_join: BTreeSet::new(),
            admission: Admission::default(),
            limits: Limits::default(),
        }
    }
}
