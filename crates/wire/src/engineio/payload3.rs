//! Polling payloads of protocol 3. As text, each packet stands behind its length in UTF-16 code units and a colon. As binary, each
//! begins with 0 (text) or 1 (binary), its length in bytes as digits from 0 to 9, and 255.

use super::PacketType;
use super::payload::{self, SEPARATOR};
use crate::bounds::LENGTH_DIGITS_MAX;

/// First byte of a binary message: the type as a number, and not as a digit.
pub const MESSAGE: u8 = 4;
/// Ends the header of a packet of a binary payload.
const HEADER_END: u8 = 255;

/// One packet of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Length 0: nothing, and no offence.
    Empty,
    /// Type and the text behind it.
    Text(PacketType, &'a str),
    /// A binary message, still base64, without the `b4`: see [`payload::decode_base64`].
    Base64(&'a str),
    /// A binary message.
    Binary(&'a [u8]),
}

/// Takes the first packet off a payload, text or binary; returns it and its bytes, header included. `None` is a parse error: no
/// header, a length that the payload does not have, text that is not UTF-8, an unknown type.
pub fn first(body: &[u8]) -> Option<(Packet<'_>, usize)> {
    let (content, is_text, used) = cut(body)?;
    if !is_text {
        return Some((binary(content)?, used));
    }
    let text = simdutf8::basic::from_utf8(content).ok()?;
    let packet = match text.strip_prefix('b') {
        _ if text.is_empty() => Packet::Empty,
        Some(base64) => Packet::Base64(base64.strip_prefix('4')?),
        None => super::parse_text(text).map(|(kind, text)| Packet::Text(kind, text))?,
    };
    Some((packet, used))
}

/// Splits the bytes of a binary message, as a WebSocket or a binary payload carries it. Only messages are binary.
pub fn split_binary(message: &[u8]) -> Option<&[u8]> {
    message.strip_prefix(&[MESSAGE])
}

fn binary(content: &[u8]) -> Option<Packet<'_>> {
    match content.is_empty() {
        true => Some(Packet::Empty),
        false => split_binary(content).map(Packet::Binary),
    }
}

/// Whether a payload has more packets than this. What is broken ends the count: it is found when it is read.
pub fn exceeds(mut body: &[u8], packets_max: usize) -> bool {
    let mut packets = 0;
    while packets <= packets_max
        && let Some((_, _, used)) = cut(body)
    {
        packets += 1;
        body = &body[used..];
    }
    packets > packets_max
}

/// Content of the first packet, whether it is text, and its bytes with the header.
fn cut(body: &[u8]) -> Option<(&[u8], bool, usize)> {
    let (content, len, is_text, header) = match *body.first()? {
        kind @ (0 | 1) => {
            let (len, digits) = length(&body[1..], |byte| byte, HEADER_END)?;
            let header = digits + 2;
            (body.get(header..)?, len, kind == 0, header)
        }
        _ => {
            let (units, digits) = length(body, |byte| byte.wrapping_sub(b'0'), b':')?;
            let content = body.get(digits + 1..)?;
            (content, extent(content, units)?, true, digits + 1)
        }
    };
    Some((content.get(..len)?, is_text, header + len))
}

/// A length without needless zeros, and how many digits it has, if `end` stands behind it.
fn length(bytes: &[u8], digit: impl Fn(u8) -> u8, end: u8) -> Option<(usize, usize)> {
    let digits = bytes.iter().take(LENGTH_DIGITS_MAX + 1);
    let digits = digits.take_while(|byte| digit(**byte) < 10).count();
    let needless = digits > 1 && digit(bytes[0]) == 0;
    if digits == 0 || digits > LENGTH_DIGITS_MAX || needless || bytes.get(digits) != Some(&end) {
        return None;
    }
    let mut len = 0_usize;
    for byte in &bytes[..digits] {
        len = len.checked_mul(10)?.checked_add(digit(*byte).into())?;
    }
    Some((len, digits))
}

/// Bytes of so many UTF-16 code units of UTF-8. A length that ends within a pair of surrogates is no length.
fn extent(text: &[u8], units: usize) -> Option<usize> {
    if text.get(..units)?.is_ascii() {
        return Some(units);
    }
    let (mut at, mut left) = (0, units);
    while left > 0 {
        let (width, costs) = match *text.get(at)? {
            0..0x80 => (1, 1),
            0xc2..0xe0 => (2, 1),
            0xe0..0xf0 => (3, 1),
            0xf0..0xf5 => (4, 2),
            _ => return None,
        };
        left = left.checked_sub(costs)?;
        at += width;
    }
    Some(at)
}

fn units(text: &[u8]) -> usize {
    let beginnings = text.iter().filter(|byte| !(0x80..0xc0).contains(*byte));
    beginnings.map(|byte| 1 + usize::from(*byte >= 0xf0)).sum()
}

/// How a payload is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// UTF-8; binary messages in it are `b4` and base64.
    Text,
    /// For clients that take binary, where a packet is binary.
    Binary,
}

/// Appends the payload of packets that stand in the form of protocol 4 ([`SEPARATOR`] between them, binary as `b` and base64).
pub fn write(out: &mut Vec<u8>, packets: &[u8], takes_binary: bool) -> Form {
    let split = || packets.split(|byte| *byte == SEPARATOR);
    let form = match takes_binary && split().any(|packet| packet.starts_with(b"b")) {
        true => Form::Binary,
        false => Form::Text,
    };
    for packet in split() {
        match (form, packet) {
            (Form::Text, [b'b', base64 @ ..]) => {
                write_length(out, base64.len() + 2);
                out.extend_from_slice(b"b4");
                out.extend_from_slice(base64);
            }
            (Form::Text, text) => {
                write_length(out, units(text));
                out.extend_from_slice(text);
            }
            (Form::Binary, [b'b', base64 @ ..]) => {
                let mut message = vec![MESSAGE];
                let base64 = std::str::from_utf8(base64).unwrap_or_default();
                let decoded = payload::decode_base64(base64, &mut message);
                debug_assert_eq!(decoded, Ok(()), "it was written here");
                write_part(out, 1, &message);
            }
            (Form::Binary, text) => write_part(out, 0, text),
        }
    }
    form
}

fn write_length(out: &mut Vec<u8>, units: usize) {
    out.extend_from_slice(itoa::Buffer::new().format(units).as_bytes());
    out.push(b':');
}

fn write_part(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    out.push(kind);
    let mut digits = itoa::Buffer::new();
    out.extend(digits.format(content.len()).bytes().map(|byte| byte - b'0'));
    out.push(HEADER_END);
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engineio::PacketType::{Close, Message, Ping};

    fn all(mut body: &[u8]) -> Vec<Option<Packet<'_>>> {
        let mut packets = Vec::new();
        while !body.is_empty() {
            let Some((packet, used)) = first(body) else {
                packets.push(None);
                break;
            };
            assert!(used > 0 && used <= body.len());
            packets.push(Some(packet));
            body = &body[used..];
        }
        packets
    }

    #[test]
    fn text_payloads_are_cut_by_utf_16_code_units() {
        let text = |kind, text| Some(Packet::Text(kind, text));
        let cases: [(&str, Vec<Option<Packet<'_>>>); 9] = [
            ("2:4a", vec![text(Message, "a")]),
            (
                "2:4a1:26:b4AQID",
                vec![
                    text(Message, "a"),
                    text(Ping, ""),
                    Some(Packet::Base64("AQID")),
                ],
            ),
            ("3:4ü€2:4€", vec![text(Message, "ü€"), text(Message, "€")]),
            ("3:4😀1:1", vec![text(Message, "😀"), text(Close, "")]),
            ("5:4😀é€1:1", vec![text(Message, "😀é€"), text(Close, "")]),
            ("0:1:2", vec![Some(Packet::Empty), text(Ping, "")]),
            ("3:4:52:4x", vec![text(Message, ":5"), text(Message, "x")]),
            ("2:b4", vec![Some(Packet::Base64(""))]),
            ("2:4a1", vec![text(Message, "a"), None]),
        ];
        for (body, expected) in cases {
            assert_eq!(all(body.as_bytes()), expected, "{body}");
        }
    }

    #[test]
    fn binary_payloads_are_cut_by_bytes() {
        let body =
            b"\x00\x03\xff4\xc3\xbc\x01\x04\xff\x04\x01\x02\x03\x00\x01\xff2\x01\x01\xff\x04";
        let expected = [
            Some(Packet::Text(Message, "ü")),
            Some(Packet::Binary(&[1, 2, 3])),
            Some(Packet::Text(Ping, "")),
            Some(Packet::Binary(&[])),
        ];
        assert_eq!(all(body), expected);
        let long = [
            [1, 1, 2, 0, 255, 4].as_slice(),
            &[7; 119],
            &[0, 1, 255, b'2'],
        ]
        .concat();
        let expected = [
            Some(Packet::Binary([7; 119].as_slice())),
            Some(Packet::Text(Ping, "")),
        ];
        assert_eq!(all(&long), expected);
    }

    #[test]
    fn what_is_no_payload_is_refused_where_it_breaks() {
        let broken: [&[u8]; 26] = [
            b":",
            b"4a",
            b"1",
            b"12",
            b"-1:4",
            b"+1:4",
            b" 1:4",
            b"01:4",
            b"00:",
            b"1.0:4",
            b"1e3:4",
            b"3:4a",
            b"2:4\xff",
            b"2:4\xf0\x9f\x98\x80",
            b"1:\xc3",
            b"1:9",
            b"1:b",
            b"2:b5",
            b"99999999999:4",
            b"18446744073709551617:4",
            b"9999999999:4",
            b"\x01\xff",
            b"\x01\x00\x01\xff\x04",
            b"\x01\x02\xff\x04",
            b"\x01\x01\xff\x05",
            b"\x02\x01\xff4",
        ];
        for body in broken {
            assert_eq!(first(body), None, "{:?}", String::from_utf8_lossy(body));
        }
        assert_eq!(first(b""), None);
        assert_eq!(first(&[b'9'; 1 << 20]), None);
        assert_eq!(first(&[9; 1 << 20]), None);
    }

    #[test]
    fn a_payload_cut_anywhere_is_broken_or_short() {
        let body = "5:4😀é€6:b4AQID3:4ab".as_bytes();
        let whole = all(body);
        for end in 0..body.len() {
            let packets = all(&body[..end]);
            let good = packets.iter().filter(|packet| packet.is_some()).count();
            assert!(good < whole.len(), "{end}");
            assert_eq!(packets[..good], whole[..good], "{end}");
        }
    }

    #[test]
    fn packets_are_counted_up_to_a_bound() {
        assert!(!exceeds(b"", 0));
        assert!(exceeds(b"1:2", 0));
        assert!(!exceeds(b"1:21:2", 2));
        assert!(exceeds(b"1:21:21:2", 2));
        assert!(exceeds(b"0:0:0:", 2));
        assert!(!exceeds(b"1:2x1:21:21:2", 1), "broken");
        // Each packet is a close packet: 5.5 million of them in 16 MB, of which no more than the bound are looked at.
        let many = b"1:1".repeat(16 * 1024 * 1024 / 3);
        assert!(exceeds(&many, 1000));
        // A stray `:` instead of the packet: the second one has no length.
        let odd = b"1:".repeat(8 * 1024 * 1024);
        assert_eq!(all(&odd), [Some(Packet::Text(Close, "")), None]);
    }

    #[test]
    fn payloads_are_written_as_the_client_takes_them() {
        let cases: [(&str, bool, Form, &[u8]); 6] = [
            ("4a", true, Form::Text, b"2:4a"),
            ("4a\x1e2", false, Form::Text, b"2:4a1:2"),
            ("4😀ü", true, Form::Text, "4:4😀ü".as_bytes()),
            ("4a\x1ebAQID", false, Form::Text, b"2:4a6:b4AQID"),
            (
                "4a\x1ebAQID",
                true,
                Form::Binary,
                b"\x00\x02\xff4a\x01\x04\xff\x04\x01\x02\x03",
            ),
            (
                "4ü0123456789\x1eb",
                true,
                Form::Binary,
                b"\x00\x01\x03\xff4\xc3\xbc0123456789\x01\x01\xff\x04",
            ),
        ];
        for (packets, takes_binary, form, expected) in cases {
            let mut out = Vec::new();
            assert_eq!(write(&mut out, packets.as_bytes(), takes_binary), form);
            assert_eq!(out, expected, "{packets:?}");
            let read = all(&out);
            assert!(read.iter().all(Option::is_some), "{packets:?}");
            assert_eq!(read.len(), packets.split('\x1e').count());
        }
    }
}
