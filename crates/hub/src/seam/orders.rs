//! What is done to all sockets of a target on this shard.

use crate::cluster::letter::Target;
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
