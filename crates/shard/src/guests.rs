//! Streams that are no clients': something outside serves them on this thread, so that what it has for the shard, and the shard for it,
//! wakes no other one.

use crate::bounds::GUESTS_MAX;
use crate::reactor::{Reactor, Readiness};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

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
    here: BTreeMap<usize, Place>,
    made: usize,
    turn: u64,
}

struct Place {
    guest: Box<dyn Guest>,
    /// When it is called again. What it wanted earlier is kept: one call answers any number of wishes.
    again: Option<Instant>,
    /// The turn in which it was called last because its stream was ready.
    served: Option<u64>,
}

impl Place {
    fn call(&mut self, readiness: Readiness) -> Stay {
        let stay = self.guest.ready(readiness);
        if let Stay::Again(wait) = stay {
            let due = Instant::now() + wait;
            self.again = Some(self.again.map_or(due, |again| again.min(due)));
        }
        stay
    }
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
        let place = Place {
            guest,
            // What came before is told by nobody.
            again: Some(Instant::now()),
            served: None,
        };
        self.here.insert(number, place);
    }

    pub(crate) fn ready(&mut self, number: usize, readiness: Readiness, reactor: &Reactor) {
        // It may have left in this very turn.
        let Some(place) = self.here.get_mut(&number) else {
            return;
        };
        place.served = Some(self.turn);
        if place.call(readiness) == Stay::Leaves {
            self.let_go(number, reactor);
        }
    }

    /// Those whose time has come, but for those that had their turn already.
    pub(crate) fn call_again(&mut self, reactor: &Reactor) {
        let turn = self.turn;
        self.turn += 1;
        if self.here.is_empty() {
            return;
        }
        let now = Instant::now();
        self.call(reactor, |place| {
            let is_due = place.served != Some(turn) && place.again.is_some_and(|due| due <= now);
            if is_due {
                place.again = None;
            }
            is_due
        });
    }

    /// Somebody outside wants them to look.
    pub(crate) fn call_all(&mut self, reactor: &Reactor) {
        self.call(reactor, |_| true);
    }

    fn call(&mut self, reactor: &Reactor, mut is_meant: impl FnMut(&mut Place) -> bool) {
        let mut from = 0;
        while let Some((&number, place)) = self.here.range_mut(from..).next() {
            from = number + 1;
            if is_meant(place) && place.call(Readiness::UNKNOWN) == Stay::Leaves {
                self.let_go(number, reactor);
            }
        }
    }

    fn let_go(&mut self, number: usize, reactor: &Reactor) {
        if let Some(place) = self.here.remove(&number) {
            // The stream is watched by others next. What fails here has ended already.
            let _ = reactor.forget_guest(place.guest.stream());
            place.guest.leave();
        }
    }

    /// The time until the next call.
    pub(crate) fn due(&self, now: Instant) -> Option<Duration> {
        let next = self.here.values().filter_map(|place| place.again).min()?;
        Some(next.saturating_duration_since(now))
    }
}

/// The shard has ended.
impl Drop for Guests {
    fn drop(&mut self) {
        let here = std::mem::take(&mut self.here);
        here.into_values().for_each(|place| place.guest.leave());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reactor::{Batch, Ready};
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::{Receiver, Sender, channel};

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
                b"greedy" => Stay::Again(Duration::from_secs(3_600)),
                _ => Stay::Waits,
            }
        }

        fn leave(self: Box<Self>) {
            self.left.send(()).expect("a test");
        }
    }

    /// A guest, its peer, its calls and its end.
    fn guest() -> (Counting, UnixStream, Receiver<usize>, Receiver<()>) {
        let (stream, peer) = UnixStream::pair().expect("a pair");
        stream.set_nonblocking(true).expect("an option");
        let ((calls, called), (left, gone)) = (channel(), channel());
        let guest = Counting {
            stream,
            calls,
            left,
        };
        (guest, peer, called, gone)
    }

    #[test]
    fn any_number_of_calls_leaves_one_call_to_come() {
        let reactor = Reactor::new().expect("a reactor");
        let (guest, mut peer, called, _gone) = guest();
        let mut guests = Guests::default();
        guests.take(Box::new(guest), &reactor);
        guests.call_again(&reactor);
        for _ in 0..100 {
            for said in ["greedy", "more"] {
                peer.write_all(said.as_bytes()).expect("room");
                guests.ready(0, Readiness::UNKNOWN, &reactor);
            }
            // It had its turn.
            guests.call_again(&reactor);
            peer.write_all(b"greedy").expect("room");
            guests.call_all(&reactor);
        }
        assert_eq!(called.try_iter().count(), 1 + 3 * 100);
        // The earliest of its wishes holds, once.
        assert_eq!(guests.due(Instant::now()), Some(Duration::ZERO));
        (0..9).for_each(|_| guests.call_again(&reactor));
        assert_eq!(called.try_iter().count(), 1);
        assert_eq!(guests.due(Instant::now()), None);
    }

    #[test]
    fn a_guest_is_called_when_its_stream_is_ready_until_it_leaves() {
        let mut reactor = Reactor::new().expect("a reactor");
        let (guest, mut peer, called, gone) = guest();
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
            assert_eq!(called.try_iter().count(), 0, "{said}: it had its turn");
            guests.call_again(&reactor);
            assert_eq!(called.try_iter().count(), calls - 1, "{said}");
        }
        assert_eq!(gone.try_recv(), Ok(()));
        assert!(guests.here.is_empty());
    }
}
