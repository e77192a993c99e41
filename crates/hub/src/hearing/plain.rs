//! What clients of the plain protocol say: JSON or MessagePack messages become the same events as Socket.IO packets.

use crate::clients::session::Protocol;
use crate::hearing::{booking, event};
use crate::seam::event::{Caller, Data, Event};
use crate::seam::member::{About, Member, Rejection};
use crate::seam::stage::Stage;
use crate::tables::slot::SessionId;
use wire::json;
use wire::plain::{self, Incoming, Invalid};

pub(crate) fn on_plain(stage: &mut Stage, session: SessionId, data: Data<'_>) {
    let Some(slot) = stage.parts.people.sessions.get(session) else {
        return;
    };
    let Some(socket) = slot
        .sockets
        .first()
        .map(|index| stage.parts.people.socket_key(*index))
    else {
        return;
    };
    let incoming = match (slot.protocol, data) {
        (Protocol::PlainMsgpack, Data::Binary(bytes)) => plain::parse_msgpack(bytes),
        (_, Data::Text(text)) => plain::parse_json(text),
        _ => Err(Invalid::default()),
    };
    let asked = match &incoming {
        Ok(Incoming::Join { id, .. } | Incoming::Leave { id, .. } | Incoming::Event { id, .. }) => {
            *id
        }
        Ok(Incoming::Ack { .. }) => None,
        Err(invalid) => invalid.id,
    };
    let from = Caller { session, socket };
    if !booking::within_rates(&mut stage.parts, from, asked) {
        return;
    }
    match &incoming {
        Ok(incoming) => on_incoming(stage, from, incoming),
        Err(invalid) => {
            stage.parts.books.counts.invalid_messages += 1;
            let rejection = Rejection::Refused {
                message: invalid.message(),
                code: "INVALID_MESSAGE_FORMAT",
            };
            let about = About {
                id: invalid.id,
                field: invalid.field,
            };
            Member::new(&mut stage.parts, socket).reject(rejection, about);
        }
    }
}

fn on_incoming(stage: &mut Stage, from: Caller, incoming: &Incoming<'_>) {
    match incoming {
        Incoming::Join { room, id } => on_room_request(stage, from, "join", room, *id),
        Incoming::Leave { room, id } => on_room_request(stage, from, "leave", room, *id),
        Incoming::Event {
            name,
            room,
            args,
            attachments,
            id,
        } => {
            let said = Event {
                name,
                args,
                attachments,
                room: room.as_deref(),
                ack: from.ack(*id),
            };
            event::on_event(stage, from, said);
        }
        Incoming::Ack {
            id,
            args,
            attachments,
        } => event::on_ack(stage, from, *id, args, attachments),
    }
}

/// `join` and `leave` are events with the room's name as argument, as stock Socket.IO clients emit them.
pub(crate) fn on_room_request(
    stage: &mut Stage,
    from: Caller,
    name: &str,
    room: &str,
    id: Option<u64>,
) {
    let mut args = Vec::new();
    json::quote(&mut args, room);
    let args = String::from_utf8_lossy(&args);
    let said = Event {
        name,
        args: &args,
        attachments: &[],
        room: None,
        ack: from.ack(id),
    };
    stage.call(from.session, |handler, cx| {
        handler.event(cx, from.socket, said);
    });
}
