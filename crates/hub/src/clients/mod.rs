//! The clients of a shard: connections, sessions, their sockets and users, and how each of them is told things.

pub(crate) mod conn;
pub(crate) mod deflating;
pub(crate) mod followed;
pub(crate) mod intake;
pub(crate) mod line;
pub(crate) mod marks;
pub(crate) mod namespaces;
pub(crate) mod people;
pub(crate) mod polls;
pub(crate) mod repeats;
pub mod roll;
pub(crate) mod session;
pub(crate) mod socket;
pub(crate) mod speaker;
pub(crate) mod table;
pub(crate) mod tags;
pub(crate) mod trace;
pub(crate) mod traces;
pub(crate) mod users;
pub(crate) mod whereabouts;
