//! Limiter states of users and addresses in a table of fixed size.

use crate::books::config::Rates;
use crate::books::metrics::Scope;
use foldhash::fast::RandomState;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicU64, Ordering};

/// Cells of the shared table: two MiB.
const CELLS: usize = 1 << 18;
/// Cells of one key.
const WAYS: usize = 4;

/// Limiter states of users and addresses, over all shards. The table has a fixed size and no entries to add or forget: a key
/// has four cells, and the earliest of their times bounds its own from above, since others can only push cells forward. Who
/// shares all four with others who are busy may be held to what these left of the rate.
#[derive(Debug, Default)]
pub struct Shared {
    cells: Vec<AtomicU64>,
    /// Seeded, and fast: what shares a cell with what cannot be seen from outside.
    hasher: RandomState,
}

impl Shared {
    /// A table, empty if no rate needs one.
    pub fn new(rates: &Rates) -> Self {
        let needed = rates.user.is_some() || rates.address.is_some() || rates.connects.is_some();
        Self {
            cells: (0..CELLS * usize::from(needed))
                .map(|_| AtomicU64::new(0))
                .collect(),
            hasher: RandomState::default(),
        }
    }

    /// The place of the state of a user or an address with one of the rates.
    pub(crate) fn place(&self, scope: Scope, key: impl Hash) -> u64 {
        self.hasher.hash_one((scope as u8, key))
    }

    /// The same for a key of a limit that nodes share.
    pub(crate) fn place_of_key(&self, key: (u8, u64)) -> u64 {
        self.hasher.hash_one(key)
    }

    /// The state at a place.
    pub(crate) fn read(&self, place: u64) -> u64 {
        let times = self.cells(place).map(|cell| cell.load(Ordering::Relaxed));
        times.min().unwrap_or(0)
    }

    /// From now on there is this state, or a later one.
    pub(crate) fn write(&self, place: u64, state_us: u64) {
        for cell in self.cells(place) {
            if cell.load(Ordering::Relaxed) < state_us {
                cell.store(state_us, Ordering::Relaxed);
            }
        }
    }

    fn cells(&self, place: u64) -> impl Iterator<Item = &AtomicU64> {
        // Double hashing: an odd step visits four different cells.
        let (start, step) = (place as usize, (place >> 32) as usize | 1);
        (0..WAYS).filter_map(move |n| self.cells.get(start.wrapping_add(step * n) % CELLS))
    }
}
