//! The way to other nodes. What a turn has for them goes into one parcel, which leaves before the turn's flush. The control plane
//! has the connection to the engine; it routes letters by keys, which name what a letter is for and what a node has members of.

use crate::books::ledger::{Ledger, Stock};
use crate::bounds::PARKED_ACKS_BYTES_MAX;
use crate::cluster::joins::Joins;
use crate::cluster::letter::{Address, More, Response, Return, RoundId, Target};
use crate::cluster::neighbours::{Abilities, Neighbours};
use crate::cluster::saves::Saves;
use crate::cluster::wire::{self, Ask};
use crate::recovery::apart::Apart;
use crate::recovery::circle::Door;
use crate::recovery::repeated::Stood;
use crate::recovery::ways::Abroad;
use crate::tables::id::{self, Identity};
use crate::tables::interest::{Change, Interest, Naming, RoomChange, Subject, Watch, key};
use ::wire::base64url::Id20;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// What the hubs of a process share with its way to other nodes.
#[derive(Debug)]
pub struct Uplink {
    queue: Queue,
    join_wait_ms: u64,
    neighbours: Neighbours,
    abilities: Abilities,
    /// Namespaces in which somebody speaks to each node by itself.
    apart: Arc<Apart>,
    naming: Naming,
    /// Namespaces that clients may come to at any time.
    served: Vec<String>,
}

/// What waits on the way, in bytes.
#[derive(Debug)]
struct Queue {
    /// Of parcels that nobody has taken in.
    parcels: AtomicUsize,
    /// Before the engine.
    engine: AtomicUsize,
    /// Publishers are refused above it.
    bytes_max: usize,
}

impl Queue {
    fn new(bytes_max: usize) -> Self {
        Self {
            parcels: AtomicUsize::new(0),
            engine: AtomicUsize::new(0),
            bytes_max,
        }
    }

    fn add(&self, parcel: &Parcel) {
        self.parcels.fetch_add(parcel.weight(), Ordering::Relaxed);
    }

    fn take(&self, parcel: &Parcel) {
        self.parcels.fetch_sub(parcel.weight(), Ordering::Relaxed);
    }

    fn bytes(&self) -> usize {
        self.parcels.load(Ordering::Relaxed) + self.engine.load(Ordering::Relaxed)
    }

    fn is_full(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    /// What lists may take beside this parcel. Half of what may wait is for what clients publish.
    fn room_for_lists(&self, parcel: &Parcel) -> usize {
        let waiting = self.bytes() + parcel.weight();
        (self.bytes_max / 2).saturating_sub(waiting)
    }
}

impl Uplink {
    /// `bytes_max`: what may wait before publishers are refused. `join_wait`: how long answers to CONNECTs and acks of joins wait for other
    /// nodes.
    pub fn new(bytes_max: usize, join_wait: Duration) -> Self {
        Self {
            queue: Queue::new(bytes_max),
            join_wait_ms: join_wait.as_millis() as u64,
            neighbours: Neighbours::none(),
            abilities: Abilities::default(),
            apart: Arc::default(),
            naming: Naming::Nothing,
            served: Vec::new(),
        }
    }

    /// The same, and hubs tell the names of what they have members of, in [`Piece::Room`].
    pub fn naming(self, naming: Naming) -> Self {
        Self { naming, ..self }
    }

    /// The node is sent what is for all of these namespaces, also before their first clients.
    pub fn serving(self, served: Vec<String>) -> Self {
        Self { served, ..self }
    }

    pub(crate) fn apart(&self) -> &Arc<Apart> {
        &self.apart
    }

    pub(crate) fn watch(&self) -> Watch {
        Watch::Nodes(self.naming)
    }

    /// A node is there: ids may be those of its sockets, also after it went.
    pub fn meets(&self, node: u16) {
        self.neighbours.meet(node);
    }

    /// Whether requests for sessions of this node can be relayed to it from now on.
    pub fn relays_to(&self, node: u16, can: bool) {
        self.neighbours.set_relays(node, can);
    }

    /// Another node is there, or not any more.
    pub fn is_here(&self, node: u16, here: bool) {
        self.neighbours.set_here(node, here);
    }

    /// Whether all nodes that are there read events with stamps, and whether sockets go from one to another.
    pub fn recovers(&self, stamps: bool, returns: bool) {
        self.abilities.set_recovery(stamps, returns);
    }

    /// Whether all nodes that are there read events with the places where they stand on a bus.
    pub fn reads_spots(&self, all: bool) {
        self.abilities.set_spots(all);
    }

    /// What was said last of stamps and returns.
    pub fn recovery(&self) -> (bool, bool) {
        self.abilities.recovery()
    }

    /// Whether all nodes that are there are heard. If one says nothing, no socket is looked for.
    pub fn hears_all(&self, all: bool) {
        self.abilities.set_heard(all);
    }

    /// So many other nodes are there now.
    pub fn counts_nodes(&self, nodes: u64) {
        self.neighbours.count_nodes(nodes);
    }

    /// So many servers of other kinds are in a namespace now.
    pub(crate) fn counts_foreign(&self, namespace: &str, servers: u64) {
        self.neighbours.count_foreign(namespace, servers);
    }

    /// A parcel was taken in.
    pub fn took(&self, parcel: &Parcel) {
        self.queue.take(parcel);
    }

    /// So much waits for the engine.
    pub fn engine_holds(&self, bytes: usize) {
        self.queue.engine.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.queue.bytes()
    }
}

/// What a hub has for its way to other nodes, in order.
#[derive(Debug)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum Piece<'a> {
    /// There are members of a key now. The new member waits until `Letter::confirmed` brings the ticket.
    Hold { key: u64, ticket: u64 },
    /// There are none any more.
    Release { key: u64 },
    /// A hub has its first member of a room, or had its last; `None`: of the namespace.
    Room {
        came: bool,
        namespace: &'a str,
        room: Option<&'a str>,
    },
    /// A letter for the nodes that hold one of the keys, and for these nodes.
    Letter {
        keys: &'a [u64],
        nodes: &'a [u64],
        /// Nodes that do not get it.
        without: &'a [u64],
        /// Keys that its receivers may hold once they have read it.
        expected: &'a [u64],
        /// `Letter::posted` must tell this round of ours to which nodes it went.
        round: Option<u64>,
        bytes: &'a [u8],
    },
}

#[derive(Debug)]
enum Item {
    Hold(u64, u64),
    Release(u64),
    Room(RoomChange),
    Letter {
        /// Bounds in `numbers`: keys, nodes, nodes that are left out, expected.
        numbers: [usize; 5],
        round: Option<u64>,
        bytes: Range<usize>,
    },
}

/// Everything that one hub has for other nodes in a turn.
#[derive(Debug)]
pub struct Parcel {
    shard: u16,
    items: Vec<Item>,
    numbers: Vec<u64>,
    bytes: Vec<u8>,
}

impl Parcel {
    fn new(shard: u16) -> Self {
        Self {
            shard,
            items: Vec::new(),
            numbers: Vec::new(),
            bytes: Vec::new(),
        }
    }

    /// The shard that it comes from.
    pub fn shard(&self) -> u16 {
        self.shard
    }

    /// Bytes that it takes while it waits.
    fn weight(&self) -> usize {
        self.bytes.len() + self.numbers.len() * 8 + self.items.len() * size_of::<Item>()
    }

    /// What is in it, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        self.items.iter().map(|item| match item {
            Item::Hold(key, ticket) => Piece::Hold {
                key: *key,
                ticket: *ticket,
            },
            Item::Release(key) => Piece::Release { key: *key },
            Item::Room(room) => Piece::Room {
                came: room.came,
                namespace: &room.namespace,
                room: room.room.as_deref(),
            },
            Item::Letter {
                numbers: [first, nodes, without, expected, end],
                round,
                bytes,
            } => Piece::Letter {
                keys: &self.numbers[*first..*nodes],
                nodes: &self.numbers[*nodes..*without],
                without: &self.numbers[*without..*expected],
                expected: &self.numbers[*expected..*end],
                round: *round,
                bytes: &self.bytes[bytes.clone()],
            },
        })
    }

    /// Appends a letter whose addresses are the numbers within these bounds; its bytes.
    fn letter(
        &mut self,
        numbers: [usize; 5],
        round: Option<u64>,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> usize {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let bytes = start..self.bytes.len();
        let len = bytes.len();
        self.items.push(Item::Letter {
            numbers,
            round,
            bytes,
        });
        len
    }
}

/// The key that every node holds.
fn servers_key() -> u64 {
    key("", Subject::Server, "")
}

/// A hub's part of the way to other nodes.
#[derive(Debug)]
pub(crate) struct Away {
    me: Identity,
    uplink: Arc<Uplink>,
    parcel: Parcel,
    pub(crate) joins: Joins,
    /// What clients are told waits until it is stored, where all nodes read one stream.
    pub(crate) saves: Saves,
    /// The receivers of events that came from a stream again in this turn, and where these stood before.
    pub(crate) again: BTreeMap<Address, Stood>,
}

impl Away {
    pub(crate) fn new(me: Identity, uplink: &Arc<Uplink>, ledger: &Ledger) -> Self {
        let acks = ledger.open(Stock::Acks, PARKED_ACKS_BYTES_MAX);
        let mut away = Self {
            me,
            uplink: Arc::clone(uplink),
            parcel: Parcel::new(me.shard),
            joins: Joins::new(uplink.join_wait_ms, acks.another()),
            saves: Saves::new(acks),
            again: BTreeMap::new(),
        };
        // The shard that speaks for the node is told what is for servers.
        if me.shard == 0 {
            let served = uplink.served.iter();
            let served = served.map(|namespace| key(namespace, Subject::Namespace, ""));
            let keys = std::iter::once(servers_key()).chain(served);
            away.note_keys(keys.map(Change::Came));
        }
        away
    }

    /// Servers that serve a namespace, this one among them.
    pub(crate) fn servers(&self, namespace: &str) -> u64 {
        1 + self.uplink.neighbours.servers(namespace)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.uplink.queue.is_full()
    }

    pub(crate) fn has_room_for_list(&self, bytes: usize) -> bool {
        bytes <= self.room_for_lists()
    }

    pub(crate) fn room_for_lists(&self) -> usize {
        self.uplink.queue.room_for_lists(&self.parcel)
    }

    /// Whether this may be the id of a socket of another node.
    pub(crate) fn is_socket(&self, id: &Id20, wall_ms: u64) -> bool {
        let owner = id::socket_owner(id);
        self.uplink.neighbours.was_met(owner.node) && id::may_be_socket(id, wall_ms)
    }

    /// Whether requests for sessions of this node can be relayed to it.
    pub(crate) fn relays_to(&self, node: u16) -> bool {
        self.uplink.neighbours.relays_to(node)
    }

    /// What is to leave now.
    pub(crate) fn take(&mut self) -> Option<Parcel> {
        if self.parcel.items.is_empty() {
            return None;
        }
        let parcel = std::mem::replace(&mut self.parcel, Parcel::new(self.me.shard));
        self.uplink.queue.add(&parcel);
        Some(parcel)
    }

    /// Takes over the changes in what this hub has members of.
    pub(crate) fn note(&mut self, interest: &mut Interest) {
        let rooms = interest.take_rooms().into_iter();
        self.parcel.items.extend(rooms.map(Item::Room));
        self.note_keys(interest.take());
    }

    fn note_keys(&mut self, changes: impl Iterator<Item = Change>) {
        for change in changes {
            match change {
                Change::Came(key) => {
                    let ticket = self.joins.hold(key);
                    self.parcel.items.push(Item::Hold(key, ticket));
                }
                Change::Went(key) => self.parcel.items.push(Item::Release(key)),
                Change::Joined(socket, key) => self.joins.joined(socket, key),
            }
        }
    }

    /// A letter to everyone that a target means; its bytes.
    pub(crate) fn ask(&mut self, to: &Target<'_>, ask: Ask<'_>, wall_ms: u64) -> usize {
        let (here, namespace) = (self.me.node, to.namespace);
        let room = |name: &&str| key(namespace, Subject::Room, name);
        let numbers = &mut self.parcel.numbers;
        let first = numbers.len();
        // What is for servers goes by a key that every node holds from its start (ADR 19).
        if matches!(ask, Ask::Server(..)) {
            numbers.push(servers_key());
        } else if to.rooms.is_empty() && to.users.is_empty() {
            numbers.push(key(namespace, Subject::Namespace, ""));
        }
        numbers.extend(to.rooms.iter().map(room));
        let user = |name: &&str| key(namespace, Subject::User, name);
        numbers.extend(to.users.iter().map(user));
        let nodes = numbers.len();
        // A socket's id is the name of a room on its node that nobody announces.
        let ids = to.rooms.iter().filter_map(|name| {
            let id = Id20::decode(name.as_bytes())?;
            id::may_be_socket(&id, wall_ms).then(|| id::socket_owner(&id).node)
        });
        numbers.extend(ids.filter(|node| *node != here).map(u64::from));
        let without = numbers.len();
        numbers.extend(to.without.iter().copied().map(u64::from));
        let expected = numbers.len();
        let mut asker = None;
        match ask {
            Ask::Join(rooms) => numbers.extend(rooms.iter().map(room)),
            Ask::Question(_, round) | Ask::Fetch(round) => asker = Some(round.number),
            Ask::Server(_, round) => asker = round.map(|round| round.number),
            _ => {}
        }
        let numbers = [first, nodes, without, expected, numbers.len()];
        self.parcel
            .letter(numbers, asker, |out| wire::write(out, to, ask))
    }

    /// What the asker of a round on another node is told; its bytes.
    pub(crate) fn respond(&mut self, of: RoundId, response: &Response) -> usize {
        let numbers = self.only(of.asker.node);
        self.parcel.letter(numbers, None, |out| {
            wire::write_response(out, of, response);
        })
    }

    /// A question for the next page of a list of a shard of a node; its bytes.
    pub(crate) fn more(&mut self, node: u16, shard: u16, more: &More) -> usize {
        let numbers = self.only(node);
        self.parcel
            .letter(numbers, None, |out| wire::write_more(out, shard, more))
    }

    /// A letter to one node; its bytes.
    pub(crate) fn tell(&mut self, node: u16, to: &Target<'_>, ask: Ask<'_>) -> usize {
        let numbers = self.only(node);
        self.parcel
            .letter(numbers, None, |out| wire::write(out, to, ask))
    }

    /// A step by which a shard takes a socket from another; its bytes.
    pub(crate) fn step(&mut self, node: u16, door: Door, step: &Return) -> usize {
        let numbers = self.only(node);
        self.parcel
            .letter(numbers, None, |out| wire::write_return(out, door, step))
    }

    /// Whether events are published with their stamps: all nodes that are there can read them.
    pub(crate) fn stamps(&self) -> bool {
        self.uplink.abilities.recovery().0
    }

    /// Whether they can read where an event stands on a bus.
    pub(crate) fn reads_spots(&self) -> bool {
        self.uplink.abilities.read_spots()
    }

    /// Something is published that other nodes are told as well, by their own ways.
    pub(crate) fn speaks_apart(&self, namespace: &str, now_ms: u64) {
        self.uplink.apart.note(namespace, now_ms);
    }

    /// What waits here; its acks are in the books.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.parcel.weight() + self.joins.heap_bytes() + self.saves.heap_bytes()
    }

    /// The last ticket that was given to a key.
    pub(crate) fn last_ticket(&self) -> u64 {
        self.joins.given()
    }

    /// The nodes that a socket may be on.
    pub(crate) fn abroad(&self) -> Abroad {
        let uplink = &self.uplink;
        uplink.neighbours.abroad(self.me.node, &uplink.abilities)
    }

    /// The addresses of a letter for one node.
    fn only(&mut self, node: u16) -> [usize; 5] {
        let numbers = &mut self.parcel.numbers;
        let first = numbers.len();
        numbers.push(u64::from(node));
        let end = first + 1;
        [first, first, end, end, end]
    }
}
