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
    BASE64
        .decode_vec(text, out)
        .map_err(|_| out.truncate(start))
}

/// Appends `b` and the padded base64 of `data`.
pub fn write_binary(out: &mut Vec<u8>, data: &[u8]) {
    out.push(b'b');
    append_base64(out, data);
}

/// Appends the padded base64 of `data`.
pub(crate) fn append_base64(out: &mut Vec<u8>, data: &[u8]) {
    let start = out.len();
    out.resize(start + data.len().div_ceil(3) * 4, b'=');
    let written = BASE64.encode_slice(data, &mut out[start..]);
    debug_assert_eq!(
        written,
        Ok(out.len() - start),
        "four characters per three bytes"
    );
}
