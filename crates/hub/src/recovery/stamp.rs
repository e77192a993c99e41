//! The place of an event or an order in the order of the shard that gave it out, and how far a shard is in the orders of all shards.

use crate::books::faults::{self, Fault};
use crate::bounds::{LIVES_MAX, ORIGINS_MAX};
use crate::tables::id::{Ids, Place};
use std::collections::BTreeMap;

/// Names what a shard gave out: each later event or order of that life of the shard has a larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) from: Place,
    pub(crate) life: ShardLife,
    pub(crate) number: u64,
}

/// Tells one life of a shard from its next: a node that comes back under its number begins to count anew. It is drawn and not read from a
/// clock, which may go back: so it says nothing of which life came first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShardLife(pub(crate) u64);

impl ShardLife {
    /// The life of a stream, which does not end with a node.
    pub(crate) const OF_STREAMS: Self = Self(0);

    /// Draws 56 bits: two lives that are alike are not met in practice.
    pub(crate) fn draw(ids: &mut Ids) -> Self {
        let mut bytes = [0; 8];
        bytes[1..].copy_from_slice(&ids.random::<7>());
        match faults::is_back(Fault::LivesAlike) {
            true => Self::OF_STREAMS,
            false => Self(u64::from_be_bytes(bytes)),
        }
    }
}

/// Stands for a node in stamps of streams that all nodes read.
pub(crate) const STREAMS: u16 = u16::MAX;

/// Draws the stamps of a shard.
#[derive(Debug)]
pub(crate) struct Stamps {
    me: Place,
    life: ShardLife,
    last: u64,
    /// All that this shard gave out, also what others published first.
    given: Vector,
}

impl Stamps {
    pub(crate) fn new(me: Place, life: ShardLife) -> Self {
        Self {
            me,
            life,
            last: 0,
            given: Vector::default(),
        }
    }

    pub(crate) fn next(&mut self) -> Stamp {
        self.last += 1;
        self.last()
    }

    /// The stamp of an event that this shard gives out: it goes with each letter. `first`: the stamp by the node that published it, if that
    /// was another.
    pub(crate) fn give(&mut self, first: Option<Stamp>) -> Stamp {
        let stamp = first.unwrap_or_else(|| self.next());
        self.given.see(stamp);
        stamp
    }

    pub(crate) fn given(&self) -> &Vector {
        &self.given
    }

    /// The process before gave out all of `given`, and numbers up to `last`. The life of the shard goes on.
    pub(crate) fn go_on_from(&mut self, given: Vector, life: ShardLife, last: u64) {
        (self.given, self.life, self.last) = (given, life, last);
    }

    /// The one that was drawn last.
    pub(crate) fn last(&self) -> Stamp {
        Stamp {
            from: self.me,
            life: self.life,
            number: self.last,
        }
    }
}

/// The last number of each life of each shard that was seen. What a shard says arrives in order, so all before it was seen, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Vector {
    /// The lives of a place in the order in which something new was last heard of them.
    last: BTreeMap<Place, Vec<(ShardLife, u64)>>,
}

impl FromIterator<Stamp> for Vector {
    fn from_iter<I: IntoIterator<Item = Stamp>>(stamps: I) -> Self {
        let mut vector = Self::default();
        stamps.into_iter().for_each(|stamp| vector.see(stamp));
        vector
    }
}

impl Vector {
    /// Notes that it was seen here.
    pub(crate) fn see(&mut self, stamp: Stamp) {
        if !self.covers(stamp) {
            self.hear(stamp);
        }
    }

    /// Moves its life to the end: it is the last that was heard of its shard.
    fn hear(&mut self, mut stamp: Stamp) {
        // A stamp comes from another node, which may name places that nobody has.
        if self.last.len() >= ORIGINS_MAX && !self.last.contains_key(&stamp.from) {
            return;
        }
        let lives = self.last.entry(stamp.from).or_default();
        if let Some(at) = lives.iter().position(|(life, _)| *life == stamp.life) {
            stamp.number = stamp.number.max(lives.remove(at).1);
        }
        // Nothing of a life that so many others followed is on its way any more.
        if lives.len() >= LIVES_MAX {
            lives.remove(0);
        }
        lives.push((stamp.life, stamp.number));
    }

    /// Takes in what a vector has of streams that all nodes read: they have no shard.
    pub(crate) fn see_streams(&mut self, other: &Self) {
        let streams = other.iter().filter(|stamp| stamp.from.node == STREAMS);
        streams.for_each(|stamp| self.see(stamp));
    }

    /// Takes in another vector. That may know of many lives that are over, so the one that was heard of last here stays last.
    pub(crate) fn see_all(&mut self, other: &Self) {
        for from in other.last.keys() {
            let own = self.of(*from).last();
            other.of(*from).for_each(|stamp| self.see(stamp));
            own.into_iter().for_each(|stamp| self.hear(stamp));
        }
    }

    /// The lives of one shard.
    fn of(&self, from: Place) -> impl Iterator<Item = Stamp> {
        let lives = self.last.get(&from).into_iter().flatten();
        lives.map(move |(life, number)| Stamp {
            from,
            life: *life,
            number: *number,
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Stamp> {
        self.last.keys().flat_map(|from| self.of(*from))
    }

    /// The last number of a stream.
    pub(crate) fn last_of(&self, stream: Place) -> Option<u64> {
        let lives = self.last.get(&stream)?;
        lives.last().map(|(_, number)| *number)
    }

    pub(crate) fn covers(&self, stamp: Stamp) -> bool {
        let lives = self.last.get(&stamp.from);
        let mut lives = lives.into_iter().flatten();
        lives.any(|(life, last)| *life == stamp.life && stamp.number <= *last)
    }

    /// Lives of shards that it has.
    pub(crate) fn len(&self) -> usize {
        self.last.values().map(Vec::len).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.last.len() * size_of::<(Place, Vec<(ShardLife, u64)>)>()
            + self.len() * size_of::<(ShardLife, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(node: u16, shard: u16) -> Place {
        Place { node, shard }
    }

    #[test]
    fn a_vector_covers_what_each_shard_said_up_to_there() {
        let mut one = Stamps::new(place(1, 0), ShardLife(1));
        let mut two = Stamps::new(place(1, 1), ShardLife(2));
        let (first, second, other) = (one.next(), one.next(), two.next());
        let mut seen = Vector::default();
        assert!(!seen.covers(first));
        seen.see(second);
        assert!(seen.covers(first) && seen.covers(second));
        assert!(!seen.covers(other) && !seen.covers(one.next()));
        // What comes twice takes nothing back.
        seen.see(first);
        assert!(seen.covers(second));
    }

    /// The first number of a life came from the clock, and the next life's clock was behind by more than that life was long.
    #[test]
    fn what_a_node_said_in_its_next_life_was_taken_for_what_it_said_before() {
        let mut long = Stamps::new(place(2, 0), ShardLife(7));
        let mut seen = Vector::default();
        (0..1_000).for_each(|_| seen.see(long.next()));
        let mut next = Stamps::new(place(2, 0), ShardLife(3));
        let fresh = next.next();
        assert!(!seen.covers(fresh));
        seen.see(fresh);
        assert!(seen.covers(fresh) && !seen.covers(next.next()));
        // The last words of the life before may come behind the first ones of the next, and be no news.
        assert!(seen.covers(long.last()) && !seen.covers(long.next()));
    }

    /// A node had died so often that another one remembered only lives of it that were over.
    #[test]
    fn the_living_life_of_a_node_was_forgotten_for_lives_that_another_node_remembered() {
        let of = |life, number| Stamp {
            from: place(1, 0),
            life: ShardLife(life),
            number,
        };
        let over: Vector = (1..=LIVES_MAX as u64).map(|life| of(life, 9)).collect();
        let mut seen: Vector = [of(7, 5)].into_iter().collect();
        seen.see_all(&over);
        assert!(seen.covers(of(7, 5)) && seen.covers(of(LIVES_MAX as u64, 9)));
        assert_eq!(seen.len(), LIVES_MAX);
        // One that speaks again is the last that was heard of.
        seen.see(of(3, 10));
        let others: Vector = (11..=14).map(|life| of(life, 1)).collect();
        seen.see_all(&others);
        assert!(seen.covers(of(3, 10)) && seen.covers(of(14, 1)));
    }

    #[test]
    fn lives_of_a_shard_that_dies_again_and_again_are_bounded() {
        let mut seen = Vector::default();
        let lives = (1..=100).map(|life| Stamp {
            from: place(1, 0),
            life: ShardLife(life),
            number: 1_000 - life,
        });
        lives.clone().for_each(|stamp| seen.see(stamp));
        assert_eq!(seen.len(), LIVES_MAX);
        let covered: Vec<Stamp> = lives.filter(|stamp| seen.covers(*stamp)).collect();
        assert_eq!(covered, seen.iter().collect::<Vec<_>>());
        assert_eq!(covered.last().map(|stamp| stamp.life), Some(ShardLife(100)));
        let other: Vector = seen.iter().collect();
        assert_eq!(other, seen);
    }
}
