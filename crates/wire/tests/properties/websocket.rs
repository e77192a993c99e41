//! Frames and messages under any chunking.

use crate::values;
use proptest::collection::vec;
use proptest::prelude::*;
use wire::websocket::close::{self, CloseFrame};
use wire::websocket::frame::{self, OpCode};
use wire::websocket::message::{Assembler, Limits, Message, Step};
use wire::websocket::violation::Violation;

const LIMITS: Limits = Limits {
    message_bytes_max: 2_000,
    fragments_max: 12,
    masked: true,
    deflate: true,
};

#[derive(Clone, Debug, PartialEq)]
enum Owned {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<(u16, String)>),
}

impl From<Message<'_>> for Owned {
    fn from(message: Message<'_>) -> Self {
        match message {
            Message::Text(text) => Self::Text(text.to_owned()),
            Message::Binary(bytes) => Self::Binary(bytes.to_vec()),
            Message::Ping(bytes) => Self::Ping(bytes.to_vec()),
            Message::Pong(bytes) => Self::Pong(bytes.to_vec()),
            Message::Close(close) => {
                Self::Close(close.map(|CloseFrame { code, reason }| (code, reason.to_owned())))
            }
        }
    }
}

/// A data message, the sizes of its fragments, and a ping that comes after the first of them.
type Sent = (Owned, Vec<usize>, Option<Vec<u8>>);

fn sent() -> impl Strategy<Value = Sent> {
    let data = prop_oneof![
        values::string().prop_map(Owned::Text),
        Just(Owned::Text("ü€😀".repeat(60))),
        vec(any::<u8>(), 0..400).prop_map(Owned::Binary),
    ];
    (
        data,
        vec(0_usize..90, 0..5),
        proptest::option::of(vec(any::<u8>(), 0..=125)),
    )
}

/// Writes one message as frames; appends what must come out to `expected`.
fn write(
    out: &mut Vec<u8>,
    (message, cuts, ping): &Sent,
    mask: [u8; 4],
    expected: &mut Vec<Owned>,
) {
    let (first, mut rest) = match message {
        Owned::Text(text) => (OpCode::Text, text.as_bytes()),
        Owned::Binary(bytes) => (OpCode::Binary, bytes.as_slice()),
        _ => unreachable!("only data messages are generated"),
    };
    let mut opcode = first;
    let mut ping = ping.as_ref();
    for cut in cuts {
        let (fragment, behind) = rest.split_at((*cut).min(rest.len()));
        frame::write_masked(out, false, opcode, fragment, mask);
        (rest, opcode) = (behind, OpCode::Continuation);
        if let Some(ping) = ping.take() {
            frame::write_masked(out, true, OpCode::Ping, ping, mask);
            expected.push(Owned::Ping(ping.clone()));
        }
    }
    frame::write_masked(out, true, opcode, rest, mask);
    expected.push(message.clone());
}

/// Feeds growing buffers, as a connection does; what came out and how it ended.
fn receive(bytes: &[u8], sizes: &[usize]) -> (Vec<Owned>, Result<(), Violation>) {
    let mut assembler = Assembler::default();
    let (mut buf, mut received, mut seen) = (Vec::new(), 0, Vec::new());
    for end in values::pieces(bytes.len(), sizes) {
        buf.extend_from_slice(&bytes[received..end]);
        received = end;
        loop {
            let consumed = match assembler.step(&mut buf, &LIMITS) {
                Ok(Step::NeedMore { wanted }) => {
                    assert!(wanted == 0 || wanted > buf.len());
                    break;
                }
                Ok(Step::Fragment { consumed }) => consumed,
                Ok(Step::Message {
                    consumed, message, ..
                }) => {
                    seen.push(message.into());
                    consumed
                }
                Err(violation) => return (seen, Err(violation)),
            };
            buf.drain(..consumed);
        }
        assert!(assembler.heap_bytes() <= 3 * LIMITS.message_bytes_max);
    }
    (seen, Ok(()))
}

proptest! {
    #[test]
    fn messages_survive_fragments_masks_and_chunks(
        messages in vec(sent(), 1..5),
        mask in any::<[u8; 4]>(),
        sizes in values::chunk_sizes(),
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for message in &messages {
            write(&mut bytes, message, mask, &mut expected);
        }
        prop_assert_eq!(receive(&bytes, &sizes), (expected, Ok(())));
    }

    #[test]
    fn damaged_streams_end_the_same_in_any_chunks(
        messages in vec(sent(), 1..4),
        damages in vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        sizes in values::chunk_sizes(),
    ) {
        let mut bytes = Vec::new();
        for message in &messages {
            write(&mut bytes, message, [0; 4], &mut Vec::new());
        }
        for (index, byte) in damages {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        let whole = receive(&bytes, &[usize::MAX >> 1]);
        prop_assert_eq!(receive(&bytes, &sizes), whole);
    }

    #[test]
    fn random_bytes_end_the_same_in_any_chunks(
        bytes in vec(any::<u8>(), 0..200),
        sizes in values::chunk_sizes(),
    ) {
        let whole = receive(&bytes, &[usize::MAX >> 1]);
        prop_assert_eq!(receive(&bytes, &sizes), whole);
    }

    #[test]
    fn close_frames_are_read_back(code in any::<u16>(), reason in values::string()) {
        let mut out = Vec::new();
        close::write(&mut out, Some(code), &reason);
        prop_assert!(out.len() <= 127);
        match close::parse(&out[2..]) {
            Ok(frame) => {
                let frame = frame.expect("a code was written");
                prop_assert_eq!(frame.code, code);
                prop_assert!(reason.starts_with(frame.reason));
                prop_assert!(reason.len() - frame.reason.len() == 0 || frame.reason.len() > 119);
            }
            Err(_) => prop_assert!(!close::may_be_sent(code)),
        }
    }
}
