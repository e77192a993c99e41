//! How long things take: a histogram that many write and the exporter reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Of a histogram of durations, in seconds.
pub const BOUNDS: [f64; 9] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0];

/// Durations, counted by how long they are; the last count is of those above all bounds.
#[derive(Debug, Default)]
pub struct Durations {
    pub counts: [AtomicU64; BOUNDS.len() + 1],
    pub total_us: AtomicU64,
}

impl Durations {
    pub fn note(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let at = BOUNDS.iter().position(|bound| seconds <= *bound);
        self.counts[at.unwrap_or(BOUNDS.len())].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.total_us.fetch_add(micros, Ordering::Relaxed);
    }
}
