//! A connection's byte stream, whatever carries it: TCP, or a Unix socket of a proxy on the same machine.
//!
//! HOT PATH: every read and write of a client goes through here.

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::RecvFlags;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};

#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A stream that left its shard: non-blocking, watched by nobody.
#[derive(Debug)]
pub enum Detached {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

impl Stream {
    /// Reads without taking: the bytes are there for the next read.
    pub(crate) fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let (len, _) = rustix::net::recv(self, buf, RecvFlags::PEEK)?;
        Ok(len)
    }

    /// The end of the stream, or an error: a reset behind it says that the peer closed before it had what was written last.
    #[cold]
    fn ended(&self) -> io::Result<usize> {
        rustix::net::sockopt::socket_error(self)??;
        Ok(0)
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        }
    }
}

impl From<Stream> for Detached {
    fn from(stream: Stream) -> Self {
        match stream {
            Stream::Tcp(stream) => Detached::Tcp(stream.into()),
            Stream::Unix(stream) => Detached::Unix(stream.into()),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    #[inline]
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = match self {
            Stream::Tcp(stream) => stream.read(buf),
            Stream::Unix(stream) => stream.read(buf),
        };
        match got {
            Ok(0) if !buf.is_empty() => self.ended(),
            got => got,
        }
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(buf),
            Stream::Unix(stream) => stream.write(buf),
        }
    }

    #[inline]
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write_vectored(slices),
            Stream::Unix(stream) => stream.write_vectored(slices),
        }
    }

    /// The kernel has all that was written.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, of: Interest) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.register(registry, token, of),
            Stream::Unix(stream) => stream.register(registry, token, of),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, of: Interest) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.reregister(registry, token, of),
            Stream::Unix(stream) => stream.reregister(registry, token, of),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.deregister(registry),
            Stream::Unix(stream) => stream.deregister(registry),
        }
    }
}
