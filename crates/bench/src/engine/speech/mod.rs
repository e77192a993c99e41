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
