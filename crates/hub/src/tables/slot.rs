//! What names a slot of a table: one type per table, so that a session's number is never taken for a connection's.

use std::num::NonZeroU32;

/// The number of a slot. `Option` of it needs no room of its own.
pub(crate) trait SlotId: Copy + Eq {
    /// Numbers are counted from 0.
    fn at(index: u32) -> Self;
    fn index(self) -> u32;
}

/// Names a slot for as long as it lives: a reused slot has another generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key<I> {
    id: I,
    generation: u32,
}

impl<I: Copy> Key<I> {
    pub(crate) fn new(id: I, generation: u32) -> Self {
        Self { id, generation }
    }

    /// The slot; it may have another owner by now.
    pub(crate) fn id(self) -> I {
        self.id
    }

    pub(crate) fn generation(self) -> u32 {
        self.generation
    }
}

macro_rules! slot_ids {
    ($($(#[$doc:meta])* $visible:vis $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $visible struct $name(NonZeroU32);

        impl SlotId for $name {
            fn at(index: u32) -> Self {
                Self(NonZeroU32::MIN.saturating_add(index))
            }

            fn index(self) -> u32 {
                self.0.get() - 1
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{} {self}", stringify!($name))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                SlotId::index(*self).fmt(f)
            }
        }
    )*};
}

slot_ids! {
    /// A connection of this shard, until `Effect::Close`, `Move` or `Handover` names it.
    ///
    /// No other reference passes for it:
    /// ```compile_fail,E0308
    /// fn break_it<W: hub::World>(turn: &mut hub::Turn<'_, W>, session: hub::SessionId) {
    ///     turn.broken(session);
    /// }
    /// ```
    pub ConnId;
    /// An Engine.IO session or one of the plain protocol.
    pub SessionId;
    /// A session's membership in a namespace.
    pub SocketId;
    pub(crate) UserId;
    pub(crate) NamespaceId;
    pub(crate) RoomId;
    /// A name under which a journal or the table of parked sockets has something.
    pub(crate) HeadingId;
    /// A parked socket.
    pub(crate) RecordId;
    /// A question to the control plane.
    pub AskId;
}

/// Names a socket on this shard for as long as it is connected.
pub type SocketKey = Key<SocketId>;
/// Names a connection on this shard for as long as it is there.
pub(crate) type ConnKey = Key<ConnId>;
/// Names a session on this shard for as long as it is there.
pub type SessionKey = Key<SessionId>;
/// Names a question until it is answered or its time is up.
pub type AskKey = Key<AskId>;

impl ConnId {
    /// The connection that a reactor knows by this number.
    pub fn from_index(index: usize) -> Option<Self> {
        let index = u32::try_from(index)
            .ok()
            // A slot holds its index plus one, so the last number does not fit.
            .filter(|index| *index != u32::MAX)?;
        Some(SlotId::at(index))
    }

    /// A number for tables beside the hub's; small, because slots are reused.
    pub fn index(self) -> usize {
        SlotId::index(self) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_reference_costs_nothing() {
        assert_eq!(size_of::<Option<ConnId>>(), 4);
        assert_eq!(size_of::<Option<Key<SocketId>>>(), 8);
        assert_eq!(ConnId::from_index(7).map(ConnId::index), Some(7));
        assert_eq!(ConnId::from_index(usize::MAX), None);
    }
}
