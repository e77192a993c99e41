//! Counters of one shard: plain numbers while the shard works, published once a turn into cells that the exporter reads.
//! One writer, relaxed stores, a cache line of its own: counting costs an addition.

use crate::close::CloseReason;
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the message duration histogram, milliseconds; a last bucket takes the rest.
pub const DURATION_BOUNDS_MS: [f64; 6] = [0.1, 5.0, 15.0, 50.0, 100.0, 500.0];

/// A bound of `limits.rs` that bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Limit {
    HeadBytes,
    Payload,
    Fragments,
    OutboxBytes,
    Attachments,
    PostPackets,
    RoomsPerSocket,
    RoomName,
    NamespaceRefusals,
    SocketsPerSession,
    AcksOutstanding,
    Conns,
    Mailbox,
    Rate,
    HandshakeTimeout,
    MessageTimeout,
    ConnectTimeout,
    DeliveriesPerTurn,
}

impl Limit {
    pub const NAMES: [&'static str; 18] = [
        "head_bytes",
        "payload",
        "fragments",
        "outbox_bytes",
        "attachments",
        "post_packets",
        "rooms_per_socket",
        "room_name",
        "namespace_refusals",
        "sockets_per_session",
        "acks_outstanding",
        "conns",
        "mailbox",
        "rate",
        "handshake_timeout",
        "message_timeout",
        "connect_timeout",
        "deliveries_per_turn",
    ];
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
        }

        /// What the exporter reads: one per shard.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct Cells {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// Times a limit bit, by `Limit`.
            pub limits: [AtomicU64; Limit::NAMES.len()],
            /// Sessions and connections ended, by `CloseReason`.
            pub closes: [AtomicU64; CloseReason::ALL.len()],
            /// Messages by the time from readiness to flush (`DURATION_BOUNDS_MS`, not cumulative).
            pub durations: [AtomicU64; DURATION_BOUNDS_MS.len() + 1],
        }

        impl Cells {
            pub(crate) fn publish(&self, counts: &Counts) {
                $(self.$name.store(counts.$name, Ordering::Relaxed);)*
                for (cell, count) in self.limits.iter().zip(&counts.limits) {
                    cell.store(*count, Ordering::Relaxed);
                }
                for (cell, count) in self.closes.iter().zip(&counts.closes) {
                    cell.store(*count, Ordering::Relaxed);
                }
                for (cell, count) in self.durations.iter().zip(&counts.durations) {
                    cell.store(*count, Ordering::Relaxed);
                }
            }
        }
    };
}

counters! {
    /// Connections open now.
    conns,
    /// Connections accepted.
    accepted,
    /// Connections refused or shed.
    shed,
    /// WebSocket connections open now.
    websockets,
    /// Sessions alive now.
    sessions,
    /// Sockets (namespace memberships) alive now.
    sockets,
    /// Sockets connected so far.
    connects,
    /// Sockets disconnected so far.
    disconnects,
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
    /// Events dropped by the slow-consumer policy.
    dropped_slow,
    /// Messages from clients dropped by a rule, limit or because they were invalid.
    dropped_in,
    /// Server-side acks outstanding now.
    acks_outstanding,
    /// Turns taken.
    turns,
    /// Messages waiting in the mailbox at the last turn.
    mailbox,
    /// Messages sent to other shards.
    relayed,
    /// Connections moved to other shards.
    moved,
    /// Handler failures.
    handler_panics,
    /// Sum of the message durations, microseconds.
    duration_us,
    /// Accepting stopped because no file descriptor was free.
    accept_pauses,
}

impl Counts {
    pub(crate) fn hit(&mut self, limit: Limit) {
        self.limits[limit as usize] += 1;
    }

    /// Books the messages of a turn that took `us` microseconds.
    pub(crate) fn turn_took(&mut self, us: u64, messages: u64) {
        let ms = us as f64 / 1000.0;
        let bucket = DURATION_BOUNDS_MS.iter().position(|bound| ms <= *bound);
        self.durations[bucket.unwrap_or(DURATION_BOUNDS_MS.len())] += messages;
        self.duration_us += us * messages;
    }
}
