//! Frames of Engine.IO on a stream of WebTransport: a byte whose highest bit says "binary" and whose others are a length, as RFC 6455 §5.2
//! writes it behind the mask bit, then the packet. They differ from WebSocket frames by their headers alone. So a carrier translates
//! headers, passes packets on as they come, and keeps none of them.

pub use crate::bounds::OPENING_BYTES_MAX;
use crate::bounds::{CONTROL_PAYLOAD_MAX, UNMASKED_HEADER_BYTES_MAX};
use crate::websocket::close;
use crate::websocket::frame::{self, OpCode};

const BINARY: u8 = 0x80;

/// The reason why a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A packet without a byte.
    Empty,
    /// A length above 2^63, or a longer opening than there is.
    Length,
    /// The first packet is no opening.
    NoOpening,
    /// The hub's side says what a WebSocket server does not say here.
    Unexpected,
}

impl Violation {
    /// For the peer.
    pub fn text(self) -> &'static str {
        match self {
            Self::Empty => "empty packet",
            Self::Length => "packet too long",
            Self::NoOpening => "the first packet must open the session",
            Self::Unexpected => "internal error",
        }
    }
}

/// A header that comes in pieces.
#[derive(Clone, Copy, Debug, Default)]
struct Header {
    bytes: [u8; UNMASKED_HEADER_BYTES_MAX],
    len: usize,
}

impl Header {
    /// Takes bytes off the front until `len` are there; `false`: more are needed.
    fn fill(&mut self, from: &mut &[u8], len: usize) -> bool {
        while self.len < len.min(UNMASKED_HEADER_BYTES_MAX) {
            let Some((first, rest)) = from.split_first() else {
                return false;
            };
            self.bytes[self.len] = *first;
            self.len += 1;
            *from = rest;
        }
        true
    }
}

/// Bytes of a length behind the byte that begins it.
fn extended(short_len: u8) -> usize {
    match short_len {
        126 => 2,
        127 => 8,
        _ => 0,
    }
}

/// A length of 0 to 8 bytes behind its short form.
fn length(short_len: u8, behind: &[u8]) -> u64 {
    match short_len {
        126 | 127 => behind.iter().fold(0, |len, b| len << 8 | u64::from(*b)),
        short => u64::from(short),
    }
}

/// What a client says, as WebSocket frames of a client.
#[derive(Debug, Default)]
pub struct ToHub {
    header: Header,
    /// Bytes of the packet under way that are still to come.
    left: u64,
}

impl ToHub {
    /// Appends frames for these bytes.
    ///
    /// # Errors
    /// The stream cannot go on.
    pub fn translate(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Violation> {
        loop {
            let passes = bytes
                .len()
                .min(usize::try_from(self.left).unwrap_or(usize::MAX));
            out.extend_from_slice(&bytes[..passes]);
            bytes = &bytes[passes..];
            self.left -= passes as u64;
            if bytes.is_empty() {
                return Ok(());
            }
            let header = &mut self.header;
            if !header.fill(&mut bytes, 1) {
                return Ok(());
            }
            let (binary, short_len) = (header.bytes[0] & BINARY != 0, header.bytes[0] & !BINARY);
            let len = 1 + extended(short_len);
            if !header.fill(&mut bytes, len) {
                return Ok(());
            }
            let packet = length(short_len, &header.bytes[1..len]);
            *header = Header::default();
            let opcode = if binary { OpCode::Binary } else { OpCode::Text };
            match usize::try_from(packet) {
                Ok(0) => return Err(Violation::Empty),
                Ok(packet) if packet >> 63 == 0 => {
                    frame::write_unmasking_header(out, opcode, packet);
                }
                _ => return Err(Violation::Length),
            }
            self.left = packet;
        }
    }
}

/// The hub's last word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Goodbye {
    /// `None`: the session ended without a fault.
    pub code: Option<u16>,
    /// For people.
    pub reason: String,
}

/// What the hub says, in WebSocket frames of a server, as a client of WebTransport reads it.
#[derive(Debug, Default)]
pub struct ToClient {
    header: Header,
    left: u64,
    /// The frame under way is not for the client: it is read here.
    control: Option<(OpCode, Vec<u8>)>,
}

impl ToClient {
    /// Appends packets for these bytes. Behind a goodbye nothing follows.
    ///
    /// # Errors
    /// The stream cannot go on.
    pub fn translate(
        &mut self,
        mut bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Goodbye>, Violation> {
        loop {
            let passes = bytes
                .len()
                .min(usize::try_from(self.left).unwrap_or(usize::MAX));
            match &mut self.control {
                None => out.extend_from_slice(&bytes[..passes]),
                Some((_, payload)) => payload.extend_from_slice(&bytes[..passes]),
            }
            bytes = &bytes[passes..];
            self.left -= passes as u64;
            if self.left == 0
                && let Some((OpCode::Close, payload)) = self.control.take()
            {
                return goodbye(&payload).map(Some);
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            let header = &mut self.header;
            if !header.fill(&mut bytes, 2) {
                return Ok(None);
            }
            let short_len = header.bytes[1];
            let len = 2 + extended(short_len);
            if !header.fill(&mut bytes, len) {
                return Ok(None);
            }
            let parsed = frame::parse_header(&header.bytes[..len]);
            let Ok(Some(frame)) = parsed else {
                return Err(Violation::Unexpected);
            };
            if !frame.fin || frame.rsv1 || frame.mask.is_some() {
                return Err(Violation::Unexpected);
            }
            match frame.opcode {
                OpCode::Text => out.push(short_len),
                OpCode::Binary => out.push(BINARY | short_len),
                OpCode::Continuation => return Err(Violation::Unexpected),
                control => self.control = Some((control, Vec::with_capacity(CONTROL_PAYLOAD_MAX))),
            }
            if self.control.is_none() {
                out.extend_from_slice(&header.bytes[2..len]);
            }
            self.left = frame.payload_len;
            *header = Header::default();
        }
    }
}

fn goodbye(payload: &[u8]) -> Result<Goodbye, Violation> {
    let frame = close::parse(payload).map_err(|_| Violation::Unexpected)?;
    Ok(frame.map_or_else(Goodbye::default, |frame| Goodbye {
        code: Some(frame.code),
        reason: frame.reason.to_owned(),
    }))
}

/// The packet that begins a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The session that moves to this stream; `None`: a new one.
    pub sid: Option<String>,
    /// Bytes of the frame.
    pub len: usize,
}

/// The opening at the front of a stream; `None`: more bytes are needed.
///
/// # Errors
/// There is none, or none that is that long.
pub fn read_opening(bytes: &[u8]) -> Result<Option<Opening>, Violation> {
    let Some((first, behind)) = bytes.split_first() else {
        return Ok(None);
    };
    if first & BINARY != 0 {
        return Err(Violation::NoOpening);
    }
    let packet = usize::from(*first);
    match packet {
        0 => return Err(Violation::Empty),
        1..=OPENING_BYTES_MAX => {}
        _ => return Err(Violation::Length),
    }
    let Some(text) = behind.get(..packet) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(text).map_err(|_| Violation::NoOpening)?;
    let data = text.strip_prefix('0').ok_or(Violation::NoOpening)?;
    let sid = match data {
        "" => None,
        data => Some(sid_of(data).ok_or(Violation::NoOpening)?),
    };
    Ok(Some(Opening {
        sid,
        len: 1 + packet,
    }))
}

/// The member `sid` of an object.
fn sid_of(data: &str) -> Option<String> {
    let data: serde_json::Value = serde_json::from_str(data).ok()?;
    let sid = data.get("sid")?.as_str()?;
    // It goes into a request.
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    sid.bytes().all(is_plain).then(|| sid.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::message::{Assembler, Limits, Message, Step};
    use proptest::prelude::*;

    fn packet(binary: bool, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        frame::write_frame(&mut frame, OpCode::Text, payload);
        frame.remove(0);
        frame[0] |= if binary { BINARY } else { 0 };
        frame
    }

    #[test]
    fn a_length_that_cannot_be_is_not_passed_on() {
        for (bytes, why) in [
            (&[0][..], Violation::Empty),
            (&[0x80], Violation::Empty),
            (&[126, 0, 0], Violation::Empty),
            (&[127, 0x80, 0, 0, 0, 0, 0, 0, 0], Violation::Length),
            (&[0xff; 9], Violation::Length),
        ] {
            let mut out = Vec::new();
            let translated = ToHub::default().translate(bytes, &mut out);
            assert_eq!((translated, out.len()), (Err(why), 0), "{bytes:?}");
        }
        // The hub judges what is too long for it, from the header alone.
        let mut out = Vec::new();
        let bytes = [127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, b'4'];
        assert_eq!(ToHub::default().translate(&bytes, &mut out), Ok(()));
        assert_eq!(out[..2], [0x81, 0xff]);
    }

    #[test]
    fn a_length_in_more_bytes_than_needed_is_written_in_few() {
        let mut out = Vec::new();
        let bytes = [0xff, 0, 0, 0, 0, 0, 0, 0, 1, 7, 126, 0, 2, b'4', b'a'];
        assert_eq!(ToHub::default().translate(&bytes, &mut out), Ok(()));
        let expected = [
            0x82, 0x81, 0, 0, 0, 0, 7, 0x81, 0x82, 0, 0, 0, 0, b'4', b'a',
        ];
        assert_eq!(out, expected);
    }

    #[test]
    fn a_close_frame_is_the_last_word_and_pings_are_not_for_clients() {
        let mut bytes = Vec::new();
        frame::write_frame(&mut bytes, OpCode::Ping, b"x");
        frame::write_frame(&mut bytes, OpCode::Text, b"2");
        close::write(&mut bytes, Some(1008), "why");
        for size in 1..=bytes.len() {
            let (mut to, mut out, mut said) = (ToClient::default(), Vec::new(), None);
            for piece in bytes.chunks(size) {
                assert_eq!(said, None, "nothing behind it");
                said = to.translate(piece, &mut out).expect("frames of a server");
            }
            let said = said.expect("a goodbye");
            assert_eq!((said.code, said.reason.as_str()), (Some(1008), "why"));
            assert_eq!(out, [1, b'2']);
        }
        let mut out = Vec::new();
        close::write(&mut out, None, "");
        let said = ToClient::default().translate(&out.clone(), &mut out);
        assert_eq!(said, Ok(Some(Goodbye::default())));
        for wrong in [&[0x01, 0][..], &[0xc1, 1], &[0x81, 0x80], &[0x80, 1]] {
            let said = ToClient::default().translate(wrong, &mut Vec::new());
            assert_eq!(said, Err(Violation::Unexpected), "{wrong:?}");
        }
    }

    #[test]
    fn a_stream_begins_with_an_opening() {
        let new = packet(false, b"0");
        let sid = packet(false, br#"0{"sid":"n2tYsQdc0rQqRtH-AABg"}"#);
        let read = |bytes: &[u8]| read_opening(bytes);
        assert_eq!(read(&new), Ok(Some(Opening { sid: None, len: 2 })));
        let opening = read(&sid).expect("good").expect("whole");
        assert_eq!(opening.sid.as_deref(), Some("n2tYsQdc0rQqRtH-AABg"));
        assert_eq!(opening.len, sid.len());
        for cut in 0..sid.len() {
            assert_eq!(read(&sid[..cut]), Ok(None), "{cut}");
        }
        for (wrong, why) in [
            (packet(false, b"4a"), Violation::NoOpening),
            (packet(true, b"0"), Violation::NoOpening),
            (packet(false, b"0{"), Violation::NoOpening),
            (packet(false, br#"0{"sid":7}"#), Violation::NoOpening),
            (
                packet(false, br#"0{"sid":"a b\r\n"}"#),
                Violation::NoOpening,
            ),
            (packet(false, b"0\xff"), Violation::NoOpening),
            (packet(false, b""), Violation::Empty),
            (packet(false, &[b'0'; 200]), Violation::Length),
        ] {
            assert_eq!(read(&wrong), Err(why), "{wrong:?}");
        }
    }

    fn frames(bytes: &mut [u8]) -> Vec<(bool, Vec<u8>)> {
        let limits = Limits {
            message_bytes_max: 1 << 20,
            fragments_max: 1,
            masked: true,
            deflate: false,
        };
        let (mut assembler, mut at, mut seen) = (Assembler::default(), 0, Vec::new());
        while let Ok(Step::Message {
            consumed, message, ..
        }) = assembler.step(&mut bytes[at..], &limits)
        {
            seen.push(match message {
                Message::Text(text) => (false, text.as_bytes().to_vec()),
                Message::Binary(bytes) => (true, bytes.to_vec()),
                other => panic!("{other:?}"),
            });
            at += consumed;
        }
        assert_eq!(at, bytes.len());
        seen
    }

    proptest! {
        #[test]
        fn packets_go_both_ways_whatever_the_pieces(
            packets in prop::collection::vec((any::<bool>(), "[a-z]{1,200}"), 1..8),
            long in 65_530usize..65_545,
            size in 1usize..400,
        ) {
            let mut packets: Vec<_> = packets.into_iter().map(|(binary, text)| (binary, text.into_bytes())).collect();
            packets.push((true, vec![7; long]));
            let bytes: Vec<u8> = packets.iter().flat_map(|(binary, payload)| packet(*binary, payload)).collect();
            let (mut to, mut out) = (ToHub::default(), Vec::new());
            for piece in bytes.chunks(size) {
                to.translate(piece, &mut out).expect("packets");
            }
            prop_assert_eq!(&frames(&mut out), &packets);
            let mut said = Vec::new();
            for (binary, payload) in &packets {
                let opcode = if *binary { OpCode::Binary } else { OpCode::Text };
                frame::write_frame(&mut said, opcode, payload);
            }
            let (mut to, mut out) = (ToClient::default(), Vec::new());
            for piece in said.chunks(size) {
                prop_assert_eq!(to.translate(piece, &mut out), Ok(None));
            }
            prop_assert_eq!(out, bytes);
        }
    }
}
