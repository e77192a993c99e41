//! Compressed response bodies: what a request accepts (RFC 9110 §12.5.3), and gzip (RFC 1952) and
//! zlib (RFC 1950) around a deflate stream.

use super::Head;
use crate::websocket::deflate::Deflater;
use flate2::Crc;

/// A coding of a body that is spoken here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// RFC 1952.
    Gzip,
    /// The zlib format: HTTP's name for it is older than the word's other meaning.
    Deflate,
}

impl Encoding {
    /// The one the client likes best, the first named among equals; `None` to send bodies as they are.
    pub fn accepted(head: &Head<'_>) -> Option<Self> {
        let items = head
            .headers()
            .filter(|(name, _)| name.eq_ignore_ascii_case("accept-encoding"))
            .flat_map(|(_, value)| value.split(|byte| *byte == b','));
        let mut any = None;
        let mut named = [None; 2];
        for (at, item) in items.enumerate() {
            let (name, weight) = weighted(item);
            let rank = (weight, std::cmp::Reverse(at));
            if name.eq_ignore_ascii_case(b"gzip") {
                named[0] = Some(rank);
            } else if name.eq_ignore_ascii_case(b"deflate") {
                named[1] = Some(rank);
            } else if name == b"*" {
                any = Some(rank);
            }
        }
        let [gzip, deflate] = named.map(|rank| rank.or(any).filter(|(weight, _)| *weight > 0));
        match (gzip, deflate) {
            (None, None) => None,
            (gzip, deflate) if gzip >= deflate => Some(Self::Gzip),
            _ => Some(Self::Deflate),
        }
    }

    /// Name in `Content-Encoding`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
        }
    }

    /// Appends `body` in this coding.
    pub fn write(self, deflater: &mut Deflater, body: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Gzip => {
                // Deflate, no flags, no time, no hint, unknown system.
                out.extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff]);
                deflater.deflate_stream(body, out);
                let mut crc = Crc::new();
                crc.update(body);
                out.extend_from_slice(&crc.sum().to_le_bytes());
                out.extend_from_slice(&(body.len() as u32).to_le_bytes());
            }
            Self::Deflate => {
                // Deflate with a window of 32 KiB; the second byte makes the pair a multiple of 31.
                out.extend_from_slice(&[0x78, 0x9c]);
                deflater.deflate_stream(body, out);
                out.extend_from_slice(&adler32(body).to_be_bytes());
            }
        }
    }
}

/// Name and weight (in thousandths) of `name;q=0.5`; nonsense weighs nothing.
fn weighted(item: &[u8]) -> (&[u8], u32) {
    let mut parts = item.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix(b"q=").or(part.strip_prefix(b"Q=")));
    (name, weight.map_or(1_000, thousandths))
}

/// `0`, `1`, or a fraction of up to three digits (RFC 9110 §12.4.2).
fn thousandths(weight: &[u8]) -> u32 {
    let (whole, digits) = match weight {
        [b'0'] => (0, &b""[..]),
        [b'1'] => (1, &b""[..]),
        [b'0', b'.', digits @ ..] => (0, digits),
        [b'1', b'.', digits @ ..] => (1, digits),
        _ => return 0,
    };
    if digits.len() > 3 || !digits.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let fraction = [100, 10, 1].into_iter().zip(digits);
    let fraction: u32 = fraction
        .map(|(unit, digit)| unit * u32::from(digit - b'0'))
        .sum();
    (whole * 1_000 + fraction).min(1_000)
}

/// RFC 1950 §8.2.
fn adler32(body: &[u8]) -> u32 {
    const MODULUS: u32 = 65_521;
    /// Most bytes whose sums stay below 2^32.
    const BLOCK: usize = 5_552;
    let (mut a, mut b) = (1u32, 0u32);
    for block in body.chunks(BLOCK) {
        for byte in block {
            a += u32::from(*byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::parse_head;
    use flate2::{Decompress, FlushDecompress, Status};

    #[test]
    fn the_best_liked_coding_is_chosen() {
        let (gzip, deflate) = (Some(Encoding::Gzip), Some(Encoding::Deflate));
        for (accept, expected) in [
            ("", None),
            ("identity", None),
            ("gzip", gzip),
            ("GZip", gzip),
            ("deflate, gzip", deflate),
            ("gzip, deflate, br, zstd", gzip),
            ("br;q=1.0, gzip;q=0.8, deflate;q=0.9", deflate),
            ("gzip;q=0, deflate", deflate),
            ("gzip;q=0, deflate;q=0.000", None),
            ("*", gzip),
            ("*;q=0.1, deflate;q=0.2", deflate),
            ("*, gzip;q=0", deflate),
            ("gzip;q=7, deflate;q=0.0005, x;q=a", None),
            ("gzip ; q=1.000 , *;q=0", gzip),
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n");
            let head = parse_head(text.as_bytes())
                .expect("well-formed")
                .expect("complete");
            assert_eq!(Encoding::accepted(&head), expected, "{accept}");
        }
        let bare = parse_head(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .expect("good")
            .expect("whole");
        assert_eq!(Encoding::accepted(&bare), None);
    }

    #[test]
    fn bodies_come_back_from_both_codings() {
        let mut deflater = Deflater::new(6, 15);
        let long = b"4{\"content\":\"hello everybody\"}".repeat(10_000);
        for body in [b"".as_slice(), b"ok", &long, &[0xff; 70_000]] {
            for encoding in [Encoding::Gzip, Encoding::Deflate] {
                let mut coded = Vec::new();
                encoding.write(&mut deflater, body, &mut coded);
                let mut decompress = match encoding {
                    Encoding::Gzip => Decompress::new_gzip(15),
                    Encoding::Deflate => Decompress::new(true),
                };
                let mut out = Vec::with_capacity(body.len() + 1);
                let status = decompress.decompress_vec(&coded, &mut out, FlushDecompress::Finish);
                assert!(
                    matches!(status, Ok(Status::StreamEnd)),
                    "{}: {status:?}",
                    encoding.name()
                );
                assert_eq!(
                    decompress.total_in(),
                    coded.len() as u64,
                    "nothing behind the checksum"
                );
                assert_eq!(out, body, "{}", encoding.name());
            }
        }
    }
}
