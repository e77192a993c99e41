//! What the task counts.

use compat::plane::Tally;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// What happened, for metrics.
#[derive(Debug, Default)]
pub struct Gauges {
    pub(super) waiting_bytes: AtomicUsize,
    /// Letters that were not written because too much waited.
    pub(super) dropped: AtomicU64,
    /// Letters of our own that were read.
    pub(super) read: AtomicU64,
    /// Messages that Redis did not take.
    pub(super) unpublished: AtomicU64,
    /// Times that entries of the stream were cut off before they were read.
    pub(super) missed: AtomicU64,
    pub(super) tally: Mutex<Tally>,
}

impl Gauges {
    /// Messages read, written and refused.
    pub fn tally(&self) -> Tally {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Letters that were not written because too much waited.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Times that entries of the stream were cut off before they were read.
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Letters of our own that were read, to say them to other servers.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// Messages that Redis did not take.
    pub fn unpublished(&self) -> u64 {
        self.unpublished.load(Ordering::Relaxed)
    }
}
