//! Owns Socket.IO's words: Engine.IO 4 packet digit, then Socket.IO 5 packet.

use super::{Heard, Say, find, leading_number, push_decimal, push_quoted, until_quote};
use crate::scenario::Endpoint;

pub fn hear(message: &[u8]) -> Heard<'_> {
    match message {
        [b'4', b'2', rest @ ..] => event(rest),
        [b'4', b'3', rest @ ..] => match leading_number(behind_namespace(rest)) {
            Some(id) => Heard::Ack(id),
            None => Heard::Nothing,
        },
        [b'2'] => Heard::Ping,
        [b'3', ..] => Heard::Pong,
        [b'0', rest @ ..] => Heard::Open {
            sid: text_field(rest, b"\"sid\":\""),
        },
        [b'4', b'0', ..] => Heard::Connected,
        [b'4', b'4', rest @ ..] => Heard::Refused(text_field(rest, b"\"message\":\"")),
        [b'4', b'1', ..] | [b'1', ..] => Heard::Bye,
        _ => Heard::Nothing,
    }
}

fn event(rest: &[u8]) -> Heard<'_> {
    let rest = behind_namespace(rest);
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (id, data) = rest.split_at(digits);
    match data.strip_prefix(b"[\"").and_then(until_quote) {
        Some(name) => Heard::Event {
            name,
            id: (digits > 0).then_some(id),
        },
        None => Heard::Nothing,
    }
}

/// A namespace other than `/` stands in front, from its slash to a comma.
fn behind_namespace(rest: &[u8]) -> &[u8] {
    if rest.first() != Some(&b'/') {
        return rest;
    }
    let comma = rest.iter().position(|&byte| byte == b',');
    comma.map_or(&[], |at| &rest[at + 1..])
}

fn text_field<'a>(json: &'a [u8], key: &[u8]) -> &'a [u8] {
    let at = find(json, key).map(|at| at + key.len());
    at.and_then(|at| until_quote(&json[at..]))
        .unwrap_or_default()
}

pub fn say(endpoint: &Endpoint, out: &mut Vec<u8>, what: Say<'_>) {
    match what {
        Say::Hello { auth } => {
            out.extend_from_slice(b"40");
            push_namespace(endpoint, out);
            out.extend_from_slice(auth.unwrap_or_default().as_bytes());
        }
        Say::Pong => out.push(b'3'),
        Say::Join { id, room } => push_request(endpoint, out, id, &endpoint.join_event, room),
        Say::Leave { id, room } => push_request(endpoint, out, id, &endpoint.leave_event, room),
        Say::Emit {
            id, event, body, ..
        } => {
            push_head(endpoint, out, id, event);
            if !body.is_empty() {
                out.push(b',');
                out.extend_from_slice(body);
            }
            out.push(b']');
        }
        Say::Ack { id } => {
            out.extend_from_slice(b"43");
            push_namespace(endpoint, out);
            out.extend_from_slice(id);
            out.extend_from_slice(b"[]");
        }
    }
}

fn push_request(endpoint: &Endpoint, out: &mut Vec<u8>, id: u32, event: &str, room: &str) {
    push_head(endpoint, out, Some(id), event);
    out.push(b',');
    push_quoted(out, room);
    out.push(b']');
}

fn push_head(endpoint: &Endpoint, out: &mut Vec<u8>, id: Option<u32>, event: &str) {
    out.extend_from_slice(b"42");
    push_namespace(endpoint, out);
    if let Some(id) = id {
        push_decimal(out, id);
    }
    out.extend_from_slice(b"[\"");
    out.extend_from_slice(event.as_bytes());
    out.push(b'"');
}

fn push_namespace(endpoint: &Endpoint, out: &mut Vec<u8>) {
    if endpoint.namespace != "/" {
        out.extend_from_slice(endpoint.namespace.as_bytes());
        out.push(b',');
    }
}
