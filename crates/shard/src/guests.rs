//! Streams that are no clients': something outside serves them on this thread, so that what it has for the shard, and the shard for it,
//! wakes no other one.

use crate::reactor::{Reactor, Readiness};
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Those beyond are not taken.
const GUESTS_MAX: usize = 1_024;

/// A stream and whoever serves it.
pub trait Guest: Send {
    /// It is watched until the guest leaves.
    fn stream(&self) -> BorrowedFd<'_>;
    /// Called in the middle of a turn, so it must not block.
    fn ready(&mut self, readiness: Readiness) -> Stay;
    /// Its stream is watched no more, or was not to be watched at all.
    fn leave(self: Box<Self>);
}

/// What becomes of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// Until the kernel tells of it.
    Waits,
    /// It is called again after so long.
    Again(Duration),
    Leaves,
}

#[derive(Default)]
pub(crate) struct Guests {
    here: BTreeMap<usize, Box<dyn Guest>>,
    made: usize,
    /// Those that are called again, and when.
    again: VecDeque<(usize, Instant)>,
}

impl Guests {
    pub(crate) fn take(&mut self, guest: Box<dyn Guest>, reactor: &Reactor) {
        if self.here.len() >= GUESTS_MAX {
            return guest.leave();
        }
        // A number that is free: there are more of them than guests.
        while self.here.contains_key(&(self.made % Reactor::GUESTS)) {
            self.made += 1;
        }
        let number = self.made % Reactor::GUESTS;
        self.made += 1;
        // Fails when epoll has no memory or watches left.
        if reactor.watch_guest(guest.stream(), number).is_err() {
            return guest.leave();
        }
        self.here.insert(number, guest);
        // What came before is told by nobody.
        self.again.push_back((number, Instant::now()));
    }

    pub(crate) fn ready(&mut self, number: usize, readiness: Readiness, reactor: &Reactor) {
        // It may have left in this very turn.
        let Some(guest) = self.here.get_mut(&number) else {
            return;
        };
        match guest.ready(readiness) {
            Stay::Waits => {}
            Stay::Again(wait) => self.again.push_back((number, Instant::now() + wait)),
            Stay::Leaves => {
                // The stream is watched by others next. What fails here has ended already.
                let _ = reactor.forget_guest(guest.stream());
                self.here.remove(&number).into_iter().for_each(Guest::leave);
            }
        }
    }

    /// Those whose time has come.
    pub(crate) fn call_again(&mut self, reactor: &Reactor) {
        if self.again.is_empty() {
            return;
        }
        let now = Instant::now();
        for _ in 0..self.again.len() {
            let Some((number, due)) = self.again.pop_front() else {
                return;
            };
            match due <= now {
                true => self.ready(number, Readiness::UNKNOWN, reactor),
                false => self.again.push_back((number, due)),
            }
        }
    }

    /// Somebody outside wants them to look.
    pub(crate) fn call_all(&mut self, reactor: &Reactor) {
        let all: Vec<usize> = self.here.keys().copied().collect();
        for number in all {
            self.ready(number, Readiness::UNKNOWN, reactor);
        }
    }

    /// The time until the next call.
    pub(crate) fn due(&self, now: Instant) -> Option<Duration> {
        let next = self.again.iter().map(|(_, due)| *due).min()?;
        Some(next.saturating_duration_since(now))
    }
}

/// The shard has ended.
impl Drop for Guests {
    fn drop(&mut self) {
        let here = std::mem::take(&mut self.here);
        here.into_values().for_each(Guest::leave);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactor::{Batch, Ready};
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{Sender, channel};

    struct Counting {
        stream: UnixStream,
        calls: Sender<usize>,
        left: Sender<()>,
    }

    impl Guest for Counting {
        fn stream(&self) -> BorrowedFd<'_> {
            self.stream.as_fd()
        }

        fn ready(&mut self, _: Readiness) -> Stay {
            let mut bytes = [0; 8];
            let read = self.stream.read(&mut bytes).unwrap_or(0);
            self.calls.send(read).expect("a test");
            match &bytes[..read] {
                b"bye" => Stay::Leaves,
                b"more" => Stay::Again(Duration::ZERO),
                _ => Stay::Waits,
            }
        }

        fn leave(self: Box<Self>) {
            self.left.send(()).expect("a test");
        }
    }

    #[test]
    fn a_guest_is_called_when_its_stream_is_ready_until_it_leaves() {
        let mut reactor = Reactor::new().expect("a reactor");
        let (stream, mut peer) = UnixStream::pair().expect("a pair");
        stream.set_nonblocking(true).expect("an option");
        let ((calls, called), (left, gone)) = (channel(), channel());
        let guest = Counting {
            stream,
            calls,
            left,
        };
        let mut guests = Guests::default();
        guests.take(Box::new(guest), &reactor);
        // What came before it was watched is looked for.
        guests.call_again(&reactor);
        assert_eq!(called.try_recv(), Ok(0));
        let mut batch = Batch::new();
        for (said, calls) in [("hi", 1), ("more", 2), ("bye", 1)] {
            peer.write_all(said.as_bytes()).expect("room");
            while called.try_recv().is_err() {
                let patience = Some(Duration::from_secs(10));
                reactor.wait(&mut batch, patience).expect("readiness");
                for ready in batch.iter() {
                    let Ready::Guest(number, readiness) = ready else {
                        panic!("it is a guest's: {ready:?}");
                    };
                    if readiness.readable {
                        guests.ready(number, readiness, &reactor);
                    }
                }
            }
            guests.call_again(&reactor);
            assert_eq!(called.try_iter().count(), calls - 1, "{said}");
        }
        assert_eq!(gone.try_recv(), Ok(()));
        assert!(guests.here.is_empty());
    }
}
