//! The time of a turn, and what is due at which time.

use crate::bounds::BEHIND_MAX_MS;
use crate::tables::expiry::Expiries;
use crate::tables::timer::Timers;
use std::time::Duration;
use wire::http::Date;

/// The time of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic, milliseconds since any fixed point.
    pub mono_ms: u64,
    /// Unix time, milliseconds.
    pub wall_ms: u64,
}

impl Now {
    /// The wall clock gained more than a second since: it was set, or the machine slept.
    pub(crate) fn leaps_from(self, before: Self) -> bool {
        self.wall_ms.saturating_sub(before.wall_ms)
            > self.mono_ms.saturating_sub(before.mono_ms) + 1_000
    }
}

#[derive(Debug, Default)]
pub(crate) struct Clock {
    pub(crate) now: Now,
    pub(crate) timers: Timers,
    pub(crate) expiries: Expiries,
    /// Input of some connections is still unread: nobody may be blamed for silence.
    pub(crate) behind: bool,
    /// The time since which each turn has left input unread.
    behind_since_ms: Option<u64>,
    /// When room counts may be told again.
    pub(crate) announce_due_ms: u64,
    date: Date,
}

impl Clock {
    /// Notes whether this turn left input unread. Silence is then excused for a while, and not for ever: connections are read in turn, so
    /// after that time even a busy shard has heard everyone, and one flood must not keep all the silent ones alive.
    pub(crate) fn fall_behind(&mut self, behind: bool) {
        let now_ms = self.now.mono_ms;
        let since_ms = self.behind_since_ms.unwrap_or(now_ms);
        self.behind_since_ms = behind.then_some(since_ms);
        self.behind = behind && now_ms - since_ms < BEHIND_MAX_MS;
    }

    /// The time as limiters count it.
    pub(crate) fn now_us(&self) -> u64 {
        self.now.mono_ms * 1000 + 1
    }

    /// Milliseconds at which something is due after this delay.
    pub(crate) fn after(&self, delay: Duration) -> u64 {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.now.mono_ms.saturating_add(delay_ms)
    }

    /// The time of the turn in HTTP's words, made once a second.
    pub(crate) fn date(&mut self) -> Date {
        let second = self.now.wall_ms / 1_000;
        if self.date.unix_seconds() != second {
            self.date = Date::new(second);
        }
        self.date
    }
}
