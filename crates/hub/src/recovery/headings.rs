//! Names of all that an event can be for, each with what is listed under it. A look-up copies nothing.

use crate::tables::slab::Slab;
use crate::tables::slot::HeadingId;
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};

/// The kinds of headings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// All sockets of the namespace.
    Everyone,
    Room,
    User,
    /// One socket by its id, whatever rooms it is in: only its own shard speaks to it so.
    Socket,
}

/// Somebody in a namespace, as an event names its receivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Heading<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) kind: Kind,
    /// Nothing for everyone.
    pub(crate) name: &'a str,
}

/// A membership of a socket, within its namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Membership {
    pub(crate) kind: Kind,
    pub(crate) name: Box<str>,
}

impl Membership {
    pub(crate) fn new(kind: Kind, name: &str) -> Self {
        Self {
            kind,
            name: name.into(),
        }
    }

    pub(crate) fn heading<'a>(&'a self, namespace: &'a str) -> Heading<'a> {
        Heading {
            namespace,
            kind: self.kind,
            name: &self.name,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.name.len()
    }
}

#[derive(Debug)]
struct Listed<T> {
    namespace: Box<str>,
    kind: Kind,
    name: Box<str>,
    value: T,
}

impl<T> Listed<T> {
    fn heading(&self) -> Heading<'_> {
        Heading {
            namespace: &self.namespace,
            kind: self.kind,
            name: &self.name,
        }
    }
}

/// Values by heading. Names are chosen by clients, hence the keyed hash.
#[derive(Debug)]
pub(crate) struct Headings<T> {
    slots: Slab<HeadingId, Listed<T>, ()>,
    by_name: HashTable<HeadingId>,
    hasher: RandomState,
}

impl<T> Default for Headings<T> {
    fn default() -> Self {
        Self {
            slots: Slab::default(),
            by_name: HashTable::default(),
            hasher: RandomState::default(),
        }
    }
}

impl<T: Default> Headings<T> {
    /// The bytes of one more heading beside its value.
    pub(crate) fn cost(heading: Heading<'_>) -> usize {
        const ENTRY: usize = 8;
        size_of::<Listed<T>>() + heading.namespace.len() + heading.name.len() + ENTRY
    }

    pub(crate) fn find(&self, heading: Heading<'_>) -> Option<HeadingId> {
        let hash = self.hasher.hash_one(heading);
        let is_it = |id: &HeadingId| {
            let slot = self.slots.get(*id);
            slot.is_some_and(|slot| slot.heading() == heading)
        };
        self.by_name.find(hash, is_it).copied()
    }

    /// The heading's number, and whether it is new.
    pub(crate) fn enter(&mut self, heading: Heading<'_>) -> (HeadingId, bool) {
        if let Some(id) = self.find(heading) {
            return (id, false);
        }
        let listed = Listed {
            namespace: heading.namespace.into(),
            kind: heading.kind,
            name: heading.name.into(),
            value: T::default(),
        };
        let id = self.slots.insert(listed).id();
        let (slots, hasher) = (&self.slots, &self.hasher);
        let hash = hasher.hash_one(heading);
        self.by_name.insert_unique(hash, id, |id| {
            let slot = slots.get(*id);
            slot.map_or(0, |slot| hasher.hash_one(slot.heading()))
        });
        (id, true)
    }

    pub(crate) fn remove(&mut self, id: HeadingId) {
        let Some(slot) = self.slots.get(id) else {
            return;
        };
        let hash = self.hasher.hash_one(slot.heading());
        if let Ok(entry) = self.by_name.find_entry(hash, |other| *other == id) {
            entry.remove();
        }
        self.slots.remove(id);
        self.shrink();
    }

    /// Names that come and go by the thousands leave tables of that size: what is free is given back.
    fn shrink(&mut self) {
        const SPARE: usize = 1024;
        // Giving room back copies the tables, so it waits until most of them is free.
        if self.slots.free() <= 4 * self.slots.len() + SPARE {
            return;
        }
        self.slots.release();
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_name.shrink_to(slots.len() + SPARE, |id| {
            let slot = slots.get(*id);
            slot.map_or(0, |slot| hasher.hash_one(slot.heading()))
        });
    }

    pub(crate) fn heading(&self, id: HeadingId) -> Option<Heading<'_>> {
        self.slots.get(id).map(Listed::heading)
    }

    pub(crate) fn get(&self, id: HeadingId) -> Option<&T> {
        self.slots.get(id).map(|slot| &slot.value)
    }

    pub(crate) fn get_mut(&mut self, id: HeadingId) -> Option<&mut T> {
        self.slots.get_mut(id).map(|slot| &mut slot.value)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Heading<'_>> {
        self.slots.iter().map(|(_, slot)| slot.heading())
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room(namespace: &'static str, name: &'static str) -> Heading<'static> {
        Heading {
            namespace,
            kind: Kind::Room,
            name,
        }
    }

    #[test]
    fn a_name_is_told_from_the_same_name_of_another_kind_and_namespace() {
        let mut headings = Headings::<u32>::default();
        let user = Heading {
            kind: Kind::User,
            ..room("/", "a")
        };
        let all = [room("/", "a"), room("/a", ""), room("/", ""), user];
        for (n, heading) in (1..).zip(all) {
            let (id, fresh) = headings.enter(heading);
            assert!(fresh, "{heading:?}");
            headings.get_mut(id).map(|value| *value = n).expect("there");
        }
        for (n, heading) in (1..).zip(all) {
            let (id, fresh) = headings.enter(heading);
            assert_eq!((headings.get(id), fresh), (Some(&n), false), "{heading:?}");
            assert_eq!(headings.heading(id), Some(heading));
        }
        let first = headings.find(all[0]).expect("there");
        headings.remove(first);
        assert_eq!((headings.find(all[0]), headings.len()), (None, 3));
    }

    #[test]
    fn names_that_come_and_go_leave_nothing() {
        let mut headings = Headings::<u32>::default();
        let names: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
        let all = names.iter().map(|name| Heading {
            namespace: "/",
            kind: Kind::Room,
            name,
        });
        let ids: Vec<HeadingId> = all.map(|heading| headings.enter(heading).0).collect();
        ids.into_iter().for_each(|id| headings.remove(id));
        assert_eq!(headings.len(), 0);
        assert!(headings.by_name.capacity() < 4_096, "the table stays large");
    }
}
