//! Owns compressed messages (RFC 7692) of one worker's users: one compressor and one inflater for all, since both sides agree to keep
//! nothing from message to message.

use crate::loss::Loss;
use wire::websocket::deflate::{Deflater, Inflater};

/// What is asked for. A server that keeps its window all the same has to decline (RFC 7692 §7.1.1.1).
pub const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate; \
    server_no_context_takeover; client_no_context_takeover\r\n";
const NAME: &str = "permessage-deflate";
/// As browsers and zlib do it unless told otherwise.
const LEVEL: u8 = 6;
const WINDOW_BITS: u8 = 15;

#[derive(Debug)]
pub struct Deflate {
    deflater: Deflater,
    inflater: Inflater,
    /// The last compressed message and its text: the other members of its room get the same bytes.
    last: (Vec<u8>, Vec<u8>),
}

impl Default for Deflate {
    fn default() -> Self {
        Deflate {
            deflater: Deflater::new(LEVEL, WINDOW_BITS),
            inflater: Inflater::default(),
            last: (Vec::new(), Vec::new()),
        }
    }
}

impl Deflate {
    /// Appends the message compressed; `false`, and nothing appended, where that is not shorter.
    pub fn deflate(&mut self, message: &[u8], out: &mut Vec<u8>) -> bool {
        let is_shorter = self.deflater.deflate(message, out);
        self.deflater.forget();
        is_shorter
    }

    /// The text of a compressed message of at most `bytes_max` bytes; to be given back with `keep`.
    pub fn inflate(&mut self, payload: &[u8], bytes_max: usize) -> Result<Vec<u8>, Loss> {
        let (bytes, text) = &mut self.last;
        if bytes != payload {
            bytes.clear();
            text.clear();
            self.inflater
                .inflate(payload, bytes_max, text)
                .map_err(|_| Loss::Unexpected("a compressed message that cannot be read"))?;
            bytes.extend_from_slice(payload);
        }
        Ok(std::mem::take(text))
    }

    /// Takes back the text that was read last.
    pub fn keep(&mut self, text: Vec<u8>) {
        self.last.1 = text;
    }
}

/// Whether the head of an answer agrees to compress.
pub fn is_agreed(head: &str) -> bool {
    let lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let mut lines = lines.filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-extensions"));
    lines.any(|(_, value)| value.trim_start().starts_with(NAME))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_comes_out_as_it_went_in_whatever_was_before() {
        let mut deflate = Deflate::default();
        let texts = ["a".repeat(500), "b".repeat(900)].map(String::into_bytes);
        let packed = texts.each_ref().map(|text| {
            let mut out = Vec::new();
            assert!(deflate.deflate(text, &mut out));
            out
        });
        for at in [0, 1, 1, 0] {
            let text = deflate.inflate(&packed[at], 1_000).unwrap();
            assert_eq!(text, texts[at]);
            deflate.keep(text);
        }
        assert!(deflate.inflate(&packed[1], 800).is_err());
        assert!(deflate.inflate(b"\xff\xff", 800).is_err());
    }

    #[test]
    fn an_agreement_is_read_from_its_header_alone() {
        let head = "HTTP/1.1 101 Switching Protocols\r\nsec-websocket-extensions: permessage-deflate; x\r\n";
        assert!(is_agreed(head));
        assert!(!is_agreed(
            "HTTP/1.1 101 OK\r\nX-Note: permessage-deflate\r\n"
        ));
    }
}
