//! Frames (RFC 6455 §5.2), with tungstenite's codec for their heads.

use std::io::Cursor;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::{Control, Data, OpCode as Code};

/// Masking is the client's duty, secrecy is not the point here.
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpCode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub opcode: OpCode,
    pub compressed: bool,
    pub payload: Vec<u8>,
}

impl Frame {
    /// Takes a whole frame of a server off the front of what was received.
    ///
    /// # Panics
    /// When no server may send it: masked, fragmented, or with a reserved bit that was not agreed on.
    pub fn take(received: &mut Vec<u8>, deflate: bool) -> Option<Frame> {
        let mut cursor = Cursor::new(&received[..]);
        let parsed = FrameHeader::parse(&mut cursor).expect("frames of the gateway are sound");
        let (header, len) = parsed?;
        assert!(header.mask.is_none(), "servers do not mask (RFC 6455 §5.1)");
        assert!(
            header.is_final && (deflate || !header.rsv1) && !header.rsv2 && !header.rsv3,
            "{header:?}"
        );
        let start = usize::try_from(cursor.position()).expect("a short head");
        let end = start + usize::try_from(len).expect("a short frame");
        let payload = received.get(start..end)?.to_vec();
        received.drain(..end);
        if received.is_empty() {
            // Thousands of idle clients should not keep what they once needed.
            *received = Vec::new();
        }
        Some(Frame {
            opcode: opcode(header.opcode),
            compressed: header.rsv1,
            payload,
        })
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.payload).expect("text frames are UTF-8")
    }

    /// Status of a close frame.
    pub fn close_code(&self) -> Option<u16> {
        let code = self.payload.first_chunk::<2>()?;
        (self.opcode == OpCode::Close).then_some(u16::from_be_bytes(*code))
    }
}

/// A client's frame.
pub(crate) fn masked(fin: bool, opcode: OpCode, payload: &[u8]) -> Vec<u8> {
    let header = FrameHeader {
        is_final: fin,
        opcode: code(opcode),
        mask: Some(MASK),
        ..FrameHeader::default()
    };
    let mut bytes = Vec::with_capacity(payload.len() + 14);
    let written = header.format(payload.len() as u64, &mut bytes);
    written.expect("a vector takes everything");
    let mask = MASK.iter().cycle();
    bytes.extend(payload.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
    bytes
}

fn code(opcode: OpCode) -> Code {
    match opcode {
        OpCode::Continuation => Code::Data(Data::Continue),
        OpCode::Text => Code::Data(Data::Text),
        OpCode::Binary => Code::Data(Data::Binary),
        OpCode::Close => Code::Control(Control::Close),
        OpCode::Ping => Code::Control(Control::Ping),
        OpCode::Pong => Code::Control(Control::Pong),
    }
}

fn opcode(code: Code) -> OpCode {
    match code {
        Code::Data(Data::Continue) => OpCode::Continuation,
        Code::Data(Data::Text) => OpCode::Text,
        Code::Data(Data::Binary) => OpCode::Binary,
        Code::Control(Control::Close) => OpCode::Close,
        Code::Control(Control::Ping) => OpCode::Ping,
        Code::Control(Control::Pong) => OpCode::Pong,
        Code::Data(Data::Reserved(_)) | Code::Control(Control::Reserved(_)) => {
            panic!("a reserved opcode from the gateway: {code:?}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6455 §5.7 has these bytes.
    #[test]
    fn frames_of_the_rfc() {
        let hello = [
            0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
        ];
        assert_eq!(masked(true, OpCode::Text, b"Hello"), hello);
        let mut received = vec![0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x89];
        let frame = Frame::take(&mut received, false).expect("a whole frame");
        assert_eq!((frame.opcode, frame.text()), (OpCode::Text, "Hello"));
        assert_eq!(Frame::take(&mut received, false), None);
        assert_eq!(received, [0x89]);
    }
}
