//! Rate limits: GCRA, eight bytes of state per limiter and no timer. State is the "theoretical arrival time" of the next event.
//! A fixed window has as much: when it began, and how many events are in it.

use crate::books::config::Rate;
use std::fmt::Write;
use std::sync::Arc;

/// One limit, prepared: an event costs `interval`, and the state may be `tolerance` ahead of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    interval_us: u64,
    tolerance_us: u64,
    per_us: u64,
    fixed: Option<Fixed>,
}

/// A fixed window begins with its first event. The state is its beginning, rounded down to the grid, and below that the events in it.
/// So a window may end early by less than the grid: 1 ms for 100 events, 1 s for a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fixed {
    events: u64,
    /// A power of two, above all numbers of events.
    grid_us: u64,
}

impl Fixed {
    fn new(rate: Rate) -> Self {
        let events = u64::from(rate.events.max(1));
        Self {
            events,
            // What passed before it was booked may lead a little beyond the limit.
            grid_us: (events + 2 * u64::from(u8::MAX)).next_power_of_two(),
        }
    }

    /// The window that an event of now falls in, and the events in it.
    fn window(self, state_us: u64, now_us: u64, per_us: u64) -> (u64, u64) {
        let (start_us, used) = (
            state_us & !(self.grid_us - 1),
            state_us & (self.grid_us - 1),
        );
        match used == 0 || now_us >= start_us + per_us {
            true => (now_us & !(self.grid_us - 1), 0),
            false => (start_us, used),
        }
    }

    fn book(self, (start_us, used): (u64, u64), events: u64) -> u64 {
        // The number must not grow into the bits of the time.
        start_us | (used + events).min(self.grid_us - 1)
    }
}

/// A limit has nothing left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// The time until it has something again.
    pub(crate) wait_us: u64,
}

impl Exceeded {
    /// The same in whole seconds, as clients are told: a client that waits so long gets in.
    pub(crate) fn retry_after_s(self) -> u64 {
        self.wait_us.div_ceil(1_000_000).max(1)
    }
}

impl Gcra {
    pub(crate) fn new(rate: Rate) -> Self {
        let per_us = rate.per.as_micros() as u64;
        let interval_us = (per_us / u64::from(rate.events.max(1))).max(1);
        Self {
            interval_us,
            // The events of a whole window may come at once, and no more.
            tolerance_us: per_us.saturating_sub(interval_us),
            per_us: per_us.max(1),
            fixed: rate.fixed.then(|| Fixed::new(rate)),
        }
    }

    /// Whether one more event passes.
    pub(crate) fn room(self, state_us: u64, now_us: u64) -> Result<(), Exceeded> {
        let wait_us = match self.fixed {
            Some(fixed) => {
                let (start_us, used) = fixed.window(state_us, now_us, self.per_us);
                let left_us = (start_us + self.per_us).saturating_sub(now_us);
                if used < fixed.events { 0 } else { left_us }
            }
            None => (state_us.saturating_sub(now_us)).saturating_sub(self.tolerance_us),
        };
        match wait_us {
            0 => Ok(()),
            wait_us => Err(Exceeded { wait_us }),
        }
    }

    /// Lets one event pass, or says how long to wait.
    pub(crate) fn check(self, state_us: &mut u64, now_us: u64) -> Result<(), Exceeded> {
        self.room(*state_us, now_us)?;
        *state_us = match self.fixed {
            Some(fixed) => fixed.book(fixed.window(*state_us, now_us, self.per_us), 1),
            None => (*state_us).max(now_us) + self.interval_us,
        };
        Ok(())
    }

    /// Books events that have passed already. They may lead beyond the limit, but nobody owes more than a window.
    pub(crate) fn owe(self, state_us: &mut u64, now_us: u64, events: u8) {
        if events == 0 {
            return;
        }
        let due = match self.fixed {
            Some(fixed) => {
                let window = fixed.window(*state_us, now_us, self.per_us);
                fixed.book(window, u64::from(events))
            }
            None => {
                let due = (*state_us).max(now_us) + self.interval_us * u64::from(events);
                due.min(now_us + 2 * self.per_us)
            }
        };
        *state_us = due.max(*state_us);
    }

    /// The same limit for a node that has a share of its events.
    pub(crate) fn of_share(self, events: u32) -> Self {
        let events = u64::from(events.max(1));
        let interval_us = (self.per_us / events).max(1);
        Self {
            interval_us,
            tolerance_us: self.per_us.saturating_sub(interval_us),
            per_us: self.per_us,
            fixed: self.fixed.map(|fixed| Fixed { events, ..fixed }),
        }
    }

    /// Events that a state holds and that have not come back.
    pub(crate) fn used(self, state_us: u64, now_us: u64) -> u32 {
        let used = match self.fixed {
            Some(fixed) => fixed.window(state_us, now_us, self.per_us).1,
            None => state_us.saturating_sub(now_us).div_ceil(self.interval_us),
        };
        u32::try_from(used).unwrap_or(u32::MAX)
    }

    /// Events of a whole window.
    pub(crate) fn events(self) -> u32 {
        let events = match self.fixed {
            Some(fixed) => fixed.events,
            None => self.per_us / self.interval_us,
        };
        u32::try_from(events).unwrap_or(u32::MAX)
    }

    /// A state that holds as many events when the share has changed. Nobody owes more than a window.
    pub(crate) fn rescaled(self, state_us: u64, now_us: u64, (before, after): (u32, u32)) -> u64 {
        let ahead_us = state_us.saturating_sub(now_us);
        // A fixed window counts events, whatever the share is.
        if self.fixed.is_some() || ahead_us == 0 || before == after {
            return state_us;
        }
        let (before, after) = (u128::from(before.max(1)), u128::from(after.max(1)));
        let ahead_us = u128::from(ahead_us) * before / after;
        now_us + ahead_us.min(2 * u128::from(self.per_us)) as u64
    }

    /// A state that came from elsewhere, as far as this limit could have made it: at most two windows ahead.
    pub(crate) fn believed(self, state_us: u64, now_us: u64) -> u64 {
        match self.fixed {
            Some(fixed) => {
                let (start_us, used) = (
                    state_us & !(fixed.grid_us - 1),
                    state_us & (fixed.grid_us - 1),
                );
                // No window begins later than now.
                start_us.min(now_us & !(fixed.grid_us - 1)) | used
            }
            None => state_us.min(now_us.saturating_add(2 * self.per_us)),
        }
    }

    /// More than half of the rate is left.
    pub(crate) fn has_plenty(self, state_us: u64, now_us: u64) -> bool {
        match self.fixed {
            Some(fixed) => fixed.window(state_us, now_us, self.per_us).1 < fixed.events / 2,
            None => state_us.saturating_sub(now_us) < self.per_us / 2,
        }
    }
}

/// A limit and what a client hears that passes it.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pub(crate) gcra: Gcra,
    /// `Rate limit exceeded: 10 messages/second`
    pub(crate) message: Arc<str>,
}

impl Meter {
    pub(crate) fn new(rate: Rate) -> Self {
        let seconds = rate.per.as_secs();
        let mut message = format!("Rate limit exceeded: {} messages/", rate.events);
        let _ = match seconds {
            1 => write!(message, "second"),
            _ => write!(message, "{seconds} seconds"),
        };
        Self {
            gcra: Gcra::new(rate),
            message: message.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ten_at_once_then_one_every_hundred_milliseconds() {
        let gcra = Gcra::new(Rate::new(10, Duration::from_secs(1)));
        let (mut state, now) = (0, 5_000_000);
        for _ in 0..10 {
            assert_eq!(gcra.check(&mut state, now), Ok(()));
        }
        let wait_us = 100_000;
        assert_eq!(gcra.check(&mut state, now), Err(Exceeded { wait_us }));
        assert_eq!(gcra.check(&mut state, now + 100_000), Ok(()));
        assert!(gcra.check(&mut state, now + 100_000).is_err());
    }

    #[test]
    fn windows_read_as_people_say_them() {
        let message = |events, seconds| {
            let meter = Meter::new(Rate::new(events, Duration::from_secs(seconds)));
            meter.message.to_string()
        };
        assert_eq!(message(10, 1), "Rate limit exceeded: 10 messages/second");
        assert_eq!(
            message(100, 60),
            "Rate limit exceeded: 100 messages/60 seconds"
        );
    }

    #[test]
    fn a_fixed_window_has_so_many_and_nothing_more_until_it_ends() {
        for events in [1, 7, 100, 1_000_000] {
            let gcra = Gcra::new(Rate::new(events, Duration::from_secs(60)).fixed());
            let (mut state, mut passed) = (0, 0);
            // A window ends early by less than its grid.
            let slack_us = 512.max(2 * u64::from(events));
            // Evenly over the window, twice as many as pass: the first half does, and not one later.
            for n in 0..2 * u64::from(events) {
                let now_us = 600_000_000 + n * 30_000_000 / u64::from(events);
                if now_us >= 660_000_000 - slack_us {
                    break;
                }
                match gcra.check(&mut state, now_us) {
                    Ok(()) => passed += 1,
                    Err(Exceeded { wait_us }) => {
                        let until_us = now_us + wait_us;
                        assert!((660_000_000 - slack_us..=660_000_000).contains(&until_us));
                    }
                }
            }
            assert_eq!(passed, events);
            assert!(gcra.check(&mut state, 659_999_999 - slack_us).is_err());
            assert!(gcra.check(&mut state, 660_000_000).is_ok());
        }
    }

    /// A window was the clock's: its last moment and the first one of the next had twice as many.
    #[test]
    fn across_an_edge_of_the_clock_twice_as_many_passed() {
        let gcra = Gcra::new(Rate::new(100, Duration::from_secs(60)).fixed());
        let mut state = 0;
        let mut passed = |now_us: u64| {
            let tries = (0..500).map(|_| gcra.check(&mut state, now_us));
            tries.filter(Result::is_ok).count()
        };
        assert_eq!((passed(659_900_000), passed(660_100_000)), (100, 0));
        assert_eq!((passed(719_800_000), passed(719_900_000)), (0, 100));
    }

    #[test]
    fn no_state_from_elsewhere_keeps_anybody_out_for_ever() {
        let rate = Rate::new(3, Duration::from_secs(10));
        for gcra in [Gcra::new(rate), Gcra::new(rate.fixed())] {
            let (mut state, now_us) = (0, 123_456_789);
            while gcra.check(&mut state, now_us).is_ok() {}
            assert_eq!(gcra.believed(state, now_us), state, "it is as it was made");
            let strange = gcra.believed(u64::MAX >> 4, now_us);
            assert_eq!(gcra.room(strange, now_us + 20_000_000), Ok(()));
        }
    }

    #[test]
    fn a_client_that_waits_as_long_as_it_was_told_gets_in() {
        let rate = Rate::new(3, Duration::from_secs(10));
        for gcra in [Gcra::new(rate), Gcra::new(rate.fixed())] {
            let (mut state, now_us) = (0, 123_456_789);
            while gcra.check(&mut state, now_us).is_ok() {}
            let exceeded = gcra.check(&mut state, now_us).expect_err("nothing left");
            let later_us = now_us + exceeded.retry_after_s() * 1_000_000;
            assert_eq!(gcra.check(&mut state, later_us), Ok(()));
        }
    }
}
