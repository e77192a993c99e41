//! Bounds of uploads for one user and one address: transfers at once, and bytes in a window of time.

use crate::page::limiter::network;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Users and addresses remembered, each. With more, newcomers are refused: bytes are what must not grow.
const REMEMBERED_MAX: usize = 65_536;

/// Bytes that an upload counts at least: a flood of small ones ends, too.
pub(crate) const UPLOAD_BYTES_MIN: u64 = 64 << 10;

/// Bounds for one user or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub at_once: usize,
    pub bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Quotas {
    users: Arc<Ledger<String>>,
    addresses: Arc<Ledger<IpAddr>>,
}

#[derive(Debug)]
struct Ledger<K> {
    bounds: Bounds,
    window: Duration,
    accounts: Mutex<HashMap<K, Account>>,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    open: usize,
    bytes: u64,
    ends: Instant,
}

/// Why somebody has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    AtOnce,
    /// The window ends after so many seconds.
    Bytes(u64),
}

/// An upload that counts.
#[derive(Debug)]
pub(crate) struct Transfer {
    user: Entry<String>,
    address: Entry<IpAddr>,
    /// Bytes that were counted and have not come.
    ahead: u64,
}

/// Connections of each address that are for bodies.
#[derive(Debug)]
pub(crate) struct Addresses(Arc<Ledger<IpAddr>>);

/// Somebody's place until this is dropped.
#[derive(Debug)]
pub(crate) struct Entry<K: Hash + Eq> {
    ledger: Arc<Ledger<K>>,
    name: K,
}

impl<K: Hash + Eq> Ledger<K> {
    fn new(bounds: Bounds, window: Duration) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            window,
            accounts: Mutex::default(),
        })
    }

    fn with<R>(&self, act: impl FnOnce(&mut HashMap<K, Account>) -> R) -> R {
        act(&mut self.accounts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn begin(self: &Arc<Self>, name: K, now: Instant) -> Result<Entry<K>, Over>
    where
        K: Clone,
    {
        self.with(|accounts| {
            if accounts.len() >= REMEMBERED_MAX && !accounts.contains_key(&name) {
                accounts.retain(|_, account| account.open > 0 || account.ends > now);
                if accounts.len() >= REMEMBERED_MAX {
                    return Err(Over::AtOnce);
                }
            }
            let account = accounts.entry(name.clone()).or_insert(Account {
                open: 0,
                bytes: 0,
                ends: now + self.window,
            });
            if account.open >= self.bounds.at_once {
                return Err(Over::AtOnce);
            }
            account.open += 1;
            let ledger = Arc::clone(self);
            Ok(Entry { ledger, name })
        })
    }
}

impl<K: Hash + Eq> Entry<K> {
    /// Counts bytes that came, or will come (`false`).
    fn count(&self, bytes: u64, really: bool, now: Instant) -> Result<(), Over> {
        let Ledger { bounds, window, .. } = &*self.ledger;
        self.ledger.with(|accounts| {
            let Some(account) = accounts.get_mut(&self.name) else {
                return Ok(());
            };
            if account.ends <= now {
                (account.bytes, account.ends) = (0, now + *window);
            }
            let sum = account.bytes.saturating_add(bytes);
            if sum > bounds.bytes {
                return Err(Over::Bytes((account.ends - now).as_secs() + 1));
            }
            if really {
                account.bytes = sum;
            }
            Ok(())
        })
    }
}

impl<K: Hash + Eq> Drop for Entry<K> {
    fn drop(&mut self) {
        self.ledger.with(|accounts| {
            let Some(account) = accounts.get_mut(&self.name) else {
                return;
            };
            account.open -= 1;
            if account.open == 0 && account.bytes == 0 {
                accounts.remove(&self.name);
            }
        });
    }
}

impl Quotas {
    pub(crate) fn new(user: Bounds, address: Bounds, window: Duration) -> Self {
        Self {
            users: Ledger::new(user, window),
            addresses: Ledger::new(address, window),
        }
    }

    /// A transfer begins.
    pub(crate) fn begin(&self, user: &str, address: IpAddr) -> Result<Transfer, Over> {
        let now = Instant::now();
        Ok(Transfer {
            user: self.users.begin(user.to_owned(), now)?,
            address: self.addresses.begin(network(address), now)?,
            ahead: 0,
        })
    }
}

impl Addresses {
    pub(crate) fn new(at_once: usize) -> Self {
        let bounds = Bounds {
            at_once,
            bytes: u64::MAX,
        };
        Self(Ledger::new(bounds, Duration::ZERO))
    }

    /// A connection begins.
    pub(crate) fn begin(&self, address: IpAddr) -> Result<Entry<IpAddr>, Over> {
        self.0.begin(network(address), Instant::now())
    }
}

impl Transfer {
    /// Whether so many bytes may come.
    pub(crate) fn expect(&self, bytes: u64) -> Result<(), Over> {
        self.count_all(bytes.max(UPLOAD_BYTES_MIN), false)
    }

    /// It is let in: from now on it counts.
    pub(crate) fn admit(&mut self) -> Result<(), Over> {
        self.count_all(UPLOAD_BYTES_MIN, true)?;
        self.ahead = UPLOAD_BYTES_MIN;
        Ok(())
    }

    /// So many bytes came.
    pub(crate) fn count(&mut self, bytes: u64) -> Result<(), Over> {
        let counted = bytes.min(self.ahead);
        self.ahead -= counted;
        self.count_all(bytes - counted, true)
    }

    fn count_all(&self, bytes: u64, really: bool) -> Result<(), Over> {
        let now = Instant::now();
        self.user.count(bytes, really, now)?;
        self.address.count(bytes, really, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;

    fn quotas(window: Duration) -> Quotas {
        let user = Bounds {
            at_once: 2,
            bytes: 100_000,
        };
        let address = Bounds {
            at_once: 3,
            bytes: 150_000,
        };
        Quotas::new(user, address, window)
    }

    #[test]
    fn users_and_addresses_have_bounds_of_their_own() {
        let quotas = quotas(Duration::from_secs(60));
        let here = IpAddr::from([127, 0, 0, 1]);
        let mut one = quotas.begin("ada", here).expect("admitted");
        let mut two = quotas.begin("ada", here).expect("admitted");
        assert_eq!(quotas.begin("ada", here).err(), Some(Over::AtOnce));
        let mut bob = quotas.begin("bob", here).expect("admitted");
        assert_eq!(quotas.begin("eve", here).err(), Some(Over::AtOnce));
        assert!(one.count(60_000).is_ok() && two.expect(40_001).is_err());
        let over = two.count(40_001);
        assert!(matches!(over, Err(Over::Bytes(seconds)) if (59..=61).contains(&seconds)));
        assert!(bob.count(90_000).is_ok());
        assert!(matches!(two.count(1), Err(Over::Bytes(_))), "the address");
        drop(bob);
        assert!(quotas.begin("eve", here).is_ok());
    }

    #[test]
    fn small_uploads_count_as_if_they_were_not() {
        let quotas = quotas(Duration::from_secs(60));
        let here = IpAddr::from([127, 0, 0, 1]);
        let mut one = quotas.begin("ada", here).expect("begun");
        one.admit().expect("admitted");
        // It was counted when it was let in.
        one.count(UPLOAD_BYTES_MIN).expect("room");
        let mut two = quotas.begin("ada", here).expect("begun");
        assert!(matches!(two.expect(1), Err(Over::Bytes(_))));
        assert!(matches!(two.admit(), Err(Over::Bytes(_))));
        one.count(100_000 - UPLOAD_BYTES_MIN).expect("room");
        assert!(matches!(one.count(1), Err(Over::Bytes(_))));
    }

    #[test]
    fn an_address_without_connections_is_forgotten() {
        let addresses = Addresses::new(2);
        let at = |last| IpAddr::from([10, 0, 0, last]);
        let held = [1, 1, 2].map(|last| addresses.begin(at(last)).expect("a place"));
        assert_eq!(addresses.begin(at(1)).err(), Some(Over::AtOnce));
        assert!(addresses.begin(at(3)).is_ok());
        addresses.0.with(|accounts| assert_eq!(accounts.len(), 2));
        drop(held);
        addresses.0.with(|accounts| assert!(accounts.is_empty()));
    }

    #[test]
    fn a_customer_of_ipv6_is_one_address() {
        let quotas = quotas(Duration::from_secs(60));
        let at = |last| IpAddr::from(Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, last));
        let all: Vec<_> = (0..3)
            .map(|n| quotas.begin(&n.to_string(), at(n)).expect("admitted"))
            .collect();
        assert_eq!(quotas.begin("x", at(9)).err(), Some(Over::AtOnce));
        drop(all);
    }

    #[test]
    fn a_window_ends() {
        let quotas = quotas(Duration::ZERO);
        let mut one = quotas
            .begin("ada", IpAddr::from([10, 0, 0, 1]))
            .expect("admitted");
        for _ in 0..5 {
            one.count(100_000).expect("another window");
        }
    }
}
