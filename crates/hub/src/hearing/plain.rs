//! What clients of the plain protocol say: JSON or MessagePack messages become the same events as Socket.IO packets, and so do
//! frames that are not parsed.

use crate::clients::session::Protocol;
use crate::hearing::{booking, event, plain_resuming};
use crate::seam::event::{Caller, Data, Event};
use crate::seam::member::{About, Member, Rejection};
use crate::seam::stage::Stage;
use crate::tables::slot::SessionId;
use wire::json;
use wire::plain::{self, Incoming, Invalid, raw};

/// A frame that is not parsed becomes an event of this name. Socket.IO's clients use it for `socket.send()`.
pub const RAW_EVENT: &str = "message";

pub(crate) fn on_plain(stage: &mut Stage, session: SessionId, data: Data<'_>) {
    let Some((protocol, from)) = speaker(stage, session) else {
        return plain_resuming::on_first(stage, session, data);
    };
    let incoming = match (protocol, data) {
        (Protocol::PlainMsgpack, Data::Binary(bytes)) => plain::parse_msgpack(bytes),
        (_, Data::Text(text)) => plain::parse_json(text),
        _ => Err(Invalid::default()),
    };
    // A message is read before it is booked: a refusal names the id that it asks by, or that of the question that it answers.
    let (asked, answered) = match &incoming {
        Ok(Incoming::Join { id, .. } | Incoming::Leave { id, .. } | Incoming::Event { id, .. }) => {
            (*id, None)
        }
        Ok(Incoming::Ack { id, .. }) => (None, Some(*id)),
        Err(invalid) if invalid.is_ack => (None, invalid.id),
        Err(invalid) => (invalid.id, None),
    };
    if !booking::within_rates(&mut stage.parts, from, asked) {
        if let Some(id) = answered {
            event::refuse_ack(stage, from, id, booking::OVER_RATE);
        }
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
            Member::new(&mut stage.parts, from.socket).reject(rejection, about);
            if let Some(id) = answered {
                event::refuse_ack(stage, from, id, invalid.message());
            }
        }
    }
}

/// A frame of a client that speaks no protocol: an event of one name with the frame as its argument.
pub(crate) fn on_raw(stage: &mut Stage, session: SessionId, data: Data<'_>) {
    let Some((_, from)) = speaker(stage, session) else {
        return;
    };
    if !booking::within_rates(&mut stage.parts, from, None) {
        return;
    }
    let (mut args, mut attachments) = (Vec::new(), Vec::new());
    match data {
        Data::Text(text) => raw::write_text_argument(&mut args, text),
        Data::Binary(bytes) => {
            raw::write_binary_argument(&mut args);
            attachments.push(bytes.to_vec());
        }
    }
    let said = Event {
        name: RAW_EVENT,
        args: &String::from_utf8_lossy(&args),
        attachments: &attachments,
        room: None,
        ack: None,
    };
    event::on_event(stage, from, said);
}

/// The one socket of a plain session, and what it speaks.
fn speaker(stage: &Stage, session: SessionId) -> Option<(Protocol, Caller)> {
    let people = &stage.parts.people;
    let slot = people.sessions.get(session)?;
    let socket = people.sockets.key(*slot.sockets.first()?);
    Some((slot.language.protocol(), Caller { session, socket }))
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
    event::on_event(stage, from, said);
}
