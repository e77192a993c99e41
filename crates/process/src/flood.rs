//! Log lines that strangers can cause without end: so many a window, then one that tells how many there were.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one kind in each window.
pub const LINES: u32 = 100;
pub const FLOOD_WINDOW: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Flood {
    lines: &'static str,
    since: Instant,
    admitted: u32,
    suppressed: u64,
}

impl Flood {
    /// `lines`: the message of the lines it is about.
    pub fn new(lines: &'static str) -> Self {
        Flood {
            lines,
            since: Instant::now(),
            admitted: 0,
            suppressed: 0,
        }
    }

    pub fn admits(&mut self) -> bool {
        if self.admitted < LINES {
            self.admitted += 1;
            return true;
        }
        self.suppressed += 1;
        false
    }

    /// Begins another window when this one is over.
    pub fn pass_time(&mut self, now: Instant) {
        if now.saturating_duration_since(self.since) < FLOOD_WINDOW {
            return;
        }
        if self.suppressed > 0 {
            tracing::warn!(lines = self.lines, count = self.suppressed, "suppressed");
        }
        self.since = now;
        self.admitted = 0;
        self.suppressed = 0;
    }
}

/// The same for many tasks.
#[derive(Clone, Debug)]
pub struct Lines(Arc<Mutex<Flood>>);

impl Lines {
    pub fn new(lines: &'static str) -> Self {
        Self(Arc::new(Mutex::new(Flood::new(lines))))
    }

    /// There may be one more now.
    pub fn admit(&self) -> bool {
        let mut flood = self.flood();
        flood.pass_time(Instant::now());
        flood.admits()
    }

    /// What was left out is told if its window is over.
    pub fn pass_time(&self, now: Instant) {
        self.flood().pass_time(now);
    }

    fn flood(&self) -> MutexGuard<'_, Flood> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_cut_in_each_window_and_counted() {
        let mut flood = Flood::new("refused");
        let start = flood.since;
        let admitted = (0..1_000).filter(|_| flood.admits()).count();
        assert_eq!((admitted, flood.suppressed), (100, 900));
        flood.pass_time(start + Duration::from_millis(999));
        assert!(!flood.admits());
        flood.pass_time(start + FLOOD_WINDOW);
        assert!(flood.admits());
        assert_eq!(flood.suppressed, 0);
    }
}
