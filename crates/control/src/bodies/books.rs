//! Counters of stored bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters. They only grow, but for `open` and `folder_bytes`.
#[derive(Debug, Default)]
pub struct Books {
    /// Events whose body the store took.
    pub(crate) stored: AtomicU64,
    /// Events whose body it did not take.
    pub(crate) failed: AtomicU64,
    pub(crate) uploads: Outcomes,
    pub(crate) downloads: Outcomes,
    pub(crate) received_bytes: AtomicU64,
    pub(crate) sent_bytes: AtomicU64,
    /// Transfers that are under way.
    pub(crate) open: AtomicU64,
    /// Bodies that were too old, or that somebody deleted.
    pub(crate) removed: AtomicU64,
    pub(crate) folder_bytes: AtomicU64,
}

/// Ends of transfers, counted.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    done: AtomicU64,
    /// The peer was told to change something.
    refused: AtomicU64,
    /// The store or the gateway failed.
    failed: AtomicU64,
    /// The peer went away or stood still.
    cut: AtomicU64,
}

impl Outcomes {
    pub(crate) fn of_status(&self, status: u16) {
        let cell = match status {
            ..400 => &self.done,
            400..500 => &self.refused,
            _ => &self.failed,
        };
        add(cell, 1);
    }

    pub(crate) fn cut(&self) {
        add(&self.cut, 1);
    }

    pub(crate) fn by_name(&self) -> [(&'static str, u64); 4] {
        [
            ("done", load(&self.done)),
            ("refused", load(&self.refused)),
            ("failed", load(&self.failed)),
            ("cut", load(&self.cut)),
        ]
    }
}

/// A transfer that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<Books>);

impl Books {
    /// Transfers that are under way.
    pub fn open_transfers(&self) -> usize {
        load(&self.open) as usize
    }

    pub(crate) fn events(&self) -> [(&'static str, u64); 2] {
        [
            ("stored", load(&self.stored)),
            ("failed", load(&self.failed)),
        ]
    }

    pub(crate) fn open(self: &Arc<Self>) -> Open {
        add(&self.open, 1);
        Open(Arc::clone(self))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(crate) fn add(cell: &AtomicU64, more: u64) {
    cell.fetch_add(more, Ordering::Relaxed);
}

pub(crate) fn load(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}
