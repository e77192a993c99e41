//! Limits that all nodes keep together: this node's share of each budget, and what it uses of it. The shares are made elsewhere, by an
//! exchange with the other nodes, and only looked up here. Keys far from their limit have no entry: each node may use the rest share of
//! them. One that has used half of that is marked.

use crate::access::addresses::{Addresses, holder};
use crate::access::cells::Shared;
use crate::access::gcra::Gcra;
use crate::books::config::Config;
use crate::tables::sip::sip;
use crossbeam_queue::ArrayQueue;
use foldhash::fast::RandomState;
use papaya::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, OnceLock};

/// Kinds of budgets.
pub const KINDS: usize = 8;
/// Marks that wait for the next exchange, and places to remember that a key was marked: both forget when there are too many.
const MARKS: usize = 4_096;

const CONNS: u8 = 0;
const CONNECTS: u8 = 2;
const ADDRESS: u8 = 4;
const USER: u8 = 6;

/// The kind of a limit, and its holder. Addresses of IPv4 and IPv6 are kinds of their own, so that each has its own number.
pub type Key = (u8, u64);

/// One kind of budget.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    /// 0: each node has its own.
    budget: u32,
    /// The limiter of a rate.
    gcra: Option<Gcra>,
}

/// This node's share of a key that is near its limit.
#[derive(Debug, Default)]
pub(crate) struct Share {
    share: AtomicU32,
    refused: AtomicU32,
    /// State of the limiter, if it is a rate's, in terms of the share.
    pub(crate) state_us: AtomicU64,
}

impl Share {
    pub(crate) fn get(&self) -> u32 {
        self.share.load(Ordering::Relaxed)
    }

    fn set(&self, share: u32) {
        self.share.store(share, Ordering::Release);
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Changes the state from what it was when it was read; `next` makes it anew of what another thread has written meanwhile. A state
    /// that is rescaled is read with its share or a later one.
    pub(crate) fn change(&self, next: impl Fn(u64) -> u64) {
        let update = |state_us| Some(next(state_us));
        let _ = self
            .state_us
            .fetch_update(Ordering::Release, Ordering::Acquire, update);
    }

    /// Books events in terms of the share as it is now: it may have moved since the booking began.
    pub(crate) fn owe(&self, gcra: Gcra, now_us: u64, events: u8) {
        self.change(|mut state_us| {
            gcra.of_share(self.get()).owe(&mut state_us, now_us, events);
            state_us
        });
    }
}

/// Wakes the exchange.
struct Wake(Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

/// The shares of this node.
#[derive(Debug)]
pub struct Budgets {
    kinds: [Kind; KINDS],
    rest: [AtomicU32; KINDS],
    shares: HashMap<Key, Arc<Share>, RandomState>,
    marks: ArrayQueue<Key>,
    marked: Box<[AtomicU64]>,
    wake: OnceLock<Wake>,
    /// The key by which users become numbers.
    secret: [u64; 2],
    addresses: Arc<Addresses>,
    meters: Arc<Shared>,
    /// This process goes on with the shares of the one before.
    goes_on: AtomicBool,
}

impl Budgets {
    /// `None`: each node has its own limits.
    pub(crate) fn new(
        config: &Config,
        addresses: &Arc<Addresses>,
        meters: &Arc<Shared>,
    ) -> Option<Self> {
        let (scope, rates) = (&config.cluster_scope, &config.rates);
        let conns = Kind {
            budget: match scope.conns_per_address {
                true => config.limits.conns_per_address_max,
                false => 0,
            },
            gcra: None,
        };
        let flow = |is_shared: bool, rate: Option<crate::books::config::Rate>| {
            let rate = rate.filter(|_| is_shared);
            rate.map_or_else(Kind::default, |rate| Kind {
                budget: rate.events.max(1),
                gcra: Some(Gcra::new(rate)),
            })
        };
        let connects = flow(scope.connects, rates.connects);
        let address = flow(scope.address, rates.address);
        let user = flow(scope.user, rates.user);
        // Addresses have two kinds each, IPv4 and IPv6; users have one, and the last kind stays empty.
        let kinds = [conns, conns, connects, connects, address, address, user];
        let kinds: [Kind; KINDS] =
            std::array::from_fn(|at| kinds.get(at).copied().unwrap_or_default());
        kinds.iter().any(|kind| kind.budget > 0).then(|| Self {
            rest: kinds.map(|kind| AtomicU32::new(kind.budget)),
            kinds,
            shares: HashMap::with_hasher(RandomState::default()),
            marks: ArrayQueue::new(MARKS),
            marked: (0..MARKS).map(|_| AtomicU64::new(0)).collect(),
            wake: OnceLock::new(),
            secret: scope.secret,
            addresses: Arc::clone(addresses),
            meters: Arc::clone(meters),
            goes_on: AtomicBool::new(false),
        })
    }

    /// The budget of each kind (0: nodes do not share it), and whether what was used comes back with time.
    pub fn kinds(&self) -> [(u32, bool); KINDS] {
        self.kinds.map(|kind| (kind.budget, kind.gcra.is_some()))
    }

    // ---- for the shards -----------------------------------------------------------------------------------------------------

    /// The number of connections that this node may have of an address. `count`: it has so many now. `None`: nodes do not share that limit.
    pub(crate) fn conns_of(&self, address: IpAddr, count: u32) -> Option<u32> {
        let key = of_address(CONNS, address);
        self.is_shared(key.0).then(|| {
            let named = self.named(key);
            let share = named
                .as_ref()
                .map_or_else(|| self.rest(key.0), |named| named.get());
            match named {
                Some(named) if count > share => named.refuse(),
                Some(_) => {}
                // Nodes divide a limit anew only for keys that have used half of their part (ADR 34).
                None if u64::from(count) * 2 > u64::from(share) => self.mark(key),
                None => {}
            }
            share
        })
    }

    /// The key of an address with the rate of new sessions.
    pub(crate) fn connects_key(&self, address: IpAddr) -> Option<Key> {
        Some(of_address(CONNECTS, address)).filter(|key| self.is_shared(key.0))
    }

    /// The key of an address with the rate of messages.
    pub(crate) fn address_key(&self, address: IpAddr) -> Option<Key> {
        Some(of_address(ADDRESS, address)).filter(|key| self.is_shared(key.0))
    }

    /// The key of a user with the rate of messages.
    pub(crate) fn user_key(&self, user: &str) -> Option<Key> {
        let is_shared = self.is_shared(USER);
        is_shared.then(|| (USER, sip(self.secret, user.as_bytes())))
    }

    fn is_shared(&self, kind: u8) -> bool {
        self.kinds[usize::from(kind)].budget > 0
    }

    pub(crate) fn named(&self, key: Key) -> Option<Arc<Share>> {
        self.shares.pin().get(&key).cloned()
    }

    /// So many events were booked of the rest share. The key's own share that came meanwhile, if one did, knows nothing of them.
    pub(crate) fn booked_of_rest(&self, key: Key, now_us: u64, events: u8) {
        fence(Ordering::SeqCst);
        if let Some((gcra, named)) = self.kind(key).gcra.zip(self.named(key)) {
            named.owe(gcra, now_us, events);
        }
    }

    pub(crate) fn rest(&self, kind: u8) -> u32 {
        let rest = self.rest.get(usize::from(kind));
        rest.map_or(0, |rest| rest.load(Ordering::Relaxed))
    }

    /// A key has used half of the rest share. One that stays so is marked once until the next exchange.
    #[cold]
    pub(crate) fn mark(&self, key: Key) {
        let number = key.1 ^ u64::from(key.0 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let place = number.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 32;
        let place = &self.marked[place as usize % MARKS];
        // Keys that share a place push each other out: they are marked more often than they need.
        if place.swap(number, Ordering::Relaxed) != number
            && self.marks.push(key).is_ok()
            && let Some(Wake(wake)) = self.wake.get()
        {
            wake();
        }
    }

    // ---- for the exchange ---------------------------------------------------------------------------------------------------

    /// `wake` is called when a key was marked. Only the first `wake` counts.
    pub fn on_mark(&self, wake: Box<dyn Fn() + Send + Sync>) {
        let _ = self.wake.set(Wake(wake));
    }

    /// Keys that were marked since.
    pub fn take_marks(&self) -> Vec<Key> {
        let marks: Vec<Key> = std::iter::from_fn(|| self.marks.pop())
            // Shards go on marking while this reads.
            .take(MARKS)
            .collect();
        if !marks.is_empty() {
            let marked = self.marked.iter();
            // A key that stays busy is marked again for the next exchange.
            marked.for_each(|place| place.store(0, Ordering::Relaxed));
        }
        marks
    }

    /// The use of a key, and the number of refusals since this was asked last.
    pub fn usage(&self, key: Key, now_us: u64) -> (u32, u32) {
        let named = self.named(key);
        let refused = named
            .as_ref()
            .map_or(0, |named| named.refused.swap(0, Ordering::Relaxed));
        let used = match self.kind(key).gcra {
            None => address_of(key).map_or(0, |address| self.addresses.count(address)),
            Some(gcra) => {
                let (share, state_us) = self.limiter(key, named.as_deref());
                gcra.of_share(share).used(state_us, now_us)
            }
        };
        (used, refused)
    }

    /// Addresses with more connections than that.
    pub fn crowded(&self, kind: u8, used: u32, most: usize) -> Vec<Key> {
        if kind > CONNS + 1 {
            return Vec::new();
        }
        let above = self.addresses.above(used);
        let keys = above.into_iter().map(|address| of_address(CONNS, address));
        keys.filter(|key| key.0 == kind).take(most).collect()
    }

    /// From now on this node may use so much of a key.
    pub fn set_share(&self, key: Key, share: u32, now_us: u64) {
        let known = self.named(key);
        // A key that gets its first share goes on from what it used of the rest share.
        let (before, state_us) = self.limiter(key, known.as_deref());
        let named = known.unwrap_or_else(|| {
            let named = Arc::new(Share {
                share: AtomicU32::new(before),
                refused: AtomicU32::new(0),
                state_us: AtomicU64::new(state_us),
            });
            self.shares.pin().insert(key, Arc::clone(&named));
            if let Some(gcra) = self.kind(key).gcra {
                // A shard that booked meanwhile has seen the entry, or this sees its booking (`booked_of_rest`). If it is both, it counts twice.
                fence(Ordering::SeqCst);
                let (_, later_us) = self.limiter(key, None);
                let used = |state_us| gcra.of_share(before).used(state_us, now_us);
                let mut missed = used(later_us).saturating_sub(used(state_us));
                while missed > 0 {
                    let lot = u8::try_from(missed).unwrap_or(u8::MAX);
                    named.owe(gcra, now_us, lot);
                    missed -= u32::from(lot);
                }
            }
            named
        });
        // The state holds as many events as before, so a share that moves brings no second burst (ADR 34).
        let rescale = || {
            if let Some(gcra) = self.kind(key).gcra {
                named.change(|state_us| gcra.rescaled(state_us, now_us, (before, share)));
            }
        };
        // Between the two steps a shard books in terms of the smaller share: an event counts as one or more, and never as less.
        if share < before {
            named.set(share);
            rescale();
        } else {
            rescale();
            named.set(share);
        }
    }

    /// Nobody names a key any more: the rest share counts.
    pub fn forget(&self, key: Key, now_us: u64) {
        let named = self.shares.pin().remove(&key).cloned();
        if let Some((gcra, named)) = self.kind(key).gcra.zip(named) {
            let state_us = named.state_us.load(Ordering::Relaxed);
            let state_us = gcra.rescaled(state_us, now_us, (named.get(), self.rest(key.0)));
            // What was used of the share counts on, as used of the rest share.
            self.meters.write(self.meters.place_of_key(key), state_us);
        }
    }

    /// The keys that have a share of their own, with the share and the limiter's state: another process goes on as this node.
    pub fn named_shares(&self) -> Vec<(Key, u32, u64)> {
        let shares = self.shares.pin();
        let all = shares.iter().map(|(key, named)| {
            let state_us = named.state_us.load(Ordering::Relaxed);
            (*key, named.get(), state_us)
        });
        all.collect()
    }

    /// What this node may use of a key without a share of its own, for each kind that nodes share.
    pub fn rests(&self) -> Vec<(u8, u32)> {
        let kinds = (0..).zip(&self.kinds).filter(|(_, kind)| kind.budget > 0);
        kinds.map(|(kind, _)| (kind, self.rest(kind))).collect()
    }

    /// The process before had these shares, and other nodes take them for this one's.
    pub fn goes_on(&self) -> bool {
        self.goes_on.load(Ordering::Relaxed)
    }

    /// This node had so much of keys without a share of their own in the process before.
    pub(crate) fn go_on_with_rest(&self, kind: u8, share: u32) {
        let budget = self.kind((kind, 0)).budget;
        self.set_rest(kind, share.min(budget));
        self.goes_on.store(true, Ordering::Relaxed);
    }

    /// This node had such a share in the process before.
    pub(crate) fn go_on_with(&self, key: Key, share: u32, state_us: u64, now_us: u64) {
        let kind = self.kind(key);
        if kind.budget == 0 {
            return;
        }
        // The budget may be smaller than it was in that process.
        let share = share.min(kind.budget);
        let gcra = kind.gcra.map(|gcra| gcra.of_share(share));
        let named = Share {
            share: AtomicU32::new(share),
            refused: AtomicU32::new(0),
            state_us: AtomicU64::new(gcra.map_or(0, |gcra| gcra.believed(state_us, now_us))),
        };
        self.shares.pin().insert(key, Arc::new(named));
    }

    /// This node may use so much of each key of a kind that has no share of its own.
    pub fn set_rest(&self, kind: u8, share: u32) {
        if let Some(rest) = self.rest.get(usize::from(kind)) {
            rest.store(share, Ordering::Relaxed);
        }
    }

    fn kind(&self, key: Key) -> Kind {
        self.kinds
            .get(usize::from(key.0))
            .copied()
            .unwrap_or_default()
    }

    /// The share that counts for a key, and the state of its limiter.
    fn limiter(&self, key: Key, named: Option<&Share>) -> (u32, u64) {
        match named {
            Some(named) => (named.get(), named.state_us.load(Ordering::Relaxed)),
            None => {
                let state_us = self
                    .kind(key)
                    .gcra
                    .map_or(0, |_| self.meters.read(self.meters.place_of_key(key)));
                (self.rest(key.0), state_us)
            }
        }
    }
}

/// A key of an address, or of all that count as one with it.
fn of_address(kind: u8, address: IpAddr) -> Key {
    match holder(address) {
        IpAddr::V4(address) => (kind, u64::from(u32::from(address))),
        // A /64 counts as one address.
        IpAddr::V6(address) => (kind + 1, (u128::from(address) >> 64) as u64),
    }
}

/// The address of a key; `None`: it is no address's.
fn address_of((kind, number): Key) -> Option<IpAddr> {
    match kind {
        USER.. => None,
        kind if kind % 2 == 0 => Some(Ipv4Addr::from(u32::try_from(number).ok()?).into()),
        _ => Some(Ipv6Addr::from(u128::from(number) << 64).into()),
    }
}

#[cfg(test)]
#[path = "budgets_tests.rs"]
mod tests;
