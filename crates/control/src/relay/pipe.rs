//! Bytes between a client and the node that holds its session. One chunk is on its way in each direction, and an idle pipe holds
//! none.

use super::Gauges;
use crate::page::Duplex;
use std::future::{pending, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::ready;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf, split};
use tokio::time::{Instant, timeout, timeout_at};

/// Bytes taken at once.
const CHUNK: usize = 16 * 1024;
/// A side that takes nothing for so long is given up.
const STALL: Duration = Duration::from_secs(30);
/// How long a client may take to read its last answer and to end its side.
const LINGER: Duration = Duration::from_secs(2);

/// A client's side of a pipe.
pub(super) struct Client {
    from: ReadHalf<Box<dyn Duplex>>,
    to: WriteHalf<Box<dyn Duplex>>,
    /// It was answered something.
    answered: Arc<AtomicBool>,
}

impl Client {
    pub(super) fn new(stream: Box<dyn Duplex>) -> Self {
        let (from, to) = split(stream);
        Self {
            from,
            to,
            answered: Arc::default(),
        }
    }

    /// Whether it was answered something.
    pub(super) fn answered(&self) -> &Arc<AtomicBool> {
        &self.answered
    }

    /// Carries bytes until the owner has ended its side, or one of them is gone. `read`: what the client has sent already. `cut`
    /// ends it early.
    pub(super) async fn carry(
        &mut self,
        owner: Box<dyn Duplex>,
        read: &[u8],
        gauges: &Gauges,
        cut: impl Future<Output = ()>,
    ) {
        let (mut from_owner, mut to_owner) = split(owner);
        let (from, to, answered) = (&mut self.from, &mut self.to, &self.answered);
        let up = async {
            let mut sent = write(&mut to_owner, read).await;
            while sent.is_ok() {
                match chunk(from).await {
                    Err(_) => return,
                    Ok(bytes) if bytes.is_empty() => {
                        sent = to_owner.shutdown().await;
                        break;
                    }
                    Ok(bytes) => {
                        add(&gauges.bytes_up, bytes.len());
                        sent = write(&mut to_owner, &bytes).await;
                    }
                }
            }
            drop(sent);
            // The rest of the owner's answer is waited for.
            pending::<()>().await;
        };
        let down = async {
            while let Ok(bytes) = chunk(&mut from_owner).await
                && !bytes.is_empty()
            {
                answered.store(true, Ordering::Relaxed);
                add(&gauges.bytes_down, bytes.len());
                if write(to, &bytes).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            biased;
            () = down => {}
            () = up => {}
            () = cut => {}
        }
        // By TLS an end without a word looks like an attack.
        let _ = timeout(LINGER, to_owner.shutdown()).await;
    }

    /// Answers, if nothing was answered yet, and ends the connection so that the client can read that.
    pub(super) async fn finish(mut self, refusal: &[u8]) {
        if !self.answered.load(Ordering::Relaxed) && write(&mut self.to, refusal).await.is_err() {
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
        std::task::Poll::Ready(Ok(room.filled().to_vec()))
    })
    .await
}
