//! Owns the words of Centrifugo's client protocol, JSON, version 2: commands with an id, replies
//! with the same one, pushes without. A frame may hold several, one a line; `{}` is a heartbeat.
//!
//! Channels have no event names, so an event travels as `{"event":name,"body":…}`. Publishing is
//! what sends to a room, and the server sends it to the publisher as well; an event to no room is
//! a remote procedure call.

use super::{Heard, Say, find, leading_number, push_decimal, push_quoted, until_quote};

const CONNECT_ID: u32 = 1;
/// Of publications whose reply nobody waits for: a command without an id would not be carried out.
const UNASKED_ID: u32 = 2;
/// Ids of users begin at 0, those of commands behind the fixed ones.
const FIRST_ID: u32 = 3;

/// Reads one line of a frame.
pub fn hear(line: &[u8]) -> Heard<'_> {
    if line == b"{}" {
        return Heard::Ping;
    }
    if let Some(push) = line.strip_prefix(b"{\"push\":{") {
        return heard_push(push);
    }
    let Some(rest) = line.strip_prefix(b"{\"id\":") else {
        return Heard::Nothing;
    };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let result = &rest[digits..];
    let error = result.starts_with(b",\"error\":");
    match leading_number(rest) {
        Some(CONNECT_ID) if error => Heard::Refused(error_text(result)),
        Some(CONNECT_ID) if result.starts_with(b",\"connect\":") => Heard::Connected,
        Some(_) if error => Heard::Complaint(error_text(result)),
        Some(id) if id >= FIRST_ID => Heard::Ack(id - FIRST_ID),
        _ => Heard::Nothing,
    }
}

/// A publication; joins, leaves and the like are not counted.
fn heard_push(push: &[u8]) -> Heard<'_> {
    const EVENT: &[u8] = b"\"data\":{\"event\":\"";
    if push.starts_with(b"\"disconnect\":") {
        return Heard::Bye;
    }
    let name = find(push, EVENT).and_then(|at| until_quote(&push[at + EVENT.len()..]));
    match name {
        Some(name) => Heard::Event { name, id: None },
        None => Heard::Nothing,
    }
}

fn error_text(result: &[u8]) -> &[u8] {
    const MESSAGE: &[u8] = b"\"message\":\"";
    let at = find(result, MESSAGE).map(|at| at + MESSAGE.len());
    at.and_then(|at| until_quote(&result[at..]))
        .unwrap_or(b"error")
}

pub fn say(out: &mut Vec<u8>, what: Say<'_>) {
    match what {
        Say::Hello { auth } => {
            push_command(out, CONNECT_ID, b"connect");
            if let Some(token) = auth {
                out.extend_from_slice(b"\"token\":");
                push_quoted(out, token);
            }
            out.extend_from_slice(b"}}");
        }
        Say::Pong => out.extend_from_slice(b"{}"),
        Say::Join { id, room } => push_channel(out, id, b"subscribe", room),
        Say::Leave { id, room } => push_channel(out, id, b"unsubscribe", room),
        Say::Emit {
            id,
            event,
            room,
            body,
        } => push_emit(out, id, event, room, body),
        // The server asks nothing, and a close frame is its farewell.
        Say::Ack { .. } => {}
    }
}

fn push_emit(out: &mut Vec<u8>, id: Option<u32>, event: &str, room: Option<&str>, body: &[u8]) {
    let id = id.map_or(UNASKED_ID, |id| id.saturating_add(FIRST_ID));
    match room {
        Some(room) => {
            push_command(out, id, b"publish");
            out.extend_from_slice(b"\"channel\":");
            push_quoted(out, room);
        }
        None => {
            push_command(out, id, b"rpc");
            out.extend_from_slice(b"\"method\":");
            push_quoted(out, event);
        }
    }
    out.extend_from_slice(b",\"data\":{\"event\":");
    push_quoted(out, event);
    out.extend_from_slice(b",\"body\":");
    out.extend_from_slice(if body.is_empty() { b"null" } else { body });
    out.extend_from_slice(b"}}}");
}

fn push_channel(out: &mut Vec<u8>, id: u32, verb: &[u8], room: &str) {
    push_command(out, id.saturating_add(FIRST_ID), verb);
    out.extend_from_slice(b"\"channel\":");
    push_quoted(out, room);
    out.extend_from_slice(b"}}");
}

/// Up to the brace behind which the command's own fields stand.
fn push_command(out: &mut Vec<u8>, id: u32, verb: &[u8]) {
    out.extend_from_slice(b"{\"id\":");
    push_decimal(out, id);
    out.extend_from_slice(b",\"");
    out.extend_from_slice(verb);
    out.extend_from_slice(b"\":{");
}
