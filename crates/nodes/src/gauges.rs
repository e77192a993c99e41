//! What the way to other nodes counts, for the exporter.

use crate::lag::Lag;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

macro_rules! gauges {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Written by the driver, read by the exporter.
        #[derive(Debug, Default)]
        pub struct Gauges {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// Frames of letters sent, by the reason why they were closed: [`cluster::outlet::Closed`].
            pub frames: [AtomicU64; 4],
            /// The engine answers, the channels are heard, and the nodes that are there know this one.
            pub up: AtomicBool,
            /// The last exchange about limits that nodes share came back.
            pub budget_up: AtomicBool,
            /// From handing a batch to the engine to its answer.
            pub lag: Lag,
        }
    };
}

gauges! {
    /// Nodes that are up, this one not counted.
    peers,
    /// Letters sent, once for each receiver or flood.
    letters,
    /// Bytes of these frames.
    bytes,
    /// Letters that came.
    received,
    /// Frames sent again because a peer missed them.
    repairs,
    /// Questions for frames that were not kept any more.
    gone,
    /// Holes in what peers sent.
    gaps,
    /// Questions for what is missing, to peers.
    questions_asked,
    /// Questions of peers.
    questions_heard,
    /// Times that what was known of a peer's keys was incomplete.
    interest_misses,
    /// Letters that were lost and could not be had again.
    lost,
    /// Times that nobody knows how many were lost.
    resyncs,
    /// Microseconds of traffic that can be repaired.
    ring_us,
    /// Bytes that wait for the engine, parcels included.
    queued_bytes,
    /// Batches that the engine did not take.
    failed,
    /// Messages with another secret, and letters that nobody can read.
    unreadable,
    /// Messages of nodes without a lease, or with a number that no node has.
    strangers,
    /// Frames of another version.
    versions,
    /// Messages that were no frames.
    malformed,
    /// Keys of shared limits that have a share of their own.
    budget_keys,
    /// Times that a key came near its limit and found no room for a share of its own.
    budget_unnamed,
    /// Exchanges about shared limits.
    budget_exchanges,
    /// Exchanges that did not come back.
    budget_failures,
}

impl Gauges {
    pub(super) fn set(cell: &AtomicU64, value: u64) {
        cell.store(value, Ordering::Relaxed);
    }

    pub(super) fn add(cell: &AtomicU64, more: u64) {
        cell.fetch_add(more, Ordering::Relaxed);
    }
}
