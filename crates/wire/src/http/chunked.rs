//! Chunked request bodies (RFC 9112 §7.1), decoded as they arrive. Strict where leniency lets two
//! readers disagree about where a message ends: sizes are bare hex digits, lines end in CRLF,
//! trailers are field lines as in a head, bounded and dropped.

use crate::bounds::{CHUNK_LINE_BYTES_MAX, TRAILERS_MAX};

/// Not chunked coding, or too much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkError {
    /// Bad size, bare LF, bytes behind a chunk, line too long, trailers too many or no field lines.
    Malformed,
    /// The body is longer than allowed.
    TooLarge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Size,
    Data {
        left: usize,
    },
    /// The CRLF behind a chunk.
    DataEnd,
    Trailers {
        lines: u8,
    },
    Done,
}

/// Decoder of one body.
#[derive(Debug)]
pub struct Chunked {
    state: State,
    /// The body so far.
    pub body: Vec<u8>,
}

impl Default for Chunked {
    fn default() -> Self {
        Self {
            state: State::Size,
            body: Vec::new(),
        }
    }
}

impl Chunked {
    /// The last chunk and the trailers were read.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Takes what it can off the front of `buf`; returns how many bytes that were. Memory follows
    /// the bytes received. The body may have `bytes_max` bytes.
    ///
    /// # Errors
    /// [`ChunkError`]; the connection cannot be read any further.
    pub fn decode(&mut self, buf: &[u8], bytes_max: usize) -> Result<usize, ChunkError> {
        let mut at = 0;
        loop {
            let rest = &buf[at..];
            let used = match self.state {
                State::Done => return Ok(at),
                State::Data { left } => self.data(rest, left),
                State::Size | State::DataEnd | State::Trailers { .. } => match line(rest)? {
                    Some(text) => {
                        self.line(text, bytes_max)?;
                        text.len() + 2
                    }
                    None => 0,
                },
            };
            if used == 0 {
                return Ok(at);
            }
            at += used;
        }
    }

    fn data(&mut self, rest: &[u8], left: usize) -> usize {
        let take = left.min(rest.len());
        self.body.extend_from_slice(&rest[..take]);
        self.state = if take == left {
            State::DataEnd
        } else {
            State::Data { left: left - take }
        };
        take
    }

    fn line(&mut self, text: &[u8], bytes_max: usize) -> Result<(), ChunkError> {
        self.state = match self.state {
            State::Size => match size(text)? {
                0 => State::Trailers { lines: 0 },
                left if left > bytes_max.saturating_sub(self.body.len()) => {
                    return Err(ChunkError::TooLarge);
                }
                left => State::Data { left },
            },
            State::DataEnd if text.is_empty() => State::Size,
            State::Trailers { .. } if text.is_empty() => State::Done,
            State::Trailers { lines } if lines < TRAILERS_MAX && is_field_line(text) => {
                State::Trailers { lines: lines + 1 }
            }
            _ => return Err(ChunkError::Malformed),
        };
        Ok(())
    }
}

/// The line at the front, without its CRLF.
fn line(buf: &[u8]) -> Result<Option<&[u8]>, ChunkError> {
    let window = &buf[..buf.len().min(CHUNK_LINE_BYTES_MAX)];
    match memchr::memchr(b'\n', window) {
        Some(end) if end > 0 && window[end - 1] == b'\r' => {
            let text = &window[..end - 1];
            // A lone CR in an extension or trailer ends the line for some readers.
            let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
            if text.iter().any(is_control) {
                return Err(ChunkError::Malformed);
            }
            Ok(Some(text))
        }
        Some(_) => Err(ChunkError::Malformed),
        None if window.len() == CHUNK_LINE_BYTES_MAX => Err(ChunkError::Malformed),
        None => Ok(None),
    }
}

/// A token, and a colon right behind it (RFC 9110 §5.1, RFC 9112 §5). Else it is a folded line, or
/// the next request, to those who think that the body ended before.
fn is_field_line(text: &[u8]) -> bool {
    let name = memchr::memchr(b':', text).map_or(&b""[..], |colon| &text[..colon]);
    super::head::is_token(name)
}

/// Chunk size: one to eight hex digits, then nothing or an extension.
fn size(text: &[u8]) -> Result<usize, ChunkError> {
    let digits = text
        .iter()
        .position(|byte| *byte == b';')
        .unwrap_or(text.len());
    let digits = &text[..digits];
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return Err(ChunkError::Malformed);
    }
    let digits = std::str::from_utf8(digits).map_err(|_| ChunkError::Malformed)?;
    usize::from_str_radix(digits, 16).map_err(|_| ChunkError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"4\r\n4he\n\r\n3;x=1\r\nllo\r\n0\r\nTrailer: t\r\n\r\n";

    #[test]
    fn any_chunking_gives_the_same_body() {
        for step in 1..=BODY.len() {
            let (mut chunked, mut held) = (Chunked::default(), Vec::new());
            for piece in BODY.chunks(step) {
                held.extend_from_slice(piece);
                let used = chunked.decode(&held, 100).expect("valid");
                held.drain(..used);
            }
            assert!(chunked.is_done() && held.is_empty(), "step {step}");
            assert_eq!(chunked.body, b"4he\nllo");
        }
    }

    #[test]
    fn what_follows_the_body_is_left() {
        let mut chunked = Chunked::default();
        assert_eq!(chunked.decode(b"1\r\nx\r\n0\r\n\r\nGET /", 9), Ok(11));
        assert!(chunked.is_done());
    }

    #[test]
    fn wrong_coding_is_refused() {
        for (text, error) in [
            (&b"+1\r\nx"[..], ChunkError::Malformed),
            (b"0x1\r\nx", ChunkError::Malformed),
            (b"\r\n", ChunkError::Malformed),
            (b"1\nx", ChunkError::Malformed),
            (b"1\r\nxy\r\n", ChunkError::Malformed),
            (b"ffffffffff\r\n", ChunkError::Malformed),
            (b"1;a\rb\r\nx\r\n", ChunkError::Malformed),
            (b"0\r\na: \rb\r\n\r\n", ChunkError::Malformed),
            (b"0\r\nGET / HTTP/1.1\r\n\r\n", ChunkError::Malformed),
            (b"0\r\na : b\r\n\r\n", ChunkError::Malformed),
            (b"0\r\n: b\r\n\r\n", ChunkError::Malformed),
            (b"0\r\na: b\r\n c\r\n\r\n", ChunkError::Malformed),
            (b"0\r\na: b\r\n\tc: d\r\n\r\n", ChunkError::Malformed),
            (b"ffffffff\r\n", ChunkError::TooLarge),
            (&[b'1'; 300], ChunkError::Malformed),
        ] {
            assert_eq!(Chunked::default().decode(text, 9), Err(error), "{text:?}");
        }
        let trailers = [&b"0\r\n"[..], &b"a: b\r\n".repeat(20)].concat();
        assert_eq!(
            Chunked::default().decode(&trailers, 9),
            Err(ChunkError::Malformed)
        );
    }
}
