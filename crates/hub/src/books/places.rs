//! Places for connections, as all parts of the process count them: each takes a descriptor, and one that is relayed to another node
//! takes two.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The places of one process.
#[derive(Debug)]
pub struct Places {
    max: usize,
    /// Connections of the shards.
    open: AtomicUsize,
    /// Connections that are relayed to other nodes.
    relayed: AtomicUsize,
}

impl Places {
    /// `max`: descriptors that there are for clients.
    pub fn new(max: usize) -> Self {
        Self {
            max,
            open: AtomicUsize::new(0),
            relayed: AtomicUsize::new(0),
        }
    }

    /// A shard has one connection more.
    pub fn enter(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// It has one fewer.
    pub fn leave(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Connections of the shards.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// How many connections more the shards may have now: of this many at most, as far as there are places, and of a reserve.
    pub fn free(&self, conns_max: usize, reserve: usize) -> usize {
        let relayed = 2 * self.relayed.load(Ordering::Relaxed);
        let max = conns_max.min(self.max.saturating_sub(relayed));
        (max + reserve).saturating_sub(self.open())
    }

    /// A connection leaves a shard to be relayed; `false`: so many are, or no descriptor is left for it.
    pub fn try_relay(&self, relays_max: usize) -> bool {
        let room = (self.max.saturating_sub(self.open()) / 2).min(relays_max);
        let more = |relayed| (relayed < room).then_some(relayed + 1);
        let order = Ordering::Relaxed;
        self.relayed.fetch_update(order, order, more).is_ok()
    }

    /// It is over.
    pub fn end_relay(&self) {
        self.relayed.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
