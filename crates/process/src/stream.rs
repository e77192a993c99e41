//! A connection that a shard gave away, whatever lies between its socket and HTTP.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use tokio::io::{AsyncRead, AsyncWrite};

const OVERLOADED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

/// A nonblocking connection that a shard gave away.
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// One on which something else lies between the socket and HTTP.
    Wrapped(Box<dyn Wrapped>),
}

/// A connection whose bytes are not those of its socket; the code that handed it over knows how to read it.
pub trait Wrapped: std::fmt::Debug + Send {
    /// One attempt to write, without waiting.
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Called inside the runtime.
    fn open(self: Box<Self>) -> io::Result<Box<dyn Duplex>>;
}

/// Bytes both ways.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Duplex for T {}

impl Stream {
    /// One attempt, without waiting.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
            Stream::Wrapped(stream) => stream.write_now(bytes),
        }
    }

    /// Says that there is no room for this connection now.
    pub fn overloaded(&mut self) {
        // One attempt: a peer without room for a line in an empty socket buffer is gone.
        let _ = self.write(OVERLOADED);
    }

    /// Called inside the runtime.
    pub fn open(self) -> io::Result<Box<dyn Duplex>> {
        Ok(match self {
            Stream::Tcp(stream) => Box::new(tokio::net::TcpStream::from_std(stream)?),
            Stream::Unix(stream) => Box::new(tokio::net::UnixStream::from_std(stream)?),
            Stream::Wrapped(stream) => stream.open()?,
        })
    }
}
