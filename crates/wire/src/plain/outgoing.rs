//! What a plain client is told.

use super::{binary, msgpack};
use crate::json;

/// One event to a plain client. `args` are raw elements, `attachments` are referenced by Socket.IO
/// placeholders in them; both were validated before.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// Becomes `type`; `ack` for an answer.
    pub name: &'a str,
    /// Room it was sent to.
    pub room: Option<&'a str>,
    /// Raw arguments.
    pub args: &'a str,
    /// Binary arguments.
    pub attachments: &'a [&'a [u8]],
    /// Ack id: asks for an answer, or names the question.
    pub id: Option<u64>,
}

/// Appends the event as JSON text.
pub fn write_json(out: &mut Vec<u8>, event: &Outgoing<'_>) {
    let mut number = itoa::Buffer::new();
    out.reserve(event.name.len() + event.args.len() + 64);
    out.extend_from_slice(b"{\"type\":");
    json::quote(out, event.name);
    if let Some(room) = event.room {
        out.extend_from_slice(b",\"room\":");
        json::quote(out, room);
    }
    if let Some(id) = event.id {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(number.format(id).as_bytes());
    }
    out.extend_from_slice(b",\"payload\":");
    match json::Elements::bare(event.args).count() {
        0 => out.extend_from_slice(b"null,\"args\":0"),
        1 => binary::embed(out, event.args, event.attachments),
        count => {
            out.push(b'[');
            binary::embed(out, event.args, event.attachments);
            out.extend_from_slice(b"],\"args\":");
            out.extend_from_slice(number.format(count).as_bytes());
        }
    }
    out.push(b'}');
}

/// Appends the event as MessagePack.
pub fn write_msgpack(out: &mut Vec<u8>, event: &Outgoing<'_>) {
    let count = json::Elements::bare(event.args).count();
    let members =
        2 + u32::from(event.room.is_some()) + u32::from(event.id.is_some()) + u32::from(count != 1);
    msgpack::map(out, members);
    msgpack::text(out, "type");
    msgpack::text(out, event.name);
    if let Some(room) = event.room {
        msgpack::text(out, "room");
        msgpack::text(out, room);
    }
    if let Some(id) = event.id {
        msgpack::text(out, "id");
        msgpack::unsigned(out, id);
    }
    msgpack::text(out, "payload");
    match count {
        0 => msgpack::nil(out),
        1 => {}
        _ => msgpack::array(out, u32::try_from(count).unwrap_or(u32::MAX)),
    }
    msgpack::from_json(out, event.args, event.attachments);
    if count != 1 {
        msgpack::text(out, "args");
        msgpack::unsigned(out, count as u64);
    }
}

/// Appends `{"error":"…","timestamp":ms}`, with `"retryAfter":s` if given (seconds).
pub fn write_error_json(
    out: &mut Vec<u8>,
    error: &str,
    timestamp_ms: u64,
    retry_after_s: Option<u64>,
) {
    let mut number = itoa::Buffer::new();
    out.extend_from_slice(b"{\"error\":");
    json::quote(out, error);
    out.extend_from_slice(b",\"timestamp\":");
    out.extend_from_slice(number.format(timestamp_ms).as_bytes());
    if let Some(seconds) = retry_after_s {
        out.extend_from_slice(b",\"retryAfter\":");
        out.extend_from_slice(number.format(seconds).as_bytes());
    }
    out.push(b'}');
}

/// Appends the map of [`write_error_json`] as MessagePack.
pub fn write_error_msgpack(
    out: &mut Vec<u8>,
    error: &str,
    timestamp_ms: u64,
    retry_after_s: Option<u64>,
) {
    msgpack::map(out, 2 + u32::from(retry_after_s.is_some()));
    msgpack::text(out, "error");
    msgpack::text(out, error);
    msgpack::text(out, "timestamp");
    msgpack::unsigned(out, timestamp_ms);
    if let Some(seconds) = retry_after_s {
        msgpack::text(out, "retryAfter");
        msgpack::unsigned(out, seconds);
    }
}
