//! Why an event does not reach all that it is for.

use hub::Reach;

/// Why an event goes to no room, or not to all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// The client is not in that room, and no token lets it speak there all the same.
    NotInRoom,
    /// The client's token speaks of rooms, and not of that one.
    NotGranted,
    /// Other nodes cannot be reached.
    OnlyHere,
    /// What all nodes read cannot be written.
    Unwritten,
}

impl Forbidden {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::NotInRoom => "Not in that room",
            Self::NotGranted => "Not allowed to publish to that room",
            Self::Unwritten => "What is said here cannot be stored now: nobody got it",
            Self::OnlyHere => "Other nodes cannot be reached: only clients of this node got it",
        }
    }

    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::NotInRoom => "NOT_IN_ROOM",
            Self::NotGranted => "FORBIDDEN",
            Self::OnlyHere | Self::Unwritten => "CLUSTER_UNAVAILABLE",
        }
    }

    /// A client must be told if other nodes do not get what it says.
    pub(crate) fn unless_everyone(reach: Reach) -> Result<(), Self> {
        match reach {
            Reach::Everyone => Ok(()),
            Reach::ThisNode => Err(Self::OnlyHere),
            Reach::Nobody => Err(Self::Unwritten),
        }
    }
}
