//! Who is here: sessions, their sockets, the users behind them, and the namespaces that they are in.

use crate::tables::session::Session;
use crate::tables::slab::Slab;
use crate::tables::slot::{NamespaceId, SessionId, SocketId};
use crate::tables::socket::Socket;
use crate::tables::users::Users;
use hashbrown::HashTable;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: Arc<str>,
    /// Rooms (of all kinds) that exist in it.
    pub(crate) rooms: u32,
}

#[derive(Debug, Default)]
pub(crate) struct People {
    pub(crate) sessions: Slab<SessionId, Session>,
    pub(crate) sockets: Slab<SocketId, Socket>,
    pub(crate) sids: HashTable<SessionId>,
    pub(crate) socket_ids: HashTable<SocketId>,
    pub(crate) users: Users,
    pub(crate) namespaces: Slab<NamespaceId, Namespace>,
    pub(crate) namespace_names: HashMap<Arc<str>, NamespaceId>,
}
