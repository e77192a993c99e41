//! Owns the words of servers that know nothing above the WebSocket frame: `j` joins the one room there is and is answered with `j`, `e…`
//! is sent back, `p…` goes to everyone who joined, without its letter. Answers carry no number: they come in the order of the questions.

use super::{Heard, Say};

pub fn hear(message: &[u8]) -> Heard<'_> {
    match message.first() {
        Some(b'e' | b'j') => Heard::Answer,
        Some(_) => Heard::Event {
            name: &message[..0],
            id: None,
        },
        None => Heard::Nothing,
    }
}

pub fn say(out: &mut Vec<u8>, what: Say<'_>) {
    match what {
        Say::Join { .. } => out.push(b'j'),
        Say::Emit { id, body, .. } => {
            out.push(if id.is_some() { b'e' } else { b'p' });
            out.extend_from_slice(body);
        }
        Say::Hello { .. } | Say::Pong | Say::Leave { .. } | Say::Ack { .. } => {}
    }
}
