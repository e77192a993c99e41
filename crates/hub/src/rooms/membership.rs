//! Joining and leaving rooms, and telling handlers and other shards that the number of members changed.

use crate::books::metrics::Limit;
use crate::cluster::letter::{RoomNews, Target};
use crate::parts::Parts;
use crate::rooms::room::{Change, RoomKind};
use crate::tables::slot::{NamespaceId, SocketId};
use std::sync::Arc;

/// Why a room was not joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    TooManyRooms,
    BadName,
    Gone,
}

impl Parts {
    /// Whether a room may have that name.
    pub(crate) fn is_room_name(&self, name: &str) -> bool {
        let bytes_max = self.books.config.limits.room_name_bytes_max;
        (1..=bytes_max).contains(&name.len())
    }

    /// Puts a socket into a room; joining twice is joining once.
    pub(crate) fn join(
        &mut self,
        index: SocketId,
        kind: RoomKind,
        name: &str,
    ) -> Result<(), JoinError> {
        let rooms_max = self.books.config.limits.rooms_per_socket_max;
        if kind == RoomKind::Named && !self.is_room_name(name) {
            self.books.counts.hit(Limit::RoomName);
            return Err(JoinError::BadName);
        }
        let socket = self
            .people
            .sockets
            .get(index)
            .filter(|s| !s.gone)
            .ok_or(JoinError::Gone)?;
        let (namespace, joined) = (socket.namespace, socket.rooms.len());
        if kind == RoomKind::Named && name.as_bytes() == socket.id.encode() {
            self.set_nameless(index, false);
            return Ok(());
        }
        if let Some(room) = self.rooms.find(namespace, kind, name)
            && socket
                .rooms
                .iter()
                .any(|membership| membership.room == room)
        {
            return Ok(());
        }
        // One is the namespace itself.
        if kind == RoomKind::Named && joined > rooms_max {
            self.books.counts.hit(Limit::RoomsPerSocket);
            return Err(JoinError::TooManyRooms);
        }
        let room = self.room(namespace, kind, name);
        self.rooms.add_member(&mut self.people.sockets, index, room);
        Ok(())
    }

    /// The room of a socket's own id exists without a table entry; leaving it is a flag.
    fn set_nameless(&mut self, index: SocketId, nameless: bool) {
        if let Some(socket) = self.people.sockets.get_mut(index) {
            socket.nameless = nameless;
        }
    }

    pub(crate) fn leave(&mut self, index: SocketId, name: &str) {
        let Some(socket) = self.people.sockets.get(index) else {
            return;
        };
        if name.as_bytes() == socket.id.encode() {
            return self.set_nameless(index, true);
        }
        let Some(room) = self.rooms.find(socket.namespace, RoomKind::Named, name) else {
            return;
        };
        let Some(at) = socket
            .rooms
            .iter()
            .position(|membership| membership.room == room)
        else {
            return;
        };
        if let Some(socket) = self.people.sockets.get_mut(index) {
            let membership = socket.rooms.remove(at);
            if socket.rooms.len() < socket.rooms.capacity() / 4 {
                socket.rooms.shrink_to_fit();
            }
            self.rooms
                .remove_member(&mut self.people.sockets, membership);
        }
    }

    pub(crate) fn leave_all_rooms(&mut self, index: SocketId) {
        let rooms = self.people.sockets.get_mut(index).map(|socket| {
            socket.nameless = true;
            std::mem::take(&mut socket.rooms)
        });
        for membership in rooms.into_iter().flatten() {
            self.rooms
                .remove_member(&mut self.people.sockets, membership);
        }
    }

    /// Tells the other shards of counts that changed; returns the named rooms for the handler: (namespace, room, members).
    pub(crate) fn announce_changes(&mut self) -> Vec<(Arc<str>, Arc<str>, u64)> {
        let mut told = Vec::new();
        for Change {
            room,
            tell,
            announce,
        } in self.rooms.changes(self.clock.now.mono_ms)
        {
            if let Some(slot) = self.rooms.get(room)
                && let Some(namespace) = self.people.namespaces.get(slot.namespace())
                && tell
            {
                let (namespace, name) = (Arc::clone(&namespace.name), Arc::clone(slot.name()));
                told.push((Arc::clone(&namespace), Arc::clone(&name), slot.total()));
                if !announce.is_empty() {
                    let room = name;
                    self.send_all(announce, RoomNews::Changed { namespace, room });
                }
            }
            self.tidy_room(room);
        }
        self.rooms.shrink();
        told
    }

    /// The number of a room's members changed on another shard.
    pub(crate) fn room_changed(&mut self, namespace: &str, name: &str) {
        let namespace = self.find_namespace(namespace);
        let room = namespace.and_then(|at| self.rooms.find(at, RoomKind::Named, name));
        if let Some(room) = room {
            self.rooms.mark_changed(room);
        }
    }

    /// Local sockets the target means.
    pub(crate) fn select(&mut self, target: &Target<'_>) -> Vec<SocketId> {
        let Some(namespace) = self.find_namespace(target.namespace) else {
            return Vec::new();
        };
        let mark = self.next_mark();
        for name in target.except {
            self.mark_members(namespace, name, mark);
        }
        let mut candidates = Vec::new();
        if target.rooms.is_empty() && target.users.is_empty() {
            self.add_members(namespace, RoomKind::All, "", &mut candidates);
        }
        for name in target.rooms {
            self.add_members(namespace, RoomKind::Named, name, &mut candidates);
            candidates.extend(self.socket_named(namespace, name));
        }
        for user in target.users {
            let mut at = self.first_of_user(namespace, user);
            while let Some(socket) = at {
                candidates.push(socket);
                at = self.next_of_user(socket);
            }
        }
        candidates.retain(|index| match self.people.sockets.get_mut(*index) {
            Some(socket) if socket.mark != mark && !socket.gone => {
                socket.mark = mark;
                true
            }
            _ => false,
        });
        candidates
    }

    fn add_members(
        &self,
        namespace: NamespaceId,
        kind: RoomKind,
        name: &str,
        out: &mut Vec<SocketId>,
    ) {
        let room = self.rooms.find(namespace, kind, name);
        out.extend(
            room.and_then(|room| self.rooms.get(room))
                .into_iter()
                .flat_map(|room| room.members()),
        );
    }

    /// Names of the rooms a socket is in, its own id first.
    pub(crate) fn rooms_of(&self, index: SocketId) -> Vec<String> {
        let Some(socket) = self.people.sockets.get(index) else {
            return Vec::new();
        };
        let named = socket.rooms.iter().filter_map(|membership| {
            let room = self.rooms.get(membership.room)?;
            (room.kind() == RoomKind::Named).then(|| room.name().to_string())
        });
        let own = (!socket.nameless).then(|| socket.id.to_string());
        own.into_iter().chain(named).collect()
    }
}
