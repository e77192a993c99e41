//! The one way by which a socket comes into rooms and out of them, and becomes a user's. Where clients come back, each change has its
//! place in the journal.

use crate::life::deeds;
use crate::parts::Parts;
use crate::recovery::headings::{Kind, Membership};
use crate::rooms::membership::JoinError;
use crate::rooms::room::RoomKind;
use crate::tables::slot::SocketId;

/// Puts a socket into a room; joining twice is joining once.
pub(crate) fn join(parts: &mut Parts, index: SocketId, name: &str) -> Result<(), JoinError> {
    // A join may be refused, and may be the second: only a change has a place in the journal.
    let was = is_in(parts, index, name);
    let joined = parts
        .rooms
        .join(&mut parts.people, &mut parts.books, index, name);
    let now_ms = parts.clock.now.wall_ms;
    parts.rooms.note_arrival(&parts.people, index, name, now_ms);
    note(parts, index, name, was);
    joined
}

/// Takes a socket out of a room.
pub(crate) fn leave(parts: &mut Parts, index: SocketId, name: &str) {
    let was = is_in(parts, index, name);
    parts.rooms.leave(&mut parts.people, index, name);
    note(parts, index, name, was);
}

/// Makes a socket one of a user's; it stops being another's.
pub(crate) fn set_user(parts: &mut Parts, index: SocketId, name: &str) {
    let before = match parts.recovery {
        Some(_) => parts.people.user_of(index).map(str::to_owned),
        None => None,
    };
    let now_us = parts.clock.now_us();
    let meters = &parts.access.meters;
    meters.set_user(&mut parts.people, now_us, index, name);
    parts.rooms.renamed(&parts.people, index);
    if parts.recovery.is_some() && before.as_deref() != Some(name) {
        if let Some(before) = before {
            change(parts, index, false, Membership::new(Kind::User, &before));
        }
        change(parts, index, true, Membership::new(Kind::User, name));
    }
}

/// Whether a socket that may come back is in a room; `None`: it may not.
fn is_in(parts: &Parts, index: SocketId, name: &str) -> Option<bool> {
    parts.recovery.as_ref()?;
    let socket = parts.people.sockets.get(index)?;
    socket.extra.as_ref()?.lifeline.as_ref()?;
    // On its own shard a socket has no entry for the room by its id, only a flag.
    if name.as_bytes() == socket.id.encode() {
        return Some(!socket.flags.nameless);
    }
    let room = parts
        .rooms
        .table
        .find(socket.namespace, RoomKind::Named, name);
    let mut own = socket.rooms.iter();
    Some(room.is_some_and(|room| own.any(|own| own.room == room)))
}

fn note(parts: &mut Parts, index: SocketId, name: &str, was: Option<bool>) {
    let is = is_in(parts, index, name);
    if let Some(joined) = is
        && was != is
    {
        change(parts, index, joined, Membership::new(Kind::Room, name));
    }
}

fn change(parts: &mut Parts, index: SocketId, joined: bool, member: Membership) {
    let Some(socket) = parts.people.sockets.get(index) else {
        return;
    };
    let extra = socket.extra.as_ref();
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    if extra.is_some_and(|extra| extra.lifeline.is_some())
        && let Some(namespace) = parts.people.namespaces.label(socket.namespace)
    {
        let (now_ms, id) = (parts.clock.now.mono_ms, socket.id.to_string());
        let journal = &mut recovery.journal;
        journal.change(now_ms, (namespace, &id), joined, member.clone());
        let key = parts.people.sockets.key(index);
        deeds::change(parts, key, joined, &member);
    }
}
