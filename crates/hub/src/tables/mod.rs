//! Slots, ids and timers: the things that are there, without knowing what happens to them.

pub(crate) mod bytes;
pub(crate) mod clock;
pub(crate) mod expiry;
pub(crate) mod id;
pub(crate) mod interest;
pub(crate) mod loads;
pub(crate) mod position;
pub(crate) mod repeats;
pub(crate) mod shards;
pub(crate) mod sip;
pub(crate) mod slab;
pub(crate) mod slot;
pub(crate) mod timer;
