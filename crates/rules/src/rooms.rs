//! `join` and `leave` by clients.

use crate::book::Namespace;
use hub::{AckTo, Context, Event, JoinError, Member};
use std::borrow::Cow;
use wire::json;

/// The room that a client names. Half of a pair of surrogates is no character: rooms with such names would be one.
pub(crate) fn named(raw: Option<&str>) -> Result<Cow<'_, str>, &'static str> {
    let text = raw.filter(|raw| raw.starts_with('"'));
    let text = text.ok_or("Room must be a string")?;
    json::unquote_name(text).ok_or("Invalid room name")
}

/// `join` by a client; the ack repeats the room, and costs as much as the question, however many rooms there are.
pub(crate) fn join(socket: &mut Member<'_>, event: Event<'_>, rules: &Namespace) {
    let room = match named(json::first(event.args)) {
        Ok(room) => room,
        Err(why) => return socket.refuse(event.ack, why, "INVALID_ROOM"),
    };
    if socket.cx().is_socket_id(&room) && socket.id().is_none_or(|id| id.to_string() != *room) {
        // Else it would hear what is meant for that client alone, and could speak to it alone.
        return socket.refuse(event.ack, "Invalid room name", "INVALID_ROOM");
    }
    let grants = socket.grants();
    if grants.is_some_and(|grants| !grants.may_join(&room)) {
        let message = "Not allowed to join that room";
        return socket.refuse(event.ack, message, "FORBIDDEN");
    }
    // A member has had everything since it came.
    let comes = !socket.is_in(&room);
    if let Err(error) = socket.join_as_client(&room) {
        let (message, code) = match error {
            JoinError::TooManyRooms => ("Too many rooms", "TOO_MANY_ROOMS"),
            JoinError::BadName | JoinError::Gone => ("Invalid room name", "INVALID_ROOM"),
        };
        return socket.refuse(event.ack, message, code);
    }
    if comes && rules.history && rules.replays.spend(socket) {
        socket.replay(&room);
    }
    answer(&mut socket.cx(), event, &room);
}

/// `leave` by a client, likewise. A name that no room can have was never joined.
pub(crate) fn leave(socket: &mut Member<'_>, event: Event<'_>) {
    let room = match named(json::first(event.args)) {
        Ok(room) => room,
        Err(why) => return socket.refuse(event.ack, why, "INVALID_ROOM"),
    };
    // Operators name a client by the room of its own id, for example to put it out.
    let is_own = socket.id().is_some_and(|id| id.to_string() == *room);
    if is_own || !socket.cx().is_room_name(&room) || room.contains('\0') {
        return socket.refuse(event.ack, "Invalid room name", "INVALID_ROOM");
    }
    socket.leave(&room);
    answer(&mut socket.cx(), event, &room);
}

/// The room that a member asks about, by an event `{room, …}` with an ack. `None`: it was refused.
pub(crate) fn asked<'a>(
    socket: &mut Member<'_>,
    event: Event<'a>,
) -> Option<(Cow<'a, str>, AckTo)> {
    let wanted = json::first(event.args).unwrap_or("null");
    let room = named(json::member(wanted, "\"room\""));
    let (ack, message, code) = match (room, event.ack) {
        (Err(why), ack) => (ack, why, "INVALID_ROOM"),
        (Ok(_), None) => (None, "The answer needs an ack", "ACK_NEEDED"),
        (Ok(room), Some(ack)) if !socket.is_in(&room) => {
            (Some(ack), "Not in that room", "NOT_IN_ROOM")
        }
        (Ok(room), Some(ack)) => return Some((room, ack)),
    };
    socket.refuse(ack, message, code);
    None
}

fn answer(cx: &mut Context<'_>, event: Event<'_>, room: &str) {
    if let Some(ack) = event.ack {
        let mut args = b"[".to_vec();
        json::quote(&mut args, room);
        args.push(b']');
        cx.ack(ack, &String::from_utf8_lossy(&args), &[]);
    }
}

/// The first time nothing is booked, which would cost each session memory: only a session that left a namespace can come again
/// and again.
pub(crate) fn may_replay_on_connect(socket: &mut Member<'_>, rules: &Namespace) -> bool {
    socket.is_newcomer() || rules.replays.spend(socket)
}
