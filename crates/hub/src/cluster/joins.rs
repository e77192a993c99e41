//! A client that is told that it is in misses nothing that other nodes publish from then on: the answer to its CONNECT, and the ack of
//! its join, wait until they know that this one has members, but not for long. What waits is in order, so one number says how far
//! other nodes are.

use crate::seam::event::AckTo;
use crate::tables::slot::{ConnKey, SessionKey, SocketKey};
use std::collections::{HashMap, VecDeque};

/// Keys that wait for other nodes, and sockets that wait for such a key; while nodes cannot be reached, more are taken for known.
const OPEN_MAX: usize = 65_536;
/// Acks and outputs that wait, and the bytes of these acks. More leave at once.
const PARKED_MAX: usize = 65_536;
const PARKED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A look through all sockets that frees fewer is not repeated before so many more keys are known.
const SWEEP_MIN: usize = 8_192;

/// What waits.
#[derive(Debug)]
pub(crate) enum Waits {
    /// An answer to an event.
    Ack {
        to: AckTo,
        args: Box<str>,
        attachments: Vec<Vec<u8>>,
    },
    /// All that is said to a client: it begins with the answer to its CONNECT.
    Output(Carrier),
}

/// What carries a client whose output waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carrier {
    /// A WebSocket or an event stream.
    Conn(ConnKey),
    /// The polls of a session.
    Polls(SessionKey),
}

#[derive(Debug)]
struct Parked {
    ticket: u64,
    due_ms: u64,
    what: Waits,
}

#[derive(Debug)]
pub(crate) struct Joins {
    wait_ms: u64,
    given: u64,
    /// Keys that other nodes do not know yet, in the order of their tickets.
    open: VecDeque<(u64, u64)>,
    tickets: HashMap<u64, u64>,
    /// The last ticket of each socket that joined such a key.
    joined: HashMap<SocketKey, u64>,
    /// The first open ticket from which on it is worth looking through `joined`.
    sweep_at: u64,
    parked: VecDeque<Parked>,
    parked_bytes: usize,
    /// Keys and sockets that were taken for known because there were too many, and were not counted yet.
    surplus: u64,
}

impl Waits {
    fn bytes(&self) -> usize {
        match self {
            Self::Ack {
                args, attachments, ..
            } => args.len() + attachments.iter().map(Vec::len).sum::<usize>(),
            Self::Output(_) => 0,
        }
    }
}

impl Joins {
    pub(crate) fn new(wait_ms: u64) -> Self {
        Self {
            wait_ms,
            given: 0,
            open: VecDeque::new(),
            tickets: HashMap::new(),
            joined: HashMap::new(),
            sweep_at: 2,
            parked: VecDeque::new(),
            parked_bytes: 0,
            surplus: 0,
        }
    }

    /// A key has its first member here; the ticket by which it is confirmed.
    pub(crate) fn hold(&mut self, key: u64) -> u64 {
        self.given += 1;
        if self.open.len() == OPEN_MAX
            && let Some((ticket, _)) = self.open.front()
        {
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
        if self.joined.len() < OPEN_MAX || self.sweep() {
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
            let pause = match self.joined.len() + SWEEP_MIN > OPEN_MAX {
                true => SWEEP_MIN as u64,
                false => 1,
            };
            self.sweep_at = first + pause;
        }
        self.joined.len() < OPEN_MAX
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

    /// Lets something wait for a ticket. It stands behind all that waits already, so that the first is the first that may leave.
    /// What finds no room is given back, and leaves at once.
    pub(crate) fn park(&mut self, ticket: u64, what: Waits, now_ms: u64) -> Option<Waits> {
        let bytes = what.bytes();
        if self.parked.len() >= PARKED_MAX || self.parked_bytes + bytes > PARKED_BYTES_MAX {
            self.surplus += 1;
            return Some(what);
        }
        self.parked_bytes += bytes;
        self.parked.push_back(Parked {
            ticket,
            due_ms: now_ms + self.wait_ms,
            what,
        });
        None
    }

    /// A session goes on over a WebSocket: what waited with its polls waits there. How many times.
    pub(crate) fn carry_over(&mut self, from: SessionKey, to: ConnKey) -> u16 {
        let mut moved = 0;
        for parked in &mut self.parked {
            if let Waits::Output(carrier) = &mut parked.what
                && *carrier == Carrier::Polls(from)
            {
                *carrier = Carrier::Conn(to);
                moved += 1;
            }
        }
        moved
    }

    /// The sockets whose answers wait.
    pub(crate) fn answers(&self) -> impl Iterator<Item = SocketKey> + '_ {
        self.parked.iter().filter_map(|parked| match &parked.what {
            Waits::Ack { to, .. } => Some(to.socket),
            Waits::Output(_) => None,
        })
    }

    fn forget(&mut self, upto: u64) {
        while let Some((ticket, key)) = self.open.front().copied()
            && ticket <= upto
        {
            self.open.pop_front();
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
        self.take_while(|parked| parked.ticket < first)
    }

    /// Nobody will confirm this one ticket; what may leave now.
    pub(crate) fn withdrawn(&mut self, ticket: u64) -> Vec<Waits> {
        self.withdraw(ticket);
        let first = self.first_open();
        self.take_while(|parked| parked.ticket < first)
    }

    /// What has waited for long enough, where nothing may leave unconfirmed: its own tickets are given up, and those of others stay.
    pub(crate) fn overdue(&mut self, now_ms: u64) -> Vec<Waits> {
        let is_late = |parked: &&Parked| parked.due_ms <= now_ms;
        let late = self.parked.iter().take_while(is_late);
        let late: Vec<u64> = late.map(|parked| parked.ticket).collect();
        for ticket in late {
            self.withdraw(ticket);
        }
        self.take_while(|parked| parked.due_ms <= now_ms)
    }

    fn withdraw(&mut self, ticket: u64) {
        if let Ok(at) = self.open.binary_search_by_key(&ticket, |(open, _)| *open)
            && let Some((_, key)) = self.open.remove(at)
            && self.tickets.get(&key) == Some(&ticket)
        {
            self.tickets.remove(&key);
        }
        if self.open.is_empty() {
            self.joined.clear();
        }
    }

    /// What has waited for long enough. Its keys are taken for known: while other nodes cannot be reached, a socket waits once and
    /// not with each of its acks.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<Waits> {
        let is_late = |parked: &&Parked| parked.due_ms <= now_ms;
        let late = self.parked.iter().take_while(is_late);
        if let Some(last) = late.map(|parked| parked.ticket).max() {
            self.forget(last);
        }
        self.take_while(|parked| parked.due_ms <= now_ms)
    }

    fn take_while(&mut self, ready: impl Fn(&Parked) -> bool) -> Vec<Waits> {
        let count = self.parked.iter().take_while(|parked| ready(parked));
        let count = count.count();
        let ready = self.parked.drain(..count);
        let ready: Vec<Waits> = ready.map(|parked| parked.what).collect();
        self.parked_bytes -= ready.iter().map(Waits::bytes).sum::<usize>();
        ready
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.parked.front().map(|parked| parked.due_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::slot::{Key, SlotId};

    fn socket(at: usize) -> SocketKey {
        Key::new(SlotId::at(at as u32), 0)
    }

    /// While other nodes cannot be reached, any number of sockets may join.
    #[test]
    fn sockets_that_wait_are_bounded_and_forgotten() {
        let mut joins = Joins::new(50);
        let first = joins.hold(1);
        (0..OPEN_MAX + 10).for_each(|at| joins.joined(socket(at), 1));
        assert_eq!(joins.joined.len(), OPEN_MAX);
        assert_eq!(joins.ticket_of(socket(0)), Some(first));
        assert_eq!(joins.ticket_of(socket(OPEN_MAX)), None, "taken for known");
        assert_eq!(joins.take_surplus(), 10, "and counted");
        let second = joins.hold(2);
        joins.confirmed(first);
        assert_eq!(joins.ticket_of(socket(0)), None);
        joins.joined(socket(OPEN_MAX), 2);
        assert_eq!(joins.ticket_of(socket(OPEN_MAX)), Some(second));
        assert_eq!(joins.joined.len(), 1, "those that wait for nothing went");
    }

    /// Acks that waited for other nodes filled the memory.
    #[test]
    fn acks_that_wait_had_no_bound() {
        let mut joins = Joins::new(50);
        let ticket = joins.hold(1);
        let ack = |bytes: usize| Waits::Ack {
            to: AckTo {
                socket: socket(0),
                id: 1,
            },
            args: "x".repeat(bytes).into(),
            attachments: vec![vec![0; bytes]],
        };
        let half = PARKED_BYTES_MAX / 4;
        assert!(joins.park(ticket, ack(half), 0).is_none());
        assert!(joins.park(ticket, ack(half), 0).is_none());
        assert!(joins.park(ticket, ack(1), 0).is_some(), "too many bytes");
        assert_eq!(joins.take_surplus(), 1);
        assert_eq!(joins.confirmed(ticket).len(), 2);
        let parked = (0..PARKED_MAX + 5).filter(|_| joins.park(ticket, ack(0), 0).is_none());
        assert_eq!(parked.count(), PARKED_MAX);
        assert_eq!(joins.take_surplus(), 5);
    }

    /// With as many keys as sockets, each join looked through all of them.
    #[test]
    fn a_join_looked_through_all_sockets_to_free_one_place() {
        let mut joins = Joins::new(50);
        let join = |joins: &mut Joins, at: usize| {
            joins.hold(at as u64);
            joins.joined(socket(at), at as u64);
        };
        (0..OPEN_MAX).for_each(|at| join(&mut joins, at));
        let mut sweeps = 0;
        for at in OPEN_MAX..OPEN_MAX + 3 * SWEEP_MIN {
            let before = joins.sweep_at;
            join(&mut joins, at);
            sweeps += usize::from(joins.sweep_at != before);
        }
        assert!((1..=4).contains(&sweeps), "{sweeps}");
        assert!(joins.joined.len() <= OPEN_MAX);
    }

    /// While other nodes could not be reached, each ack of a socket waited anew.
    #[test]
    fn each_ack_waited_for_nodes_that_are_away() {
        let mut joins = Joins::new(50);
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

    /// An ack left unstored when another socket had waited for too long.
    #[test]
    fn one_that_waited_for_too_long_took_the_tickets_of_others_along() {
        let mut joins = Joins::new(50);
        let tickets = [1, 2].map(|key| joins.hold(key));
        (0..2).for_each(|at| joins.joined(socket(at), at as u64 + 1));
        let session = Key::new(SlotId::at(1), 0);
        joins.park(tickets[1], Waits::Output(Carrier::Polls(session)), 0);
        assert_eq!(joins.overdue(50).len(), 1);
        assert_eq!(joins.ticket_of(socket(0)), Some(tickets[0]));
        assert_eq!(joins.overdue(50).len(), 0);
    }
}
