//! A worker's process: what it has, and what it says of that.

use backend::Link;
use backend::proto::command::What as Order;
use backend::proto::{self, FromWorker, ToWorker};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A process. Messages to it and from it are under way for a while.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) instance: u64,
    pub(super) life: u64,
    pub(super) link: Option<Link>,
    pub(super) welcomed: bool,
    pub(super) down: VecDeque<(u64, ToWorker)>,
    pub(super) up: VecDeque<(u64, FromWorker)>,
    pub(super) received: u64,
    /// Number of the last item that it has begun.
    pub(super) begun: u64,
    /// Items that it has begun and not handled.
    pub(super) open: BTreeSet<u64>,
    /// Rows that it has not said.
    pub(super) rows: Vec<u64>,
    /// All up to this number were said to be handled, but for `open`.
    pub(super) told: u64,
    /// It says `begun` before it handles an item that is alone, and has said it of this one.
    pub(super) announces: bool,
    pub(super) announced: u64,
    pub(super) inbox: VecDeque<proto::Item>,
    pub(super) commands: u64,
    pub(super) kept: VecDeque<(u64, proto::Command)>,
    /// Answers that it gives later.
    pub(super) owes: Vec<(String, u64)>,
    /// Decisions that it makes later.
    pub(super) decides: Vec<Order>,
    /// Its sockets, and which of the connections of its client each is.
    pub(super) sockets: BTreeMap<String, usize>,
    pub(super) stalled_until: u64,
    /// Until then it speaks and handles nothing.
    pub(super) deaf_until: u64,
    pub(super) back_at: u64,
    pub(super) leaving: bool,
}

impl Process {
    /// Numbers in order as rows.
    pub(super) fn row(rows: &mut Vec<u64>, number: u64) {
        match rows.last_mut() {
            Some(last) if *last + 1 == number => *last = number,
            _ => rows.extend([number, number]),
        }
    }

    /// It comes back: what it said last may be lost.
    pub(super) fn tell_all(&mut self) {
        self.rows.clear();
        for number in 1..=self.told {
            if !self.open.contains(&number) {
                Self::row(&mut self.rows, number);
            }
        }
    }

    /// What it has handled: all up to a number, and rows above it.
    pub(super) fn done(&mut self) -> (u64, Vec<u64>) {
        for number in self.told + 1..=self.begun {
            if !self.open.contains(&number) {
                Self::row(&mut self.rows, number);
            }
        }
        self.told = self.begun;
        let handled = self.open.first().map_or(self.begun, |oldest| oldest - 1);
        (handled, std::mem::take(&mut self.rows))
    }
}
