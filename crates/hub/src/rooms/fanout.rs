//! One event to many sockets.
//!
//! HOT PATH: `fan_out` allocates nothing once warm; no lock, no dyn.

use crate::clients::speaker::Speaker;
use crate::recovery::exchange::Recovery;
use crate::recovery::headings::{Heading, Kind};
use crate::recovery::journal::Moment;
use crate::rooms::busy::Busy;
use crate::rooms::outgoing::Outgoing;
use crate::rooms::room::{RoomKind, Rooms};
use crate::rooms::target::Target;
use crate::tables::slot::{NamespaceId, SocketId};

/// What it takes to send something to the members of rooms.
#[derive(Debug)]
pub(crate) struct Audience<'a> {
    pub(crate) rooms: &'a mut Rooms,
    pub(crate) speaker: Speaker<'a>,
    pub(crate) recovery: Option<&'a mut Recovery>,
    pub(crate) now_ms: u64,
}

impl Audience<'_> {
    /// What every fan-out begins with.
    pub(crate) fn prepare(&mut self, target: &Target<'_>, out: &mut Outgoing<'_>) {
        let Speaker { books, line, .. } = &mut self.speaker;
        books.counts.broadcasts += 1;
        line.budget.broadcast();
        out.made.share();
        let exempt = &books.config.compression.exempt;
        out.made
            .exempt_if(exempt.holds(target.namespace, target.rooms));
    }

    /// Delivers to every local socket the target means.
    pub(crate) fn fan_out(&mut self, target: &Target<'_>, out: &mut Outgoing<'_>) {
        match self.speaker.traces.is_on() {
            true => self.fan_out_traced(target, out),
            false => self.give(target, out),
        }
    }

    #[inline]
    pub(super) fn give(&mut self, target: &Target<'_>, out: &mut Outgoing<'_>) {
        // The journal comes first: an event may be for sockets that are away only.
        if self.recovery.is_some() {
            self.write_down(target, out);
        }
        let Some(namespace) = self.speaker.people.namespaces.find(target.namespace) else {
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
            // A socket is in the room of its own id without an entry in the table.
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

    /// Where clients come back, an event is in the journal before anybody gets it, and each gets its place there.
    #[cold]
    fn write_down(&mut self, target: &Target<'_>, out: &mut Outgoing<'_>) {
        let Self {
            rooms,
            speaker,
            recovery: Some(recovery),
            now_ms,
        } = self
        else {
            return;
        };
        if speaker.books.config.recovery.of(target.namespace).is_none() {
            return;
        }
        let people = &*speaker.people;
        let namespace = people.namespaces.find(target.namespace);
        let is_somewhere = |kind, name: &str| {
            let room = namespace.and_then(|namespace| rooms.table.find(namespace, kind, name));
            let room = room.and_then(|room| rooms.table.get(room));
            room.is_some_and(|room| !room.members().is_empty())
        };
        let has = |heading: Heading<'_>| match (heading.kind, namespace) {
            (_, None) => false,
            (Kind::Everyone, _) => is_somewhere(RoomKind::All, ""),
            (Kind::Room, Some(namespace)) => {
                is_somewhere(RoomKind::Named, heading.name)
                    || people.socket_named(namespace, heading.name).is_some()
            }
            (Kind::User, Some(namespace)) => {
                people.first_of_user(namespace, heading.name).is_some()
            }
            (Kind::Socket, _) => false,
        };
        let moment = Moment {
            now_ms: *now_ms,
            stamp: out.stamp,
            kept: out.at.is_some(),
            number: recovery.streams.number_of(target.namespace, out.stamp),
        };
        let at = match out.event.volatile || out.passes {
            true => recovery.journal.pass(moment),
            false => recovery.say(moment, &target.aim(), &out.event, has),
        };
        out.offset = Some(recovery.offset(target.namespace, at));
    }

    fn deliver_room(
        &mut self,
        namespace: NamespaceId,
        kind: RoomKind,
        name: &str,
        mark: u32,
        out: &mut Outgoing<'_>,
    ) {
        let Some(room) = self.rooms.table.find(namespace, kind, name) else {
            return;
        };
        let (members, live) = self.rooms.table.take_members(room);
        let receivers = match out.at {
            // A member that follows gets the events that rooms keep with its history (ADR 14).
            Some(_) => &members[..live],
            None => &members[..],
        };
        if Busy::wants(self.speaker.books.counts.broadcasts) && kind == RoomKind::Named {
            self.rooms.busy.note(self.now_ms, room, receivers.len());
        }
        for index in receivers {
            self.deliver_member(*index, mark, out);
        }
        self.rooms.table.put_back(room, members);
    }

    /// Counts rooms as busy whose members get something in another way than by `fan_out`. To be called after [`Self::prepare`].
    pub(crate) fn note_rooms(&mut self, target: &Target<'_>) {
        if !Busy::wants(self.speaker.books.counts.broadcasts) {
            return;
        }
        let Some(namespace) = self.speaker.people.namespaces.find(target.namespace) else {
            return;
        };
        for name in target.rooms {
            let room = self.rooms.table.find(namespace, RoomKind::Named, name);
            let members = room.and_then(|room| self.rooms.table.get(room));
            if let (Some(room), Some(members)) = (room, members) {
                let count = members.members().len();
                self.rooms.busy.note(self.now_ms, room, count);
            }
        }
    }

    #[inline]
    fn deliver_member(&mut self, index: SocketId, mark: u32, out: &mut Outgoing<'_>) {
        if self.speaker.people.mark(index, mark) {
            self.speaker.deliver(index, out);
        }
    }
}
