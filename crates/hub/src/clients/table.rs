//! Slots that everybody reads and changes. Only this wing adds them and takes them away, so that indexes, timers and counts of a slot
//! are seen to in one place.

use crate::tables::slab::Slab;
use crate::tables::slot::{Key, SlotId};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::BuildHasher;
use wire::base64url::Id20;

/// What a table holds.
pub(crate) trait Named {
    /// The id that its client knows it by, if it has one.
    fn id(&self) -> Option<&Id20>;
}

/// Slots by number, and by id those that have one.
#[derive(Debug)]
pub(crate) struct Table<I, T> {
    slots: Slab<I, T>,
    by_id: HashTable<I>,
}

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Self {
            slots: Slab::default(),
            by_id: HashTable::default(),
        }
    }
}

/// Ids are random and ours: a fast hash without a secret is enough.
fn hash_of(id: &Id20) -> u64 {
    FixedState::with_seed(0).hash_one(id)
}

impl<I: SlotId, T: Named> Table<I, T> {
    pub(super) fn insert(&mut self, value: T) -> Key<I> {
        let hash = value.id().map(hash_of);
        let key = self.slots.insert(value);
        if let Some(hash) = hash {
            let slots = &self.slots;
            self.by_id.insert_unique(hash, key.id(), |slot| {
                let id = slots.get(*slot).and_then(Named::id);
                id.map_or(0, hash_of)
            });
        }
        key
    }

    /// From now on nobody finds the slot by its id.
    pub(super) fn unlist(&mut self, slot: I) {
        let id = self.slots.get(slot).and_then(Named::id);
        if let Some(hash) = id.map(hash_of)
            && let Ok(entry) = self.by_id.find_entry(hash, |other| *other == slot)
        {
            entry.remove();
        }
    }

    pub(super) fn remove(&mut self, slot: I) -> Option<T> {
        // A socket was unlisted when it parted; a session is only now.
        self.unlist(slot);
        self.slots.remove(slot)
    }

    pub(crate) fn find(&self, id: &Id20) -> Option<I> {
        let is_it = |slot: &I| self.slots.get(*slot).and_then(Named::id) == Some(id);
        self.by_id.find(hash_of(id), is_it).copied()
    }

    /// The number of slots that are found by their ids.
    pub(crate) fn listed(&self) -> usize {
        self.by_id.len()
    }

    /// What a reference names; an absent one names nothing.
    #[inline]
    pub(crate) fn get(&self, id: impl Into<Option<I>>) -> Option<&T> {
        self.slots.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: impl Into<Option<I>>) -> Option<&mut T> {
        self.slots.get_mut(id)
    }

    /// The slot, if the key still names what it named.
    pub(crate) fn live(&self, key: Key<I>) -> Option<&T> {
        self.slots.live(key)
    }

    pub(crate) fn live_mut(&mut self, key: Key<I>) -> Option<&mut T> {
        self.slots.live_mut(key)
    }

    pub(crate) fn key(&self, id: I) -> Key<I> {
        self.slots.key(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.slots.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The slot with this number, in use or free; none after the last one.
    pub(crate) fn nth(&self, index: u32) -> Option<I> {
        self.slots.nth(index)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes() + self.by_id.allocation_size()
    }
}
