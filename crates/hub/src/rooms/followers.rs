//! Members that wait for the history of their room, and the tickets of the answers that they wait for.

use crate::tables::slot::{RoomId, SocketId};
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Followers {
    tickets: HashMap<(RoomId, SocketId), u64>,
    given: u64,
}

impl Followers {
    /// A member waits from now on. The answer must show this ticket.
    pub(super) fn came(&mut self, room: RoomId, socket: SocketId) -> u64 {
        self.given += 1;
        self.tickets.insert((room, socket), self.given);
        self.given
    }

    pub(super) fn went(&mut self, room: RoomId, socket: SocketId) {
        self.tickets.remove(&(room, socket));
    }

    /// The ticket that it waits with.
    pub(super) fn ticket(&self, room: RoomId, socket: SocketId) -> Option<u64> {
        self.tickets.get(&(room, socket)).copied()
    }

    /// The sockets that wait, each as often as it does.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = SocketId> {
        self.tickets.keys().map(|(_, socket)| *socket)
    }
}
