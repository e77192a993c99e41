//! Slots in pages. Growing never moves a slot, so a million connections are added without one long copy. An index with its generation
//! names a slot for as long as it lives.

use crate::tables::slot::{Key, SlotId};

const PAGE: usize = 1024;

/// What tells the uses of a slot apart: a counter, or nothing where no key outlives its slot.
pub(crate) trait Generation: Copy + Default {
    fn next(self) -> Self;
    fn number(self) -> u32;
}

impl Generation for u32 {
    fn next(self) -> Self {
        self.wrapping_add(1)
    }

    fn number(self) -> u32 {
        self
    }
}

impl Generation for () {
    fn next(self) -> Self {}

    fn number(self) -> u32 {
        0
    }
}

#[derive(Debug)]
struct Slot<T, G> {
    generation: G,
    value: Option<T>,
}

#[derive(Debug)]
pub(crate) struct Slab<I, T, G = u32> {
    pages: Vec<Vec<Slot<T, G>>>,
    free: Vec<I>,
    len: usize,
}

impl<I, T, G> Default for Slab<I, T, G> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            free: Vec::new(),
            len: 0,
        }
    }
}

impl<I: SlotId, T, G: Generation> Slab<I, T, G> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, value: T) -> Key<I> {
        self.len += 1;
        if let Some(id) = self.free.pop() {
            let slot = &mut self.pages[id.index() as usize / PAGE][id.index() as usize % PAGE];
            slot.value = Some(value);
            return Key::new(id, slot.generation.number());
        }
        if self.pages.last().is_none_or(|page| page.len() == PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        let page_number = self.pages.len() - 1;
        let page = &mut self.pages[page_number];
        let index = (page_number * PAGE + page.len()) as u32;
        page.push(Slot {
            generation: G::default(),
            value: Some(value),
        });
        Key::new(I::at(index), 0)
    }

    fn slot(&self, id: I) -> Option<&Slot<T, G>> {
        let index = id.index() as usize;
        self.pages.get(index / PAGE)?.get(index % PAGE)
    }

    fn slot_mut(&mut self, id: I) -> Option<&mut Slot<T, G>> {
        let index = id.index() as usize;
        self.pages.get_mut(index / PAGE)?.get_mut(index % PAGE)
    }

    pub(crate) fn remove(&mut self, id: I) -> Option<T> {
        let slot = self.slot_mut(id)?;
        let value = slot.value.take()?;
        // From now on a key of this use names nothing.
        slot.generation = slot.generation.next();
        self.free.push(id);
        self.len -= 1;
        Some(value)
    }

    /// What a reference names; an absent one names nothing.
    #[inline]
    pub(crate) fn get(&self, id: impl Into<Option<I>>) -> Option<&T> {
        self.slot(id.into()?)?.value.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: impl Into<Option<I>>) -> Option<&mut T> {
        self.slot_mut(id.into()?)?.value.as_mut()
    }

    /// The slot, if the key still names what it named.
    pub(crate) fn live(&self, key: Key<I>) -> Option<&T> {
        let slot = self.slot(key.id())?;
        let same = slot.generation.number() == key.generation();
        slot.value.as_ref().filter(|_| same)
    }

    pub(crate) fn live_mut(&mut self, key: Key<I>) -> Option<&mut T> {
        let slot = self.slot_mut(key.id())?;
        let same = slot.generation.number() == key.generation();
        slot.value.as_mut().filter(|_| same)
    }

    pub(crate) fn key(&self, id: I) -> Key<I> {
        let slot = self.slot(id);
        Key::new(id, slot.map_or(0, |slot| slot.generation.number()))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (I, &T)> {
        self.pages
            .iter()
            .enumerate()
            .flat_map(|(page_number, page)| {
                page.iter().enumerate().filter_map(move |(at, slot)| {
                    slot.value
                        .as_ref()
                        .map(|value| (I::at((page_number * PAGE + at) as u32), value))
                })
            })
    }

    /// The slot with this number, in use or free; none after the last one.
    pub(crate) fn nth(&self, index: u32) -> Option<I> {
        (index < self.slots()).then(|| I::at(index))
    }

    fn slots(&self) -> u32 {
        let last = self.pages.last().map_or(0, Vec::len);
        (self.pages.len().saturating_sub(1) * PAGE + last) as u32
    }

    /// Bytes of the slots in use or free.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.pages.len() * PAGE * size_of::<Slot<T, G>>() + self.free.capacity() * 4
    }
}

/// Only where no key outlives its slot: a slot that is made anew has the key of the old one.
impl<I: SlotId, T> Slab<I, T, ()> {
    /// Slots that wait to be used again.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Gives back the pages at the end that hold nothing.
    pub(crate) fn release(&mut self) {
        let used = |page: &Vec<Slot<T, ()>>| page.iter().any(|slot| slot.value.is_some());
        let kept = self.pages.iter().rposition(used).map_or(0, |last| last + 1);
        if kept < self.pages.len() {
            self.pages.truncate(kept);
            let slots = self.slots();
            // Slots of pages that are gone must not be given out.
            self.free.retain(|id| id.index() < slots);
            self.free.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::slot::ConnId;

    #[test]
    fn reused_slot_has_another_generation() {
        let mut slab: Slab<ConnId, _> = Slab::default();
        let first = slab.insert("a");
        assert_eq!(slab.remove(first.id()), Some("a"));
        let second = slab.insert("b");
        assert_eq!(first.id(), second.id());
        assert_eq!(slab.live(first), None);
        assert_eq!(slab.live(second), Some(&"b"));
        assert_eq!(slab.key(second.id()), second);
    }

    #[test]
    fn pages_that_hold_nothing_are_given_back() {
        let mut slab: Slab<ConnId, _, ()> = Slab::default();
        let ids: Vec<_> = (0..PAGE * 5).map(|n| slab.insert(n).id()).collect();
        let full = slab.heap_bytes();
        ids[PAGE + 1..].iter().for_each(|id| {
            slab.remove(*id);
        });
        slab.release();
        assert!(slab.heap_bytes() < full / 2, "{}", slab.heap_bytes());
        assert_eq!((slab.len(), slab.get(ids[PAGE])), (PAGE + 1, Some(&PAGE)));
        let mut again: Vec<_> = (0..PAGE * 2).map(|n| slab.insert(n).id().index()).collect();
        again.sort_unstable();
        again.dedup();
        assert_eq!(again.len(), PAGE * 2, "each slot was given once");
        assert_eq!(slab.get(ids[PAGE]), Some(&PAGE));
    }

    #[test]
    fn grows_over_pages() {
        let mut slab: Slab<ConnId, _> = Slab::default();
        let keys: Vec<_> = (0..PAGE * 2 + 5).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.len(), keys.len());
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(slab.live(*key), Some(&n));
        }
        assert_eq!(slab.iter().count(), keys.len());
    }
}
