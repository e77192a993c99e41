//! Owns one client socket: non-blocking reads into a buffer shared by all, writes, and the few
//! bytes that a short write or a split message leaves behind. An idle stream holds no buffer.

use crate::loss::Loss;
use crate::tls::Session;
use mio::net::TcpStream;
use std::fmt;
use std::io::{ErrorKind, Read, Write};
use wire::websocket::frame::{Header, OpCode};

/// A socket, or the place where one was.
#[derive(Debug, Default)]
pub struct Stream {
    stream: Option<TcpStream>,
    tls: Option<Box<Session>>,
    left_over: Option<Box<LeftOver>>,
}

/// Rarely present, so it is one pointer per connection.
#[derive(Debug, Default)]
struct LeftOver {
    /// Front of a frame whose rest has not come yet.
    unread: Vec<u8>,
    unsent: Vec<u8>,
    /// Fragments of a message whose last has not come yet.
    fragments: Option<Fragments>,
}

/// A message in parts.
#[derive(Debug, Default)]
pub struct Fragments {
    pub message: Vec<u8>,
    pub is_compressed: bool,
}

/// What one `read` brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filled {
    /// So many bytes, and the socket is known to be empty now.
    Drained(usize),
    More(usize),
}

impl Stream {
    pub fn new(stream: TcpStream, tls: Option<Session>) -> Self {
        Stream {
            stream: Some(stream),
            tls: tls.map(Box::new),
            left_over: None,
        }
    }

    pub fn is_open(&self) -> bool {
        self.stream.is_some()
    }

    /// Drops the socket. The linger time is zero, so it leaves no TIME_WAIT behind.
    pub fn close(&mut self) {
        self.stream = None;
        self.tls = None;
        self.left_over = None;
    }

    /// Acknowledges every second segment (RFC 5681 §4.2) instead of each: otherwise an answer to
    /// every small message is most of what its reading costs. Until a segment stays alone for long.
    pub fn delay_acks(&self) {
        #[cfg(target_os = "linux")]
        if let Some(stream) = &self.stream {
            // Only a hint: without it everything works as well.
            let _ = rustix::net::sockopt::set_tcp_quickack(stream, false);
        }
    }

    /// Reads once, behind the bytes kept from last time; `buf[..returned]` is then complete. `ends`: the peer is known to have
    /// sent its last, so that the end of the stream is still to be read behind the last bytes: no event tells of it again.
    pub fn fill(&mut self, buf: &mut [u8], kept: usize, ends: bool) -> Result<Filled, Loss> {
        let Some(stream) = &mut self.stream else {
            return Ok(Filled::Drained(kept));
        };
        let room = buf.len() - kept;
        if room == 0 {
            return Err(Loss::FrameTooLarge);
        }
        if let Some(tls) = &mut self.tls {
            return match tls.read(stream, &mut buf[kept..]) {
                Ok(0) => Err(Loss::EndOfStream),
                // Only an empty socket raises a new event, and a record may hold more than was read.
                Ok(count) => Ok(Filled::More(kept + count)),
                Err(Loss::Io(ErrorKind::WouldBlock)) => Ok(Filled::Drained(kept)),
                Err(loss) => Err(loss),
            };
        }
        match stream.read(&mut buf[kept..]) {
            Ok(0) => Err(Loss::EndOfStream),
            // epoll(7): with edge-triggered streams a short read means nothing is left, and new
            // bytes raise a new event. Saves the second read of every turn.
            Ok(count) if count < room && !ends => Ok(Filled::Drained(kept + count)),
            Ok(count) => Ok(Filled::More(kept + count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Filled::Drained(kept)),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(Filled::More(kept)),
            Err(error) => Err(Loss::Io(error.kind())),
        }
    }

    /// Moves the front of an incomplete frame back into the shared buffer.
    pub fn take_unread(&mut self, buf: &mut [u8]) -> usize {
        let Some(left_over) = &mut self.left_over else {
            return 0;
        };
        let count = left_over.unread.len();
        buf[..count].copy_from_slice(&left_over.unread);
        left_over.unread.clear();
        count
    }

    pub fn keep_unread(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let left_over = self.left_over.get_or_insert_default();
            left_over.unread.extend_from_slice(bytes);
        }
    }

    /// Takes in one frame of a message in fragments (RFC 6455 §5.4), which may hold `limit` bytes in all; returns the message
    /// behind the last one.
    pub fn take_fragment(
        &mut self,
        header: &Header,
        payload: &[u8],
        limit: usize,
    ) -> Result<Option<Fragments>, Loss> {
        let fragments = &mut self.left_over.get_or_insert_default().fragments;
        match (fragments.is_some(), header.opcode == OpCode::Continuation) {
            (false, true) => return Err(Loss::Unexpected("a fragment without a first one")),
            (true, false) => return Err(Loss::Unexpected("a message within another one")),
            _ => {}
        }
        let so_far = fragments.get_or_insert_default();
        if so_far.message.len() + payload.len() > limit {
            return Err(Loss::MessageTooLarge);
        }
        so_far.is_compressed |= header.rsv1;
        so_far.message.extend_from_slice(payload);
        Ok(fragments.take_if(|_| header.fin))
    }

    pub fn is_in_fragments(&self) -> bool {
        let fragments = self.left_over.as_deref().map(|left| &left.fragments);
        fragments.is_some_and(Option::is_some)
    }

    /// Bytes that the socket has not taken yet.
    pub fn unsent_bytes(&self) -> usize {
        self.left_over.as_ref().map_or(0, |left| left.unsent.len())
    }

    /// Keeps `bytes` for the first writable event: the socket is still connecting.
    pub fn queue(&mut self, bytes: &[u8]) {
        let left_over = self.left_over.get_or_insert_default();
        left_over.unsent.extend_from_slice(bytes);
    }

    /// Sends `bytes`, keeping what the socket does not take.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Loss> {
        if self.unsent_bytes() > 0 {
            self.queue(bytes);
            return self.flush();
        }
        let taken = self.write(bytes)?;
        if taken < bytes.len() {
            self.queue(&bytes[taken..]);
        }
        Ok(())
    }

    /// Sends what an earlier write left over.
    pub fn flush(&mut self) -> Result<(), Loss> {
        if let (Some(stream), Some(tls)) = (&mut self.stream, &mut self.tls)
            && !tls.send(stream)?
        {
            return Ok(());
        }
        let Some(mut left_over) = self.left_over.take() else {
            return Ok(());
        };
        if !left_over.unsent.is_empty() {
            let taken = self.write(&left_over.unsent)?;
            left_over.unsent.drain(..taken);
        }
        let is_idle = left_over.unsent.is_empty()
            && left_over.unread.is_empty()
            && left_over.fragments.is_none();
        self.left_over = (!is_idle).then_some(left_over);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, Loss> {
        let Some(stream) = &mut self.stream else {
            return Ok(bytes.len());
        };
        if let Some(tls) = &mut self.tls {
            return tls.write(stream, bytes);
        }
        let mut taken = 0;
        while taken < bytes.len() {
            match stream.write(&bytes[taken..]) {
                Ok(count) => taken += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Loss::Io(error.kind())),
            }
        }
        Ok(taken)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::EndOfStream => write!(f, "connection ended without a close frame"),
            Loss::Io(kind) => write!(f, "{kind}"),
            Loss::CloseFrame(Some(code)) => write!(f, "closed by the server with {code}"),
            Loss::CloseFrame(None) => write!(f, "closed by the server without a code"),
            Loss::RefusedUpgrade(status) => write!(f, "upgrade refused: {status}"),
            Loss::Refused(reason) => write!(f, "refused: {reason}"),
            Loss::Unexpected(what) => write!(f, "unexpected answer: {what}"),
            Loss::Tls(what) => write!(f, "TLS: {what}"),
            Loss::Timeout => write!(f, "timed out"),
            Loss::Farewell => write!(f, "session ended by the server"),
            Loss::BadFrame(error) => write!(f, "invalid frame: {error:?}"),
            Loss::FrameTooLarge => write!(f, "frame larger than the read buffer"),
            Loss::MessageTooLarge => write!(f, "fragments larger together than the read buffer"),
        }
    }
}
