//! Slots that everybody reads and changes, and that only this wing adds and takes away: indexes, timers and counts that go with a
//! slot are then seen to in one place.

use crate::tables::slab::Slab;
use crate::tables::slot::{Key, SlotId};

#[derive(Debug)]
pub(crate) struct Table<I, T>(Slab<I, T>);

impl<I, T> Default for Table<I, T> {
    fn default() -> Self {
        Self(Slab::default())
    }
}

impl<I: SlotId, T> Table<I, T> {
    pub(super) fn insert(&mut self, value: T) -> Key<I> {
        self.0.insert(value)
    }

    pub(super) fn remove(&mut self, id: I) -> Option<T> {
        self.0.remove(id)
    }

    /// What a reference names; an absent one names nothing.
    #[inline]
    pub(crate) fn get(&self, id: impl Into<Option<I>>) -> Option<&T> {
        self.0.get(id)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: impl Into<Option<I>>) -> Option<&mut T> {
        self.0.get_mut(id)
    }

    /// The slot, if the key still names what it named.
    pub(crate) fn live(&self, key: Key<I>) -> Option<&T> {
        self.0.live(key)
    }

    pub(crate) fn live_mut(&mut self, key: Key<I>) -> Option<&mut T> {
        self.0.live_mut(key)
    }

    pub(crate) fn key(&self, id: I) -> Key<I> {
        self.0.key(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.0.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The slot with this number, in use or free; none behind the last one.
    pub(crate) fn nth(&self, index: u32) -> Option<I> {
        self.0.nth(index)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.0.heap_bytes()
    }
}
