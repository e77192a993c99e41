//! The slowest rooms of a shard: those for whose members most bytes wait. Nothing is noted for them while events pass: each question walks
//! the sessions.

use crate::bounds::SLOW_ROOMS_MAX;
use crate::clients::line::Line;
use crate::clients::session::Session;
use crate::parts::Parts;
use crate::rooms::room::Room;
use crate::tables::slot::RoomId;
use foldhash::fast::FixedState;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Rooms of one session that are looked at: more would take too long for one turn.
const ROOMS_OF_SESSION: usize = 1_024;

/// What waits for the members of a room that are here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Members for whom something waits.
    pub(crate) behind: u64,
    /// Bytes of all that waits for these clients, whichever room it is of.
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Slow(HashMap<RoomId, Wait, FixedState>);

impl Slow {
    /// Notes what waits for a session with those of its rooms that are wanted; returns how many were looked at.
    pub(crate) fn note(
        &mut self,
        parts: &Parts,
        session: &Session,
        is_wanted: impl Fn(&Room) -> bool,
    ) -> usize {
        let bytes = waiting_bytes(&parts.line, session) as u64;
        if bytes == 0 || session.flags.closing {
            return 0;
        }
        let sockets = session.sockets.iter();
        let sockets = sockets.filter_map(|socket| parts.people.sockets.get(*socket));
        let rooms = sockets.flat_map(|socket| socket.rooms.iter());
        let mut looked = 0;
        for membership in rooms.take(ROOMS_OF_SESSION) {
            looked += 1;
            // The test comes here and not later: rooms that nobody asked for would push out those that are wanted.
            if parts
                .rooms
                .table
                .get(membership.room)
                .is_some_and(&is_wanted)
            {
                self.add(membership.room, bytes);
            }
        }
        looked
    }

    fn add(&mut self, room: RoomId, bytes: u64) {
        let wait = self.0.entry(room).or_default();
        wait.behind += 1;
        wait.bytes += bytes;
        if self.0.len() >= 2 * SLOW_ROOMS_MAX {
            let kept = self.take().into_iter().take(SLOW_ROOMS_MAX);
            self.0 = kept.collect();
        }
    }

    /// The slowest first.
    pub(crate) fn take(&mut self) -> Vec<(RoomId, Wait)> {
        let mut rooms: Vec<_> = std::mem::take(&mut self.0).into_iter().collect();
        // Rooms with equal waits are told in the order of their slots, the same each time.
        rooms.sort_unstable_by_key(|(room, wait)| (Reverse(wait.bytes), *room));
        rooms
    }
}

/// Bytes that wait for a client: the kernel has not taken them, or no poll has.
pub(crate) fn waiting_bytes(line: &Line, session: &Session) -> usize {
    let conn = line.conns.get(session.conn);
    let queue = session.polling.as_ref().map(|polling| &polling.queue);
    conn.map_or(0, |conn| conn.outbox.waiting_bytes()) + queue.map_or(0, |queue| queue.cost())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::slab::Slab;

    #[test]
    fn among_more_rooms_than_are_told_apart_the_slowest_are_kept() {
        let mut slots = Slab::<RoomId, (), ()>::default();
        let rooms: Vec<RoomId> = (0..30_000).map(|_| slots.insert(()).id()).collect();
        let mut slow = Slow::default();
        for (n, room) in rooms.iter().enumerate() {
            slow.add(*room, 1 + n as u64 % 7);
            slow.add(rooms[11], 1_000);
            assert!(slow.0.len() < 2 * SLOW_ROOMS_MAX);
        }
        let slowest = slow.take();
        assert!(slowest.len() < 2 * SLOW_ROOMS_MAX, "{}", slowest.len());
        let (room, wait) = slowest[0];
        assert_eq!((room, wait.behind), (rooms[11], 30_001));
        assert!(slowest.is_sorted_by_key(|(_, wait)| Reverse(wait.bytes)));
        assert!(slow.take().is_empty());
    }
}
