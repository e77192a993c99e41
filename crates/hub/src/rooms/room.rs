//! Rooms of a shard: the members that are connected to it. The directory knows the other shards.
//! A namespace's sockets are a room of its own kind, which no client can name.

mod members;

use crate::clients::people::People;
use crate::clients::socket::Socket;
use crate::clients::table::Table;
use crate::rooms::arrivals::Arrivals;
use crate::rooms::busy::Busy;
pub use crate::rooms::directory::RoomKind;
use crate::rooms::directory::{Card, Directory, Expected, RoomName};
use crate::rooms::elsewhere::Elsewhere;
use crate::rooms::history::HistoryTap;
use crate::rooms::log::Log;
use crate::rooms::presence::Rolls;
use crate::rooms::tap::Tap;
use crate::tables::id::{Identity, Place};
use crate::tables::shards::ShardSet;
use crate::tables::slab::Slab;
use crate::tables::slot::{NamespaceId, RoomId, SocketId};
use hashbrown::HashTable;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Its room on the other shards is found by the card, which only a process with several shards has.
#[derive(Debug)]
pub(crate) struct Room {
    namespace: NamespaceId,
    kind: RoomKind,
    /// In the list of rooms whose count changed.
    changed: bool,
    /// Other nodes are to be asked for their counts, too.
    asks: bool,
    name: Arc<str>,
    /// The last of them follow: they wait for the room's history, and get no kept events until it is there.
    members: Vec<SocketId>,
    following: u32,
    card: Option<Arc<Card>>,
    /// Sockets without a transport are members of it.
    wanted: bool,
    /// It is the room of a socket that began on another shard: nobody is told how many are in it.
    own: bool,
    /// Members here when the other shards and nodes were told last that their number changed.
    announced: u32,
    /// In the list of rooms of which nodes were not told.
    owed: bool,
    /// When the handler was last told the count, monotonic milliseconds.
    told_ms: u64,
}

impl Room {
    pub(crate) fn namespace(&self) -> NamespaceId {
        self.namespace
    }

    pub(crate) fn kind(&self) -> RoomKind {
        self.kind
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// It is the room of a socket that began on another shard.
    pub(crate) fn is_own(&self) -> bool {
        self.own
    }

    /// The members on this shard.
    pub(crate) fn members(&self) -> &[SocketId] {
        &self.members
    }

    /// Members that do not follow; they come first.
    pub(crate) fn live(&self) -> usize {
        self.members.len() - self.following as usize
    }

    /// Lets two members change places.
    fn swap(&mut self, sockets: &mut Table<SocketId, Socket>, room: RoomId, a: usize, b: usize) {
        if a == b {
            return;
        }
        self.members.swap(a, b);
        for at in [a, b] {
            let socket = sockets.get_mut(self.members[at]);
            let mut memberships = socket.into_iter().flat_map(|socket| &mut socket.rooms);
            if let Some(own) = memberships.find(|own| own.room == room) {
                own.at = at as u32;
            }
        }
    }

    /// It stays, though it may have no members here.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.changed
    }

    /// Other nodes believe in members that they were told of, and could not be told yet what has changed.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed && self.announced != 0
    }

    /// Members on all shards.
    pub(crate) fn total(&self) -> u64 {
        let here = self.members.len() as u64;
        self.card.as_ref().map_or(here, |card| card.members())
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let card = self.card.as_ref().map_or(0, |card| card.heap_share());
        let name = 2 * size_of::<usize>() + self.name.len();
        name + self.members.capacity() * size_of::<SocketId>() + card
    }
}

/// A room whose count changed, as it is told.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) room: RoomId,
    /// The handler is told; else only others are.
    pub(crate) tell: bool,
    /// So are the other shards that have members: the change was made here.
    pub(crate) announce: ShardSet,
    /// So are other nodes: how many there are on this shard, and whether they are to answer.
    pub(crate) away: Option<(u32, bool)>,
    /// Other nodes cannot be told now.
    pub(crate) withheld: bool,
}

/// Rooms by slot and by name. Room names are chosen by clients, hence the keyed hash.
#[derive(Debug)]
pub(crate) struct Rooms {
    slots: Slab<RoomId, Room, ()>,
    by_name: HashTable<RoomId>,
    hasher: RandomState,
    changed: Vec<RoomId>,
    /// What is left of a round through those that had changed.
    round: std::vec::IntoIter<RoomId>,
    /// Rooms whose news found no room on the way to other nodes; `None`: they are taken.
    owed: Option<Vec<RoomId>>,
    /// Members that wait for their room's history, and for which answer.
    tickets: HashMap<(RoomId, SocketId), u64>,
    given: u64,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) rolls: Rolls,
    pub(crate) arrivals: Arrivals,
    pub(crate) busy: Busy,
    directory: Arc<Directory>,
    me: Identity,
    pub(crate) kept: Log,
    /// Copies events for programs outside.
    pub(crate) tap: Option<Arc<Tap>>,
    pub(crate) history_tap: Option<Arc<HistoryTap>>,
}

/// Places that lists and tables keep for later.
const SPARE: usize = 1024;

impl Rooms {
    pub(crate) fn new(me: Identity, directory: &Arc<Directory>, kept: Log) -> Self {
        Self {
            slots: Slab::default(),
            elsewhere: Elsewhere::default(),
            rolls: Rolls::default(),
            arrivals: Arrivals::default(),
            busy: Busy::default(),
            by_name: HashTable::default(),
            hasher: RandomState::default(),
            changed: Vec::new(),
            round: std::vec::IntoIter::default(),
            owed: None,
            tickets: HashMap::new(),
            given: 0,
            directory: Arc::clone(directory),
            me,
            kept,
            tap: None,
            history_tap: None,
        }
    }

    pub(crate) fn place(&self) -> Place {
        self.me.place()
    }

    /// Members of some rooms are told who is there.
    pub(crate) fn with_rolls(self, rolls: Rolls) -> Self {
        Self { rolls, ..self }
    }

    /// Members in some namespaces see nothing that was said before they joined.
    pub(crate) fn with_arrivals(self, arrivals: Arrivals) -> Self {
        Self { arrivals, ..self }
    }

    /// Taps stand where events are published.
    pub(crate) fn tapped(
        mut self,
        tap: Option<&Arc<Tap>>,
        history: Option<&Arc<HistoryTap>>,
    ) -> Self {
        self.tap = tap.cloned();
        self.history_tap = history.cloned();
        self
    }

    fn hash(&self, namespace: NamespaceId, kind: RoomKind, name: &str) -> u64 {
        self.hasher.hash_one((namespace, kind as u8, name))
    }

    pub(crate) fn find(
        &self,
        namespace: NamespaceId,
        kind: RoomKind,
        name: &str,
    ) -> Option<RoomId> {
        let hash = self.hash(namespace, kind, name);
        self.by_name
            .find(hash, |index| {
                self.slots.get(*index).is_some_and(|room| {
                    room.namespace == namespace && room.kind == kind && *room.name == *name
                })
            })
            .copied()
    }

    /// A new room of a namespace of that name. From now on the other shards send it what its members get.
    pub(crate) fn insert(
        &mut self,
        namespace: (NamespaceId, &Arc<str>),
        kind: RoomKind,
        name: &str,
    ) -> RoomId {
        let name: Arc<str> = name.into();
        let card = (self.me.shards > 1).then(|| {
            let directory = &self.directory;
            directory.enter(namespace.1, kind, &name, self.me.shard)
        });
        let hash = self.hash(namespace.0, kind, &name);
        let room = Room {
            namespace: namespace.0,
            kind,
            changed: false,
            name,
            members: Vec::new(),
            following: 0,
            card,
            wanted: false,
            own: false,
            announced: 0,
            owed: false,
            asks: true,
            told_ms: 0,
        };
        let label: &str = namespace.1;
        let named = kind == RoomKind::Named;
        let name = Arc::clone(&room.name);
        let index = self.slots.insert(room).id();
        if named {
            self.rolls.made(index, label, &name);
        }
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_name.insert_unique(hash, index, |index| {
            slots.get(*index).map_or(0, |room| {
                hasher.hash_one((room.namespace, room.kind as u8, &*room.name))
            })
        });
        index
    }

    /// Forgets a room without members here; returns it.
    pub(crate) fn remove_if_empty(&mut self, index: RoomId) -> Option<Room> {
        let room = self.slots.get(index)?;
        let is_used = !room.members.is_empty() || room.wanted || room.changed || room.is_owed();
        if is_used || self.rolls.holds(index) {
            return None;
        }
        self.elsewhere.forget(index);
        self.rolls.forget(index);
        let room = self.slots.get(index)?;
        let hash = self.hash(room.namespace, room.kind, &room.name);
        if let Ok(entry) = self.by_name.find_entry(hash, |other| *other == index) {
            entry.remove();
        }
        self.busy.forget(index);
        let room = self.slots.remove(index)?;
        if let Some(card) = &room.card {
            self.directory.leave(card, self.me.shard);
        }
        Some(room)
    }

    /// Sockets without a transport are members of the room from now on, or are not any more.
    pub(crate) fn set_wanted(&mut self, room: RoomId, wanted: bool) {
        if let Some(slot) = self.slots.get_mut(room) {
            slot.wanted = wanted;
        }
    }

    /// The room of a socket that began on another shard: it has no presence.
    pub(crate) fn set_own(&mut self, room: RoomId) {
        if let Some(slot) = self.slots.get_mut(room) {
            slot.own = true;
            self.rolls.forget(room);
        }
    }

    // ---- other shards -------------------------------------------------------------------------------------------------

    /// Shards that may have members of a room.
    pub(crate) fn shards_of(&self, namespace: Option<NamespaceId>, name: RoomName<'_>) -> ShardSet {
        let shards = self.me.shards;
        let own = namespace.and_then(|namespace| self.find(namespace, name.kind, name.name));
        match own.and_then(|room| self.slots.get(room)) {
            Some(Room {
                card: Some(card), ..
            }) => card.shards(shards),
            _ => {
                let found = self.directory.read(name, |card| card.shards(shards));
                found.unwrap_or_default()
            }
        }
    }

    /// Other shards are asked to let sockets join these rooms.
    pub(crate) fn expect(&self, namespace: &str, rooms: &[&str]) -> Vec<Expected> {
        let expected = rooms
            .iter()
            .map(|name| self.directory.expect(namespace, name));
        expected.collect()
    }

    // ---- counts that changed ------------------------------------------------------------------------------------------

    /// The number of a room's members changed, here or on another shard.
    pub(crate) fn mark_changed(&mut self, room: RoomId) {
        if let Some(slot) = self.slots.get_mut(room)
            && !std::mem::replace(&mut slot.changed, true)
        {
            self.changed.push(room);
        }
    }

    /// Other nodes are told how many members a room has on this shard, though that did not change.
    pub(crate) fn tell_again(&mut self, room: RoomId, asks: bool) {
        if let Some(slot) = self.slots.get_mut(room)
            && slot.kind == RoomKind::Named
        {
            slot.announced = u32::MAX;
            slot.asks |= asks;
            self.mark_changed(room);
        }
    }

    /// Something that a node said was missed: rooms tell all nodes what they have, and ask them for the same.
    pub(crate) fn tell_all_again(&mut self) {
        let rooms: Vec<RoomId> = self.slots.iter().map(|(room, _)| room).collect();
        rooms
            .into_iter()
            .for_each(|room| self.tell_again(room, true));
        self.rolls.tell_all_again();
    }

    pub(crate) fn has_changes(&self) -> bool {
        let owed = self.owed.as_ref().is_some_and(|owed| !owed.is_empty());
        owed || !self.changed.is_empty() || self.round.len() > 0
    }

    /// Whether there is room on the way to other nodes for news of rooms. What had none is told as soon as there is: only rooms
    /// that they know of, or that have members, so that those that come and go in between make nothing grow.
    pub(crate) fn nodes_take_counts(&mut self, take: bool) {
        if !take {
            let (owed, slots) = (self.owed.get_or_insert_default(), &self.slots);
            if owed.len() > 2 * slots.len() + SPARE {
                owed.retain(|room| slots.get(*room).is_some_and(|room| room.owed));
            }
            return;
        }
        for room in self.owed.take().unwrap_or_default() {
            if let Some(slot) = self.slots.get_mut(room) {
                slot.owed = false;
                self.mark_changed(room);
            }
        }
    }

    /// The next room whose number of members or whose people changed. A round goes once over all that had changed when it began: rooms that
    /// are told later than others come in the next one.
    pub(crate) fn next_changed(&mut self) -> Option<RoomId> {
        self.round.next()
    }

    /// Begins a round, if none is under way.
    pub(crate) fn begin_round(&mut self) {
        if self.is_round_over() {
            self.round = std::mem::take(&mut self.changed).into_iter();
        }
    }

    pub(crate) fn is_round_over(&self) -> bool {
        self.round.len() == 0
    }

    /// What is told now of a room that changed. The larger a room, the less often: telling its members costs at most about a thousand
    /// deliveries a second.
    pub(crate) fn change(&mut self, room: RoomId, now_ms: u64) -> Option<Change> {
        let slot = self.slots.get_mut(room)?;
        let named = slot.kind == RoomKind::Named && !slot.own;
        let here = slot.members.len() as u32;
        let waits = named && self.rolls.waits(room, now_ms);
        let paced = named && now_ms < slot.told_ms + u64::from(here);
        slot.changed = waits || paced;
        if slot.changed {
            self.changed.push(room);
        }
        // Others are told of people at once: they tell their own members at their own pace.
        let says = !waits && named && self.rolls.has_news(room);
        if slot.changed && !says {
            return None;
        }
        let is_news = says || named && slot.announced != here;
        let mut announce = ShardSet::default();
        if is_news && let Some(card) = &slot.card {
            announce = card.shards(self.me.shards);
            announce.remove(self.me.shard);
        }
        if !paced {
            slot.told_ms = now_ms;
        }
        let withheld = self.owed.is_some();
        let away = match &mut self.owed {
            Some(owed) if is_news => {
                if !std::mem::replace(&mut slot.owed, true) {
                    owed.push(room);
                }
                None
            }
            _ => {
                slot.announced = here;
                is_news.then(|| (here, std::mem::take(&mut slot.asks)))
            }
        };
        Some(Change {
            room,
            tell: named && !paced,
            announce,
            away,
            withheld,
        })
    }

    /// Rooms that come and go by the thousands leave tables of that size: what is free is given back.
    pub(crate) fn shrink(&mut self) {
        let len = self.slots.len();
        if self.slots.free() <= 4 * len + SPARE {
            return;
        }
        self.slots.release();
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_name.shrink_to(len + SPARE, |index| {
            slots.get(*index).map_or(0, |room| {
                hasher.hash_one((room.namespace, room.kind as u8, &*room.name))
            })
        });
        self.changed.shrink_to(SPARE);
    }

    // ---- the table ----------------------------------------------------------------------------------------------------

    pub(crate) fn get(&self, index: impl Into<Option<RoomId>>) -> Option<&Room> {
        self.slots.get(index)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RoomId, &Room)> {
        self.slots.iter()
    }

    /// Whether the room is in the list of those whose count changed.
    pub(crate) fn lists_change_of(&self, room: RoomId) -> bool {
        self.changed.contains(&room) || self.round.as_slice().contains(&room)
    }

    /// Whether it waits for the history of a room.
    pub(crate) fn follows(&self, people: &People, socket: SocketId) -> bool {
        let own = people.sockets.get(socket);
        let mut rooms = own.into_iter().flat_map(|own| &own.rooms);
        rooms.any(|own| self.tickets.contains_key(&(own.room, socket)))
    }

    /// The sockets that wait for the history of a room.
    pub(crate) fn followers(&self) -> impl Iterator<Item = SocketId> {
        self.tickets.keys().map(|(_, socket)| *socket)
    }

    /// Members came over from another process: nobody is told of a change that is none. Rooms whose members are told of each other tell
    /// all they have, as to anybody new.
    pub(crate) fn forget_changes(&mut self) {
        let round = std::mem::take(&mut self.round);
        for room in round.chain(std::mem::take(&mut self.changed)) {
            if self.rolls.holds(room) {
                self.changed.push(room);
            } else if let Some(slot) = self.slots.get_mut(room) {
                slot.changed = false;
                slot.announced = slot.members.len() as u32;
            }
        }
    }

    /// Members of all rooms that wait for a history.
    pub(crate) fn following(&self) -> usize {
        self.tickets.len()
    }

    /// The slot with this number, in use or free; none behind the last one.
    pub(crate) fn nth(&self, index: u32) -> Option<RoomId> {
        self.slots.nth(index)
    }

    /// Bytes of the tables; those behind a room are its own.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes()
            + self.by_name.allocation_size()
            + (self.changed.capacity() + self.round.len()) * size_of::<RoomId>()
            + self.elsewhere.heap_bytes()
            + self.rolls.heap_bytes()
            + self.arrivals.heap_bytes()
            + self.busy.heap_bytes()
    }
}
