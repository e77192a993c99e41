//! A bound on the bytes that all transfers of a node move in a second. A machine whose memory and loopback are busy with bodies
//! delivers chat late, however low the priority of the thread.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Time that was not used may be made up for so far: timers are late by a millisecond or two.
const CREDIT: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct Pace {
    bytes_per_second: u64,
    /// When all bytes that moved are paid for.
    paid_at: Mutex<Instant>,
}

impl Pace {
    pub(crate) fn new(bytes_per_second: u64) -> Self {
        Self {
            bytes_per_second: bytes_per_second.max(1),
            paid_at: Mutex::new(Instant::now()),
        }
    }

    /// So many bytes moved. The transfer rests until the answer.
    pub(crate) fn charge(&self, bytes: usize, now: Instant) -> Instant {
        let nanos = bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_second);
        let costs = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let mut paid_at = self.paid_at.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.checked_sub(CREDIT).unwrap_or(now);
        *paid_at = (*paid_at).max(since) + costs;
        *paid_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_transfers_together_keep_the_rate() {
        let start = Instant::now();
        let pace = Pace::new(1_000_000);
        let mut rests = [start; 3];
        let mut moved = 0;
        // Three transfers, each as fast as it is let.
        while let Some(rest) = rests.iter_mut().min()
            && *rest < start + Duration::from_secs(1)
        {
            *rest = pace.charge(10_000, *rest);
            moved += 10_000;
        }
        assert!((980_000..=1_040_000).contains(&moved), "{moved}");
    }

    #[test]
    fn an_idle_time_is_no_store_of_bytes() {
        let start = Instant::now();
        let pace = Pace::new(1_000_000);
        let later = start + Duration::from_secs(3600);
        let paid_at = pace.charge(100_000, later);
        assert_eq!(paid_at, later - CREDIT + Duration::from_millis(100));
    }
}
