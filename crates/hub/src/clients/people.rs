//! Who is here: sessions, their sockets, the users behind them, and the namespaces that they are in.

mod audit;

use crate::clients::roll::Roll;
use crate::clients::session::{Left, Polling, Session};
use crate::clients::socket::Socket;
use crate::clients::table::Table;
use crate::clients::tags::Tags;
use crate::clients::users::Users;
use crate::clients::whereabouts::Whereabouts;
use crate::dialect::speech::{Author, Variant};
use crate::output::compression::Deflate;
use crate::tables::clock::Clock;
use crate::tables::interest::{Change, Interest, Subject, Watch};
use crate::tables::slab::Slab;
use crate::tables::slot::{ConnId, NamespaceId, SessionId, SocketId, SocketKey};
use crate::tables::timer::SessionTimer;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;
use wire::base64url::Id20;

#[derive(Debug)]
struct Namespace {
    name: Arc<str>,
    /// Rooms (of all kinds) that exist in it.
    rooms: u32,
}

#[derive(Debug, Default)]
pub(crate) struct People {
    pub(crate) sessions: Table<SessionId, Session>,
    pub(crate) sockets: Table<SocketId, Socket>,
    sids: HashTable<SessionId>,
    socket_ids: HashTable<SocketId>,
    users: Users,
    namespaces: Slab<NamespaceId, Namespace>,
    namespace_names: HashMap<Arc<str>, NamespaceId>,
    interest: Interest,
    pub(crate) roll: Roll,
    /// Names of the programs of sessions.
    pub(crate) agents: Tags,
    /// Names and kinds of the claims of sockets.
    pub(crate) claim_kinds: Tags,
    /// Sockets that are not where their ids say.
    pub(crate) whereabouts: Arc<Whereabouts>,
    /// The number of the last selection of sockets.
    mark: u32,
}

/// Ids are random and ours: a fast hash without a secret is enough.
fn id_hash(id: &Id20) -> u64 {
    FixedState::with_seed(0).hash_one(id)
}

impl People {
    // ---- sessions -----------------------------------------------------------------------------------------------------

    /// Whether more packets wait for this session's polls than may.
    pub(crate) fn queue_overflows(&self, session: SessionId) -> bool {
        let slot = self.sessions.get(session);
        let polling = slot.and_then(|slot| slot.polling.as_ref());
        polling.is_some_and(|polling| polling.overflowed)
    }

    pub(crate) fn find_session(&self, sid: &Id20) -> Option<SessionId> {
        self.sids
            .find(id_hash(sid), |index| {
                self.sessions
                    .get(*index)
                    .is_some_and(|session| session.sid == *sid)
            })
            .copied()
    }

    pub(crate) fn insert_session(&mut self, session: Session) -> SessionId {
        let (sid, engineio) = (session.sid, session.protocol.is_engineio());
        let index = self.sessions.insert(session).id();
        if engineio {
            let sessions = &self.sessions;
            self.sids.insert_unique(id_hash(&sid), index, |index| {
                let session = sessions.get(*index);
                session.map_or(0, |session| id_hash(&session.sid))
            });
        }
        index
    }

    /// Takes a session out, and timers of others that are gone with it.
    pub(crate) fn remove_session(
        &mut self,
        clock: &mut Clock,
        index: SessionId,
    ) -> Option<Session> {
        let session = self.sessions.remove(index)?;
        self.agents.release(session.agent);
        self.claim_kinds.release(session.claims);
        let (sessions, timers) = (&self.sessions, &mut clock.timers.sessions);
        timers.owner_ended(sessions.len(), |key| sessions.live(key).is_none());
        let hash = id_hash(&session.sid);
        if let Ok(entry) = self.sids.find_entry(hash, |other| *other == index) {
            entry.remove();
        }
        Some(session)
    }

    /// Whether the session is there and was not ended.
    pub(crate) fn is_open(&self, session: SessionId) -> bool {
        self.sessions.open(session).is_some()
    }

    /// Arms a timer of a session.
    pub(crate) fn arm(
        &self,
        clock: &mut Clock,
        kind: SessionTimer,
        delay: Duration,
        session: SessionId,
    ) {
        let (due, key) = (clock.after(delay), self.sessions.key(session));
        let live = |key| self.sessions.live(key);
        let timers = &mut clock.timers.sessions;
        match kind {
            SessionTimer::Connect => {
                timers.forget(kind, |key| live(key).is_none_or(|slot| slot.flags.joined));
            }
            SessionTimer::Pong => {
                timers.forget(kind, |key| {
                    live(key).is_none_or(|slot| !slot.heart.awaiting_pong)
                });
            }
            _ => {}
        }
        timers.arm(kind, due, key);
    }

    /// What a session keeps for polling, if it polls.
    pub(crate) fn polling(&mut self, session: SessionId) -> Option<&mut Polling> {
        self.sessions.get_mut(session)?.polling.as_deref_mut()
    }

    // ---- sockets ------------------------------------------------------------------------------------------------------

    /// A session, which is found once, gets a socket. `None`: there is no such session.
    pub(crate) fn insert_socket(
        &mut self,
        session: SessionId,
        make: impl FnOnce(&mut Session) -> Socket,
    ) -> Option<SocketKey> {
        let slot = self.sessions.get_mut(session)?;
        let socket = make(slot);
        let (id, namespace) = (socket.id, socket.namespace);
        let key = self.sockets.insert(socket);
        slot.sockets.push(key.id());
        let sockets = &self.sockets;
        self.socket_ids
            .insert_unique(id_hash(&id), key.id(), |index| {
                sockets.get(*index).map_or(0, |socket| id_hash(&socket.id))
            });
        if let Some(namespace) = self.namespaces.get(namespace) {
            self.interest.note_socket(&namespace.name, &id, true);
        }
        self.note_listed(key.id());
        Some(key)
    }

    /// What the directory says of a socket is not true any more.
    #[inline]
    pub(crate) fn note_listed(&mut self, index: SocketId) {
        if self.roll.is_called()
            && let Some(slot) = self.sockets.get_mut(index)
            && !std::mem::replace(&mut slot.flags.unlisted, true)
        {
            self.roll.changed(self.sockets.key(index));
        }
    }

    /// Takes a socket out of its session: nobody finds it any more. Its slot goes when its handler has been told.
    pub(crate) fn part_socket(&mut self, index: SocketId) {
        let Some(socket) = self.sockets.get(index) else {
            return;
        };
        let hash = id_hash(&socket.id);
        if let Ok(entry) = self.socket_ids.find_entry(hash, |other| *other == index) {
            entry.remove();
        }
        if let Some(session) = self.sessions.get_mut(socket.session) {
            session.sockets.retain(|other| *other != index);
        }
        if let Some(namespace) = self.namespaces.get(socket.namespace) {
            self.interest
                .note_socket(&namespace.name, &socket.id, false);
        }
        if self.roll.is_called() {
            self.roll.gone(socket.id);
        }
    }

    /// The handler of a parted socket was told: its key names nothing from now on.
    pub(crate) fn free_socket(&mut self, index: SocketId) {
        let socket = self.sockets.remove(index);
        debug_assert!(socket.is_none_or(|slot| slot.flags.gone), "{index} is here");
    }

    /// A token of this socket was good: what operators see of it.
    pub(crate) fn note_claims(&mut self, socket: SocketKey, kinds: Option<&str>) {
        let session = self.sockets.live(socket).map(|slot| slot.session);
        if let Some(slot) = session.and_then(|session| self.sessions.get_mut(session)) {
            let before = std::mem::take(&mut slot.claims);
            slot.claims = self.claim_kinds.take(kinds.unwrap_or_default());
            self.claim_kinds.release(before);
        }
    }

    pub(crate) fn find_socket(&self, id: &Id20) -> Option<SocketId> {
        self.socket_ids
            .find(id_hash(id), |index| {
                self.sockets
                    .get(*index)
                    .is_some_and(|socket| socket.id == *id && !socket.flags.gone)
            })
            .copied()
    }

    /// The live socket behind a key.
    pub(crate) fn socket(&self, key: SocketKey) -> Option<&Socket> {
        self.sockets.live(key).filter(|socket| !socket.flags.gone)
    }

    /// Its client can come back to what it missed.
    pub(crate) fn is_recoverable(&self, session: &Session) -> bool {
        session.sockets.iter().any(|index| {
            let extra = self.sockets.get(*index);
            let extra = extra.and_then(|socket| socket.extra.as_ref());
            extra.is_some_and(|extra| extra.lifeline.is_some())
        })
    }

    /// Its client wants an event answered.
    #[inline]
    pub(crate) fn owe_answer(&mut self, key: SocketKey) {
        if let Some(socket) = self.sockets.live_mut(key) {
            socket.owed = socket.owed.saturating_add(1);
        }
    }

    pub(crate) fn socket_key(&self, index: SocketId) -> SocketKey {
        self.sockets.key(index)
    }

    /// The session's socket in a namespace.
    pub(crate) fn socket_in(&self, session: SessionId, namespace: &str) -> Option<SocketKey> {
        let mut sockets = self.sessions.get(session)?.sockets.iter();
        let found = sockets.find(|index| {
            let socket = self.sockets.get(**index);
            let found = socket.and_then(|socket| self.namespaces.get(socket.namespace));
            found.is_some_and(|found| *found.name == *namespace)
        });
        found.map(|index| self.sockets.key(*index))
    }

    /// The socket whose id (and so whose own room) this is.
    pub(crate) fn socket_named(&self, namespace: NamespaceId, name: &str) -> Option<SocketId> {
        let index = self.find_socket(&Id20::decode(name.as_bytes())?)?;
        let socket = self.sockets.get(index)?;
        (socket.namespace == namespace && !socket.flags.nameless).then_some(index)
    }

    /// Sockets that are not on their way out.
    pub(crate) fn live_sockets(&self) -> usize {
        self.socket_ids.len()
    }

    /// What fan-out needs to know when a session's transport changes.
    pub(crate) fn route(
        &mut self,
        session: SessionId,
        conn: Option<ConnId>,
        variant: Variant,
        deflate: Deflate,
    ) {
        let Some(session) = self.sessions.get(session) else {
            return;
        };
        for index in &session.sockets {
            if let Some(socket) = self.sockets.get_mut(*index) {
                socket.conn = conn;
                let offsets = socket.variant.offsets;
                socket.variant = Variant { offsets, ..variant };
                socket.deflate = deflate;
            }
        }
    }

    /// A number no socket is marked with.
    pub(crate) fn next_mark(&mut self) -> u32 {
        self.mark = self.mark.wrapping_add(1);
        if self.mark == 0 {
            let all: Vec<SocketId> = self.sockets.iter().map(|(index, _)| index).collect();
            for index in all {
                if let Some(socket) = self.sockets.get_mut(index) {
                    socket.mark = 0;
                }
            }
            self.mark = 1;
        }
        self.mark
    }

    /// Marks a socket; `false` = it has that mark already, or it is gone. HOT PATH.
    #[inline]
    pub(crate) fn mark(&mut self, index: SocketId, mark: u32) -> bool {
        match self.sockets.get_mut(index) {
            Some(socket) if socket.mark != mark && !socket.flags.gone => {
                socket.mark = mark;
                true
            }
            _ => false,
        }
    }

    /// Whether the last selection of sockets has this one.
    pub(crate) fn is_marked(&self, index: SocketId) -> bool {
        let socket = self.sockets.get(index);
        socket.is_some_and(|socket| socket.mark == self.mark)
    }

    // ---- namespaces ---------------------------------------------------------------------------------------------------

    pub(crate) fn find_namespace(&self, name: &str) -> Option<NamespaceId> {
        self.namespace_names.get(name).copied()
    }

    pub(crate) fn namespace(&mut self, name: &str) -> NamespaceId {
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
            .id();
        self.namespace_names.insert(name, index);
        index
    }

    /// A namespace has one more room; returns its name.
    pub(crate) fn add_room(&mut self, namespace: NamespaceId) -> Arc<str> {
        let slot = self.namespaces.get_mut(namespace);
        slot.map_or_else(Default::default, |slot| {
            slot.rooms += 1;
            Arc::clone(&slot.name)
        })
    }

    /// A namespace has one room less. It goes with its last one.
    pub(crate) fn drop_room(&mut self, namespace: NamespaceId) {
        let Some(slot) = self.namespaces.get_mut(namespace) else {
            return;
        };
        slot.rooms -= 1;
        if slot.rooms == 0
            && let Some(slot) = self.namespaces.remove(namespace)
        {
            self.namespace_names.remove(&slot.name);
        }
    }

    pub(crate) fn label(&self, namespace: NamespaceId) -> Option<&Arc<str>> {
        self.namespaces.get(namespace).map(|slot| &slot.name)
    }

    /// The namespace of a socket.
    pub(crate) fn label_of(&self, socket: SocketKey) -> Option<Arc<str>> {
        let slot = self.sockets.live(socket)?;
        self.label(slot.namespace).map(Arc::clone)
    }

    /// The session is not in this namespace any more; packets for it may still be on their way.
    pub(crate) fn note_parted(&mut self, session: SessionId, namespace: NamespaceId) {
        if let Some(slot) = self.sessions.get_mut(session)
            && let Some(namespace) = self.namespaces.get(namespace)
        {
            slot.rare.get_or_insert_default().part(&namespace.name);
        }
    }

    /// Who a session was, when its last socket leaves before it.
    pub(crate) fn note_left(&mut self, index: SocketId) {
        let Some(socket) = self.sockets.get(index) else {
            return;
        };
        let Some(namespace) = self.namespaces.get(socket.namespace) else {
            return;
        };
        let left = Left {
            socket: socket.id,
            namespace: Arc::clone(&namespace.name),
            user: self.user_of(index).map(Box::from),
        };
        if let Some(session) = self.sessions.get_mut(socket.session) {
            session.rare.get_or_insert_default().last = Some(Box::new(left));
        }
    }

    pub(crate) fn namespaces(&self) -> usize {
        self.namespaces.len()
    }

    // ---- interest -----------------------------------------------------------------------------------------------------

    /// Other nodes may exist: whom this hub has members for is noted from now on.
    pub(crate) fn watch_interest(&mut self, watch: Watch) {
        self.interest = Interest::new(watch);
    }

    /// Something about a room of a namespace that other nodes are to know.
    pub(crate) fn note_interest(
        &mut self,
        namespace: NamespaceId,
        subject: Subject,
        name: &str,
        change: impl FnOnce(u64) -> Change,
    ) {
        if let Some(slot) = self.namespaces.get(namespace) {
            self.interest.note(&slot.name, subject, name, change);
        }
    }

    pub(crate) fn interest(&mut self) -> &mut Interest {
        &mut self.interest
    }

    // ---- users --------------------------------------------------------------------------------------------------------

    /// Makes a socket one of a user's; it stops being another's.
    pub(crate) fn set_user(&mut self, socket: SocketId, name: &str) {
        self.leave_user(socket);
        if let Some(namespace) = self.sockets.get(socket).map(|slot| slot.namespace) {
            self.note_user(namespace, name, Change::Came);
        }
        self.users.enter(&mut self.sockets, socket, name);
        self.note_listed(socket);
        self.note_member(socket, Subject::User, name);
    }

    /// A socket is a member of what other nodes are told of.
    pub(crate) fn note_member(&mut self, socket: SocketId, subject: Subject, name: &str) {
        let key = self.sockets.key(socket);
        if let Some(namespace) = self.sockets.get(socket).map(|slot| slot.namespace) {
            self.note_interest(namespace, subject, name, |of| Change::Joined(key, of));
        }
    }

    pub(crate) fn leave_user(&mut self, socket: SocketId) {
        let user = match self.interest.is_watched() {
            true => self.user_of(socket).map(str::to_owned),
            false => None,
        };
        self.users.leave(&mut self.sockets, socket);
        if let Some(user) = user
            && let Some(namespace) = self.sockets.get(socket).map(|slot| slot.namespace)
        {
            self.note_user(namespace, &user, Change::Went);
        }
    }

    /// Other nodes are told of the first socket of a user, before it is there, and of the last one after it went.
    fn note_user(&mut self, namespace: NamespaceId, name: &str, change: fn(u64) -> Change) {
        if self.interest.is_watched()
            && self.first_of_user(namespace, name).is_none()
            && let Some(slot) = self.namespaces.get(namespace)
        {
            self.interest.note(&slot.name, Subject::User, name, change);
        }
    }

    /// The first socket of a user in a namespace; `next_of_user` has the others.
    pub(crate) fn first_of_user(&self, namespace: NamespaceId, name: &str) -> Option<SocketId> {
        let user = self.users.find(namespace, name)?;
        self.users.get(user)?.first
    }

    pub(crate) fn next_of_user(&self, socket: SocketId) -> Option<SocketId> {
        self.sockets.get(socket)?.place.after
    }

    /// Name of the user a socket belongs to.
    pub(crate) fn user_of(&self, socket: SocketId) -> Option<&str> {
        let place = self.sockets.get(socket)?.place;
        Some(&self.users.get(place.user?)?.name)
    }

    /// The data that a handler attached to a socket: raw JSON.
    pub(crate) fn data_of(&self, socket: SocketId) -> Option<&str> {
        self.sockets.get(socket)?.extra.as_ref()?.data.as_deref()
    }

    /// Name of the user whose word an event is, if it is a client's.
    pub(crate) fn user_behind<'a>(&'a self, author: Author<'a>) -> Option<&'a str> {
        match author {
            Author::Client(socket) => self.user_of(self.sockets.live(socket).map(|_| socket.id())?),
            Author::User(user) => Some(user),
            Author::Program | Author::Waiting(_) | Author::Elsewhere => None,
        }
    }
}
