//! Slots, ids and timers: the things that are there, without knowing what happens to them.

pub(crate) mod clock;
pub(crate) mod conn;
pub(crate) mod expiry;
pub(crate) mod id;
pub(crate) mod session;
pub(crate) mod shards;
pub(crate) mod slab;
pub(crate) mod slot;
pub(crate) mod socket;
pub(crate) mod timer;
pub(crate) mod users;

use crate::output::backlog::Backlog;
use crate::tables::slot::{ConnId, NamespaceId, SessionId, SocketId};
use conn::Conn;
use hashbrown::HashTable;
use session::Session;
use slab::Slab;
use socket::Socket;
use std::collections::HashMap;
use std::sync::Arc;
use users::Users;

#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: Arc<str>,
    /// Rooms (of all kinds) that exist in it.
    pub(crate) rooms: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    pub(crate) conns: Slab<ConnId, Conn>,
    pub(crate) sessions: Slab<SessionId, Session>,
    pub(crate) sockets: Slab<SocketId, Socket>,
    pub(crate) sids: HashTable<SessionId>,
    pub(crate) socket_ids: HashTable<SocketId>,
    pub(crate) users: Users,
    pub(crate) namespaces: Slab<NamespaceId, Namespace>,
    pub(crate) namespace_names: HashMap<Arc<str>, NamespaceId>,
}

impl Tables {
    /// Output that waits for the client of a session, in whatever way it is fetched.
    pub(crate) fn unsent_bytes(&self, session: &Session) -> usize {
        let conn = self.conns.get(session.conn);
        let polling = session.polling.as_ref();
        conn.map_or(0, |conn| conn.outbox.waiting_bytes())
            + polling.map_or(0, |polling| polling.queue.cost())
    }

    /// Drops that output, but for what has begun to leave.
    pub(crate) fn discard_unsent(&mut self, session: SessionId) {
        let Some(slot) = self.sessions.get_mut(session) else {
            return;
        };
        if let Some(polling) = &mut slot.polling {
            polling.queue = Backlog::default();
        }
        if let Some(conn) = self.conns.get_mut(slot.conn) {
            conn.outbox.discard_unstarted();
        }
    }
}
