//! Rooms of a shard: who is in them here, and how many are in them on the other shards.
//! A namespace's sockets are a room of its own kind, which no client can name.

use crate::tables::slab::Slab;
use crate::tables::slot::{NamespaceId, RoomId, SocketId};
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RoomKind {
    /// Every socket of the namespace.
    All,
    /// A room by its name.
    Named,
}

/// What a room knows of its members on another shard of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Away {
    pub(crate) shard: u16,
    /// Joins that this shard asked for and that one has not answered: it is sent what members get, however many it told of before.
    expected: u16,
    count: u32,
}

#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) namespace: NamespaceId,
    pub(crate) kind: RoomKind,
    pub(crate) name: Box<str>,
    /// Socket slots.
    pub(crate) members: Vec<SocketId>,
    /// Only shards that have members or may have some soon.
    pub(crate) away: Vec<Away>,
    /// Count last told to the other shards.
    pub(crate) announced: u32,
    /// When the handler was last told the count, monotonic milliseconds.
    pub(crate) told_ms: u64,
    /// In the list of rooms whose count changed.
    pub(crate) changed: bool,
}

impl Room {
    pub(crate) fn heap_bytes(&self) -> usize {
        self.name.len() + self.members.capacity() * 4 + self.away.capacity() * size_of::<Away>()
    }

    /// Members on all shards, as far as known here.
    pub(crate) fn total(&self) -> u64 {
        self.members.len() as u64
            + self
                .away
                .iter()
                .map(|away| u64::from(away.count))
                .sum::<u64>()
    }

    /// That shard was told to let sockets join; until it answers how many did, it is sent what members get.
    pub(crate) fn expect_away(&mut self, shard: u16) {
        let away = self.away_on(shard);
        away.expected = away.expected.saturating_add(1);
    }

    /// That shard told how many it holds; `answers`: because it was told to let sockets join.
    pub(crate) fn set_away(&mut self, shard: u16, count: u32, answers: bool) {
        let away = self.away_on(shard);
        away.count = count;
        away.expected = away.expected.saturating_sub(u16::from(answers));
        self.away.retain(|away| away.count > 0 || away.expected > 0);
    }

    fn away_on(&mut self, shard: u16) -> &mut Away {
        let known = self.away.iter().position(|away| away.shard == shard);
        let at = known.unwrap_or_else(|| {
            self.away.push(Away {
                shard,
                expected: 0,
                count: 0,
            });
            self.away.len() - 1
        });
        &mut self.away[at]
    }
}

/// Rooms by slot and by name. Room names are chosen by clients, hence the keyed hash.
#[derive(Debug, Default)]
pub(crate) struct Rooms {
    slots: Slab<RoomId, Room>,
    by_name: HashTable<RoomId>,
    hasher: RandomState,
}

impl Rooms {
    fn hash(&self, namespace: NamespaceId, kind: RoomKind, name: &str) -> u64 {
        self.hasher.hash_one((namespace, kind as u8, name))
    }

    pub(crate) fn find(
        &self,
        namespace: NamespaceId,
        kind: RoomKind,
        name: &str,
    ) -> Option<RoomId> {
        let hash = self.hash(namespace, kind, name);
        self.by_name
            .find(hash, |index| {
                self.slots.get(*index).is_some_and(|room| {
                    room.namespace == namespace && room.kind == kind && *room.name == *name
                })
            })
            .copied()
    }

    pub(crate) fn find_or_insert(
        &mut self,
        namespace: NamespaceId,
        kind: RoomKind,
        name: &str,
    ) -> RoomId {
        if let Some(index) = self.find(namespace, kind, name) {
            return index;
        }
        let room = Room {
            namespace,
            kind,
            name: name.into(),
            members: Vec::new(),
            away: Vec::new(),
            announced: 0,
            told_ms: 0,
            changed: false,
        };
        let hash = self.hash(namespace, kind, name);
        let index = self.slots.insert(room).id();
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_name.insert_unique(hash, index, |index| {
            slots.get(*index).map_or(0, |room| {
                hasher.hash_one((room.namespace, room.kind as u8, &*room.name))
            })
        });
        index
    }

    /// Forgets a room without members anywhere; returns it.
    pub(crate) fn remove_if_empty(&mut self, index: RoomId) -> Option<Room> {
        let room = self.slots.get(index)?;
        if !room.members.is_empty() || !room.away.is_empty() || room.changed {
            return None;
        }
        let hash = self.hash(room.namespace, room.kind, &room.name);
        if let Ok(entry) = self.by_name.find_entry(hash, |other| *other == index) {
            entry.remove();
        }
        self.slots.remove(index)
    }

    pub(crate) fn get(&self, index: RoomId) -> Option<&Room> {
        self.slots.get(index)
    }

    pub(crate) fn get_mut(&mut self, index: RoomId) -> Option<&mut Room> {
        self.slots.get_mut(index)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RoomId, &Room)> {
        self.slots.iter()
    }

    /// The slot with this number, in use or free; none behind the last one.
    pub(crate) fn nth(&self, index: u32) -> Option<RoomId> {
        self.slots.nth(index)
    }

    /// Bytes of the tables; those behind a room are its own.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes() + self.by_name.allocation_size()
    }
}
