//! Compressed messages (RFC 7692 §7.2): one compressor and one decompressor, each for one message
//! after another. Neither knows frames, limits of a peer, or whose message it has.
//! HOT PATH: no allocation once made, but for the growth of the caller's buffer.

pub use crate::bounds::DEFLATE_ENDS_MAX;
use crate::growth;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// What a sync flush ends with: left out by the sender, put back by the receiver (RFC 7692 §7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
/// The tail and an empty last block. The message before it is whole: a cut message would have swallowed it.
const TAIL_AND_END: [u8; 9] = [0, 0, 0xff, 0xff, 1, 0, 0, 0xff, 0xff];
/// First capacity of an output buffer.
const START_BYTES: usize = 4096;

/// Makes compressed payloads.
#[derive(Debug)]
pub struct Deflater {
    compress: Compress,
    window_bits: u8,
}

impl Deflater {
    /// `level` is 2 (fast; so is 1) to 9 (small), `window_bits` 9 to 15; values beyond are brought inside.
    pub fn new(level: u8, window_bits: u8) -> Self {
        let window_bits = window_bits.clamp(9, 15);
        // Level 1 of zlib-rs 0.6.8 panics on some incompressible input with a window of 512 bytes, which a client may ask for.
        let level = Compression::new(u32::from(level.clamp(2, 9)));
        Self {
            compress: Compress::new_with_window_bits(level, false, window_bits),
            window_bits,
        }
    }

    /// Appends `message` compressed. `false`, and nothing appended: it would not be shorter.
    ///
    /// Later messages may refer to this one unless [`Deflater::forget`] is called between them.
    pub fn deflate(&mut self, message: &[u8], out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let done = self.run(
            message,
            out,
            FlushCompress::Sync,
            message.len() + TAIL.len(),
        );
        let made = out.len() - start;
        if done && made < message.len() + TAIL.len() && out.ends_with(&TAIL) {
            out.truncate(out.len() - TAIL.len());
            return true;
        }
        out.truncate(start);
        // The receiver will not have seen this message in compressed form.
        self.forget();
        false
    }

    /// Appends `body` as one whole deflate stream (RFC 1951), for use outside WebSocket.
    pub(crate) fn deflate_stream(&mut self, body: &[u8], out: &mut Vec<u8>) {
        // The stream stands alone before and behind.
        self.forget();
        self.run(body, out, FlushCompress::Finish, usize::MAX);
        self.forget();
    }

    /// Begins anew: what follows refers to nothing before (a sender always may, RFC 7692 §7.2.3.1).
    pub fn forget(&mut self) {
        self.compress.reset();
    }

    /// `false` if the output passed `bytes_max`.
    fn run(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        flush: FlushCompress,
        bytes_max: usize,
    ) -> bool {
        let (start, before) = (out.len(), self.compress.total_in());
        out.reserve(input.len() + 64);
        loop {
            let taken = (self.compress.total_in() - before) as usize;
            let Some(rest) = input.get(taken..) else {
                return false;
            };
            let Ok(status) = self.compress.compress_vec(rest, out, flush) else {
                return false;
            };
            // Space left over means that everything is out; without any, the flush may go on.
            if status == Status::StreamEnd || out.len() < out.capacity() {
                return true;
            }
            if out.len() - start > bytes_max {
                return false;
            }
            out.reserve(input.len() / 2 + 64);
        }
    }

    /// Heap bytes held: window, hash chains, hash table and pending output, as zlib-rs lays them out.
    pub fn heap_bytes(&self) -> usize {
        deflater_bytes(self.window_bits)
    }
}

/// Heap bytes of a [`Deflater`] with this window.
pub fn deflater_bytes(window_bits: u8) -> usize {
    let window = 1usize << window_bits.clamp(9, 15);
    FIXED_BYTES + window * 4
}

/// Of a [`Deflater`], what does not depend on its window.
const FIXED_BYTES: usize = 246 * 1024;

/// Why a message could not be inflated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InflateError {
    /// It is longer than allowed.
    TooBig,
    /// It is not deflate data, or not a whole message of it.
    Corrupt,
}

/// Reads compressed payloads, whatever window their sender used.
#[derive(Debug)]
pub struct Inflater {
    decompress: Decompress,
}

impl Default for Inflater {
    fn default() -> Self {
        Self {
            decompress: Decompress::new(false),
        }
    }
}

impl Inflater {
    /// Heap bytes of one.
    pub const BYTES: usize = 48 * 1024;

    /// Appends the message in `payload`, which refers to no other. Stops at the first byte over
    /// `bytes_max`.
    ///
    /// # Errors
    /// Either [`InflateError`]; `out` then ends with a part of the message.
    pub fn inflate(
        &mut self,
        payload: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), InflateError> {
        let mut run = Run::new(bytes_max, out);
        let result = match run.feed(&mut self.decompress, payload) {
            Ok(Fed::Ended) => Ok(()),
            Ok(Fed::Open) => match run.feed(&mut self.decompress, &TAIL_AND_END) {
                Ok(Fed::Ended) => Ok(()),
                Ok(Fed::Open) => Err(InflateError::Corrupt),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        self.decompress.reset(false);
        result
    }

    /// The same for a sender that may refer to what this inflater read before. After an error the
    /// connection cannot go on.
    ///
    /// # Errors
    /// Either [`InflateError`].
    pub fn inflate_next(
        &mut self,
        payload: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), InflateError> {
        let mut run = Run::new(bytes_max, out);
        match run.feed(&mut self.decompress, payload)? {
            // A stream that ended took its window along.
            Fed::Ended => self.decompress.reset(false),
            Fed::Open => {
                run.feed(&mut self.decompress, &TAIL)?;
            }
        }
        Ok(())
    }
}

/// How the input of a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fed {
    /// Between blocks, or inside one.
    Open,
    /// With the last block of a deflate stream.
    Ended,
}

/// One message on its way.
struct Run<'a> {
    bytes_max: usize,
    out: &'a mut Vec<u8>,
    start: usize,
    ends: u32,
}

impl<'a> Run<'a> {
    fn new(bytes_max: usize, out: &'a mut Vec<u8>) -> Self {
        let start = out.len();
        Self {
            bytes_max,
            out,
            start,
            ends: 0,
        }
    }

    fn feed(&mut self, decompress: &mut Decompress, mut input: &[u8]) -> Result<Fed, InflateError> {
        loop {
            if self.out.len() == self.out.capacity() {
                self.grow();
            }
            let (read, made) = (decompress.total_in(), self.out.len());
            let status = decompress.decompress_vec(input, self.out, FlushDecompress::Sync);
            let used = (decompress.total_in() - read) as usize;
            input = input.get(used..).unwrap_or_default();
            if self.out.len() - self.start > self.bytes_max {
                // A buffer that was larger already took more.
                self.out.truncate(self.start + self.bytes_max + 1);
                return Err(InflateError::TooBig);
            }
            let status = status.map_err(|_| InflateError::Corrupt)?;
            let full = self.out.len() == self.out.capacity();
            if status == Status::StreamEnd {
                if input.is_empty() {
                    return Ok(Fed::Ended);
                }
                self.ends += 1;
                if self.ends > DEFLATE_ENDS_MAX {
                    return Err(InflateError::Corrupt);
                }
                decompress.reset(false);
            } else if !full && input.is_empty() {
                return Ok(Fed::Open);
            } else if !full && used == 0 && self.out.len() == made {
                return Err(InflateError::Corrupt);
            }
        }
    }

    /// One byte more than allowed at most: that one proves the message too big.
    fn grow(&mut self) {
        let made = self.out.len() - self.start;
        let most = self.bytes_max.saturating_add(1);
        let wanted = (made + 1).max(START_BYTES.min(most));
        growth::make_room(
            self.out,
            self.start + wanted,
            self.start.saturating_add(most),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deflated(message: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(Deflater::new(6, 15).deflate(message, &mut out));
        out
    }

    fn inflated(payload: &[u8], bytes_max: usize) -> Result<Vec<u8>, InflateError> {
        let mut out = Vec::new();
        Inflater::default().inflate(payload, bytes_max, &mut out)?;
        Ok(out)
    }

    #[test]
    fn the_examples_of_the_rfc_are_read() {
        // RFC 7692 §7.2.3: one block, no compression, a final block, two blocks.
        for payload in [
            [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00].as_slice(),
            &[
                0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00,
            ],
            &[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00],
            &[
                0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00,
            ],
        ] {
            assert_eq!(
                inflated(payload, 5).as_deref(),
                Ok(b"Hello".as_slice()),
                "{payload:02x?}"
            );
            assert_eq!(
                inflated(payload, 4),
                Err(InflateError::TooBig),
                "{payload:02x?}"
            );
        }
        assert_eq!(inflated(&[0], 0).as_deref(), Ok(b"".as_slice()));
    }

    #[test]
    fn the_example_of_a_kept_window_is_read() {
        let mut inflater = Inflater::default();
        let mut out = Vec::new();
        for payload in [
            [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00].as_slice(),
            &[0xf2, 0x00, 0x11, 0x00, 0x00],
        ] {
            out.clear();
            assert_eq!(inflater.inflate_next(payload, 5, &mut out), Ok(()));
            assert_eq!(out, b"Hello");
        }
        assert_eq!(
            inflated(&[0xf2, 0x00, 0x11, 0x00, 0x00], 5),
            Err(InflateError::Corrupt)
        );
    }

    #[test]
    fn broken_and_cut_messages_are_refused() {
        let text = br#"{"room":"global","content":"hello hello hello"}"#.repeat(20);
        let whole = deflated(&text);
        assert_eq!(inflated(&whole, text.len()).as_deref(), Ok(text.as_slice()));
        for payload in [
            b"".as_slice(),
            &[0xff; 16],
            &[0x06],
            &whole[..whole.len() / 2],
            &[0x00, 5, 0, 0, 0, 1],
        ] {
            assert_eq!(
                inflated(payload, 10_000),
                Err(InflateError::Corrupt),
                "{payload:02x?}"
            );
        }
        let mut ends = vec![0x03, 0x00];
        assert_eq!(inflated(&ends, 0), Ok(Vec::new()));
        ends = ends.repeat(1_000);
        assert_eq!(
            inflated(&ends, 0),
            Err(InflateError::Corrupt),
            "endless ends of the stream"
        );
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        let bomb = deflated(&vec![b'a'; 50_000_000]);
        assert!(bomb.len() < 100_000);
        let mut out = Vec::new();
        let mut inflater = Inflater::default();
        let result = inflater.inflate(&bomb, 1_000_000, &mut out);
        assert_eq!((result, out.len()), (Err(InflateError::TooBig), 1_000_001));
        assert!(out.capacity() <= 1_000_001, "{}", out.capacity());
        // The next message is another's.
        out.clear();
        assert_eq!(
            inflater.inflate(&deflated(b"hello hello hello"), 17, &mut out),
            Ok(())
        );
        assert_eq!(out, b"hello hello hello");
    }

    #[test]
    fn what_does_not_shrink_is_left_as_it_is() {
        let mut deflater = Deflater::new(6, 15);
        let mut out = b"before".to_vec();
        let mut state = 1u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            for shift in [13, -17, 5] {
                state ^= if shift > 0 {
                    state << shift
                } else {
                    state >> -shift
                };
            }
            state as u8
        })
        .take(2_000)
        .collect();
        for message in [b"".as_slice(), b"x", b"ab", &noise] {
            assert!(
                !deflater.deflate(message, &mut out),
                "{} bytes",
                message.len()
            );
            assert_eq!(out, b"before");
        }
        assert!(deflater.deflate(&b"to be or not ".repeat(9), &mut out));
    }

    #[test]
    fn a_kept_window_saves_and_a_forgotten_one_does_not() {
        let mut deflater = Deflater::new(6, 15);
        let mut inflater = Inflater::default();
        let text =
            br#"{"userId":"user-17","content":"the quick brown fox jumps over the lazy dog"}"#;
        let mut sizes = Vec::new();
        for forget in [true, false, false, true] {
            if forget {
                deflater.forget();
            }
            let (mut payload, mut out) = (Vec::new(), Vec::new());
            assert!(deflater.deflate(text, &mut payload));
            assert_eq!(
                inflater.inflate_next(&payload, text.len(), &mut out),
                Ok(())
            );
            assert_eq!(out, text);
            sizes.push(payload.len());
        }
        assert_eq!(sizes[0], sizes[3]);
        assert!(
            sizes[1] < sizes[0] / 4 && sizes[2] < sizes[0] / 4,
            "{sizes:?}"
        );
    }
}
