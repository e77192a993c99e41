//! Connections of the workers' listener: TLS, how many there may be, and which protocol each speaks.

use super::link;
use super::pipe::MAGIC;
use super::service::Workers;
use super::standstill::Gone;
use crate::flood::Flood;
use crate::seats::{Peer, Seat, Seats};
use arc_swap::ArcSwap;
use hub::Places;
use rustls::ServerConfig;
use std::io;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::codegen::tokio_stream::Stream;
use tonic::transport::server::Connected;

/// A peer's part of the handshake comes by then, and behind it the first bytes.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// After a failed accept: what is missing (descriptors) does not come back at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// First bytes that tell which protocol a connection speaks.
const EARLY_BYTES: usize = MAGIC.len();
/// Connections that the server has not taken yet.
const WAITING_MAX: usize = 16;

/// What handshakes with workers use. It may change while they come.
#[derive(Clone, Debug)]
pub struct Secured(Arc<ArcSwap<ServerConfig>>);

impl Secured {
    pub fn new(config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(ArcSwap::new(config)))
    }

    pub fn set(&self, config: Arc<ServerConfig>) {
        self.0.store(config);
    }
}

/// Where workers attach.
#[derive(Debug)]
pub struct Listener {
    pub tcp: std::net::TcpListener,
    /// None: without TLS.
    pub secured: Option<Secured>,
    pub conns_max: usize,
    /// Of clients, for more than a few of them.
    pub places: Arc<Places>,
    /// Another process accepts from it.
    pub gone: Gone,
}

/// Lines of the log that strangers cause.
#[derive(Clone)]
pub(super) struct Lines(Arc<Mutex<Flood>>);

impl Default for Lines {
    fn default() -> Self {
        let flood = Flood::new("connections of workers refused or ended");
        Self(Arc::new(Mutex::new(flood)))
    }
}

impl Lines {
    /// There may be one more now.
    pub(super) fn admit(&self) -> bool {
        let mut flood = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        flood.pass_time(Instant::now());
        flood.admits()
    }
}

/// Connections that may speak, one after the other.
pub(super) struct Incoming(Receiver<Conn>);

impl Listener {
    /// In the runtime that this is called in.
    pub(super) fn open(self, workers: Workers) -> io::Result<Incoming> {
        let tcp = TcpListener::from_std(self.tcp)?;
        let (ready, incoming) = channel(WAITING_MAX);
        let room = (self.places, self.conns_max);
        let served = Served { ready, workers };
        let mut gone = self.gone;
        tokio::spawn(async move {
            tokio::select! {
                () = accept(tcp, self.secured, room, served) => {}
                () = gone.happens() => {}
            }
        });
        Ok(Incoming(incoming))
    }
}

/// The services for connections that may speak.
#[derive(Clone)]
struct Served {
    /// Those that speak HTTP/2.
    ready: Sender<Conn>,
    /// Links without it.
    workers: Workers,
}

async fn accept(
    tcp: TcpListener,
    secured: Option<Secured>,
    (places, conns_max): (Arc<Places>, usize),
    served: Served,
) {
    let (seats, lines) = (Seats::new(&places), Lines::default());
    loop {
        seats.settle().await;
        let stream = match tcp.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a worker's connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Small frames go both ways: none waits for the next. A failure costs time only.
        let _ = stream.set_nodelay(true);
        let (seat, taken) = seats.take(conns_max);
        if taken {
            let displaced = &served.workers.node.displaced;
            displaced.workers.fetch_add(1, Ordering::Relaxed);
            if lines.admit() {
                tracing::warn!(
                    conns_max,
                    "a worker's connection gives its place to another (workers.conns_max, or fewer if descriptors do not suffice)"
                );
            }
        }
        let lines = lines.clone();
        tokio::spawn(welcome(
            stream,
            seat,
            secured.clone(),
            served.clone(),
            lines,
        ));
    }
}

/// Nobody waits for another's handshake.
async fn welcome(
    stream: TcpStream,
    mut seat: Seat,
    secured: Option<Secured>,
    served: Served,
    lines: Lines,
) {
    let peer = stream.peer_addr().ok();
    let shaken = tokio::select! {
        shaken = shake_hands(stream, secured) => shaken,
        // Its place is another's: none is open without one.
        () = seat.lost() => return,
    };
    let mut conn = match shaken {
        Ok(bytes) => Conn::new(bytes, seat),
        Err(error) => {
            if lines.admit() {
                tracing::warn!(?peer, %error, "worker refused: the TLS handshake failed");
            }
            return;
        }
    };
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, conn.says(&MAGIC)).await {
        Ok(Ok(true)) => {
            let known = conn.seat.peer().clone();
            link::serve(conn, served.workers, known).await;
        }
        // The server may be gone: then so is the process.
        Ok(Ok(false)) => drop(served.ready.send(conn).await),
        Ok(Err(_)) => {}
        Err(_) if lines.admit() => {
            tracing::warn!(?peer, "worker refused: it said nothing for 10 s");
        }
        Err(_) => {}
    }
}

async fn shake_hands(stream: TcpStream, secured: Option<Secured>) -> io::Result<Bytes> {
    let Some(secured) = secured else {
        return Ok(Bytes::Plain(stream));
    };
    let acceptor = TlsAcceptor::from(secured.0.load_full());
    let shaken = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await;
    let stream = shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
    Ok(Bytes::Tls(Box::new(stream)))
}

impl Stream for Incoming {
    type Item = io::Result<Conn>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx).map(|conn| conn.map(Ok))
    }
}

enum Bytes {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// One connection, as the server reads and writes it.
pub(super) struct Conn {
    bytes: Bytes,
    seat: Seat,
    /// Read already, and to be read again: the first so many of these bytes.
    early: [u8; EARLY_BYTES],
    early_len: usize,
}

impl Conn {
    fn new(bytes: Bytes, seat: Seat) -> Self {
        Self {
            bytes,
            seat,
            early: [0; EARLY_BYTES],
            early_len: 0,
        }
    }

    /// Without TLS, from where it is known what it speaks.
    pub(super) fn plain(stream: TcpStream, seat: Seat) -> Self {
        Self::new(Bytes::Plain(stream), seat)
    }

    pub(super) fn is_plain(&self) -> bool {
        matches!(self.bytes, Bytes::Plain(_))
    }

    /// `None`: it speaks TLS.
    pub(super) fn take_apart(self) -> Option<(TcpStream, Seat)> {
        match self.bytes {
            Bytes::Plain(stream) => Some((stream, self.seat)),
            Bytes::Tls(_) => None,
        }
    }

    /// Whether its first bytes are these. If not, they are read again.
    async fn says(&mut self, magic: &[u8; EARLY_BYTES]) -> io::Result<bool> {
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

    /// Whoever reads nothing keeps the server at writing: each call asks whether there is a seat still.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        match self.seat.is_lost(cx) {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }
}

impl Connected for Conn {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.seat.peer().clone()
    }
}

impl AsyncRead for Conn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(cx)?;
        if self.early_len > 0 {
            let len = self.early_len.min(buf.remaining());
            buf.put_slice(&self.early[..len]);
            self.early.copy_within(len.., 0);
            self.early_len -= len;
            return Poll::Ready(Ok(()));
        }
        let read = ready!(match &mut self.bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Bytes::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        });
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
        self.check(cx)?;
        match &mut self.bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Bytes::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check(cx)?;
        match &mut self.bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
            Bytes::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.bytes {
            Bytes::Plain(stream) => stream.is_write_vectored(),
            Bytes::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        match &mut self.bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Bytes::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(cx)?;
        match &mut self.bytes {
            Bytes::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Bytes::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::AsyncWriteExt;

    /// Its descriptor was kept for as long as it read nothing, and each newcomer waited a second for it.
    #[tokio::test]
    async fn a_stranger_that_reads_nothing_kept_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let address = listener.local_addr().expect("an address");
        let _reads_nothing = TcpStream::connect(address).await.expect("a connection");
        let (stream, _) = listener.accept().await.expect("a connection");
        let seats = Seats::new(&Arc::new(Places::new(1)));
        let bytes = Bytes::Plain(stream);
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
