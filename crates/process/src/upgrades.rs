//! Upgrades: one that is under way, and what became of those before. A process goes on counting where the one before it ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What became of upgrades, of this process and of those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Another process has taken over.
    pub done: u64,
    /// They were not begun.
    pub refused: u64,
    /// They were given up, and the process went on.
    pub failed: u64,
    /// Sessions that went over.
    pub sessions: u64,
    /// Connections that went over, with sessions or before they had one.
    pub connections: u64,
    /// How long nobody was read in the last one that was done.
    pub pause: Option<Duration>,
}

/// Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Upgrades {
    under_way: Arc<AtomicBool>,
    tally: Arc<Mutex<Tally>>,
}

impl Upgrades {
    pub fn set_under_way(&self, under_way: bool) {
        self.under_way.store(under_way, Ordering::Relaxed);
    }

    /// Another process is started, or takes over.
    pub fn are_under_way(&self) -> bool {
        self.under_way.load(Ordering::Relaxed)
    }

    pub fn note_refused(&self) {
        self.lock().refused += 1;
    }

    pub fn note_failed(&self) {
        self.lock().failed += 1;
    }

    /// This process has taken over from one that counted so far.
    pub fn go_on(&self, tally: Tally) {
        *self.lock() = tally;
    }

    pub fn tally(&self) -> Tally {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
