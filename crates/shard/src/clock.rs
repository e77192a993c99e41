//! The two clocks a turn is given.

use hub::Now;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
        }
    }

    /// Monotonic time counts from a second before the start, so that zero can mean "never".
    pub(crate) fn now(&self, instant: Instant) -> Now {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Now {
            mono_ms: (instant - self.start).as_millis() as u64 + 1000,
            wall_ms: wall.as_millis() as u64,
        }
    }
}
