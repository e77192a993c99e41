//! Rate limits: GCRA, eight bytes of state per limiter and no timer. State is the "theoretical arrival time" of the next event.
//! A fixed window has as much: when it began, and how many events are in it.

use crate::books::config::{Rate, Rates};
use crate::books::metrics::Scope;
use foldhash::fast::RandomState;
use std::fmt::Write;
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One limit, prepared: an event costs `interval`, and the state may be `tolerance` ahead of now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gcra {
    interval_us: u64,
    tolerance_us: u64,
    per_us: u64,
    fixed: Option<Fixed>,
}

/// A fixed window begins with its first event. The state is its beginning, rounded down to the grid, and below that the events in it.
/// So a window may end early by less than the grid: 1 ms for 100 events, 1 s for a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fixed {
    events: u64,
    /// A power of two, above all numbers of events.
    grid_us: u64,
}

impl Fixed {
    fn new(rate: Rate) -> Self {
        let events = u64::from(rate.events.max(1));
        Self {
            events,
            // What passed before it was booked may lead a little beyond the limit.
            grid_us: (events + 2 * u64::from(u8::MAX)).next_power_of_two(),
        }
    }

    /// The window that an event of now falls in, and the events in it.
    fn window(self, state_us: u64, now_us: u64, per_us: u64) -> (u64, u64) {
        let (start_us, used) = (
            state_us & !(self.grid_us - 1),
            state_us & (self.grid_us - 1),
        );
        match used == 0 || now_us >= start_us + per_us {
            true => (now_us & !(self.grid_us - 1), 0),
            false => (start_us, used),
        }
    }

    fn book(self, (start_us, used): (u64, u64), events: u64) -> u64 {
        start_us | (used + events).min(self.grid_us - 1)
    }
}

/// A limit has nothing left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exceeded {
    /// Until it has something again.
    pub(crate) wait_us: u64,
}

impl Exceeded {
    /// The same in whole seconds, as clients are told: who waits so long gets in.
    pub(crate) fn retry_after_s(self) -> u64 {
        self.wait_us.div_ceil(1_000_000).max(1)
    }
}

impl Gcra {
    pub(crate) fn new(rate: Rate) -> Self {
        let per_us = rate.per.as_micros() as u64;
        let interval_us = (per_us / u64::from(rate.events.max(1))).max(1);
        Self {
            interval_us,
            tolerance_us: per_us.saturating_sub(interval_us),
            per_us: per_us.max(1),
            fixed: rate.fixed.then(|| Fixed::new(rate)),
        }
    }

    /// Whether one more event passes.
    fn room(self, state_us: u64, now_us: u64) -> Result<(), Exceeded> {
        let wait_us = match self.fixed {
            Some(fixed) => {
                let (start_us, used) = fixed.window(state_us, now_us, self.per_us);
                let left_us = (start_us + self.per_us).saturating_sub(now_us);
                if used < fixed.events { 0 } else { left_us }
            }
            None => (state_us.saturating_sub(now_us)).saturating_sub(self.tolerance_us),
        };
        match wait_us {
            0 => Ok(()),
            wait_us => Err(Exceeded { wait_us }),
        }
    }

    /// Lets one event pass, or says how long to wait.
    pub(crate) fn check(self, state_us: &mut u64, now_us: u64) -> Result<(), Exceeded> {
        self.room(*state_us, now_us)?;
        *state_us = match self.fixed {
            Some(fixed) => fixed.book(fixed.window(*state_us, now_us, self.per_us), 1),
            None => (*state_us).max(now_us) + self.interval_us,
        };
        Ok(())
    }

    /// Books events that have passed already. They may lead beyond the limit, but nobody owes more than a window.
    fn owe(self, state_us: &mut u64, now_us: u64, events: u8) {
        if events == 0 {
            return;
        }
        let due = match self.fixed {
            Some(fixed) => {
                let window = fixed.window(*state_us, now_us, self.per_us);
                fixed.book(window, u64::from(events))
            }
            None => {
                let due = (*state_us).max(now_us) + self.interval_us * u64::from(events);
                due.min(now_us + 2 * self.per_us)
            }
        };
        *state_us = due.max(*state_us);
    }

    /// More than half of the rate is left.
    fn has_plenty(self, state_us: u64, now_us: u64) -> bool {
        match self.fixed {
            Some(fixed) => fixed.window(state_us, now_us, self.per_us).1 < fixed.events / 2,
            None => state_us.saturating_sub(now_us) < self.per_us / 2,
        }
    }
}

/// A limit and what a client hears that passes it.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pub(crate) gcra: Gcra,
    /// `Rate limit exceeded: 10 messages/second`
    pub(crate) message: Arc<str>,
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
            message: message.into(),
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

    /// The account of a user or an address with one of the rates.
    fn account(&self, scope: Scope, key: impl Hash, gcra: Gcra) -> Account<'_> {
        let mut account = Account {
            shared: self,
            scope,
            gcra,
            hash: self.hasher.hash_one((scope as u8, key)),
            state_us: 0,
        };
        let times = account.cells().map(|cell| cell.load(Ordering::Relaxed));
        account.state_us = times.min().unwrap_or(0);
        account
    }
}

/// A limiter's state as it was found in the shared table, to be changed and written back. Two shards may do so within the same
/// nanoseconds for what only one had left, and one of their bookings be lost: an exact count would cost more than it is worth here.
struct Account<'a> {
    shared: &'a Shared,
    scope: Scope,
    gcra: Gcra,
    hash: u64,
    state_us: u64,
}

impl<'a> Account<'a> {
    fn cells(&self) -> impl Iterator<Item = &'a AtomicU64> + use<'a> {
        // Double hashing: an odd step visits four different cells.
        let (start, step) = (self.hash as usize, (self.hash >> 32) as usize | 1);
        let cells = &self.shared.cells;
        (0..WAYS).filter_map(move |n| cells.get(start.wrapping_add(step * n) % CELLS))
    }

    fn room(&self, now_us: u64) -> Result<(), Exceeded> {
        self.gcra.room(self.state_us, now_us)
    }

    fn has_plenty(&self, now_us: u64) -> bool {
        self.gcra.has_plenty(self.state_us, now_us)
    }

    fn owe(&mut self, now_us: u64, events: u8) {
        self.gcra.owe(&mut self.state_us, now_us, events);
    }

    fn write(&self) {
        for cell in self.cells() {
            if cell.load(Ordering::Relaxed) < self.state_us {
                cell.store(self.state_us, Ordering::Relaxed);
            }
        }
    }
}

/// Whose messages are booked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) user: Option<&'a str>,
    pub(crate) address: IpAddr,
}

/// The rates that hold for all messages, prepared.
#[derive(Debug)]
pub(crate) struct Meters {
    pub(crate) session: Option<Meter>,
    pub(crate) user: Option<Meter>,
    pub(crate) address: Option<Meter>,
    pub(crate) connects: Option<Meter>,
    pub(crate) dry_run: bool,
    /// Some rate holds for messages.
    pub(crate) any: bool,
    /// Messages of a session that are booked with its user and address at a time, at most: the table is further away than the
    /// session, and while much of a large rate is left it need not be known to the last message. 0 = there is no such rate.
    lot: u8,
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

    /// Users or addresses have rates.
    #[inline]
    pub(crate) fn are_shared(&self) -> bool {
        self.lot > 0
    }

    /// The limit on messages of that scope.
    pub(crate) fn of(&self, scope: Scope) -> Option<&Meter> {
        match scope {
            Scope::User => self.user.as_ref(),
            Scope::Address => self.address.as_ref(),
            Scope::Session => self.session.as_ref(),
            Scope::Connects | Scope::Event => None,
        }
    }

    /// A new session of an address, which passes or not.
    pub(crate) fn connect(&self, address: IpAddr, now_us: u64) -> Result<(), Exceeded> {
        let Some(meter) = &self.connects else {
            return Ok(());
        };
        let mut account = self.shared.account(Scope::Connects, address, meter.gcra);
        account.room(now_us)?;
        account.owe(now_us, 1);
        account.write();
        Ok(())
    }

    /// Books a message with all who have to answer for it, or with none, and in any case what its session owes for those before.
    /// Returns how many more the session may send before the next booking: none once half of a rate is gone, before that as many
    /// as it has paid for so far (1, 3, 7, 15), so that a crowd of short sessions is counted nearly as exactly as a single long one.
    pub(crate) fn book(
        &self,
        sender: Sender<'_>,
        now_us: u64,
        owed: u8,
    ) -> Result<u8, (Scope, Exceeded)> {
        let mut accounts = self.accounts(sender);
        let mut refused = None;
        for account in accounts.iter_mut().flatten() {
            account.owe(now_us, owed);
            if refused.is_none()
                && let Err(exceeded) = account.room(now_us)
            {
                refused = Some((account.scope, exceeded));
            }
        }
        if let Some(refused) = refused {
            if owed > 0 {
                accounts.iter().flatten().for_each(Account::write);
            }
            return Err(refused);
        }
        let mut plenty = true;
        for account in accounts.iter_mut().flatten() {
            account.owe(now_us, 1);
            account.write();
            plenty &= account.has_plenty(now_us);
        }
        let more = (2 * owed + 1).min(self.lot.saturating_sub(1));
        Ok(if plenty { more } else { 0 })
    }

    /// Books messages that have passed.
    pub(crate) fn owe(&self, sender: Sender<'_>, now_us: u64, owed: u8) {
        for account in self.accounts(sender).iter_mut().flatten() {
            account.owe(now_us, owed);
            account.write();
        }
    }

    fn accounts(&self, sender: Sender<'_>) -> [Option<Account<'_>>; 2] {
        let user = sender.user.zip(self.user.as_ref());
        let user = user.map(|(user, meter)| self.shared.account(Scope::User, user, meter.gcra));
        let address = self.address.as_ref();
        let address = address.map(|meter| {
            self.shared
                .account(Scope::Address, sender.address, meter.gcra)
        });
        [user, address]
    }
}

/// At most one part in 256 of the smaller rate.
fn lot(rates: &Rates) -> u8 {
    const LOT_MAX: u32 = 16;
    let rates = [rates.user, rates.address].into_iter().flatten();
    let smallest = rates.map(|rate| rate.events).min();
    smallest.map_or(0, |events| (events / 256).clamp(1, LOT_MAX) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn ten_at_once_then_one_every_hundred_milliseconds() {
        let gcra = Gcra::new(Rate::new(10, Duration::from_secs(1)));
        let (mut state, now) = (0, 5_000_000);
        for _ in 0..10 {
            assert_eq!(gcra.check(&mut state, now), Ok(()));
        }
        let wait_us = 100_000;
        assert_eq!(gcra.check(&mut state, now), Err(Exceeded { wait_us }));
        assert_eq!(gcra.check(&mut state, now + 100_000), Ok(()));
        assert!(gcra.check(&mut state, now + 100_000).is_err());
    }

    #[test]
    fn keys_of_the_shared_table_have_their_own_rates() {
        let rate = Rate::new(5, Duration::from_secs(1));
        let rates = Rates {
            user: Some(rate),
            ..Rates::default()
        };
        let meters = Meters::new(&rates, Arc::new(Shared::new(&rates)));
        let passes = |user: &str, now_us| meters.book(sender(Some(user)), now_us, 0).is_ok();
        for user in 0..500 {
            let user = format!("user {user}");
            let passed = (0..10).filter(|_| passes(&user, 1_000_000)).count();
            assert_eq!(passed, 5, "{user}");
        }
        assert!(passes("user 1", 1_200_000));
        assert!(
            meters.book(sender(None), 1_000_000, 0).is_ok(),
            "no user, no limit"
        );
    }

    fn sender(user: Option<&str>) -> Sender<'_> {
        Sender {
            user,
            address: [127, 0, 0, 1].into(),
        }
    }

    fn per_minute(events: u32) -> Option<Rate> {
        Some(Rate::new(events, Duration::from_secs(60)))
    }

    #[test]
    fn grants_grow_with_what_was_paid_and_end_at_half_of_the_rate() {
        let rates = Rates {
            user: per_minute(4_096),
            address: per_minute(8_192),
            ..Rates::default()
        };
        let meters = Meters::new(&rates, Arc::new(Shared::new(&rates)));
        let (mut owed, mut grants, mut passed) = (0, Vec::new(), 0);
        while let Ok(granted) = meters.book(sender(Some("ann")), 1_000_000, owed) {
            grants.push(granted);
            passed += 1 + u32::from(granted);
            owed = granted;
        }
        assert_eq!(grants[..6], [1, 3, 7, 15, 15, 15]);
        let exact = grants.iter().filter(|granted| **granted == 0).count();
        assert!((2_030..=2_048).contains(&exact), "{exact}");
        assert_eq!(passed, 4_096);
    }

    #[test]
    fn what_one_rate_refuses_costs_the_other_nothing() {
        let rates = Rates {
            user: per_minute(10),
            address: per_minute(20),
            ..Rates::default()
        };
        let meters = Meters::new(&rates, Arc::new(Shared::new(&rates)));
        let passed = |user| {
            let tries = (0..30).map(|_| meters.book(sender(Some(user)), 1_000_000, 0));
            tries.filter(Result::is_ok).count()
        };
        assert_eq!(passed("ann"), 10);
        assert_eq!(passed("bob"), 10, "ann's refused messages cost nobody");
        assert_eq!(passed("cleo"), 0, "the address has nothing left");
        // Nor did the address's refusals cost her.
        assert_eq!(
            (0..30)
                .filter(|n| meters.book(sender(Some("cleo")), 61_000_000 + n, 0).is_ok())
                .count(),
            10
        );
    }

    #[test]
    fn what_passed_is_owed_but_never_more_than_a_window() {
        let rates = Rates {
            address: per_minute(600),
            ..Rates::default()
        };
        let meters = Meters::new(&rates, Arc::new(Shared::new(&rates)));
        let booked = |now_s: u64| meters.book(sender(None), now_s * 1_000_000, 0);
        meters.owe(sender(None), 1_000_000, 200);
        assert_eq!((0..500).filter(|_| booked(1).is_ok()).count(), 400);
        // A refused message pays what was owed before it, once.
        let refused = meters.book(sender(None), 1_000_000, 10);
        assert_eq!(refused.map_err(|(scope, _)| scope), Err(Scope::Address));
        assert!(booked(2).is_err());
        assert!((0..10).all(|_| booked(3).is_ok()));
        assert!(booked(3).is_err());
        (0..100).for_each(|_| meters.owe(sender(None), 4_000_000, 200));
        assert!(booked(63).is_err());
        assert!(booked(65).is_ok());
    }

    #[test]
    fn windows_read_as_people_say_them() {
        let message = |events, seconds| {
            let meter = Meter::new(Rate::new(events, Duration::from_secs(seconds)));
            meter.message.to_string()
        };
        assert_eq!(message(10, 1), "Rate limit exceeded: 10 messages/second");
        assert_eq!(
            message(100, 60),
            "Rate limit exceeded: 100 messages/60 seconds"
        );
    }

    #[test]
    fn a_fixed_window_has_so_many_and_nothing_more_until_it_ends() {
        for events in [1, 7, 100, 1_000_000] {
            let gcra = Gcra::new(Rate::new(events, Duration::from_secs(60)).fixed());
            let (mut state, mut passed) = (0, 0);
            // A window ends early by less than its grid: about the time of some events, for a million of them a second.
            let slack_us = 512.max(2 * u64::from(events));
            // Evenly over the window, twice as many as pass: the first half does, and not one later.
            for n in 0..2 * u64::from(events) {
                let now_us = 600_000_000 + n * 30_000_000 / u64::from(events);
                if now_us >= 660_000_000 - slack_us {
                    break;
                }
                match gcra.check(&mut state, now_us) {
                    Ok(()) => passed += 1,
                    Err(Exceeded { wait_us }) => {
                        let until_us = now_us + wait_us;
                        assert!((660_000_000 - slack_us..=660_000_000).contains(&until_us));
                    }
                }
            }
            assert_eq!(passed, events);
            assert!(gcra.check(&mut state, 659_999_999 - slack_us).is_err());
            assert!(gcra.check(&mut state, 660_000_000).is_ok());
        }
    }

    /// A window was the clock's: its last moment and the first one of the next had twice as many.
    #[test]
    fn across_an_edge_of_the_clock_twice_as_many_passed() {
        let gcra = Gcra::new(Rate::new(100, Duration::from_secs(60)).fixed());
        let mut state = 0;
        let mut passed = |now_us: u64| {
            let tries = (0..500).map(|_| gcra.check(&mut state, now_us));
            tries.filter(Result::is_ok).count()
        };
        assert_eq!((passed(659_900_000), passed(660_100_000)), (100, 0));
        assert_eq!((passed(719_800_000), passed(719_900_000)), (0, 100));
    }

    #[test]
    fn a_fixed_window_of_an_address_holds_over_its_connections() {
        let rates = Rates {
            address: per_minute(100).map(Rate::fixed),
            ..Rates::default()
        };
        let meters = Meters::new(&rates, Arc::new(Shared::new(&rates)));
        let passed = |at_s: u64| {
            let tries = (0..500).map(|_| meters.book(sender(None), at_s * 1_000_000, 0));
            tries.filter(Result::is_ok).count()
        };
        assert_eq!((passed(61), passed(90), passed(120)), (100, 0, 0));
        assert_eq!((passed(121), passed(180)), (100, 0));
    }

    #[test]
    fn a_client_that_waits_as_long_as_it_was_told_gets_in() {
        let rate = Rate::new(3, Duration::from_secs(10));
        for gcra in [Gcra::new(rate), Gcra::new(rate.fixed())] {
            let (mut state, now_us) = (0, 123_456_789);
            while gcra.check(&mut state, now_us).is_ok() {}
            let exceeded = gcra.check(&mut state, now_us).expect_err("nothing left");
            let later_us = now_us + exceeded.retry_after_s() * 1_000_000;
            assert_eq!(gcra.check(&mut state, later_us), Ok(()));
        }
    }
}
