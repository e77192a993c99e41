//! Links without HTTP/2: the same messages, each behind its kind and its length, read straight from the connection's buffer.
//!
//! Both ends begin with [`MAGIC`]. A frame is one byte for its kind, four for the length of what follows, the highest first, and that.
//! The worker's first frame is its key; nothing else is read before that is known.

use super::conn::Conn;
use super::intake::{Frames, HEAD_BYTES, Pulse, Source};
use super::letter::Letter;
use super::lodger::{Lodger, Returned};
use super::pipe::{END, KEY, MAGIC, MESSAGE, PING, PONG, Pipe, WRITE_TIMEOUT, head, shard_of};
use super::service::{Attached, HELLO_TIMEOUT, Messages, Workers, read};
use backend::Link;
use process::seats::Peer;
use prost::bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::timeout;
use tonic::Status;
use tonic::codegen::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};

const KEY_BYTES_MAX: usize = 1_024;
/// Bytes that a connection has room for at each read, unless a message is known to be larger.
const CHUNK_BYTES: usize = 16 << 10;
/// A connection that is told why it ends is read for so long: bytes that nobody reads would reset it, and the reason would be lost.
const LINGER: Duration = Duration::from_secs(2);

/// Serves a connection that has said [`MAGIC`].
pub(super) async fn serve(conn: Conn, workers: Workers, peer: Peer) {
    let lodges = conn.is_plain() && workers.may_lodge();
    let pipe = lodges.then(Arc::<Pipe>::default);
    let (from, to) = split(conn);
    let source = Inflow::new(from, BytesMut::new());
    let mut frames = Frames::new(source, workers.intake().clone());
    let mut outflow = Outflow::new(to);
    outflow.greets = true;
    match attach(&workers, &mut frames, &peer, pipe.as_ref()).await {
        Ok(mut attached) => {
            let ends = match pipe {
                Some(pipe) => lodge((frames, outflow), &mut attached, pipe, &peer).await,
                None => Some((frames, outflow)),
            };
            match ends {
                Some(ends) => carry(ends, attached, peer).await,
                // The driver ends with the process.
                None => drop(attached.desk.letters.send(gone(attached.link)).await),
            }
        }
        Err(status) => {
            if outflow.end(Some(&status)).await.is_ok() {
                let _ = timeout(LINGER, frames.source().drain()).await;
            }
        }
    }
}

type Ends = (Frames<Inflow<Conn>>, Outflow<Conn>);

fn gone(link: Link) -> Letter {
    Letter::Detached(link, None)
}

/// A shard serves the connection, until there is something that it does not do. `None`: the connection has ended.
async fn lodge(
    (frames, outflow): Ends,
    attached: &mut Attached,
    pipe: Arc<Pipe>,
    peer: &Peer,
) -> Option<Ends> {
    let (intake, source) = frames.into_parts();
    let (socket, mut seat) = source.from.unsplit(outflow.to).take_apart()?;
    let core = attached.desk.core.clone()?;
    let shard = shard_of(attached.link, core.shards.shards());
    let whose = (attached.link, shard);
    let (lodger, mut back) = Lodger::new(
        whose,
        core.clone(),
        (pipe.clone(), intake.clone()),
        peer.clone(),
        (socket, source.buffer),
    );
    core.shards.lodge(shard, lodger);
    let mut early = None;
    let returned = tokio::select! {
        returned = &mut back => returned,
        // Of these, the ways of a connection without a shard know what to do.
        () = async {
            tokio::select! {
                first = attached.messages.next() => early = Some(first),
                () = attached.lease.ended() => {}
                () = seat.lost() => {}
            }
        } => {
            pipe.recall();
            core.shards.call_lodgers(shard);
            back.await
        }
    };
    let Returned {
        socket,
        unread,
        unwritten,
    } = returned.ok()?;
    let (from, to) = split(Conn::plain(socket, seat).ok()?);
    let mut outflow = Outflow::new(to);
    (outflow.unwritten, outflow.early) = (unwritten, early);
    Some((Frames::new(Inflow::new(from, unread), intake), outflow))
}

async fn attach<R: AsyncRead + Send>(
    workers: &Workers,
    frames: &mut Frames<Inflow<R>>,
    peer: &Peer,
    pipe: Option<&Arc<Pipe>>,
) -> Result<Attached, Status> {
    let key = timeout(HELLO_TIMEOUT, frames.source().key()).await;
    let key = key.map_err(|_| {
        Status::deadline_exceeded("cannot attach: the frame with the key did not come within 5 s")
    })??;
    let bearer = HeaderValue::from_maybe_shared(Bytes::from([b"Bearer ", &key[..]].concat()));
    // A key fits into a header.
    let headers = bearer.map(|bearer| HeaderMap::from_iter([(AUTHORIZATION, bearer)]));
    let headers = headers.unwrap_or_default();
    workers.attach(&headers, frames, Some(peer), pipe).await
}

/// Both directions, until the worker ends the connection, or the gateway the link.
async fn carry<R, W>(
    (mut frames, mut outflow): (Frames<Inflow<R>>, Outflow<W>),
    attached: Attached,
    peer: Peer,
) where
    R: AsyncRead + Send,
    W: AsyncWrite,
{
    let Attached {
        desk,
        link,
        lease,
        larder,
        mut messages,
    } = attached;
    let pulse = Arc::clone(frames.source().pulse());
    let gone = gone(link);
    let letters = desk.letters.clone();
    let mut reading = pin!(read(desk, link, frames, lease, Some(peer), larder));
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
    /// `buffer`: bytes that are read already.
    fn new(from: ReadHalf<R>, buffer: BytesMut) -> Self {
        Self {
            from,
            buffer,
            pulse: Arc::default(),
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
    /// Bytes that a shard has not written. They go before all else.
    unwritten: VecDeque<Bytes>,
    /// Messages of the driver that came meanwhile.
    early: Option<Option<Result<Bytes, Status>>>,
}

impl<W: AsyncWrite> Outflow<W> {
    fn new(to: WriteHalf<W>) -> Self {
        Self {
            to,
            greets: false,
            unwritten: VecDeque::new(),
            early: None,
        }
    }

    /// Writes what the driver has for the worker. Returns why the driver ends the link, if it says that.
    async fn carry(
        &mut self,
        messages: &mut Messages,
        pulse: &Pulse,
    ) -> io::Result<Option<Status>> {
        while let Some(mut first) = self.unwritten.pop_front() {
            self.write_all(&mut first).await?;
        }
        loop {
            let early = self.early.take();
            let next = async {
                match early {
                    Some(message) => message,
                    None => messages.next().await,
                }
            };
            tokio::select! {
                biased;
                message = next => match message {
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
        let head = head(kind, content.len());
        let head = match std::mem::replace(&mut self.greets, false) {
            true => [&MAGIC[..], &head].concat(),
            false => head.to_vec(),
        };
        self.write_all(&mut Buf::chain(&head[..], content)).await
    }

    async fn write_all(&mut self, left: &mut impl Buf) -> io::Result<()> {
        while left.has_remaining() {
            let written = timeout(WRITE_TIMEOUT, self.to.write_buf(left)).await;
            let written = written.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        let flushed = timeout(WRITE_TIMEOUT, self.to.flush()).await;
        flushed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}
