//! Which clients may publish to which room.

use crate::forbidden::Forbidden;
use hub::Member;

/// A token that speaks of rooms must speak of this one.
pub(crate) fn granted(socket: &Member<'_>, room: &str) -> Result<(), Forbidden> {
    match socket.grants() {
        Some(grants) if !grants.may_publish(room) => Err(Forbidden::NotGranted),
        _ => Ok(()),
    }
}

/// Members may publish to a room; a token may say that others may, too, or that members may not. The room of a socket's id is
/// that client's alone, whatever a token says.
pub(crate) fn may_publish(socket: &mut Member<'_>, room: &str) -> Result<(), Forbidden> {
    if socket.is_in(room) {
        return granted(socket, room);
    }
    let grants = socket.grants();
    if grants.is_some_and(|grants| grants.may_publish(room)) && !socket.cx().is_socket_id(room) {
        return Ok(());
    }
    Err(Forbidden::NotInRoom)
}
