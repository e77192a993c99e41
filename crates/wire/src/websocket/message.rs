//! Frames to messages: reassembly, UTF-8, limits. Owns the only per-connection state of the
//! WebSocket codec. An idle or unfragmented stream holds one null pointer.
//! HOT PATH: no allocation unless a message is fragmented, no lock, no dyn.

use super::close::{self, CloseFrame};
use super::frame::{self, FrameError, Header, OpCode};
use super::violation::Violation;
use crate::growth;

/// Below this many bytes the standard UTF-8 check is faster than setting up the vector one.
const SIMD_UTF8_BYTES_MIN: usize = 256;

/// Deflate at its worst adds an eighth (zlib's `deflateBound` for small windows) and this.
const COMPRESSED_EXTRA_BYTES: usize = 128;

/// Bounds and expectations for one connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one message, its fragments together. A compressed one may come in slightly more: it is
    /// its inflated size that counts, and deflate makes some messages longer.
    pub message_bytes_max: usize,
    /// Fragments of one message: endless tiny ones cost time although they add no bytes.
    pub fragments_max: u32,
    /// Frames must be masked (server side) or must not be (client side).
    pub masked: bool,
    /// RSV1 is allowed on the first frame of a message: permessage-deflate was negotiated.
    pub deflate: bool,
}

impl Limits {
    /// Bytes of one message as it comes in.
    fn bytes_max(&self, compressed: bool) -> usize {
        let bytes_max = self.message_bytes_max;
        if !compressed {
            return bytes_max;
        }
        bytes_max.saturating_add(bytes_max / 8 + COMPRESSED_EXTRA_BYTES)
    }
}

/// One complete message or control frame, borrowed from the read buffer or the assembler.
#[derive(Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// UTF-8 text.
    Text(&'a str),
    /// Bytes. Also every compressed message, whose text can only be checked once inflated: look at
    /// `text` of [`Step::Message`] then.
    Binary(&'a [u8]),
    /// Ping with its payload of at most 125 bytes.
    Ping(&'a [u8]),
    /// Pong with its payload of at most 125 bytes.
    Pong(&'a [u8]),
    /// Close; `None` without a status code.
    Close(Option<CloseFrame<'a>>),
}

/// What one call of [`Assembler::step`] achieved.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Nothing consumed.
    NeedMore {
        /// Total bytes of the frame at the front once its header is known (for one exact
        /// allocation), else 0.
        wanted: usize,
    },
    /// A fragment was taken in.
    Fragment {
        /// Bytes to drop from the front of the buffer.
        consumed: usize,
    },
    /// A message or control frame is complete.
    Message {
        /// Bytes to drop from the front of the buffer, after use of `message`.
        consumed: usize,
        /// `message` is [`Message::Binary`] with raw deflate data (RFC 7692).
        compressed: bool,
        /// The opcode said text; tells what a compressed message is to become.
        text: bool,
        /// The message.
        message: Message<'a>,
    },
}

/// Per-connection reassembly state: 8 bytes unless a message is in fragments.
#[derive(Debug, Default)]
pub struct Assembler {
    fragments: Option<Box<Fragments>>,
}

#[derive(Debug)]
struct Fragments {
    text: bool,
    compressed: bool,
    /// Handed out by the last call; to be dropped by the next one.
    finished: bool,
    count: u32,
    buf: Vec<u8>,
    /// `buf[..valid]` is UTF-8; behind it are at most three bytes of an unfinished character.
    valid: usize,
}

impl Assembler {
    /// Takes one frame from the front of `buf`, unmasking it in place.
    ///
    /// A message that is too big is refused from the header alone, before its bytes arrive.
    /// Fragments are copied into one buffer, which grows with bytes received, never with bytes
    /// declared. Text is checked when complete, fragmented text after each fragment. A finished
    /// fragmented message stays in the assembler until the next call or [`Assembler::release`].
    ///
    /// # Errors
    /// Any [`Violation`]; the connection must be closed, further calls are meaningless.
    #[inline]
    pub fn step<'a>(
        &'a mut self,
        buf: &'a mut [u8],
        limits: &Limits,
    ) -> Result<Step<'a>, Violation> {
        self.release();
        let Some(header) = frame::parse_header(buf).map_err(Violation::Frame)? else {
            return Ok(Step::NeedMore { wanted: 0 });
        };
        self.check_header(&header, limits)?;
        // `check_header` bounds the payload by `message_bytes_max` or 125, so this cannot overflow.
        let consumed = header.len.saturating_add(header.payload_len as usize);
        let Some(payload) = buf.get_mut(header.len..consumed) else {
            return Ok(Step::NeedMore { wanted: consumed });
        };
        if let Some(mask) = header.mask {
            frame::unmask(payload, mask);
        }
        let payload: &'a [u8] = payload;
        let text = header.opcode == OpCode::Text;
        let message = match header.opcode {
            OpCode::Ping => Message::Ping(payload),
            OpCode::Pong => Message::Pong(payload),
            OpCode::Close => Message::Close(close::parse(payload)?),
            OpCode::Continuation => return self.take_in(&header, payload, limits),
            _ if !header.fin => return self.take_in(&header, payload, limits),
            OpCode::Text if !header.rsv1 => {
                Message::Text(utf8(payload).map_err(|_| Violation::InvalidUtf8)?)
            }
            OpCode::Text | OpCode::Binary => Message::Binary(payload),
        };
        Ok(Step::Message {
            consumed,
            compressed: header.rsv1,
            text,
            message,
        })
    }

    /// A message has begun but is not complete: its deadline is running.
    pub fn is_mid_message(&self) -> bool {
        self.fragments
            .as_ref()
            .is_some_and(|fragments| !fragments.finished)
    }

    /// Heap bytes held.
    pub fn heap_bytes(&self) -> usize {
        self.fragments.as_ref().map_or(0, |fragments| {
            size_of::<Fragments>() + fragments.buf.capacity()
        })
    }

    /// Frees a finished fragmented message now rather than at the next [`Assembler::step`].
    #[inline]
    pub fn release(&mut self) {
        if self
            .fragments
            .as_ref()
            .is_some_and(|fragments| fragments.finished)
        {
            self.fragments = None;
        }
    }

    /// Everything that can be refused before the payload is there.
    #[inline]
    fn check_header(&self, header: &Header, limits: &Limits) -> Result<(), Violation> {
        if header.mask.is_some() != limits.masked {
            return Err(Violation::Mask);
        }
        if header.rsv1 && !limits.deflate {
            return Err(Violation::Frame(FrameError::ReservedBits));
        }
        if header.opcode.is_control() {
            return Ok(());
        }
        let (held, compressed) = match (&self.fragments, header.opcode) {
            (None, OpCode::Continuation) => return Err(Violation::UnexpectedContinuation),
            (Some(_), OpCode::Text | OpCode::Binary) => return Err(Violation::InterruptedMessage),
            (None, _) => (0, header.rsv1),
            (Some(fragments), _) => {
                if fragments.count >= limits.fragments_max {
                    return Err(Violation::TooManyFragments);
                }
                (fragments.buf.len(), fragments.compressed)
            }
        };
        let room = limits.bytes_max(compressed).saturating_sub(held) as u64;
        if header.payload_len > room {
            return Err(Violation::MessageTooBig);
        }
        Ok(())
    }

    /// Adds one fragment; hands the message out when it was the last one.
    #[cold]
    fn take_in<'a>(
        &'a mut self,
        header: &Header,
        payload: &[u8],
        limits: &Limits,
    ) -> Result<Step<'a>, Violation> {
        let consumed = header.len + payload.len();
        let fragments = self.fragments.get_or_insert_with(|| {
            Box::new(Fragments {
                text: header.opcode == OpCode::Text,
                compressed: header.rsv1,
                finished: false,
                count: 0,
                buf: Vec::new(),
                valid: 0,
            })
        });
        fragments.count += 1;
        let bytes_max = limits.bytes_max(fragments.compressed);
        growth::extend(&mut fragments.buf, payload, bytes_max);
        let check_text = fragments.text && !fragments.compressed;
        if !header.fin {
            if check_text {
                fragments.check_so_far()?;
            }
            return Ok(Step::Fragment { consumed });
        }
        fragments.finished = true;
        let message = if check_text {
            Message::Text(utf8(&fragments.buf).map_err(|_| Violation::InvalidUtf8)?)
        } else {
            Message::Binary(&fragments.buf)
        };
        let (compressed, text) = (fragments.compressed, fragments.text);
        Ok(Step::Message {
            consumed,
            compressed,
            text,
            message,
        })
    }
}

impl Fragments {
    /// Checks what the last fragment added; a character cut by the frame boundary may wait.
    fn check_so_far(&mut self) -> Result<(), Violation> {
        match utf8(&self.buf[self.valid..]) {
            Ok(text) => self.valid += text.len(),
            // `None` = the input ends inside a character that may still become right.
            Err(error) if error.incomplete => self.valid += error.valid_up_to,
            Err(_) => return Err(Violation::InvalidUtf8),
        }
        Ok(())
    }
}

/// Text of a message that was inflated.
///
/// # Errors
/// [`Violation::InvalidUtf8`].
pub fn check_text(bytes: &[u8]) -> Result<&str, Violation> {
    utf8(bytes).map_err(|_| Violation::InvalidUtf8)
}

struct Utf8Error {
    valid_up_to: usize,
    incomplete: bool,
}

#[inline]
fn utf8(bytes: &[u8]) -> Result<&str, Utf8Error> {
    if bytes.len() < SIMD_UTF8_BYTES_MIN {
        std::str::from_utf8(bytes).map_err(|error| Utf8Error {
            valid_up_to: error.valid_up_to(),
            incomplete: error.error_len().is_none(),
        })
    } else {
        simdutf8::compat::from_utf8(bytes).map_err(|error| Utf8Error {
            valid_up_to: error.valid_up_to(),
            incomplete: error.error_len().is_none(),
        })
    }
}

#[cfg(test)]
mod tests;
