//! Places for connections, of which there are only so many. When all are taken, a stranger's goes first: somebody that only holds
//! places keeps no caller out, and ends no call.

use hub::{Lent, Places};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Seats of each listener that are there in any case; the others are borrowed from the places of clients.
const OWN: usize = 8;
/// Connections that lost their seats and are not closed yet: they hold descriptors, which all parts of the process need.
const LEAVING_MAX: usize = 4;
/// A connection that lost its seat closes by then, or is waited for no longer.
const LEAVING_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct Seats {
    places: Arc<Places>,
    room: Arc<Mutex<Room>>,
    left: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Room {
    made: u64,
    /// Those that have a seat, and those that lost theirs.
    open: usize,
    taken: HashMap<u64, Taken>,
}

#[derive(Debug)]
struct Taken {
    peer: Peer,
    /// Ends the connection when it is dropped.
    _end: oneshot::Sender<()>,
    /// `None`: the seat is one of the listener's own.
    place: Option<Lent>,
}

impl Room {
    /// A place for one more. Of those that are there in any case, or a borrowed one; `None`: there is none.
    fn place(&self, places: &Arc<Places>) -> Option<Option<Lent>> {
        let own = self.taken.values().filter(|taken| taken.place.is_none());
        match own.count() < OWN {
            true => Some(None),
            false => places.lend().map(Some),
        }
    }

    /// The place of the one that gives it away.
    fn displace(&mut self) -> Option<Lent> {
        let taken = self.taken.iter();
        let lowest = taken.min_by_key(|(_, taken)| taken.peer.rank());
        let id = lowest.map(|(id, _)| *id)?;
        self.taken.remove(&id)?.place
    }
}

/// A connection's seat. It is free when this is dropped.
#[derive(Debug)]
pub struct Seat {
    id: u64,
    seats: Seats,
    peer: Peer,
    end: oneshot::Receiver<()>,
}

/// The other end of a connection, as far as it is known.
#[derive(Clone, Debug)]
pub struct Peer(Arc<Heard>);

#[derive(Debug)]
struct Heard {
    since: Instant,
    /// Milliseconds behind it.
    last: AtomicU64,
    /// Somebody showed a key there.
    trusted: AtomicBool,
    /// Milliseconds behind it, until which an answer takes.
    stays: AtomicU64,
}

impl Peer {
    fn new() -> Self {
        Self(Arc::new(Heard {
            since: Instant::now(),
            last: AtomicU64::new(0),
            trusted: AtomicBool::new(false),
            stays: AtomicU64::new(0),
        }))
    }

    /// It showed a key: no stranger takes its place.
    pub fn trust(&self) {
        self.0.trusted.store(true, Ordering::Relaxed);
    }

    /// Its key is one no more.
    pub fn distrust(&self) {
        self.0.trusted.store(false, Ordering::Relaxed);
    }

    pub fn heard(&self) {
        let millis = u64::try_from(self.0.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last.store(millis, Ordering::Relaxed);
    }

    /// It has an answer that takes so long.
    pub fn stay(&self, time: Duration) {
        let until = self.0.since.elapsed() + time;
        let millis = u64::try_from(until.as_millis()).unwrap_or(u64::MAX);
        self.0.stays.fetch_max(millis, Ordering::Relaxed);
    }

    /// The rest of that time.
    pub fn stays(&self) -> Duration {
        let until = Duration::from_millis(self.0.stays.load(Ordering::Relaxed));
        until.saturating_sub(self.0.since.elapsed())
    }

    /// The lowest gives its place away.
    fn rank(&self) -> (bool, Instant) {
        let last = Duration::from_millis(self.0.last.load(Ordering::Relaxed));
        (self.0.trusted.load(Ordering::Relaxed), self.0.since + last)
    }
}

impl Seats {
    pub fn new(places: &Arc<Places>) -> Self {
        Self {
            places: Arc::clone(places),
            room: Arc::default(),
            left: Arc::default(),
        }
    }

    /// Waits until most of those that lost their seats are closed. To be called before a connection is accepted.
    pub async fn settle(&self) {
        let leaving = || {
            let room = self.lock();
            room.open - room.taken.len()
        };
        let settled = async {
            while leaving() > LEAVING_MAX {
                self.left.notified().await;
            }
        };
        // Newcomers do not wait for ever for one that hangs.
        let _ = tokio::time::timeout(LEAVING_TIMEOUT, settled).await;
    }

    /// A seat for a new connection, and whether another one lost its own: one that has shown no key, the one that was silent for
    /// longest. Where all have shown one, it is the most silent of them.
    pub fn take(&self, seats_max: usize) -> (Seat, bool) {
        let mut room = self.lock();
        let has_room = room.taken.len() < seats_max;
        let free = has_room.then(|| room.place(&self.places)).flatten();
        let full = free.is_none();
        let place = match free {
            Some(place) => place,
            None => room.displace(),
        };
        let (sender, end) = oneshot::channel();
        let peer = Peer::new();
        let taken = Taken {
            peer: peer.clone(),
            _end: sender,
            place,
        };
        room.made += 1;
        room.open += 1;
        let id = room.made;
        room.taken.insert(id, taken);
        let seats = self.clone();
        let seat = Seat {
            id,
            seats,
            peer,
            end,
        };
        (seat, full)
    }

    fn lock(&self) -> MutexGuard<'_, Room> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Ready when the seat is another's: the connection is to end.
    pub async fn lost(&mut self) {
        if !self.end.is_terminated() {
            let _ = (&mut self.end).await;
        }
    }

    /// The same, for those that poll.
    pub fn is_lost(&mut self, cx: &mut Context<'_>) -> bool {
        self.end.is_terminated() || matches!(Pin::new(&mut self.end).poll(cx), Poll::Ready(_))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut room = self.seats.lock();
        room.taken.remove(&self.id);
        room.open -= 1;
        drop(room);
        self.seats.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seats() -> Seats {
        Seats::new(&Arc::new(Places::new(1_000)))
    }

    /// Of these, those that still have their seats.
    fn seated(all: &mut [Seat]) -> Vec<usize> {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let all = all.iter_mut().enumerate();
        let seated = all.filter_map(|(at, seat)| (!seat.is_lost(&mut cx)).then_some(at));
        seated.collect()
    }

    #[test]
    fn strangers_lose_their_seats_before_callers() {
        let seats = seats();
        let mut all: Vec<Seat> = (0..3).map(|_| seats.take(3).0).collect();
        all[0].peer().trust();
        for n in 0..10 {
            let (seat, full) = seats.take(3);
            assert!(full, "{n}");
            all.push(seat);
        }
        let left = seated(&mut all);
        assert_eq!((left.len(), left[0]), (3, 0), "{left:?}");
        drop(all);
        assert!(!seats.take(3).1, "those that ended left theirs");
    }

    /// Strangers that came faster than others closed took the descriptors of clients.
    #[tokio::test]
    async fn connections_without_seats_were_open_without_bound() {
        let seats = seats();
        let mut all: Vec<Seat> = (0..3 + LEAVING_MAX).map(|_| seats.take(3).0).collect();
        seats.settle().await;
        all.push(seats.take(3).0);
        let mut settled = std::pin::pin!(seats.settle());
        let mut cx = Context::from_waker(std::task::Waker::noop());
        assert!(settled.as_mut().poll(&mut cx).is_pending());
        drop(all);
        assert!(settled.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn the_one_that_was_silent_for_longest_goes() {
        let seats = seats();
        let mut all: Vec<Seat> = (0..3).map(|_| seats.take(3).0).collect();
        all.iter().for_each(|seat| seat.peer().trust());
        std::thread::sleep(Duration::from_millis(2));
        all[0].peer().heard();
        all[2].peer().heard();
        all.push(seats.take(3).0);
        assert_eq!(seated(&mut all), [0, 2, 3]);
    }

    /// Workers, operators and strangers at their ports took the descriptors of clients.
    #[test]
    fn seats_beyond_a_listeners_own_are_borrowed() {
        let places = Arc::new(Places::new(40));
        let (seats, others) = (Seats::new(&places), Seats::new(&places));
        let all: Vec<Seat> = (0..OWN + 10).map(|_| seats.take(1_024).0).collect();
        assert_eq!(places.free(40, 0), 30);
        let (one_more, full) = seats.take(1_024);
        assert!(full, "a quarter is lent");
        assert!(!others.take(1_024).1, "the other listener has its own");
        assert_eq!(places.free(40, 0), 30);
        drop((all, one_more));
        assert_eq!(places.free(40, 0), 40);
    }
}
