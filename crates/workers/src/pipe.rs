//! Frames of links without HTTP/2, and a link's way out while a shard serves its connection: whoever has a message for the worker
//! writes it, and no thread is woken for that.

use super::intake::HEAD_BYTES;
use backend::Link;
use prost::bytes::{Buf, Bytes};
use socket2::Socket;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The first bytes of both ends. An HTTP/2 connection begins with others (RFC 9113 §3.4).
pub(super) const MAGIC: [u8; 8] = *b"SOCKEYE1";

/// A `FromWorker` or a `ToWorker`.
pub(super) const MESSAGE: u8 = 0;
/// Why the gateway ends the link: one byte with a code of gRPC, and a text.
pub(super) const END: u8 = 1;
/// The worker wants to hear that the gateway is there: `PONG` answers. It also comes unasked while a large message is read.
pub(super) const PING: u8 = 2;
pub(super) const PONG: u8 = 3;
/// A key of a backend.
pub(super) const KEY: u8 = 4;

/// A worker that takes nothing for so long is gone.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
/// Messages that wait for the connection to be a shard's.
const EARLY_MAX: usize = 4;

/// What stands before the content of a frame.
pub(super) fn head(kind: u8, len: usize) -> [u8; HEAD_BYTES] {
    // No message has 4 GiB.
    let [a, b, c, d] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    [kind, a, b, c, d]
}

/// The shard that a link is for.
pub(super) fn shard_of(link: Link, shards: u16) -> u16 {
    (link.0 % u64::from(shards.max(1))) as u16
}

#[derive(Debug, Default)]
pub(super) struct Pipe {
    flow: Mutex<Flow>,
    recalled: AtomicBool,
}

#[derive(Debug)]
enum Flow {
    /// The connection is on its way to a shard.
    Early(VecDeque<Bytes>),
    Open(Open),
    /// Messages go another way, for good.
    Closed,
}

impl Default for Flow {
    fn default() -> Self {
        Self::Early(VecDeque::new())
    }
}

#[derive(Debug)]
struct Open {
    socket: Arc<Socket>,
    /// What the kernel has not taken.
    rest: VecDeque<Bytes>,
    /// Since when it takes nothing.
    stuck: Option<Instant>,
    broken: bool,
    /// One answer to any number of questions whether the gateway is there.
    owes: bool,
}

impl Pipe {
    fn flow(&self) -> MutexGuard<'_, Flow> {
        self.flow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on messages are written to this. The greeting goes first.
    pub(super) fn open(&self, socket: Arc<Socket>) {
        let mut flow = self.flow();
        if let Flow::Early(early) = &mut *flow {
            let mut rest = VecDeque::from([Bytes::from_static(&MAGIC)]);
            rest.append(early);
            let mut open = Open {
                socket,
                rest,
                stuck: None,
                broken: false,
                owes: false,
            };
            open.flush();
            *flow = Flow::Open(open);
        }
    }

    /// Whether one more message may go this way. `None`: none ever will.
    pub(super) fn has_room(&self) -> Option<bool> {
        match &*self.flow() {
            Flow::Early(early) => Some(early.len() < 2 * EARLY_MAX),
            Flow::Open(open) => Some(open.rest.is_empty()),
            Flow::Closed => None,
        }
    }

    /// A shard serves the connection.
    pub(super) fn is_open(&self) -> bool {
        matches!(&*self.flow(), Flow::Open(_))
    }

    /// Says that the gateway is there.
    pub(super) fn answer(&self) {
        if let Flow::Open(open) = &mut *self.flow() {
            open.owes = true;
            open.flush();
        }
    }

    /// # Errors
    /// Messages go another way by now.
    pub(super) fn write(&self, content: Bytes) -> Result<(), Bytes> {
        let head = head(MESSAGE, content.len());
        match &mut *self.flow() {
            Flow::Early(early) => {
                early.push_back(Bytes::copy_from_slice(&head));
                early.push_back(content);
            }
            Flow::Open(open) => open.write(&head, content),
            Flow::Closed => return Err(content),
        }
        Ok(())
    }

    /// The connection may take more. Returns whether it took all that waited.
    pub(super) fn flush(&self) -> bool {
        match &mut *self.flow() {
            Flow::Open(open) if !open.rest.is_empty() => {
                open.flush();
                open.rest.is_empty()
            }
            _ => false,
        }
    }

    /// A worker that takes nothing any more loses its connection.
    pub(super) fn end_if_stuck(&self, now: Instant) {
        if let Flow::Open(open) = &mut *self.flow()
            && open.stuck.is_some_and(|since| now > since + WRITE_TIMEOUT)
        {
            // It may have ended by itself.
            let _ = open.socket.shutdown(Shutdown::Both);
        }
    }

    /// Its worker is to come by another connection.
    pub(super) fn cut(&self) {
        if let Flow::Open(open) = &*self.flow() {
            // It may have ended by itself.
            let _ = open.socket.shutdown(Shutdown::Both);
        }
        self.recall();
    }

    /// Nothing more is written here. Returns what is still to be written, in this order, before anything else.
    pub(super) fn close(&self) -> VecDeque<Bytes> {
        match std::mem::replace(&mut *self.flow(), Flow::Closed) {
            Flow::Early(mut early) => {
                early.push_front(Bytes::from_static(&MAGIC));
                early
            }
            Flow::Open(mut open) => {
                if open.owes {
                    open.rest.push_back(Bytes::copy_from_slice(&head(PONG, 0)));
                }
                open.rest
            }
            Flow::Closed => VecDeque::new(),
        }
    }

    /// Asks the one that serves the connection to give it back.
    pub(super) fn recall(&self) {
        self.recalled.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_recalled(&self) -> bool {
        self.recalled.load(Ordering::SeqCst)
    }
}

impl Open {
    fn write(&mut self, head: &[u8], mut content: Bytes) {
        if self.broken {
            return;
        }
        if !self.rest.is_empty() {
            self.rest.push_back(Bytes::copy_from_slice(head));
            self.rest.push_back(content);
            return;
        }
        let slices = [IoSlice::new(head), IoSlice::new(&content)];
        let written = self.note(|mut socket| socket.write_vectored(&slices));
        if written < head.len() {
            self.rest
                .push_back(Bytes::copy_from_slice(&head[written..]));
        } else {
            content.advance(written - head.len());
        }
        if content.has_remaining() {
            self.rest.push_back(content);
        }
        // The kernel took a part: it may take more.
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(mut first) = self.next() {
            if self.broken {
                continue;
            }
            let written = self.note(|mut socket| socket.write(&first));
            first.advance(written);
            if first.has_remaining() {
                self.rest.push_front(first);
                if self.stuck.is_some() {
                    return;
                }
            }
        }
    }

    fn next(&mut self) -> Option<Bytes> {
        let owes = self.rest.is_empty() && std::mem::take(&mut self.owes);
        match owes {
            true => Some(Bytes::copy_from_slice(&head(PONG, 0))),
            false => self.rest.pop_front(),
        }
    }

    /// Bytes that the kernel took. A connection that breaks has ended: whoever reads it is told.
    fn note(&mut self, write: impl Fn(&Socket) -> io::Result<usize>) -> usize {
        loop {
            match write(&self.socket) {
                Ok(written) => {
                    self.stuck = None;
                    return written;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stuck = self.stuck.or_else(|| Some(Instant::now()));
                    return 0;
                }
                Err(_) => {
                    self.broken = true;
                    return 0;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn pair() -> (Arc<Socket>, UnixStream) {
        let (own, peer) = UnixStream::pair().expect("a pair");
        own.set_nonblocking(true).expect("an option");
        (Arc::new(own.into()), peer)
    }

    #[test]
    fn what_comes_early_and_what_the_kernel_does_not_take_arrives_in_order() {
        let (own, mut peer) = pair();
        let pipe = Pipe::default();
        pipe.write(Bytes::from_static(b"early")).expect("taken");
        pipe.open(own);
        let mut expected = [&MAGIC[..], &self::head(0, 5), b"early"].concat();
        // Until it takes no more.
        let large = Bytes::from(vec![7; 1 << 20]);
        while pipe.has_room() == Some(true) {
            pipe.write(large.clone()).expect("taken");
            expected.extend_from_slice(&self::head(0, large.len()));
            expected.extend_from_slice(&large);
        }
        (0..1_000).for_each(|_| pipe.answer());
        expected.extend_from_slice(&self::head(3, 0));
        let mut got = vec![0; expected.len()];
        let read = std::thread::spawn(move || {
            peer.read_exact(&mut got).expect("all of it");
            got
        });
        while !read.is_finished() {
            pipe.flush();
            std::thread::yield_now();
        }
        assert!(read.join().expect("no panic") == expected);
        assert!(pipe.close().is_empty());
        let late = pipe.write(Bytes::from_static(b"late"));
        assert_eq!(late, Err(Bytes::from_static(b"late")));
        assert_eq!(pipe.has_room(), None);
    }

    #[test]
    fn what_waits_goes_with_the_connection() {
        let (own, _peer) = pair();
        let pipe = Pipe::default();
        pipe.open(own);
        let large = Bytes::from(vec![7; 64 << 20]);
        pipe.write(large).expect("taken");
        assert_eq!(pipe.has_room(), Some(false));
        let left: usize = pipe.close().iter().map(Bytes::len).sum();
        assert!(left > 0 && left < 64 << 20, "{left}");
    }

    #[test]
    fn a_worker_that_takes_nothing_loses_its_connection() {
        let (own, mut peer) = pair();
        let pipe = Pipe::default();
        pipe.open(own);
        pipe.write(Bytes::from(vec![7; 64 << 20])).expect("taken");
        pipe.end_if_stuck(Instant::now() + WRITE_TIMEOUT / 2);
        assert!(!pipe.flush(), "it has not ended");
        pipe.end_if_stuck(Instant::now() + 2 * WRITE_TIMEOUT);
        let mut all = Vec::new();
        // It reads what was on its way, and the end.
        let _ = peer.read_to_end(&mut all);
        assert!(all.len() < 64 << 20);
    }
}
