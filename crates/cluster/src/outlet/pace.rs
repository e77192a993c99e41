//! How fast batches follow each other. An engine has about as much work with a batch as with a hundred letters, so under load it is
//! better to wait for company a little; where letters are few, none must wait for another one.

/// Batches that may follow each other at once after a quiet time.
const SPARE: u64 = 8;

/// One batch in each interval, and [`SPARE`] that were not used before.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// The batches so far use up the time until then.
    spent_us: u64,
}

impl Pace {
    /// When the next batch may leave.
    pub(super) fn next_us(&self, interval_us: u64) -> u64 {
        self.spent_us.saturating_sub(SPARE * interval_us)
    }

    /// A batch leaves. Some must, whatever the pace: their letters have waited for long enough.
    pub(super) fn step(&mut self, interval_us: u64, now_us: u64) {
        let spent_us = self.spent_us.max(now_us) + interval_us;
        self.spent_us = spent_us.min(now_us + (SPARE + 1) * interval_us);
    }
}
