//! Slots, ids and timers: the things that are there, without knowing what happens to them.

pub(crate) mod clock;
pub(crate) mod conn;
pub(crate) mod expiry;
pub(crate) mod id;
pub(crate) mod intake;
pub(crate) mod interest;
pub(crate) mod people;
pub(crate) mod polls;
pub(crate) mod session;
pub(crate) mod shards;
pub(crate) mod slab;
pub(crate) mod slot;
pub(crate) mod socket;
pub(crate) mod timer;
pub(crate) mod users;
