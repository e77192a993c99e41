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

    /// Whether the unit makes room for newer ones.
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
    /// It waits beside the bound: the backlog says so.
    pub(crate) spared: bool,
}

impl Unit {
    pub(crate) fn of(piece: Piece, fate: Fate) -> Self {
        Self {
            piece,
            fate,
            packets: 1,
            exempt: false,
            spared: false,
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

/// A limit for all that waits for one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    bytes: usize,
    spares_one: bool,
}

impl Bound {
    /// So many bytes, and beside them one unit that is larger alone: its client would come back for it again and again.
    pub(crate) fn beside_one(bytes: usize) -> Self {
        Self {
            bytes,
            spares_one: true,
        }
    }

    /// So many bytes, whatever they are.
    pub(crate) fn strict(bytes: usize) -> Self {
        Self {
            bytes,
            spares_one: false,
        }
    }

    fn spares(self, unit: &Unit) -> bool {
        // Costs of 4 GiB do not fit where they are noted.
        self.spares_one && unit.cost() > self.bytes && u32::try_from(unit.cost()).is_ok()
    }
}

/// Events dropped, by policy.
pub(crate) type Losses = [u64; SlowConsumer::NAMES.len()];

/// The bound is reached and nothing may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    units: VecDeque<Unit>,
    /// What all units cost.
    cost: usize,
    /// Sum of the costs of the units that may be dropped to make room for newer ones.
    yielding: usize,
    /// Cost of the one unit that waits beside the bound; 0: none does.
    spared: u32,
    /// Bytes of the first unit that are out already: that unit is never dropped.
    sent: u32,
    /// Number of the first unit. Numbers go up by one from unit to unit.
    first: u64,
    /// Numbers of the units that a newer one of the same key replaces.
    keys: Option<Box<Keys>>,
}

type Keys = HashMap<u64, u64, FixedState>;

impl Backlog {
    /// What waited elsewhere: of the first unit, `sent` bytes are out.
    pub(crate) fn restored(units: Vec<Unit>, sent: usize) -> Self {
        let mut backlog = Self::default();
        units.into_iter().for_each(|unit| backlog.append(unit));
        let first = backlog.front().map_or(0, |unit| unit.bytes().len());
        debug_assert!(sent == 0 || sent < first, "{sent} of {first}");
        backlog.sent = sent as u32;
        // One of them may have been spared. That can only be the largest.
        if let Some(largest) = backlog.units.iter_mut().max_by_key(|unit| unit.cost()) {
            largest.spared = true;
            backlog.spared = largest.cost() as u32;
        }
        backlog
    }

    pub(crate) fn units(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter()
    }

    /// Bytes of the first unit that are out.
    pub(crate) fn sent(&self) -> usize {
        self.sent as usize
    }

    /// Takes a unit of which `sent` bytes are out already.
    pub(crate) fn begin(&mut self, unit: Unit, sent: usize, bound: Bound) {
        debug_assert!(self.units.is_empty() && sent < unit.bytes().len());
        match bound.spares(&unit) {
            true => self.spare(unit),
            false => self.append(unit),
        }
        self.sent = sent as u32;
    }

    /// Takes a unit. At the bound the unit's policy decides what is dropped: events of its kind that are older, or itself.
    pub(crate) fn push(
        &mut self,
        unit: Unit,
        bound: Bound,
        dropped: &mut Losses,
    ) -> Result<(), Overflow> {
        let (fate, bytes_max) = (unit.fate, bound.bytes);
        if let Some(at) = self.same_key(fate) {
            self.replace(at, unit, bound);
            dropped[SlowConsumer::Conflate as usize] += 1;
            // The newer value may be the larger one.
            self.make_room(bytes_max, dropped);
            return Ok(());
        }
        if self.spared == 0 && bound.spares(&unit) {
            self.spare(unit);
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
        if self.counted() + cost > bound && fate.policy() != SlowConsumer::DropNewest {
            self.make_room(low.saturating_sub(cost), dropped);
        }
        if self.counted() + cost <= bound {
            self.append(unit);
        } else if fate.policy() == SlowConsumer::Disconnect {
            return Err(Overflow);
        } else {
            dropped[fate.policy() as usize] += 1;
        }
        Ok(())
    }

    fn spare(&mut self, mut unit: Unit) {
        unit.spared = true;
        self.spared = unit.cost() as u32;
        self.append(unit);
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
        // A unit whose beginning is out has to be completed as it began.
        (at > 0 || self.sent == 0).then_some(at)
    }

    /// The newer unit waits where the older one did: a key that changes all the time has its turn, too.
    fn replace(&mut self, at: usize, mut unit: Unit, bound: Bound) {
        let Some(old) = self.units.get_mut(at) else {
            return;
        };
        let (before, now) = (old.cost(), unit.cost());
        self.cost = self.cost - before + now;
        self.yielding = self.yielding - before + now;
        if old.spared {
            self.spared = 0;
        }
        if self.spared == 0 && bound.spares(&unit) {
            unit.spared = true;
            self.spared = now as u32;
        }
        *old = unit;
    }

    /// Drops the oldest events that yield until what waits costs no more than `cost_max`.
    fn make_room(&mut self, cost_max: usize, dropped: &mut Losses) {
        let started = usize::from(self.sent > 0);
        let mut excess = self.counted().saturating_sub(cost_max);
        let begun = self
            .units
            .front()
            .filter(|unit| started > 0 && unit.fate.yields());
        // Where nothing may be dropped, the backlog is not read through.
        if excess == 0 || self.yielding <= begun.map_or(0, Unit::cost) {
            return;
        }
        let (mut at, mut freed) = (0, 0);
        self.units.retain(|unit| {
            at += 1;
            // One that does not count makes no room.
            let makes_room = unit.fate.yields() && !unit.spared;
            if at <= started || excess == 0 || !makes_room {
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
        let mut unit = self.units.pop_front()?;
        if let (Some(key), Some(keys)) = (unit.fate.key(), &mut self.keys)
            // The key may name a newer unit, which could not replace this one because its beginning was out.
            && keys.get(&key) == Some(&self.first)
        {
            keys.remove(&key);
        }
        self.first += 1;
        self.sent = 0;
        self.cost -= unit.cost();
        self.yielding -= if unit.fate.yields() { unit.cost() } else { 0 };
        if std::mem::take(&mut unit.spared) {
            self.spared = 0;
        }
        Some(unit)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Bytes that wait, with what each unit costs to keep.
    pub(crate) fn cost(&self) -> usize {
        self.cost - self.sent()
    }

    /// Cost of all units but the spared one.
    fn counted(&self) -> usize {
        let others = self.cost - self.spared as usize;
        match self.front() {
            Some(front) if front.spared => others,
            _ => others - self.sent(),
        }
    }

    /// Forgets all but a unit whose beginning is out.
    pub(crate) fn discard_unstarted(&mut self) {
        let (sent, first) = (self.sent, self.units.pop_front());
        *self = Self::default();
        if let Some(first) = first.filter(|_| sent > 0) {
            match first.spared {
                true => self.spare(first),
                false => self.append(first),
            }
            self.sent = sent;
        }
    }

    /// The first bytes that wait; returns how many slices that are.
    pub(crate) fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut skip = self.sent();
        let mut count = 0;
        for (slice, unit) in slices.iter_mut().zip(&self.units) {
            *slice = IoSlice::new(&unit.bytes()[skip..]);
            skip = 0;
            count += 1;
        }
        count
    }

    /// So many bytes were written; returns how many units that ended.
    pub(crate) fn advance(&mut self, mut n: usize) -> usize {
        let mut ended = 0;
        while let Some(unit) = self.units.front() {
            let rest = unit.bytes().len() - self.sent();
            if n < rest {
                self.sent += n as u32;
                break;
            }
            n -= rest;
            self.pop();
            ended += 1;
        }
        ended
    }

    /// Bytes of the list; the pieces are counted where they are made.
    pub(crate) fn heap_bytes(&self) -> usize {
        let keys = self.keys.as_ref().map_or(0, |keys| keys.capacity() * 17);
        self.units.capacity() * size_of::<Unit>() + keys
    }
}

#[cfg(test)]
mod tests;
