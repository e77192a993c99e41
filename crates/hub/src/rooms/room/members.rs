//! Members of a room: they come, follow until they have the room's history, and go.

use super::Rooms;
use crate::clients::socket::{Membership, Socket};
use crate::clients::table::Table;
use crate::tables::slot::{RoomId, SocketId};

impl Rooms {
    pub(crate) fn add_member(
        &mut self,
        sockets: &mut Table<SocketId, Socket>,
        socket: SocketId,
        room: RoomId,
    ) {
        let (Some(slot), Some(member)) = (self.table.get_mut(room), sockets.get_mut(socket)) else {
            return;
        };
        let at = slot.members.len();
        slot.members.push(socket);
        member.rooms.push(Membership {
            room,
            at: at as u32,
        });
        // Members that follow stand last, so the newcomer changes places with the first of them.
        let live = at - slot.following as usize;
        slot.swap(sockets, room, live, at);
        if let Some(card) = &slot.card {
            card.joined();
        }
        self.changes.mark(&mut self.table, room);
    }

    /// Takes a member off a room's list; the last one moves into its place.
    pub(crate) fn remove_member(
        &mut self,
        sockets: &mut Table<SocketId, Socket>,
        membership: Membership,
    ) {
        let Membership { room, at } = membership;
        let Some(slot) = self.table.get_mut(room) else {
            return;
        };
        let (mut at, live) = (at as usize, slot.live());
        debug_assert!(at < slot.members.len(), "{room} has no member {at}");
        if at >= slot.members.len() {
            return;
        }
        // The member moves to the end of the live ones first: the last of all may be one that follows.
        if at < live {
            slot.swap(sockets, room, at, live - 1);
            at = live - 1;
        } else {
            slot.following -= 1;
            self.followers.went(room, slot.members[at]);
        }
        self.arrivals.went(room, slot.members[at]);
        let last = slot.members.len() - 1;
        slot.swap(sockets, room, at, last);
        slot.members.pop();
        if slot.members.len() < slot.members.capacity() / 4 {
            slot.members.shrink_to(slot.members.len() * 2);
        }
        if let Some(card) = &slot.card {
            card.left();
        }
        self.changes.mark(&mut self.table, room);
    }

    /// A member waits for the room's history from now on. The answer must show this ticket.
    pub(crate) fn follow(
        &mut self,
        sockets: &mut Table<SocketId, Socket>,
        socket: SocketId,
        room: RoomId,
    ) -> Option<u64> {
        let member = sockets.get(socket)?;
        let at = member.rooms.iter().find(|own| own.room == room)?.at as usize;
        let slot = self.table.get_mut(room)?;
        let live = slot.live();
        if at < live {
            slot.swap(sockets, room, at, live - 1);
            slot.following += 1;
        }
        Some(self.followers.came(room, socket))
    }

    /// The history with this ticket is there; `false` if the member does not wait for it.
    pub(crate) fn caught_up(
        &mut self,
        sockets: &mut Table<SocketId, Socket>,
        socket: SocketId,
        room: RoomId,
        ticket: u64,
    ) -> bool {
        let waits = self.followers.ticket(room, socket) == Some(ticket);
        let member = sockets.get(socket).filter(|_| waits);
        let own = member.and_then(|member| member.rooms.iter().find(|own| own.room == room));
        let (Some(at), Some(slot)) = (own.map(|own| own.at as usize), self.table.get_mut(room))
        else {
            return false;
        };
        self.followers.went(room, socket);
        let live = slot.live();
        debug_assert!(at >= live, "{socket} does not follow {room}");
        slot.swap(sockets, room, at, live);
        slot.following -= 1;
        true
    }
}
