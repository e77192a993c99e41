//! Owns what users wait for by the clock: a heap of due times. A user has one live entry; an entry
//! whose epoch is not the user's any more is ignored when it comes up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub due_ns: u64,
    pub user: u32,
    pub epoch: u32,
}

#[derive(Debug, Default)]
pub struct Timers {
    heap: BinaryHeap<Reverse<Entry>>,
}

impl Timers {
    pub fn push(&mut self, entry: Entry) {
        self.heap.push(Reverse(entry));
    }

    pub fn next_due_ns(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(entry)| entry.due_ns)
    }

    pub fn pop_due(&mut self, now_ns: u64) -> Option<Entry> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

/// Something that is due at a constant rate. Due times come from the start and a count, so that a
/// late generator neither skips one nor shifts those behind it.
#[derive(Clone, Debug)]
pub struct Metronome {
    start_ns: u64,
    per_second: f64,
    share: Share,
    taken: u64,
    end_ns: u64,
}

/// Which beats of a metronome that several workers share are one worker's own: those at `places`
/// in each run of `all`. The beats of all together are then the same, however many workers there are.
#[derive(Clone, Debug, Default)]
pub struct Share {
    pub places: Vec<u32>,
    pub all: u32,
}

impl Metronome {
    pub fn new(per_second: f64, share: Share, start_ns: u64, end_ns: u64) -> Self {
        Metronome {
            start_ns,
            per_second,
            share,
            taken: 0,
            end_ns,
        }
    }

    pub fn next_due_ns(&self) -> Option<u64> {
        // One division, of whole numbers as a rule: a beat at the very end must not fall before it.
        let beat = self.share.beat(self.taken)?;
        let due_ns = self.start_ns + (beat as f64 * 1e9 / self.per_second) as u64;
        (due_ns < self.end_ns).then_some(due_ns)
    }

    pub fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.next_due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.taken += 1;
        Some(due_ns)
    }
}

impl Share {
    /// Number of this worker's beat number `own` among the beats of all.
    fn beat(&self, own: u64) -> Option<u64> {
        let turns = own.checked_div(self.places.len() as u64)?;
        let place = self.places.get((own % self.places.len() as u64) as usize)?;
        Some(turns * u64::from(self.all) + u64::from(*place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn beats(per_second: f64, places: &[u32], all: u32, end_ns: u64) -> Vec<u64> {
        let places = places.to_vec();
        let mut metronome = Metronome::new(per_second, Share { places, all }, 0, end_ns);
        std::iter::from_fn(|| metronome.take(u64::MAX)).collect()
    }

    #[test]
    fn workers_that_share_a_rate_keep_it_as_one_does() {
        for (per_second, users, workers) in [(3.0, 40, 10), (100.0, 10, 3), (7.3, 5, 8)] {
            let all: Vec<u32> = (0..users).collect();
            let alone = beats(per_second, &all, users, 5 * SECOND_NS);
            assert_eq!(alone.len() as f64, (per_second * 5.0f64).ceil());
            let own = |worker| {
                all.iter()
                    .copied()
                    .filter(move |user| user % workers == worker)
            };
            let shared = (0..workers).flat_map(|worker| {
                let places: Vec<u32> = own(worker).collect();
                beats(per_second, &places, users, 5 * SECOND_NS)
            });
            let mut shared: Vec<u64> = shared.collect();
            shared.sort_unstable();
            assert_eq!(shared, alone);
        }
    }

    #[test]
    fn entries_come_up_in_order_and_not_early() {
        let mut timers = Timers::default();
        for (due_ns, user) in [(30, 1), (10, 2), (20, 3)] {
            timers.push(Entry {
                due_ns,
                user,
                epoch: 0,
            });
        }
        let users: Vec<u32> = std::iter::from_fn(|| timers.pop_due(25))
            .map(|e| e.user)
            .collect();
        assert_eq!(users, [2, 3]);
        assert_eq!(timers.next_due_ns(), Some(30));
    }

    #[test]
    fn a_late_metronome_owes_every_beat_at_its_own_time() {
        let share = Share {
            places: vec![0],
            all: 1,
        };
        let mut metronome = Metronome::new(1e6, share, 5_000, 9_000);
        let beats: Vec<u64> = std::iter::from_fn(|| metronome.take(100_000)).collect();
        assert_eq!(beats, [5_000, 6_000, 7_000, 8_000]);
        assert_eq!(metronome.next_due_ns(), None);
    }
}
