//! Rooms: membership, fan-out and history.

pub(crate) mod arrivals;
pub(crate) mod busy;
pub(crate) mod changes;
pub(crate) mod delivery;
pub(crate) mod directory;
pub(crate) mod elsewhere;
pub(crate) mod encodings;
pub(crate) mod fanout;
pub(crate) mod followers;
pub(crate) mod history;
pub(crate) mod keeping;
pub(crate) mod log;
pub(crate) mod membership;
pub(crate) mod outgoing;
pub(crate) mod presence;
pub(crate) mod room;
pub(crate) mod table;
pub(crate) mod tap;
pub(crate) mod target;
mod traced;
