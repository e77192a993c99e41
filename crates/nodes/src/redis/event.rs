//! What happens to the connections, as the keeper is told of it.

use super::conn::Conn;
use super::item::Item;
use super::settings::Addr;
use super::topology::Topology;
use crate::engine::{Topic, Trouble};

/// One connection's name; never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct EarId(u64);

impl EarId {
    pub(super) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

#[derive(Debug)]
pub(super) enum Event {
    Subscribe(Vec<Topic>),
    Unsubscribe(Vec<Topic>),
    Doubt,
    /// The last handle is gone.
    Close,
    /// A lane has a connection, or has none.
    Lane(Addr, Result<(), Trouble>),
    /// A server refused a command that another one may take, or the same one later.
    Again(Item),
    /// It waited for a server that has no slots any more.
    Back(Item),
    Resolved(Result<Topology, Trouble>),
    EarOpened(Addr, EarId, Result<Conn, Trouble>),
    EarLost(Addr, EarId, Trouble),
    EarConfirmed(EarId, Topic),
    EarEnded(EarId, Topic),
    /// The third says that a slot has moved.
    EarRefused(EarId, Vec<Topic>, bool, Trouble),
}
