//! Slots in pages: growing never moves a slot, so a million connections are added without one long copy, and an index with
//! its generation names a slot for as long as it lives.

const PAGE: usize = 1024;

/// Names a slot; a reused slot has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub index: u32,
    pub generation: u32,
}

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
pub(crate) struct Slab<T, G = u32> {
    pages: Vec<Vec<Slot<T, G>>>,
    free: Vec<u32>,
    len: usize,
}

impl<T, G> Default for Slab<T, G> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            free: Vec::new(),
            len: 0,
        }
    }
}

impl<T, G: Generation> Slab<T, G> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        self.len += 1;
        if let Some(index) = self.free.pop() {
            let slot = &mut self.pages[index as usize / PAGE][index as usize % PAGE];
            slot.value = Some(value);
            return Key {
                index,
                generation: slot.generation.number(),
            };
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
        Key {
            index,
            generation: 0,
        }
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let slot = self
            .pages
            .get_mut(index as usize / PAGE)?
            .get_mut(index as usize % PAGE)?;
        let value = slot.value.take()?;
        slot.generation = slot.generation.next();
        self.free.push(index);
        self.len -= 1;
        Some(value)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.pages
            .get(index as usize / PAGE)?
            .get(index as usize % PAGE)?
            .value
            .as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        self.pages
            .get_mut(index as usize / PAGE)?
            .get_mut(index as usize % PAGE)?
            .value
            .as_mut()
    }

    /// The slot, if the key still names what it named.
    pub(crate) fn live(&self, key: Key) -> Option<&T> {
        let slot = self
            .pages
            .get(key.index as usize / PAGE)?
            .get(key.index as usize % PAGE)?;
        if slot.generation.number() == key.generation {
            slot.value.as_ref()
        } else {
            None
        }
    }

    pub(crate) fn live_mut(&mut self, key: Key) -> Option<&mut T> {
        let slot = self
            .pages
            .get_mut(key.index as usize / PAGE)?
            .get_mut(key.index as usize % PAGE)?;
        if slot.generation.number() == key.generation {
            slot.value.as_mut()
        } else {
            None
        }
    }

    pub(crate) fn key(&self, index: u32) -> Key {
        let generation = self
            .pages
            .get(index as usize / PAGE)
            .and_then(|page| page.get(index as usize % PAGE))
            .map_or(0, |slot| slot.generation.number());
        Key { index, generation }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.pages
            .iter()
            .enumerate()
            .flat_map(|(page_number, page)| {
                page.iter().enumerate().filter_map(move |(at, slot)| {
                    slot.value
                        .as_ref()
                        .map(|value| ((page_number * PAGE + at) as u32, value))
                })
            })
    }

    /// One more than the highest index in use or free.
    pub(crate) fn slots(&self) -> u32 {
        let last = self.pages.last().map_or(0, Vec::len);
        (self.pages.len().saturating_sub(1) * PAGE + last) as u32
    }

    /// Bytes of the slots in use or free.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.pages.len() * PAGE * size_of::<Slot<T, G>>() + self.free.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_slot_has_another_generation() {
        let mut slab: Slab<_> = Slab::default();
        let first = slab.insert("a");
        assert_eq!(slab.remove(first.index), Some("a"));
        let second = slab.insert("b");
        assert_eq!(first.index, second.index);
        assert_eq!(slab.live(first), None);
        assert_eq!(slab.live(second), Some(&"b"));
        assert_eq!(slab.key(second.index), second);
    }

    #[test]
    fn grows_over_pages() {
        let mut slab: Slab<_> = Slab::default();
        let keys: Vec<_> = (0..PAGE * 2 + 5).map(|n| slab.insert(n)).collect();
        assert_eq!(slab.len(), keys.len());
        for (n, key) in keys.iter().enumerate() {
            assert_eq!(slab.live(*key), Some(&n));
        }
        assert_eq!(slab.iter().count(), keys.len());
    }
}
