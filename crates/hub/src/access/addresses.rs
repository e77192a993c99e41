//! How many connections each address has, over all shards. Touched when a connection comes and goes, never by messages;
//! entries live as long as there are connections, so the table is bounded by them.

use papaya::{Compute, HashMap, Operation};
use std::hash::RandomState;
use std::net::{IpAddr, Ipv6Addr};

/// Connections by address, shared by all hubs. Addresses are chosen by peers, hence the keyed hash.
#[derive(Debug)]
pub struct Addresses {
    conns: HashMap<IpAddr, u32, RandomState>,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            conns: HashMap::with_hasher(RandomState::new()),
        }
    }
}

/// The holder of an address: an IPv6 customer has a whole /64 (RFC 6177), so its addresses count as one.
pub fn holder(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address => address,
    }
}

impl Addresses {
    /// Counts a connection; returns how many the address has with it.
    pub(crate) fn enter(&self, address: IpAddr) -> u32 {
        let conns = self.conns.pin();
        let entered = conns.compute(holder(address), |entry| {
            let count = entry.map_or(0, |(_, count)| *count);
            Operation::<u32, ()>::Insert(count.saturating_add(1))
        });
        match entered {
            Compute::Inserted(_, count) => *count,
            Compute::Updated {
                new: (_, count), ..
            } => *count,
            _ => 0,
        }
    }

    /// The connection is gone.
    pub(crate) fn leave(&self, address: IpAddr) {
        let conns = self.conns.pin();
        conns.compute(holder(address), |entry| match entry {
            Some((_, count)) if *count > 1 => Operation::Insert(count - 1),
            Some(_) => Operation::Remove,
            None => Operation::<u32, ()>::Abort(()),
        });
    }

    /// Connections of an address now.
    pub fn count(&self, address: IpAddr) -> u32 {
        self.conns.pin().get(&holder(address)).copied().unwrap_or(0)
    }

    /// Addresses that have more than so many. It looks at all.
    pub(crate) fn above(&self, count: u32) -> Vec<IpAddr> {
        let conns = self.conns.pin();
        let above = conns.iter().filter(|(_, conns)| **conns > count);
        above.map(|(address, _)| *address).collect()
    }

    /// Addresses that have connections.
    pub fn len(&self) -> usize {
        self.conns.len()
    }

    /// Whether nobody is counted.
    pub fn is_empty(&self) -> bool {
        self.conns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_and_empty_entries_go() {
        let addresses = Addresses::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..20_000u32 {
                        addresses.enter([127, 0, 0, (n % 7) as u8].into());
                        if n % 5 > 0 {
                            addresses.leave([127, 0, 0, (n % 7) as u8].into());
                        }
                    }
                });
            }
        });
        let total: u32 = (0..7).map(|n| addresses.count([127, 0, 0, n].into())).sum();
        assert_eq!(total, 4 * 20_000 / 5);
        for n in 0..7 {
            (0..addresses.count([127, 0, 0, n].into()))
                .for_each(|_| addresses.leave([127, 0, 0, n].into()));
        }
        assert!(addresses.is_empty());
    }

    #[test]
    fn one_customer_of_ipv6_is_one() {
        let addresses = Addresses::default();
        let address = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(addresses.enter(address("2001:db8:1:2::1")), 1);
        assert_eq!(addresses.enter(address("2001:db8:1:2:ffff::9")), 2);
        assert_eq!(addresses.enter(address("2001:db8:1:3::1")), 1);
        assert_eq!(addresses.enter(address("::ffff:10.0.0.1")), 1);
        assert_eq!(addresses.enter(address("10.0.0.1")), 2);
    }
}
