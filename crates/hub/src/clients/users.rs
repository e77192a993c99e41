//! Users: all sockets of one uid in a namespace. A user's sockets are a list threaded through the sockets themselves: few users have
//! more than one or two, and an idle connection pays for each byte here.

use crate::clients::socket::{Place, Socket};
use crate::clients::table::Table;
use crate::tables::slab::Slab;
use crate::tables::slot::{NamespaceId, SocketId, UserId};
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};

#[derive(Debug)]
pub(crate) struct User {
    pub(crate) name: Box<str>,
    pub(crate) namespace: NamespaceId,
    /// The first of its sockets.
    pub(crate) first: Option<SocketId>,
}

/// Users by slot and by name. Names come from tokens others issue, hence the keyed hash.
#[derive(Debug, Default)]
pub(crate) struct Users {
    slots: Slab<UserId, User, ()>,
    by_name: HashTable<UserId>,
    hasher: RandomState,
}

impl Users {
    fn hash(&self, namespace: NamespaceId, name: &str) -> u64 {
        self.hasher.hash_one((namespace, name))
    }

    pub(crate) fn get(&self, index: UserId) -> Option<&User> {
        self.slots.get(index)
    }

    pub(crate) fn find(&self, namespace: NamespaceId, name: &str) -> Option<UserId> {
        let hash = self.hash(namespace, name);
        let found = self.by_name.find(hash, |index| {
            let user = self.slots.get(*index);
            user.is_some_and(|user| user.namespace == namespace && *user.name == *name)
        });
        found.copied()
    }

    fn find_or_insert(&mut self, namespace: NamespaceId, name: &str) -> UserId {
        if let Some(index) = self.find(namespace, name) {
            return index;
        }
        let hash = self.hash(namespace, name);
        let user = User {
            name: name.into(),
            namespace,
            first: None,
        };
        let index = self.slots.insert(user).id();
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_name.insert_unique(hash, index, |index| {
            slots
                .get(*index)
                .map_or(0, |user| hasher.hash_one((user.namespace, &*user.name)))
        });
        index
    }

    fn remove(&mut self, index: UserId) {
        let Some(user) = self.slots.remove(index) else {
            return;
        };
        let hash = self.hash(user.namespace, &user.name);
        if let Ok(entry) = self.by_name.find_entry(hash, |other| *other == index) {
            entry.remove();
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (UserId, &User)> {
        self.slots.iter()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let names: usize = self.slots.iter().map(|(_, user)| user.name.len()).sum();
        self.slots.heap_bytes() + self.by_name.allocation_size() + names
    }

    /// Makes a socket one of a user's; it stops being another's.
    pub(crate) fn enter(
        &mut self,
        sockets: &mut Table<SocketId, Socket>,
        socket: SocketId,
        name: &str,
    ) {
        self.leave(sockets, socket);
        let Some(namespace) = sockets.get(socket).map(|slot| slot.namespace) else {
            return;
        };
        let user = self.find_or_insert(namespace, name);
        let Some(slot) = self.slots.get_mut(user) else {
            return;
        };
        // The newest comes first, so nobody walks to the end of the list.
        let after = slot.first.replace(socket);
        if let Some(next) = sockets.get_mut(after) {
            next.place.before = Some(socket);
        }
        if let Some(slot) = sockets.get_mut(socket) {
            slot.place = Place {
                user: Some(user),
                before: None,
                after,
            };
        }
    }

    pub(crate) fn leave(&mut self, sockets: &mut Table<SocketId, Socket>, socket: SocketId) {
        let Some(slot) = sockets.get_mut(socket) else {
            return;
        };
        let Place {
            user,
            before,
            after,
        } = std::mem::replace(&mut slot.place, Place::NOBODY);
        let Some(user) = user else {
            return;
        };
        if let Some(next) = sockets.get_mut(after) {
            next.place.before = before;
        }
        if let Some(previous) = sockets.get_mut(before) {
            previous.place.after = after;
        } else if after.is_none() {
            self.remove(user);
        } else if let Some(slot) = self.slots.get_mut(user) {
            slot.first = after;
        }
    }
}
