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
#[derive(Clone, Copy, Debug)]
pub struct Metronome {
    start_ns: u64,
    distance_ns: f64,
    taken: u64,
    end_ns: u64,
}

impl Metronome {
    pub fn new(per_second: f64, start_ns: u64, end_ns: u64) -> Self {
        Metronome {
            start_ns,
            distance_ns: 1e9 / per_second,
            taken: 0,
            end_ns,
        }
    }

    pub fn next_due_ns(&self) -> Option<u64> {
        let due_ns = self.start_ns + (self.taken as f64 * self.distance_ns) as u64;
        (due_ns < self.end_ns).then_some(due_ns)
    }

    pub fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.next_due_ns().filter(|due_ns| *due_ns <= now_ns)?;
        self.taken += 1;
        Some(due_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut metronome = Metronome::new(1e6, 5_000, 9_000);
        let beats: Vec<u64> = std::iter::from_fn(|| metronome.take(100_000)).collect();
        assert_eq!(beats, [5_000, 6_000, 7_000, 8_000]);
        assert_eq!(metronome.next_due_ns(), None);
    }
}
