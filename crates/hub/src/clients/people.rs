//! The people of a shard: sessions, their sockets, the users of these, and the namespaces that they are in.

mod audit;

use crate::clients::namespaces::Namespaces;
use crate::clients::roll::Roll;
use crate::clients::route::Route;
use crate::clients::session::{Left, Session};
use crate::clients::socket::Socket;
use crate::clients::table::Table;
use crate::clients::tags::Tags;
use crate::clients::users::Users;
use crate::clients::whereabouts::Whereabouts;
use crate::dialect::speech::Author;
use crate::tables::clock::Clock;
use crate::tables::interest::{Change, Interest, Subject};
use crate::tables::slot::{NamespaceId, SessionId, SocketId, SocketKey};
use std::sync::Arc;
use wire::base64url::Id20;

#[derive(Debug, Default)]
pub(crate) struct People {
    pub(crate) sessions: Table<SessionId, Session>,
    pub(crate) sockets: Table<SocketId, Socket>,
    users: Users,
    pub(crate) namespaces: Namespaces,
    /// What other nodes are to know of the members that this hub has.
    pub(crate) interest: Interest,
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

impl People {
    // ---- sessions -----------------------------------------------------------------------------------------------------

    pub(crate) fn insert_session(&mut self, session: Session) -> SessionId {
        self.sessions.insert(session).id()
    }

    /// Takes a session out, and timers of others that are gone with it.
    pub(crate) fn remove_session(
        &mut self,
        clock: &mut Clock,
        index: SessionId,
    ) -> Option<Session> {
        let session = self.sessions.remove(index)?;
        self.agents.release(session.client.agent());
        self.claim_kinds.release(session.client.claims());
        let (sessions, timers) = (&self.sessions, &mut clock.timers.sessions);
        timers.owner_ended(sessions.len(), |key| sessions.live(key).is_none());
        Some(session)
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
        if let Some(namespace) = self.namespaces.label(namespace) {
            self.interest.note_socket(namespace, &id, true);
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
        if let Some(session) = self.sessions.get_mut(socket.session) {
            session.sockets.retain(|other| *other != index);
        }
        if let Some(namespace) = self.namespaces.label(socket.namespace) {
            self.interest.note_socket(namespace, &socket.id, false);
        }
        if self.roll.is_called() {
            self.roll.gone(socket.id);
        }
        self.sockets.unlist(index);
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
            // The new text is taken before the old one is released, so that an equal one stays.
            let kinds = self.claim_kinds.take(kinds.unwrap_or_default());
            let before = slot.client.show_claims(kinds);
            self.claim_kinds.release(before);
        }
    }

    /// Whether the client of a session can come back to what it missed.
    pub(crate) fn is_recoverable(&self, session: &Session) -> bool {
        session.sockets.iter().any(|index| {
            let extra = self.sockets.get(*index);
            let extra = extra.and_then(|socket| socket.extra.as_ref());
            extra.is_some_and(|extra| extra.lifeline.is_some())
        })
    }

    /// The session's socket in a namespace.
    pub(crate) fn socket_in(&self, session: SessionId, namespace: &str) -> Option<SocketKey> {
        let mut sockets = self.sessions.get(session)?.sockets.iter();
        let found = sockets.find(|index| {
            let socket = self.sockets.get(**index);
            let found = socket.and_then(|socket| self.namespaces.label(socket.namespace));
            found.is_some_and(|found| **found == *namespace)
        });
        found.map(|index| self.sockets.key(*index))
    }

    /// The socket whose id (and so whose own room) this is.
    pub(crate) fn socket_named(&self, namespace: NamespaceId, name: &str) -> Option<SocketId> {
        let index = self.sockets.find(&Id20::decode(name.as_bytes())?)?;
        let socket = self.sockets.get(index)?;
        // A socket that left the room of its own id is not found by that name.
        (socket.namespace == namespace && !socket.flags.nameless).then_some(index)
    }

    /// What fan-out needs to know when a session's transport changes.
    pub(crate) fn change_route(&mut self, session: SessionId, route: Route) {
        let Some(session) = self.sessions.get(session) else {
            return;
        };
        for index in &session.sockets {
            if let Some(socket) = self.sockets.get_mut(*index) {
                socket.route.change(route);
            }
        }
    }

    /// A number no socket is marked with.
    pub(crate) fn next_mark(&mut self) -> u32 {
        self.mark = self.mark.wrapping_add(1);
        // The numbers begin anew, so old marks must not pass for new ones.
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

    /// The namespace of a socket.
    pub(crate) fn label_of(&self, socket: SocketKey) -> Option<Arc<str>> {
        let slot = self.sockets.live(socket)?;
        self.namespaces.label(slot.namespace).map(Arc::clone)
    }

    /// The session is not in this namespace any more; packets for it may still be on their way.
    pub(crate) fn note_parted(&mut self, session: SessionId, namespace: NamespaceId) {
        if let Some(slot) = self.sessions.get_mut(session)
            && let Some(namespace) = self.namespaces.label(namespace)
        {
            slot.rare.get_or_insert_default().part(namespace);
        }
    }

    /// Remembers who a session was: its last socket may leave before it.
    pub(crate) fn note_left(&mut self, index: SocketId) {
        let Some(socket) = self.sockets.get(index) else {
            return;
        };
        let Some(namespace) = self.namespaces.label(socket.namespace) else {
            return;
        };
        let left = Left {
            socket: socket.id,
            namespace: Arc::clone(namespace),
            user: self.user_of(index).map(Box::from),
        };
        if let Some(session) = self.sessions.get_mut(socket.session) {
            session.rare.get_or_insert_default().last = Some(Box::new(left));
        }
    }

    // ---- interest -----------------------------------------------------------------------------------------------------

    /// Something about a room of a namespace that other nodes are to know.
    pub(crate) fn note_interest(
        &mut self,
        namespace: NamespaceId,
        subject: Subject,
        name: &str,
        change: impl FnOnce(u64) -> Change,
    ) {
        if let Some(label) = self.namespaces.label(namespace) {
            self.interest.note(label, subject, name, change);
        }
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
        // The name is copied before the last socket frees it, and only for other nodes.
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

    /// Tells other nodes of a user: before the first socket is there, and after the last one went.
    fn note_user(&mut self, namespace: NamespaceId, name: &str, change: fn(u64) -> Change) {
        // Callers come before the first socket enters and after the last one left: then the user has none.
        if self.interest.is_watched()
            && self.first_of_user(namespace, name).is_none()
            && let Some(label) = self.namespaces.label(namespace)
        {
            self.interest.note(label, Subject::User, name, change);
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

    /// Name of the user whose word an event is, if it is a client's.
    pub(crate) fn user_behind<'a>(&'a self, author: Author<'a>) -> Option<&'a str> {
        match author {
            Author::Client(socket) => self.user_of(self.sockets.live(socket).map(|_| socket.id())?),
            Author::User(user) => Some(user),
            Author::Program | Author::Waiting(_) | Author::Elsewhere => None,
        }
    }
}
