//! Pauses between attempts.

use std::time::Duration;

const STEP: Duration = Duration::from_millis(50);
/// A node that starts listens for twice as long before it takes a number ([`cluster::numbers::LISTEN_US`]).
const MOST: Duration = Duration::from_secs(1);

/// The nth pause is n x 50 ms, at most 1 s, and up to a quarter less by chance, so that nodes do not come all at once.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
}

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        self.attempts = self.attempts.saturating_add(1);
        let pause = STEP.saturating_mul(self.attempts).min(MOST);
        pause - pause / 4 * u32::from(chance()) / 256
    }
}

/// A random byte.
fn chance() -> u8 {
    let mut byte = [0];
    // Without randomness the pauses are just longer.
    let _ = aws_lc_rs::rand::fill(&mut byte);
    byte[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_second_half_of_what_a_newcomer_listens() {
        let listens = Duration::from_micros(cluster::numbers::LISTEN_US);
        assert_eq!(listens, 2 * MOST);
        let mut backoff = Backoff::default();
        let pauses: Vec<Duration> = (0..100).map(|_| backoff.next()).collect();
        for (n, pause) in (1..).zip(&pauses) {
            let whole = (STEP * n).min(MOST);
            assert!(*pause <= whole && *pause >= whole * 3 / 4, "{n}: {pause:?}");
        }
        let differ = pauses[50..].iter().any(|pause| *pause != pauses[50]);
        assert!(differ, "no jitter");
    }
}
