//! The rooms of a shard by slot and by name, each with its members here. Other shards find them by their cards.
//! A namespace's sockets are a room of its own kind, which no client can name.

use crate::clients::socket::Socket;
use crate::clients::table::Table;
pub use crate::rooms::directory::RoomKind;
use crate::rooms::directory::{Card, Directory, Expected, RoomName};
use crate::tables::id::Identity;
use crate::tables::shards::ShardSet;
use crate::tables::slab::Slab;
use crate::tables::slot::{NamespaceId, RoomId, SocketId};
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// A room of this shard. The same room on other shards is found by the card, which only a process with several shards has.
#[derive(Debug)]
pub(crate) struct Room {
    namespace: NamespaceId,
    kind: RoomKind,
    name: Arc<str>,
    /// The last of them follow: they wait for the room's history, and get no kept events until it is there.
    pub(super) members: Vec<SocketId>,
    pub(super) following: u32,
    pub(super) card: Option<Arc<Card>>,
    /// Sockets without a transport are members of it: it stays, though it may have no members here.
    pub(super) wanted: bool,
    /// It is the room of a socket that began on another shard: nobody is told how many are in it.
    pub(super) own: bool,
    pub(super) news: News,
}

/// How much of the number of a room's members was told.
#[derive(Debug)]
pub(super) struct News {
    /// It stands in the list of rooms whose count changed.
    pub(super) changed: bool,
    /// Other nodes are to be asked for their counts, too.
    pub(super) asks: bool,
    /// Members here when the other shards and nodes were told last that their number changed.
    pub(super) announced: u32,
    /// It stands in the list of rooms of which nodes were not told.
    pub(super) owed: bool,
    /// When the handler was last told the count, monotonic milliseconds.
    pub(super) told_ms: u64,
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
    pub(super) fn swap(
        &mut self,
        sockets: &mut Table<SocketId, Socket>,
        room: RoomId,
        a: usize,
        b: usize,
    ) {
        if a == b {
            return;
        }
        self.members.swap(a, b);
        // Each membership knows its place in the list, so that leaving a room needs no search through its members.
        for at in [a, b] {
            let socket = sockets.get_mut(self.members[at]);
            let mut memberships = socket.into_iter().flat_map(|socket| &mut socket.rooms);
            if let Some(own) = memberships.find(|own| own.room == room) {
                own.at = at as u32;
            }
        }
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.news.changed
    }

    /// Whether it has members, or more is to be told of it: other nodes may believe in members that they were told of.
    pub(crate) fn is_used(&self) -> bool {
        let News {
            changed,
            owed,
            announced,
            ..
        } = self.news;
        !self.members.is_empty() || self.wanted || changed || owed && announced != 0
    }

    /// The other shards that have members.
    pub(super) fn elsewhere(&self, me: Identity) -> ShardSet {
        let card = self.card.as_ref();
        card.map_or_else(ShardSet::default, |card| {
            let mut shards = card.shards(me.shards);
            shards.remove(me.shard);
            shards
        })
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

/// Rooms by slot and by name. Room names are chosen by clients, hence the keyed hash.
#[derive(Debug)]
pub(crate) struct RoomTable {
    slots: Slab<RoomId, Room, ()>,
    by_name: HashTable<RoomId>,
    hasher: RandomState,
    directory: Arc<Directory>,
    me: Identity,
}

/// Places that lists and tables keep for later.
pub(super) const SPARE: usize = 1024;

impl RoomTable {
    pub(crate) fn new(me: Identity, directory: &Arc<Directory>) -> Self {
        Self {
            slots: Slab::default(),
            by_name: HashTable::default(),
            hasher: RandomState::default(),
            directory: Arc::clone(directory),
            me,
        }
    }

    pub(super) fn me(&self) -> Identity {
        self.me
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
    pub(super) fn insert(
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
            name,
            members: Vec::new(),
            following: 0,
            card,
            wanted: false,
            own: false,
            news: News {
                changed: false,
                asks: true,
                announced: 0,
                owed: false,
                told_ms: 0,
            },
        };
        let index = self.slots.insert(room).id();
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_name.insert_unique(hash, index, |index| {
            slots.get(*index).map_or(0, |room| {
                hasher.hash_one((room.namespace, room.kind as u8, &*room.name))
            })
        });
        index
    }

    /// Forgets a room; returns it.
    pub(super) fn remove(&mut self, index: RoomId) -> Option<Room> {
        let room = self.slots.remove(index)?;
        let hash = self.hash(room.namespace, room.kind, &room.name);
        if let Ok(entry) = self.by_name.find_entry(hash, |other| *other == index) {
            entry.remove();
        }
        if let Some(card) = &room.card {
            self.directory.leave(card, self.me.shard);
        }
        Some(room)
    }

    // ---- other shards -------------------------------------------------------------------------------------------------

    /// Shards that may have members of a room.
    pub(crate) fn shards_of(&self, namespace: Option<NamespaceId>, name: RoomName<'_>) -> ShardSet {
        let shards = self.me.shards;
        let own = namespace.and_then(|namespace| self.find(namespace, name.kind, name.name));
        // A shard with the room has the card at hand; others look it up once for each broadcast (ADR 13).
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

    // ---- slots --------------------------------------------------------------------------------------------------------

    pub(crate) fn get(&self, index: impl Into<Option<RoomId>>) -> Option<&Room> {
        self.slots.get(index)
    }

    pub(super) fn get_mut(&mut self, index: RoomId) -> Option<&mut Room> {
        self.slots.get_mut(index)
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (RoomId, &Room)> {
        self.slots.iter()
    }

    /// The slot with this number, in use or free; `None` beyond the last one.
    pub(crate) fn nth(&self, index: u32) -> Option<RoomId> {
        self.slots.nth(index)
    }

    /// Rooms that come and go by the thousands leave tables of that size: what is free is given back. Whether that was much.
    pub(super) fn shrink(&mut self) -> bool {
        let len = self.slots.len();
        if self.slots.free() <= 4 * len + SPARE {
            return false;
        }
        self.slots.release();
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.by_name.shrink_to(len + SPARE, |index| {
            slots.get(*index).map_or(0, |room| {
                hasher.hash_one((room.namespace, room.kind as u8, &*room.name))
            })
        });
        true
    }

    /// Bytes of the tables; what a room owns is counted with the room.
    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes() + self.by_name.allocation_size()
    }

    /// The members, taken out while an event is delivered to them, and how many of them do not follow. `put_back` must come
    /// next: delivering touches sockets, connections and logs, and never a room.
    pub(super) fn take_members(&mut self, room: RoomId) -> (Vec<SocketId>, usize) {
        let slot = self.slots.get_mut(room);
        slot.map_or_else(Default::default, |slot| {
            let live = slot.live();
            (std::mem::take(&mut slot.members), live)
        })
    }

    pub(super) fn put_back(&mut self, room: RoomId, members: Vec<SocketId>) {
        if let Some(slot) = self.slots.get_mut(room) {
            debug_assert!(slot.members.is_empty(), "somebody joined {room} meanwhile");
            slot.members = members;
        }
    }
}
