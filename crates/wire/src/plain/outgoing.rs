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
    /// Where its client is then, if it can come back.
    pub offset: Option<&'a str>,
}

/// Appends the event as JSON text.
pub fn write_json(out: &mut Vec<u8>, event: &Outgoing<'_>) {
    let mut number = itoa::Buffer::new();
    out.reserve(event.name.len() + event.args.len() + 64);
    // Most of what is written with an id.
    if event.name == "ack" {
        out.extend_from_slice(b"{\"type\":\"ack\"");
    } else {
        out.extend_from_slice(b"{\"type\":");
        json::quote(out, event.name);
    }
    if let Some(room) = event.room {
        out.extend_from_slice(b",\"room\":");
        json::quote(out, room);
    }
    if let Some(id) = event.id {
        out.extend_from_slice(b",\"id\":");
        out.extend_from_slice(number.format(id).as_bytes());
    }
    if let Some(offset) = event.offset {
        out.extend_from_slice(b",\"offset\":");
        json::quote(out, offset);
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
    let more = [
        event.room.is_some(),
        event.id.is_some(),
        event.offset.is_some(),
        count != 1,
    ];
    msgpack::map(out, 2 + more.into_iter().map(u32::from).sum::<u32>());
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
    if let Some(offset) = event.offset {
        msgpack::text(out, "offset");
        msgpack::text(out, offset);
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

/// Why something a plain client sent was not carried out, or why it is sent off.
#[derive(Clone, Copy, Debug, Default)]
pub struct Error<'a> {
    /// For programs: `RATE_LIMIT_EXCEEDED`.
    pub code: &'a str,
    /// For people.
    pub message: &'a str,
    /// The member of the message that is at fault.
    pub field: Option<&'a str>,
    /// Id of the message that this answers.
    pub id: Option<u64>,
    /// Milliseconds since 1970.
    pub timestamp_ms: u64,
    /// Seconds after which it may be tried again.
    pub retry_after_s: Option<u64>,
}

/// Appends `{"type":"error","error":"…","message":"…","timestamp":ms}`, with `field`, `id` and `retryAfter` (seconds) if given.
pub fn write_error_json(out: &mut Vec<u8>, error: &Error<'_>) {
    let mut number = itoa::Buffer::new();
    out.extend_from_slice(b"{\"type\":\"error\",\"error\":");
    json::quote(out, error.code);
    out.extend_from_slice(b",\"message\":");
    json::quote(out, error.message);
    if let Some(field) = error.field {
        out.extend_from_slice(b",\"field\":");
        json::quote(out, field);
    }
    let numbers = [
        ("id", error.id),
        ("timestamp", Some(error.timestamp_ms)),
        ("retryAfter", error.retry_after_s),
    ];
    for (name, value) in numbers {
        let Some(value) = value else { continue };
        for part in [",\"", name, "\":", number.format(value)] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.push(b'}');
}

/// Appends the map of [`write_error_json`] as MessagePack.
pub fn write_error_msgpack(out: &mut Vec<u8>, error: &Error<'_>) {
    let texts = [
        ("type", Some("error")),
        ("error", Some(error.code)),
        ("message", Some(error.message)),
        ("field", error.field),
    ];
    let numbers = [
        ("id", error.id),
        ("timestamp", Some(error.timestamp_ms)),
        ("retryAfter", error.retry_after_s),
    ];
    let given = texts.iter().filter(|(_, text)| text.is_some()).count()
        + numbers
            .iter()
            .filter(|(_, number)| number.is_some())
            .count();
    msgpack::map(out, given as u32);
    for (name, value) in texts {
        if let Some(value) = value {
            msgpack::text(out, name);
            msgpack::text(out, value);
        }
    }
    for (name, value) in numbers {
        if let Some(value) = value {
            msgpack::text(out, name);
            msgpack::unsigned(out, value);
        }
    }
}

/// The message that a server is going away, as MessagePack: a map of type, message and milliseconds until a client may return.
pub fn shutdown_msgpack(kind: &str, message: &str, retry_after_ms: u64) -> Vec<u8> {
    let mut out = Vec::new();
    msgpack::map(&mut out, 3);
    msgpack::text(&mut out, "type");
    msgpack::text(&mut out, kind);
    msgpack::text(&mut out, "message");
    msgpack::text(&mut out, message);
    msgpack::text(&mut out, "retry_after_ms");
    msgpack::unsigned(&mut out, retry_after_ms);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::{Incoming, parse_json, parse_msgpack};

    const EVENT: Outgoing<'_> = Outgoing {
        name: "chat",
        room: None,
        args: "1",
        attachments: &[],
        id: None,
        offset: None,
    };

    fn json(event: &Outgoing<'_>) -> String {
        let mut out = Vec::new();
        write_json(&mut out, event);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn arguments_follow_the_mapping() {
        let cases = [
            ("", r#"{"type":"chat","payload":null,"args":0}"#),
            ("1", r#"{"type":"chat","payload":1}"#),
            ("[1,2]", r#"{"type":"chat","payload":[1,2]}"#),
            (
                r#"1,{"a":[2]}"#,
                r#"{"type":"chat","payload":[1,{"a":[2]}],"args":2}"#,
            ),
        ];
        for (args, expected) in cases {
            assert_eq!(json(&Outgoing { args, ..EVENT }), expected);
        }
        let all = Outgoing {
            name: "a\"b",
            room: Some("r\n"),
            id: Some(7),
            ..EVENT
        };
        assert_eq!(
            json(&all),
            r#"{"type":"a\"b","room":"r\n","id":7,"payload":1}"#
        );
    }

    #[test]
    fn a_client_that_can_come_back_is_told_where_it_is() {
        let event = Outgoing {
            room: Some("r"),
            offset: Some("AAAB"),
            ..EVENT
        };
        let text = json(&event);
        assert!(
            text.contains(r#""room":"r","offset":"AAAB","payload":"#),
            "{text}"
        );
        let mut packed = Vec::new();
        write_msgpack(&mut packed, &event);
        assert_eq!(packed[0], 0x84, "four members");
    }

    #[test]
    fn bytes_are_embedded_where_their_placeholders_stand() {
        let args = r#"{"_placeholder":true,"num":1},{"a":{"_placeholder":true,"num":0}}"#;
        let attachments: [&[u8]; 2] = [b"\x01", b""];
        let event = Outgoing {
            args,
            attachments: &attachments,
            ..EVENT
        };
        assert_eq!(
            json(&event),
            r#"{"type":"chat","payload":[{"_binary":""},{"a":{"_binary":"AQ=="}}],"args":2}"#
        );
        let one_missing = Outgoing {
            args,
            attachments: &attachments[..1],
            ..EVENT
        };
        assert!(json(&one_missing).contains(r#""payload":[null,{"a":"#));
        // Without attachments a placeholder is data like any other.
        assert!(json(&Outgoing { args, ..EVENT }).contains(args));
    }

    #[test]
    fn an_attachment_is_written_once_however_often_it_is_referred_to() {
        let args = [r#"{"_placeholder":true,"num":0}"#; 1000].join(",");
        let attachment = [0; 300];
        let event = Outgoing {
            args: &args,
            attachments: &[&attachment],
            ..EVENT
        };
        let text = json(&event);
        assert_eq!(text.matches("_binary").count(), 1);
        assert!(text.contains(r#"AAAA"},null,null"#), "{text:.500}");
        let mut packed = Vec::new();
        write_msgpack(&mut packed, &event);
        assert!(packed.len() < 300 + 1100, "{} bytes", packed.len());
    }

    #[test]
    fn the_number_of_attachments_has_no_bound_here() {
        let placeholder = |num| format!("{{\"_placeholder\":true,\"num\":{num}}}");
        let args = (0..200).map(placeholder).collect::<Vec<_>>().join(",");
        let event = Outgoing {
            args: &args,
            attachments: &[&b"x"[..]; 200],
            ..EVENT
        };
        assert_eq!(json(&event).matches("_binary").count(), 200);
    }

    #[test]
    fn what_is_written_is_read_back_the_same_in_both_encodings() {
        let all = r#"[-1,0,255,65536,-129,5000000000,18446744073709551615,1.5,"é\n",true,{}],[[]]"#;
        let args = [
            ("", ""),
            ("null", "null"),
            (all, all),
            (r#"{ "a" : [ 1 , 2 ] }"#, r#"{"a":[1,2]}"#),
            ("1e300", "1e+300"),
            ("100.0", "100"),
        ];
        for (args, compact) in args {
            let event = Outgoing {
                args,
                room: Some("r"),
                id: Some(1 << 40),
                ..EVENT
            };
            let mut packed = Vec::new();
            write_msgpack(&mut packed, &event);
            let expected = |args: &str| Incoming::Event {
                name: "chat".into(),
                room: Some("r".into()),
                args: args.to_owned().into(),
                attachments: Vec::new(),
                id: Some(1 << 40),
            };
            assert_eq!(
                parse_msgpack(&packed),
                Ok(expected(compact)),
                "{packed:02x?}"
            );
            assert_eq!(parse_json(&json(&event)), Ok(expected(args)));
        }
    }

    #[test]
    fn msgpack_takes_the_shortest_forms() {
        let mut out = Vec::new();
        let attachments: [&[u8]; 1] = [b"\x01\x02"];
        let args = r#"{"_placeholder":true,"num":0},"x",127"#;
        write_msgpack(
            &mut out,
            &Outgoing {
                args,
                attachments: &attachments,
                ..EVENT
            },
        );
        assert_eq!(
            out,
            b"\x83\xa4type\xa4chat\xa7payload\x93\xc4\x02\x01\x02\xa1x\x7f\xa4args\x03"
        );
    }

    #[test]
    fn errors_name_themselves_in_both_encodings() {
        let mut out = Vec::new();
        let least = Error {
            code: "INVALID_MESSAGE_FORMAT",
            message: "No \"type\"",
            timestamp_ms: 1_700_000_000_123,
            ..Error::default()
        };
        write_error_json(&mut out, &least);
        let plain = r#"{"type":"error","error":"INVALID_MESSAGE_FORMAT","message":"No \"type\"","timestamp":1700000000123}"#;
        assert_eq!(String::from_utf8_lossy(&out), plain);
        out.clear();
        let most = Error {
            code: "X",
            message: "m",
            field: Some("f"),
            id: Some(7),
            timestamp_ms: 5,
            retry_after_s: Some(60),
        };
        write_error_json(&mut out, &most);
        let limited = r#"{"type":"error","error":"X","message":"m","field":"f","id":7,"timestamp":5,"retryAfter":60}"#;
        assert_eq!(String::from_utf8_lossy(&out), limited);
        out.clear();
        write_error_msgpack(&mut out, &most);
        assert_eq!(
            out,
            b"\x87\xa4type\xa5error\xa5error\xa1X\xa7message\xa1m\xa5field\xa1f\xa2id\x07\xa9timestamp\x05\
              \xaaretryAfter\x3c"
        );
    }
}
