//! A TLS connection that a shard handed over, as the control plane reads and writes connections.

use process::stream::{Duplex, Wrapped};
use shard::Detached;
use shard::tls::SecureStream;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Before the runtime has it.
#[derive(Debug)]
pub struct Secure {
    stream: Detached,
    tls: SecureStream,
}

impl Secure {
    pub fn new(stream: Detached, tls: SecureStream) -> Self {
        Secure { stream, tls }
    }
}

impl Wrapped for Secure {
    fn write_now(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Secure { stream, tls } = self;
        match stream {
            Detached::Tcp(stream) => last_words(tls, stream, bytes),
            Detached::Unix(stream) => last_words(tls, stream, bytes),
        }
    }

    fn open(self: Box<Self>) -> io::Result<Box<dyn Duplex>> {
        let stream = match self.stream {
            Detached::Tcp(stream) => Socket::Tcp(tokio::net::TcpStream::from_std(stream)?),
            Detached::Unix(stream) => Socket::Unix(tokio::net::UnixStream::from_std(stream)?),
        };
        Ok(Box::new(Watched {
            stream,
            tls: self.tls,
        }))
    }
}

fn last_words(tls: &mut SecureStream, stream: &mut impl Write, bytes: &[u8]) -> io::Result<usize> {
    let written = tls.write(stream, bytes)?;
    tls.close(stream).map(|()| written)
}

/// In the runtime.
#[derive(Debug)]
struct Watched {
    stream: Socket,
    tls: SecureStream,
}

/// The socket, as TLS wants it: whether it would block is remembered by tokio.
#[derive(Debug)]
enum Socket {
    Tcp(tokio::net::TcpStream),
    Unix(tokio::net::UnixStream),
}

impl Socket {
    fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Tcp(stream) => stream.poll_read_ready(cx),
            Socket::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Tcp(stream) => stream.poll_write_ready(cx),
            Socket::Unix(stream) => stream.poll_write_ready(cx),
        }
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Socket::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Socket::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.try_read(buf),
            Socket::Unix(stream) => stream.try_read(buf),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.try_write(buf),
            Socket::Unix(stream) => stream.try_write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn would_block<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

impl Watched {
    /// Tries again each time the kernel takes bytes.
    fn poll_writing<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&mut SecureStream, &mut Socket) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        loop {
            ready!(self.stream.poll_write_ready(cx))?;
            let result = attempt(&mut self.tls, &mut self.stream);
            if !would_block(&result) {
                return Poll::Ready(result);
            }
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            let room = buf.initialize_unfilled();
            let result = this.tls.read(&mut this.stream, room);
            if !would_block(&result) {
                buf.advance(result?);
                return Poll::Ready(Ok(()));
            }
            ready!(this.stream.poll_read_ready(cx))?;
        }
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_writing(cx, |tls, socket| tls.write(socket, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_writing(cx, |tls, socket| tls.flush(socket))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_writing(cx, |tls, socket| tls.close(socket)))?;
        self.stream.poll_shutdown(cx)
    }
}
