//! Owns the words of the plain protocol: JSON objects whose first key is `type`. A server may
//! write its keys in any order, so a message that begins otherwise is read as JSON.

use super::{Heard, Say, find, leading_number, push_decimal, push_quoted, until_quote};

const TYPE: &[u8] = b"{\"type\":\"";
const PAYLOAD: &[u8] = b"\"payload\"";

pub fn hear(message: &[u8]) -> Heard<'_> {
    let Some(rest) = message.strip_prefix(TYPE) else {
        return hear_whole(message);
    };
    let Some(name) = until_quote(rest) else {
        return Heard::Nothing;
    };
    if name == b"error" {
        return hear_whole(message);
    }
    let behind = &rest[name.len()..];
    // An id stands in front of the payload, if at all: what a payload holds is not looked at.
    let head = &behind[..find(behind, PAYLOAD).unwrap_or(behind.len())];
    let id_at = find(head, b"\"id\":").map(|at| at + 5);
    let id = id_at.map(|at| {
        let digits = head[at..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        &head[at..at + digits]
    });
    match (name, id.and_then(leading_number)) {
        (b"ack", Some(id)) => Heard::Ack(id),
        _ => Heard::Event { name, id },
    }
}

/// Up to the payload, if the type stands in front.
pub fn envelope_len(message: &[u8]) -> Option<usize> {
    let payload_at = find(message, PAYLOAD).filter(|_| message.starts_with(TYPE))?;
    Some(payload_at + PAYLOAD.len())
}

/// An error, or a message whose first key is not `type`.
#[derive(serde::Deserialize)]
struct Whole<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: &'a str,
    #[serde(borrow, default)]
    id: Option<&'a serde_json::value::RawValue>,
    #[serde(borrow, default)]
    error: &'a str,
}

#[cold]
fn hear_whole(message: &[u8]) -> Heard<'_> {
    let Ok(Whole { kind, id, error }) = serde_json::from_slice(message) else {
        return Heard::Nothing;
    };
    let id = id.map(|id| id.get().as_bytes());
    match (kind, id.and_then(leading_number)) {
        ("" | "error", _) if !error.is_empty() => Heard::Complaint(error.as_bytes()),
        ("", _) => Heard::Nothing,
        ("ack", Some(id)) => Heard::Ack(id),
        _ => Heard::Event {
            name: kind.as_bytes(),
            id,
        },
    }
}

pub fn say(out: &mut Vec<u8>, what: Say<'_>) {
    match what {
        // There is no greeting, and heartbeats are WebSocket's own.
        Say::Hello { .. } | Say::Pong => {}
        Say::Join { id, room } => push_request(out, "join", id, room),
        Say::Leave { id, room } => push_request(out, "leave", id, room),
        Say::Emit {
            id,
            event,
            room,
            body,
        } => {
            out.extend_from_slice(TYPE);
            out.extend_from_slice(event.as_bytes());
            out.push(b'"');
            if let Some(room) = room {
                out.extend_from_slice(b",\"room\":");
                push_quoted(out, room);
            }
            if let Some(id) = id {
                out.extend_from_slice(b",\"id\":");
                push_decimal(out, id);
            }
            out.extend_from_slice(b",\"payload\":");
            out.extend_from_slice(if body.is_empty() { b"null" } else { body });
            out.push(b'}');
        }
        Say::Ack { id } => {
            out.extend_from_slice(b"{\"type\":\"ack\",\"id\":");
            out.extend_from_slice(id);
            out.extend_from_slice(b",\"payload\":null}");
        }
    }
}

fn push_request(out: &mut Vec<u8>, verb: &str, id: u32, room: &str) {
    out.extend_from_slice(TYPE);
    out.extend_from_slice(verb.as_bytes());
    out.extend_from_slice(b"\",\"room\":");
    push_quoted(out, room);
    out.extend_from_slice(b",\"id\":");
    push_decimal(out, id);
    out.push(b'}');
}
