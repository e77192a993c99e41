//! Slots, ids and timers: the things that are there, without knowing what happens to them.

pub(crate) mod clock;
pub(crate) mod conn;
pub(crate) mod expiry;
pub(crate) mod id;
pub(crate) mod session;
pub(crate) mod slab;
pub(crate) mod socket;
pub(crate) mod timer;
pub(crate) mod users;

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
    pub(crate) conns: Slab<Conn>,
    pub(crate) sessions: Slab<Session>,
    pub(crate) sockets: Slab<Socket>,
    pub(crate) sids: HashTable<u32>,
    pub(crate) socket_ids: HashTable<u32>,
    pub(crate) users: Users,
    pub(crate) namespaces: Slab<Namespace>,
    pub(crate) namespace_names: HashMap<Arc<str>, u32>,
}
