//! What one scrape alone cannot tell: how fast something grows, and whether a shard hangs. Sampled about once a second.

use super::{Shards, load};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The connection rate is an average over this time.
const RATE_WINDOW: Duration = Duration::from_secs(5);

/// Accepted connections per second over the last seconds.
#[derive(Debug, Default)]
pub(super) struct RateMeter {
    samples: Mutex<VecDeque<(Instant, u64)>>,
}

impl RateMeter {
    pub(super) fn sample(&self, now: Instant, accepted: u64) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.push_back((now, accepted));
        while samples
            .front()
            .is_some_and(|(at, _)| now.duration_since(*at) > RATE_WINDOW)
        {
            samples.pop_front();
        }
    }

    pub(super) fn per_second(&self) -> f64 {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        match (samples.front(), samples.back()) {
            (Some((start, first)), Some((end, last))) if end > start => {
                last.saturating_sub(*first) as f64 / end.duration_since(*start).as_secs_f64()
            }
            _ => 0.0,
        }
    }
}

/// Shards that began a turn and do not end it. A shard that waits for work is in no turn.
#[derive(Debug)]
pub(super) struct Stalls(Mutex<Vec<Turn>>);

/// The turn that a shard was last seen in.
#[derive(Clone, Copy, Debug, Default)]
struct Turn {
    /// Turns that had ended then.
    number: u64,
    since: Option<Instant>,
    seconds: f64,
}

impl Stalls {
    pub(super) fn new(shards: usize) -> Self {
        Stalls(Mutex::new(vec![Turn::default(); shards]))
    }

    pub(super) fn sample(&self, now: Instant, shards: &Shards) {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (turn, cells) in turns.iter_mut().zip(shards.iter()) {
            let number = load(&cells.turns);
            let same = turn.number == number;
            turn.number = number;
            turn.since = cells
                .in_turn
                .load(Ordering::Relaxed)
                .then(|| turn.since.filter(|_| same).unwrap_or(now));
            turn.seconds = turn
                .since
                .map_or(0.0, |since| now.duration_since(since).as_secs_f64());
        }
    }

    pub(super) fn seconds(&self) -> Vec<f64> {
        let turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.iter().map(|turn| turn.seconds).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hub::metrics::Cells;
    use std::sync::Arc;

    #[test]
    fn the_connection_rate_looks_back_a_few_seconds() {
        let meter = RateMeter::default();
        let start = Instant::now();
        for second in 0..20 {
            // 100 a second, then none for the last six.
            let accepted = 100 * second.min(13);
            meter.sample(start + Duration::from_secs(second), accepted);
            if second == 10 {
                assert_eq!(meter.per_second(), 100.0);
            }
        }
        assert_eq!(meter.per_second(), 0.0);
    }

    #[test]
    fn only_a_turn_that_goes_on_counts_as_a_stall() {
        let shards: Shards = (0..3).map(|_| Arc::new(Cells::default())).collect();
        let stalls = Stalls::new(3);
        let start = Instant::now();
        for second in 0..4 {
            // The first hangs, the second is busy with one turn after another, the third waits.
            shards[0].in_turn.store(true, Ordering::Relaxed);
            shards[1].in_turn.store(true, Ordering::Relaxed);
            shards[1].turns.store(second * 1_000, Ordering::Relaxed);
            stalls.sample(start + Duration::from_secs(second), &shards);
        }
        assert_eq!(stalls.seconds(), [3.0, 0.0, 0.0]);
        for shard in shards.iter() {
            shard.in_turn.store(false, Ordering::Relaxed);
        }
        stalls.sample(start + Duration::from_secs(5), &shards);
        assert_eq!(stalls.seconds(), [0.0, 0.0, 0.0]);
    }
}
