//! Reads what passes by: frames of a WebSocket, and payloads of polling.

use crate::packet::{Packet, Reader, Unreadable};
use bytes::Bytes;
use serde_json::Value;
use wire::engineio::payload::{self, decode_base64};
use wire::engineio::{PacketType, parse_text};
use wire::websocket::message::{Assembler, Limits, Message, Step};

/// A larger message is not read. Both servers have bounds of their own.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// What was heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The server's first words, with the session's id.
    Open(String),
    /// A heartbeat.
    Ping,
    Packet(Packet),
    /// The client has gone over to this transport.
    Upgrade,
    /// The session ends.
    Close,
}

/// One direction of a WebSocket.
#[derive(Debug)]
pub struct Tap {
    buffer: Vec<u8>,
    assembler: Assembler,
    limits: Limits,
    reader: Reader,
}

impl Tap {
    /// `masked`: it comes from a client.
    pub fn new(masked: bool) -> Self {
        Self {
            buffer: Vec::new(),
            assembler: Assembler::default(),
            limits: Limits {
                message_bytes_max: MESSAGE_BYTES_MAX,
                fragments_max: u32::MAX,
                masked,
                deflate: false,
            },
            reader: Reader::default(),
        }
    }

    /// More bytes have passed by.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Vec<Heard>, Unreadable> {
        self.buffer.extend_from_slice(bytes);
        let (mut heard, mut at) = (Vec::new(), 0);
        let read = loop {
            let step = match self.assembler.step(&mut self.buffer[at..], &self.limits) {
                Ok(step) => step,
                Err(_) => break Err(Unreadable),
            };
            let (consumed, message) = match step {
                Step::NeedMore { .. } => break Ok(()),
                Step::Fragment { consumed } => {
                    at += consumed;
                    continue;
                }
                Step::Message {
                    consumed, message, ..
                } => (consumed, message),
            };
            let part = match message {
                Message::Text(text) => one(text, &mut self.reader),
                Message::Binary(bytes) => self
                    .reader
                    .binary(Bytes::copy_from_slice(bytes))
                    .map(|packet| packet.map(Heard::Packet)),
                Message::Close(_) => Ok(Some(Heard::Close)),
                Message::Ping(_) | Message::Pong(_) => Ok(None),
            };
            at += consumed;
            match part {
                Ok(part) => heard.extend(part),
                Err(unreadable) => break Err(unreadable),
            }
        };
        self.buffer.drain(..at);
        read.map(|()| heard)
    }
}

/// A body of polling.
pub fn payload(body: &[u8], reader: &mut Reader) -> Result<Vec<Heard>, Unreadable> {
    let mut heard = Vec::new();
    if body.is_empty() {
        return Ok(heard);
    }
    for item in payload::split(body).ok_or(Unreadable)? {
        let part = match item.map_err(|()| Unreadable)? {
            payload::Packet::Text(kind, text) => of_engine(kind, text, reader)?,
            payload::Packet::Base64(text) => {
                let mut bytes = Vec::new();
                decode_base64(text, &mut bytes).map_err(|()| Unreadable)?;
                reader.binary(bytes.into())?.map(Heard::Packet)
            }
        };
        heard.extend(part);
    }
    Ok(heard)
}

fn one(text: &str, reader: &mut Reader) -> Result<Option<Heard>, Unreadable> {
    let (kind, rest) = parse_text(text).ok_or(Unreadable)?;
    of_engine(kind, rest, reader)
}

fn of_engine(
    kind: PacketType,
    text: &str,
    reader: &mut Reader,
) -> Result<Option<Heard>, Unreadable> {
    Ok(match kind {
        PacketType::Open => {
            let open: Value = serde_json::from_str(text).map_err(|_| Unreadable)?;
            let sid = open.get("sid").and_then(Value::as_str).ok_or(Unreadable)?;
            Some(Heard::Open(sid.to_owned()))
        }
        PacketType::Message => reader.text(text)?.map(Heard::Packet),
        PacketType::Close => Some(Heard::Close),
        PacketType::Ping => Some(Heard::Ping),
        PacketType::Upgrade => Some(Heard::Upgrade),
        // Heartbeats and probes concern one connection.
        PacketType::Pong | PacketType::Noop => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::websocket::frame::{OpCode, write_frame, write_masked};

    #[test]
    fn any_pieces_of_a_stream_are_the_same_packets() {
        let mut stream = Vec::new();
        write_frame(
            &mut stream,
            OpCode::Text,
            br#"0{"sid":"abc","upgrades":[]}"#,
        );
        write_frame(&mut stream, OpCode::Ping, b"x");
        write_frame(
            &mut stream,
            OpCode::Text,
            br#"451-["f",{"_placeholder":true,"num":0}]"#,
        );
        write_frame(&mut stream, OpCode::Binary, b"\x00\x01");
        write_frame(&mut stream, OpCode::Text, b"2");
        let whole = Tap::new(false).read(&stream).expect("readable");
        assert_eq!(whole.len(), 3);
        for piece in 1..stream.len() {
            let mut tap = Tap::new(false);
            let heard = stream
                .chunks(piece)
                .flat_map(|bytes| tap.read(bytes).expect("readable"));
            assert_eq!(heard.collect::<Vec<_>>(), whole, "{piece}");
        }
    }

    #[test]
    fn garbage_is_unreadable_and_nothing_worse() {
        let masked = |text: &[u8]| {
            let mut bytes = Vec::new();
            write_masked(&mut bytes, true, OpCode::Text, text, [1, 2, 3, 4]);
            bytes
        };
        assert_eq!(
            Tap::new(true)
                .read(&masked(b"42[\"a\"]"))
                .map(|heard| heard.len()),
            Ok(1)
        );
        for bad in [
            masked(b"x"),
            masked(b"4"),
            masked(b""),
            masked(b"42[1"),
            masked(b"0{}"),
            vec![0xff; 40],
            b"\x81\x01x".to_vec(),
        ] {
            assert_eq!(Tap::new(true).read(&bad), Err(Unreadable), "{bad:?}");
        }
        for bad in [&b"42[\"a\"]\x1e"[..], b"\xff", b"bAA=!", b"bAAA="] {
            assert_eq!(
                payload(bad, &mut Reader::default()),
                Err(Unreadable),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn payloads_are_read_packet_by_packet() {
        let mut reader = Reader::default();
        let heard = payload(
            b"2\x1e451-[\"f\",{\"_placeholder\":true,\"num\":0}]\x1ebAAE=",
            &mut reader,
        )
        .expect("readable");
        let [Heard::Ping, Heard::Packet(packet)] = &heard[..] else {
            panic!("{heard:?}")
        };
        assert_eq!(packet.attachments, [Bytes::from_static(&[0, 1])]);
        assert_eq!(payload(b"", &mut reader), Ok(Vec::new()));
        assert_eq!(payload(b"1", &mut reader), Ok(vec![Heard::Close]));
    }
}
