//! What is done to all sockets of a target, on this shard and elsewhere.

use crate::clients::people::People;
use crate::cluster::letter::{Address, Order, Target, owned};
use crate::cluster::send::{self, Reach};
use crate::cluster::wire::Ask;
use crate::life::{deeds, ending, memberships, parking};
use crate::parts::Parts;
use crate::recovery::journal::Action;
use crate::rooms::membership::JoinError;
use crate::seam::told::Told;
use crate::tables::slot::SocketId;

/// Lets the sockets of a target that are here join rooms. `by`: what the handler is told with the news of it.
pub(crate) fn join_selected(parts: &mut Parts, of: &Target<'_>, rooms: &[&str], by: u64) {
    parking::command(parts, of, || Action::Join(boxed(rooms)));
    for index in parts.rooms.select(&mut parts.people, of) {
        for room in rooms {
            // A second join is no error and no news: only the number of rooms tells.
            let before = count(&parts.people, index);
            let joined = memberships::join(parts, index, room);
            if count(&parts.people, index) != before {
                tell(parts, index, room, true, by);
            }
            // The asker believes that the socket is in the room.
            if by != 0 && matches!(joined, Err(JoinError::TooManyRooms | JoinError::BadName)) {
                tell(parts, index, room, false, 0);
            }
        }
    }
}

pub(crate) fn leave_selected(parts: &mut Parts, of: &Target<'_>, rooms: &[&str], by: u64) {
    parking::command(parts, of, || Action::Leave(boxed(rooms)));
    for index in parts.rooms.select(&mut parts.people, of) {
        for room in rooms {
            let before = count(&parts.people, index);
            memberships::leave(parts, index, room);
            if count(&parts.people, index) != before {
                tell(parts, index, room, false, by);
            }
        }
    }
}

fn boxed(rooms: &[&str]) -> Vec<Box<str>> {
    rooms.iter().map(|room| Box::from(*room)).collect()
}

fn count(people: &People, index: SocketId) -> Option<usize> {
    let socket = people.sockets.get(index);
    socket.map(|socket| socket.rooms.len())
}

fn tell(parts: &mut Parts, index: SocketId, room: &str, joined: bool, by: u64) {
    let socket = parts.people.sockets.key(index);
    parts.outbound.tell_if_watching(|| Told::Moved {
        socket,
        room: room.into(),
        joined,
        by,
    });
}

/// Tells the other shards and nodes that have sockets of a target.
fn elsewhere(
    parts: &mut Parts,
    of: &Target<'_>,
    ask: Ask<'_>,
    order: impl FnOnce(&Parts, Address) -> Order,
) -> Reach {
    let shards = send::shards_of(parts, of);
    if !shards.is_empty() {
        let order = order(parts, Address::from(of));
        send::send_all(parts, shards, order);
    }
    // The stream has the order for sockets that are nowhere now. Nodes tell each other besides (ADR 62).
    let reach = deeds::order(parts, of, ask);
    reach.and(send::send_away(parts, of, ask))
}

/// Lets all sockets of a target join rooms, wherever they are.
pub(crate) fn join_all(parts: &mut Parts, of: &Target<'_>, rooms: &[&str]) -> Reach {
    let namespace = of.namespace;
    let reach = elsewhere(parts, of, Ask::Join(rooms), |parts, of| Order::Join {
        of,
        rooms: owned(rooms),
        expected: parts.rooms.table.expect(namespace, rooms),
    });
    join_selected(parts, of, rooms, 0);
    reach
}

/// Lets all sockets of a target leave rooms, wherever they are.
pub(crate) fn leave_all(parts: &mut Parts, of: &Target<'_>, rooms: &[&str]) -> Reach {
    let reach = elsewhere(parts, of, Ask::Leave(rooms), |_, of| Order::Leave {
        of,
        rooms: owned(rooms),
    });
    leave_selected(parts, of, rooms, 0);
    reach
}

/// Ends the memberships of all sockets of a target, wherever they are; with `close` their sessions.
pub(crate) fn disconnect_all(parts: &mut Parts, of: &Target<'_>, close: bool) -> Reach {
    let ask = Ask::Disconnect { close };
    let reach = elsewhere(parts, of, ask, |_, of| Order::Disconnect { of, close });
    ending::disconnect_selected(parts, of, close);
    reach
}
