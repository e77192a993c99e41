//! The namespaces that sockets of this shard are in, each for as long as it has a room.

use crate::tables::slab::Slab;
use crate::tables::slot::NamespaceId;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
struct Namespace {
    name: Arc<str>,
    /// Rooms (of all kinds) that exist in it.
    rooms: u32,
}

/// Namespaces by slot and by name.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    slots: Slab<NamespaceId, Namespace>,
    by_name: HashMap<Arc<str>, NamespaceId>,
}

impl Namespaces {
    pub(crate) fn find(&self, name: &str) -> Option<NamespaceId> {
        self.by_name.get(name).copied()
    }

    /// The namespace of that name, made if need be. It needs a room soon: with its last one it goes.
    pub(crate) fn find_or_make(&mut self, name: &str) -> NamespaceId {
        if let Some(index) = self.find(name) {
            return index;
        }
        let name: Arc<str> = name.into();
        let index = self
            .slots
            .insert(Namespace {
                name: Arc::clone(&name),
                rooms: 0,
            })
            .id();
        self.by_name.insert(name, index);
        index
    }

    /// A namespace has one more room; returns its name.
    pub(crate) fn add_room(&mut self, namespace: NamespaceId) -> Arc<str> {
        let slot = self.slots.get_mut(namespace);
        slot.map_or_else(Default::default, |slot| {
            slot.rooms += 1;
            Arc::clone(&slot.name)
        })
    }

    /// A namespace has one room less. It goes with its last one.
    pub(crate) fn drop_room(&mut self, namespace: NamespaceId) {
        let Some(slot) = self.slots.get_mut(namespace) else {
            return;
        };
        slot.rooms -= 1;
        if slot.rooms == 0
            && let Some(slot) = self.slots.remove(namespace)
        {
            self.by_name.remove(&slot.name);
        }
    }

    pub(crate) fn label(&self, namespace: NamespaceId) -> Option<&Arc<str>> {
        self.slots.get(namespace).map(|slot| &slot.name)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Panics unless each namespace has the rooms that it counts, and at least one.
    pub(crate) fn check(&self, rooms_of: impl Fn(NamespaceId) -> usize) {
        for (index, namespace) in self.slots.iter() {
            let rooms = rooms_of(index);
            assert_eq!(
                namespace.rooms as usize, rooms,
                "rooms of {}",
                namespace.name
            );
            assert!(
                rooms > 0,
                "namespace {} is empty and still here",
                namespace.name
            );
            assert_eq!(
                self.find(&namespace.name),
                Some(index),
                "{}",
                namespace.name
            );
        }
        assert_eq!(self.by_name.len(), self.slots.len(), "names of namespaces");
    }
}
