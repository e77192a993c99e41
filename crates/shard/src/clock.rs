//! The two clocks a turn is given.

use hub::Now;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Monotonic time counts from a second before the start, so that zero can mean "never".
const START: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    /// What it showed then.
    shown: Duration,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            shown: START,
        }
    }

    /// The clock of another process goes on, which showed this at that time.
    pub(crate) fn going_on(shown: Duration, start: Instant) -> Self {
        Self {
            start,
            shown: shown.max(START),
        }
    }

    pub(crate) fn now(&self, instant: Instant) -> Now {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            mono_ms: self.shown_at(instant).as_millis() as u64,
            wall_ms: wall.as_millis() as u64,
        }
    }

    /// The time as limiters count it, microseconds.
    pub(crate) fn limiter_us(&self, instant: Instant) -> u64 {
        self.shown_at(instant).as_millis() as u64 * 1_000 + 1
    }

    /// Monotonic time alone.
    pub(crate) fn shown_at(&self, instant: Instant) -> Duration {
        self.shown + (instant - self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_goes_on_from_what_it_showed() {
        let then = Instant::now();
        let own = Clock::going_on(Duration::from_secs(9_000), then);
        let later = then + Duration::from_millis(2_500);
        assert_eq!(own.now(later).mono_ms, 9_002_500);
        assert_eq!(
            Clock::going_on(Duration::ZERO, then).now(then).mono_ms,
            1_000
        );
    }
}
