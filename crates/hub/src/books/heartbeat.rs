//! How often clients are pinged: the more sessions there are, the longer a newcomer's interval. Intervals have few lengths, so that
//! the timers of one length stay sorted (ADR 6).

use std::time::Duration;

/// Lengths that an interval may have.
const STEPS: usize = 8;

/// The number of the length that a session was announced. It keeps that for life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Step(u8);

impl Step {
    /// Intervals as configured.
    pub const FIRST: Step = Step(0);
    /// The longest ones.
    pub const LAST: Step = Step(STEPS as u8 - 1);

    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }

    /// The length with this number, or the longest.
    pub(crate) fn numbered(number: usize) -> Self {
        Self(number.min(STEPS - 1) as u8)
    }
}

/// The lengths that intervals may grow to, and the bound that they grow for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Each length as a multiple of the configured interval, in thousandths.
    permille: [u32; STEPS],
    /// Heartbeats per second of the process that newcomers must not push it beyond.
    per_second_max: u32,
}

impl Default for Stretch {
    /// All intervals are as configured.
    fn default() -> Self {
        Self::new(1, 1)
    }
}

impl Stretch {
    /// Intervals grow up to this factor, in equal ratios.
    pub fn new(factor_max: u8, per_second_max: u32) -> Self {
        let last = (STEPS - 1) as f64;
        let factor = f64::from(factor_max.max(1));
        let permille = std::array::from_fn(|step| {
            let grown = factor.powf(step as f64 / last) * 1000.0;
            // At most 255,000, and not negative.
            grown.round() as u32
        });
        Self {
            permille,
            per_second_max: per_second_max.max(1),
        }
    }

    /// Whether intervals differ.
    pub fn is_on(&self) -> bool {
        self.permille[STEPS - 1] > self.permille[0]
    }

    /// The length for a newcomer to so many sessions, itself among them: if all had it, the process would not pass its bound. Above
    /// the longest length it does.
    pub fn step(&self, base: Duration, sessions: usize) -> Step {
        if !self.is_on() {
            return Step::FIRST;
        }
        // Sessions per heartbeat per second are seconds.
        let wanted_ms = sessions as u128 * 1000 / u128::from(self.per_second_max);
        let suffices =
            |permille: &u32| base.as_millis() * u128::from(*permille) / 1000 >= wanted_ms;
        let found = self.permille.iter().position(suffices);
        found.map_or(Step::LAST, Step::numbered)
    }

    /// An interval of this length, in whole milliseconds: timers and clients know no shorter time.
    pub fn interval(&self, base: Duration, step: Step) -> Duration {
        let Some(permille) = self.permille.get(step.number()) else {
            return base;
        };
        // The configured interval stays as it is, also where it has no whole number of milliseconds.
        if step == Step::FIRST {
            return base;
        }
        let ms = base.as_millis().saturating_mul(u128::from(*permille)) / 1000;
        Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Duration = Duration::from_secs(25);

    #[test]
    fn without_a_factor_everybody_has_the_configured_interval() {
        let off = Stretch::default();
        assert!(!off.is_on());
        assert_eq!(off.step(BASE, usize::MAX), Step::FIRST);
        assert_eq!(off.interval(BASE, Step::LAST), BASE);
        // An interval that is no whole millisecond stays as it is.
        let odd = Duration::from_micros(1_500);
        assert_eq!(off.interval(odd, Step::FIRST), odd);
    }

    /// If all sessions had the newcomer's interval, heartbeats would stay below the bound: at each number, up to the factor.
    #[test]
    fn the_bound_holds_up_to_the_factor() {
        let stretch = Stretch::new(4, 100);
        assert!(stretch.is_on());
        let mut before = Step::FIRST;
        for sessions in 1..=10_000_usize {
            let step = stretch.step(BASE, sessions);
            assert!(step >= before, "{sessions}: it never shrinks");
            before = step;
            let interval = stretch.interval(BASE, step).as_secs_f64();
            let beats = sessions as f64 / interval;
            assert!(beats <= 100.001, "{sessions}: {beats} per second");
            // One length shorter would not do.
            if step > Step::FIRST {
                let shorter = stretch.interval(BASE, Step(step.0 - 1)).as_secs_f64();
                assert!(sessions as f64 / shorter > 99.9, "{sessions}");
            }
        }
        assert_eq!(stretch.step(BASE, 2_500), Step::FIRST);
        assert!(stretch.step(BASE, 2_501) > Step::FIRST);
        assert_eq!(stretch.interval(BASE, Step::LAST), 4 * BASE);
        assert_eq!(stretch.step(BASE, usize::MAX), Step::LAST);
    }

    #[test]
    fn extreme_values_neither_overflow_nor_stop() {
        let stretch = Stretch::new(255, u32::MAX);
        assert_eq!(stretch.step(Duration::ZERO, usize::MAX), Step::LAST);
        let longest = stretch.interval(Duration::MAX, Step::LAST);
        assert_eq!(longest, Duration::from_millis(u64::MAX));
        assert_eq!(Stretch::new(0, 0), Stretch::default());
    }
}
