//! Owns the memory of messages just read. A server sends the same bytes to every member of a room:
//! the first reader parses them, and for all later ones one comparison tells what they are.
//!
//! HOT PATH: no allocation. Exact: what is remembered are all bytes that a reading depends on, from
//! the frame's header to the end of the identity, and they must be the same.

use super::identity::{IDENTITY_BYTES, Identity, sequence_end};
use super::speech::{self, Heard};
use crate::scenario::Protocol;
use std::ops::Range;

/// Messages remembered; a power of two. Members of a room read the same one within a few turns.
const ENTRIES: usize = 4096;
/// Header, envelope and identity; what has a longer envelope is parsed each time.
const HEAD_BYTES_MAX: usize = 120;
/// Shapes of frames, told apart by their lengths.
const SHAPES: usize = 256;

/// An event whose bytes were seen before.
#[derive(Clone, Debug)]
pub struct Known {
    pub identity: Identity,
    /// Of the whole frame; 0: nothing is remembered here.
    pub frame_bytes: usize,
    name: Range<u8>,
    head_len: u8,
    protocol: Protocol,
    head: [u8; HEAD_BYTES_MAX],
}

#[derive(Debug)]
pub struct Repeats {
    entries: Box<[Known]>,
    /// Where the identity stands in frames of a shape.
    marks: [u8; SHAPES],
}

impl Known {
    /// The event's name, in the frame that was found.
    #[inline]
    pub fn name(&self) -> Range<usize> {
        self.name.start.into()..self.name.end.into()
    }
}

impl Default for Repeats {
    fn default() -> Self {
        let nothing = Known {
            identity: Identity::default(),
            frame_bytes: 0,
            name: 0..0,
            head_len: 0,
            protocol: Protocol::SocketIo,
            head: [0; HEAD_BYTES_MAX],
        };
        Repeats {
            entries: vec![nothing; ENTRIES].into_boxed_slice(),
            marks: [0; SHAPES],
        }
    }
}

impl Repeats {
    /// The frame at the front of `bytes`, if it is whole and one like it was learnt.
    #[inline]
    pub fn find(&self, protocol: Protocol, bytes: &[u8]) -> Option<&Known> {
        let mark = usize::from(self.marks[shape(bytes)?]);
        let letters = bytes.get(mark..)?.first_chunk()?;
        let known = &self.entries[slot(letters)];
        let head = &known.head[..usize::from(known.head_len)];
        let is_same = known.frame_bytes > 0
            && known.frame_bytes <= bytes.len()
            && known.protocol == protocol
            && bytes.starts_with(head);
        is_same.then_some(known)
    }

    /// Remembers a whole frame if it is an event, to be counted and not to be acknowledged, and
    /// nothing behind its identity can change what it says.
    pub fn learn(&mut self, protocol: Protocol, frame: &[u8], header_len: usize) {
        let message = &frame[header_len..];
        let Heard::Event { name, id: None } = speech::hear(protocol, message) else {
            return;
        };
        let Some(envelope_len) = speech::envelope_len(protocol, message, name) else {
            return;
        };
        let mut at = 0;
        let Some(identity) = Identity::find(message, &mut at) else {
            return;
        };
        let head_len = header_len + at + IDENTITY_BYTES;
        if envelope_len > at || head_len > HEAD_BYTES_MAX {
            return;
        }
        let mark = header_len + at;
        let letters = frame.get(mark..).and_then(|rest| rest.first_chunk());
        let (Some(shape), Some(letters)) = (shape(frame), letters) else {
            return;
        };
        self.marks[shape] = mark as u8;
        let name_at = header_len + (name.as_ptr() as usize - message.as_ptr() as usize);
        let known = &mut self.entries[slot(letters)];
        known.identity = identity;
        known.frame_bytes = frame.len();
        known.name = name_at as u8..(name_at + name.len()) as u8;
        known.head_len = head_len as u8;
        known.protocol = protocol;
        known.head[..head_len].copy_from_slice(&frame[..head_len]);
    }
}

/// Frames of one length look alike; the length stands in byte 1, or in bytes 2 and 3.
#[inline]
fn shape(frame: &[u8]) -> Option<usize> {
    let [_, short, _, long] = *frame.first_chunk::<4>()?;
    Some(usize::from(short ^ long))
}

/// Place of a message by its letters: those of the room and the last of the sequence number, so
/// that messages that follow each other lie side by side.
#[inline]
fn slot(letters: &[u8; IDENTITY_BYTES]) -> usize {
    let room = u64::from_le_bytes(*letters[3..].first_chunk().unwrap_or(&[0; 8]));
    let room = (room.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize;
    (room + sequence_end(letters)) % ENTRIES
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::websocket::frame::{OpCode, write_frame};

    fn identity(sequence: u64) -> Identity {
        Identity {
            run: 7,
            room: 0x1234_5678_9abc,
            sequence,
            due_ns: 99,
            ..Identity::default()
        }
    }

    /// A frame around `before`, an identity and `after`; and where its message begins.
    fn frame(before: &str, identity: Identity, after: &str) -> (Vec<u8>, usize) {
        let mut message = before.as_bytes().to_vec();
        identity.write(&mut message);
        message.extend_from_slice(after.as_bytes());
        let mut frame = Vec::new();
        write_frame(&mut frame, OpCode::Text, &message);
        let header_len = frame.len() - message.len();
        (frame, header_len)
    }

    fn learnt(protocol: Protocol, before: &str, after: &str) -> (Repeats, Vec<u8>) {
        let mut repeats = Repeats::default();
        let (frame, header_len) = frame(before, identity(5), after);
        repeats.learn(protocol, &frame, header_len);
        (repeats, frame)
    }

    #[test]
    fn what_was_learnt_is_found_again_with_all_that_was_read() {
        for size in [0, 100, 300] {
            let (repeats, frame) = learnt(Protocol::SocketIo, "42[\"tick\",\"", &"x".repeat(size));
            let mut bytes = frame.clone();
            bytes.extend_from_slice(b"\x81\x01");
            let known = repeats.find(Protocol::SocketIo, &bytes).unwrap();
            assert_eq!(
                (known.identity, known.frame_bytes),
                (identity(5), frame.len())
            );
            assert_eq!(&bytes[known.name()], b"tick");
        }
    }

    #[test]
    fn any_other_byte_up_to_the_identity_makes_another_message() {
        let (repeats, frame) = learnt(Protocol::SocketIo, "42[\"tick\",\"", "xx\"]");
        let (head, tail) = (frame.len() - 4, frame.len() - 1);
        for at in 0..head {
            let mut other = frame.clone();
            other[at] ^= 1;
            assert!(repeats.find(Protocol::SocketIo, &other).is_none(), "{at}");
        }
        let mut other = frame.clone();
        other[tail] ^= 1;
        assert!(repeats.find(Protocol::SocketIo, &other).is_some());
        assert!(
            repeats.find(Protocol::SocketIo, &frame[..tail]).is_none(),
            "not whole"
        );
        assert!(repeats.find(Protocol::WebSocket, &frame).is_none());
    }

    #[test]
    fn what_must_be_looked_at_each_time_is_not_learnt() {
        let socket_io = [
            ("427[\"ask\",\"", "\"]"),
            ("43[\"answer\",\"", "\"]"),
            ("42[\"named \\\"so\\\" ", "\",1]"),
        ];
        for (before, after) in socket_io {
            let (repeats, frame) = learnt(Protocol::SocketIo, before, after);
            assert!(
                repeats.find(Protocol::SocketIo, &frame).is_none(),
                "{before}"
            );
        }
        let plain = |before, after| {
            let (repeats, frame) = learnt(Protocol::WebSocket, before, after);
            repeats.find(Protocol::WebSocket, &frame).is_some()
        };
        assert!(plain("{\"type\":\"m\",\"payload\":\"", "\"}"));
        assert!(!plain(
            "{\"type\":\"m\",\"x\":\"",
            "\",\"id\":4,\"payload\":1}"
        ));
        assert!(!plain("{\"payload\":\"", "\",\"type\":\"m\"}"));
    }
}
