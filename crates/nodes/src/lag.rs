//! How long publishing to the cluster takes: a histogram that several tasks write to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds, milliseconds; a last bucket takes the rest.
pub const LAG_BOUNDS_MS: [f64; 9] = [1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];

#[derive(Debug, Default)]
pub struct Lag {
    counts: [AtomicU64; LAG_BOUNDS_MS.len() + 1],
    sum_us: AtomicU64,
}

impl Lag {
    pub fn observe(&self, lag: Duration) {
        let ms = lag.as_secs_f64() * 1e3;
        let bucket = LAG_BOUNDS_MS.iter().position(|bound| ms <= *bound);
        self.counts[bucket.unwrap_or(LAG_BOUNDS_MS.len())].fetch_add(1, Ordering::Relaxed);
        self.sum_us
            .fetch_add(lag.as_micros() as u64, Ordering::Relaxed);
    }

    /// How many were below each bound and above the one before.
    pub fn counts(&self) -> impl Iterator<Item = u64> {
        self.counts.iter().map(|cell| cell.load(Ordering::Relaxed))
    }

    /// All together.
    pub fn sum_ms(&self) -> f64 {
        self.sum_us.load(Ordering::Relaxed) as f64 / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let lag = Lag::default();
        for ms in [0, 1, 2, 1_000, 1_001, 60_000] {
            lag.observe(Duration::from_millis(ms));
        }
        assert!(lag.counts().eq([2, 1, 0, 0, 0, 0, 0, 0, 1, 2]));
        assert_eq!(lag.sum_ms(), 62_004.0);
    }
}
