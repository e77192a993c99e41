//! Owns what is said to a server and what it says, above frames and bodies: the words of each
//! protocol. Reading looks at the first bytes of a message, never at its whole JSON.
//! HOT PATH: nothing is allocated for a message.

mod bare;
mod centrifugo;
mod plain;
mod socketio;

use crate::scenario::{Endpoint, Protocol};

/// One incoming message, as far as a client that only counts cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard<'a> {
    /// The transport is open; sessions of Engine.IO have an id.
    Open {
        sid: &'a [u8],
    },
    /// To be answered at once, or the server hangs up.
    Ping,
    Pong,
    /// Ready for events.
    Connected,
    Refused(&'a [u8]),
    /// The server ends the session in order.
    Bye,
    Ack(u32),
    /// The answer to the oldest question that has none.
    Answer,
    /// `id`: the server wants it acknowledged.
    Event {
        name: &'a [u8],
        id: Option<&'a [u8]>,
    },
    /// The server says that something was wrong.
    Complaint(&'a [u8]),
    Nothing,
}

/// What a user may say.
#[derive(Clone, Copy, Debug)]
pub enum Say<'a> {
    /// Ask for the namespace, with credentials as JSON.
    Hello {
        auth: Option<&'a str>,
    },
    Pong,
    Join {
        id: u32,
        room: &'a str,
    },
    Leave {
        id: u32,
        room: &'a str,
    },
    /// `body` is ready JSON.
    Emit {
        id: Option<u32>,
        event: &'a str,
        room: Option<&'a str>,
        body: &'a [u8],
    },
    /// Answer to the server's own question.
    Ack {
        id: &'a [u8],
    },
}

/// Reads one message of a WebSocket or one packet of a poll.
pub fn hear(protocol: Protocol, message: &[u8]) -> Heard<'_> {
    match protocol {
        Protocol::SocketIo => socketio::hear(message),
        Protocol::WebSocket => plain::hear(message),
        Protocol::Centrifugo => centrifugo::hear(message),
        Protocol::Bare => bare::hear(message),
        Protocol::Sse => Heard::Nothing,
    }
}

/// How many bytes at the front of an event of this `name` decide what `hear` says of it; `None` when
/// all of them may.
pub fn envelope_len(protocol: Protocol, message: &[u8], name: &[u8]) -> Option<usize> {
    match protocol {
        Protocol::SocketIo => {
            // Up to the quote behind the name.
            Some(name.as_ptr() as usize - message.as_ptr() as usize + name.len() + 1)
        }
        Protocol::WebSocket => plain::envelope_len(message),
        Protocol::Bare => Some(1),
        Protocol::Centrifugo | Protocol::Sse => None,
    }
}

/// Appends the text of what is said; nothing when the protocol has no words for it.
pub fn say(endpoint: &Endpoint, out: &mut Vec<u8>, what: Say<'_>) {
    match endpoint.protocol {
        Protocol::SocketIo => socketio::say(endpoint, out, what),
        Protocol::WebSocket => plain::say(out, what),
        Protocol::Centrifugo => centrifugo::say(out, what),
        Protocol::Bare => bare::say(out, what),
        Protocol::Sse => {}
    }
}

fn push_decimal(out: &mut Vec<u8>, value: u32) {
    if value >= 10 {
        push_decimal(out, value / 10);
    }
    out.push(b'0' + (value % 10) as u8);
}

/// A JSON text with its quotes; room names come from templates and may hold anything.
fn push_quoted(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    match text.bytes().all(|b| b >= 0x20 && b != b'"' && b != b'\\') {
        true => out.extend_from_slice(text.as_bytes()),
        false => {
            let quoted = serde_json::Value::from(text).to_string();
            out.extend_from_slice(&quoted.as_bytes()[1..quoted.len() - 1]);
        }
    }
    out.push(b'"');
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack
        .windows(needle.len())
        .position(|window| window == needle)
}

/// The bytes up to the next quote that no backslash escapes.
fn until_quote(text: &[u8]) -> Option<&[u8]> {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return Some(&text[..at]),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

fn leading_number(text: &[u8]) -> Option<u32> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let mut number = None;
    for digit in digits {
        let so_far: u32 = number.unwrap_or(0);
        number = Some(
            so_far
                .checked_mul(10)?
                .checked_add(u32::from(digit - b'0'))?,
        );
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    /// All that can be said, a line each.
    fn said(head: &str) -> String {
        let text = format!(
            "name='x'\n{head}\n[[phases]]\nduration='1s'\nconnections=1\n\
             [flows.a]\nsteps=[{{connect=true}}]"
        );
        let endpoint = &Scenario::parse("x", &text).unwrap().flows[0].endpoint;
        let emit = |id, room, body| Say::Emit {
            id,
            event: "e",
            room,
            body,
        };
        let words = [
            Say::Hello { auth: None },
            Say::Hello { auth: Some("{}") },
            Say::Pong,
            Say::Join { id: 2, room: "a\"" },
            Say::Leave { id: 0, room: "a" },
            Say::Ack { id: b"7" },
            emit(None, Some("a"), b"[1]"),
            emit(Some(9), None, b""),
        ];
        let mut out = Vec::new();
        for what in words {
            say(endpoint, &mut out, what);
            out.push(b'\n');
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_have_their_wire_form() {
        let socket_io = r#"40/lab,
40/lab,{}
3
42/lab,2["join","a\""]
42/lab,0["leave","a"]
43/lab,7[]
42/lab,["e",[1]]
42/lab,9["e"]
"#;
        assert_eq!(said("namespace='/lab'"), socket_io);
        assert_eq!(said(""), socket_io.replace("/lab,", ""));
        let plain = r#"


{"type":"join","room":"a\"","id":2}
{"type":"leave","room":"a","id":0}
{"type":"ack","id":7,"payload":null}
{"type":"e","room":"a","payload":[1]}
{"type":"e","id":9,"payload":null}
"#;
        assert_eq!(said("protocol='websocket'"), plain);
        let centrifugo = r#"{"id":1,"connect":{}}
{"id":1,"connect":{"token":"{}"}}
{}
{"id":5,"subscribe":{"channel":"a\""}}
{"id":3,"unsubscribe":{"channel":"a"}}

{"id":2,"publish":{"channel":"a","data":{"event":"e","body":[1]}}}
{"id":12,"rpc":{"method":"e","data":{"event":"e","body":null}}}
"#;
        assert_eq!(said("protocol='centrifugo'"), centrifugo);
        assert_eq!(said("protocol='bare'"), "\n\n\nj\n\n\np[1]\ne\n");
    }

    fn told(heard: Heard<'_>) -> String {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        match heard {
            Heard::Open { sid } => "open ".to_owned() + &text(sid),
            Heard::Refused(why) => "refused ".to_owned() + &text(why),
            Heard::Complaint(what) => "complaint ".to_owned() + &text(what),
            Heard::Event { name, id: None } => "event ".to_owned() + &text(name),
            Heard::Event { name, id: Some(id) } => format!("event {} {}", text(name), text(id)),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn messages_are_told_apart() {
        let table = r#"
            socket.io => 0{"sid":"abc","upgrades":[]} => open abc
            socket.io => 2 => Ping
            socket.io => 40{"sid":"x"} => Connected
            socket.io => 44{"message":"no"} => refused no
            socket.io => 43/lab,17["a"] => Ack(17)
            socket.io => 42["push",1] => event push
            socket.io => 42/lab,5["q"] => event q 5
            socket.io => 41 => Bye
            socket.io => 6 => Nothing
            socket.io =>  => Nothing
            websocket => {"type":"ack","id":7,"payload":null} => Ack(7)
            websocket => {"payload":null,"id":7,"type":"ack"} => Ack(7)
            websocket => {"type":"e","room":"a","payload":{"id":3}} => event e
            websocket => {"payload":{"id":1},"room":"a","type":"e"} => event e
            websocket => {"type":"q","id":9,"payload":1} => event q 9
            websocket => {"error":"BAD","timestamp":1} => complaint BAD
            websocket => {"type":"error","error":"BAD","message":"m","id":7} => complaint BAD
            websocket => [1] => Nothing
            centrifugo => {} => Ping
            centrifugo => {"id":1,"connect":{"client":"x","ping":25,"pong":true}} => Connected
            centrifugo => {"id":1,"error":{"code":109,"message":"token expired"}} => refused token expired
            centrifugo => {"id":3,"subscribe":{}} => Ack(0)
            centrifugo => {"id":12,"publish":{}} => Ack(9)
            centrifugo => {"id":2,"publish":{}} => Nothing
            centrifugo => {"id":7,"error":{"code":103,"message":"denied"}} => complaint denied
            centrifugo => {"push":{"channel":"a","pub":{"data":{"event":"e","body":1},"offset":3}}} => event e
            centrifugo => {"push":{"channel":"a","join":{"info":{"client":"x"}}}} => Nothing
            centrifugo => {"push":{"disconnect":{"code":3001,"reason":"shutdown"}}} => Bye
            bare => j => Answer
            bare => e"~1" => Answer
            bare => "~1" => event "#;
        for line in table.lines().skip(1) {
            let [protocol, text, heard] = line.split(" => ").collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let protocol = Protocol::named(protocol.trim()).unwrap();
            assert_eq!(told(hear(protocol, text.as_bytes())), heard, "{line}");
        }
    }
}
