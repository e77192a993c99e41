//! The user and the rights of a client, as far as a verified token says. The control plane verifies it; this is what comes of that.

use crate::books::close::CloseReason;
use std::sync::Arc;

/// What a token grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The name of the user; not empty.
    pub uid: String,
    /// Unix time in seconds after which it grants nothing.
    pub expires_s: Option<u64>,
    /// Rooms that the socket is put into.
    pub rooms: Vec<String>,
    /// What the client may do with rooms; `None` = what the namespace's rules say.
    pub grants: Option<Grants>,
    /// The claim that the configuration names for handlers.
    pub label: Option<String>,
    /// For operators: a line for each of its claims, the name and the kind with a tab between them. Equal texts are shared.
    pub kinds: Option<Arc<str>>,
}

impl Claims {
    pub(crate) fn heap_bytes(&self) -> usize {
        let rooms = self.rooms.iter();
        let grants = self.grants.as_ref();
        self.uid.len()
            + rooms
                .map(|room| size_of::<String>() + room.len())
                .sum::<usize>()
            + self.label.as_ref().map_or(0, String::len)
            + grants.map_or(0, |grants| grants.heap_bytes() - size_of::<Grants>())
    }

    /// Whether these grant for at least as long as the others.
    pub(crate) fn outlast(&self, others: &Self) -> bool {
        let (Some(end), Some(other)) = (self.expires_s, others.expires_s) else {
            // Claims without an end outlast all others.
            return self.expires_s.is_none();
        };
        end >= other
    }
}

/// Rooms a client may join and publish to, by their exact names: glob characters mean nothing. The one name `*` is every room.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grants {
    /// Rooms that it may join.
    pub join: Vec<String>,
    /// Rooms that it may publish to.
    pub publish: Vec<String>,
}

impl Grants {
    /// Whether it may join this room.
    pub fn may_join(&self, room: &str) -> bool {
        holds(&self.join, room)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let names = self.join.iter().chain(&self.publish);
        size_of::<Self>()
            + names
                .map(|name| size_of::<String>() + name.len())
                .sum::<usize>()
    }

    /// Whether it may publish to this room.
    pub fn may_publish(&self, room: &str) -> bool {
        holds(&self.publish, room)
    }
}

fn holds(names: &[String], room: &str) -> bool {
    names.iter().any(|name| name == "*" || name == room)
}

/// A token that grants nothing: what its client is told, and what operators are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What the client is told.
    pub denied: Denied,
    /// A word for the log.
    pub cause: &'static str,
    /// The cause for people, if there is more to say.
    pub why: Option<Box<str>>,
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        Self {
            denied,
            cause: denied.name(),
            why: None,
        }
    }
}

/// Why a token grants nothing. Clients learn this much and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Denied {
    /// There is none, and one is needed.
    Missing,
    /// It cannot be read, its signature is wrong, or it is not meant for us.
    Invalid,
    /// It was good once.
    Expired,
    /// It could not be checked in time, or the keys cannot be had.
    Unavailable,
}

impl Denied {
    /// All of them, in the order of the counters.
    pub const ALL: [Self; 4] = [
        Self::Missing,
        Self::Invalid,
        Self::Expired,
        Self::Unavailable,
    ];

    /// Name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Invalid => "invalid",
            Self::Expired => "expired",
            Self::Unavailable => "unavailable",
        }
    }

    /// What Socket.IO clients are told.
    pub fn message(self) -> &'static str {
        match self {
            Self::Missing => "Authentication required",
            Self::Invalid => "Invalid token",
            Self::Expired => "Token expired",
            Self::Unavailable => "Authentication unavailable",
        }
    }

    /// The code for clients of the plain protocol.
    pub fn code(self) -> &'static str {
        match self {
            Self::Missing => "AUTHENTICATION_REQUIRED",
            Self::Invalid => "INVALID_TOKEN",
            Self::Expired => "TOKEN_EXPIRED",
            Self::Unavailable => "AUTHENTICATION_UNAVAILABLE",
        }
    }

    /// Why the session ends: after an outage of ours, or when its token's time is over, the client should come back by itself.
    pub(crate) fn close_reason(self) -> CloseReason {
        match self {
            Self::Unavailable => CloseReason::AuthUnavailable,
            Self::Expired => CloseReason::TokenExpired,
            Self::Missing | Self::Invalid => CloseReason::Unauthorized,
        }
    }
}
