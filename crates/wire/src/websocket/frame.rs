//! One WebSocket frame header in or out, and masking (RFC 6455 §5.2, §5.3).
//! Knows nothing of messages, limits or which side of the connection it serves.
//! HOT PATH: no allocation, no lock, no dyn.

pub use crate::bounds::CONTROL_PAYLOAD_MAX;
use crate::bounds::FRAME_HEADER_BYTES_MAX;

/// What a frame is (RFC 6455 §5.2); the values are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpCode {
    /// Next fragment of the message under way.
    Continuation = 0,
    /// First or only frame of a UTF-8 message.
    Text = 1,
    /// First or only frame of a binary message.
    Binary = 2,
    /// Connection close.
    Close = 8,
    /// Ping, to be answered with a pong of the same payload.
    Ping = 9,
    /// Pong.
    Pong = 10,
}

impl OpCode {
    fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Close, ping and pong: short, never fragmented, allowed between fragments (RFC 6455 §5.5).
    pub fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// One parsed frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Last (or only) frame of its message.
    pub fin: bool,
    /// RSV1: the message is compressed, if permessage-deflate was negotiated (RFC 7692 §6).
    pub rsv1: bool,
    /// Kind of frame.
    pub opcode: OpCode,
    /// Masking key; `None` for an unmasked frame.
    pub mask: Option<[u8; 4]>,
    /// Bytes of the header itself: 2 to 14.
    pub len: usize,
    /// Declared payload bytes; believe it only after comparing it with a limit.
    pub payload_len: u64,
}

/// What a header alone gives away as wrong; each means close code 1002.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// RSV2 or RSV3, or RSV1 on a control or continuation frame (RFC 7692 §6.1).
    ReservedBits,
    /// Opcode 3-7 or 11-15.
    ReservedOpcode,
    /// Control frame without FIN.
    FragmentedControl,
    /// Control frame that declares more than 125 bytes.
    LongControl,
    /// Most significant bit of a 64-bit length is set.
    LengthBit63,
    /// Length written in more bytes than needed (RFC 6455 §5.2).
    NotMinimal,
}

/// Parses the frame header at the front of `buf`; `Ok(None)` means that more bytes are needed.
///
/// Refuses as early as the bytes allow: a bad first byte is reported without waiting for the
/// second. Whether masking and RSV1 are right, and whether the length is bearable, is the caller's
/// to judge, since client and server differ.
///
/// # Errors
/// Any [`FrameError`].
#[inline]
pub fn parse_header(buf: &[u8]) -> Result<Option<Header>, FrameError> {
    let Some(&first) = buf.first() else {
        return Ok(None);
    };
    let fin = first & 0x80 != 0;
    let rsv1 = first & 0x40 != 0;
    let opcode = OpCode::from_bits(first & 0x0f).ok_or(FrameError::ReservedOpcode)?;
    let may_be_compressed = matches!(opcode, OpCode::Text | OpCode::Binary);
    if first & 0x30 != 0 || (rsv1 && !may_be_compressed) {
        return Err(FrameError::ReservedBits);
    }
    if opcode.is_control() && !fin {
        return Err(FrameError::FragmentedControl);
    }
    let Some(&second) = buf.get(1) else {
        return Ok(None);
    };
    let short_len = second & 0x7f;
    if opcode.is_control() && usize::from(short_len) > CONTROL_PAYLOAD_MAX {
        return Err(FrameError::LongControl);
    }
    let Some((payload_len, mask_at)) = parse_len(buf, short_len)? else {
        return Ok(None);
    };
    if second & 0x80 == 0 {
        return Ok(Some(Header {
            fin,
            rsv1,
            opcode,
            mask: None,
            len: mask_at,
            payload_len,
        }));
    }
    let Some(&mask) = buf.get(mask_at..).and_then(|rest| rest.first_chunk::<4>()) else {
        return Ok(None);
    };
    Ok(Some(Header {
        fin,
        rsv1,
        opcode,
        mask: Some(mask),
        len: mask_at + 4,
        payload_len,
    }))
}

/// Payload length and the index behind it.
#[inline]
fn parse_len(buf: &[u8], short_len: u8) -> Result<Option<(u64, usize)>, FrameError> {
    match short_len {
        126 => {
            let Some(bytes) = buf.get(2..).and_then(|rest| rest.first_chunk::<2>()) else {
                return Ok(None);
            };
            let len = u64::from(u16::from_be_bytes(*bytes));
            if len < 126 {
                Err(FrameError::NotMinimal)
            } else {
                Ok(Some((len, 4)))
            }
        }
        127 => {
            let Some(bytes) = buf.get(2..).and_then(|rest| rest.first_chunk::<8>()) else {
                return Ok(None);
            };
            let len = u64::from_be_bytes(*bytes);
            if len >> 63 != 0 {
                Err(FrameError::LengthBit63)
            } else if len <= u64::from(u16::MAX) {
                Err(FrameError::NotMinimal)
            } else {
                Ok(Some((len, 10)))
            }
        }
        len => Ok(Some((u64::from(len), 2))),
    }
}

/// Masks or unmasks `payload` in place (RFC 6455 §5.3), beginning with the first mask byte.
#[inline]
pub fn unmask(payload: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let word = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    // Fixed-size words without bounds checks: the compiler makes vector instructions of this.
    let (words, tail) = payload.as_chunks_mut::<8>();
    for chunk in words {
        *chunk = (u64::from_ne_bytes(*chunk) ^ word).to_ne_bytes();
    }
    for (byte, key) in tail.iter_mut().zip(mask.into_iter().cycle()) {
        *byte ^= key;
    }
}

/// Bytes of the unmasked header in front of a payload of `payload_len` bytes: 2, 4 or 10.
#[inline]
pub fn header_len(payload_len: usize) -> usize {
    match payload_len {
        0..=125 => 2,
        126..=0xffff => 4,
        _ => 10,
    }
}

/// Appends the header of a server frame: unmasked, FIN set.
#[inline]
pub fn write_header(out: &mut Vec<u8>, opcode: OpCode, rsv1: bool, payload_len: usize) {
    let first = 0x80 | (u8::from(rsv1) << 6) | opcode as u8;
    push_header(out, first, 0, payload_len);
}

/// Puts the header of a server frame before the payload that was appended to `out` since `at`.
pub fn insert_header(out: &mut Vec<u8>, at: usize, opcode: OpCode, rsv1: bool) {
    let (payload_len, end) = (out.len().saturating_sub(at), out.len());
    write_header(out, opcode, rsv1, payload_len);
    let header_len = out.len() - end;
    if let Some(frame) = out.get_mut(at..) {
        frame.rotate_right(header_len);
    }
}

/// Appends a whole server frame.
#[inline]
pub fn write_frame(out: &mut Vec<u8>, opcode: OpCode, payload: &[u8]) {
    out.reserve(header_len(payload.len()) + payload.len());
    write_header(out, opcode, false, payload.len());
    out.extend_from_slice(payload);
}

/// Appends a whole client frame, masked with `mask`; for the load generator and for tests.
pub fn write_masked(out: &mut Vec<u8>, fin: bool, opcode: OpCode, payload: &[u8], mask: [u8; 4]) {
    out.reserve(FRAME_HEADER_BYTES_MAX + payload.len());
    push_header(
        out,
        (u8::from(fin) << 7) | opcode as u8,
        0x80,
        payload.len(),
    );
    out.extend_from_slice(&mask);
    let start = out.len();
    out.extend_from_slice(payload);
    unmask(&mut out[start..], mask);
}

/// Appends the header of a whole client frame whose payload follows as it is: its mask is zero. For carriers that translate headers.
pub fn write_unmasking_header(out: &mut Vec<u8>, opcode: OpCode, payload_len: usize) {
    push_header(out, 0x80 | opcode as u8, 0x80, payload_len);
    out.extend_from_slice(&[0; 4]);
}

#[inline]
fn push_header(out: &mut Vec<u8>, first: u8, mask_bit: u8, payload_len: usize) {
    match payload_len {
        0..=125 => out.extend_from_slice(&[first, mask_bit | payload_len as u8]),
        126..=0xffff => {
            let [high, low] = (payload_len as u16).to_be_bytes();
            out.extend_from_slice(&[first, mask_bit | 126, high, low]);
        }
        _ => {
            out.extend_from_slice(&[first, mask_bit | 127]);
            out.extend_from_slice(&(payload_len as u64).to_be_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_in_all_three_lengths() {
        let mask = Some([1, 2, 3, 4]);
        let cases = [
            ([0x81, 0].as_slice(), OpCode::Text, true, 2, 0, None),
            (&[0x02, 125], OpCode::Binary, false, 2, 125, None),
            (
                &[0x80, 0x83, 1, 2, 3, 4],
                OpCode::Continuation,
                true,
                6,
                3,
                mask,
            ),
            (&[0x82, 126, 0, 126], OpCode::Binary, true, 4, 126, None),
            (
                &[0x82, 0xfe, 0xff, 0xff, 1, 2, 3, 4],
                OpCode::Binary,
                true,
                8,
                0xffff,
                mask,
            ),
            (
                &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0],
                OpCode::Binary,
                true,
                10,
                0x1_0000,
                None,
            ),
            (&[0x8a, 0x80, 1, 2, 3, 4], OpCode::Pong, true, 6, 0, mask),
        ];
        for (bytes, opcode, fin, len, payload_len, mask) in cases {
            let header = Header {
                fin,
                rsv1: false,
                opcode,
                mask,
                len,
                payload_len,
            };
            assert_eq!(parse_header(bytes), Ok(Some(header)), "{bytes:02x?}");
            for cut in 0..bytes.len() {
                assert_eq!(
                    parse_header(&bytes[..cut]),
                    Ok(None),
                    "{:02x?}",
                    &bytes[..cut]
                );
            }
        }
    }

    #[test]
    fn compressed_messages_are_marked_on_their_first_frame_only() {
        for first in [0xc1, 0xc2, 0x41] {
            assert!(parse_header(&[first, 0]).is_ok_and(|header| header.is_some_and(|h| h.rsv1)));
        }
        for first in [0xc0, 0xc8, 0xc9, 0xca] {
            assert_eq!(
                parse_header(&[first]),
                Err(FrameError::ReservedBits),
                "{first:02x}"
            );
        }
    }

    #[test]
    fn bad_headers_are_refused_as_early_as_possible() {
        let cases: [(&[u8], FrameError); 13] = [
            (&[0x91], FrameError::ReservedBits),
            (&[0xa1], FrameError::ReservedBits),
            (&[0x83], FrameError::ReservedOpcode),
            (&[0x87], FrameError::ReservedOpcode),
            (&[0x8b], FrameError::ReservedOpcode),
            (&[0x8f], FrameError::ReservedOpcode),
            (&[0x09], FrameError::FragmentedControl),
            (&[0x08], FrameError::FragmentedControl),
            (&[0x89, 126], FrameError::LongControl),
            (&[0x88, 0xff], FrameError::LongControl),
            (&[0x81, 126, 0, 125], FrameError::NotMinimal),
            (
                &[0x81, 127, 0, 0, 0, 0, 0, 0, 0xff, 0xff],
                FrameError::NotMinimal,
            ),
            (
                &[0x81, 127, 0x80, 0, 0, 0, 0, 0, 0, 0],
                FrameError::LengthBit63,
            ),
        ];
        for (bytes, error) in cases {
            assert_eq!(parse_header(bytes), Err(error), "{bytes:02x?}");
        }
    }

    #[test]
    fn unmask_is_the_byte_wise_xor_at_every_length() {
        let mask = [0xa5, 0x5a, 0x0f, 0xf1];
        for len in 0..70 {
            let plain: Vec<u8> = (0..len).map(|index: u8| index.wrapping_mul(7)).collect();
            let expected: Vec<u8> = plain
                .iter()
                .enumerate()
                .map(|(at, byte)| byte ^ mask[at % 4])
                .collect();
            let mut masked = plain;
            unmask(&mut masked, mask);
            assert_eq!(masked, expected, "{len} bytes");
        }
    }

    #[test]
    fn written_headers_are_minimal_and_read_back() {
        for len in [0, 1, 125, 126, 0xffff, 0x1_0000] {
            let mut frame = Vec::new();
            write_frame(&mut frame, OpCode::Binary, &vec![9; len]);
            assert_eq!(frame.len(), header_len(len) + len);
            let header = parse_header(&frame)
                .expect("own frame")
                .expect("whole frame");
            assert_eq!(
                (header.len, header.payload_len),
                (header_len(len), len as u64)
            );

            let mut masked = Vec::new();
            write_masked(
                &mut masked,
                false,
                OpCode::Binary,
                &vec![9; len],
                [1, 2, 3, 4],
            );
            let header = parse_header(&masked)
                .expect("own frame")
                .expect("whole frame");
            assert!(!header.fin);
            unmask(&mut masked[header.len..], [1, 2, 3, 4]);
            assert_eq!(masked[header.len..], vec![9; len]);
        }
        for len in [0, 1, 125, 126, 0x1_0000] {
            let mut frame = b"before".to_vec();
            frame.resize(6 + len, 7);
            insert_header(&mut frame, 6, OpCode::Text, true);
            let mut expected = b"before".to_vec();
            write_header(&mut expected, OpCode::Text, true, len);
            assert_eq!(expected[6], 0xc1);
            expected.resize(expected.len() + len, 7);
            assert_eq!(frame, expected);
        }
    }
}
