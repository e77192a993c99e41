//! Rooms of a shard, and what is kept beside them. The directory knows the other shards.

mod members;

use crate::clients::people::People;
use crate::rooms::arrivals::Arrivals;
use crate::rooms::busy::Busy;
use crate::rooms::changes::Changes;
use crate::rooms::elsewhere::Elsewhere;
use crate::rooms::followers::Followers;
use crate::rooms::history::HistoryTap;
use crate::rooms::log::Log;
use crate::rooms::presence::Rolls;
pub(crate) use crate::rooms::table::Room;
pub use crate::rooms::table::RoomKind;
use crate::rooms::table::RoomTable;
use crate::rooms::tap::Tap;
use crate::tables::repeats::Repeats;
use crate::tables::slot::{RoomId, SocketId};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Rooms {
    pub(crate) table: RoomTable,
    pub(crate) changes: Changes,
    pub(crate) followers: Followers,
    pub(crate) elsewhere: Elsewhere,
    pub(crate) rolls: Rolls,
    pub(crate) arrivals: Arrivals,
    pub(crate) busy: Busy,
    pub(crate) kept: Log,
    /// Commands of buses whose events were said here.
    pub(crate) repeats: Repeats,
    /// Copies events for programs outside.
    pub(crate) tap: Option<Arc<Tap>>,
    pub(crate) history_tap: Option<Arc<HistoryTap>>,
}

impl Rooms {
    pub(crate) fn new(table: RoomTable, kept: Log) -> Self {
        Self {
            table,
            changes: Changes::default(),
            followers: Followers::default(),
            elsewhere: Elsewhere::default(),
            rolls: Rolls::default(),
            arrivals: Arrivals::default(),
            busy: Busy::default(),
            kept,
            repeats: Repeats::default(),
            tap: None,
            history_tap: None,
        }
    }

    /// Other nodes are told how many members rooms have here, or who they are.
    pub(crate) fn tells_nodes(&self) -> bool {
        self.elsewhere.is_wanted() || self.rolls.is_on()
    }

    /// Something that a node said was missed: rooms tell all nodes what they have, and ask them for the same.
    pub(crate) fn tell_all_again(&mut self) {
        let rooms: Vec<RoomId> = self.table.iter().map(|(room, _)| room).collect();
        for room in rooms {
            self.changes.tell_again(&mut self.table, room, true);
        }
        self.rolls.tell_all_again();
    }

    /// Members came over from another process: nobody is told of them.
    pub(crate) fn forget_changes(&mut self) {
        self.changes.forget(&mut self.table, &self.rolls);
    }

    /// Whether a socket waits for the history of a room.
    pub(crate) fn follows(&self, people: &People, socket: SocketId) -> bool {
        let own = people.sockets.get(socket);
        let mut rooms = own.into_iter().flat_map(|own| &own.rooms);
        rooms.any(|own| self.followers.ticket(own.room, socket).is_some())
    }

    /// Bytes of the tables; what a room owns is counted with the room.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.table.heap_bytes()
            + self.changes.heap_bytes()
            + self.elsewhere.heap_bytes()
            + self.rolls.heap_bytes()
            + self.arrivals.heap_bytes()
            + self.busy.heap_bytes()
    }
}
