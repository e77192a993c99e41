//! What is done to all sockets of a target on this shard.

use crate::cluster::letter::Target;
use crate::parts::Parts;
use crate::rooms::room::RoomKind;

pub(crate) fn join_selected(parts: &mut Parts, of: &Target<'_>, rooms: &[&str]) {
    for index in parts.select(of) {
        for room in rooms {
            // A refused room is counted; there is nobody to tell.
            let _ = parts.join(index, RoomKind::Named, room);
        }
    }
}

pub(crate) fn leave_selected(parts: &mut Parts, of: &Target<'_>, rooms: &[&str]) {
    for index in parts.select(of) {
        rooms.iter().for_each(|room| parts.leave(index, room));
    }
}
