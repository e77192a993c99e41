//! For tests and operators: whether the tables of people agree with each other, and the memory that they take.

use crate::clients::people::People;
use crate::clients::tags::Tag;

impl People {
    /// Panics unless just sessions of Engine.IO and sockets are found by their ids.
    pub(crate) fn check_ids(&self) {
        let sessions = self.sessions.iter();
        let engineio = sessions.filter(|(_, session)| session.language.protocol().is_engineio());
        let listed = self.sessions.listed();
        assert_eq!(listed, engineio.count(), "ids of sessions");
        let (listed, sockets) = (self.sockets.listed(), self.sockets.len());
        assert_eq!(listed, sockets, "ids of sockets");
    }

    /// Panics unless texts that many share are kept for those that have them, and no others.
    pub(crate) fn check_tags(&self) {
        let sessions = self.sessions.iter();
        let tagged = sessions.filter(|(_, session)| session.client.agent() != Tag::default());
        assert_eq!(self.agents.uses(), tagged.count(), "names of programs");
        let sessions = self.sessions.iter();
        let tagged = sessions.filter(|(_, session)| session.client.claims() != Tag::default());
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

    /// Bytes of the tables of sessions, sockets and users. What one session or socket has on the heap is not in them.
    pub(crate) fn heap_bytes(&self) -> [usize; 3] {
        [
            self.sessions.heap_bytes(),
            self.sockets.heap_bytes(),
            self.users.heap_bytes(),
        ]
    }
}
