//! Rate limits: GCRA, eight bytes of state per limiter and no timer. State is the "theoretical arrival time" of the next event.

use crate::config::Rate;

/// One limit, prepared: an event costs `interval`, up to `burst` of them may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    interval_us: u64,
    tolerance_us: u64,
}

impl Gcra {
    pub(crate) fn new(rate: Rate) -> Self {
        let per_us = rate.per.as_micros() as u64;
        let interval_us = (per_us / u64::from(rate.events.max(1))).max(1);
        Self {
            interval_us,
            tolerance_us: per_us.saturating_sub(interval_us),
        }
    }

    /// Lets one event pass, or says how many microseconds to wait.
    pub(crate) fn check(self, state_us: &mut u64, now_us: u64) -> Result<(), u64> {
        let due = (*state_us).max(now_us);
        let ahead = due - now_us;
        if ahead > self.tolerance_us {
            return Err(ahead - self.tolerance_us);
        }
        *state_us = due + self.interval_us;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ten_at_once_then_one_every_hundred_milliseconds() {
        let gcra = Gcra::new(Rate {
            events: 10,
            per: Duration::from_secs(1),
        });
        let (mut state, now) = (0, 5_000_000);
        for _ in 0..10 {
            assert_eq!(gcra.check(&mut state, now), Ok(()));
        }
        assert_eq!(gcra.check(&mut state, now), Err(100_000));
        assert_eq!(gcra.check(&mut state, now + 100_000), Ok(()));
        assert!(gcra.check(&mut state, now + 100_000).is_err());
    }
}
