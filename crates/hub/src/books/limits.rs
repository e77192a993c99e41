//! Every bound of the data plane, its default and the place where it bites. Each bound has a policy and a metric
//! (`sockeye_limit_hits_total{limit=…}`).

use std::time::Duration;
pub use wire::http::{HEAD_BYTES_MAX, HEADERS_MAX, TARGET_BYTES_MAX};
pub use wire::json::DEPTH_MAX;
pub use wire::proxy::HEADER_BYTES_MAX as PROXY_HEADER_BYTES_MAX;

/// Shards that a process may have: an id names its shard in eight bits.
pub const SHARDS_MAX: usize = 256;

/// Simulations of known faults have turns that a few events fill.
const SMALL_SHARES: bool = cfg!(feature = "faults");

/// Peers are spared for at most this long while input is left unread.
pub(crate) const BEHIND_MAX_MS: u64 = 10_000;
/// Bytes of encoded output after which a turn flushes: a processor's cache holds about as much.
pub const LOG_BYTES_PER_TURN: usize = match SMALL_SHARES {
    true => 4 * 1024,
    false => 2 * 1024 * 1024,
};
/// A turn that reached its deliveries goes on until it had so many broadcasts: in huge rooms each call of the flush brings more.
pub(crate) const BROADCASTS_PER_TURN_MIN: u64 = 32;
/// Messages to other shards after which a turn ends, and their bytes: a mailbox is never filled in one turn.
pub const LETTERS_PER_TURN: usize = match SMALL_SHARES {
    true => 16,
    false => 16 * 1024,
};
pub(crate) const LETTER_BYTES_PER_TURN: usize = 4 * 1024 * 1024;
/// Bytes of lists of sockets that a turn makes or takes in: some 2,000 sockets, each of which costs a few allocations.
pub const LIST_BYTES_PER_TURN: usize = match SMALL_SHARES {
    true => 512,
    false => 256 * 1024,
};
/// Sockets of one page of a list, and bytes after which a page ends: what is said to clients waits for no more than a few pages.
pub(crate) const PAGE_SOCKETS: usize = 256;
pub(crate) const PAGE_BYTES: usize = 64 * 1024;
const _: () = assert!(
    SMALL_SHARES || PAGE_SOCKETS * 4 <= CHORES_PER_TURN && PAGE_BYTES * 4 <= LIST_BYTES_PER_TURN
);
/// What a turn does of each kind of work that no input asks for: timers of a table, late acks, ends of tokens, sockets of lists,
/// announcements of rooms, notices of a shutdown. The rest follows in the next turns, which begin at once.
pub const CHORES_PER_TURN: usize = 1024;
/// Messages of other shards that are worked on in one turn.
pub(crate) const MAILS_PER_TURN: usize = 4096;
/// Connections that may use up their rejections in one turn before other flooding connections wait for the next.
pub(crate) const FLOODS_PER_TURN: u32 = 4;

/// Defaults of the mailbox.
const MAILBOX_MESSAGES_MAX: usize = 65_536;
const MAILBOX_BYTES_MAX: usize = 64 * 1024 * 1024;

// One turn fills no mailbox, and its log is far from the end of 32-bit positions.
const _: () = assert!(LETTERS_PER_TURN * 4 <= MAILBOX_MESSAGES_MAX);
const _: () = assert!(LETTER_BYTES_PER_TURN * 4 <= MAILBOX_BYTES_MAX);
const _: () = assert!(LOG_BYTES_PER_TURN < u32::MAX as usize / 16);

/// Events kept per room.
pub const HISTORY_EVENTS_MAX: usize = 50;
/// Bytes kept per room.
pub const HISTORY_BYTES_MAX: usize = 64 * 1024;
/// Rooms with history per shard; the one least recently written makes way.
pub const HISTORY_ROOMS_MAX: usize = 10_000;
/// Rooms of an event stream that have a place in its ids: these stay within 4 KiB.
pub const POSITIONS_MAX: usize = 120;
/// Bytes kept per shard: many full rooms are fewer rooms.
pub const HISTORY_TOTAL_BYTES_MAX: usize = 64 * 1024 * 1024;
// No room takes the place of many others, and a history fits into an outbox beside what else is said.
const _: () = assert!(HISTORY_BYTES_MAX * 64 <= HISTORY_TOTAL_BYTES_MAX);
const _: () = assert!(HISTORY_BYTES_MAX * 4 <= Limits::DEFAULT.outbox_bytes_max);

/// What may wait for one connection while too much waits in the whole process.
pub(crate) const SQUEEZED_BYTES_MAX: usize = 16 * 1024;
const _: () = assert!(SQUEEZED_BYTES_MAX <= Limits::DEFAULT.outbox_bytes_max);

/// Packets of one POST body that are taken in before others have their turn.
pub(crate) const POST_PACKETS_PER_TURN: usize = 1_024;
const _: () = assert!(POST_PACKETS_PER_TURN <= Limits::DEFAULT.post_packets_max);

/// Namespaces that a session is remembered to have left. A client may join and leave any number of them; the bytes that wait in
/// its sockets name few.
pub(crate) const PARTED_MAX: usize = 32;

/// Times that a session may show a new token in a minute; if it may have more namespaces, once for each of them. There is a bound
/// because looking at a token costs more than taking a message.
pub(crate) const REFRESHES: u32 = 30;
pub(crate) const REFRESHES_PER: Duration = Duration::from_secs(60);

/// Bytes of the answers and lists that all open rounds of a shard keep, and of the lists that it makes for others. All that is above
/// it is left out, and the result says that it is not complete.
pub const ROUND_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Bytes of the acks that wait on one way: until other nodes know what their clients joined, or until a namespace's store has it.
pub(crate) const PARKED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A connection from the reserve must show within this time why it is served.
pub(crate) const RESERVE_TIMEOUT: Duration = Duration::from_secs(2);

/// Connections beyond twice the bound and this many are dropped unheard: being told is for people, not for floods.
pub(crate) const CROWD_SLACK: u32 = 16;
/// Bytes that are read and dropped after the end of a connection.
pub(crate) const IGNORED_BYTES_MAX: u32 = 256 * 1024;
/// Trusted hops that are followed back; a longer chain is a loop.
pub(crate) const HOPS_MAX: usize = 64;
/// How often the slowest readers are looked for when memory is short, and how many of them go at a time.
pub(crate) const SHED_INTERVAL_MS: u64 = 250;
pub(crate) const SHED_CONNS: usize = 16;
/// A client with less output waiting than this is not shed.
pub(crate) const SHED_BACKLOG_MIN: usize = 64 * 1024;

/// Bytes of a token. A longer one is refused before anybody is asked about it.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
const _: () = assert!(TOKEN_BYTES_MAX <= HEAD_BYTES_MAX);

/// Bounds per connection, session and shard. Bytes and counts carry their unit in the name.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// A request head that is not complete by then closes the connection.
    pub handshake_timeout: Duration,
    /// A started WebSocket message or POST body must be complete by then.
    pub message_timeout: Duration,
    /// An HTTP connection without a request is closed after this. It is longer than a heartbeat: a client whose kept-alive connection is
    /// cut while it posts a pong takes that for a transport error.
    pub keep_alive_timeout: Duration,
    /// A peer that does not answer our close frame is cut after this.
    pub close_timeout: Duration,
    /// Fragments of one WebSocket message.
    pub fragments_max: u32,
    /// Unsent bytes per connection; above it the slow-consumer policy acts.
    pub outbox_bytes_max: usize,
    /// Unsent bytes of the whole process, each event counted once however many wait for it; 0 = any number. Above it what may
    /// wait for one connection shrinks to 16 KiB.
    pub waiting_bytes_max: usize,
    /// Attachments of one packet.
    pub attachments_max: usize,
    /// Packets in one polling payload the server sends, unless the client is JavaScript's (python-engineio refuses more than 16).
    pub poll_packets_max: usize,
    /// Packets in one POST body.
    pub post_packets_max: usize,
    /// Rooms one socket may be in.
    pub rooms_per_socket_max: usize,
    /// Bytes of a room name.
    pub room_name_bytes_max: usize,
    /// Refused namespaces before the session is closed.
    pub namespace_refusals_max: u8,
    /// Namespaces one session may be connected to.
    pub sockets_per_session_max: usize,
    /// Outstanding server-side ack requests per shard.
    pub acks_outstanding_max: usize,
    /// Questions to the control plane without an answer, per shard; a client about whom none can be asked is refused.
    pub asks_outstanding_max: usize,
    /// Bytes that all questions without an answer keep, per shard: tokens, CONNECT payloads, packets that came after them and wait.
    pub ask_bytes_max: usize,
    /// Bytes of packets that one client may send to a namespace before its CONNECT is decided.
    pub gate_bytes_max: usize,
    /// Connections from one address (IPv6: one /64), over all shards; 0 = any number. One more is closed with 1008.
    pub conns_per_address_max: u32,
    /// Rejected messages, less those accepted since, after which a session that floods is closed with 1008.
    pub flood_rejections_max: u16,
    /// Connections of the process; above it new ones get 503 + Retry-After.
    pub conns_max: usize,
    /// Messages waiting in the mailbox of one shard; above it connections that send to it wait until it is shorter.
    pub mailbox_messages_max: usize,
    /// Bytes of these messages; the same happens above it.
    pub mailbox_bytes_max: usize,
    /// Bytes of events that all shards together keep for clients that may come back.
    pub journal_bytes_max: usize,
    /// Sockets without a transport that all shards together keep; the one that would end first makes way.
    pub parked_sockets_max: usize,
    /// WebSocket connections per shard that may keep a compression window; the next ones agree on compression without.
    pub takeover_contexts_max: usize,
    /// Deliveries of one turn before its output is flushed and other connections get their turn.
    pub deliveries_per_turn: usize,
    /// Rejected messages of one connection per turn; what it sent after them waits.
    pub rejections_per_turn: u32,
    /// Bytes read from one connection per turn (fairness, F30).
    pub read_bytes_per_turn: usize,
    /// Steps of TLS handshakes between two turns. But for one step they also get no more time than the turn took, so that established
    /// connections do not wait for the arithmetic of newcomers.
    pub tls_handshakes_per_turn: usize,
}

impl Limits {
    /// What holds where nothing is configured.
    pub const DEFAULT: Self = Self {
        handshake_timeout: Duration::from_secs(10),
        message_timeout: Duration::from_secs(30),
        keep_alive_timeout: Duration::from_secs(75),
        close_timeout: Duration::from_secs(5),
        fragments_max: 16_384,
        outbox_bytes_max: 1024 * 1024,
        waiting_bytes_max: 512 * 1024 * 1024,
        attachments_max: wire::socketio::ATTACHMENTS_MAX,
        poll_packets_max: 16,
        post_packets_max: 65_536,
        rooms_per_socket_max: 1_000,
        room_name_bytes_max: 256,
        namespace_refusals_max: 32,
        sockets_per_session_max: 32,
        acks_outstanding_max: 500_000,
        asks_outstanding_max: 10_000,
        ask_bytes_max: 32 * 1024 * 1024,
        gate_bytes_max: 64 * 1024,
        conns_per_address_max: 0,
        flood_rejections_max: 1_000,
        conns_max: 1_000_000,
        mailbox_messages_max: MAILBOX_MESSAGES_MAX,
        mailbox_bytes_max: MAILBOX_BYTES_MAX,
        journal_bytes_max: 256 * 1024 * 1024,
        parked_sockets_max: 100_000,
        takeover_contexts_max: 1_000,
        deliveries_per_turn: 65_536,
        rejections_per_turn: 64,
        read_bytes_per_turn: 64 * 1024,
        tls_handshakes_per_turn: 32,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

// One client's packets before a gate leave room for many others', and one slow reader's output for many others'.
const _: () = assert!(Limits::DEFAULT.gate_bytes_max * 64 <= Limits::DEFAULT.ask_bytes_max);
const _: () = assert!(Limits::DEFAULT.outbox_bytes_max * 64 <= Limits::DEFAULT.waiting_bytes_max);
// A whole read fits into what a connection may be sent, if all of it is answered.
const _: () = assert!(Limits::DEFAULT.read_bytes_per_turn <= Limits::DEFAULT.outbox_bytes_max);
// A client that is shed can have so much waiting.
const _: () = assert!(SHED_BACKLOG_MIN <= Limits::DEFAULT.outbox_bytes_max);
