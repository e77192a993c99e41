//! Counters of one shard: plain numbers while the shard works, published before and after the flush into cells that the
//! exporter reads.
//! One writer, relaxed stores, a cache line of its own: counting costs an addition.

use crate::books::claims::Denied;
use crate::books::close::CloseReason;
use crate::books::config::SlowConsumer;
use crate::books::ledger::Stock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Upper bounds of the message duration histogram, milliseconds; a last bucket takes the rest.
pub const DURATION_BOUNDS_MS: [f64; 6] = [0.1, 5.0, 15.0, 50.0, 100.0, 500.0];

/// Upper bounds of the turn duration histogram, microseconds; a last bucket takes the rest.
pub const TURN_BOUNDS_US: [u64; 8] = [50, 200, 1_000, 5_000, 20_000, 100_000, 500_000, 2_000_000];

/// The forms in which events are delivered, by `Variant`.
pub const VARIANTS: [&str; 11] = [
    "websocket",
    "websocket_base64",
    "polling",
    "plain_json",
    "plain_msgpack",
    "websocket_msgpack",
    "polling_msgpack",
    "event_stream",
    "plain_raw",
    "websocket_eio3",
    "polling_eio3",
];

named! {
    /// A bound of `limits.rs` that bit.
    pub enum Limit {
        /// A request head is larger, or has more lines, than a head may be.
        HeadBytes = "head_bytes",
        /// A message or body is larger than `max_payload`.
        Payload = "payload",
        /// A message comes in more fragments than one may have.
        Fragments = "fragments",
        /// A slow client has no room for more.
        OutboxBytes = "outbox_bytes",
        /// A packet announces more attachments than one may have.
        Attachments = "attachments",
        /// A POST brings more packets than one may bring.
        PostPackets = "post_packets",
        /// A socket is in as many rooms as it may be.
        RoomsPerSocket = "rooms_per_socket",
        /// A room's name is empty or too long.
        RoomName = "room_name",
        /// A client was refused by more namespaces than it may try.
        NamespaceRefusals = "namespace_refusals",
        /// A session is in as many namespaces as it may be.
        SocketsPerSession = "sockets_per_session",
        /// Too many answers of clients are waited for.
        AcksOutstanding = "acks_outstanding",
        /// The process has as many connections as it may have.
        Conns = "conns",
        /// The mailbox of another shard is long.
        Mailbox = "mailbox",
        /// A rate has nothing left.
        Rate = "rate",
        /// A request head was not complete in time.
        HandshakeTimeout = "handshake_timeout",
        /// A message or body was not complete in time.
        MessageTimeout = "message_timeout",
        /// A client joined no namespace in time.
        ConnectTimeout = "connect_timeout",
        /// A turn delivered its share, and other connections had their turn.
        DeliveriesPerTurn = "deliveries_per_turn",
        /// A turn rejected its share of messages of one connection.
        RejectionsPerTurn = "rejections_per_turn",
        /// As many connections keep a window of compression as may.
        TakeoverContexts = "takeover_contexts",
        /// Too many questions are open.
        AsksOutstanding = "asks_outstanding",
        /// A question was not answered in time.
        AskTimeout = "ask_timeout",
        /// Open questions keep as many bytes as they may.
        AskBytes = "ask_bytes",
        /// A client sent too much while its CONNECT was undecided.
        GateBytes = "gate_bytes",
        /// An address has as many connections as one may have.
        ConnsPerAddress = "conns_per_address",
        /// A client went on sending far beyond its rate.
        Flood = "flood",
        /// Newcomers wait because turns are long.
        AdmissionTurn = "admission_turn",
        /// Newcomers wait because questions stay open for long.
        AdmissionAsk = "admission_ask",
        /// Newcomers wait because memory is short.
        AdmissionMemory = "admission_memory",
        /// A slow client was closed because memory is short.
        MemoryShed = "memory_shed",
        /// A client had less room than usual, because too much waits in the whole process.
        WaitingBytes = "waiting_bytes",
        /// A client went on sending after its end, and is not read any more.
        Ignored = "ignored",
    }
}

named! {
    /// The outcome for a client that came back and showed which socket it had.
    pub enum Returned {
        /// It has its socket again, and all that it missed.
        Recovered = "recovered",
        /// Nobody keeps such a socket: its window is over, it was disconnected, or the client made it up.
        Unknown = "unknown",
        /// Another connection takes it, or took it.
        Claimed = "claimed",
        /// Its token names another user.
        OtherUser = "other_user",
        /// Part of what it missed is not kept any more.
        Trimmed = "trimmed",
        /// It missed more than may wait for one client.
        TooMuch = "too_much",
        /// It was disconnected while it was on its way.
        Disconnected = "disconnected",
        /// Other shards did not answer in time.
        Late = "late",
        /// Not all nodes of the cluster could take part.
        Nodes = "nodes",
    }
}

named! {
    /// The owner of a rate.
    pub enum Scope {
        /// One session.
        Session = "session",
        /// One user.
        User = "user",
        /// One address.
        Address = "address",
        /// One address, with its new sessions.
        Connects = "connects",
        /// A rule, with one event.
        Event = "event",
    }
}

named! {
    /// Why a message of a client came to nothing.
    pub enum Dropped {
        /// It could not be read, or came when nothing could be made of it.
        Invalid = "invalid",
        /// A rate had nothing left.
        Rate = "rate",
        /// The handler refused it, and its sender was told.
        Refused = "refused",
        /// A rule says that events of this name go nowhere.
        Rule = "rule",
        /// No rule knows events of this name.
        Unknown = "unknown",
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The shard's own numbers.
        #[derive(Clone, Debug, Default)]
        pub(crate) struct Counts {
            $($(#[$doc])* pub(crate) $name: u64,)*
            pub(crate) limits: [u64; Limit::NAMES.len()],
            pub(crate) closes: [u64; CloseReason::ALL.len()],
            pub(crate) durations: [u64; DURATION_BOUNDS_MS.len() + 1],
            pub(crate) turn_times: [u64; TURN_BOUNDS_US.len() + 1],
            pub(crate) delivered: [u64; VARIANTS.len()],
            pub(crate) denied: [u64; Denied::ALL.len()],
            pub(crate) rated: [u64; Scope::NAMES.len()],
            pub(crate) dropped: [u64; Dropped::NAMES.len()],
            pub(crate) dropped_slow: [u64; SlowConsumer::NAMES.len()],
            pub(crate) returned: [u64; Returned::NAMES.len()],
            pub(crate) kept: [u64; Stock::NAMES.len()],
        }

        /// What the exporter reads: one per shard.
        #[derive(Debug, Default)]
        // A processor fetches lines of 64 bytes in pairs: two shards must not write to one pair.
        #[repr(align(128))]
        pub struct Cells {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// Times a limit bit, by `Limit`.
            pub limits: [AtomicU64; Limit::NAMES.len()],
            /// Sessions and connections ended, by `CloseReason`.
            pub closes: [AtomicU64; CloseReason::ALL.len()],
            /// Messages by the time from readiness to flush (`DURATION_BOUNDS_MS`, not cumulative).
            pub durations: [AtomicU64; DURATION_BOUNDS_MS.len() + 1],
            /// Turns by their length (`TURN_BOUNDS_US`, not cumulative).
            pub turn_times: [AtomicU64; TURN_BOUNDS_US.len() + 1],
            /// Events delivered, by `VARIANTS`.
            pub delivered: [AtomicU64; VARIANTS.len()],
            /// A turn has begun and not ended: what is `true` for long is a shard that hangs.
            pub in_turn: AtomicBool,
            /// Tokens that granted nothing, by `Denied`.
            pub denied: [AtomicU64; Denied::ALL.len()],
            /// Messages and connects over a rate, by `Scope`, whether rejected or (dry run) not.
            pub rated: [AtomicU64; Scope::NAMES.len()],
            /// Messages of clients that came to nothing, by `Dropped`.
            pub dropped: [AtomicU64; Dropped::NAMES.len()],
            /// Events dropped for slow clients, by `SlowConsumer`.
            pub dropped_slow: [AtomicU64; SlowConsumer::NAMES.len()],
            /// Clients that came back, by `Returned`.
            pub returned: [AtomicU64; Returned::NAMES.len()],
            /// Bytes that are kept for somebody now, by `Stock`.
            pub kept: [AtomicU64; Stock::NAMES.len()],
            /// Counted by the shard itself.
            pub tls: crate::books::tls::TlsCells,
        }

        impl Cells {
            pub(crate) fn publish(&self, counts: &Counts) {
                $(self.$name.store(counts.$name, Ordering::Relaxed);)*
                store(&self.limits, &counts.limits);
                store(&self.closes, &counts.closes);
                store(&self.durations, &counts.durations);
                store(&self.turn_times, &counts.turn_times);
                store(&self.delivered, &counts.delivered);
                store(&self.denied, &counts.denied);
                store(&self.rated, &counts.rated);
                store(&self.dropped, &counts.dropped);
                store(&self.dropped_slow, &counts.dropped_slow);
                store(&self.returned, &counts.returned);
                store(&self.kept, &counts.kept);
            }
        }
    };
}

fn store<const N: usize>(cells: &[AtomicU64; N], counts: &[u64; N]) {
    for (cell, count) in cells.iter().zip(counts) {
        cell.store(*count, Ordering::Relaxed);
    }
}

counters! {
    /// Connections open now.
    conns,
    /// Connections accepted.
    accepted,
    /// Connections and requests asked to come later or elsewhere: a limit, a rate, a shutdown.
    shed,
    /// Requests refused because they were wrong.
    refused,
    /// WebSocket connections open now.
    websockets,
    /// Streams of WebTransport open now that have, or are to have, a session.
    webtransports,
    /// Sessions alive now.
    sessions,
    /// Sockets (namespace memberships) alive now.
    sockets,
    /// Sockets connected so far.
    connects,
    /// Sockets disconnected so far.
    disconnects,
    /// Sessions sent away in a pause of their client.
    dismissed,
    /// Sessions sent away although their client never paused.
    dismissed_busy,
    /// Rooms alive now (named ones, ids not counted).
    rooms,
    /// Messages received from clients.
    messages_in,
    /// Events delivered to clients.
    deliveries,
    /// Broadcasts begun on this shard.
    broadcasts,
    /// Bytes received.
    bytes_in,
    /// Bytes sent.
    bytes_out,
    /// Write calls.
    writes,
    /// Volatile events dropped because the client was not writable.
    dropped_volatile,
    /// Events left out because the client's transport cannot carry them.
    dropped_unfit,
    /// Bytes that wait in outboxes and polling queues, each event counted once.
    waiting_bytes,
    /// Messages that are not of the plain protocol.
    invalid_messages,
    /// Server-side acks outstanding now.
    acks_outstanding,
    /// Turns taken.
    turns,
    /// Messages waiting in the mailbox at the last turn.
    mailbox,
    /// Messages sent to other shards.
    relayed,
    /// Letters for other nodes.
    sent_away,
    /// Letters refused because too much waits for other nodes.
    away_refused,
    /// Commands of buses that were carried out here before.
    repeats,
    /// Joins that other nodes did not confirm in time.
    joins_unconfirmed,
    /// Connections moved to other shards.
    moved,
    /// Handler failures.
    handler_panics,
    /// Sum of the message durations, microseconds.
    duration_us,
    /// Accepting stopped because no file descriptor was free.
    accept_pauses,
    /// Time spent in turns, microseconds.
    busy_us,
    /// WebSocket connections open now that agreed on compression.
    deflate_websockets,
    /// Of these, how many keep a window from message to message.
    takeover_contexts,
    /// Messages and answers to polls compressed; a broadcast counts once.
    deflated_messages,
    /// Their bytes before.
    deflated_bytes_before,
    /// Their bytes after.
    deflated_bytes_after,
    /// Compressed messages received.
    inflated_messages,
    /// Their bytes as received.
    inflated_bytes_before,
    /// Their bytes once inflated.
    inflated_bytes_after,
    /// Of these messages, how many were too big or no deflate data.
    inflate_errors,
    /// Questions to the control plane open now.
    asks_outstanding,
    /// Questions answered or given up.
    asks_answered,
    /// Sum of the time they were open, milliseconds.
    ask_ms,
    /// Tokens that were good.
    auth_ok,
    /// Newcomers turned away by the admission bounds.
    admission_refused,
    /// Heartbeats sent: pings, and comments in event streams.
    heartbeats,
    /// Sockets without a transport that are kept for their clients now.
    parked,
    /// Bytes of these.
    parked_bytes,
    /// Such sockets that made way for others.
    parked_crowded,
    /// Bytes of events kept for clients that may come back.
    journal_bytes,
    /// Events that clients missed and got when they came back.
    replayed,
    /// Entries of journals that were read for them.
    replay_reads,
    /// Sockets that were told that something is missing.
    gaps_told,
}

impl Counts {
    pub(crate) fn close(&mut self, reason: CloseReason) {
        self.closes[reason as usize] += 1;
    }

    /// Events were dropped for slow clients, so many by each policy.
    pub(crate) fn lose(&mut self, dropped: &[u64; SlowConsumer::NAMES.len()]) {
        for (sum, count) in self.dropped_slow.iter_mut().zip(dropped) {
            *sum += count;
        }
    }

    pub(crate) fn hit(&mut self, limit: Limit) {
        self.limits[limit as usize] += 1;
    }

    pub(crate) fn drop_message(&mut self, why: Dropped) {
        self.dropped[why as usize] += 1;
    }

    /// Books a turn that took `us` microseconds and the messages in it.
    pub(crate) fn turn_took(&mut self, us: u64, messages: u64) {
        let bucket = TURN_BOUNDS_US.iter().position(|bound| us <= *bound);
        self.turn_times[bucket.unwrap_or(TURN_BOUNDS_US.len())] += 1;
        self.turns += 1;
        self.busy_us += us;
        if messages == 0 {
            return;
        }
        let ms = us as f64 / 1000.0;
        let bucket = DURATION_BOUNDS_MS.iter().position(|bound| ms <= *bound);
        self.durations[bucket.unwrap_or(DURATION_BOUNDS_MS.len())] += messages;
        self.duration_us += us * messages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// What two shards write to at the same time must not lie in one cache line, nor in one pair of lines that a processor
    /// fetches together (128 bytes); the reference counts of an `Arc`, which the exporter writes to, neither.
    #[test]
    fn shards_share_no_cache_line() {
        assert_eq!(align_of::<Cells>(), 128);
        assert_eq!(size_of::<Cells>() % 128, 0);
        let (cells, other) = (Arc::new(Cells::default()), Arc::new(Cells::default()));
        let (a, b) = (Arc::as_ptr(&cells).addr(), Arc::as_ptr(&other).addr());
        assert_eq!((a % 128, b % 128), (0, 0));
        assert!(a.abs_diff(b) >= size_of::<Cells>() + 128);
    }

    #[test]
    fn a_turn_is_booked_in_the_bucket_of_its_length() {
        let mut counts = Counts::default();
        counts.turn_took(50, 0);
        counts.turn_took(51, 3);
        counts.turn_took(9_000_000, 1);
        assert_eq!(counts.turn_times, [1, 1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!((counts.turns, counts.busy_us), (3, 9_000_101));
        assert_eq!(counts.durations, [3, 0, 0, 0, 0, 0, 1]);
        assert_eq!(counts.duration_us, 3 * 51 + 9_000_000);
    }

    #[test]
    fn what_is_counted_is_published() {
        let (cells, mut counts) = (Cells::default(), Counts::default());
        counts.hit(Limit::Payload);
        counts.delivered[2] = 7;
        counts.turn_took(300, 2);
        cells.publish(&counts);
        let value = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        assert_eq!(value(&cells.limits[Limit::Payload as usize]), 1);
        assert_eq!(value(&cells.delivered[2]), 7);
        assert_eq!(
            (value(&cells.turn_times[2]), value(&cells.durations[1])),
            (1, 2)
        );
        assert_eq!((value(&cells.turns), value(&cells.busy_us)), (1, 300));
    }
}
