//! Fuzz targets (`targets`), and the code that several of them share: feeding a byte stream in pieces, as a connection receives it.
//! `tests/replay.rs` runs them on their seeds in every build; `libfuzzer` searches for more.

mod deeds;
#[path = "../../crates/hub/tests/dialogues/memory.rs"]
#[expect(dead_code, reason = "seeds need a part of it")]
mod memory;
#[path = "../../transcripts/player/mod.rs"]
#[expect(dead_code, reason = "seeds need a part of it")]
mod player;
#[path = "../../crates/hub/tests/rig/mod.rs"]
#[expect(dead_code, reason = "the target `hub` and its seeds need a part of it")]
mod rig;
pub mod seeds;
pub mod targets;

use wire::json;
use wire::plain::{self, Incoming, Invalid, Outgoing};
use wire::socketio::ATTACHMENTS_MAX;
use wire::websocket::message::{Assembler, Limits, Message, Step};
use wire::websocket::violation::Violation;

/// The messages of a WebSocket byte stream, and how it ended.
type Received = (Vec<(u8, Vec<u8>)>, Result<(), Violation>);

/// Feeds `bytes` to one assembler in pieces of these sizes, repeated.
fn receive(bytes: &[u8], sizes: &[u8], limits: &Limits) -> Received {
    let mut assembler = Assembler::default();
    let (mut buf, mut rest, mut seen) = (Vec::new(), bytes, Vec::new());
    for size in sizes.iter().cycle() {
        let (piece, behind) = rest.split_at(rest.len().min(usize::from(*size) + 1));
        rest = behind;
        buf.extend_from_slice(piece);
        loop {
            let consumed = match assembler.step(&mut buf, limits) {
                Ok(Step::NeedMore { .. }) => break,
                Ok(Step::Fragment { consumed }) => consumed,
                Ok(Step::Message {
                    consumed, message, ..
                }) => {
                    seen.push(owned(message));
                    consumed
                }
                Err(violation) => return (seen, Err(violation)),
            };
            assert!((2..=buf.len()).contains(&consumed));
            buf.drain(..consumed);
        }
        assert!(assembler.heap_bytes() <= 3 * limits.message_bytes_max + 256);
        if rest.is_empty() {
            break;
        }
    }
    (seen, Ok(()))
}

fn owned(message: Message<'_>) -> (u8, Vec<u8>) {
    match message {
        Message::Text(text) => (1, text.as_bytes().to_vec()),
        Message::Binary(bytes) => (2, bytes.to_vec()),
        Message::Ping(bytes) => (9, bytes.to_vec()),
        Message::Pong(bytes) => (10, bytes.to_vec()),
        Message::Close(None) => (8, Vec::new()),
        Message::Close(Some(close)) => (
            8,
            [&close.code.to_be_bytes(), close.reason.as_bytes()].concat(),
        ),
    }
}

/// Sends an event on to plain clients of both encodings and has them send it back.
fn relay(incoming: &Incoming<'_>) {
    let Incoming::Event {
        name,
        room,
        args,
        attachments,
        id,
    } = incoming
    else {
        return;
    };
    let list = format!("[{args}]");
    assert_eq!(json::validate(list.as_bytes()), Ok(()), "{list}");
    assert!(attachments.len() <= ATTACHMENTS_MAX);
    let references: Vec<&[u8]> = attachments.iter().map(Vec::as_slice).collect();
    let event = Outgoing {
        name,
        room: room.as_deref(),
        args,
        attachments: &references,
        id: *id,
        offset: None,
    };
    let (mut text, mut packed) = (Vec::new(), Vec::new());
    plain::write_json(&mut text, &event);
    plain::write_msgpack(&mut packed, &event);
    let text = String::from_utf8(text).expect("JSON is UTF-8");
    // These names mean something else on the way back; and a deep argument is one level deeper
    // inside the list of several.
    let has_meaning = matches!(name.as_ref(), "join" | "leave" | "ack");
    if has_meaning || json::validate(text.as_bytes()).is_err() {
        return;
    }
    assert_eq!(
        attachments_of(plain::parse_msgpack(&packed)),
        Some(attachments.clone()),
        "{text}"
    );
    // Data that looks like embedded bytes is bytes to a reader of JSON.
    if !args.contains("_binary") {
        assert_eq!(
            attachments_of(plain::parse_json(&text)),
            Some(attachments.clone()),
            "{text}"
        );
    }
}

fn attachments_of(incoming: Result<Incoming<'_>, Invalid>) -> Option<Vec<Vec<u8>>> {
    match incoming {
        Ok(Incoming::Event { attachments, .. }) => Some(attachments),
        _ => None,
    }
}
