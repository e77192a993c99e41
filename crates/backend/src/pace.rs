//! How fast items are handled: a count, a rate and a percentile over the last seconds.

use crate::bounds::PACE_WINDOW_MS;

/// Upper bounds, milliseconds. What is above them all is in the last count.
const BOUNDS_MS: [u64; 13] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000,
];
const COUNTS: usize = BOUNDS_MS.len() + 1;

/// The items of one worker or endpoint, and how long they took.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    total: u64,
    began_ms: Option<u64>,
    now: [u32; COUNTS],
    before: Option<[u32; COUNTS]>,
}

/// Its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PaceFigures {
    /// Since the beginning.
    pub total: u64,
    /// In the last ten to twenty seconds.
    pub per_second: f64,
    /// Ninety-nine of a hundred took no longer, milliseconds; `None`: nothing was handled lately.
    pub p99_ms: Option<u64>,
    /// It is above that figure, the highest bound.
    pub p99_over: bool,
}

impl Pace {
    /// An item is done.
    pub fn note(&mut self, now_ms: u64, took_ms: u64) {
        self.pass_time(now_ms);
        self.total += 1;
        let at = BOUNDS_MS.iter().position(|bound| took_ms <= *bound);
        self.now[at.unwrap_or(BOUNDS_MS.len())] += 1;
    }

    fn pass_time(&mut self, now_ms: u64) {
        let began_ms = *self.began_ms.get_or_insert(now_ms);
        let gone_ms = now_ms.saturating_sub(began_ms);
        if gone_ms < PACE_WINDOW_MS {
            return;
        }
        let filled = std::mem::take(&mut self.now);
        self.before = Some(match gone_ms < 2 * PACE_WINDOW_MS {
            true => filled,
            false => [0; COUNTS],
        });
        self.began_ms = Some(now_ms - gone_ms % PACE_WINDOW_MS);
    }

    /// The figures as of now.
    pub fn figures(&mut self, now_ms: u64) -> PaceFigures {
        self.pass_time(now_ms);
        let before = self.before.unwrap_or_default();
        let mut counts = [0_u64; COUNTS];
        for (count, (one, other)) in counts.iter_mut().zip(self.now.iter().zip(before)) {
            *count = u64::from(*one) + u64::from(other);
        }
        let recent: u64 = counts.iter().sum();
        let whole_ms = self.before.map_or(0, |_| PACE_WINDOW_MS);
        let gone_ms = now_ms - self.began_ms.unwrap_or(now_ms);
        // The first moment says little.
        let seconds = (whole_ms + gone_ms).max(1_000) as f64 / 1e3;
        let p99 = rank(&counts, recent - recent / 100);
        PaceFigures {
            total: self.total,
            per_second: recent as f64 / seconds,
            p99_ms: p99.map(|at| BOUNDS_MS[at.min(BOUNDS_MS.len() - 1)]),
            p99_over: p99 == Some(BOUNDS_MS.len()),
        }
    }
}

/// The place of the n-th smallest; `None` of none.
fn rank(counts: &[u64], n: u64) -> Option<usize> {
    let mut sum = 0;
    counts.iter().position(|count| {
        sum += count;
        sum >= n && n > 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seconds_are_shown_and_older_ones_are_not() {
        let mut pace = Pace::default();
        assert_eq!(pace.figures(1), PaceFigures::default());
        for n in 0..1_000 {
            let slow = n % 200 == 0;
            pace.note(1 + n * 10, if slow { 400 } else { 4 });
        }
        let figures = pace.figures(10_001);
        assert_eq!((figures.total, figures.p99_ms), (1_000, Some(5)));
        assert!((90.0..110.0).contains(&figures.per_second), "{figures:?}");
        for _ in 0..20 {
            pace.note(10_002, 11_000);
        }
        let figures = pace.figures(10_003);
        assert_eq!((figures.p99_ms, figures.p99_over), (Some(10_000), true));
        let later = pace.figures(40_000);
        assert_eq!(
            (later.total, later.per_second, later.p99_ms),
            (1_020, 0.0, None)
        );
    }
}
