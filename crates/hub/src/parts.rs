//! The parts of a hub, side by side. Nothing here calls a handler.

use crate::access::Access;
use crate::books::Books;
use crate::books::close::{CloseReason, Departure};
use crate::books::config::Config;
use crate::books::metrics::{Counts, Limit};
use crate::cluster::rounds::Rounds;
use crate::cluster::shared::Process;
use crate::dialect::speech::Variant;
use crate::output::backlog::{Fate, Losses};
use crate::output::line::Line;
use crate::output::log::Range;
use crate::output::piece::Pool;
use crate::rooms::room::{RoomKind, Rooms};
use crate::seam::effect::{Effect, Notice, Outbound, Told};
use crate::seam::question::Questions;
use crate::tables::clock::Clock;
use crate::tables::conn::{Conn, State};
use crate::tables::id::{Entropy, Identity, Ids};
use crate::tables::people::{Namespace, People};
use crate::tables::session::Session;
use crate::tables::slot::{ConnId, NamespaceId, RoomId, SessionId, SocketId, SocketKey};
use crate::tables::socket::Socket;
use crate::tables::timer::{ConnTimer, SessionTimer};
use crate::transport::{Intake, Polls};
use foldhash::fast::FixedState;
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use wire::base64url::Id20;

/// Bound of an outbox while too much waits in the whole process.
const SQUEEZED_BYTES_MAX: usize = 16 * 1024;

pub(crate) struct Parts {
    pub(crate) books: Books,
    pub(crate) ids: Ids,
    pub(crate) clock: Clock,
    pub(crate) people: People,
    pub(crate) rooms: Rooms,
    pub(crate) line: Line,
    pub(crate) polls: Polls,
    pub(crate) intake: Intake,
    pub(crate) rounds: Rounds,
    pub(crate) asks: Questions,
    pub(crate) access: Access,
    pub(crate) outbound: Outbound,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts")
            .field("me", &self.ids.me)
            .field("conns", &self.line.conns.len())
            .field("sessions", &self.people.sessions.len())
            .field("sockets", &self.people.sockets.len())
            .field("rooms", &self.rooms.len())
            .finish_non_exhaustive()
    }
}

/// Ids are random and ours: a fast hash without a secret is enough.
fn id_hash(id: &Id20) -> u64 {
    FixedState::with_seed(0).hash_one(id)
}

impl Parts {
    pub(crate) fn new(
        config: Arc<Config>,
        me: Identity,
        entropy: Entropy,
        process: &Process,
    ) -> Self {
        Self {
            ids: Ids::new(me, entropy),
            clock: Clock::default(),
            people: People::default(),
            rooms: Rooms::new(me, &process.directory),
            line: Line::new(Pool::new(Arc::clone(&process.waiting))),
            polls: Polls::default(),
            intake: Intake::new(&process.loads),
            rounds: Rounds::new(me),
            asks: Questions::default(),
            access: Access::new(&config, process),
            outbound: Outbound::default(),
            books: Books {
                config,
                counts: Counts::default(),
            },
        }
    }

    /// Whether more packets wait for this session's polls than may.
    pub(crate) fn queue_overflows(&self, session: SessionId) -> bool {
        let slot = self.people.sessions.get(session);
        let polling = slot.and_then(|slot| slot.polling.as_ref());
        polling.is_some_and(|polling| polling.overflowed)
    }

    /// What may wait for one connection now, and whether that is less than usual because too much waits in the whole process.
    pub(crate) fn outbox_bytes_max(&self) -> (usize, bool) {
        let limits = &self.books.config.limits;
        let squeezed = limits.waiting_bytes_max > 0
            && self.line.pool.process_bytes() > limits.waiting_bytes_max as u64;
        match squeezed {
            true => (limits.outbox_bytes_max.min(SQUEEZED_BYTES_MAX), true),
            false => (limits.outbox_bytes_max, false),
        }
    }

    pub(crate) fn count_losses(&mut self, dropped: &Losses) {
        for (sum, count) in self.books.counts.dropped_slow.iter_mut().zip(dropped) {
            *sum += count;
        }
    }

    /// The turn has done its share: flush before going on.
    pub(crate) fn turn_is_full(&self) -> bool {
        let log_bytes = self.line.log.len();
        self.line
            .budget
            .is_spent(&self.books.config.limits, log_bytes)
    }

    /// Another connection's input is worked on from here.
    pub(crate) fn begin_input(&mut self) {
        self.line.budget.begin_conn();
        self.intake.begin();
    }

    /// Mailboxes that are short again free the connections that waited for them.
    pub(crate) fn release_held(&mut self) {
        self.intake.release(&self.books.config.limits);
    }

    /// A session of this connection had messages rejected of late.
    pub(crate) fn floods(&self, conn: ConnId) -> bool {
        let slot = self.line.conns.get(conn);
        let session = slot.and_then(|slot| self.people.sessions.get(slot.session));
        session.is_some_and(|slot| slot.rejections > 0)
    }

    /// What makes the connection being worked on wait for the next turn.
    pub(crate) fn why_yield(&self, inflated: usize) -> Option<Limit> {
        let limits = &self.books.config.limits;
        if self.line.budget.conn_floods(limits) {
            return Some(Limit::RejectionsPerTurn);
        }
        if self.intake.waits_for_mailbox() {
            return Some(Limit::Mailbox);
        }
        let full = self.turn_is_full() || inflated > limits.read_bytes_per_turn;
        full.then_some(Limit::DeliveriesPerTurn)
    }

    pub(crate) fn after(&self, delay: Duration) -> u64 {
        let delay_ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.clock.now.mono_ms.saturating_add(delay_ms)
    }

    pub(crate) fn arm_session(&mut self, kind: SessionTimer, delay: Duration, session: SessionId) {
        let (due, key) = (self.after(delay), self.people.sessions.key(session));
        let flags = |key| self.people.sessions.live(key).map(|slot| slot.flags);
        let timers = &mut self.clock.timers.sessions;
        match kind {
            SessionTimer::Connect => {
                timers.forget(kind, |key| flags(key).is_none_or(|flags| flags.joined));
            }
            SessionTimer::Pong => {
                timers.forget(kind, |key| {
                    flags(key).is_none_or(|flags| !flags.awaiting_pong)
                });
            }
            _ => {}
        }
        timers.arm(kind, due, key);
    }

    pub(crate) fn arm_conn(&mut self, kind: ConnTimer, delay: Duration, conn: ConnId) {
        let (due, key) = (self.after(delay), self.line.conns.key(conn));
        let conns = &self.line.conns;
        let timers = &mut self.clock.timers.conns;
        if kind == ConnTimer::Handshake {
            timers.forget(kind, |key| {
                conns.live(key).is_none_or(|slot| slot.flags.served)
            });
        }
        timers.arm(kind, due, key);
    }

    // ---- output -------------------------------------------------------------------------------------------------------

    /// Queues a range of a turn log on a connection. HOT PATH.
    #[inline]
    pub(crate) fn push(&mut self, conn: impl Into<Option<ConnId>>, range: Range) {
        let Some(conn) = conn.into() else {
            return;
        };
        let Some(slot) = self.line.conns.get_mut(conn) else {
            return;
        };
        if slot.outbox.push(&mut self.line.log, range) && !slot.flags.dirty {
            slot.flags.dirty = true;
            self.line.log.dirty.push(conn);
        }
    }

    /// Lets `write` append to the private log and queues the result on a connection.
    pub(crate) fn reply(
        &mut self,
        conn: impl Into<Option<ConnId>>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let log = self.line.log.bytes_mut(false);
        let start = log.len();
        write(log);
        if log.len() > start {
            let range = self.line.log.close(false, start, Fate::Fixed);
            self.push(conn, range);
        }
    }

    pub(crate) fn mark_dirty(&mut self, conn: ConnId) {
        if let Some(slot) = self.line.conns.get_mut(conn)
            && !slot.flags.dirty
        {
            slot.flags.dirty = true;
            self.line.log.dirty.push(conn);
        }
    }

    // ---- connections --------------------------------------------------------------------------------------------------

    /// Ends a connection once everything queued on it is written.
    pub(crate) fn finish_conn(&mut self, conn: ConnId) {
        if let Some(slot) = self.line.conns.get_mut(conn)
            && !matches!(slot.state, State::Finishing | State::Linger)
        {
            slot.state = State::Finishing;
            slot.session = None;
            slot.input = None;
            self.arm_conn(
                ConnTimer::Linger,
                self.books.config.limits.close_timeout,
                conn,
            );
            self.mark_dirty(conn);
        }
    }

    /// The answer to a poll arrived, or nobody will ever know.
    pub(crate) fn forget_answer(&mut self, conn: ConnId) {
        if let Some(slot) = self.line.conns.get_mut(conn)
            && std::mem::take(&mut slot.flags.answering)
        {
            self.polls.confirm(conn);
        }
    }

    /// The client goes on as one that has the packets which were written there: how that connection ends is no matter any more.
    pub(crate) fn answer_arrived(&mut self, session: SessionId, conn: ConnId) {
        // The connection may be another's by now, and answer another session.
        let key = self.people.sessions.key(session);
        let same = self.polls.sent_on(conn).map(|sent| sent.session) == Some(key);
        let written = self
            .line
            .conns
            .get(conn)
            .is_some_and(|slot| slot.outbox.is_empty());
        if same && written {
            self.forget_answer(conn);
        }
    }

    /// Drops a connection now.
    pub(crate) fn drop_conn(&mut self, conn: ConnId) {
        self.forget_answer(conn);
        self.access.held.forget(conn);
        if let Some(slot) = self.remove_conn(conn) {
            if slot.flags.counted {
                self.access.addresses.leave(slot.peer);
            }
            self.forget_proxy(conn);
            self.books.counts.websockets -= u64::from(slot.flags.websocket);
            if slot.flags.inflates {
                self.forget_deflate(conn);
            }
            self.outbound.effects.push(Effect::Close { conn });
        }
    }

    /// Takes a connection out of the hub without closing it (it goes elsewhere with its socket).
    pub(crate) fn release_conn(&mut self, conn: ConnId) {
        self.forget_answer(conn);
        self.forget_proxy(conn);
        if let Some(slot) = self.remove_conn(conn)
            && slot.flags.counted
        {
            self.access.addresses.leave(slot.peer);
        }
    }

    fn remove_conn(&mut self, conn: ConnId) -> Option<Conn> {
        let slot = self.line.conns.remove(conn)?;
        let (conns, timers) = (&self.line.conns, &mut self.clock.timers.conns);
        timers.owner_ended(conns.len(), |key| conns.live(key).is_none());
        Some(slot)
    }

    /// No further request will come on a connection. Returns who made it, if that is not its peer.
    pub(crate) fn forget_proxy(&mut self, conn: ConnId) -> Option<IpAddr> {
        if self.access.via.is_empty() {
            return None;
        }
        self.access.via.remove(&conn)
    }

    // ---- sessions -----------------------------------------------------------------------------------------------------

    pub(crate) fn random<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        (self.ids.entropy)(&mut bytes);
        bytes
    }

    pub(crate) fn insert_session(&mut self, session: Session) -> SessionId {
        let (sid, engineio) = (session.sid, session.protocol.is_engineio());
        let index = self.people.sessions.insert(session).id();
        if engineio {
            let sessions = &self.people.sessions;
            self.people
                .sids
                .insert_unique(id_hash(&sid), index, |index| {
                    sessions
                        .get(*index)
                        .map_or(0, |session| id_hash(&session.sid))
                });
        }
        self.books.counts.sessions += 1;
        self.access.admission.session_came();
        index
    }

    pub(crate) fn find_session(&self, sid: &Id20) -> Option<SessionId> {
        self.people
            .sids
            .find(id_hash(sid), |index| {
                self.people
                    .sessions
                    .get(*index)
                    .is_some_and(|session| session.sid == *sid)
            })
            .copied()
    }

    /// Whether the session is there and was not ended.
    pub(crate) fn is_open(&self, session: SessionId) -> bool {
        let slot = self.people.sessions.get(session);
        slot.is_some_and(|slot| !slot.flags.closing)
    }

    pub(crate) fn remove_session(&mut self, index: SessionId) -> Option<Session> {
        self.book_rest(index, None);
        let (sid, probe) = self
            .people
            .sessions
            .get(index)
            .map(|slot| (slot.sid, slot.probe))?;
        self.forget_questions(index);
        // What is still in flight for it must not reach whoever gets the slot next.
        self.release_polling(index);
        if let Some(probe) = probe {
            self.abort_upgrade(index, probe);
        }
        if let Ok(entry) = self
            .people
            .sids
            .find_entry(id_hash(&sid), |other| *other == index)
        {
            entry.remove();
        }
        self.books.counts.sessions -= 1;
        self.access.admission.session_left();
        let session = self.people.sessions.remove(index)?;
        let (sessions, timers) = (&self.people.sessions, &mut self.clock.timers.sessions);
        timers.owner_ended(sessions.len(), |key| sessions.live(key).is_none());
        Some(session)
    }

    // ---- sockets ------------------------------------------------------------------------------------------------------

    pub(crate) fn insert_socket(&mut self, socket: Socket) -> SocketKey {
        let (id, session) = (socket.id, socket.session);
        let key = self.people.sockets.insert(socket);
        let sockets = &self.people.sockets;
        self.people
            .socket_ids
            .insert_unique(id_hash(&id), key.id(), |index| {
                sockets.get(*index).map_or(0, |socket| id_hash(&socket.id))
            });
        if let Some(session) = self.people.sessions.get_mut(session) {
            session.sockets.push(key.id());
        }
        self.books.counts.sockets += 1;
        key
    }

    pub(crate) fn find_socket(&self, id: &Id20) -> Option<SocketId> {
        self.people
            .socket_ids
            .find(id_hash(id), |index| {
                self.people
                    .sockets
                    .get(*index)
                    .is_some_and(|socket| socket.id == *id && !socket.gone)
            })
            .copied()
    }

    /// The live socket behind a key.
    pub(crate) fn socket(&self, key: SocketKey) -> Option<&Socket> {
        self.people.sockets.live(key).filter(|socket| !socket.gone)
    }

    pub(crate) fn socket_key(&self, index: SocketId) -> SocketKey {
        self.people.sockets.key(index)
    }

    /// The session's socket in a namespace.
    pub(crate) fn socket_in(&self, session: SessionId, namespace: &str) -> Option<SocketId> {
        let session = self.people.sessions.get(session)?;
        session.sockets.iter().copied().find(|index| {
            self.people
                .sockets
                .get(*index)
                .and_then(|socket| self.people.namespaces.get(socket.namespace))
                .is_some_and(|found| *found.name == *namespace)
        })
    }

    /// Takes a socket out of its session and leaves word for its handler. It gets nothing any more; its rooms are left, and the
    /// slot is freed, when the handler has been told.
    pub(crate) fn retire_socket(&mut self, index: SocketId, how: Departure) {
        let Some(socket) = self.people.sockets.get_mut(index) else {
            return;
        };
        if std::mem::replace(&mut socket.gone, true) {
            return;
        }
        let (id, session, namespace) = (socket.id, socket.session, socket.namespace);
        if !matches!(how, Departure::Session(_))
            && let Some(slot) = self.people.sessions.get_mut(session)
            && let Some(namespace) = self.people.namespaces.get(namespace)
        {
            slot.rare.get_or_insert_default().part(&namespace.name);
        }
        self.book_rest(session, Some(index));
        self.forget_expiry(index);
        self.forget_acks(self.socket_key(index));
        if let Ok(entry) = self
            .people
            .socket_ids
            .find_entry(id_hash(&id), |other| *other == index)
        {
            entry.remove();
        }
        let mut peer = std::net::IpAddr::from([0, 0, 0, 0]);
        if let Some(session) = self.people.sessions.get_mut(session) {
            session.sockets.retain(|other| *other != index);
            peer = session.peer;
        }
        self.books.counts.sockets -= 1;
        self.books.counts.disconnects += 1;
        self.outbound
            .effects
            .push(Effect::Log(Notice::Disconnected {
                socket: id,
                peer,
                how,
            }));
        let (socket, reason) = (self.socket_key(index), how.disconnect_reason());
        self.outbound
            .told
            .push_back(Told::Disconnected { socket, reason });
    }

    /// What a retired socket keeps until its handler has seen it: its rooms and its user.
    pub(crate) fn part_socket(&mut self, index: SocketId) {
        self.leave_all_rooms(index);
        self.leave_user(index);
    }

    // ---- namespaces and rooms -----------------------------------------------------------------------------------------

    pub(crate) fn find_namespace(&self, name: &str) -> Option<NamespaceId> {
        self.people.namespace_names.get(name).copied()
    }

    pub(crate) fn namespace(&mut self, name: &str) -> NamespaceId {
        if let Some(index) = self.find_namespace(name) {
            return index;
        }
        let name: Arc<str> = name.into();
        let index = self
            .people
            .namespaces
            .insert(Namespace {
                name: Arc::clone(&name),
                rooms: 0,
            })
            .id();
        self.people.namespace_names.insert(name, index);
        index
    }

    /// The room of that name, made if need be.
    pub(crate) fn room(&mut self, namespace: NamespaceId, kind: RoomKind, name: &str) -> RoomId {
        if let Some(room) = self.rooms.find(namespace, kind, name) {
            return room;
        }
        let slot = self.people.namespaces.get_mut(namespace);
        let label = slot.map_or_else(Default::default, |slot| {
            slot.rooms += 1;
            Arc::clone(&slot.name)
        });
        self.rooms.insert((namespace, &label), kind, name)
    }

    /// Forgets a room that has no members here, and its namespace with the last room.
    pub(crate) fn tidy_room(&mut self, room: RoomId) {
        let Some(room) = self.rooms.remove_if_empty(room) else {
            return;
        };
        let id = room.namespace();
        if let Some(namespace) = self.people.namespaces.get_mut(id) {
            namespace.rooms -= 1;
            if namespace.rooms == 0
                && let Some(namespace) = self.people.namespaces.remove(id)
            {
                self.people.namespace_names.remove(&namespace.name);
            }
        }
    }

    /// Adjusts what fan-out needs to know when a session's transport changes.
    pub(crate) fn route_sockets(
        &mut self,
        session: SessionId,
        conn: Option<ConnId>,
        variant: Variant,
    ) {
        let deflate = self.deflate_of(conn);
        let Some(session) = self.people.sessions.get(session) else {
            return;
        };
        for index in session.sockets.clone() {
            if let Some(socket) = self.people.sockets.get_mut(index) {
                socket.conn = conn;
                socket.variant = variant;
                socket.deflate = deflate;
            }
        }
    }

    pub(crate) fn count_close(&mut self, reason: CloseReason) {
        self.books.counts.closes[reason as usize] += 1;
    }
}
