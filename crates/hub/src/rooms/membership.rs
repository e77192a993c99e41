//! Joining and leaving rooms, and telling the other shards how many are in them.

use crate::books::metrics::Limit;
use crate::cluster::relay::{Relay, ShardSet, Target};
use crate::core::Core;
use crate::rooms::room::RoomKind;
use crate::tables::slot::{NamespaceId, RoomId, SocketId};
use crate::tables::socket::Membership;

/// Why a room was not joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    TooManyRooms,
    BadName,
    Gone,
}

impl Core {
    /// Whether a room may have that name. NUL ends a name wherever C reads it: two rooms here could be one there.
    pub(crate) fn is_room_name(&self, name: &str) -> bool {
        let bytes_max = self.config.limits.room_name_bytes_max;
        (1..=bytes_max).contains(&name.len()) && !name.contains('\0')
    }

    /// Puts a socket into a room; joining twice is joining once.
    pub(crate) fn join(
        &mut self,
        index: SocketId,
        kind: RoomKind,
        name: &str,
    ) -> Result<(), JoinError> {
        let rooms_max = self.config.limits.rooms_per_socket_max;
        if kind == RoomKind::Named && !self.is_room_name(name) {
            self.counts.hit(Limit::RoomName);
            return Err(JoinError::BadName);
        }
        let socket = self
            .tables
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
            self.counts.hit(Limit::RoomsPerSocket);
            return Err(JoinError::TooManyRooms);
        }
        let namespace = self
            .tables
            .namespaces
            .get(namespace)
            .ok_or(JoinError::Gone)?
            .name
            .clone();
        let room = self.room(&namespace, kind, name);
        self.add_member(index, room);
        Ok(())
    }

    /// The room of a socket's own id exists without a table entry; leaving it is a flag.
    fn set_nameless(&mut self, index: SocketId, nameless: bool) {
        if let Some(socket) = self.tables.sockets.get_mut(index) {
            socket.nameless = nameless;
        }
    }

    pub(crate) fn add_member(&mut self, index: SocketId, room: RoomId) {
        let Some(slot) = self.rooms.get_mut(room) else {
            return;
        };
        slot.members.push(index);
        let at = slot.members.len() as u32 - 1;
        if let Some(socket) = self.tables.sockets.get_mut(index) {
            socket.rooms.push(Membership { room, at });
        }
        self.count_changed(room);
    }

    pub(crate) fn leave(&mut self, index: SocketId, name: &str) {
        let Some(socket) = self.tables.sockets.get(index) else {
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
        if let Some(socket) = self.tables.sockets.get_mut(index) {
            let membership = socket.rooms.remove(at);
            self.remove_member(membership);
        }
    }

    pub(crate) fn leave_all_rooms(&mut self, index: SocketId) {
        let rooms = self
            .tables
            .sockets
            .get_mut(index)
            .map(|s| std::mem::take(&mut s.rooms));
        for membership in rooms.into_iter().flatten() {
            self.remove_member(membership);
        }
    }

    /// Takes a member off a room's list; the last one moves into its place.
    fn remove_member(&mut self, membership: Membership) {
        let Membership { room, at } = membership;
        let Some(slot) = self.rooms.get_mut(room) else {
            return;
        };
        if at as usize >= slot.members.len() {
            return;
        }
        slot.members.swap_remove(at as usize);
        if slot.members.len() < slot.members.capacity() / 4 {
            slot.members.shrink_to(slot.members.len() * 2);
        }
        if let Some(moved) = slot.members.get(at as usize).copied()
            && let Some(socket) = self.tables.sockets.get_mut(moved)
            && let Some(other) = socket.rooms.iter_mut().find(|other| other.room == room)
        {
            other.at = at;
        }
        self.count_changed(room);
    }

    /// Books a change; the other shards learn at once when the first comes, else with the next announcement. Of the last one's
    /// going too: until then they send what nobody here is told, and who joins and leaves all the time costs them nothing.
    fn count_changed(&mut self, room: RoomId) {
        let Some(slot) = self.rooms.get_mut(room) else {
            return;
        };
        if !std::mem::replace(&mut slot.changed, true) {
            self.changed_rooms.push(room);
        }
        if slot.announced == 0 && !slot.members.is_empty() {
            self.announce(room, None);
        }
    }

    fn announce(&mut self, room: RoomId, answers: Option<u16>) {
        let Some(slot) = self.rooms.get_mut(room) else {
            return;
        };
        let count = slot.members.len() as u32;
        slot.announced = count;
        if self.ids.me.shards == 1 {
            return;
        }
        let (kind, name) = (slot.kind, slot.name.to_string());
        let Some(namespace) = self.tables.namespaces.get(slot.namespace) else {
            return;
        };
        let relay = Relay::RoomCount {
            namespace: namespace.name.to_string(),
            kind,
            room: name,
            shard: self.ids.me.shard,
            count,
            answers,
        };
        self.send_all(self.other_shards(), relay);
    }

    /// Tells how many are in these rooms whether that changed or not: another shard had sockets join and waits for it.
    pub(crate) fn answer_join(&mut self, namespace: &str, rooms: &[String], shard: u16) {
        for name in rooms {
            let room = self.room(namespace, RoomKind::Named, name);
            self.announce(room, Some(shard));
            self.tidy_room(room);
        }
    }

    /// Other shards have sockets join these rooms, and announce the counts when they have.
    pub(crate) fn expect_members(&mut self, shards: ShardSet, namespace: &str, rooms: &[&str]) {
        for name in rooms {
            let room = self.room(namespace, RoomKind::Named, name);
            if let Some(slot) = self.rooms.get_mut(room) {
                shards.iter().for_each(|shard| slot.expect_away(shard));
            }
        }
    }

    /// Another shard told how many it holds; `answers`: because it was told here to let sockets join.
    pub(crate) fn room_count(&mut self, room: RoomId, shard: u16, count: u32, answers: bool) {
        let Some(slot) = self.rooms.get_mut(room) else {
            return;
        };
        slot.set_away(shard, count, answers);
        if !std::mem::replace(&mut slot.changed, true) {
            self.changed_rooms.push(room);
        }
    }

    /// Tells the other shards the counts that changed; returns the named rooms for the handler: (namespace, room, members).
    /// The larger a room, the less often: telling its members costs at most about a thousand deliveries a second.
    pub(crate) fn announce_changes(&mut self) -> Vec<(std::sync::Arc<str>, Box<str>, u64)> {
        let mut told = Vec::new();
        let now = self.clock.now.mono_ms;
        for room in std::mem::take(&mut self.changed_rooms) {
            let Some(slot) = self.rooms.get_mut(room) else {
                continue;
            };
            let named = slot.kind == RoomKind::Named;
            let wait = named && now < slot.told_ms + slot.members.len() as u64;
            slot.changed = wait;
            if wait {
                self.changed_rooms.push(room);
            } else if named && let Some(namespace) = self.tables.namespaces.get(slot.namespace) {
                slot.told_ms = now;
                told.push((namespace.name.clone(), slot.name.clone(), slot.total()));
            }
            if slot.announced as usize != slot.members.len() {
                self.announce(room, None);
            }
            self.tidy_room(room);
        }
        told
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
        candidates.retain(|index| match self.tables.sockets.get_mut(*index) {
            Some(socket) if socket.mark != mark => {
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
                .flat_map(|r| &r.members),
        );
    }

    /// Names of the rooms a socket is in, its own id first.
    pub(crate) fn rooms_of(&self, index: SocketId) -> Vec<String> {
        let Some(socket) = self.tables.sockets.get(index) else {
            return Vec::new();
        };
        let named = socket.rooms.iter().filter_map(|membership| {
            let room = self.rooms.get(membership.room)?;
            (room.kind == RoomKind::Named).then(|| room.name.to_string())
        });
        let own = (!socket.nameless).then(|| socket.id.to_string());
        own.into_iter().chain(named).collect()
    }
}
