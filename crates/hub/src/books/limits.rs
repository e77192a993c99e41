//! Every bound of the data plane that a setting changes, and its default. Each has a policy and a metric (`sockeye_limit_hits_total{limit=…}`).

use crate::bounds::{
    HISTORY_BYTES_MAX, MAILBOX_BYTES_MAX, MAILBOX_MESSAGES_MAX, POST_PACKETS_PER_TURN,
    SHED_BACKLOG_MIN, SQUEEZED_BYTES_MAX,
};
use std::time::Duration;

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
    /// Unsent bytes per connection, beside one message that is larger; above it the slow-consumer policy acts.
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
// A room's history fits into an outbox beside what else is said.
const _: () = assert!(HISTORY_BYTES_MAX * 4 <= Limits::DEFAULT.outbox_bytes_max);
// What bounds a connection in need, or a turn, bounds less than the setting.
const _: () = assert!(SQUEEZED_BYTES_MAX <= Limits::DEFAULT.outbox_bytes_max);
const _: () = assert!(POST_PACKETS_PER_TURN <= Limits::DEFAULT.post_packets_max);
