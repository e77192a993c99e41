//! The receivers of a message.

use crate::recovery::members::Aim;

/// The receivers of a message: the union of `rooms` and `users`, or everyone in the namespace when both are empty, less `except`.
/// A socket's id is the name of a room that holds just that socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target<'a> {
    /// The namespace of the sockets.
    pub namespace: &'a str,
    /// Sockets in any of these rooms; with no users either, all sockets of the namespace.
    pub rooms: &'a [&'a str],
    /// Sockets of any of these users.
    pub users: &'a [&'a str],
    /// Rooms (or socket ids) whose members are left out.
    pub except: &'a [&'a str],
    /// Nodes whose sockets are left out: the application tells them itself.
    pub without: &'a [u16],
    /// How far it goes.
    pub scope: Scope,
}

impl<'a> Target<'a> {
    /// The same for sockets that may come back.
    pub(crate) fn aim(&self) -> Aim<'a> {
        Aim {
            namespace: self.namespace,
            rooms: self.rooms,
            users: self.users,
            except: self.except,
        }
    }
}

/// How far something goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// To every node.
    #[default]
    Everywhere,
    /// To all shards of this node.
    Node,
}
