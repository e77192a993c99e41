//! Lists of sockets that this shard makes for their askers: what is still to be described, and whose turn it is.

use crate::books::ledger::{Account, Booked};
use crate::bounds::PAGE_HOLD_MS;
use crate::cluster::letter::{Fetched, Found, RoundId};
use crate::tables::slot::SocketKey;
use std::collections::VecDeque;

/// A list on its way.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) round: RoundId,
    /// Sockets that are not described yet, of those that were meant when the question came. Some may be gone by now.
    rest: Vec<SocketKey>,
    /// What is described and not said yet.
    made: Found,
    made_bytes: usize,
    kept: Booked,
    /// The list is in a queue.
    pub(crate) is_waiting: bool,
}

impl List {
    /// `None`: there is no room for the names of the rest.
    fn new(round: RoundId, rest: Vec<SocketKey>, kept: Booked) -> Option<Self> {
        let mut list = Self {
            round,
            rest,
            made: whole(),
            made_bytes: 0,
            kept,
            is_waiting: false,
        };
        list.book().then_some(list)
    }

    /// Books what it keeps now; `false`: there is no room for it.
    fn book(&mut self) -> bool {
        let (before, now) = (self.kept.bytes(), self.rest_bytes() + self.made_bytes);
        if now > before {
            return self.kept.grow(now - before);
        }
        self.kept.set(now);
        true
    }

    fn rest_bytes(&self) -> usize {
        self.rest.capacity() * size_of::<SocketKey>()
    }

    /// The sockets that are not described yet, for a moment.
    pub(crate) fn take_rest(&mut self) -> Vec<SocketKey> {
        std::mem::take(&mut self.rest)
    }

    /// Some more sockets are described, and these are not. If there is no room for them, the list ends before them, and says so.
    pub(crate) fn add(&mut self, sockets: Vec<Fetched>, bytes: usize, rest: Vec<SocketKey>) {
        self.made_bytes += bytes;
        match self.rest.is_empty() {
            true => self.rest = rest,
            false => debug_assert!(rest.is_empty(), "nothing was taken"),
        }
        // Room is given back by halves: each time the rest is copied.
        if self.rest.capacity() > 2 * self.rest.len() {
            self.rest.shrink_to_fit();
        }
        if !self.book() {
            self.made_bytes -= bytes;
            (self.rest, self.made.complete) = (Vec::new(), false);
        } else if self.made.sockets.is_empty() {
            self.made.sockets = sockets;
        } else {
            self.made.sockets.extend(sockets);
        }
    }

    /// Whether all of it is described.
    pub(crate) fn is_described(&self) -> bool {
        self.rest.is_empty()
    }

    /// Whether something of it can be said.
    pub(crate) fn has_page(&self) -> bool {
        !self.made.sockets.is_empty() || self.rest.is_empty()
    }

    pub(crate) fn made_bytes(&self) -> usize {
        self.made_bytes
    }

    /// Takes what is described.
    pub(crate) fn take(&mut self) -> Found {
        let complete = self.made.complete;
        let made = std::mem::replace(&mut self.made, whole());
        (self.made.complete, self.made_bytes) = (complete, 0);
        self.kept.set(self.rest_bytes());
        made
    }
}

/// Nothing is missing yet.
fn whole() -> Found {
    Found {
        complete: true,
        ..Found::default()
    }
}

/// What all lists keep, and those that can go on, by their numbers.
#[derive(Debug)]
pub(crate) struct Lists {
    account: Account,
    /// Lists that go on by themselves, one after the other: so few are half made.
    own: VecDeque<u64>,
    /// Lists whose asker wants the next page.
    asked: VecDeque<u64>,
    /// Whether one of the asked lists goes on next: no kind waits for all of the other.
    asked_is_next: bool,
    /// Lists whose page waits for room on its way to other nodes, and the time until which they wait.
    held: VecDeque<u64>,
    held_until_ms: u64,
}

impl Lists {
    pub(crate) fn new(account: Account) -> Self {
        Self {
            account,
            own: VecDeque::new(),
            asked: VecDeque::new(),
            asked_is_next: false,
            held: VecDeque::new(),
            held_until_ms: 0,
        }
    }

    /// A list of these sockets. `None`: there is no room for it.
    pub(crate) fn list(&self, round: RoundId, rest: Vec<SocketKey>) -> Option<List> {
        List::new(round, rest, self.account.entry())
    }

    /// A list goes on by itself. `again`: it was under way, and comes before the others.
    pub(crate) fn goes_on(&mut self, list: u64, again: bool) {
        match again {
            true => self.own.push_front(list),
            false => self.own.push_back(list),
        }
    }

    /// The next page of a list is wanted.
    pub(crate) fn is_asked(&mut self, list: u64) {
        self.asked.push_back(list);
    }

    /// There is no room for a page on its way. It waits with the ones that wait already, and does not put them off.
    pub(crate) fn hold(&mut self, list: u64, now_ms: u64) {
        if self.held.is_empty() {
            self.held_until_ms = now_ms + PAGE_HOLD_MS;
        }
        self.held.push_back(list);
    }

    /// The list that goes on now.
    pub(crate) fn next(&mut self, now_ms: u64) -> Option<u64> {
        if now_ms >= self.held_until_ms {
            self.asked.append(&mut self.held);
        }
        let asked_is_next = self.asked_is_next;
        self.asked_is_next = !asked_is_next;
        let (first, second) = match asked_is_next {
            true => (&mut self.asked, &mut self.own),
            false => (&mut self.own, &mut self.asked),
        };
        first.pop_front().or_else(|| second.pop_front())
    }

    /// When a list can go on.
    pub(crate) fn next_due_ms(&self, now_ms: u64) -> Option<u64> {
        if self.own.is_empty() && self.asked.is_empty() {
            return (!self.held.is_empty()).then_some(self.held_until_ms);
        }
        Some(now_ms)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let queues = [&self.own, &self.asked, &self.held];
        let queues: usize = queues.iter().map(|queue| queue.capacity()).sum();
        queues * size_of::<u64>() + self.account.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::ledger::{Ledger, Stock};
    use crate::tables::id::Place;
    use crate::tables::slot::{SlotId, SocketId};

    fn lists() -> Lists {
        Lists::new(Ledger::default().open(Stock::Rounds, 1_000))
    }

    #[test]
    fn lists_of_each_kind_go_on_in_turn_and_held_ones_later() {
        let mut lists = lists();
        [1, 2, 3]
            .into_iter()
            .for_each(|list| lists.goes_on(list, false));
        [11, 12].into_iter().for_each(|list| lists.is_asked(list));
        lists.hold(21, 100);
        let next = |lists: &mut Lists, now_ms| {
            std::iter::from_fn(|| lists.next(now_ms)).collect::<Vec<_>>()
        };
        assert_eq!(next(&mut lists, 100), [1, 11, 2, 12, 3]);
        assert_eq!(lists.next_due_ms(100), Some(105));
        assert_eq!(lists.next(104), None);
        assert_eq!(next(&mut lists, 105), [21]);
        assert_eq!(lists.next_due_ms(200), None);
    }

    /// Each list that found no room put off all that waited.
    #[test]
    fn a_list_that_is_held_later_puts_off_no_other() {
        let mut lists = lists();
        lists.hold(1, 100);
        lists.hold(2, 104);
        assert_eq!(lists.next(105), Some(1));
    }

    /// Names of sockets that were described were kept until the last was, and were in no book.
    #[test]
    fn a_list_keeps_no_more_than_twice_what_it_needs_and_books_it() {
        let account = Ledger::default().open(Stock::Rounds, 1 << 20);
        let lists = Lists::new(account);
        let round = RoundId {
            asker: Place { node: 1, shard: 0 },
            number: 1,
            ack: 2,
            timeout_ms: 3,
            parts: 0,
            pages: true,
        };
        let keys = (0..1_000)
            .map(|n| SocketKey::new(SocketId::at(n), 0))
            .collect();
        let mut list = lists.list(round, keys).expect("room");
        while !list.is_described() {
            let mut rest = list.take_rest();
            rest.truncate(rest.len().saturating_sub(30));
            list.add(Vec::new(), 0, rest);
            let least = size_of::<SocketKey>() * list.rest.len();
            let bytes = list.kept.bytes();
            assert!((least..=2 * least).contains(&bytes), "{bytes} for {least}");
            assert_eq!(bytes, list.rest.capacity() * size_of::<SocketKey>());
        }
    }

    /// Half-made lists of many askers would take all room for lists together.
    #[test]
    fn a_list_that_is_under_way_comes_first() {
        let mut lists = lists();
        [1, 2]
            .into_iter()
            .for_each(|list| lists.goes_on(list, false));
        assert_eq!(lists.next(0), Some(1));
        lists.goes_on(1, true);
        assert_eq!(lists.next(0), Some(1));
        assert_eq!(lists.next_due_ms(7), Some(7));
    }
}
