//! The kernel's readiness, and the only folder that knows who tells it. Another way to wait (completions instead of readiness)
//! would stand beside this one.

pub(crate) mod listener;
pub(crate) mod stream;

use hub::ConnId;
use listener::Listener;
use mio::event::{Event, Source};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;
use stream::Stream;

/// Readiness events per turn.
const EVENTS: usize = 4096;
const WAKE: Token = Token(usize::MAX);
/// Tokens of listeners are the highest, below the waker's.
const LISTENERS_FROM: usize = usize::MAX - 1_024;
/// Those of guests are below them.
const GUESTS_FROM: usize = LISTENERS_FROM - Reactor::GUESTS;
const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

#[derive(Debug)]
pub(crate) struct Reactor(Poll);

/// What one wait brought.
#[derive(Debug)]
pub(crate) struct Batch(Events);

/// What a stream is ready for.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    pub readable: bool,
    pub writable: bool,
    /// The peer closed its side.
    pub ending: bool,
}

impl Readiness {
    /// Whoever gets it tries.
    pub(crate) const UNKNOWN: Self = Self {
        readable: true,
        writable: true,
        ending: false,
    };
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Ready {
    Conn(ConnId, Readiness),
    /// The guest with this number.
    Guest(usize, Readiness),
    /// Somebody knocks at one of the listeners.
    Listener,
}

impl Reactor {
    /// Numbers that guests may have.
    pub(crate) const GUESTS: usize = 1 << 16;

    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Poll::new()?))
    }

    /// Wakes this reactor from any thread.
    pub(crate) fn waker(&self) -> io::Result<Waker> {
        let wake = Arc::new(mio::Waker::new(self.0.registry(), WAKE)?);
        Ok(hub::mailbox::waker(move || {
            // Fails only if the eventfd is gone, that is, with the shard.
            let _ = wake.wake();
        }))
    }

    /// Waits until something is ready or the time is over.
    pub(crate) fn wait(&mut self, all: &mut Batch, time: Option<Duration>) -> io::Result<()> {
        match self.0.poll(&mut all.0, time) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                all.0.clear();
                Ok(())
            }
            waited => waited,
        }
    }

    /// Tells of what comes, and of room for what goes.
    pub(crate) fn watch(&self, stream: &mut Stream, conn: ConnId) -> io::Result<()> {
        stream.register(self.0.registry(), Token(conn.index()), BOTH)
    }

    /// Tells of what comes only. A stream has room for its first words, and to be told so is a turn for nothing.
    pub(crate) fn watch_input(&self, stream: &mut Stream, conn: ConnId) -> io::Result<()> {
        stream.register(self.0.registry(), Token(conn.index()), Interest::READABLE)
    }

    /// From now on it tells of room, too: at once, if there is some by now.
    pub(crate) fn watch_output(&self, stream: &mut Stream, conn: ConnId) -> io::Result<()> {
        stream.reregister(self.0.registry(), Token(conn.index()), BOTH)
    }

    pub(crate) fn watch_guest(&self, stream: BorrowedFd<'_>, number: usize) -> io::Result<()> {
        let token = Token(GUESTS_FROM + number);
        SourceFd(&stream.as_raw_fd()).register(self.0.registry(), token, BOTH)
    }

    pub(crate) fn forget_guest(&self, stream: BorrowedFd<'_>) -> io::Result<()> {
        SourceFd(&stream.as_raw_fd()).deregister(self.0.registry())
    }

    pub(crate) fn forget(&self, stream: &mut Stream) -> io::Result<()> {
        stream.deregister(self.0.registry())
    }

    pub(crate) fn forget_listener(&self, listener: &mut Listener) -> io::Result<()> {
        listener.forget(self.0.registry())
    }

    pub(crate) fn watch_listener(&self, listener: &mut Listener, number: usize) -> io::Result<()> {
        listener.watch(self.0.registry(), Token(LISTENERS_FROM + number % 1_024))
    }
}

impl Batch {
    pub(crate) fn new() -> Self {
        Self(Events::with_capacity(EVENTS))
    }

    /// There may be more behind it.
    pub(crate) fn is_full(&self) -> bool {
        self.0.iter().count() >= EVENTS
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Ready> {
        self.0.iter().filter_map(ready)
    }
}

fn ready(event: &Event) -> Option<Ready> {
    let readiness = || Readiness {
        readable: event.is_readable() || event.is_error(),
        writable: event.is_writable(),
        ending: event.is_read_closed(),
    };
    match event.token() {
        WAKE => None,
        Token(number) if number >= LISTENERS_FROM => Some(Ready::Listener),
        Token(number) if number >= GUESTS_FROM => {
            Some(Ready::Guest(number - GUESTS_FROM, readiness()))
        }
        Token(number) => ConnId::from_index(number).map(|conn| Ready::Conn(conn, readiness())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn pair() -> (Stream, UnixStream) {
        let (own, peer) = UnixStream::pair().expect("a pair");
        own.set_nonblocking(true).expect("an option");
        (Stream::Unix(mio::net::UnixStream::from_std(own)), peer)
    }

    /// What the kernel has to say now.
    fn told(reactor: &mut Reactor, batch: &mut Batch) -> Vec<Readiness> {
        let now = Some(Duration::ZERO);
        reactor.wait(batch, now).expect("readiness");
        let readiness = |ready| match ready {
            Ready::Conn(_, readiness) => readiness,
            other => panic!("it is a connection: {other:?}"),
        };
        batch.iter().map(readiness).collect()
    }

    /// Each newcomer made a turn that had nothing to do, and each of its messages was taken for room as well.
    #[test]
    fn a_stream_with_room_is_told_when_somebody_wanted_to_know() {
        let (mut reactor, mut batch) = (Reactor::new().expect("a reactor"), Batch::new());
        let (mut own, mut peer) = pair();
        let conn = ConnId::from_index(7).expect("a number");
        reactor.watch_input(&mut own, conn).expect("watched");
        assert!(told(&mut reactor, &mut batch).is_empty());
        peer.write_all(b"hi").expect("room");
        let told_of = told(&mut reactor, &mut batch);
        assert!(matches!(told_of[..], [one] if one.readable && !one.writable));
        let mut sent = 0;
        while let Ok(written) = own.write(&[7; 4_096]) {
            sent += written;
        }
        reactor.watch_output(&mut own, conn).expect("watched");
        let is_writable = |all: Vec<Readiness>| all.iter().any(|one| one.writable);
        assert!(!is_writable(told(&mut reactor, &mut batch)));
        peer.read_exact(&mut vec![0; sent]).expect("all of it");
        assert!(is_writable(told(&mut reactor, &mut batch)));
    }

    /// There was room again before anybody asked.
    #[test]
    fn room_that_came_before_the_question_is_told() {
        let (mut reactor, mut batch) = (Reactor::new().expect("a reactor"), Batch::new());
        let (mut own, _peer) = pair();
        let conn = ConnId::from_index(7).expect("a number");
        reactor.watch_input(&mut own, conn).expect("watched");
        assert!(told(&mut reactor, &mut batch).is_empty());
        reactor.watch_output(&mut own, conn).expect("watched");
        let told_of = told(&mut reactor, &mut batch);
        assert!(matches!(told_of[..], [one] if one.writable));
    }
}
