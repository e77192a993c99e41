//! What is done to all sockets of a target, on this shard and elsewhere.

use crate::cluster::letter::{Address, Order, Target};
use crate::cluster::send;
use crate::cluster::wire::Ask;
use crate::life::ending;
use crate::parts::Parts;

pub(crate) fn join_selected(parts: &mut Parts, of: &Target<'_>, rooms: &[&str]) {
    for index in parts.rooms.select(&mut parts.people, of) {
        for room in rooms {
            // A refused room is counted; there is nobody to tell.
            let _ = parts
                .rooms
                .join(&mut parts.people, &mut parts.books, index, room);
        }
    }
}

pub(crate) fn leave_selected(parts: &mut Parts, of: &Target<'_>, rooms: &[&str]) {
    for index in parts.rooms.select(&mut parts.people, of) {
        rooms
            .iter()
            .for_each(|room| parts.rooms.leave(&mut parts.people, index, room));
    }
}

/// Ends the memberships of all sockets of a target, wherever they are; with `close` their sessions.
pub(crate) fn disconnect_all(parts: &mut Parts, of: &Target<'_>, close: bool) {
    let shards = send::shards_of(parts, of);
    if !shards.is_empty() {
        let of = Address::from(of);
        send::send_all(parts, shards, Order::Disconnect { of, close });
    }
    send::send_away(parts, of, Ask::Disconnect { close });
    ending::disconnect_selected(parts, of, close);
}
