//! Slots, ids and timers: the things that are there, without knowing what happens to them.

pub(crate) mod clock;
pub(crate) mod conn;
pub(crate) mod expiry;
pub(crate) mod id;
pub(crate) mod session;
pub(crate) mod slab;
pub(crate) mod slot;
pub(crate) mod socket;
pub(crate) mod timer;
pub(crate) mod users;

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
