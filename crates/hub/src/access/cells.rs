//! Limiter states of users and addresses in a table of fixed size.

use crate::books::config::{Rate, Rates};
use crate::books::metrics::Scope;
use foldhash::SharedSeed;
use foldhash::fast::FoldHasher;
use handoff::Limiters;
use handoff::bounds::{STATES_OF_PAGE, TABLE_PAGES_MAX};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU64, Ordering};

/// Cells of the shared table: two MiB.
const CELLS: usize = 1 << 18;
const _: () = assert!(CELLS == STATES_OF_PAGE * TABLE_PAGES_MAX as usize);
/// Cells of one key.
const WAYS: usize = 4;

/// Limiter states of users and addresses, over all shards. The table has a fixed size and no entries to add or forget. A key has
/// four cells. Other keys can only push a cell forward, so the earliest of the four times bounds the key's own from above. A key that
/// shares all four with busy ones may be held to what these leave of its rate.
#[derive(Debug)]
pub struct Shared {
    cells: Vec<AtomicU64>,
    /// Keeps secret which keys share a cell.
    seed: [u64; 2],
    /// Made of the second number.
    mixed: SharedSeed,
    /// A state counts for so long, at most.
    span_us: u64,
    terms: u64,
}

impl Default for Shared {
    fn default() -> Self {
        Self::new(&Rates::default())
    }
}

impl Shared {
    /// A table, empty if no rate needs one.
    pub fn new(rates: &Rates) -> Self {
        let dice = RandomState::new();
        Self::seeded(rates, [dice.hash_one(1), dice.hash_one(2)])
    }

    /// A table with the places of another process.
    pub(crate) fn seeded(rates: &Rates, seed: [u64; 2]) -> Self {
        let all = [rates.user, rates.address, rates.connects];
        let needed = all.iter().any(Option::is_some);
        let longest = all.iter().flatten().map(|rate| rate.per).max();
        let mut own = Self {
            cells: (0..CELLS * usize::from(needed))
                .map(|_| AtomicU64::new(0))
                .collect(),
            seed,
            mixed: SharedSeed::from_u64(seed[1]),
            // A state is at most two windows ahead (`Gcra::owe`).
            span_us: 2 * longest.unwrap_or_default().as_micros() as u64,
            terms: 0,
        };
        own.terms = own.agreed(all);
        own
    }

    /// A number that another process has as well if it has the same rates and finds the same places.
    fn agreed(&self, rates: [Option<Rate>; 3]) -> u64 {
        let mut hasher = self.hasher();
        for rate in rates {
            let told = rate.map(|rate| (rate.events, rate.per.as_micros() as u64, rate.fixed));
            told.hash(&mut hasher);
        }
        // A build that hashes in another way finds these at other places.
        let places = [
            self.place(Scope::User, "a name of a user"),
            self.place(Scope::Address, IpAddr::from(Ipv4Addr::LOCALHOST)),
            self.place(Scope::Connects, IpAddr::from(Ipv6Addr::LOCALHOST)),
            self.place_of_key((1, 2)),
        ];
        places.hash(&mut hasher);
        hasher.finish()
    }

    #[inline]
    fn hasher(&self) -> FoldHasher<'_> {
        FoldHasher::with_seed(self.seed[0], &self.mixed)
    }

    /// The place of the state of a user or an address with one of the rates.
    pub(crate) fn place(&self, scope: Scope, key: impl Hash) -> u64 {
        let mut hasher = self.hasher();
        (scope as u8, key).hash(&mut hasher);
        hasher.finish()
    }

    /// The place of the state of a key of a limit that nodes share.
    pub(crate) fn place_of_key(&self, key: (u8, u64)) -> u64 {
        let mut hasher = self.hasher();
        key.hash(&mut hasher);
        hasher.finish()
    }

    /// The state at a place.
    pub(crate) fn read(&self, place: u64) -> u64 {
        let cells = cells_of(place).filter_map(|at| self.cells.get(at));
        let times = cells.map(|cell| cell.load(Ordering::Relaxed));
        times.min().unwrap_or(0)
    }

    /// From now on there is this state, or a later one.
    pub(crate) fn write(&self, place: u64, state_us: u64) {
        for cell in cells_of(place).filter_map(|at| self.cells.get(at)) {
            if cell.load(Ordering::Relaxed) < state_us {
                cell.store(state_us, Ordering::Relaxed);
            }
        }
    }

    /// The seed by which another process finds the same places.
    pub fn seed(&self) -> [u64; 2] {
        self.seed
    }

    /// What it has, for another process. Pages on which nothing counts any more are left out.
    pub(crate) fn pages(&self, now_us: u64) -> Vec<Limiters> {
        let counts =
            |state_us: &u64| *state_us > 0 && state_us.saturating_add(self.span_us) > now_us;
        let page = |(page, cells): (u32, &[AtomicU64])| {
            let states = cells.iter().map(|cell| cell.load(Ordering::Relaxed));
            let states_us: Vec<u64> = states.collect();
            states_us.iter().any(counts).then_some(Limiters {
                terms: self.terms,
                page,
                states_us,
            })
        };
        let pages = (0..).zip(self.cells.chunks(STATES_OF_PAGE));
        pages.filter_map(page).collect()
    }

    /// Takes in what another process had. It means nothing here if the rates or the places differ.
    pub(crate) fn take(&self, page: &Limiters, now_us: u64) {
        if page.terms != self.terms {
            return;
        }
        let first = page.page as usize * STATES_OF_PAGE;
        let latest = now_us.saturating_add(self.span_us);
        let cells = self.cells.iter().skip(first).zip(&page.states_us);
        for (cell, state_us) in cells {
            // No state from elsewhere is believed that this table could not have made.
            cell.store((*state_us).min(latest), Ordering::Relaxed);
        }
    }
}

/// Where in the table a key's states are.
fn cells_of(place: u64) -> impl Iterator<Item = usize> {
    // Double hashing: an odd step visits four different cells.
    let (start, step) = (place as usize, (place >> 32) as usize | 1);
    (0..WAYS).map(move |n| start.wrapping_add(step * n) % CELLS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const NOW_US: u64 = 10_000_000;

    fn rates(events: u32) -> Rates {
        Rates {
            user: Some(Rate::new(events, Duration::from_secs(60))),
            ..Rates::default()
        }
    }

    fn table(events: u32) -> Shared {
        let table = Shared::new(&rates(events));
        for user in 0..2_000 {
            table.write(table.place(Scope::User, user), NOW_US + user);
        }
        table
    }

    #[test]
    fn another_process_with_the_same_seed_finds_every_state() {
        let before = table(5);
        let after = Shared::seeded(&rates(5), before.seed());
        for page in before.pages(NOW_US) {
            after.take(&page, NOW_US);
        }
        for user in 0..2_000 {
            let place = after.place(Scope::User, user);
            assert_eq!(after.read(place), before.read(place));
        }
    }

    #[test]
    fn other_rates_and_other_places_begin_anew() {
        let before = table(5);
        for after in [
            Shared::seeded(&rates(6), before.seed()),
            Shared::new(&rates(5)),
        ] {
            let pages = before.pages(NOW_US);
            assert!(!pages.is_empty());
            pages.iter().for_each(|page| after.take(page, NOW_US));
            let seen = (0..2_000).map(|user| after.read(after.place(Scope::User, user)));
            assert_eq!(seen.max(), Some(0));
        }
    }

    #[test]
    fn what_counts_no_more_stays_and_nobody_owes_for_ever() {
        let table = table(5);
        assert!(table.pages(NOW_US + 200_000_000).is_empty());
        let mut pages = table.pages(NOW_US);
        for page in &mut pages {
            page.states_us.fill(1 << 60);
            table.take(page, NOW_US);
        }
        let place = table.place(Scope::User, 1);
        assert_eq!(table.read(place), NOW_US + 120_000_000);
        assert!(Shared::new(&Rates::default()).pages(NOW_US).is_empty());
    }
}
