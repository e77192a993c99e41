//! Clients that have not opened a session yet: how many there may be, all in all and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Handshakes cost memory and time of a core; those beyond are told to come later.
const OPENINGS_MAX: usize = 1_024;
const OPENINGS_PER_ADDRESS_MAX: usize = 64;
/// Above this many, a client shows first that its address is its own (RFC 9000 §8.1), so that nobody takes the places of others.
const UNPROVEN_MAX: usize = 256;
const UNPROVEN_PER_ADDRESS_MAX: usize = 8;

#[derive(Debug, Default)]
pub(crate) struct Openings(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_address: HashMap<IpAddr, usize>,
}

/// The place of one client.
#[derive(Debug)]
pub(crate) struct Place {
    openings: Arc<Openings>,
    holder: IpAddr,
}

impl Openings {
    fn count(&self, address: IpAddr) -> (usize, usize) {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = open.by_address.get(&holder(address));
        (open.all, own.copied().unwrap_or_default())
    }

    /// Whether a client from there has to show that it is there.
    pub(crate) fn want_proof(&self, address: IpAddr) -> bool {
        let (all, own) = self.count(address);
        all >= UNPROVEN_MAX || own >= UNPROVEN_PER_ADDRESS_MAX
    }

    /// `None`: there are too many.
    pub(crate) fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let holder = holder(address);
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = open.by_address.get(&holder).copied().unwrap_or_default();
        if open.all >= OPENINGS_MAX || own >= OPENINGS_PER_ADDRESS_MAX {
            return None;
        }
        open.all += 1;
        open.by_address.insert(holder, own + 1);
        Some(Place {
            openings: Arc::clone(self),
            holder,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let open = &self.openings.0;
        let mut open = open.lock().unwrap_or_else(PoisonError::into_inner);
        open.all -= 1;
        let Some(own) = open.by_address.get_mut(&self.holder) else {
            return;
        };
        *own -= 1;
        if *own == 0 {
            open.by_address.remove(&self.holder);
        }
    }
}

/// One customer has a /64 of IPv6.
fn holder(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) >> 64 << 64).into()),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_bounded_by_address_and_given_back() {
        let openings = Arc::new(Openings::default());
        let here: IpAddr = "2001:db8::1".parse().expect("an address");
        let beside: IpAddr = "2001:db8::2:3".parse().expect("an address");
        let there: IpAddr = "::ffff:192.0.2.1".parse().expect("an address");
        let mut held: Vec<_> = std::iter::from_fn(|| openings.enter(here)).collect();
        assert_eq!(held.len(), OPENINGS_PER_ADDRESS_MAX);
        assert!(openings.enter(beside).is_none() && openings.want_proof(beside));
        assert!(!openings.want_proof(there));
        held.extend(openings.enter(there));
        assert_eq!(held.len(), OPENINGS_PER_ADDRESS_MAX + 1);
        held.clear();
        assert_eq!(openings.count(here), (0, 0));
        assert!(openings.0.lock().expect("no panic").by_address.is_empty());
    }

    #[test]
    fn places_are_bounded_all_in_all() {
        let openings = Arc::new(Openings::default());
        let address = |n: usize| IpAddr::from((n as u32).to_be_bytes());
        let held = (0..2 * OPENINGS_MAX).map_while(|n| openings.enter(address(n)));
        assert_eq!(held.collect::<Vec<_>>().len(), OPENINGS_MAX);
    }
}
