//! For tests and operators: whether the tables of people agree with each other, and the memory that they take.

use crate::clients::people::People;
use crate::clients::tags::Tag;
use crate::tables::slot::NamespaceId;

impl People {
    /// Panics unless sessions and sockets are found by their ids.
    pub(crate) fn check_ids(&self) {
        let sessions = self.sessions.iter();
        let engineio = sessions.filter(|(_, session)| session.protocol.is_engineio());
        assert_eq!(
            self.sids.len(),
            engineio.count(),
            "entries of the sid table"
        );
        let (ids, sockets) = (self.socket_ids.len(), self.sockets.len());
        assert_eq!(ids, sockets, "entries of the id table");
    }

    /// Panics unless texts that many share are kept for those that have them, and no others.
    pub(crate) fn check_tags(&self) {
        let sessions = self.sessions.iter();
        let tagged = sessions.filter(|(_, session)| session.agent != Tag::default());
        assert_eq!(self.agents.uses(), tagged.count(), "names of programs");
        let sessions = self.sessions.iter();
        let tagged = sessions.filter(|(_, session)| session.claims != Tag::default());
        assert_eq!(self.claim_kinds.uses(), tagged.count(), "kinds of claims");
    }

    /// Panics unless users and their sockets know each other.
    pub(crate) fn check_users(&self) {
        let mut members = 0;
        for (index, user) in self.users.iter() {
            assert_eq!(
                self.users.find(user.namespace, &user.name),
                Some(index),
                "user {:?}",
                user.name
            );
            assert_ne!(
                user.first, None,
                "user {:?} has nobody and is still here",
                user.name
            );
            let mut at = user.first;
            while let Some(id) = at {
                let socket = self.sockets.get(id);
                let socket = socket.unwrap_or_else(|| panic!("dead socket of {:?}", user.name));
                assert_eq!(
                    (socket.place.user, socket.namespace),
                    (Some(index), user.namespace)
                );
                members += 1;
                assert!(
                    members <= self.sockets.len(),
                    "the list of {:?} has no end",
                    user.name
                );
                at = self.next_of_user(id);
            }
        }
        let placed = self
            .sockets
            .iter()
            .filter(|(_, slot)| slot.place.user.is_some());
        assert_eq!(members, placed.count(), "sockets of users");
    }

    /// Panics unless each namespace has the rooms that it counts, and at least one.
    pub(crate) fn check_namespaces(&self, rooms_of: impl Fn(NamespaceId) -> usize) {
        for (index, namespace) in self.namespaces.iter() {
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
                self.find_namespace(&namespace.name),
                Some(index),
                "{}",
                namespace.name
            );
        }
        assert_eq!(
            self.namespace_names.len(),
            self.namespaces.len(),
            "names of namespaces"
        );
    }

    /// Bytes of the tables of sessions, sockets and users; those behind a session or a socket are its own.
    pub(crate) fn heap_bytes(&self) -> [usize; 3] {
        [
            self.sessions.heap_bytes() + self.sids.allocation_size(),
            self.sockets.heap_bytes() + self.socket_ids.allocation_size(),
            self.users.heap_bytes(),
        ]
    }
}
