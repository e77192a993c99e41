//! A client that is told that it is in misses nothing that other nodes publish from then on. So the answer to its CONNECT, and the ack of
//! its join, wait until other nodes know that this one has members, but not for long. What waits is in order, so one number says how far
//! other nodes are.

use crate::books::ledger::Account;
use crate::bounds::OPEN_JOINS_MAX;
use crate::cluster::waitlist::{Waitlist, Waits};
use crate::tables::slot::{ConnKey, SessionKey, SocketKey};
use std::collections::{HashMap, VecDeque};

/// A look through all sockets that frees fewer is not repeated before so many more keys are known.
const SWEEP_MIN: usize = 8_192;

#[derive(Debug)]
pub(crate) struct Joins {
    given: u64,
    /// Keys that other nodes do not know yet, in the order of their tickets.
    open: VecDeque<(u64, u64)>,
    tickets: HashMap<u64, u64>,
    /// The last ticket of each socket that joined such a key.
    joined: HashMap<SocketKey, u64>,
    /// The first open ticket from which on it is worth looking through `joined`.
    sweep_at: u64,
    parked: Waitlist,
    /// Keys and sockets that were taken for known because there were too many, and were not counted yet.
    surplus: u64,
}

impl Joins {
    pub(crate) fn new(wait_ms: u64, acks: Account) -> Self {
        Self {
            given: 0,
            open: VecDeque::new(),
            tickets: HashMap::new(),
            joined: HashMap::new(),
            // While the first ticket is open, every socket waits for something.
            sweep_at: 2,
            parked: Waitlist::new(wait_ms, acks),
            surplus: 0,
        }
    }

    /// A key has its first member here; the ticket by which it is confirmed.
    pub(crate) fn hold(&mut self, key: u64) -> u64 {
        self.given += 1;
        if self.open.len() == OPEN_JOINS_MAX
            && let Some((ticket, _)) = self.open.front()
        {
            // The oldest key has waited longest, so it is taken for known.
            self.forget(*ticket);
            self.surplus += 1;
        }
        self.open.push_back((self.given, key));
        self.tickets.insert(key, self.given);
        self.given
    }

    /// The last ticket.
    pub(crate) fn given(&self) -> u64 {
        self.given
    }

    /// A socket is a member of a key.
    pub(crate) fn joined(&mut self, socket: SocketKey, key: u64) {
        let Some(ticket) = self.tickets.get(&key).copied() else {
            return;
        };
        if self.joined.len() < OPEN_JOINS_MAX || self.sweep() {
            let last = self.joined.entry(socket).or_default();
            *last = (*last).max(ticket);
        } else {
            self.surplus += 1;
        }
    }

    /// How many keys and sockets were taken for known since the last call, because there were too many.
    pub(crate) fn take_surplus(&mut self) -> u64 {
        std::mem::take(&mut self.surplus)
    }

    /// Forgets sockets that wait for nothing any more; whether there is room now.
    fn sweep(&mut self) -> bool {
        let first = self.first_open();
        if first >= self.sweep_at {
            self.joined.retain(|_, ticket| *ticket >= first);
            let pause = match self.joined.len() + SWEEP_MIN > OPEN_JOINS_MAX {
                true => SWEEP_MIN as u64,
                false => 1,
            };
            self.sweep_at = first + pause;
        }
        self.joined.len() < OPEN_JOINS_MAX
    }

    fn first_open(&self) -> u64 {
        self.open
            .front()
            .map_or(self.given + 1, |(ticket, _)| *ticket)
    }

    /// The ticket that this socket waits for, if other nodes do not know all that it joined.
    pub(crate) fn ticket_of(&self, socket: SocketKey) -> Option<u64> {
        let ticket = self.joined.get(&socket).copied();
        ticket.filter(|ticket| self.first_open() <= *ticket)
    }

    /// Lets something wait for a ticket. What finds no room is given back, and leaves at once.
    pub(crate) fn park(&mut self, ticket: u64, what: Waits, now_ms: u64) -> Option<Waits> {
        let surplus = self.parked.put(ticket, what, now_ms);
        self.surplus += u64::from(surplus.is_some());
        surplus
    }

    /// A session goes on over a WebSocket: what waited with its polls waits there. How many times.
    pub(crate) fn carry_over(&mut self, from: SessionKey, to: ConnKey) -> u16 {
        self.parked.carry_over(from, to)
    }

    /// The sockets whose answers wait.
    pub(crate) fn answers(&self) -> impl Iterator<Item = SocketKey> + '_ {
        self.parked.answers()
    }

    fn forget(&mut self, upto: u64) {
        while let Some((ticket, key)) = self.open.front().copied()
            && ticket <= upto
        {
            self.open.pop_front();
            // The key may have gone and come again since, under a later ticket.
            if self.tickets.get(&key) == Some(&ticket) {
                self.tickets.remove(&key);
            }
        }
        if self.open.is_empty() {
            self.joined.clear();
        }
    }

    /// Other nodes know the keys up to a ticket; what may leave now.
    pub(crate) fn confirmed(&mut self, ticket: u64) -> Vec<Waits> {
        self.forget(ticket);
        let first = self.first_open();
        self.parked.before(first)
    }

    /// What has waited for long enough. Its keys are taken for known: while other nodes cannot be reached, a socket waits once and
    /// not with each of its acks.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<Waits> {
        if let Some(last) = self.parked.last_due(now_ms) {
            self.forget(last);
        }
        self.parked.due(now_ms)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let (key, ticket) = (size_of::<u64>(), size_of::<u64>());
        let tables = self.tickets.capacity() * (key + ticket)
            + self.joined.capacity() * (size_of::<SocketKey>() + ticket);
        self.open.capacity() * (key + ticket) + tables + self.parked.heap_bytes()
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.parked.next_due_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::ledger::{Ledger, Stock};
    use crate::bounds::PARKED_ACKS_BYTES_MAX;
    use crate::cluster::waitlist::Carrier;
    use crate::tables::slot::{Key, SlotId};

    fn joins() -> Joins {
        Joins::new(
            50,
            Ledger::default().open(Stock::Acks, PARKED_ACKS_BYTES_MAX),
        )
    }

    fn socket(at: usize) -> SocketKey {
        Key::new(SlotId::at(at as u32), 0)
    }

    /// While other nodes cannot be reached, any number of sockets may join.
    #[test]
    fn sockets_that_wait_are_bounded_and_forgotten() {
        let mut joins = joins();
        let first = joins.hold(1);
        (0..OPEN_JOINS_MAX + 10).for_each(|at| joins.joined(socket(at), 1));
        assert_eq!(joins.joined.len(), OPEN_JOINS_MAX);
        assert_eq!(joins.ticket_of(socket(0)), Some(first));
        assert_eq!(
            joins.ticket_of(socket(OPEN_JOINS_MAX)),
            None,
            "taken for known"
        );
        assert_eq!(joins.take_surplus(), 10, "and counted");
        let second = joins.hold(2);
        joins.confirmed(first);
        assert_eq!(joins.ticket_of(socket(0)), None);
        joins.joined(socket(OPEN_JOINS_MAX), 2);
        assert_eq!(joins.ticket_of(socket(OPEN_JOINS_MAX)), Some(second));
        assert_eq!(joins.joined.len(), 1, "those that wait for nothing went");
    }

    /// With as many keys as sockets, each join looked through all of them.
    #[test]
    fn a_join_looked_through_all_sockets_to_free_one_place() {
        let mut joins = joins();
        let join = |joins: &mut Joins, at: usize| {
            joins.hold(at as u64);
            joins.joined(socket(at), at as u64);
        };
        (0..OPEN_JOINS_MAX).for_each(|at| join(&mut joins, at));
        let mut sweeps = 0;
        for at in OPEN_JOINS_MAX..OPEN_JOINS_MAX + 3 * SWEEP_MIN {
            let before = joins.sweep_at;
            join(&mut joins, at);
            sweeps += usize::from(joins.sweep_at != before);
        }
        assert!((1..=4).contains(&sweeps), "{sweeps}");
        assert!(joins.joined.len() <= OPEN_JOINS_MAX);
    }

    /// While other nodes could not be reached, each ack of a socket waited anew.
    #[test]
    fn each_ack_waited_for_nodes_that_are_away() {
        let mut joins = joins();
        let ticket = joins.hold(1);
        joins.joined(socket(0), 1);
        assert_eq!(joins.ticket_of(socket(0)), Some(ticket));
        let session = Key::new(SlotId::at(0), 0);
        joins.park(ticket, Waits::Output(Carrier::Polls(session)), 0);
        assert_eq!(joins.due(49).len(), 0);
        assert_eq!(joins.due(50).len(), 1);
        assert_eq!(joins.ticket_of(socket(0)), None);
        let next = joins.hold(2);
        joins.joined(socket(0), 2);
        assert_eq!(
            joins.ticket_of(socket(0)),
            Some(next),
            "a new key is waited for"
        );
    }
}
