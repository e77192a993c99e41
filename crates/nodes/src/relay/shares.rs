//! Places of connections that are relayed, by the addresses of their clients. When all are taken, the address that has most gives one to
//! an address that has fewer: one client with many waiting polls shuts nobody out.

use hub::Places;
use hub::addresses::holder;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Connections that gave their place away and are not closed yet: they hold descriptors.
const LEAVING_MAX: usize = 32;

/// The places of each address.
#[derive(Debug)]
pub(super) struct Shares {
    places: Arc<Places>,
    /// Connections relayed at once, as far as there are places.
    max: usize,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    made: u64,
    /// Connections of each address, the oldest first. Each ends when its sender is dropped.
    of: HashMap<IpAddr, BTreeMap<u64, oneshot::Sender<()>>>,
    /// Addresses by the number of theirs.
    ranks: BTreeSet<(usize, IpAddr)>,
    leaving: usize,
}

impl Book {
    fn count(&self, address: IpAddr) -> usize {
        self.of.get(&address).map_or(0, BTreeMap::len)
    }

    fn insert(&mut self, address: IpAddr) -> (u64, oneshot::Receiver<()>) {
        let (sender, end) = oneshot::channel();
        self.made += 1;
        let own = self.of.entry(address).or_default();
        own.insert(self.made, sender);
        let count = own.len();
        self.ranks.remove(&(count - 1, address));
        self.ranks.insert((count, address));
        (self.made, end)
    }

    /// `false`: it is not there any more.
    fn remove(&mut self, address: IpAddr, id: u64) -> bool {
        let Some(own) = self.of.get_mut(&address) else {
            return false;
        };
        let Entry::Occupied(found) = own.entry(id) else {
            return false;
        };
        found.remove();
        let count = own.len();
        self.ranks.remove(&(count + 1, address));
        match count {
            0 => drop(self.of.remove(&address)),
            _ => drop(self.ranks.insert((count, address))),
        }
        true
    }

    /// The oldest connection of the address that has most gives its place to this one. `false`: it has no more than this one would have.
    fn displace(&mut self, by: IpAddr) -> bool {
        let largest = self.ranks.last().copied();
        let Some((count, address)) = largest.filter(|(count, _)| *count > self.count(by) + 1)
        else {
            return false;
        };
        debug_assert_eq!(count, self.count(address));
        let oldest = self.of.get(&address).and_then(|own| own.keys().next());
        let Some(oldest) = oldest.copied().filter(|_| self.leaving < LEAVING_MAX) else {
            return false;
        };
        self.leaving += 1;
        self.remove(address, oldest)
    }
}

impl Shares {
    pub(super) fn new(places: &Arc<Places>, max: usize) -> Self {
        Self {
            places: Arc::clone(places),
            max,
            book: Mutex::default(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection of this client, and whether another one lost its own; `None`: there is none.
    pub(super) fn take(self: &Arc<Self>, client: IpAddr) -> Option<(Share, bool)> {
        let address = holder(client);
        let mut book = self.book();
        let displaced = !self.places.try_relay(self.max);
        if displaced && !book.displace(address) {
            return None;
        }
        let (id, end) = book.insert(address);
        let share = Share {
            shares: Arc::clone(self),
            address,
            id,
            end,
        };
        Some((share, displaced))
    }
}

/// The place of one connection. It is free when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    shares: Arc<Shares>,
    address: IpAddr,
    id: u64,
    end: oneshot::Receiver<()>,
}

impl Share {
    /// Ready when the place is another's: the connection is to end.
    pub(super) async fn lost(&mut self) {
        let _ = (&mut self.end).await;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut book = self.shares.book();
        match book.remove(self.address, self.id) {
            true => self.shares.places.end_relay(),
            // Its place is another's.
            false => book.leaving -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn take(shares: &Arc<Shares>, last: u8, count: usize) -> Vec<Share> {
        let taken = (0..count).map_while(|_| shares.take(address(last)));
        taken.map(|(share, _)| share).collect()
    }

    fn are_lost(shares: &mut [Share]) -> usize {
        let lost = shares
            .iter_mut()
            .filter_map(|share| share.end.try_recv().err());
        lost.filter(|error| *error == oneshot::error::TryRecvError::Closed)
            .count()
    }

    /// A client with many waiting polls took the places of all.
    #[test]
    fn the_address_that_has_most_gives_places_to_others() {
        let places = Arc::new(Places::new(1_000));
        let shares = Arc::new(Shares::new(&places, 20));
        let mut greedy = take(&shares, 1, 100);
        assert_eq!(greedy.len(), 20);
        let mut other = take(&shares, 2, 100);
        assert_eq!((other.len(), are_lost(&mut greedy)), (10, 10));
        let third = take(&shares, 3, 1);
        assert_eq!(third.len(), 1);
        assert_eq!(are_lost(&mut greedy) + are_lost(&mut other), 11);
        assert!(shares.take(address(1)).is_none(), "it has its share");
        drop((greedy, other, third));
        assert_eq!(take(&shares, 1, 100).len(), 20, "all are free again");
    }

    #[test]
    fn addresses_of_one_customer_are_one() {
        let places = Arc::new(Places::new(1_000));
        let shares = Arc::new(Shares::new(&places, 4));
        let of = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 1, 0, 0, 0, last]);
        let held: Vec<_> = (0..4).map_while(|last| shares.take(of(last))).collect();
        assert_eq!(held.len(), 4);
        assert!(shares.take(of(5)).is_none());
        assert!(shares.take(address(1)).is_some());
    }

    #[test]
    fn places_that_are_being_left_are_bounded() {
        let places = Arc::new(Places::new(1_000));
        let shares = Arc::new(Shares::new(&places, 100));
        let mut held = take(&shares, 1, 100);
        let others: Vec<_> = (2..90).filter_map(|n| shares.take(address(n))).collect();
        assert_eq!(others.len(), LEAVING_MAX);
        let lost = are_lost(&mut held);
        assert_eq!(lost, LEAVING_MAX);
        drop(held);
        assert!(
            shares
                .take(address(90))
                .is_some_and(|(_, displaced)| !displaced)
        );
    }
}
