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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn endpoint(namespace: &str) -> Endpoint {
        let text = format!(
            "name='x'\nnamespace='{namespace}'\n[[phases]]\nduration='1s'\nconnections=1\n\
             [flows.a]\nsteps=[{{connect=true}}]"
        );
        Scenario::parse("x", &text).unwrap().flows[0]
            .endpoint
            .clone()
    }

    fn said(namespace: &str, what: Say<'_>) -> String {
        let mut out = Vec::new();
        say(&endpoint(namespace), &mut out, what);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_have_their_wire_form() {
        assert_eq!(said("/", Say::Hello { auth: None }), "40");
        assert_eq!(
            said(
                "/lab",
                Say::Hello {
                    auth: Some("{\"a\":1}")
                }
            ),
            "40/lab,{\"a\":1}"
        );
        assert_eq!(
            said(
                "/",
                Say::Join {
                    id: 12,
                    room: "a\"b"
                }
            ),
            r#"4212["join","a\"b"]"#
        );
        let emit = Say::Emit {
            id: None,
            event: "e",
            room: Some("r"),
            body: b"\"x\"",
        };
        assert_eq!(said("/lab", emit), r#"42/lab,["e","x"]"#);
        assert_eq!(said("/", Say::Ack { id: b"7" }), "437[]");
    }

    #[test]
    fn messages_are_told_apart() {
        let hear = |text: &'static str| hear(text.as_bytes());
        assert_eq!(
            hear(r#"0{"sid":"abc","upgrades":[]}"#),
            Heard::Open { sid: b"abc" }
        );
        assert_eq!(hear("2"), Heard::Ping);
        assert_eq!(hear(r#"40{"sid":"x"}"#), Heard::Connected);
        assert_eq!(
            hear(r#"44{"message":"not authorized"}"#),
            Heard::Refused(b"not authorized")
        );
        assert_eq!(hear(r#"43/lab,17["a"]"#), Heard::Ack(17));
        assert_eq!(
            hear(r#"42["push",1]"#),
            Heard::Event {
                name: b"push",
                id: None
            }
        );
        assert_eq!(
            hear(r#"42/lab,5["q"]"#),
            Heard::Event {
                name: b"q",
                id: Some(b"5")
            }
        );
        assert_eq!(hear("41"), Heard::Bye);
        assert_eq!(hear("6"), Heard::Nothing);
        assert_eq!(hear(""), Heard::Nothing);
    }
}
