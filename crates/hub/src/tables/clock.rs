//! The time of a turn, and what is due at which time.

use crate::tables::expiry::Expiries;
use crate::tables::timer::Timers;
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
    date: Date,
}

impl Clock {
    /// The time of the turn in HTTP's words, made once a second.
    pub(crate) fn date(&mut self) -> Date {
        let second = self.now.wall_ms / 1_000;
        if self.date.unix_seconds() != second {
            self.date = Date::new(second);
        }
        self.date
    }
}
