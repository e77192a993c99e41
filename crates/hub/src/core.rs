//! The tables of a hub and the small operations on them that everything else is made of. Nothing here calls a handler.

use crate::ack::Acks;
use crate::addresses::Addresses;
use crate::admission::Admission;
use crate::ask;
use crate::close::{CloseReason, Departure, DisconnectReason};
use crate::compression::Codecs;
use crate::config::{Config, SlowConsumer};
use crate::conn::{Conn, NONE, State};
use crate::effect::{Effect, Notice};
use crate::expiry::Expiries;
use crate::history::History;
use crate::id::{Identity, Snowflake};
use crate::metrics::{Counts, Limit};
use crate::outbox::{Bound, Range, TurnLog};
use crate::process::Process;
use crate::rate::Meters;
use crate::room::{RoomKind, Rooms};
use crate::session::Session;
use crate::slab::{Key, Slab};
use crate::socket::{Socket, SocketKey, Variant};
use crate::timer::{Kind, Timers};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::base64url::Id20;

/// The time of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// Monotonic, milliseconds since any fixed point.
    pub mono_ms: u64,
    /// Unix time, milliseconds.
    pub wall_ms: u64,
}

impl Now {
    /// The wall clock gained more than a second since: it was set, or the machine slept.
    pub(crate) fn leaps_from(self, before: Self) -> bool {
        self.wall_ms.saturating_sub(before.wall_ms)
            > self.mono_ms.saturating_sub(before.mono_ms) + 1_000
    }
}

/// Source of unguessable bytes.
pub type Entropy = Box<dyn FnMut(&mut [u8]) + Send>;

/// What a handler must be told once it is not running.
#[derive(Debug)]
pub(crate) enum Told {
    Disconnected {
        socket: SocketKey,
        reason: DisconnectReason,
    },
    AckTimedOut {
        socket: SocketKey,
        token: u64,
    },
    Collected {
        token: u64,
        collected: crate::ack::Collected,
    },
    Fetched {
        token: u64,
        sockets: Vec<crate::relay::Fetched>,
    },
}

#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: Arc<str>,
    /// Rooms (of all kinds) that exist in it.
    pub(crate) rooms: u32,
}

pub(crate) struct Core {
    pub(crate) now: Now,
    pub(crate) config: Arc<Config>,
    pub(crate) me: Identity,
    pub(crate) entropy: Entropy,
    pub(crate) snowflake: Snowflake,
    pub(crate) conns: Slab<Conn>,
    pub(crate) sessions: Slab<Session>,
    pub(crate) sockets: Slab<Socket>,
    pub(crate) sids: HashTable<u32>,
    pub(crate) socket_ids: HashTable<u32>,
    pub(crate) namespaces: Slab<Namespace>,
    pub(crate) namespace_names: HashMap<Arc<str>, u32>,
    pub(crate) rooms: Rooms,
    /// Rooms whose count changed since the last announcement.
    pub(crate) changed_rooms: Vec<u32>,
    pub(crate) log: TurnLog,
    pub(crate) codecs: Codecs,
    pub(crate) timers: Timers,
    pub(crate) acks: Acks,
    pub(crate) asks: Slab<ask::Pending>,
    pub(crate) users: crate::users::Users,
    pub(crate) expiries: Expiries,
    pub(crate) admission: Admission,
    pub(crate) addresses: Arc<Addresses>,
    pub(crate) meters: Meters,
    pub(crate) history: History,
    pub(crate) effects: Vec<Effect>,
    pub(crate) told: VecDeque<Told>,
    /// Sessions whose packets went into the answer to a poll, by its connection, and when, until its client shows that it has them.
    pub(crate) answering: HashMap<u32, (Key, u64)>,
    /// Proxies behind the connections whose peer is a client of theirs, while more requests may come on them.
    pub(crate) via: HashMap<u32, IpAddr>,
    /// Polling sessions with something for their waiting GET.
    pub(crate) poll_ready: Vec<u32>,
    /// Polling sessions whose queue passed its bound under the `disconnect` policy.
    pub(crate) overflowed: Vec<u32>,
    /// Connections that stopped in the middle of their input.
    pub(crate) stalled: Vec<u32>,
    pub(crate) counts: Counts,
    /// Messages rejected of the connection whose input is being worked on.
    pub(crate) rejected: u32,
    /// The message being worked on made up for a rejected one.
    pub(crate) forgiven: bool,
    /// Messages rejected in this turn.
    pub(crate) turn_rejected: u32,
    /// Deliveries of this turn.
    pub(crate) deliveries: usize,
    /// Broadcasts counted before this turn.
    pub(crate) broadcasts_before: u64,
    /// Input of some connections is still unread: nobody may be blamed for silence.
    pub(crate) behind: bool,
    /// Fan-out number, for `Socket::mark`.
    pub(crate) mark: u32,
    pub(crate) draining: bool,
    /// Reused while encoding.
    pub(crate) scratch: Vec<u8>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core")
            .field("me", &self.me)
            .field("conns", &self.conns.len())
            .field("sessions", &self.sessions.len())
            .field("sockets", &self.sockets.len())
            .field("rooms", &self.rooms.len())
            .finish_non_exhaustive()
    }
}

/// Ids are random and ours: a fast hash without a secret is enough.
fn id_hash(id: &Id20) -> u64 {
    FixedState::with_seed(0).hash_one(id)
}

impl Core {
    pub(crate) fn new(
        config: Arc<Config>,
        me: Identity,
        entropy: Entropy,
        process: &Process,
    ) -> Self {
        Self {
            now: Now::default(),
            me,
            entropy,
            snowflake: Snowflake::new(me),
            conns: Slab::default(),
            sessions: Slab::default(),
            sockets: Slab::default(),
            sids: HashTable::new(),
            socket_ids: HashTable::new(),
            namespaces: Slab::default(),
            namespace_names: HashMap::new(),
            rooms: Rooms::default(),
            changed_rooms: Vec::new(),
            log: TurnLog::default(),
            codecs: Codecs::default(),
            timers: Timers::default(),
            acks: Acks::default(),
            asks: Slab::default(),
            users: Default::default(),
            expiries: Expiries::default(),
            admission: Admission::new(Arc::clone(&process.pressure)),
            meters: Meters::new(&config.rates, Arc::clone(&process.meters)),
            addresses: Arc::clone(&process.addresses),
            history: History::default(),
            effects: Vec::new(),
            told: VecDeque::new(),
            answering: HashMap::new(),
            via: HashMap::new(),
            poll_ready: Vec::new(),
            overflowed: Vec::new(),
            stalled: Vec::new(),
            counts: Counts::default(),
            rejected: 0,
            forgiven: false,
            turn_rejected: 0,
            deliveries: 0,
            broadcasts_before: 0,
            behind: false,
            mark: 0,
            draining: false,
            scratch: Vec::new(),
            config,
        }
    }

    /// Bound of a polling queue: an outbox's, and what base64 adds to binary.
    pub(crate) fn queue_bytes_max(&self) -> usize {
        let bytes_max = self.config.limits.outbox_bytes_max;
        bytes_max + bytes_max / 2
    }

    /// Whether more packets wait for this session's polls than may.
    pub(crate) fn queue_overflows(&self, session: u32) -> bool {
        let slot = self.sessions.get(session);
        let polling = slot.and_then(|slot| slot.polling.as_ref());
        polling.is_some_and(|polling| polling.queue.cost() > self.queue_bytes_max())
    }

    pub(crate) fn bound(&self) -> Bound {
        Bound {
            bytes_max: self.config.limits.outbox_bytes_max,
            policy: self.config.slow_consumer,
        }
    }

    /// The turn has done its share: flush before going on. A flush costs a call per receiver, however much it brings: for rooms
    /// so large that a few events are a turn's share, some more events make each call worth while.
    pub(crate) fn turn_is_full(&self) -> bool {
        const LOG_BYTES: usize = 2 * 1024 * 1024;
        const BROADCASTS_MIN: u64 = 32;
        let shared_out = self.deliveries >= self.config.limits.deliveries_per_turn
            && self.counts.broadcasts - self.broadcasts_before >= BROADCASTS_MIN;
        shared_out || self.log.len() >= LOG_BYTES
    }

    /// However many flood, the others wait for the share of a few.
    pub(crate) fn turn_is_flooded(&self) -> bool {
        const FLOODS_PER_TURN: u32 = 4;
        self.turn_rejected / FLOODS_PER_TURN >= self.config.limits.rejections_per_turn
    }

    /// A session of this connection had messages rejected of late.
    pub(crate) fn floods(&self, conn: u32) -> bool {
        let slot = self.conns.get(conn);
        let session = slot.and_then(|slot| self.sessions.get(slot.session));
        session.is_some_and(|slot| slot.rejections > 0)
    }

    /// What makes the connection being worked on wait for the next turn: who floods must not make others wait.
    pub(crate) fn why_yield(&self, inflated: usize) -> Option<Limit> {
        let limits = &self.config.limits;
        let flooded = self.rejected > 0 && self.turn_is_flooded();
        if flooded || self.rejected >= limits.rejections_per_turn {
            return Some(Limit::RejectionsPerTurn);
        }
        let full = self.turn_is_full() || inflated > limits.read_bytes_per_turn;
        full.then_some(Limit::DeliveriesPerTurn)
    }

    pub(crate) fn after(&self, delay: Duration) -> u64 {
        self.now.mono_ms + delay.as_millis() as u64
    }

    pub(crate) fn arm_session(&mut self, kind: Kind, delay: Duration, session: u32) {
        let (due, key) = (self.after(delay), self.sessions.key(session));
        let flags = |key| self.sessions.live(key).map(|slot| slot.flags);
        match kind {
            Kind::Connect => self
                .timers
                .forget(kind, |key| flags(key).is_none_or(|flags| flags.joined)),
            Kind::Pong => self.timers.forget(kind, |key| {
                flags(key).is_none_or(|flags| !flags.awaiting_pong)
            }),
            _ => {}
        }
        self.timers.arm(kind, due, key);
    }

    pub(crate) fn arm_conn(&mut self, kind: Kind, delay: Duration, conn: u32) {
        let (due, key) = (self.after(delay), self.conns.key(conn));
        if kind == Kind::Handshake {
            let settled = |key| self.conns.live(key).is_none_or(|slot| slot.flags.served);
            self.timers.forget(kind, settled);
        }
        self.timers.arm(kind, due, key);
    }

    // ---- output -------------------------------------------------------------------------------------------------------

    /// Queues a range of a turn log on a connection. HOT PATH.
    #[inline]
    pub(crate) fn push(&mut self, conn: u32, range: Range) {
        let Some(slot) = self.conns.get_mut(conn) else {
            return;
        };
        if slot.outbox.push(&mut self.log, range) && !slot.flags.dirty {
            slot.flags.dirty = true;
            self.log.dirty.push(conn);
        }
    }

    /// Lets `write` append to the private log and queues the result on a connection.
    pub(crate) fn reply(&mut self, conn: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.log.private.len();
        write(&mut self.log.private);
        if self.log.private.len() > start {
            let range = self.log.private_range(start);
            self.push(conn, range);
        }
    }

    pub(crate) fn mark_dirty(&mut self, conn: u32) {
        if let Some(slot) = self.conns.get_mut(conn)
            && !slot.flags.dirty
        {
            slot.flags.dirty = true;
            self.log.dirty.push(conn);
        }
    }

    // ---- connections --------------------------------------------------------------------------------------------------

    /// Ends a connection once everything queued on it is written.
    pub(crate) fn finish_conn(&mut self, conn: u32) {
        if let Some(slot) = self.conns.get_mut(conn)
            && !matches!(slot.state, State::Finishing | State::Linger)
        {
            slot.state = State::Finishing;
            slot.session = NONE;
            slot.input = None;
            self.arm_conn(Kind::Linger, self.config.limits.close_timeout, conn);
            self.mark_dirty(conn);
        }
    }

    /// The answer to a poll arrived, or nobody will ever know.
    pub(crate) fn forget_answer(&mut self, conn: u32) {
        if let Some(slot) = self.conns.get_mut(conn)
            && std::mem::take(&mut slot.flags.answering)
        {
            self.answering.remove(&conn);
        }
    }

    /// The client goes on as one that has the packets which were written there: how that connection ends is no matter any more.
    pub(crate) fn answer_arrived(&mut self, session: u32, conn: u32) {
        // The connection may be another's by now, and answer another session.
        let key = self.sessions.key(session);
        let same = self.answering.get(&conn).is_some_and(|(of, _)| *of == key);
        let written = self
            .conns
            .get(conn)
            .is_some_and(|slot| slot.outbox.is_empty());
        if same && written {
            self.forget_answer(conn);
        }
    }

    /// Drops a connection now.
    pub(crate) fn drop_conn(&mut self, conn: u32) {
        self.forget_answer(conn);
        if let Some(slot) = self.conns.remove(conn) {
            if slot.flags.counted {
                self.addresses.leave(slot.peer);
            }
            self.forget_proxy(conn);
            self.counts.websockets -= u64::from(slot.flags.websocket);
            if slot.flags.inflates {
                self.forget_deflate(conn);
            }
            self.effects.push(Effect::Close { conn });
        }
    }

    /// Takes a connection out of the hub without closing it (it goes elsewhere with its socket).
    pub(crate) fn release_conn(&mut self, conn: u32) {
        self.forget_answer(conn);
        self.forget_proxy(conn);
        if let Some(slot) = self.conns.remove(conn)
            && slot.flags.counted
        {
            self.addresses.leave(slot.peer);
        }
    }

    /// No further request will come on a connection. Returns who made it, if that is not its peer.
    pub(crate) fn forget_proxy(&mut self, conn: u32) -> Option<IpAddr> {
        if self.via.is_empty() {
            return None;
        }
        self.via.remove(&conn)
    }

    // ---- sessions -----------------------------------------------------------------------------------------------------

    pub(crate) fn random<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.entropy)(&mut bytes);
        bytes
    }

    pub(crate) fn insert_session(&mut self, session: Session) -> u32 {
        let (sid, engineio) = (session.sid, session.protocol.is_engineio());
        let index = self.sessions.insert(session).index;
        if engineio {
            let sessions = &self.sessions;
            self.sids.insert_unique(id_hash(&sid), index, |index| {
                sessions
                    .get(*index)
                    .map_or(0, |session| id_hash(&session.sid))
            });
        }
        self.counts.sessions += 1;
        index
    }

    pub(crate) fn find_session(&self, sid: &Id20) -> Option<u32> {
        self.sids
            .find(id_hash(sid), |index| {
                self.sessions
                    .get(*index)
                    .is_some_and(|session| session.sid == *sid)
            })
            .copied()
    }

    /// Whether the session is there and was not ended.
    pub(crate) fn is_open(&self, session: u32) -> bool {
        let slot = self.sessions.get(session);
        slot.is_some_and(|slot| !slot.flags.closing)
    }

    pub(crate) fn remove_session(&mut self, index: u32) -> Option<Session> {
        self.book_rest(index, None);
        let (sid, probe) = self
            .sessions
            .get(index)
            .map(|slot| (slot.sid, slot.probe))?;
        // What is still in flight for it must not reach whoever gets the slot next.
        self.release_polling(index);
        if probe != NONE {
            self.abort_upgrade(index, probe);
        }
        if let Ok(entry) = self.sids.find_entry(id_hash(&sid), |other| *other == index) {
            entry.remove();
        }
        self.counts.sessions -= 1;
        self.sessions.remove(index)
    }

    // ---- sockets ------------------------------------------------------------------------------------------------------

    pub(crate) fn insert_socket(&mut self, socket: Socket) -> SocketKey {
        let (id, session) = (socket.id, socket.session);
        let key = self.sockets.insert(socket);
        let sockets = &self.sockets;
        self.socket_ids
            .insert_unique(id_hash(&id), key.index, |index| {
                sockets.get(*index).map_or(0, |socket| id_hash(&socket.id))
            });
        if let Some(session) = self.sessions.get_mut(session) {
            session.sockets.push(key.index);
        }
        self.counts.sockets += 1;
        SocketKey(key)
    }

    pub(crate) fn find_socket(&self, id: &Id20) -> Option<u32> {
        self.socket_ids
            .find(id_hash(id), |index| {
                self.sockets
                    .get(*index)
                    .is_some_and(|socket| socket.id == *id && !socket.gone)
            })
            .copied()
    }

    /// The live socket behind a key.
    pub(crate) fn socket(&self, key: SocketKey) -> Option<&Socket> {
        self.sockets.live(key.0).filter(|socket| !socket.gone)
    }

    pub(crate) fn socket_key(&self, index: u32) -> SocketKey {
        SocketKey(self.sockets.key(index))
    }

    /// The session's socket in a namespace.
    pub(crate) fn socket_in(&self, session: u32, namespace: &str) -> Option<u32> {
        let session = self.sessions.get(session)?;
        session.sockets.iter().copied().find(|index| {
            self.sockets
                .get(*index)
                .and_then(|socket| self.namespaces.get(socket.namespace))
                .is_some_and(|found| *found.name == *namespace)
        })
    }

    /// Takes a socket out of its rooms and session and leaves word for its handler; the slot is freed when that was delivered.
    pub(crate) fn retire_socket(&mut self, index: u32, how: Departure) {
        let Some(socket) = self.sockets.get_mut(index) else {
            return;
        };
        if std::mem::replace(&mut socket.gone, true) {
            return;
        }
        let (id, session) = (socket.id, socket.session);
        self.book_rest(session, Some(index));
        self.leave_all_rooms(index);
        self.leave_user(index);
        self.forget_expiry(index);
        if let Ok(entry) = self
            .socket_ids
            .find_entry(id_hash(&id), |other| *other == index)
        {
            entry.remove();
        }
        let mut peer = std::net::IpAddr::from([0, 0, 0, 0]);
        if let Some(session) = self.sessions.get_mut(session) {
            session.sockets.retain(|other| *other != index);
            peer = session.peer;
        }
        self.counts.sockets -= 1;
        self.counts.disconnects += 1;
        self.effects.push(Effect::Log(Notice::Disconnected {
            socket: id,
            peer,
            how,
        }));
        let (socket, reason) = (self.socket_key(index), how.disconnect_reason());
        self.told.push_back(Told::Disconnected { socket, reason });
    }

    // ---- namespaces and rooms -----------------------------------------------------------------------------------------

    pub(crate) fn find_namespace(&self, name: &str) -> Option<u32> {
        self.namespace_names.get(name).copied()
    }

    fn namespace(&mut self, name: &str) -> u32 {
        if let Some(index) = self.find_namespace(name) {
            return index;
        }
        let name: Arc<str> = name.into();
        let index = self
            .namespaces
            .insert(Namespace {
                name: Arc::clone(&name),
                rooms: 0,
            })
            .index;
        self.namespace_names.insert(name, index);
        index
    }

    /// The room of that name, made if need be.
    pub(crate) fn room(&mut self, namespace: &str, kind: RoomKind, name: &str) -> u32 {
        let namespace = self.namespace(namespace);
        let before = self.rooms.len();
        let room = self.rooms.find_or_insert(namespace, kind, name);
        if self.rooms.len() > before
            && let Some(namespace) = self.namespaces.get_mut(namespace)
        {
            namespace.rooms += 1;
        }
        room
    }

    /// Forgets a room that is empty everywhere, and its namespace with the last room.
    pub(crate) fn tidy_room(&mut self, room: u32) {
        let Some(room) = self.rooms.remove_if_empty(room) else {
            return;
        };
        if let Some(namespace) = self.namespaces.get_mut(room.namespace) {
            namespace.rooms -= 1;
            if namespace.rooms == 0
                && let Some(namespace) = self.namespaces.remove(room.namespace)
            {
                self.namespace_names.remove(&namespace.name);
            }
        }
    }

    pub(crate) fn slow_consumer_drops(&self) -> bool {
        self.config.slow_consumer == SlowConsumer::DropOldest
    }

    /// Adjusts what fan-out needs to know when a session's transport changes.
    pub(crate) fn route_sockets(&mut self, session: u32, conn: u32, variant: Variant) {
        let deflate = self.deflate_of(conn);
        let Some(session) = self.sessions.get(session) else {
            return;
        };
        for index in session.sockets.clone() {
            if let Some(socket) = self.sockets.get_mut(index) {
                socket.conn = conn;
                socket.variant = variant;
                socket.deflate = deflate;
            }
        }
    }

    pub(crate) fn count_close(&mut self, reason: CloseReason) {
        self.counts.closes[reason as usize] += 1;
    }
}
