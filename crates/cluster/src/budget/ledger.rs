//! One node's part in it: what it has, what the others showed, and what it shows next.

use super::sheet::{Entry, Sheet};
use super::split::{Claim, split};
use super::{GRACE_US, Key, Limit, Usage};
use crate::bounds::{ENTRIES_MAX, KINDS, NAMED_MAX};
use crate::frame::{NodeId, Peer};
use std::collections::{BTreeMap, BTreeSet};

/// A refused holder is taken to want more for so long: it comes again.
const HUNGER_US: u64 = 2_000_000;
/// A key stays named for so long after it was near its limit.
const HEAT_US: u64 = 3_000_000;

/// A newcomer that has not seen the board yet uses of each budget the share of one of so many nodes.
const NODES_AT_FIRST: u32 = 4;

/// Looks up a node's use of its budgets.
pub trait Source {
    /// The amount used of a key.
    fn usage(&mut self, key: Key) -> Usage;
    /// The keys of a kind, one that does not flow, of which more than this is used; [`NAMED_MAX`] of them at most.
    fn above(&mut self, kind: u8, used: u32) -> Vec<Key>;
}

/// A change of a node's shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Of a named key it may use so much.
    Share(Key, u32),
    /// Nobody names the key any more: the rest share counts.
    Forget(Key),
    /// Of each key of a kind that nobody names it may use so much.
    Rest(u8, u32),
}

/// Another node.
#[derive(Debug)]
struct Other {
    sheet: Sheet,
    /// Since when the board, which could be read, had no sheet of it.
    missing_since_us: Option<u64>,
}

/// This node's part of a named key.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    /// It may use so much.
    share: u32,
    /// It shows so much: this or more.
    shown: u32,
    used: u32,
    /// So much of that is not given away.
    kept: u32,
    /// Refused of late, and until when that counts.
    hunger: u32,
    hungry_until_us: u64,
    hot_until_us: u64,
    /// It is not on the sheet that was shown last.
    goes: bool,
}

/// The share of keys that nobody names.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    share: u32,
    shown: u32,
}

/// The knowledge of one node. Each exchange with the board is [`Self::propose`], and then [`Self::learn`] or [`Self::failed`].
#[derive(Debug)]
pub struct Ledger {
    me: Peer,
    limits: [Limit; KINDS],
    number: u64,
    others: BTreeMap<NodeId, Other>,
    /// Lives that speak and show no sheet, and since when: the board may have lost it, or they have no limits over nodes.
    unread: BTreeMap<Peer, u64>,
    own: BTreeMap<Key, Own>,
    rest: [Rest; KINDS],
    /// It has seen the sheets of all that speak.
    has_learned: bool,
    changes: Vec<Change>,
    /// Keys that found no room.
    unnamed: u64,
}

impl Ledger {
    /// A node that has seen nobody yet. What it may use until it has is small, and told by [`Self::changes`].
    pub fn new(me: Peer, limits: [Limit; KINDS]) -> Self {
        let mut ledger = Self {
            me,
            limits,
            number: 0,
            others: BTreeMap::new(),
            unread: BTreeMap::new(),
            own: BTreeMap::new(),
            rest: [Rest::default(); KINDS],
            has_learned: false,
            changes: Vec::new(),
            unnamed: 0,
        };
        for (kind, limit) in limits.iter().enumerate() {
            // It need not wait for the others: of a key that nobody names, half is free.
            ledger.set_rest(kind, portion(limit.budget, NODES_AT_FIRST));
        }
        ledger
    }

    /// Sheets of this life have larger numbers than this: another process may have shown some.
    #[must_use]
    pub fn behind(self, number: u64) -> Self {
        Self { number, ..self }
    }

    /// The process before had such a share of keys that nobody names, and it is on the board: this one has it.
    pub fn go_on_with_rest(&mut self, kind: u8, share: u32) {
        if let Some(rest) = self.rest.get_mut(usize::from(kind)) {
            *rest = Rest {
                share,
                shown: share,
            };
            self.changes.push(Change::Rest(kind, share));
        }
    }

    /// The process before had named a key, and such a share of it is on the board: this one has it.
    pub fn go_on_with(&mut self, key: Key, share: u32, now_us: u64) {
        if self.own.len() < ENTRIES_MAX && self.is_shared(key) {
            let own = Own {
                share,
                shown: share,
                hot_until_us: now_us + HEAT_US,
                ..Own::default()
            };
            self.own.insert(key, own);
        }
    }

    /// Takes the changes for this node since the last call, in order.
    pub fn changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    /// Other nodes whose shares count.
    pub fn others(&self) -> usize {
        self.others.len()
    }

    /// Keys that are named.
    pub fn named(&self) -> usize {
        self.own.len()
    }

    /// Keys on the sheets of the others.
    pub fn entries_seen(&self) -> usize {
        let seen = self.others.values();
        seen.map(|other| other.sheet.entries.len()).sum()
    }

    /// Keys that found no room, and of which the rest share counts.
    pub fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// A key has used half of this node's rest share.
    pub fn note(&mut self, key: Key, now_us: u64) {
        let until_us = now_us + HEAT_US;
        if let Some(own) = self.own.get_mut(&key) {
            own.hot_until_us = until_us;
        } else if self.own.len() < NAMED_MAX && self.is_shared(key) {
            self.name(key);
            if let Some(own) = self.own.get_mut(&key) {
                own.hot_until_us = until_us;
            }
        } else {
            self.unnamed += 1;
        }
    }

    fn is_shared(&self, key: Key) -> bool {
        let limit = self.limits.get(usize::from(key.kind));
        limit.is_some_and(|limit| limit.budget > 0)
    }

    fn name(&mut self, key: Key) {
        let Rest { share, shown } = self.rest[usize::from(key.kind)];
        let own = Own {
            share,
            shown,
            ..Own::default()
        };
        self.own.insert(key, own);
        self.changes.push(Change::Share(key, share));
    }

    /// Gives back what others should have, and says what to show. The changes are to be carried out before it is shown.
    pub fn propose(&mut self, now_us: u64, source: &mut impl Source) -> Sheet {
        self.number += 1;
        self.divide_rest(now_us, source);
        let keys: Vec<Key> = self.own.keys().copied().collect();
        for key in keys {
            self.divide(key, source.usage(key), now_us);
        }
        let shown = self.own.iter().filter(|(_, own)| !own.goes);
        let entry = |(key, own): (&Key, &Own)| {
            let entry = Entry {
                share: own.shown,
                used: own.kept,
                wanted: own.used.saturating_add(own.hunger),
                is_hot: own.hot_until_us > now_us,
            };
            (*key, entry)
        };
        Sheet {
            of: self.me,
            number: self.number,
            has_left: false,
            rest: self.rest.map(|rest| rest.shown),
            entries: shown.map(entry).collect(),
        }
    }

    /// The last sheet of this node.
    pub fn leave(&mut self) -> Sheet {
        self.number += 1;
        Sheet {
            of: self.me,
            number: self.number,
            has_left: true,
            rest: [0; KINDS],
            entries: BTreeMap::new(),
        }
    }

    /// A rate that is used up on one node moves to others bit by bit: there it comes back with time, and nothing is lost to anybody.
    fn kept(&self, key: Key, used: u32) -> u32 {
        match self.limits[usize::from(key.kind)].flows {
            true => used - used.div_ceil(8),
            false => used,
        }
    }

    /// What one may hold without being named shrinks when a node comes: who holds more is named before.
    fn divide_rest(&mut self, now_us: u64, source: &mut impl Source) {
        let nodes = self.nodes();
        for kind in 0..KINDS {
            let Limit { budget, flows } = self.limits[kind];
            let target = portion(budget, nodes);
            if target < self.rest[kind].share {
                if !flows {
                    let near = source.above(kind as u8, target / 2);
                    near.into_iter().for_each(|key| self.note(key, now_us));
                }
                self.set_rest(kind, target);
            }
            self.rest[kind].shown = target;
        }
    }

    /// How many share the budgets, this node included; of a cluster that it has not seen it believes that there are some.
    fn nodes(&self) -> u32 {
        match self.has_learned {
            true => self.others.len() as u32 + 1,
            false => NODES_AT_FIRST,
        }
    }

    fn set_rest(&mut self, kind: usize, share: u32) {
        if self.rest[kind].share != share {
            self.rest[kind].share = share;
            self.changes.push(Change::Rest(kind as u8, share));
        }
    }

    fn divide(&mut self, key: Key, usage: Usage, now_us: u64) {
        let Some(mut own) = self.own.get(&key).copied() else {
            return;
        };
        // It gave away more than has come back: no more goes until that has.
        let owes = usage.used > own.share;
        own.used = usage.used.min(own.share);
        own.kept = match owes {
            true => own.used,
            false => self.kept(key, own.used),
        };
        if usage.refused > 0 {
            own.hunger = own.hunger.max(usage.refused);
            own.hungry_until_us = now_us + HUNGER_US;
        } else if own.hungry_until_us <= now_us {
            own.hunger = 0;
        }
        let rest = self.rest[usize::from(key.kind)];
        if own.hunger > 0 || is_near(own.used, rest.share) {
            own.hot_until_us = now_us + HEAT_US;
        }
        let mut others = self.others.values();
        let is_hot = own.hot_until_us > now_us || others.any(|other| other.names(key));
        own.goes = !is_hot;
        let target = match is_hot {
            true => self.target(key, &own),
            // As if it were not named.
            false => rest.share,
        };
        if target < own.share {
            own.share = target.max(own.kept);
            self.changes.push(Change::Share(key, own.share));
        }
        own.shown = target.max(own.share);
        self.own.insert(key, own);
    }

    fn target(&self, key: Key, own: &Own) -> u32 {
        let mut claims = Vec::with_capacity(self.others.len() + 1);
        let others = self.others.iter();
        let before = others.clone().take_while(|(node, _)| **node < self.me.node);
        let after = others.skip_while(|(node, _)| **node < self.me.node);
        claims.extend(before.map(|(_, other)| other.claim(key)));
        let me = claims.len();
        claims.push(Claim {
            used: own.kept,
            wanted: own.used.saturating_add(own.hunger),
            is_told: true,
        });
        claims.extend(after.map(|(_, other)| other.claim(key)));
        split(key, self.limits[usize::from(key.kind)].budget, &claims, me)
    }

    /// The sheet was shown, and in the same moment the board had these. What the others leave may be used. `heard`: the lives of nodes
    /// that speak, whatever the board says.
    pub fn learn(&mut self, now_us: u64, sheets: impl Iterator<Item = Sheet>, heard: &[Peer]) {
        let (mut seen, me) = (Vec::new(), self.me.node);
        let others = heard.iter().copied().filter(|peer| peer.node != me);
        let mut unread: BTreeSet<Peer> = others.collect();
        for sheet in sheets.filter(|sheet| sheet.of.node != me) {
            seen.push(sheet.of.node);
            unread.remove(&sheet.of);
            self.read(sheet);
        }
        self.others.retain(|node, other| {
            if seen.contains(node) {
                other.missing_since_us = None;
                return true;
            }
            let since_us = *other.missing_since_us.get_or_insert(now_us);
            now_us.saturating_sub(since_us) < GRACE_US || heard.contains(&other.sheet.of)
        });
        self.others.retain(|_, other| !other.sheet.has_left);
        // Of a key that others name they have left the old rest share to this node, and no larger one.
        self.hear();
        // A remembered share of a node whose sheet is missing may be old: the node may have taken more since.
        let mut others = self.others.values();
        let all_seen = others.all(|other| other.missing_since_us.is_none());
        let awaits_a_first = self.awaits_a_first(unread, now_us);
        self.has_learned |= !awaits_a_first;
        if all_seen && !awaits_a_first {
            self.take_rest();
            self.take();
        }
    }

    /// Whether one of those that speak may still show its first sheet.
    fn awaits_a_first(&mut self, unread: BTreeSet<Peer>, now_us: u64) -> bool {
        let known = |peer: &Peer| {
            let other = self.others.get(&peer.node);
            other.is_some_and(|other| other.sheet.of == *peer)
        };
        let unread = unread.into_iter().filter(|peer| !known(peer));
        let since = |peer| (peer, self.unread.get(&peer).copied().unwrap_or(now_us));
        self.unread = unread.map(since).collect();
        let mut since = self.unread.values();
        since.any(|since_us| now_us.saturating_sub(*since_us) < GRACE_US)
    }

    fn read(&mut self, sheet: Sheet) {
        match self.others.get_mut(&sheet.of.node) {
            // Somebody put an old one back, or two commands changed places on their way.
            Some(other)
                if (other.sheet.of.epoch, other.sheet.number) > (sheet.of.epoch, sheet.number) => {}
            Some(other) => other.sheet = sheet,
            None => {
                let other = Other {
                    sheet,
                    missing_since_us: None,
                };
                self.others.insert(other.sheet.of.node, other);
            }
        }
    }

    /// The part of a key that the others leave.
    fn left(&self, key: Key) -> u32 {
        let others = self.others.values();
        let taken: u64 = others.map(|other| u64::from(other.sheet.share(key))).sum();
        let budget = u64::from(self.limits[usize::from(key.kind)].budget);
        u32::try_from(budget.saturating_sub(taken)).unwrap_or(u32::MAX)
    }

    fn take_rest(&mut self) {
        for kind in 0..KINDS {
            let budget = u64::from(self.limits[kind].budget);
            let others = self.others.values();
            let taken: u64 = others.map(|other| u64::from(other.sheet.rest[kind])).sum();
            let left = u32::try_from(budget.saturating_sub(taken)).unwrap_or(u32::MAX);
            let Rest { share, shown } = self.rest[kind];
            self.set_rest(kind, shown.min(left).max(share));
        }
    }

    fn take(&mut self) {
        let keys: Vec<Key> = self.own.keys().copied().collect();
        for key in keys {
            let left = self.left(key);
            let named = self.others.values().any(|other| other.names(key));
            let Some(own) = self.own.get_mut(&key) else {
                continue;
            };
            let rest = self.rest[usize::from(key.kind)];
            if own.goes && !named && rest.shown <= left {
                self.own.remove(&key);
                self.changes.push(Change::Forget(key));
                continue;
            }
            let may = own.shown.min(left);
            if may > own.share {
                own.share = may;
                self.changes.push(Change::Share(key, may));
            }
        }
    }

    /// Takes part in what others name.
    fn hear(&mut self) {
        let mut heard = Vec::new();
        for other in self.others.values() {
            let named = other.sheet.entries.keys().copied();
            heard.extend(named.filter(|key| !self.own.contains_key(key)));
        }
        for key in heard {
            // A key without room keeps its rest share, which the others leave to this node.
            if self.own.len() < ENTRIES_MAX && self.is_shared(key) && !self.own.contains_key(&key) {
                self.name(key);
            }
        }
    }

    /// Nobody knows whether the sheet was shown, and what the board has. Everybody keeps what he has, and whoever is missing has
    /// time to come back.
    pub fn failed(&mut self) {
        for other in self.others.values_mut() {
            other.missing_since_us = None;
        }
        self.unread.clear();
    }
}

impl Other {
    fn names(&self, key: Key) -> bool {
        let entry = self.sheet.entries.get(&key);
        entry.is_some_and(|entry| entry.is_hot)
    }

    fn claim(&self, key: Key) -> Claim {
        match self.sheet.entries.get(&key) {
            Some(entry) => Claim {
                used: entry.used,
                wanted: entry.wanted.max(entry.used),
                is_told: true,
            },
            None => {
                let rest = self.sheet.rest_of(key);
                Claim {
                    used: rest,
                    wanted: rest,
                    is_told: false,
                }
            }
        }
    }
}

/// A newcomer has some of every budget, however many nodes there are.
fn portion(budget: u32, nodes: u32) -> u32 {
    match budget {
        0 => 0,
        budget => (budget / nodes).max(1),
    }
}

/// Whether so much of a rest share is used that the key is to be named.
pub(super) fn is_near(used: u32, rest: u32) -> bool {
    u64::from(used) * 2 > u64::from(rest)
}
