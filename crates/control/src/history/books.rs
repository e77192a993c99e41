//! How often the store is read, and what goes wrong. For the exporter.

use ::history::{Fault, Trimmed};
use std::sync::atomic::{AtomicU64, Ordering};

/// Figures of readers; those of the queue are its own.
#[derive(Debug, Default)]
pub struct Books {
    done: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    removed: AtomicU64,
    over_quota: AtomicU64,
}

impl Books {
    pub(super) fn note<T>(&self, answer: &Result<T, Fault>) {
        let cell = match answer {
            Ok(_) => &self.done,
            Err(_) => &self.failed,
        };
        cell.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn trimmed(&self, trimmed: Trimmed) {
        self.removed.fetch_add(trimmed.events, Ordering::Relaxed);
    }

    pub(super) fn shed(&self, events: u64) {
        self.removed.fetch_add(events, Ordering::Relaxed);
    }

    /// An event that the quota of its namespace has no room for.
    pub(super) fn left_out(&self) {
        self.over_quota.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn over_quota(&self) -> u64 {
        self.over_quota.load(Ordering::Relaxed)
    }

    /// Done, refused, failed.
    pub(crate) fn reads(&self) -> [u64; 3] {
        [&self.done, &self.refused, &self.failed].map(|cell| cell.load(Ordering::Relaxed))
    }

    pub(crate) fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }
}
