//! A stream that first yields bytes somebody else has read from it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[derive(Debug)]
pub(crate) struct Replay<S> {
    read: Vec<u8>,
    at: usize,
    stream: S,
}

impl<S> Replay<S> {
    pub(crate) fn new(read: Vec<u8>, stream: S) -> Self {
        Replay {
            read,
            at: 0,
            stream,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Replay<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = &self.read[self.at..];
        if rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let len = rest.len().min(buf.remaining());
        buf.put_slice(&rest[..len]);
        self.at += len;
        if self.at == self.read.len() {
            self.read = Vec::new();
            self.at = 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Replay<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn bytes_read_before_come_first_and_once() {
        let mut stream = Replay::new(b"GET /".to_vec(), &b" HTTP/1.1"[..]);
        let mut small = [0; 3];
        stream.read_exact(&mut small).await.expect("read");
        assert_eq!(&small, b"GET");
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.expect("read");
        assert_eq!(rest, " / HTTP/1.1");
    }
}
