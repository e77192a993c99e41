//! A socket: one session's membership in one namespace.

use crate::books::claims::Grants;
use crate::clients::route::Route;
use crate::clients::table::{Named, Table};
use crate::recovery::record::Lifeline;
use crate::tables::slot::{NamespaceId, RoomId, SessionId, SocketId, SocketKey, UserId};
use smallvec::SmallVec;
use wire::base64url::Id20;

/// A room a socket is in, and where in the room's list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Membership {
    pub(crate) room: RoomId,
    pub(crate) at: u32,
}

/// A socket's place among the sockets of its user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) user: Option<UserId>,
    pub(super) before: Option<SocketId>,
    pub(super) after: Option<SocketId>,
}

impl Place {
    pub(crate) const NOBODY: Self = Self {
        user: None,
        before: None,
        after: None,
    };
}

#[derive(Debug)]
pub(crate) struct Socket {
    pub(crate) id: Id20,
    pub(crate) route: Route,
    pub(crate) flags: Flags,
    pub(crate) session: SessionId,
    pub(crate) namespace: NamespaceId,
    /// Fan-out that visited this socket last.
    pub(crate) mark: u32,
    pub(crate) rooms: SmallVec<[Membership; 2]>,
    pub(crate) place: Place,
    /// Events that it waits to have answered.
    pub(crate) owed: u16,
    /// Unix time at which its token ends; 0 = it has none, or one without end.
    pub(crate) expires_s: u32,
    pub(crate) extra: Option<Box<Extra>>,
}

// Fan-out reads one of these for each member.
const _: () = assert!(size_of::<Socket>() <= 96);

impl Named for Socket {
    fn id(&self) -> Option<&Id20> {
        Some(&self.id)
    }
}

impl Table<SocketId, Socket> {
    /// The socket, while it is connected.
    pub(crate) fn here(&self, key: SocketKey) -> Option<&Socket> {
        self.live(key).filter(|socket| !socket.flags.gone)
    }

    /// The client of a socket wants an event answered.
    #[inline]
    pub(crate) fn owe_answer(&mut self, key: SocketKey) {
        if let Some(socket) = self.live_mut(key) {
            socket.owed = socket.owed.saturating_add(1);
        }
    }
}

/// Small facts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// It left, and its handler is yet to be told.
    pub(crate) gone: bool,
    /// It left the room of its own id.
    pub(crate) nameless: bool,
    /// Its token ends soon: it waits in `Expiries`.
    pub(crate) ending: bool,
    /// It changed, and the directory was not told.
    pub(crate) unlisted: bool,
}

/// What few sockets have.
#[derive(Debug, Default)]
pub(crate) struct Extra {
    /// Raw JSON a handler attached (`socket.data`).
    pub(crate) data: Option<Box<str>>,
    /// Raw JSON of the CONNECT payload, when handshakes are kept.
    pub(crate) auth: Option<Box<str>>,
    /// What its token allows with rooms.
    pub(crate) grants: Option<Box<Grants>>,
    /// The claim of its token that handlers read.
    pub(crate) label: Option<Box<str>>,
    /// The name and the places by which its client can come back, if it can.
    pub(crate) lifeline: Option<Box<Lifeline>>,
}

impl Extra {
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.data.as_ref().map_or(0, |text| text.len())
            + self.auth.as_ref().map_or(0, |text| text.len())
            + self.grants.as_ref().map_or(0, |grants| grants.heap_bytes())
            + self.label.as_ref().map_or(0, |text| text.len())
            + self.lifeline.as_ref().map_or(0, |_| size_of::<Lifeline>())
    }
}
