//! A client that is told of its join misses nothing that other nodes publish from then on: the ack waits until they know that
//! this one has members, but not for long. Waiting joins are in order, so one number says how far other nodes are.

use crate::seam::event::AckTo;
use crate::tables::slot::SocketKey;
use std::collections::{HashMap, VecDeque};

/// Rooms that wait for other nodes; while these cannot be reached, more are taken for known.
const OPEN_MAX: usize = 65_536;

/// An ack that waits.
#[derive(Debug)]
pub(crate) struct Parked {
    ticket: u64,
    due_ms: u64,
    pub(crate) to: AckTo,
    pub(crate) args: Box<str>,
    pub(crate) attachments: Vec<Vec<u8>>,
}

#[derive(Debug)]
pub(crate) struct Joins {
    wait_ms: u64,
    given: u64,
    /// Keys that other nodes do not know yet, in the order of their tickets.
    open: VecDeque<(u64, u64)>,
    tickets: HashMap<u64, u64>,
    /// The last socket that joined such a room.
    joined: Option<(SocketKey, u64)>,
    parked: VecDeque<Parked>,
}

impl Joins {
    pub(crate) fn new(wait_ms: u64) -> Self {
        Self {
            wait_ms,
            given: 0,
            open: VecDeque::new(),
            tickets: HashMap::new(),
            joined: None,
            parked: VecDeque::new(),
        }
    }

    /// A key has its first member here; the ticket by which it is confirmed.
    pub(crate) fn hold(&mut self, key: u64) -> u64 {
        self.given += 1;
        if self.open.len() == OPEN_MAX
            && let Some((ticket, _)) = self.open.front()
        {
            self.forget(*ticket);
        }
        self.open.push_back((self.given, key));
        self.tickets.insert(key, self.given);
        self.given
    }

    /// A socket joined the room of a key.
    pub(crate) fn joined(&mut self, socket: SocketKey, key: u64) {
        if let Some(ticket) = self.tickets.get(&key) {
            self.joined = Some((socket, *ticket));
        }
    }

    /// Whether an ack of this socket must wait; if so, `parked` makes it.
    pub(crate) fn parks(&self, socket: SocketKey) -> bool {
        let waits = |ticket: u64| self.open.front().is_some_and(|(open, _)| *open <= ticket);
        matches!(self.joined, Some((joined, ticket)) if joined == socket && waits(ticket))
    }

    pub(crate) fn park(&mut self, to: AckTo, args: &str, attachments: &[Vec<u8>], now_ms: u64) {
        self.parked.push_back(Parked {
            // Behind the acks that wait already, so that the first of the queue is the first that may leave.
            ticket: self.joined.map_or(0, |(_, ticket)| ticket),
            due_ms: now_ms + self.wait_ms,
            to,
            args: args.into(),
            attachments: attachments.to_vec(),
        });
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
    }

    /// Other nodes know the keys up to a ticket; the acks that may leave now.
    pub(crate) fn confirmed(&mut self, ticket: u64) -> Vec<Parked> {
        self.forget(ticket);
        let first = self.open.front().map_or(u64::MAX, |(ticket, _)| *ticket);
        self.take_while(|parked| parked.ticket < first)
    }

    /// The acks that have waited for long enough.
    pub(crate) fn due(&mut self, now_ms: u64) -> Vec<Parked> {
        self.take_while(|parked| parked.due_ms <= now_ms)
    }

    fn take_while(&mut self, ready: impl Fn(&Parked) -> bool) -> Vec<Parked> {
        let count = self.parked.iter().take_while(|parked| ready(parked));
        let count = count.count();
        self.parked.drain(..count).collect()
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.parked.front().map(|parked| parked.due_ms)
    }
}
