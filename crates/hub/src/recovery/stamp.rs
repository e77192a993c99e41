//! Where an event or an order stands in the order of the shard that gave it out, and how far a shard is in the orders of all.

use crate::books::limits::SHARDS_MAX;
use crate::tables::id::Place;
use std::collections::BTreeMap;

/// Names what a shard gave out: each later event or order of that shard has a larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) from: Place,
    pub(crate) number: u64,
}

/// Stands for a node in stamps of streams that all nodes read.
pub(crate) const STREAMS: u16 = u16::MAX;

/// A shard gives out fewer events in each millisecond of its life.
const PER_MS_BITS: u32 = 20;

/// Draws the stamps of a shard.
#[derive(Debug)]
pub(crate) struct Stamps {
    me: Place,
    last: u64,
}

impl Stamps {
    pub(crate) fn new(me: Place) -> Self {
        Self { me, last: 0 }
    }

    /// No number of an earlier life of this place is larger: other nodes may have kept those. Only the first comes from the clock. So a
    /// clock may be behind that of the life before by as much as that life was long.
    pub(crate) fn next(&mut self, wall_ms: u64) -> Stamp {
        self.last = match self.last {
            0 => wall_ms << PER_MS_BITS,
            last => last + 1,
        };
        self.last()
    }

    /// The process before gave out numbers up to this.
    pub(crate) fn go_on_from(&mut self, last: u64) {
        self.last = self.last.max(last);
    }

    /// The one that was drawn last.
    pub(crate) fn last(&self) -> Stamp {
        Stamp {
            from: self.me,
            number: self.last,
        }
    }
}

/// The last number of each shard that was seen. What a shard says arrives in order, so all before it was seen, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vector {
    last: BTreeMap<Place, u64>,
}

/// Shards that a vector can hold, of all nodes.
const ORIGINS_MAX: usize = 1024 * SHARDS_MAX;

impl FromIterator<Stamp> for Vector {
    fn from_iter<I: IntoIterator<Item = Stamp>>(stamps: I) -> Self {
        let mut vector = Self::default();
        stamps.into_iter().for_each(|stamp| vector.see(stamp));
        vector
    }
}

impl Vector {
    /// It was seen here.
    pub(crate) fn see(&mut self, stamp: Stamp) {
        if self.last.len() < ORIGINS_MAX || self.last.contains_key(&stamp.from) {
            let last = self.last.entry(stamp.from).or_default();
            *last = stamp.number.max(*last);
        }
    }

    /// The same of what a vector has of streams that all nodes read: they have no shard.
    pub(crate) fn see_streams(&mut self, other: &Self) {
        let streams = other.iter().filter(|stamp| stamp.from.node == STREAMS);
        streams.for_each(|stamp| self.see(stamp));
    }

    /// All of another vector was seen here.
    pub(crate) fn see_all(&mut self, other: &Self) {
        other.iter().for_each(|stamp| self.see(stamp));
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Stamp> {
        let all = self.last.iter();
        all.map(|(from, number)| Stamp {
            from: *from,
            number: *number,
        })
    }

    /// The last number of a shard.
    pub(crate) fn last_of(&self, from: Place) -> Option<u64> {
        self.last.get(&from).copied()
    }

    pub(crate) fn covers(&self, stamp: Stamp) -> bool {
        let last = self.last.get(&stamp.from);
        last.is_some_and(|last| stamp.number <= *last)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.last.len() * size_of::<(Place, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_covers_what_each_shard_said_up_to_there() {
        let place = |node, shard| Place { node, shard };
        let (mut one, mut two) = (Stamps::new(place(1, 0)), Stamps::new(place(1, 1)));
        let (first, second, other) = (one.next(1), one.next(1), two.next(1));
        let mut seen = Vector::default();
        assert!(!seen.covers(first));
        seen.see(second);
        assert!(seen.covers(first) && seen.covers(second));
        assert!(!seen.covers(other) && !seen.covers(one.next(1)));
        let mut later = Stamps::new(place(1, 0));
        assert!(!seen.covers(later.next(2)), "of the next life of its place");
        // It lived for an hour, by a clock that was half an hour ahead of the next one's.
        const HOUR_MS: u64 = 3_600_000;
        let mut long = Stamps::new(place(2, 0));
        (0..1_000).for_each(|n| seen.see(long.next(HOUR_MS + n * HOUR_MS / 1_000)));
        let mut next = Stamps::new(place(2, 0));
        assert!(!seen.covers(next.next(HOUR_MS + HOUR_MS / 2)));
        // What comes twice takes nothing back.
        seen.see(first);
        assert!(seen.covers(second));
    }
}
