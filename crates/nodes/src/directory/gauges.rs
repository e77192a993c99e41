//! Counters of the directory, for the exporter.

use std::sync::atomic::AtomicU64;

/// Numbers of this node's part of the directory.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Sockets that are listed, or are to be.
    pub sockets: AtomicU64,
    /// Sockets whose entries are yet to be written or deleted.
    pub waiting: AtomicU64,
    /// Commands that Redis carried out.
    pub commands: AtomicU64,
    /// Batches that failed and are written again.
    pub failures: AtomicU64,
    /// Commands refused because another program has the key.
    pub strangers: AtomicU64,
    /// Names that were too long, or too many.
    pub left_out: AtomicU64,
    /// Entries of dead nodes deleted.
    pub swept: AtomicU64,
    /// Times that everything was written anew.
    pub repairs: AtomicU64,
}
