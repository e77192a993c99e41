//! A link whose connection a shard serves: its worker's messages are read and carried out in the shard's turn.
//!
//! Usual messages are read here. At anything else (a very large message, one for which there is no room or that is none, the end of the
//! stream) the connection goes back to where it came from, with all that is unread.

use super::intake::{HEAD_BYTES, Intake, PACE_BYTES, SMALL_BYTES, Share};
use super::pipe::{MESSAGE, PING, Pipe};
use backend::{Frame, Link};
use process::seats::Peer;
use prost::bytes::{Buf, Bytes, BytesMut};
use socket2::Socket;
use std::collections::VecDeque;
use std::fmt;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Bytes of one read.
const CHUNK_BYTES: usize = 16 << 10;
/// Reads before others have their turn, and frames.
const READS: usize = 8;
const FRAMES: usize = 64;
/// A larger message would keep the shard's clients waiting. Libraries send less at once.
const MESSAGE_BYTES: usize = 2 << 20;
/// How often it looks whether there is room again.
const PAUSE: Duration = Duration::from_millis(1);

/// The state of the link's backend, and who works on it.
pub(super) trait Work: Send + Sync {
    /// For the next one who works on the state.
    fn leave(&self, saying: Saying);

    /// Links wait: too much of them does already, or shards have more to do than they should.
    fn is_crowded(&self) -> bool;

    /// Works on the state, unless another does: that one looks again. Returns when there is more to do.
    fn work(&self, shard: u16) -> Option<Duration>;
}

/// What a link says that a shard serves.
#[expect(clippy::large_enum_variant, reason = "nearly all are frames")]
pub(super) enum Saying {
    Frame(Link, Frame, Option<Share>),
    /// Its worker is there: a large message of it comes in.
    Heard(Link),
    /// Its connection took what waited for it.
    Room(Link),
}

/// What the kernel says of the connection.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    pub readable: bool,
    pub writable: bool,
    /// The worker has closed its side.
    pub ending: bool,
}

/// What the shard is to do with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Wait,
    /// Call it again after so long.
    Call(Duration),
    /// It leaves.
    Leave,
}

/// A connection that comes back.
pub(super) struct Returned {
    pub(super) socket: Socket,
    /// Read, and not looked at.
    pub(super) unread: BytesMut,
    /// To be written before all else.
    pub(super) unwritten: VecDeque<Bytes>,
}

/// A link that its shard serves.
pub struct Lodger {
    link: Link,
    shard: u16,
    core: Arc<dyn Work>,
    pipe: Arc<Pipe>,
    intake: Intake,
    peer: Peer,
    chunk: Box<[u8]>,
    unread: BytesMut,
    /// Room for the message with which `unread` begins: a large one is read when it has its share.
    share: Option<Share>,
    /// Bytes of a message that is not whole, since its worker was last said to be there.
    came: u64,
    readable: bool,
    ending: bool,
    socket: Arc<Socket>,
    back: oneshot::Sender<Returned>,
}

impl fmt::Debug for Lodger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lodger").field(&self.link).finish()
    }
}

/// What could be done with the bytes that are there.
enum Look {
    /// More is needed.
    Short,
    /// Others have their turn.
    More,
    /// They are nothing that is done here.
    Other,
}

impl Lodger {
    pub(super) fn new(
        (link, shard): (Link, u16),
        core: Arc<dyn Work>,
        (pipe, intake): (Arc<Pipe>, Intake),
        peer: Peer,
        (socket, unread): (Socket, BytesMut),
    ) -> (Self, oneshot::Receiver<Returned>) {
        let socket = Arc::new(socket);
        pipe.open(Arc::clone(&socket));
        let (back, returned) = oneshot::channel();
        let lodger = Self {
            link,
            shard,
            core,
            pipe,
            intake,
            peer,
            chunk: vec![0; CHUNK_BYTES].into(),
            unread,
            share: None,
            came: 0,
            readable: true,
            ending: false,
            socket,
            back,
        };
        (lodger, returned)
    }

    /// It is watched until the link leaves.
    pub fn stream(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Called in the middle of a turn.
    pub fn ready(&mut self, signs: Signs) -> Next {
        self.readable |= signs.readable || signs.ending;
        self.ending |= signs.ending;
        if self.pipe.is_recalled() {
            return Next::Leave;
        }
        if signs.writable && self.pipe.flush() {
            self.core.leave(Saying::Room(self.link));
        }
        let next = match self.readable {
            true if self.core.is_crowded() => Next::Call(PAUSE),
            true => self.read(),
            false => Next::Wait,
        };
        self.core.work(self.shard);
        next
    }

    /// The connection goes back to where it came from.
    pub fn leave(self) {
        let unwritten = self.pipe.close();
        // The pipe had the other one.
        if let Some(socket) = Arc::into_inner(self.socket) {
            let returned = Returned {
                socket,
                unread: self.unread,
                unwritten,
            };
            // Whoever waited for it has gone with the process.
            drop(self.back.send(returned));
        }
    }

    fn read(&mut self) -> Next {
        // What came with the connection, or is left of the last turn.
        match self.look() {
            Look::Short => {}
            Look::More => return Next::Call(Duration::ZERO),
            Look::Other => return Next::Leave,
        }
        for _ in 0..READS {
            let read = match (&*self.socket).read(&mut self.chunk) {
                Ok(0) => return Next::Leave,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Next::Wait;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Next::Leave,
            };
            self.peer.heard();
            self.unread.extend_from_slice(&self.chunk[..read]);
            let look = self.look();
            self.beat(read);
            match look {
                Look::Short => {}
                Look::More => return Next::Call(Duration::ZERO),
                Look::Other => return Next::Leave,
            }
            // The kernel had no more: it tells when it has.
            if read < self.chunk.len() && !self.ending {
                self.readable = false;
                return Next::Wait;
            }
            if self.core.is_crowded() {
                break;
            }
        }
        Next::Call(Duration::ZERO)
    }

    /// Its signs of life wait behind a large message: the bytes of that are one.
    fn beat(&mut self, read: usize) {
        self.came = match self.unread.len() > CHUNK_BYTES {
            true => self.came + read as u64,
            false => 0,
        };
        if self.came >= PACE_BYTES {
            self.came = 0;
            self.core.leave(Saying::Heard(self.link));
            self.pipe.answer();
        }
    }

    /// Takes whole messages off what is read. One answer is for all questions whether the gateway is there.
    fn look(&mut self) -> Look {
        let mut asks = false;
        let look = self.take_frames(&mut asks);
        if asks {
            self.pipe.answer();
        }
        look
    }

    fn take_frames(&mut self, asks: &mut bool) -> Look {
        for _ in 0..FRAMES {
            let Some((head, rest)) = self.unread.split_first_chunk::<HEAD_BYTES>() else {
                return Look::Short;
            };
            let [kind, len @ ..] = *head;
            let len = u32::from_be_bytes(len) as usize;
            match kind {
                PING if len == 0 => {
                    *asks = true;
                    self.unread.advance(HEAD_BYTES);
                }
                MESSAGE if len <= MESSAGE_BYTES => {
                    // Where there is no room, it waits for that elsewhere; and what is no message is answered there.
                    let share = self.share.take().or_else(|| self.intake.try_share(len));
                    let Some(share) = share else {
                        return Look::Other;
                    };
                    let Some(message) = rest.get(..len) else {
                        self.share = Some(share);
                        return Look::Short;
                    };
                    let Ok(growth) = backend::growth(message) else {
                        return Look::Other;
                    };
                    let Some(share) = self.intake.try_grow(share, growth) else {
                        return Look::Other;
                    };
                    let Ok(frame) = Frame::decode(Bytes::copy_from_slice(message)) else {
                        return Look::Other;
                    };
                    self.unread.advance(HEAD_BYTES + len);
                    if len > SMALL_BYTES {
                        // The room of a large message is given back.
                        self.unread = BytesMut::from(&self.unread[..]);
                    }
                    self.core.leave(Saying::Frame(self.link, frame, share));
                }
                _ => return Look::Other,
            }
        }
        match self.unread.is_empty() {
            true => Look::Short,
            false => Look::More,
        }
    }
}
