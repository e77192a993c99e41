//! A TLS connection that has left its shard: the same session, behind methods like those of a socket that does not block.

use super::{Buffers, End, Tls};
use hub::tls::TlsCells;
use std::io::{self, Read, Write};

/// Bytes of one read; the connection has its own buffers now.
const READ_BYTES: usize = 16 * 1024;

/// A session with buffers of its own. Every method is given the socket; `WouldBlock` means what it means there.
#[derive(Debug)]
pub struct SecureStream {
    session: Box<Tls>,
    buffers: Buffers,
    /// Plaintext in the buffers up to here is taken.
    taken: usize,
    ended: bool,
    /// Nobody exports what happens out here.
    cells: TlsCells,
}

impl SecureStream {
    pub(crate) fn new(session: Box<Tls>) -> Self {
        Self {
            ended: session.is_ended(),
            session,
            buffers: Buffers::new(READ_BYTES),
            taken: 0,
            cells: TlsCells::default(),
        }
    }

    /// Plaintext; 0 at the end.
    pub fn read(&mut self, stream: &mut (impl Read + Write), buf: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.buffers.plain.len() {
            if self.ended {
                return Ok(0);
            }
            self.fill(stream)?;
        }
        let waiting = &self.buffers.plain[self.taken..];
        let len = waiting.len().min(buf.len());
        buf[..len].copy_from_slice(&waiting[..len]);
        self.taken += len;
        Ok(len)
    }

    fn fill(&mut self, stream: &mut (impl Read + Write)) -> io::Result<()> {
        self.taken = 0;
        let received = self.session.receive(stream, &mut self.buffers, &self.cells);
        match received.end {
            Some(End::Eof) => self.ended = true,
            Some(End::Broken) => return Err(io::ErrorKind::ConnectionAborted.into()),
            None if received.blocked => return Err(io::ErrorKind::WouldBlock.into()),
            None => {}
        }
        Ok(())
    }

    /// Takes plaintext, at least a byte of it, or says `WouldBlock`.
    pub fn write(&mut self, stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
        self.flush(stream)?;
        let bytes = &bytes[..bytes.len().min(super::CHUNK_BYTES)];
        self.buffers.out.clear();
        if self.session.seal(bytes, &mut self.buffers.out).is_err() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.session.send(stream, &self.buffers.out)?;
        Ok(bytes.len())
    }

    /// Writes what waits.
    pub fn flush(&mut self, stream: &mut impl Write) -> io::Result<()> {
        if self.session.resume(stream)? {
            Ok(())
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }

    /// Says that nothing more will come (close_notify); again after `WouldBlock`.
    pub fn close(&mut self, stream: &mut impl Write) -> io::Result<()> {
        if !self.session.is_closing() {
            self.session.close(stream, &mut self.buffers);
        }
        self.flush(stream)
    }
}
