//! What one client has not taken yet, unit by unit, within a bound. Outboxes and polling queues are both made of it, so that
//! a slow reader is treated alike on every transport, in every protocol and with compression.

use crate::books::config::SlowConsumer;
use crate::output::piece::Piece;
use foldhash::fast::FixedState;
use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;

/// What may happen to a unit for which a slow reader has no room. The sender knows; nobody looks into the bytes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Answers, heartbeats and ends are never dropped.
    Fixed,
    /// An event follows the policy of its namespace. `key` tells which events replace each other.
    Event { policy: SlowConsumer, key: u64 },
}

impl Fate {
    fn policy(self) -> SlowConsumer {
        match self {
            Self::Fixed => SlowConsumer::Disconnect,
            Self::Event { policy, .. } => policy,
        }
    }

    /// It makes room for newer units.
    fn yields(self) -> bool {
        matches!(
            self.policy(),
            SlowConsumer::DropOldest | SlowConsumer::Conflate
        )
    }

    fn key(self) -> Option<u64> {
        match self {
            Self::Event {
                policy: SlowConsumer::Conflate,
                key,
            } => Some(key),
            _ => None,
        }
    }
}

/// What is sent or dropped as a whole: a packet with its attachments.
#[derive(Clone, Debug)]
pub(crate) struct Unit {
    pub(crate) piece: Piece,
    pub(crate) fate: Fate,
    /// Engine.IO packets in it, for polling.
    pub(crate) packets: u32,
    /// Never compressed, for polling.
    pub(crate) exempt: bool,
}

impl Unit {
    pub(crate) fn of(piece: Piece, fate: Fate) -> Self {
        Self {
            piece,
            fate,
            packets: 1,
            exempt: false,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.piece.bytes()
    }

    fn cost(&self) -> usize {
        self.bytes().len() + ENTRY_BYTES
    }
}

/// What keeping a unit costs besides its bytes. It counts towards the bound: a thousand tiny units are not free.
const ENTRY_BYTES: usize = size_of::<Unit>() + 2 * size_of::<u64>();

/// Events dropped, by policy.
pub(crate) type Dropped = [u64; SlowConsumer::NAMES.len()];

/// The bound is reached and nothing may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    units: VecDeque<Unit>,
    /// What all units cost.
    cost: usize,
    /// What those cost that make room for newer ones.
    yielding: usize,
    /// Bytes of the first unit that are out already: that unit is never dropped.
    sent: usize,
    /// Number of the first unit. Numbers go up by one from unit to unit.
    first: u64,
    /// Numbers of the units that a newer one of the same key replaces.
    keys: Option<Box<Keys>>,
}

type Keys = HashMap<u64, u64, FixedState>;

impl Backlog {
    /// Takes a unit of which `sent` bytes are out already.
    pub(crate) fn begin(&mut self, unit: Unit, sent: usize) {
        debug_assert!(self.units.is_empty() && sent < unit.bytes().len());
        self.append(unit);
        self.sent = sent;
    }

    /// Takes a unit. At the bound the unit's policy decides what is dropped: events of its kind that are older, or itself.
    pub(crate) fn push(
        &mut self,
        unit: Unit,
        bytes_max: usize,
        dropped: &mut Dropped,
    ) -> Result<(), Overflow> {
        let fate = unit.fate;
        if let Some(at) = self.same_key(fate) {
            self.replace(at, unit);
            dropped[SlowConsumer::Conflate as usize] += 1;
            self.make_room(bytes_max, dropped);
            return Ok(());
        }
        // Dropping reads the whole backlog, so it makes room for more than one unit. Where new events are what is dropped, that
        // room is kept for answers and heartbeats.
        let low = bytes_max / 4 * 3;
        let bound = match fate.policy() {
            SlowConsumer::DropNewest => low,
            _ => bytes_max,
        };
        let cost = unit.cost();
        if self.cost() + cost > bound && fate.policy() != SlowConsumer::DropNewest {
            self.make_room(low.saturating_sub(cost), dropped);
        }
        if self.cost() + cost <= bound {
            self.append(unit);
        } else if fate.policy() == SlowConsumer::Disconnect {
            return Err(Overflow);
        } else {
            dropped[fate.policy() as usize] += 1;
        }
        Ok(())
    }

    fn append(&mut self, unit: Unit) {
        self.cost += unit.cost();
        self.yielding += if unit.fate.yields() { unit.cost() } else { 0 };
        if let Some(key) = unit.fate.key() {
            let number = self.first + self.units.len() as u64;
            self.keys.get_or_insert_default().insert(key, number);
        }
        self.units.push_back(unit);
    }

    /// Where a unit waits, whole, that this one replaces.
    fn same_key(&self, fate: Fate) -> Option<usize> {
        let number = self.keys.as_ref()?.get(&fate.key()?)?;
        let at = (number - self.first) as usize;
        (at > 0 || self.sent == 0).then_some(at)
    }

    /// The newer unit waits where the older one did: a key that changes all the time has its turn, too.
    fn replace(&mut self, at: usize, unit: Unit) {
        if let Some(old) = self.units.get_mut(at) {
            let (before, now) = (old.cost(), unit.cost());
            self.cost = self.cost - before + now;
            self.yielding = self.yielding - before + now;
            *old = unit;
        }
    }

    /// Drops the oldest events that yield until what waits costs no more than `cost_max`.
    fn make_room(&mut self, cost_max: usize, dropped: &mut Dropped) {
        let started = usize::from(self.sent > 0);
        let mut excess = self.cost().saturating_sub(cost_max);
        let begun = self
            .units
            .front()
            .filter(|unit| started > 0 && unit.fate.yields());
        if excess == 0 || self.yielding <= begun.map_or(0, Unit::cost) {
            return;
        }
        let (mut at, mut freed) = (0, 0);
        self.units.retain(|unit| {
            at += 1;
            if at <= started || excess == 0 || !unit.fate.yields() {
                return true;
            }
            excess = excess.saturating_sub(unit.cost());
            freed += unit.cost();
            dropped[unit.fate.policy() as usize] += 1;
            false
        });
        self.cost -= freed;
        self.yielding -= freed;
        self.number_keys();
    }

    /// Units have moved up: their keys lead to where they are now.
    fn number_keys(&mut self) {
        let Some(keys) = &mut self.keys else { return };
        keys.clear();
        for (number, unit) in (self.first..).zip(&self.units) {
            if let Some(key) = unit.fate.key() {
                keys.insert(key, number);
            }
        }
    }

    pub(crate) fn front(&self) -> Option<&Unit> {
        self.units.front()
    }

    pub(crate) fn pop(&mut self) -> Option<Unit> {
        let unit = self.units.pop_front()?;
        if let (Some(key), Some(keys)) = (unit.fate.key(), &mut self.keys)
            && keys.get(&key) == Some(&self.first)
        {
            keys.remove(&key);
        }
        self.first += 1;
        self.sent = 0;
        self.cost -= unit.cost();
        self.yielding -= if unit.fate.yields() { unit.cost() } else { 0 };
        Some(unit)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Bytes that wait, with what each unit costs to keep.
    pub(crate) fn cost(&self) -> usize {
        self.cost - self.sent
    }

    /// Forgets all but a unit whose beginning is out.
    pub(crate) fn discard_unstarted(&mut self) {
        let (sent, first) = (self.sent, self.units.pop_front());
        *self = Self::default();
        if let Some(first) = first.filter(|_| sent > 0) {
            self.begin(first, sent);
        }
    }

    /// The first bytes that wait; returns how many slices that are.
    pub(crate) fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut skip = self.sent;
        let mut count = 0;
        for (slice, unit) in slices.iter_mut().zip(&self.units) {
            *slice = IoSlice::new(&unit.bytes()[skip..]);
            skip = 0;
            count += 1;
        }
        count
    }

    /// So many bytes were written.
    pub(crate) fn advance(&mut self, mut n: usize) {
        while let Some(unit) = self.units.front() {
            let rest = unit.bytes().len() - self.sent;
            if n < rest {
                self.sent += n;
                return;
            }
            n -= rest;
            self.pop();
        }
    }

    /// Bytes of the list; the pieces are counted where they are made.
    pub(crate) fn heap_bytes(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, |keys| keys.capacity() * 17);
        self.units.capacity() * size_of::<Unit>() + keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::piece::Pool;

    const COST: usize = ENTRY_BYTES + 2;

    fn unit(text: &str, fate: Fate) -> Unit {
        let pool = Pool::new(Default::default());
        Unit::of(Piece::new(text.as_bytes(), &pool), fate)
    }

    fn event(policy: SlowConsumer, key: u64) -> Fate {
        Fate::Event { policy, key }
    }

    fn texts(backlog: &Backlog) -> String {
        let texts = backlog
            .units
            .iter()
            .map(|unit| std::str::from_utf8(unit.bytes()).expect("text"));
        texts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn at_the_bound_each_policy_drops_what_it_says_and_counts_it() {
        for (policy, expected) in [
            (SlowConsumer::DropOldest, "!! 03 04 05 06 07 08 09"),
            (SlowConsumer::DropNewest, "!! 00 01 02 03 04"),
            (SlowConsumer::Conflate, "!! 03 04 05 06 07 08 09"),
        ] {
            let (mut backlog, mut dropped) = (Backlog::default(), Dropped::default());
            let mut push = |text: &str, fate| {
                let pushed = backlog.push(unit(text, fate), 8 * COST, &mut dropped);
                pushed.expect("events are dropped");
            };
            push("!!", Fate::Fixed);
            (0..10).for_each(|n| push(&format!("{n:02}"), event(policy, n)));
            assert_eq!(texts(&backlog), expected, "{policy:?}");
            let held = backlog.units.len() as u64 - 1;
            assert_eq!(dropped[policy as usize], 10 - held, "{policy:?}");
        }
    }

    #[test]
    fn answers_find_room_where_new_events_do_not() {
        let (mut backlog, mut dropped) = (Backlog::default(), Dropped::default());
        for n in 0..20 {
            let newest = unit(&format!("{n:02}"), event(SlowConsumer::DropNewest, 0));
            backlog
                .push(newest, 8 * COST, &mut dropped)
                .expect("dropped");
        }
        for _ in 0..2 {
            backlog
                .push(unit("!!", Fate::Fixed), 8 * COST, &mut dropped)
                .expect("room for an answer");
        }
        let third = backlog.push(unit("!!", Fate::Fixed), 8 * COST, &mut dropped);
        assert_eq!(third, Err(Overflow));
    }

    #[test]
    fn only_the_newest_of_a_key_waits_in_the_place_of_the_oldest() {
        let (mut backlog, mut dropped) = (Backlog::default(), Dropped::default());
        for (text, key) in [
            ("a1", 1),
            ("b1", 2),
            ("a2", 1),
            ("c1", 3),
            ("a3", 1),
            ("b2", 2),
        ] {
            let unit = unit(text, event(SlowConsumer::Conflate, key));
            backlog.push(unit, 100 * COST, &mut dropped).expect("room");
        }
        assert_eq!(texts(&backlog), "a3 b2 c1");
        assert_eq!(dropped[SlowConsumer::Conflate as usize], 3);
        // A unit whose beginning is out stays; the newer one waits behind the others.
        backlog.advance(1);
        let newer = unit("a4", event(SlowConsumer::Conflate, 1));
        backlog.push(newer, 100 * COST, &mut dropped).expect("room");
        assert_eq!(texts(&backlog), "a3 b2 c1 a4");
        backlog.advance(1);
        let newer = unit("a5", event(SlowConsumer::Conflate, 1));
        backlog.push(newer, 100 * COST, &mut dropped).expect("room");
        assert_eq!(texts(&backlog), "b2 c1 a5");
    }

    #[test]
    fn keys_lead_to_their_units_also_after_older_ones_were_dropped() {
        let (mut backlog, mut dropped) = (Backlog::default(), Dropped::default());
        for n in 0..20 {
            let unit = unit(&format!("{n:02}"), event(SlowConsumer::Conflate, n));
            backlog.push(unit, 8 * COST, &mut dropped).expect("room");
        }
        let newest = unit("!!", event(SlowConsumer::Conflate, 19));
        backlog.push(newest, 8 * COST, &mut dropped).expect("room");
        assert!(texts(&backlog).ends_with("18 !!"), "{}", texts(&backlog));
    }

    #[test]
    fn whatever_is_pushed_and_taken_the_sums_agree() {
        let mut seed = 7u32;
        let mut roll = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) % below
        };
        let (mut backlog, mut dropped) = (Backlog::default(), Dropped::default());
        for _ in 0..20_000 {
            let fate = match roll(5) {
                0 => Fate::Fixed,
                1 => event(SlowConsumer::Disconnect, 0),
                2 => event(SlowConsumer::DropOldest, 0),
                3 => event(SlowConsumer::DropNewest, 0),
                _ => event(SlowConsumer::Conflate, roll(4).into()),
            };
            let unit = unit(&"x".repeat(1 + roll(200) as usize), fate);
            if backlog.push(unit, 2_000, &mut dropped).is_err() {
                backlog.discard_unstarted();
            }
            backlog.advance(roll(150) as usize);
            let cost: usize = backlog.units.iter().map(Unit::cost).sum();
            let yields = backlog.units.iter().filter(|unit| unit.fate.yields());
            assert_eq!(backlog.cost, cost);
            assert_eq!(backlog.yielding, yields.map(Unit::cost).sum::<usize>());
            assert!(backlog.cost() <= 2_000 + 200 + ENTRY_BYTES);
        }
        assert!(dropped[1..].iter().all(|count| *count > 100), "{dropped:?}");
    }
}
