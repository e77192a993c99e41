//! Bytes between a client and the node that holds its session. One chunk is on its way in each direction, and an idle pipe holds
//! none.

use super::Gauges;
use super::traffic::Traffic;
use process::stream::Duplex;
use std::future::{pending, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf, split};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_rustls::client::TlsStream;

/// Bytes taken at once.
const CHUNK: usize = 16 * 1024;
/// A side that takes nothing for so long is given up.
const STALL: Duration = Duration::from_secs(30);
/// How long a client may take to read its last answer and to end its side, and an owner to end its side after a client that was answered.
const LINGER: Duration = Duration::from_secs(2);

/// The owner's side of a pipe.
pub(super) enum Owner {
    Plain(TcpStream),
    Encrypted(Box<TlsStream<TcpStream>>),
}

impl Owner {
    /// Ends it so that the other node sees that something was lost.
    fn reset(self) {
        let stream = match &self {
            Self::Plain(stream) => stream,
            Self::Encrypted(stream) => stream.get_ref().0,
        };
        // It fails only if the connection is gone.
        let _ = stream.set_zero_linger();
    }

    fn stream(self: Pin<&mut Self>) -> Pin<&mut (dyn Duplex + 'static)> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream),
            Self::Encrypted(stream) => Pin::new(&mut **stream),
        }
    }
}

impl AsyncRead for Owner {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buf)
    }
}

impl AsyncWrite for Owner {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

/// A client's side of a pipe.
pub(super) struct Client {
    from: ReadHalf<Box<dyn Duplex>>,
    to: WriteHalf<Box<dyn Duplex>>,
    traffic: Traffic,
}

impl Client {
    pub(super) fn new(stream: Box<dyn Duplex>) -> Self {
        let (from, to) = split(stream);
        Self {
            from,
            to,
            traffic: Traffic::new(),
        }
    }

    /// What it said and was told.
    pub(super) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Carries bytes until the owner has ended its side, or one of them is gone. `read`: what the client has sent already. `cut`
    /// ends it early. The owner's connection ends in an orderly way only if this side's kernel took all that the owner said: by
    /// a reset the owner knows that packets are lost.
    pub(super) async fn carry(
        &mut self,
        owner: Owner,
        read: &[u8],
        gauges: &Gauges,
        cut: impl Future<Output = ()>,
    ) {
        let (mut from_owner, mut to_owner) = split(owner);
        let delivered = self
            .pass((&mut from_owner, &mut to_owner), read, gauges, cut)
            .await;
        if delivered {
            // By TLS an end without a word looks like an attack.
            let _ = timeout(LINGER, to_owner.shutdown()).await;
        } else {
            from_owner.unsplit(to_owner).reset();
        }
    }

    /// Whether the owner ended first, and the client's kernel has all of it.
    async fn pass(
        &mut self,
        (from_owner, to_owner): (&mut ReadHalf<Owner>, &mut WriteHalf<Owner>),
        read: &[u8],
        gauges: &Gauges,
        cut: impl Future<Output = ()>,
    ) -> bool {
        let (from, to, traffic) = (&mut self.from, &mut self.to, &self.traffic);
        traffic.up();
        let up = async {
            let mut sent = write(to_owner, read).await;
            while sent.is_ok() {
                match chunk(from).await {
                    Err(_) => {
                        // A proxy resets as soon as it has the answer: the owner may be about to end its side.
                        if traffic.is_answered() {
                            sleep(LINGER).await;
                        }
                        return;
                    }
                    Ok(bytes) if bytes.is_empty() => {
                        sent = to_owner.shutdown().await;
                        break;
                    }
                    Ok(bytes) => {
                        traffic.up();
                        add(&gauges.bytes_up, bytes.len());
                        sent = write(to_owner, &bytes).await;
                    }
                }
            }
            drop(sent);
            // The rest of the owner's answer is waited for.
            pending::<()>().await;
        };
        let down = async {
            while let Ok(bytes) = chunk(from_owner).await {
                if bytes.is_empty() {
                    return true;
                }
                add(&gauges.bytes_down, bytes.len());
                traffic.down();
                if write(to, &bytes).await.is_err() {
                    return false;
                }
            }
            false
        };
        tokio::select! {
            biased;
            delivered = down => delivered,
            () = up => false,
            () = cut => false,
        }
    }

    /// Answers, if nothing was answered yet, and ends the connection so that the client can read that.
    pub(super) async fn finish(mut self, refusal: &[u8]) {
        if !self.traffic.is_answered() && write(&mut self.to, refusal).await.is_err() {
            return;
        }
        let until = Instant::now() + LINGER;
        let _ = timeout_at(until, async {
            self.to.shutdown().await?;
            while !chunk(&mut self.from).await?.is_empty() {}
            Ok::<_, io::Error>(())
        })
        .await;
    }
}

fn add(cell: &AtomicU64, bytes: usize) {
    cell.fetch_add(bytes as u64, Ordering::Relaxed);
}

async fn write<S: AsyncWrite + Unpin>(to: &mut S, bytes: &[u8]) -> io::Result<()> {
    let written = async {
        to.write_all(bytes).await?;
        to.flush().await
    };
    timeout(STALL, written).await?
}

/// The bytes that are there; none at the end. Memory is taken only for bytes that came.
async fn chunk<S: AsyncRead + Unpin>(from: &mut S) -> io::Result<Vec<u8>> {
    poll_fn(|cx| {
        let mut room = [MaybeUninit::uninit(); CHUNK];
        let mut room = ReadBuf::uninit(&mut room);
        ready!(Pin::new(&mut *from).poll_read(cx, &mut room))?;
        Poll::Ready(Ok(room.filled().to_vec()))
    })
    .await
}
