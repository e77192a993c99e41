//! One event to many sockets.
//!
//! HOT PATH: `fan_out` allocates nothing once warm; no lock, no dyn.

use crate::clients::speaker::Speaker;
use crate::rooms::outgoing::Outgoing;
use crate::rooms::room::{RoomKind, Rooms};
use crate::rooms::target::Target;
use crate::tables::slot::{NamespaceId, SocketId};

/// What it takes to send something to the members of rooms.
#[derive(Debug)]
pub(crate) struct Audience<'a> {
    pub(crate) rooms: &'a mut Rooms,
    pub(crate) speaker: Speaker<'a>,
}

impl Audience<'_> {
    /// What every fan-out begins with.
    pub(crate) fn prepare(&mut self, target: &Target<'_>, out: &mut Outgoing<'_>) {
        let Speaker { books, line, .. } = &mut self.speaker;
        books.counts.broadcasts += 1;
        line.budget.broadcast();
        out.shared = true;
        let exempt = &books.config.compression.exempt;
        out.exempt |= exempt.holds(target.namespace, target.rooms);
    }

    /// Delivers to every local socket the target means.
    pub(crate) fn fan_out(&mut self, target: &Target<'_>, out: &mut Outgoing<'_>) {
        let Some(namespace) = self.speaker.people.find_namespace(target.namespace) else {
            return;
        };
        self.prepare(target, out);
        let people = &mut *self.speaker.people;
        let mark = self.rooms.mark_except(people, namespace, target.except);
        if target.rooms.is_empty() && target.users.is_empty() {
            self.deliver_room(namespace, RoomKind::All, "", mark, out);
        }
        for name in target.rooms {
            self.deliver_room(namespace, RoomKind::Named, name, mark, out);
            if let Some(index) = self.speaker.people.socket_named(namespace, name) {
                self.deliver_member(index, mark, out);
            }
        }
        for user in target.users {
            let mut at = self.speaker.people.first_of_user(namespace, user);
            while let Some(index) = at {
                at = self.speaker.people.next_of_user(index);
                self.deliver_member(index, mark, out);
            }
        }
    }

    fn deliver_room(
        &mut self,
        namespace: NamespaceId,
        kind: RoomKind,
        name: &str,
        mark: u32,
        out: &mut Outgoing<'_>,
    ) {
        let Some(room) = self.rooms.find(namespace, kind, name) else {
            return;
        };
        let (members, live) = self.rooms.take_members(room);
        let receivers = match out.at {
            Some(_) => &members[..live],
            None => &members[..],
        };
        for index in receivers {
            self.deliver_member(*index, mark, out);
        }
        self.rooms.put_back(room, members);
    }

    #[inline]
    fn deliver_member(&mut self, index: SocketId, mark: u32, out: &mut Outgoing<'_>) {
        if self.speaker.people.mark(index, mark) {
            self.speaker.deliver(index, out);
        }
    }
}
