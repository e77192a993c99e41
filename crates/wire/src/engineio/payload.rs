//! Polling payloads: packets joined by 0x1E, binary as `b` and standard base64.

use super::PacketType;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Between two packets. JSON escapes it, so it cannot occur inside one.
pub const SEPARATOR: u8 = 0x1e;

/// Like Node's decoder, takes what was written with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// One packet of a payload.
#[derive(Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// Type and the text behind it.
    Text(PacketType, &'a str),
    /// A binary message, still base64, without the `b`: see [`decode_base64`].
    Base64(&'a str),
}

/// Begins the lazy split of a POST body; `None` when it is not UTF-8 (checked once, here).
pub fn split(body: &[u8]) -> Option<Split<'_>> {
    simdutf8::basic::from_utf8(body)
        .ok()
        .map(|text| Split { rest: Some(text) })
}

/// Packets of one payload. An item is `Err` for an empty packet or an unknown type, and then the
/// last one.
#[derive(Debug)]
pub struct Split<'a> {
    rest: Option<&'a str>,
}

impl<'a> Iterator for Split<'a> {
    type Item = Result<Packet<'a>, ()>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let (packet, behind) = match memchr::memchr(SEPARATOR, rest.as_bytes()) {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        let item = match packet.strip_prefix('b') {
            Some(base64) => Some(Packet::Base64(base64)),
            None => super::parse_text(packet).map(|(kind, text)| Packet::Text(kind, text)),
        };
        if item.is_some() {
            self.rest = behind;
        }
        Some(item.ok_or(()))
    }
}

/// Appends the bytes of a `b` packet; `out` is unchanged after an error. Standard alphabet, nothing
/// but it; padding may be missing.
///
/// # Errors
/// `Err(())` when `text` is not base64: the session ends with a parse error.
#[expect(
    clippy::result_unit_err,
    reason = "the one error has one consequence and no details"
)]
pub fn decode_base64(text: &str, out: &mut Vec<u8>) -> Result<(), ()> {
    let start = out.len();
    let decoded = if text.contains(['\r', '\n']) {
        // The Java client breaks lines after 76 characters.
        BASE64.decode_vec(text.replace(['\r', '\n'], ""), out)
    } else {
        BASE64.decode_vec(text, out)
    };
    decoded.map_err(|_| out.truncate(start))
}

/// Appends `b` and the padded base64 of `data`.
pub fn write_binary(out: &mut Vec<u8>, data: &[u8]) {
    out.push(b'b');
    append_base64(out, data);
}

/// Appends the padded base64 of `data`.
pub fn append_base64(out: &mut Vec<u8>, data: &[u8]) {
    let start = out.len();
    out.resize(start + data.len().div_ceil(3) * 4, b'=');
    let written = BASE64.encode_slice(data, &mut out[start..]);
    debug_assert_eq!(
        written,
        Ok(out.len() - start),
        "four characters per three bytes"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engineio::PacketType::{Close, Message, Ping};

    #[test]
    fn payloads_are_split_lazily_up_to_the_first_fault() {
        let text = |kind, text| Ok(Packet::Text(kind, text));
        let cases: [(&str, Vec<Result<Packet<'_>, ()>>); 8] = [
            ("4a", vec![text(Message, "a")]),
            (
                "4a\x1ebAQID\x1e2",
                vec![
                    text(Message, "a"),
                    Ok(Packet::Base64("AQID")),
                    text(Ping, ""),
                ],
            ),
            ("b", vec![Ok(Packet::Base64(""))]),
            ("", vec![Err(())]),
            ("4a\x1e", vec![text(Message, "a"), Err(())]),
            ("\x1e4a", vec![Err(())]),
            ("1\x1e9\x1e4a", vec![text(Close, ""), Err(())]),
            ("ü", vec![Err(())]),
        ];
        for (body, expected) in cases {
            let packets: Option<Vec<_>> = split(body.as_bytes()).map(Iterator::collect);
            assert_eq!(packets, Some(expected), "{body:?}");
        }
        assert!(split(b"4\xff").is_none());
    }

    #[test]
    fn base64_is_strict_but_for_padding() {
        let cases: [(&str, Option<&[u8]>); 9] = [
            ("", Some(b"")),
            ("AQID", Some(b"\x01\x02\x03")),
            ("AQI=", Some(b"\x01\x02")),
            ("AQI", Some(b"\x01\x02")),
            ("AQ==", Some(b"\x01")),
            ("AQ", Some(b"\x01")),
            ("A", None),
            ("AQ-_", None),
            ("AQI D", None),
        ];
        for (text, expected) in cases {
            let mut out = vec![7];
            let decoded = decode_base64(text, &mut out).is_ok();
            assert_eq!(decoded.then(|| &out[1..]), expected, "{text}");
            assert_eq!(
                out.len(),
                1 + expected.map_or(0, <[u8]>::len),
                "unchanged after an error"
            );
        }
    }

    #[test]
    fn binary_is_written_with_padding() {
        for (data, text) in [
            (b"".as_slice(), "b"),
            (b"\x01", "bAQ=="),
            (b"\x01\x02\x03", "bAQID"),
        ] {
            let mut out = Vec::new();
            write_binary(&mut out, data);
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
    }
}
