//! Joining and leaving rooms, and the members of rooms.

use crate::books::Books;
use crate::books::limits::Limits;
use crate::books::metrics::Limit;
use crate::bounds::{CHORES_PER_TURN, WORDS_BYTES_MAX};
use crate::clients::people::People;
use crate::rooms::changes::Change;
use crate::rooms::presence::{Presence, Unwatched, Who, Word};
use crate::rooms::room::{Room, RoomKind, Rooms};
use crate::rooms::target::Target;
use crate::tables::clock::Now;
use crate::tables::id::{self, Place};
use crate::tables::interest::{Change as Interested, Subject};
use crate::tables::shards::ShardSet;
use crate::tables::slot::{NamespaceId, RoomId, SocketId};
use std::sync::Arc;

/// Why a room was not joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    /// The socket is in as many rooms as it may be.
    TooManyRooms,
    /// No room may have this name.
    BadName,
    /// The socket is gone.
    Gone,
}

/// A room whose number of members changed, as handlers are told.
#[derive(Debug)]
pub(crate) struct NewCount {
    pub(crate) namespace: Arc<str>,
    pub(crate) room: Arc<str>,
    pub(crate) members: u64,
    /// The handler is told now.
    pub(crate) tell: bool,
    /// Shards that do not know yet.
    pub(crate) announce: ShardSet,
    /// The word to other nodes: members on this shard, and whether they are to say the same of theirs.
    pub(crate) away: Option<(u32, bool)>,
    /// What other shards and nodes are told of the people on this one.
    pub(crate) word: Option<Word>,
    /// What the handler is told of the people in the room.
    pub(crate) presence: Option<Presence>,
}

/// The member that a socket belongs to.
fn who(people: &People, index: SocketId) -> Who {
    match people.user_of(index) {
        Some(user) => Who::User(user.into()),
        None => {
            let socket = people.sockets.get(index);
            let id = socket.map(|socket| socket.id.to_string());
            Who::Socket(id.unwrap_or_default().into())
        }
    }
}

/// Whether a room may have that name.
pub(crate) fn is_room_name(limits: &Limits, name: &str) -> bool {
    (1..=limits.room_name_bytes_max).contains(&name.len())
}

impl Rooms {
    /// The room of that name, made if need be.
    pub(crate) fn find_or_make(
        &mut self,
        people: &mut People,
        namespace: NamespaceId,
        kind: RoomKind,
        name: &str,
    ) -> RoomId {
        if let Some(room) = self.table.find(namespace, kind, name) {
            return room;
        }
        let label = people.namespaces.add_room(namespace);
        let subject = kind.subject();
        people.note_interest(namespace, subject, name, Interested::Came);
        let room = self.table.insert((namespace, &label), kind, name);
        if kind == RoomKind::Named {
            self.rolls.made(room, &label, name);
        }
        room
    }

    /// Forgets a room that has no members here, and its namespace with the last room.
    fn tidy(&mut self, people: &mut People, room: RoomId) {
        if self.table.get(room).is_none_or(Room::is_used) || self.rolls.holds(room) {
            return;
        }
        self.elsewhere.forget(room);
        self.rolls.forget(room);
        self.busy.forget(room);
        if let Some(room) = self.table.remove(room) {
            let (namespace, subject) = (room.namespace(), room.kind().subject());
            people.note_interest(namespace, subject, room.name(), Interested::Went);
            people.namespaces.drop_room(room.namespace());
        }
    }

    /// Sockets without a transport want what is said to a room, or do not any more. The room stays listed for them.
    pub(crate) fn want(
        &mut self,
        people: &mut People,
        namespace: NamespaceId,
        (kind, name): (RoomKind, &str),
        wanted: bool,
    ) {
        if wanted {
            self.find_or_make(people, namespace, kind, name);
        }
        let Some(room) = self.table.find(namespace, kind, name) else {
            return;
        };
        if let Some(slot) = self.table.get_mut(room) {
            slot.wanted = wanted;
        }
        if !wanted {
            self.tidy(people, room);
        }
    }

    /// Puts a socket that began on another shard into a room of its own name: what is said to that name comes here.
    pub(crate) fn own_room(&mut self, people: &mut People, index: SocketId, name: &str) {
        let Some(namespace) = people.sockets.get(index).map(|slot| slot.namespace) else {
            return;
        };
        let room = self.find_or_make(people, namespace, RoomKind::Named, name);
        // If `rolls` holds the room, other members of it were told of already, and it stays a room like others. Else it has no presence.
        if !self.rolls.holds(room)
            && let Some(slot) = self.table.get_mut(room)
        {
            slot.own = true;
            self.rolls.forget(room);
        }
        self.add_member(&mut people.sockets, index, room);
        self.rolls.came(room, index, || who(people, index));
        people.note_member(index, Subject::Room, name);
    }

    /// Puts a socket into a room; joining twice is joining once.
    pub(crate) fn join(
        &mut self,
        people: &mut People,
        books: &mut Books,
        index: SocketId,
        name: &str,
    ) -> Result<(), JoinError> {
        let limits = &books.config.limits;
        if !is_room_name(limits, name) {
            books.counts.hit(Limit::RoomName);
            return Err(JoinError::BadName);
        }
        let socket = people
            .sockets
            .get_mut(index)
            .filter(|slot| !slot.flags.gone);
        let socket = socket.ok_or(JoinError::Gone)?;
        // The room of a socket's own id exists without a table entry; leaving it is a flag.
        if name.as_bytes() == socket.id.encode() {
            let (id, was) = (socket.id, std::mem::take(&mut socket.flags.nameless));
            if was && id::socket_owner(&id) != self.table.me().place() {
                self.own_room(people, index, name);
            }
            return Ok(());
        }
        let (namespace, joined) = (socket.namespace, socket.rooms.len());
        // A second join is fine, also at the limit.
        if let Some(room) = self.table.find(namespace, RoomKind::Named, name)
            && socket.rooms.iter().any(|own| own.room == room)
        {
            return Ok(());
        }
        // One of the memberships is the namespace itself.
        if joined > limits.rooms_per_socket_max {
            books.counts.hit(Limit::RoomsPerSocket);
            return Err(JoinError::TooManyRooms);
        }
        let room = self.find_or_make(people, namespace, RoomKind::Named, name);
        self.add_member(&mut people.sockets, index, room);
        self.rolls.came(room, index, || who(people, index));
        people.note_member(index, Subject::Room, name);
        people.note_listed(index);
        Ok(())
    }

    /// Notes that a socket is in a room since now, if it was not in it already. Only namespaces where members see nothing of before they
    /// joined need that.
    pub(crate) fn note_arrival(
        &mut self,
        people: &People,
        index: SocketId,
        name: &str,
        now_ms: u64,
    ) {
        let socket = people.sockets.get(index).filter(|_| self.arrivals.is_on());
        let Some(socket) = socket else { return };
        let label = people.namespaces.label(socket.namespace);
        if label.is_none_or(|label| !self.arrivals.hide_the_past_of(label)) {
            return;
        }
        if let Some(room) = self.table.find(socket.namespace, RoomKind::Named, name)
            && socket.rooms.iter().any(|own| own.room == room)
        {
            self.arrivals.came(room, index, now_ms);
        }
    }

    pub(crate) fn leave(&mut self, people: &mut People, index: SocketId, name: &str) {
        let Some(socket) = people.sockets.get_mut(index) else {
            return;
        };
        // Where it moved from another shard, its own room is in the table, too.
        if name.as_bytes() == socket.id.encode() {
            socket.flags.nameless = true;
        }
        let room = self.table.find(socket.namespace, RoomKind::Named, name);
        let mut rooms = socket.rooms.iter();
        let Some(at) = rooms.position(|own| Some(own.room) == room) else {
            return;
        };
        let membership = socket.rooms.remove(at);
        if socket.rooms.len() < socket.rooms.capacity() / 4 {
            socket.rooms.shrink_to_fit();
        }
        self.rolls.went(membership.room, index, None);
        self.remove_member(&mut people.sockets, membership);
        people.note_listed(index);
    }

    /// A socket became another user's.
    pub(crate) fn renamed(&mut self, people: &People, index: SocketId) {
        if !self.rolls.is_on() {
            return;
        }
        let socket = people.sockets.get(index);
        let who = who(people, index);
        for own in socket.iter().flat_map(|socket| &socket.rooms) {
            if self.rolls.renamed(own.room, index, &who) {
                self.changes.mark(&mut self.table, own.room);
            }
        }
    }

    /// A program asks for the members of a room, which may have none here.
    ///
    /// # Errors
    /// It is not told of them.
    pub(crate) fn watch(
        &mut self,
        people: &mut People,
        (namespace, name): (&str, &str),
        now: Now,
    ) -> Result<Presence, Unwatched> {
        let known = people.namespaces.find(namespace);
        let known = known.and_then(|at| self.table.find(at, RoomKind::Named, name));
        self.rolls.may_watch(namespace, name, known)?;
        let namespace = people.namespaces.find_or_make(namespace);
        let room = self.find_or_make(people, namespace, RoomKind::Named, name);
        self.rolls.watch(room, now.mono_ms);
        // The next round says a word of the room, which asks the other shards for their people.
        self.changes.mark(&mut self.table, room);
        let found = self.rolls.of(room, people, now);
        found.ok_or(Unwatched::NoPresence)
    }

    /// Members that did not come back, and those of nodes that are gone, leave their rooms.
    pub(crate) fn people_leave(&mut self, now_ms: u64) {
        while let Some(room) = self.rolls.pop_due(now_ms) {
            self.changes.mark(&mut self.table, room);
        }
    }

    /// Another shard tells the members of a room there; the room, and what that shard is to be told.
    pub(crate) fn present_elsewhere(
        &mut self,
        people: &People,
        (namespace, name): (&str, &str),
        from: Place,
        word: &Word,
    ) -> Option<(RoomId, Word)> {
        let namespace = people.namespaces.find(namespace)?;
        let room = self.table.find(namespace, RoomKind::Named, name)?;
        let heard = self.rolls.hear(room, from, word)?;
        if heard.is_news {
            self.changes.mark(&mut self.table, room);
        }
        Some((room, heard.answer?))
    }

    /// Takes a socket out of all its rooms. `lost_ms`: the time when its connection was lost, if its client may come back.
    pub(crate) fn leave_all(&mut self, people: &mut People, index: SocketId, lost_ms: Option<u64>) {
        let Some(socket) = people.sockets.get_mut(index) else {
            return;
        };
        // The room by its own id is left as well.
        socket.flags.nameless = true;
        for membership in std::mem::take(&mut socket.rooms) {
            self.rolls.went(membership.room, index, lost_ms);
            self.remove_member(&mut people.sockets, membership);
        }
        people.note_listed(index);
    }

    /// The rooms whose number of members changed and is told now, in steps; whether this was the last one.
    pub(crate) fn new_counts(&mut self, people: &mut People, now: Now) -> (Vec<NewCount>, bool) {
        let (mut told, mut bytes) = (Vec::new(), 0);
        self.changes.begin_round();
        for _ in 0..CHORES_PER_TURN {
            let room = match bytes < WORDS_BYTES_MAX {
                true => self.changes.next(),
                false => None,
            };
            let Some(room) = room else {
                break;
            };
            let state = (&mut self.table, &mut self.rolls);
            if let Some(change) = self.changes.change(state, room, now.mono_ms) {
                let count = self.new_count(people, now, change);
                let word = count.as_ref().and_then(|count| count.word.as_ref());
                bytes += word.map_or(0, Word::bytes);
                told.extend(count);
            }
        }
        if self.table.shrink() {
            self.changes.shrink();
        }
        (told, self.changes.is_round_over())
    }

    fn new_count(&mut self, people: &mut People, now: Now, change: Change) -> Option<NewCount> {
        let Change {
            room,
            tell,
            announce,
            away,
            withheld,
        } = change;
        let word = self.rolls.say(room, people, now, withheld);
        let presence = match tell {
            true => self.rolls.show(room, people),
            false => None,
        };
        let slot = self.table.get(room);
        let slot = slot.filter(|_| tell || word.is_some());
        let count = slot.and_then(|slot| {
            Some(NewCount {
                namespace: Arc::clone(people.namespaces.label(slot.namespace())?),
                room: Arc::clone(slot.name()),
                members: slot.total() + self.elsewhere.members(room),
                tell,
                announce,
                away,
                word,
                presence,
            })
        });
        // With this word nobody may believe in members of the room any more: then it can go.
        self.tidy(people, room);
        count
    }

    /// The number of a room's members changed on another shard.
    pub(crate) fn changed_elsewhere(&mut self, people: &People, namespace: &str, name: &str) {
        let namespace = people.namespaces.find(namespace);
        let room = namespace.and_then(|at| self.table.find(at, RoomKind::Named, name));
        if let Some(room) = room {
            self.changes.mark(&mut self.table, room);
        }
    }

    /// A shard of another node says how many members a room has there.
    pub(crate) fn counted_elsewhere(
        &mut self,
        people: &People,
        (namespace, name): (&str, &str),
        from: Place,
        members: u32,
        asks: bool,
    ) {
        let namespace = people.namespaces.find(namespace);
        let Some(room) = namespace.and_then(|at| self.table.find(at, RoomKind::Named, name)) else {
            return;
        };
        let (is_news, is_first) = self.elsewhere.note(room, from, members);
        if is_news {
            self.changes.mark(&mut self.table, room);
        }
        // A shard that was not heard of before may not have heard of this one (ADR 19).
        if asks || is_first {
            self.changes.tell_again(&mut self.table, room, false);
        }
    }

    /// A node is gone, and its members with it.
    pub(crate) fn node_down(&mut self, node: u16, now_ms: u64) {
        self.rolls.doubt_node(node, now_ms);
        for room in self.elsewhere.node_down(node) {
            self.changes.mark(&mut self.table, room);
        }
    }

    /// Local sockets the target means.
    pub(crate) fn select(&mut self, people: &mut People, target: &Target<'_>) -> Vec<SocketId> {
        let Some(namespace) = people.namespaces.find(target.namespace) else {
            return Vec::new();
        };
        let mark = self.mark_except(people, namespace, target.except);
        let mut candidates = Vec::new();
        if target.rooms.is_empty() && target.users.is_empty() {
            self.add_members(namespace, RoomKind::All, "", &mut candidates);
        }
        for name in target.rooms {
            self.add_members(namespace, RoomKind::Named, name, &mut candidates);
            candidates.extend(people.socket_named(namespace, name));
        }
        for user in target.users {
            let mut at = people.first_of_user(namespace, user);
            while let Some(socket) = at {
                candidates.push(socket);
                at = people.next_of_user(socket);
            }
        }
        // The mark also leaves out a socket that was found by two names.
        candidates.retain(|index| people.mark(*index, mark));
        candidates
    }

    fn add_members(
        &self,
        namespace: NamespaceId,
        kind: RoomKind,
        name: &str,
        out: &mut Vec<SocketId>,
    ) {
        let room = self.table.find(namespace, kind, name);
        let room = room.and_then(|room| self.table.get(room));
        out.extend(room.into_iter().flat_map(|room| room.members()));
    }

    /// Names of the rooms a socket is in, its own id first.
    pub(crate) fn names_of(&self, people: &People, index: SocketId) -> Vec<String> {
        let Some(socket) = people.sockets.get(index) else {
            return Vec::new();
        };
        let id = socket.id.encode();
        let named = socket.rooms.iter().filter_map(|membership| {
            let room = self.table.get(membership.room)?;
            // Where it moved from another shard, its own room is in the table, too.
            let own = room.name().as_bytes() == id;
            (room.kind() == RoomKind::Named && !own).then(|| room.name().to_string())
        });
        let own = (!socket.flags.nameless).then(|| socket.id.to_string());
        own.into_iter().chain(named).collect()
    }

    /// Begins a selection of sockets: gives a mark that only the sockets that are left out have.
    pub(crate) fn mark_except(
        &mut self,
        people: &mut People,
        namespace: NamespaceId,
        except: &[&str],
    ) -> u32 {
        let mark = people.next_mark();
        for name in except {
            if let Some(index) = people.socket_named(namespace, name) {
                people.mark(index, mark);
            }
            let room = self.table.find(namespace, RoomKind::Named, name);
            let room = room.and_then(|room| self.table.get(room));
            for index in room.into_iter().flat_map(|room| room.members()) {
                people.mark(*index, mark);
            }
        }
        mark
    }
}
