//! How fast letters that waited for a repair are handed on. What gathered while a node or its engine stood still would reach members
//! all at once, and end those that read as fast as usual.

use crate::bounds::DOUBLINGS_MAX;

/// The least speed, bytes in a second, and what passes at once.
const FLOOR: u64 = 1024 * 1024;
const BURST_BYTES: u64 = 256 * 1024;
/// Letters that came late are looked out for so long after the trouble.
const LATE_US: u64 = 1_000_000;
/// It is looked so often whether the next may go.
const PACED_US: u64 = 2_000;
const SECOND_US: u64 = 1_000_000;

#[derive(Debug, Default)]
pub(super) struct Pace {
    now_us: u64,
    /// Bytes in a second while nothing is late. It falls slowly when little comes.
    usual: u64,
    window_us: u64,
    window_bytes: u64,
    /// Since when letters are late, and until when others may come.
    late: Option<(u64, u64)>,
    allowance: u64,
}

impl Pace {
    /// From now on letters come that should have come before.
    pub(super) fn slow_down(&mut self, now_us: u64) {
        let until_us = now_us + LATE_US;
        match &mut self.late {
            Some((_, until)) => *until = until_us,
            None => {
                self.late = Some((now_us, until_us));
                self.allowance = self.burst();
            }
        }
    }

    /// Nothing is late any more.
    pub(super) fn end(&mut self) {
        self.late = None;
    }

    fn burst(&self) -> u64 {
        BURST_BYTES.max(self.usual / 4)
    }

    /// Time passed. `waits`: some letters have not been handed on.
    pub(super) fn tick(&mut self, now_us: u64, waits: bool) {
        let passed_us = (now_us - self.now_us).min(SECOND_US);
        self.now_us = now_us;
        let Some((since_us, until_us)) = self.late else {
            return self.measure(now_us);
        };
        if now_us >= until_us && !waits {
            self.end();
            (self.window_us, self.window_bytes) = (now_us, 0);
            return;
        }
        let doublings = ((now_us - since_us) / SECOND_US).min(DOUBLINGS_MAX);
        let speed = FLOOR.max(2 * self.usual) << doublings;
        let more = speed * passed_us / SECOND_US;
        // A tick that comes late makes no burst of its own.
        self.allowance = (self.allowance + more).min(self.burst().max(speed / 16));
    }

    fn measure(&mut self, now_us: u64) {
        let passed_us = now_us - self.window_us;
        if passed_us >= SECOND_US {
            let speed = self.window_bytes * SECOND_US / passed_us;
            self.usual = speed.max(self.usual - self.usual / 16);
            (self.window_us, self.window_bytes) = (now_us, 0);
        }
    }

    /// When the next frame may go.
    pub(super) fn next_us(&self) -> u64 {
        self.now_us + PACED_US
    }

    /// Whether a frame may be handed on.
    pub(super) fn allows(&self) -> bool {
        self.late.is_none() || self.allowance > 0
    }

    /// A frame of so many bytes is handed on.
    pub(super) fn spend(&mut self, bytes: usize) {
        match self.late {
            Some(_) => self.allowance = self.allowance.saturating_sub(bytes as u64),
            None => self.window_bytes += bytes as u64,
        }
    }
}
