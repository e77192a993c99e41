//! A connection of the workers' listener, as the server reads and writes it.

use super::pipe::MAGIC;
use process::seats::{Peer, Seat};
use process::stream::Duplex;
use socket2::Socket;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// First bytes that tell which protocol a connection speaks.
const EARLY_BYTES: usize = MAGIC.len();

pub(super) enum Bytes {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// It ends when its seat is another's.
pub(super) struct Conn {
    bytes: Bytes,
    seat: Seat,
    /// Read already, and to be read again: the first so many of these bytes.
    early: [u8; EARLY_BYTES],
    early_len: usize,
}

impl Conn {
    pub(super) fn new(bytes: Bytes, seat: Seat) -> Self {
        Self {
            bytes,
            seat,
            early: [0; EARLY_BYTES],
            early_len: 0,
        }
    }

    /// Without TLS, from where it is known what it speaks.
    pub(super) fn plain(socket: Socket, seat: Seat) -> io::Result<Self> {
        let bytes = match socket.local_addr()?.is_unix() {
            true => Bytes::Unix(UnixStream::from_std(socket.into())?),
            false => Bytes::Tcp(TcpStream::from_std(socket.into())?),
        };
        Ok(Self::new(bytes, seat))
    }

    pub(super) fn is_plain(&self) -> bool {
        !matches!(self.bytes, Bytes::Tls(_))
    }

    pub(super) fn peer(&self) -> &Peer {
        self.seat.peer()
    }

    /// `None`: it speaks TLS.
    pub(super) fn take_apart(self) -> Option<(Socket, Seat)> {
        let socket = match self.bytes {
            Bytes::Tcp(stream) => stream.into_std().ok()?.into(),
            Bytes::Unix(stream) => stream.into_std().ok()?.into(),
            Bytes::Tls(_) => return None,
        };
        Some((socket, self.seat))
    }

    /// Whether its first bytes are these. If not, they are read again.
    pub(super) async fn says(&mut self, magic: &[u8; EARLY_BYTES]) -> io::Result<bool> {
        let mut first = [0; EARLY_BYTES];
        let mut len = 0;
        loop {
            let read = self.read(&mut first[len..]).await?;
            len += read;
            if read == 0 || first[..len] != magic[..len] {
                (self.early, self.early_len) = (first, len);
                return Ok(false);
            }
            if len == EARLY_BYTES {
                return Ok(true);
            }
        }
    }

    /// A worker that reads nothing keeps the server at writing: each call asks whether there is a seat still.
    fn seated(&mut self, cx: &mut Context<'_>) -> io::Result<Pin<&mut dyn Duplex>> {
        match self.seat.is_lost(cx) {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(match &mut self.bytes {
                Bytes::Tcp(stream) => Pin::new(stream),
                Bytes::Unix(stream) => Pin::new(stream),
                Bytes::Tls(stream) => Pin::new(stream),
            }),
        }
    }
}

impl Connected for Conn {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer().clone()
    }
}

impl AsyncRead for Conn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.seated(cx)?;
        if self.early_len > 0 {
            let len = self.early_len.min(buf.remaining());
            buf.put_slice(&self.early[..len]);
            self.early.copy_within(len.., 0);
            self.early_len -= len;
            return Poll::Ready(Ok(()));
        }
        let read = ready!(self.seated(cx)?.poll_read(cx, buf));
        self.seat.peer().heard();
        Poll::Ready(read)
    }
}

impl AsyncWrite for Conn {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.seated(cx)?.poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.seated(cx)?.poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.bytes {
            Bytes::Tcp(stream) => stream.is_write_vectored(),
            Bytes::Unix(stream) => stream.is_write_vectored(),
            Bytes::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.seated(cx)?.poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.seated(cx)?.poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hub::Places;
    use process::seats::Seats;
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::time::Duration;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    /// Its descriptor was kept for as long as it read nothing, and each newcomer waited a second for it.
    #[tokio::test]
    async fn a_stranger_that_reads_nothing_kept_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let _reads_nothing = TcpStream::connect(address).await.expect("a connection");
        let (stream, _) = listener.accept().await.expect("a connection");
        let seats = Seats::new(&Arc::new(Places::new(1)));
        let bytes = Bytes::Tcp(stream);
        let seat = seats.take(1).0;
        let mut conn = Conn::new(bytes, seat);
        // All is full: the server waits until it can write.
        let fills = async { while conn.write_all(&[0; 64 << 10]).await.is_ok() {} };
        let mut fills = Box::pin(fills);
        let another = async { seats.take(1) };
        let full = tokio::time::timeout(Duration::from_millis(50), fills.as_mut()).await;
        assert!(full.is_err(), "it waits");
        let (_other, displaced) = another.await;
        assert!(displaced);
        fills.await;
        let slices = [io::IoSlice::new(b"x")];
        let ends = [
            poll_fn(|cx| Pin::new(&mut conn).poll_write(cx, b"x"))
                .await
                .map(drop),
            poll_fn(|cx| Pin::new(&mut conn).poll_write_vectored(cx, &slices))
                .await
                .map(drop),
            poll_fn(|cx| Pin::new(&mut conn).poll_flush(cx)).await,
            poll_fn(|cx| Pin::new(&mut conn).poll_shutdown(cx)).await,
        ];
        for end in ends {
            let kind = end.expect_err("it has no place").kind();
            assert_eq!(kind, io::ErrorKind::ConnectionAborted);
        }
    }
}
