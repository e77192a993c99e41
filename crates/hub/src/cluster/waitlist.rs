//! Words to clients that wait: acks, and whole outputs. They stand in the order in which they came, and each waits for one number.

use crate::books::ledger::{Account, Booked};
use crate::bounds::{CHORES_PER_TURN, PARKED_ACKS_MAX};
use crate::seam::event::AckTo;
use crate::tables::slot::{ConnKey, SessionKey, SocketKey};
use std::collections::VecDeque;

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

impl Waits {
    /// The same with nothing to say.
    pub(crate) fn emptied(self) -> Self {
        match self {
            Self::Ack { to, .. } => Self::Ack {
                to,
                args: Box::default(),
                attachments: Vec::new(),
            },
            output => output,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Ack {
                args, attachments, ..
            } => args.len() + attachments.iter().map(Vec::len).sum::<usize>(),
            Self::Output(_) => 0,
        }
    }
}

#[derive(Debug)]
struct Parked {
    ticket: u64,
    due_ms: u64,
    what: Waits,
    /// The room is given back when it leaves.
    #[expect(dead_code, reason = "it is held, not read")]
    booked: Booked,
}

/// A list that is bounded in number and in bytes.
#[derive(Debug)]
pub(crate) struct Waitlist {
    wait_ms: u64,
    parked: VecDeque<Parked>,
    account: Account,
}

impl Waitlist {
    /// `wait_ms`: nothing waits for longer.
    pub(crate) fn new(wait_ms: u64, account: Account) -> Self {
        Self {
            wait_ms,
            parked: VecDeque::new(),
            account,
        }
    }

    /// It leaves after all that waits already. What finds no room is given back.
    #[must_use = "somebody waits for it"]
    pub(crate) fn put(&mut self, ticket: u64, what: Waits, now_ms: u64) -> Option<Waits> {
        let booked = match self.parked.len() < PARKED_ACKS_MAX {
            true => self.account.take(what.bytes()),
            false => None,
        };
        let Some(booked) = booked else {
            return Some(what);
        };
        self.parked.push_back(Parked {
            ticket,
            due_ms: now_ms + self.wait_ms,
            what,
            booked,
        });
        None
    }

    /// What waited for polls waits for a connection now; how many items moved.
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

    /// What waits for a smaller ticket, up to the first that does not.
    pub(crate) fn before(&mut self, first: u64) -> Vec<Waits> {
        self.take_while(|parked| parked.ticket < first)
    }

    /// What has waited for long enough: the turn's share.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<Waits> {
        let parked = self.parked.iter().take(CHORES_PER_TURN);
        let due = parked.take_while(|parked| parked.due_ms <= now_ms);
        let count = due.count();
        self.take_first(count)
    }

    /// What waits for such a ticket, wherever it stands.
    pub(crate) fn all(&mut self, ready: impl Fn(u64) -> bool) -> Vec<Waits> {
        // Where nothing waits for such a ticket, no list is made anew.
        if !self.parked.iter().any(|parked| ready(parked.ticket)) {
            return Vec::new();
        }
        let (own, others) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|parked| ready(parked.ticket));
        self.parked = others;
        let own: VecDeque<Parked> = own;
        own.into_iter().map(|parked| parked.what).collect()
    }

    /// The largest ticket of what `due` returns.
    pub(crate) fn last_due(&self, now_ms: u64) -> Option<u64> {
        let parked = self.parked.iter().take(CHORES_PER_TURN);
        let late = parked.take_while(|parked| parked.due_ms <= now_ms);
        late.map(|parked| parked.ticket).max()
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.parked.front().map(|parked| parked.due_ms)
    }

    fn take_while(&mut self, ready: impl Fn(&Parked) -> bool) -> Vec<Waits> {
        let count = self.parked.iter().take_while(|parked| ready(parked));
        let count = count.count();
        self.take_first(count)
    }

    fn take_first(&mut self, count: usize) -> Vec<Waits> {
        let first = self.parked.drain(..count);
        first.map(|parked| parked.what).collect()
    }

    /// Bytes of the list; those of what waits are in the books.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.parked.capacity() * size_of::<Parked>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::books::ledger::{Ledger, Stock};
    use crate::bounds::PARKED_ACKS_BYTES_MAX;
    use crate::tables::slot::{Key, SlotId};

    /// Acks that waited for other nodes filled the memory.
    #[test]
    fn acks_that_wait_had_no_bound() {
        let account = Ledger::default().open(Stock::Acks, PARKED_ACKS_BYTES_MAX);
        let mut list = Waitlist::new(50, account);
        let ack = |bytes: usize| Waits::Ack {
            to: AckTo {
                socket: Key::new(SlotId::at(0), 0),
                id: 1,
            },
            args: "x".repeat(bytes).into(),
            attachments: vec![vec![0; bytes]],
        };
        let half = PARKED_ACKS_BYTES_MAX / 4;
        assert!(list.put(1, ack(half), 0).is_none());
        assert!(list.put(1, ack(half), 0).is_none());
        assert!(list.put(1, ack(1), 0).is_some(), "too many bytes");
        assert_eq!(list.before(2).len(), 2);
        let parked = (0..PARKED_ACKS_MAX + 5).filter(|_| list.put(1, ack(0), 0).is_none());
        assert_eq!(parked.count(), PARKED_ACKS_MAX);
    }

    /// When other nodes were away, all that had waited for them left before anybody was served.
    #[test]
    fn all_that_had_waited_for_long_enough_left_in_one_turn() {
        let account = Ledger::default().open(Stock::Acks, PARKED_ACKS_BYTES_MAX);
        let mut list = Waitlist::new(50, account);
        let session = Key::new(SlotId::at(0), 0);
        let output = || Waits::Output(Carrier::Polls(session));
        let all = 2 * CHORES_PER_TURN as u64 + 3;
        (0..all).for_each(|ticket| assert!(list.put(ticket, output(), 0).is_none()));
        assert_eq!(list.last_due(50), Some(CHORES_PER_TURN as u64 - 1));
        let turns = [50; 4].map(|now_ms| list.due(now_ms).len());
        assert_eq!(turns, [CHORES_PER_TURN, CHORES_PER_TURN, 3, 0]);
        assert!(list.put(all, output(), 50).is_none());
        assert_eq!((list.due(99).len(), list.next_due_ms()), (0, Some(100)));
    }
}
