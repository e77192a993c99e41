//! The life of sessions and sockets: beginnings, signs of life, ends.

pub(crate) mod answers;
pub(crate) mod arriving;
pub(crate) mod chronicling;
pub(crate) mod conns;
pub(crate) mod deeds;
pub(crate) mod ending;
pub(crate) mod gaps;
pub(crate) mod handing;
pub(crate) mod heartbeat;
pub(crate) mod keepsakes;
pub(crate) mod memberships;
pub(crate) mod opening;
pub(crate) mod parking;
pub(crate) mod returning;
pub(crate) mod roll;
pub(crate) mod shedding;
pub(crate) mod staying;
pub(crate) mod stream;
