//! What of an outbox may be dropped, and only as a whole: a frame, or an event's frame with its attachments' frames.

use crate::output::compression;
use wire::websocket::deflate::Inflater;
use wire::websocket::frame;

/// Length of the units at the front that `room` holds, and of one more if that is less than all.
pub(crate) fn units_within(bytes: &[u8], room: usize) -> usize {
    if bytes.len() <= room {
        return bytes.len();
    }
    let mut len = 0;
    while len <= room && len < bytes.len() {
        len += unit(&bytes[len..]).0;
    }
    len
}

/// Bytes that finish the unit in which `cut` falls; 0 when it falls between units.
pub(crate) fn unit_rest(bytes: &[u8], cut: usize) -> usize {
    let mut at = 0;
    while at < cut && at < bytes.len() {
        at += unit(&bytes[at..]).0;
    }
    at - cut.min(at)
}

/// Length of the unit at the front (a frame, or an event's frame with its attachments' frames), and whether it may be dropped.
/// Bytes that are not WebSocket frames (an HTTP response before the upgrade) are one unit that stays. A compressed frame is a
/// unit of its own; [`compressed_event`] knows more of it.
pub(crate) fn unit(bytes: &[u8]) -> (usize, bool) {
    let Some((len, header)) = frame_len(bytes) else {
        return (bytes.len(), false);
    };
    if header.rsv1 {
        return (len, false);
    }
    let payload = &bytes[header.len..len];
    let attachments = match (header.opcode, payload) {
        (frame::OpCode::Text, [b'4', b'5' | b'6', rest @ ..]) => leading_number(rest),
        _ => 0,
    };
    let mut total = len;
    for _ in 0..attachments {
        match frame_len(&bytes[total..]) {
            Some((next, _)) => total += next,
            None => return (bytes.len(), false),
        }
    }
    (total, is_event(header.opcode, payload))
}

/// Of a message, by its beginning: neither an answer nor of the protocol itself.
fn is_event(opcode: frame::OpCode, payload: &[u8]) -> bool {
    match (opcode, payload) {
        (frame::OpCode::Text, [b'{', rest @ ..]) => !rest.starts_with(br#""type":"ack""#),
        (frame::OpCode::Text, _) => matches!(payload, [b'4', b'2' | b'5', ..]),
        // The map's first member, behind one byte that says how many it has.
        (frame::OpCode::Binary, _) => !payload
            .get(1..)
            .is_some_and(|map| map.starts_with(b"\xa4type\xa3ack")),
        _ => false,
    }
}

/// A compressed frame that may be dropped. Nothing refers to it: connections that keep a window do not drop.
pub(crate) fn compressed_event(inflater: &mut Inflater, bytes: &[u8]) -> bool {
    compression::peek(inflater, bytes)
        .is_some_and(|(opcode, beginning)| !beginning.is_empty() && is_event(opcode, &beginning))
}

fn frame_len(bytes: &[u8]) -> Option<(usize, frame::Header)> {
    let header = frame::parse_header(bytes).ok()??;
    let len = header.len + usize::try_from(header.payload_len).ok()?;
    (len <= bytes.len()).then_some((len, header))
}

fn leading_number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take_while(|b| b.is_ascii_digit())
        .fold(0usize, |n, b| {
            n.saturating_mul(10).saturating_add((b - b'0').into())
        })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use frame::OpCode;

    pub(crate) fn framed(texts: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        for text in texts {
            frame::write_frame(&mut out, OpCode::Text, text.as_bytes());
        }
        out
    }

    #[test]
    fn answers_to_plain_clients_are_kept() {
        for (text, droppable) in [
            (r#"{"type":"ack","id":1,"payload":null}"#, false),
            (r#"{"type":"chat","payload":null}"#, true),
        ] {
            assert_eq!(unit(&framed(&[text])).1, droppable, "{text}");
        }
        for (body, droppable) in [
            (&b"\x83\xa4type\xa3ack\xa2id\x01\xa7payload\xc0"[..], false),
            (b"\x82\xa4type\xa4chat\xa7payload\xc0", true),
        ] {
            let mut bytes = Vec::new();
            frame::write_frame(&mut bytes, OpCode::Binary, body);
            assert_eq!(unit(&bytes).1, droppable, "{body:?}");
        }
    }

    #[test]
    fn an_event_and_its_attachments_are_one_unit() {
        let mut bytes = framed(&["451-[\"e\",{\"_placeholder\":true,\"num\":0}]"]);
        frame::write_frame(&mut bytes, OpCode::Binary, &[1, 2, 3]);
        let whole = bytes.len();
        bytes.extend(framed(&["42[1]"]));
        assert_eq!(unit(&bytes), (whole, true));
    }
}
