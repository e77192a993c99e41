//! Rooms: membership, fan-out and history.

pub(crate) mod directory;
pub(crate) mod fanout;
pub(crate) mod history;
pub(crate) mod membership;
pub(crate) mod room;
