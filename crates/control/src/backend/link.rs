//! Links without HTTP/2: the same messages, each behind its kind and its length, read straight from the connection's buffer.
//!
//! Both ends begin with [`MAGIC`]. A frame is one byte for its kind, four for the length of what follows, the highest first, and that.
//! The worker's first frame is its key; nothing else is read before that is known.

use super::intake::{Frames, HEAD_BYTES, Pulse, Source};
use super::service::{Attached, HELLO_TIMEOUT, Messages, Workers, read};
use crate::seats::Peer;
use axum::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use prost::bytes::{Buf, Bytes, BytesMut};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::timeout;
use tonic::Status;

/// The first bytes of both ends. An HTTP/2 connection begins with others (RFC 9113 §3.4).
pub(super) const MAGIC: [u8; 8] = *b"SOCKEYE1";

/// A `FromWorker` or a `ToWorker`.
pub(super) const MESSAGE: u8 = 0;
/// Why the gateway ends the link: one byte with a code of gRPC, and a text.
const END: u8 = 1;
/// The worker wants to hear that the gateway is there: `PONG` answers. It also comes unasked while a large message is read.
const PING: u8 = 2;
const PONG: u8 = 3;
/// A key of a backend.
const KEY: u8 = 4;

const KEY_BYTES_MAX: usize = 1_024;
/// Bytes that a connection has room for at each read, unless a message is known to be larger.
const CHUNK_BYTES: usize = 16 << 10;
/// A worker that takes nothing for so long is gone.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
/// A connection that is told why it ends is read for so long: bytes that nobody reads would reset it, and the reason would be lost.
const LINGER: Duration = Duration::from_secs(2);

/// Serves a connection that has said [`MAGIC`].
pub(super) async fn serve<C>(conn: C, workers: Workers, peer: Peer)
where
    C: AsyncRead + AsyncWrite + Send + 'static,
{
    let (from, to) = split(conn);
    let pulse = Arc::<Pulse>::default();
    let source = Inflow::new(from, Arc::clone(&pulse));
    let mut frames = Frames::new(source, workers.intake().clone());
    let mut outflow = Outflow { to, greets: true };
    match attach(&workers, &mut frames, &peer).await {
        Ok(attached) => carry((frames, outflow), attached, peer, pulse).await,
        Err(status) => {
            if outflow.end(Some(&status)).await.is_ok() {
                let _ = timeout(LINGER, frames.source().drain()).await;
            }
        }
    }
}

async fn attach<R: AsyncRead + Send>(
    workers: &Workers,
    frames: &mut Frames<Inflow<R>>,
    peer: &Peer,
) -> Result<Attached, Status> {
    let key = timeout(HELLO_TIMEOUT, frames.source().key()).await;
    let key = key.map_err(|_| {
        Status::deadline_exceeded("cannot attach: the frame with the key did not come within 5 s")
    })??;
    let bearer = HeaderValue::from_maybe_shared(Bytes::from([b"Bearer ", &key[..]].concat()));
    // A key fits into a header.
    let headers = bearer.map(|bearer| HeaderMap::from_iter([(AUTHORIZATION, bearer)]));
    let headers = headers.unwrap_or_default();
    workers.attach(&headers, frames, Some(peer)).await
}

/// Both directions, until the worker ends the connection, or the gateway the link.
async fn carry<R, W>(
    (frames, mut outflow): (Frames<Inflow<R>>, Outflow<W>),
    attached: Attached,
    peer: Peer,
    pulse: Arc<Pulse>,
) where
    R: AsyncRead + Send,
    W: AsyncWrite,
{
    let Attached {
        desk,
        link,
        lease,
        api,
        mut messages,
    } = attached;
    let gone = super::driver::Letter::Detached(link, None);
    let letters = desk.letters.clone();
    let mut reading = pin!(read(desk, link, frames, lease, Some(peer), api));
    let writes = async {
        let said = outflow.carry(&mut messages, &pulse).await;
        (outflow.finish(said).await, messages)
    };
    let mut writing = pin!(writes);
    tokio::select! {
        frames = &mut reading => {
            let (written, _) = writing.await;
            // The driver ends with the process.
            let Some(mut frames) = frames else { return };
            if written.is_ok() {
                let _ = timeout(LINGER, frames.source().drain()).await;
            }
        }
        (written, _) = &mut writing => {
            let read = match written {
                Ok(()) => timeout(LINGER, reading).await.is_ok(),
                Err(_) => false,
            };
            if !read {
                let _ = letters.send(gone).await;
            }
        }
    }
}

// ---- from the worker --------------------------------------------------------------------------------------------------------------

struct Inflow<R> {
    from: ReadHalf<R>,
    /// Read, and not looked at.
    buffer: BytesMut,
    pulse: Arc<Pulse>,
}

impl<R: AsyncRead + Send> Inflow<R> {
    fn new(from: ReadHalf<R>, pulse: Arc<Pulse>) -> Self {
        Self {
            from,
            buffer: BytesMut::new(),
            pulse,
        }
    }

    /// The content of the worker's first frame.
    async fn key(&mut self) -> Result<Bytes, Status> {
        let left = || Status::cancelled("cannot attach: the connection ended");
        let mut head = self.take(HEAD_BYTES).await.ok_or_else(left)?;
        let (kind, len) = (head.get_u8(), head.get_u32() as usize);
        if kind != KEY {
            return Err(Status::invalid_argument(format!(
                "cannot attach: the first frame is of kind {kind}; send a key in one of kind {KEY}"
            )));
        }
        if len > KEY_BYTES_MAX {
            return Err(Status::invalid_argument(format!(
                "cannot attach: a key of {len} bytes is none, for {KEY_BYTES_MAX} are allowed"
            )));
        }
        self.take(len).await.ok_or_else(left)
    }

    /// Reads on until the other end closes, and keeps nothing.
    async fn drain(&mut self) {
        loop {
            self.buffer.clear();
            if self.read(CHUNK_BYTES).await.is_none() {
                return;
            }
        }
    }

    /// The next message. A connection that breaks has ended: its worker comes back by another.
    async fn read(&mut self, room: usize) -> Option<()> {
        self.buffer.reserve(room);
        let read = self.from.read_buf(&mut self.buffer).await.ok()?;
        self.pulse.came(read);
        (read > 0).then_some(())
    }
}

impl<R: AsyncRead + Send> Source for Inflow<R> {
    fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    async fn take(&mut self, len: usize) -> Option<Bytes> {
        while self.buffer.len() < len {
            let missing = len - self.buffer.len();
            self.read(missing.max(CHUNK_BYTES)).await?;
        }
        Some(self.buffer.split_to(len).freeze())
    }

    fn other(&mut self, kind: u8, len: usize) -> Result<(), Status> {
        if (kind, len) == (PING, 0) {
            self.pulse.answer();
            return Ok(());
        }
        Err(Status::invalid_argument(format!(
            "cannot read a frame of kind {kind} and {len} bytes: behind the key come messages (kind {MESSAGE}) and empty pings (kind {PING})"
        )))
    }
}

// ---- to the worker ----------------------------------------------------------------------------------------------------------------

struct Outflow<W> {
    to: WriteHalf<W>,
    /// Nothing is written yet: `MAGIC` goes first.
    greets: bool,
}

impl<W: AsyncWrite> Outflow<W> {
    /// Writes what the driver has for the worker. Returns why the driver ends the link, if it says that.
    async fn carry(
        &mut self,
        messages: &mut Messages,
        pulse: &Pulse,
    ) -> io::Result<Option<Status>> {
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    Some(Ok(message)) => self.write(MESSAGE, message).await?,
                    Some(Err(status)) => return Ok(Some(status)),
                    None => return Ok(None),
                },
                () = pulse.answered() => self.write(PONG, Bytes::new()).await?,
            }
        }
    }

    /// The last words, if it can still be written.
    async fn finish(&mut self, said: io::Result<Option<Status>>) -> io::Result<()> {
        let status = said?;
        self.end(status.as_ref()).await
    }

    async fn end(&mut self, why: Option<&Status>) -> io::Result<()> {
        if let Some(status) = why {
            let code = [status.code() as i32 as u8];
            let text = [&code[..], status.message().as_bytes()].concat();
            self.write(END, text.into()).await?;
        }
        let shut = timeout(WRITE_TIMEOUT, self.to.shutdown()).await;
        shut.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// One write for head and content, if the kernel takes them.
    async fn write(&mut self, kind: u8, content: Bytes) -> io::Result<()> {
        let mut head = [0; MAGIC.len() + HEAD_BYTES];
        head[..MAGIC.len()].copy_from_slice(&MAGIC);
        head[MAGIC.len()] = kind;
        // No message has 4 GiB.
        let len = u32::try_from(content.len()).unwrap_or(u32::MAX);
        head[MAGIC.len() + 1..].copy_from_slice(&len.to_be_bytes());
        let begin = match std::mem::replace(&mut self.greets, false) {
            true => 0,
            false => MAGIC.len(),
        };
        let mut left = Buf::chain(&head[begin..], content);
        while left.has_remaining() {
            let written = timeout(WRITE_TIMEOUT, self.to.write_buf(&mut left)).await;
            let written = written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        let flushed = timeout(WRITE_TIMEOUT, self.to.flush()).await;
        flushed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}
