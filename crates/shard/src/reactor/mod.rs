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

    pub(crate) fn watch(&self, stream: &mut Stream, conn: ConnId) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        stream.register(self.0.registry(), Token(conn.index()), interest)
    }

    pub(crate) fn watch_guest(&self, stream: BorrowedFd<'_>, number: usize) -> io::Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let token = Token(GUESTS_FROM + number);
        SourceFd(&stream.as_raw_fd()).register(self.0.registry(), token, interest)
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
