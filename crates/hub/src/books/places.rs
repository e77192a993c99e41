//! Places for connections, as all parts of the process count them. Each connection takes a descriptor, and one that is relayed to another
//! node or brought by a carrier takes two. Listeners beside those of clients have a few descriptors of their own; for more connections
//! they borrow places.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// At most one part of so many is lent: strangers who fill other ports leave the rest to clients.
const LENT_PART: usize = 4;

/// The places of one process.
#[derive(Debug)]
pub struct Places {
    max: usize,
    /// Connections of the shards.
    open: AtomicUsize,
    /// Connections that are relayed to other nodes.
    relayed: AtomicUsize,
    /// Connections of other listeners.
    lent: AtomicUsize,
    /// Ends that carriers have of connections of the shards.
    carried: AtomicUsize,
}

/// The place of a client's connection that no shard has, or not yet.
#[derive(Debug)]
pub struct Entered(Arc<Places>);

/// The place of a carrier's end of a connection that a shard has.
#[derive(Debug)]
pub struct Carried(Arc<Places>);

/// The place of a connection of another listener.
#[derive(Debug)]
pub struct Lent(Arc<Places>);

impl Places {
    /// `max`: descriptors that there are for clients.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            open: AtomicUsize::new(0),
            relayed: AtomicUsize::new(0),
            lent: AtomicUsize::new(0),
            carried: AtomicUsize::new(0),
        }
    }

    /// A shard has one connection more.
    pub fn enter(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// A shard has one connection less.
    pub fn leave(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// A client's connection that a shard gave away counts until this is dropped.
    pub fn keep(self: &Arc<Self>) -> Entered {
        self.enter();
        Entered(Arc::clone(self))
    }

    /// A place for a connection on its way to a shard, among so many and of a reserve; `None`: there is none. Taken at once: a hundred
    /// that come in one moment must not all see the same free place.
    pub fn try_keep(self: &Arc<Self>, conns_max: usize, reserve: usize) -> Option<Entered> {
        let max = self.max_open(conns_max) + reserve;
        let more = |open| (open < max).then_some(open + 1);
        let order = Ordering::Relaxed;
        let kept = self.open.fetch_update(order, order, more).is_ok();
        kept.then(|| Entered(Arc::clone(self)))
    }

    /// A place for a connection of another listener; `None`: clients have all, or enough are lent.
    pub fn lend(self: &Arc<Self>) -> Option<Lent> {
        // A relayed connection has two descriptors (ADR 31).
        let relayed = 2 * self.relayed.load(Ordering::Relaxed);
        let free = self
            .max
            .saturating_sub(self.open() + relayed + self.carried());
        let room = free.min(self.max / LENT_PART);
        let more = |lent| (lent < room).then_some(lent + 1);
        let order = Ordering::Relaxed;
        let lent = self.lent.fetch_update(order, order, more).is_ok();
        lent.then(|| Lent(Arc::clone(self)))
    }

    /// Places for both ends of a connection that a carrier brings to a shard, among so many; `None`: there are none.
    pub fn try_carry(self: &Arc<Self>, conns_max: usize) -> Option<(Entered, Carried)> {
        // The carrier's end is counted first, so that `try_keep` sees both ends. Where that fails, `carried` gives its place back.
        self.carried.fetch_add(1, Ordering::Relaxed);
        let carried = Carried(Arc::clone(self));
        Some((self.try_keep(conns_max, 0)?, carried))
    }

    fn carried(&self) -> usize {
        self.carried.load(Ordering::Relaxed)
    }

    /// Connections of clients.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// How many connections more the shards may have now: of this many at most, as far as there are places, and of a reserve.
    pub fn free(&self, conns_max: usize, reserve: usize) -> usize {
        (self.max_open(conns_max) + reserve).saturating_sub(self.open())
    }

    fn max_open(&self, conns_max: usize) -> usize {
        let others = 2 * self.relayed.load(Ordering::Relaxed) + self.lent.load(Ordering::Relaxed);
        conns_max.min(self.max.saturating_sub(others + self.carried()))
    }

    /// A connection leaves a shard to be relayed; `false`: so many are, or no descriptor is left for it.
    pub fn try_relay(&self, relays_max: usize) -> bool {
        let others = self.open() + self.lent.load(Ordering::Relaxed) + self.carried();
        // A relayed connection has two descriptors (ADR 31).
        let room = (self.max.saturating_sub(others) / 2).min(relays_max);
        let more = |relayed| (relayed < room).then_some(relayed + 1);
        let order = Ordering::Relaxed;
        self.relayed.fetch_update(order, order, more).is_ok()
    }

    /// A relayed connection is over.
    pub fn end_relay(&self) {
        self.relayed.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.carried.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.lent.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn carried_connections_take_two_descriptors() {
        let places = Arc::new(Places::new(100));
        let brought: Vec<_> = std::iter::from_fn(|| places.try_carry(1_000)).collect();
        assert_eq!(brought.len(), 50);
        assert!(places.lend().is_none() && !places.try_relay(9));
        drop(brought);
        assert_eq!((places.open(), places.free(1_000, 0)), (0, 100));
        let few: Vec<_> = std::iter::from_fn(|| places.try_carry(7)).collect();
        assert_eq!(few.len(), 7, "they count once among connections");
    }

    #[test]
    fn relayed_connections_were_refused_while_descriptors_were_free() {
        let places = Places::new(20_000);
        (0..5_000).for_each(|_| places.enter());
        let relayed = (0..65_536).filter(|_| places.try_relay(65_536)).count();
        assert_eq!(relayed, 7_500, "two descriptors each");
        assert_eq!((places.free(20_000, 0), places.free(20_000, 48)), (0, 48));
        places.end_relay();
        assert_eq!((places.free(20_000, 0), places.free(5_001, 0)), (2, 1));
        places.leave();
        assert_eq!(places.free(20_000, 0), 3);
    }

    #[test]
    fn their_number_has_a_bound_of_its_own() {
        let places = Places::new(1_000);
        assert_eq!((0..10).filter(|_| places.try_relay(4)).count(), 4);
        assert_eq!(places.free(1_000, 0), 992);
    }

    /// All that came in one moment saw the same free place.
    #[test]
    fn a_burst_on_its_way_to_shards_took_more_places_than_there_were() {
        let places = Arc::new(Places::new(1_000));
        (0..70).for_each(|_| places.enter());
        let kept: Vec<Entered> = (0..60).map_while(|_| places.try_keep(70, 24)).collect();
        assert_eq!((kept.len(), places.free(70, 48)), (24, 24));
        drop(kept);
        assert!(places.try_keep(70, 0).is_none());
        assert_eq!(places.free(70, 24), 24);
    }

    /// Each listener had a count of its own, and together they took all descriptors.
    #[test]
    fn other_listeners_borrow_from_the_places_of_clients() {
        let places = Arc::new(Places::new(472));
        let mut lent: Vec<Lent> = std::iter::from_fn(|| places.lend()).collect();
        assert_eq!((lent.len(), places.free(472, 48)), (118, 402));
        let entered: Vec<Entered> = (0..354).map(|_| places.keep()).collect();
        assert_eq!(places.free(472, 0), 0);
        lent.pop();
        assert_eq!(places.free(472, 0), 1);
        let last = places.keep();
        assert!(places.lend().is_none(), "clients have it");
        drop((last, entered));
        assert_eq!((places.open(), places.free(472, 0)), (0, 355));
    }
}
