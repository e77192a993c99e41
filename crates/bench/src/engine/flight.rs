//! Owns how long deliveries (and answers to joins and leaves) took, by when they were due, and what follows for messages
//! sent close to a join or leave: how long a server may have taken to decide who gets them. Local in time, so that one slow
//! delivery leaves the rest of a run its account. Pure: times are arguments.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The longest flight is kept for each interval of this length.
const INTERVAL_NS: u64 = 250_000_000;
/// A message may take as long as the longest flight of its interval and of so many on either side.
const NEIGHBOURS: usize = 2;
/// Share of the intervals whose longest flight is as usual: it may occur in the others too without anybody seeing it.
const USUAL: f64 = 0.9;
/// Fewer deliveries than this in all those intervals tell nothing: the longest flight of the run stands in.
const FEW: u64 = 20;
/// However quick deliveries are, the sockets of a message and of a leave may be read in either order.
const LEAST_NS: u64 = 10_000_000;
/// What seems older is damaged, or nobody's concern; bounds the number of intervals.
const OLDEST_NS: u64 = 600_000_000_000;

/// Longest flights by interval.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Flights {
    /// Number of the first interval.
    first: u64,
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Slot {
    longest_ns: u64,
    count: u64,
}

/// What each interval's messages are allowed.
#[derive(Clone, Debug)]
pub struct Allowances {
    first: u64,
    each: Vec<u64>,
    /// Of the whole run; also where nothing is known.
    longest_ns: u64,
}

impl Flights {
    /// HOT PATH: memory grows once in an interval.
    #[inline]
    pub fn record(&mut self, due_ns: u64, now_ns: u64) {
        let due_ns = due_ns.clamp(now_ns.saturating_sub(OLDEST_NS), now_ns);
        let interval = due_ns / INTERVAL_NS;
        if self.slots.is_empty() {
            self.first = interval;
        }
        let at = interval.saturating_sub(self.first) as usize;
        if at >= self.slots.len() {
            self.slots.resize(at + 1, Slot::default());
        }
        let slot = &mut self.slots[at];
        slot.longest_ns = slot.longest_ns.max(now_ns - due_ns);
        slot.count += 1;
    }

    /// Takes in what another worker's users saw; twice is as good as once.
    pub fn merge(&mut self, other: &Flights) {
        if self.slots.is_empty() || other.slots.is_empty() {
            if self.slots.is_empty() {
                self.clone_from(other);
            }
            return;
        }
        if other.first < self.first {
            let before = (self.first - other.first) as usize;
            self.slots
                .splice(..0, std::iter::repeat_n(Slot::default(), before));
            self.first = other.first;
        }
        let offset = (other.first - self.first) as usize;
        let len = self.slots.len().max(offset + other.slots.len());
        self.slots.resize(len, Slot::default());
        for (slot, more) in self.slots[offset..].iter_mut().zip(&other.slots) {
            slot.longest_ns = slot.longest_ns.max(more.longest_ns);
            slot.count = slot.count.max(more.count);
        }
    }

    fn longest_ns(&self) -> u64 {
        let flights = self.slots.iter().map(|slot| slot.longest_ns);
        flights.fold(LEAST_NS, u64::max)
    }

    pub fn allowances(&self) -> Allowances {
        let usual_ns = (2 * self.usual_ns()).max(LEAST_NS);
        // A message that came sooner into the same stall took longer, and may have nobody left who gets it.
        let allowed_for = |longest_ns: u64| match longest_ns > usual_ns {
            true => longest_ns + INTERVAL_NS,
            false => usual_ns,
        };
        let longest_ns = allowed_for(self.longest_ns());
        let allowed = |at: usize| {
            let around = at.saturating_sub(NEIGHBOURS)..self.slots.len().min(at + NEIGHBOURS + 1);
            let around = &self.slots[around];
            match around.iter().map(|slot| slot.count).sum::<u64>() < FEW {
                true => longest_ns,
                false => allowed_for(around.iter().map(|slot| slot.longest_ns).max().unwrap_or(0)),
            }
        };
        Allowances {
            first: self.first,
            each: (0..self.slots.len()).map(allowed).collect(),
            longest_ns,
        }
    }

    /// The longest flight of nearly all intervals: a few deliveries that happen to be quick do not make a short allowance.
    fn usual_ns(&self) -> u64 {
        let known = self.slots.iter().filter(|slot| slot.count > 0);
        let mut flights: Vec<u64> = known.map(|slot| slot.longest_ns).collect();
        flights.sort_unstable();
        let at = (flights.len() as f64 * USUAL) as usize;
        flights.get(at).copied().unwrap_or(0)
    }
}

impl Allowances {
    #[cfg(test)]
    pub fn same_everywhere(flight_ns: u64) -> Allowances {
        Allowances {
            first: 0,
            each: Vec::new(),
            longest_ns: flight_ns,
        }
    }

    fn at(&self, interval: u64) -> u64 {
        let at = interval.checked_sub(self.first);
        let allowed = at.and_then(|at| self.each.get(at as usize));
        allowed.copied().unwrap_or(self.longest_ns)
    }

    /// The most that any message of the run is allowed.
    pub fn longest_ns(&self) -> u64 {
        self.longest_ns
    }

    /// Earliest time of which a message may still be under way at `at_ns`.
    pub fn reach(&self, at_ns: u64) -> u64 {
        at_ns.saturating_sub(self.longest_ns)
    }

    /// When messages were sent, from `from_ns` on, that had been decided on by `end_ns`.
    pub fn decided(&self, from_ns: u64, end_ns: u64, times: &mut Vec<Range<u64>>) {
        let near_ns = self.reach(end_ns) / INTERVAL_NS * INTERVAL_NS;
        push(times, from_ns..near_ns);
        let near_ns = near_ns.max(from_ns / INTERVAL_NS * INTERVAL_NS);
        for (interval, span) in intervals(near_ns, end_ns) {
            let last_ns = end_ns.saturating_sub(self.at(interval));
            push(times, span.start.max(from_ns)..span.end.min(last_ns));
        }
    }

    /// When messages were sent before `at_ns` that may have been decided on later.
    pub fn undecided(&self, at_ns: u64, times: &mut Vec<Range<u64>>) {
        for (interval, span) in intervals(self.reach(at_ns), at_ns) {
            let first_ns = at_ns.saturating_sub(self.at(interval));
            push(times, span.start.max(first_ns)..span.end);
        }
    }
}

/// The intervals that have a part of a time, with that part.
fn intervals(from_ns: u64, end_ns: u64) -> impl Iterator<Item = (u64, Range<u64>)> {
    let all = from_ns / INTERVAL_NS..end_ns.div_ceil(INTERVAL_NS);
    all.map(move |interval| {
        let start_ns = interval * INTERVAL_NS;
        let span = start_ns.max(from_ns)..(start_ns + INTERVAL_NS).min(end_ns);
        (interval, span)
    })
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
    const SECOND: u64 = 1_000 * MS;

    /// A delivery each 10 ms for 20 s, each 2 ms under way.
    fn quick() -> Flights {
        let mut flights = Flights::default();
        for at in 0..2_000 {
            flights.record(at * 10 * MS, at * 10 * MS + 2 * MS);
        }
        flights
    }

    fn decided(flights: &Flights, from_ns: u64, end_ns: u64) -> Vec<Range<u64>> {
        let mut times = Vec::new();
        flights.allowances().decided(from_ns, end_ns, &mut times);
        times
    }

    fn only(time: Range<u64>) -> Vec<Range<u64>> {
        std::iter::once(time).collect()
    }

    #[test]
    fn one_slow_delivery_counts_only_where_it_was_due() {
        let mut flights = quick();
        assert_eq!(
            decided(&flights, SECOND, 9 * SECOND),
            only(SECOND..9 * SECOND - LEAST_NS)
        );
        flights.record(6 * SECOND, 14 * SECOND);
        let around = 5_500 * MS..6_750 * MS;
        let end_ns = 9 * SECOND;
        assert_eq!(
            decided(&flights, SECOND, end_ns),
            [SECOND..around.start, around.end..end_ns - LEAST_NS]
        );
        let long_after = 16 * SECOND;
        assert_eq!(
            decided(&flights, SECOND, long_after),
            only(SECOND..long_after - LEAST_NS)
        );
        let mut times = Vec::new();
        flights.allowances().undecided(end_ns, &mut times);
        assert_eq!(times, [around, end_ns - LEAST_NS..end_ns]);
    }

    #[test]
    fn where_nothing_is_known_the_longest_flight_stands_in() {
        let mut flights = quick();
        flights.record(6 * SECOND, 7 * SECOND);
        let end_ns = 30 * SECOND;
        assert_eq!(
            decided(&flights, 22 * SECOND, end_ns),
            only(22 * SECOND..end_ns - SECOND - INTERVAL_NS)
        );
        let nothing = Flights::default();
        assert_eq!(decided(&nothing, 0, SECOND), only(0..SECOND - LEAST_NS));
    }

    #[test]
    fn workers_are_merged_whichever_began_first() {
        let (mut early, mut late) = (Flights::default(), Flights::default());
        early.record(SECOND, SECOND + 30 * MS);
        late.record(9 * SECOND, 9 * SECOND + 40 * MS);
        for (mut one, other) in [(early.clone(), &late), (late.clone(), &early)] {
            one.merge(other);
            assert_eq!((one.first, one.slots.len()), (4, 33));
            assert_eq!(one.slots[0].longest_ns, 30 * MS);
            assert_eq!(one.slots[32].longest_ns, 40 * MS);
            assert_eq!(one.longest_ns(), 40 * MS);
        }
        late.merge(&Flights::default());
        early = Flights::default();
        early.merge(&late);
        assert_eq!(early.first, 36);
    }

    #[test]
    fn a_damaged_time_costs_no_memory() {
        let mut flights = Flights::default();
        flights.record(u64::MAX, 1 << 50);
        flights.record(0, 1 << 50);
        flights.record(1 << 50, 1 << 50);
        assert_eq!(flights.slots.len(), 1);
        let mut flights = Flights::default();
        flights.record(0, 1 << 50);
        flights.record(1 << 50, 1 << 50);
        assert!(flights.slots.len() < 20_000);
    }
}
