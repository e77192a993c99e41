//! Rate limits: GCRA, eight bytes of state per limiter and no timer. State is the "theoretical arrival time" of the next event.

use crate::config::{Rate, Rates};
use crate::metrics::Scope;
use foldhash::fast::RandomState;
use std::fmt::Write;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One limit, prepared: an event costs `interval`, up to `burst` of them may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    interval_us: u64,
    tolerance_us: u64,
}

impl Gcra {
    pub(crate) fn new(rate: Rate) -> Self {
        let per_us = rate.per.as_micros() as u64;
        let interval_us = (per_us / u64::from(rate.events.max(1))).max(1);
        Self {
            interval_us,
            tolerance_us: per_us.saturating_sub(interval_us),
        }
    }

    /// Lets one event pass, or says how many microseconds to wait.
    pub(crate) fn check(self, state_us: &mut u64, now_us: u64) -> Result<(), u64> {
        self.check_lot(state_us, now_us, 1)
    }

    /// The same for several events at once; `lot` >= 1.
    fn check_lot(self, state_us: &mut u64, now_us: u64, lot: u64) -> Result<(), u64> {
        let due = (*state_us).max(now_us);
        let ahead = due - now_us + self.interval_us * (lot - 1);
        if ahead > self.tolerance_us {
            return Err(ahead - self.tolerance_us);
        }
        *state_us = due + self.interval_us * lot;
        Ok(())
    }
}

/// A limit and what those hear who pass it.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pub(crate) gcra: Gcra,
    /// `Rate limit exceeded: 10 messages/second`
    pub(crate) message: String,
    pub(crate) retry_after_s: u64,
}

impl Meter {
    pub(crate) fn new(rate: Rate) -> Self {
        let seconds = rate.per.as_secs();
        let mut message = format!("Rate limit exceeded: {} messages/", rate.events);
        let _ = match seconds {
            1 => write!(message, "second"),
            _ => write!(message, "{seconds} seconds"),
        };
        Self {
            gcra: Gcra::new(rate),
            message,
            retry_after_s: seconds.max(1),
        }
    }
}

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

    /// Lets one event of that key pass, or not. Two shards may do so within the same nanoseconds for what only one had left, and
    /// one of their bookings be lost: an exact count would cost more than it is worth here.
    fn passes(&self, key: impl Hash, gcra: Gcra, now_us: u64, lot: u64) -> bool {
        let hash = self.hasher.hash_one(key);
        // Double hashing: an odd step visits four different cells.
        let (start, step) = (hash as usize, (hash >> 32) as usize | 1);
        let own = |n: usize| self.cells.get(start.wrapping_add(step * n) % CELLS);
        let times = (0..WAYS).filter_map(own);
        let Some(mut state_us) = times.map(|cell| cell.load(Ordering::Relaxed)).min() else {
            return true;
        };
        if gcra.check_lot(&mut state_us, now_us, lot).is_err() {
            return false;
        }
        for cell in (0..WAYS).filter_map(own) {
            if cell.load(Ordering::Relaxed) < state_us {
                cell.store(state_us, Ordering::Relaxed);
            }
        }
        true
    }
}

/// The rates that hold for all messages (C3), prepared.
#[derive(Debug)]
pub(crate) struct Meters {
    pub(crate) session: Option<Meter>,
    pub(crate) user: Option<Meter>,
    pub(crate) address: Option<Meter>,
    pub(crate) connects: Option<Meter>,
    pub(crate) dry_run: bool,
    /// Some rate holds for messages.
    pub(crate) any: bool,
    /// Messages of a session that are booked with its user and address at a time: the table is further away than the session,
    /// and what is left of a large rate need not be known to the last message.
    pub(crate) lot: u8,
    shared: Arc<Shared>,
}

impl Meters {
    pub(crate) fn new(rates: &Rates, shared: Arc<Shared>) -> Self {
        Self {
            session: rates.session.map(Meter::new),
            user: rates.user.map(Meter::new),
            address: rates.address.map(Meter::new),
            connects: rates.connects.map(Meter::new),
            dry_run: rates.dry_run,
            lot: lot(rates),
            any: rates.session.is_some() || rates.user.is_some() || rates.address.is_some(),
            shared,
        }
    }

    /// Books some events of a user or an address.
    pub(crate) fn passes(&self, scope: Scope, key: impl Hash, now_us: u64, lot: u8) -> bool {
        let meter = match scope {
            Scope::User => &self.user,
            Scope::Address => &self.address,
            Scope::Connects => &self.connects,
            Scope::Session | Scope::Event => return true,
        };
        let Some(meter) = meter else { return true };
        self.shared
            .passes((scope as u8, key), meter.gcra, now_us, u64::from(lot))
    }
}

/// At most one part in 256 of the smaller rate.
fn lot(rates: &Rates) -> u8 {
    const LOT_MAX: u32 = 16;
    let rates = [rates.user, rates.address].into_iter().flatten();
    let smallest = rates.map(|rate| rate.events).min().unwrap_or(0);
    (smallest / 256).clamp(1, LOT_MAX) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ten_at_once_then_one_every_hundred_milliseconds() {
        let gcra = Gcra::new(Rate {
            events: 10,
            per: Duration::from_secs(1),
        });
        let (mut state, now) = (0, 5_000_000);
        for _ in 0..10 {
            assert_eq!(gcra.check(&mut state, now), Ok(()));
        }
        assert_eq!(gcra.check(&mut state, now), Err(100_000));
        assert_eq!(gcra.check(&mut state, now + 100_000), Ok(()));
        assert!(gcra.check(&mut state, now + 100_000).is_err());
    }

    #[test]
    fn keys_of_the_shared_table_have_their_own_rates() {
        let rate = Rate {
            events: 5,
            per: Duration::from_secs(1),
        };
        let rates = Rates {
            user: Some(rate),
            ..Rates::default()
        };
        let meters = Meters::new(&rates, Arc::new(Shared::new(&rates)));
        for user in 0..500 {
            let passed = (0..10).filter(|_| meters.passes(Scope::User, user, 1_000_000, 1));
            assert_eq!(passed.count(), 5, "user {user}");
        }
        assert!(meters.passes(Scope::User, 1, 1_200_000, 1));
        assert!(
            meters.passes(Scope::Address, 1, 1_000_000, 1),
            "no rate, no limit"
        );
    }

    #[test]
    fn windows_read_as_people_say_them() {
        let meter = |events, seconds| {
            Meter::new(Rate {
                events,
                per: Duration::from_secs(seconds),
            })
        };
        assert_eq!(
            meter(10, 1).message,
            "Rate limit exceeded: 10 messages/second"
        );
        assert_eq!(
            meter(100, 60).message,
            "Rate limit exceeded: 100 messages/60 seconds"
        );
        assert_eq!(meter(100, 60).retry_after_s, 60);
    }
}
