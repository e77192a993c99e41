//! Owns how long deliveries (and answers to joins and leaves) took, and what follows for messages sent close to a join or
//! leave: a message is not judged if it was sent at most F before. F is twice the longest flight of all that was due in the
//! same second or in one beside it, 10 ms at least. Pure: times are arguments.

use serde::{Deserialize, Serialize};
use std::ops::Range;

const SECOND_NS: u64 = 1_000_000_000;
/// However quick deliveries are, the sockets of a message and of a leave may be read in either order.
const LEAST_NS: u64 = 10_000_000;
/// An older time is damaged, or of another run; bounds the number of seconds.
const OLDEST_NS: u64 = 600 * SECOND_NS;

/// Longest flights by the second in which they were due.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Flights {
    /// Number of the first second.
    first: u64,
    /// 0 where nothing is known.
    seconds: Vec<u64>,
    longest_ns: u64,
}

impl Flights {
    /// HOT PATH: memory grows once in a second.
    #[inline]
    pub fn record(&mut self, due_ns: u64, now_ns: u64) {
        let due_ns = due_ns.clamp(now_ns.saturating_sub(OLDEST_NS), now_ns);
        if self.seconds.is_empty() {
            self.first = due_ns / SECOND_NS;
        }
        self.note(due_ns / SECOND_NS, (now_ns - due_ns).max(1));
    }

    fn note(&mut self, second: u64, flight_ns: u64) {
        let at = second.saturating_sub(self.first) as usize;
        if at >= self.seconds.len() {
            self.seconds.resize(at + 1, 0);
        }
        self.seconds[at] = self.seconds[at].max(flight_ns);
        self.longest_ns = self.longest_ns.max(flight_ns);
    }

    /// Takes in what another worker's users saw; twice is as good as once.
    pub fn merge(&mut self, other: &Flights) {
        if self.seconds.is_empty() {
            return self.clone_from(other);
        }
        let before = self.first.saturating_sub(other.first) as usize;
        if before > 0 && !other.seconds.is_empty() {
            self.seconds.splice(..0, std::iter::repeat_n(0, before));
            self.first = other.first;
        }
        for (second, flight_ns) in (other.first..).zip(&other.seconds) {
            self.note(second, *flight_ns);
        }
    }

    /// The most that any message of the run is allowed; also where nothing is known.
    pub fn longest_ns(&self) -> u64 {
        (2 * self.longest_ns).max(LEAST_NS)
    }

    /// How long before a join or leave a message of this second is not judged.
    fn allowed_ns(&self, second: u64) -> u64 {
        let near = |&(own, _): &(u64, &u64)| own.abs_diff(second) <= 1;
        let from = second.saturating_sub(self.first + 1) as usize;
        let known = (self.first..).zip(&self.seconds).skip(from).take(3);
        match known.filter(near).map(|(_, flight_ns)| *flight_ns).max() {
            None | Some(0) => self.longest_ns(),
            Some(flight_ns) => (2 * flight_ns).max(LEAST_NS),
        }
    }

    /// When messages were sent before `at_ns` that may have been decided on later.
    pub fn undecided(&self, at_ns: u64) -> impl Iterator<Item = Range<u64>> {
        let from = at_ns.saturating_sub(self.longest_ns()) / SECOND_NS;
        let spans = (from..=at_ns / SECOND_NS).map(move |second| {
            let start_ns = at_ns.saturating_sub(self.allowed_ns(second));
            let end_ns = (second + 1) * SECOND_NS;
            start_ns.max(second * SECOND_NS)..end_ns.min(at_ns)
        });
        spans.filter(|span| !span.is_empty())
    }

    /// When messages were sent, from `from_ns` on, that had been decided on by `end_ns`.
    pub fn decided(&self, from_ns: u64, end_ns: u64, times: &mut Vec<Range<u64>>) {
        let mut at_ns = from_ns;
        for span in self.undecided(end_ns) {
            push(times, at_ns..span.start);
            at_ns = at_ns.max(span.end);
        }
        push(times, at_ns..end_ns);
    }
}

/// Appends a time, unless it is empty, to the one that it follows on.
pub fn push(times: &mut Vec<Range<u64>>, more: Range<u64>) {
    if more.is_empty() {
        return;
    }
    match times.last_mut().filter(|last| last.end == more.start) {
        Some(last) => last.end = more.end,
        None => times.push(more),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A delivery each 10 ms for 20 s, each 2 ms under way.
    fn quick() -> Flights {
        let mut flights = Flights::default();
        for at in 0..2_000 {
            flights.record(at * 10 * MS, at * 10 * MS + 2 * MS);
        }
        flights
    }

    fn decided(flights: &Flights, from_s: u64, end_s: u64) -> Vec<Range<u64>> {
        let mut times = Vec::new();
        flights.decided(from_s * SECOND_NS, end_s * SECOND_NS, &mut times);
        times
    }

    #[test]
    fn one_slow_delivery_counts_only_where_it_was_due() {
        let mut flights = quick();
        let at = |seconds: u64| seconds * SECOND_NS;
        let whole = |range: Range<u64>| std::iter::once(range).collect::<Vec<_>>();
        assert_eq!(decided(&flights, 1, 9), whole(at(1)..at(9) - LEAST_NS));
        flights.record(at(6), at(10));
        // In doubt is what was sent from 5 s to 8 s, which may have taken 8 s.
        assert_eq!(
            decided(&flights, 1, 9),
            [at(1)..at(5), at(8)..at(9) - LEAST_NS]
        );
        assert_eq!(decided(&flights, 1, 18), whole(at(1)..at(18) - LEAST_NS));
        let undecided: Vec<_> = flights.undecided(at(9)).collect();
        assert_eq!(undecided.first(), Some(&(at(5)..at(6))));
        assert_eq!(undecided.last(), Some(&(at(9) - LEAST_NS..at(9))));
    }

    #[test]
    fn where_nothing_is_known_the_longest_flight_stands_in() {
        let mut flights = quick();
        flights.record(6 * SECOND_NS, 7 * SECOND_NS);
        let end_ns = 30 * SECOND_NS;
        let first = flights.undecided(end_ns).next();
        assert_eq!(first.map(|span| span.start), Some(end_ns - 2 * SECOND_NS));
        let nothing = Flights::default().undecided(SECOND_NS).next();
        assert_eq!(nothing, Some(SECOND_NS - LEAST_NS..SECOND_NS));
    }

    #[test]
    fn workers_are_merged_whichever_began_first() {
        let (mut early, mut late) = (Flights::default(), Flights::default());
        early.record(SECOND_NS, SECOND_NS + 30 * MS);
        late.record(9 * SECOND_NS, 9 * SECOND_NS + 40 * MS);
        for (mut one, other) in [(early.clone(), &late), (late.clone(), &early)] {
            one.merge(other);
            assert_eq!((one.first, one.seconds.len()), (1, 9));
            assert_eq!((one.seconds[0], one.seconds[8]), (30 * MS, 40 * MS));
            assert_eq!(one.longest_ns(), 80 * MS);
        }
        late.merge(&Flights::default());
        early = Flights::default();
        early.merge(&late);
        assert_eq!(early.first, 9);
    }

    #[test]
    fn a_damaged_time_costs_no_memory() {
        let mut flights = Flights::default();
        flights.record(u64::MAX, 1 << 50);
        flights.record(0, 1 << 50);
        flights.record(1 << 50, 1 << 50);
        assert_eq!(flights.seconds.len(), 1);
        let mut flights = Flights::default();
        flights.record(0, 1 << 50);
        flights.record(1 << 50, 1 << 50);
        assert!(flights.seconds.len() < 1_000);
    }
}
