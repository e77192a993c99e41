//! The accounts of users and addresses with the rates of messages and new sessions.

use crate::access::budgets::{Budgets, Key, Share};
use crate::access::cells::Shared;
use crate::access::gcra::{Exceeded, Gcra, Meter};
use crate::books::config::Rates;
use crate::books::metrics::Scope;
use crate::bounds::LOT_MAX;
use crate::clients::session::Dues;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An account's part in the limits of other nodes.
struct Part<'a> {
    budgets: &'a Budgets,
    key: Key,
    share: u32,
    /// The key's own share, if the key is near the limit.
    named: Option<Arc<Share>>,
}

/// A limiter's state as it was found in the shared table, to be changed and written back. Two shards may do so within the same
/// nanoseconds, and one of their bookings is lost then. An exact count would cost more than it is worth here.
struct Account<'a> {
    shared: &'a Shared,
    scope: Scope,
    gcra: Gcra,
    /// Where its state stands in the table.
    place: u64,
    state_us: u64,
    /// Booked since it was found.
    owed: u8,
    /// Nodes share the rate.
    part: Option<Part<'a>>,
}

impl<'a> Account<'a> {
    fn new(shared: &'a Shared, scope: Scope, key: impl Hash, gcra: Gcra) -> Self {
        let place = shared.place(scope, key);
        Self {
            shared,
            scope,
            gcra,
            place,
            state_us: shared.read(place),
            owed: 0,
            part: None,
        }
    }

    /// The account with a rate that nodes share: this node has a share of it.
    fn of_share(
        shared: &'a Shared,
        scope: Scope,
        key: Key,
        gcra: Gcra,
        budgets: &'a Budgets,
    ) -> Self {
        let named = budgets.named(key);
        let share = named
            .as_ref()
            .map_or_else(|| budgets.rest(key.0), |named| named.get());
        let place = shared.place_of_key(key);
        let state_us = match &named {
            Some(named) => named.state_us.load(Ordering::Relaxed),
            None => shared.read(place),
        };
        Self {
            shared,
            scope,
            gcra: gcra.of_share(share),
            place,
            state_us,
            owed: 0,
            part: Some(Part {
                budgets,
                key,
                share,
                named,
            }),
        }
    }

    fn room(&self, now_us: u64) -> Result<(), Exceeded> {
        if self.part.as_ref().is_some_and(|part| part.share == 0) {
            // Another node has all of it, for now.
            return Err(Exceeded { wait_us: 1 });
        }
        self.gcra.room(self.state_us, now_us)
    }

    fn has_plenty(&self, now_us: u64) -> bool {
        self.gcra.has_plenty(self.state_us, now_us)
    }

    fn owe(&mut self, now_us: u64, events: u8) {
        self.gcra.owe(&mut self.state_us, now_us, events);
        self.owed = self.owed.saturating_add(events);
    }

    fn write(&self, now_us: u64) {
        let named = self.part.as_ref().and_then(|part| part.named.as_ref());
        match named {
            // Other shards change this state, too: only what is owed is added.
            Some(named) => named.owe(self.gcra, now_us, self.owed),
            None => {
                self.shared.write(self.place, self.state_us);
                if let Some(part) = &self.part {
                    part.budgets.booked_of_rest(part.key, now_us, self.owed);
                }
            }
        }
        self.mark(now_us);
    }

    /// Half of what each node may use is used: the nodes are to divide the rate by who needs it.
    fn mark(&self, now_us: u64) {
        if let Some(part) = &self.part
            && part.named.is_none()
            && !self.has_plenty(now_us)
        {
            part.budgets.mark(part.key);
        }
    }

    /// There was no room.
    fn refuse(&self, now_us: u64) {
        match self.part.as_ref().and_then(|part| part.named.as_ref()) {
            Some(named) => named.refuse(),
            None => self.mark(now_us),
        }
    }

    /// Messages that may be booked together, at most: one part in 256, of a share as of a whole rate.
    fn lot(&self) -> u8 {
        let share = self.part.as_ref().map(|part| part.share / 256);
        share.map_or(u8::MAX, |lot| u8::try_from(lot).unwrap_or(u8::MAX))
    }
}

/// What is used of a rate now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedRate {
    /// The one that has the rate.
    pub scope: Scope,
    /// Messages that count still.
    pub used: u32,
    /// Messages that may pass at once; where nodes share the rate, this node's part of them, which may be nothing.
    pub of: u32,
}

impl UsedRate {
    fn new(scope: Scope, gcra: Gcra, state_us: u64, now_us: u64) -> Self {
        Self {
            scope,
            used: gcra.used(state_us, now_us),
            of: gcra.events(),
        }
    }

    /// `unbooked`: what the session owes still.
    fn of_account(account: &mut Account<'_>, now_us: u64, unbooked: u8) -> Self {
        // The account is a copy: what it owes here is not written back.
        account.owe(now_us, unbooked);
        let used = Self::new(account.scope, account.gcra, account.state_us, now_us);
        let nothing = account.part.as_ref().is_some_and(|part| part.share == 0);
        Self {
            of: if nothing { 0 } else { used.of },
            ..used
        }
    }
}

/// The owner of the messages that are booked.
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
    /// Messages of a session that are booked with its user and address at a time, at most. The table is further away than the session,
    /// and what is left of a large rate need not be known to the last message while it is much. 0 = there is no such rate.
    lot: u8,
    shared: Arc<Shared>,
    /// Rates that nodes share.
    budgets: Option<Arc<Budgets>>,
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
            budgets: None,
        }
    }

    /// The same where nodes share some of the rates.
    pub(crate) fn sharing(self, budgets: Option<Arc<Budgets>>) -> Self {
        Self { budgets, ..self }
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
        let budgets = self.budgets.as_deref();
        let key = budgets.and_then(|budgets| budgets.connects_key(address));
        let mut account = self.account(Scope::Connects, key, address, meter.gcra);
        account
            .room(now_us)
            .inspect_err(|_| account.refuse(now_us))?;
        account.owe(now_us, 1);
        account.write(now_us);
        Ok(())
    }

    /// Books a message with its user and its address, or with none of them. What the session owes for earlier ones is booked in any case.
    /// Returns how many more the session may send before the next booking: none once half of a rate is gone, before that as many as it
    /// has paid for so far (1, 3, 7, 15). So a crowd of short sessions is counted nearly as exactly as a single long one.
    pub(crate) fn book(
        &self,
        sender: Sender<'_>,
        now_us: u64,
        owed: u8,
    ) -> Result<u8, (Scope, Exceeded)> {
        let mut accounts = self.accounts(sender);
        let mut refused = None;
        for account in accounts.iter_mut().flatten() {
            // What passed before is booked with each account, also with those after a refusal.
            account.owe(now_us, owed);
            if refused.is_none()
                && let Err(exceeded) = account.room(now_us)
            {
                account.refuse(now_us);
                refused = Some((account.scope, exceeded));
            }
        }
        if let Some(refused) = refused {
            // The refused message costs nothing; what passed before it does.
            if owed > 0 {
                let accounts = accounts.iter().flatten();
                accounts.for_each(|account| account.write(now_us));
            }
            return Err(refused);
        }
        let (mut plenty, mut lot) = (true, self.lot);
        for account in accounts.iter_mut().flatten() {
            account.owe(now_us, 1);
            account.write(now_us);
            plenty &= account.has_plenty(now_us);
            lot = lot.min(account.lot());
        }
        let more = (2 * owed + 1).min(lot.saturating_sub(1));
        Ok(if plenty { more } else { 0 })
    }

    /// What is used of the rates of a session with these dues, and of its user and address.
    pub(crate) fn used(&self, dues: &Dues, sender: Sender<'_>, now_us: u64) -> Vec<UsedRate> {
        let session = self.session.iter();
        let session =
            session.map(|meter| UsedRate::new(Scope::Session, meter.gcra, dues.rate, now_us));
        let mut accounts = self.accounts(sender);
        let accounts = accounts.iter_mut().flatten();
        let shared = accounts.map(|account| UsedRate::of_account(account, now_us, dues.unbooked));
        session.chain(shared).collect()
    }

    /// Books messages that have passed.
    pub(crate) fn owe(&self, sender: Sender<'_>, now_us: u64, owed: u8) {
        for account in self.accounts(sender).iter_mut().flatten() {
            account.owe(now_us, owed);
            account.write(now_us);
        }
    }

    fn accounts(&self, sender: Sender<'_>) -> [Option<Account<'_>>; 2] {
        let budgets = self.budgets.as_deref();
        let user = sender.user.zip(self.user.as_ref());
        let user = user.map(|(user, meter)| {
            let key = budgets.and_then(|budgets| budgets.user_key(user));
            self.account(Scope::User, key, user, meter.gcra)
        });
        let address = self.address.as_ref();
        let address = address.map(|meter| {
            let key = budgets.and_then(|budgets| budgets.address_key(sender.address));
            self.account(Scope::Address, key, sender.address, meter.gcra)
        });
        [user, address]
    }

    /// `key`: under which nodes share the rate, if they do.
    fn account(&self, scope: Scope, key: Option<Key>, whose: impl Hash, gcra: Gcra) -> Account<'_> {
        match (self.budgets.as_deref(), key) {
            (Some(budgets), Some(key)) => {
                Account::of_share(&self.shared, scope, key, gcra, budgets)
            }
            _ => Account::new(&self.shared, scope, whose, gcra),
        }
    }
}

/// At most one part in 256 of the smaller rate.
fn lot(rates: &Rates) -> u8 {
    let rates = [rates.user, rates.address].into_iter().flatten();
    let smallest = rates.map(|rate| rate.events).min();
    smallest.map_or(0, |events| (events / 256).clamp(1, LOT_MAX) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::config::Rate;
    use std::time::Duration;

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
    fn what_a_session_has_not_booked_is_shown_as_used_and_stays_unbooked() {
        let rates = Rates {
            user: per_minute(4_096),
            ..Rates::default()
        };
        let meters = Meters::new(&rates, Arc::new(Shared::new(&rates)));
        let dues = Dues {
            unbooked: 7,
            ..Dues::default()
        };
        for _ in 0..3 {
            let used = meters.used(&dues, sender(Some("ann")), 1_000_000);
            let used: Vec<_> = used.iter().map(|one| (one.used, one.of)).collect();
            assert_eq!(used, [(7, 4_096)]);
        }
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
}
