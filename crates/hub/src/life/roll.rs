//! Tells the directory of sockets that changed.

use crate::clients::people::People;
use crate::clients::roll::{Listed, RollWord};
use crate::parts::Parts;
use crate::rooms::room::RoomKind;
use crate::tables::id;
use crate::tables::slot::SocketId;

/// Tells, once in a while, how sockets are that changed, and which are gone.
pub(crate) fn tell(parts: &mut Parts) {
    if !parts.people.roll.is_called() {
        return;
    }
    let Some(telling) = parts.people.roll.begin(parts.clock.now.mono_ms) else {
        return;
    };
    if telling.anew {
        telling.word(RollWord::Anew(parts.ids.me.shard));
        note_all(&mut parts.people);
    }
    // A socket that went may have come back since, so its end is told first.
    for id in &telling.gone {
        telling.word(RollWord::Gone(*id));
    }
    for socket in &telling.changed {
        let Some(slot) = parts.people.sockets.live_mut(*socket) else {
            continue;
        };
        slot.flags.unlisted = false;
        if let Some(listed) = listed(parts, socket.id()) {
            telling.word(RollWord::Here(Box::new(listed)));
        }
    }
}

/// Marks every socket as changed.
#[cold]
fn note_all(people: &mut People) {
    let all = people.sockets.iter().map(|(socket, _)| socket);
    for socket in all.collect::<Vec<_>>() {
        if let Some(slot) = people.sockets.get_mut(socket) {
            slot.flags.unlisted = false;
        }
        people.note_listed(socket);
    }
}

/// What the directory is told of a socket; `None`: it is gone, which is told elsewhere.
fn listed(parts: &Parts, index: SocketId) -> Option<Listed> {
    let slot = parts.people.sockets.get(index)?;
    if slot.flags.gone {
        return None;
    }
    let rooms = slot.rooms.iter().filter_map(|membership| {
        let room = parts.rooms.table.get(membership.room)?;
        (room.kind() == RoomKind::Named).then(|| room.name().clone())
    });
    Some(Listed {
        socket: slot.id,
        namespace: parts.people.namespaces.label(slot.namespace)?.clone(),
        user: parts.people.user_of(index).map(Into::into),
        rooms: rooms.collect(),
        connected_ms: id::socket_made_ms(&slot.id),
    })
}
