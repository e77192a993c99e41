//! `join` and `leave` by clients, and who may publish to which room.

use crate::book::Namespace;
use crate::handler::refuse;
use hub::{Context, Event, JoinError, Publication, Reach, SocketKey};
use wire::json;

/// Why an event goes to no room, or not to all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// The client is not in that room, and no token lets it speak there all the same.
    NotInRoom,
    /// The client's token speaks of rooms, and not of that one.
    NotGranted,
    /// Other nodes cannot be reached.
    OnlyHere,
}

impl Forbidden {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::NotInRoom => "Not in that room",
            Self::NotGranted => "Not allowed to publish to that room",
            Self::OnlyHere => "Other nodes cannot be reached: only clients of this node got it",
        }
    }

    pub(crate) fn code(self) -> &'static str {
        match self {
            Self::NotInRoom => "NOT_IN_ROOM",
            Self::NotGranted => "FORBIDDEN",
            Self::OnlyHere => "CLUSTER_UNAVAILABLE",
        }
    }
}

/// Publishes for a client, who must be told if other nodes do not get it.
pub(crate) fn publish(
    cx: &mut Context<'_>,
    publication: &Publication<'_>,
) -> Result<(), Forbidden> {
    match cx.publish(publication) {
        Reach::Everyone => Ok(()),
        Reach::ThisNode => Err(Forbidden::OnlyHere),
    }
}

/// A token that speaks of rooms must speak of this one.
pub(crate) fn granted(cx: &Context<'_>, socket: SocketKey, room: &str) -> Result<(), Forbidden> {
    match cx.grants(socket) {
        Some(grants) if !grants.may_publish(room) => Err(Forbidden::NotGranted),
        _ => Ok(()),
    }
}

/// Members may publish to a room; a token may say that others may, too, or that members may not. The room of a socket's id is
/// that client's alone, whatever a token says.
pub(crate) fn may_publish(
    cx: &Context<'_>,
    socket: SocketKey,
    room: &str,
) -> Result<(), Forbidden> {
    if cx.is_in(socket, room) {
        return granted(cx, socket, room);
    }
    let grants = cx.grants(socket);
    if grants.is_some_and(|grants| grants.may_publish(room)) && !cx.is_socket_id(room) {
        return Ok(());
    }
    Err(Forbidden::NotInRoom)
}

/// `join` by a client; the ack repeats the room, and costs as much as the question, however many rooms there are.
pub(crate) fn join(cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>, rules: &Namespace) {
    let Some(room) = json::first(event.args).and_then(json::unquote) else {
        return refuse(cx, socket, event, "Room must be a string", "INVALID_ROOM");
    };
    if cx.is_socket_id(&room) && cx.id(socket).is_none_or(|id| id.to_string() != *room) {
        // Else it would hear what is meant for that client alone, and could speak to it alone.
        return refuse(cx, socket, event, "Invalid room name", "INVALID_ROOM");
    }
    let grants = cx.grants(socket);
    if grants.is_some_and(|grants| !grants.may_join(&room)) {
        let message = "Not allowed to join that room";
        return refuse(cx, socket, event, message, "FORBIDDEN");
    }
    // A member has had everything since it came.
    let comes = !cx.is_in(socket, &room);
    if let Err(error) = cx.join_as_client(socket, &room) {
        let (message, code) = match error {
            JoinError::TooManyRooms => ("Too many rooms", "TOO_MANY_ROOMS"),
            JoinError::BadName | JoinError::Gone => ("Invalid room name", "INVALID_ROOM"),
        };
        return refuse(cx, socket, event, message, code);
    }
    if comes && rules.history && may_replay(cx, socket, rules) {
        cx.replay(socket, &room);
    }
    answer(cx, event, &room);
}

/// `leave` by a client, likewise. A name that no room can have was never joined.
pub(crate) fn leave(cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
    let Some(room) = json::first(event.args).and_then(json::unquote) else {
        return refuse(cx, socket, event, "Room must be a string", "INVALID_ROOM");
    };
    if !cx.is_room_name(&room) || room.contains('\0') {
        return refuse(cx, socket, event, "Invalid room name", "INVALID_ROOM");
    }
    cx.leave(socket, &room);
    answer(cx, event, &room);
}

fn answer(cx: &mut Context<'_>, event: Event<'_>, room: &str) {
    if let Some(ack) = event.ack {
        let mut args = b"[".to_vec();
        json::quote(&mut args, room);
        args.push(b']');
        cx.ack(ack, &String::from_utf8_lossy(&args), &[]);
    }
}

fn may_replay(cx: &mut Context<'_>, socket: SocketKey, rules: &Namespace) -> bool {
    cx.spend(socket, &rules.replays)
}

/// The first time nothing is booked, which would cost each session memory: only a session that left a namespace can come again
/// and again.
pub(crate) fn may_replay_on_connect(
    cx: &mut Context<'_>,
    socket: SocketKey,
    rules: &Namespace,
) -> bool {
    cx.is_newcomer(socket) || may_replay(cx, socket, rules)
}
