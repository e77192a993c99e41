//! What waits to be written on one connection: ranges of this turn's log, and after them, once the kernel does not take all,
//! the connection's bounded backlog.
//!
//! HOT PATH: no allocation (once warm), no lock, no dyn.

use crate::books::config::SlowConsumer;
use crate::books::metrics::Counts;
use crate::output::backlog::{Backlog, Bound, Losses, Overflow, Unit};
use crate::output::log::{NONE, Range, TurnLog};
use crate::output::sink::{Job, Outcome, SLICES, Sink, Written, write_backlog};
use crate::tables::slot::ConnId;

/// A connection's part of the turn and what the kernel has not taken yet. 24 bytes when idle.
#[derive(Debug)]
pub(crate) struct Outbox {
    head: u32,
    tail: u32,
    backlog: Option<Box<Backlog>>,
}

impl Default for Outbox {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
            backlog: None,
        }
    }
}

/// State of an outbox after a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    Empty,
    Waiting,
    Gone,
    /// Over the bound, and nothing may be dropped.
    Overflow,
}

/// What follows a write.
#[derive(Debug)]
pub(crate) enum Settled {
    /// All bytes were taken, and there are more.
    More(Job),
    Done(Flushed),
}

/// Whether something is missing now. What a newer value replaced is not.
#[inline]
pub(crate) fn has_gap(dropped: &Losses) -> bool {
    let gaps = [SlowConsumer::DropOldest, SlowConsumer::DropNewest];
    gaps.into_iter().any(|policy| dropped[policy as usize] > 0)
}

/// What a flush did, for the counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) bytes: u64,
    pub(crate) writes: u64,
    pub(crate) dropped: Losses,
}

impl Tally {
    #[inline]
    pub(crate) fn count(&self, counts: &mut Counts) {
        counts.bytes_out += self.bytes;
        counts.writes += self.writes;
        counts.lose(&self.dropped);
    }
}

impl Outbox {
    /// Queues a range. Returns `true` when the outbox had nothing from this turn yet.
    #[inline]
    pub(crate) fn push(&mut self, log: &mut TurnLog, range: Range) -> bool {
        let first = self.tail == NONE;
        self.tail = log.link(self.tail, range);
        if first {
            self.head = self.tail;
        }
        first
    }

    /// Whether nothing is queued and the backlog is empty: only then may a volatile packet go out.
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE && self.backlog.is_none()
    }

    /// Whether there is a backlog, in which what comes now must wait too: the kernel is not taking bytes, or `block` asked for it.
    pub(crate) fn is_blocked(&self) -> bool {
        self.backlog.is_some()
    }

    /// From now on bytes wait in the backlog, although the kernel would take them.
    pub(crate) fn block(&mut self) {
        self.backlog.get_or_insert_default();
    }

    /// Forgets all that waits, but for the rest of a frame whose beginning is out.
    pub(crate) fn discard_unstarted(&mut self) {
        self.head = NONE;
        self.tail = NONE;
        if let Some(backlog) = &mut self.backlog {
            backlog.discard_unstarted();
        }
    }

    /// Forgets everything (the connection is gone).
    pub(crate) fn discard(&mut self) {
        *self = Self::default();
    }

    /// What is to be written of this turn: nothing as long as a backlog waits.
    #[inline]
    pub(crate) fn submit(&self, conn: ConnId) -> Option<Job> {
        (self.head != NONE && self.backlog.is_none()).then(|| Job::new(conn, self.head))
    }

    /// Learns how that went. Bytes that the kernel did not take go to the backlog.
    #[inline]
    pub(crate) fn settle(
        &mut self,
        log: &mut TurnLog,
        outcome: Outcome,
        bound: Bound,
        tally: &mut Tally,
    ) -> Settled {
        tally.writes += 1;
        let conn = outcome.conn();
        let (taken, held) = match outcome.written() {
            Written::Bytes(taken) => (taken, false),
            Written::Held(taken) => (taken, true),
            Written::WouldBlock => (0, false),
            Written::Gone => {
                self.discard();
                return Settled::Done(Flushed::Gone);
            }
        };
        tally.bytes += taken as u64;
        let (ranges, skip) = self.advance(log, taken);
        if held {
            // Even if nothing waits here, what comes now must, and `writable` will tell when the sink is empty.
            self.backlog.get_or_insert_with(Default::default);
        } else if ranges == SLICES
            && let Some(more) = self.submit(conn)
        {
            // A write has room for so many ranges. The kernel took them all, and may take more.
            return Settled::More(more);
        }
        Settled::Done(self.keep_rest(log, skip, bound, tally))
    }

    /// Ends the flush: nothing more is written now. `skip` bytes of what is left are out already.
    #[inline]
    pub(crate) fn keep_rest(
        &mut self,
        log: &mut TurnLog,
        skip: usize,
        bound: Bound,
        tally: &mut Tally,
    ) -> Flushed {
        if self.head != NONE {
            self.keep(log, skip, bound, tally)
        } else if self.backlog.is_some() {
            Flushed::Waiting
        } else {
            Flushed::Empty
        }
    }

    /// Drops `n` written bytes from the front. Returns how many whole ranges that were, and how many bytes of the new front are
    /// written already.
    #[inline]
    fn advance(&mut self, log: &TurnLog, mut n: usize) -> (usize, usize) {
        let mut ranges = 0;
        while self.head != NONE {
            let node = log.node(self.head);
            if n < node.len() {
                return (ranges, n);
            }
            n -= node.len();
            self.head = node.next;
            ranges += 1;
        }
        self.tail = NONE;
        (ranges, 0)
    }

    /// Moves what is left of this turn into the backlog. `skip` bytes of it are out already.
    fn keep(
        &mut self,
        log: &mut TurnLog,
        mut skip: usize,
        bound: Bound,
        tally: &mut Tally,
    ) -> Flushed {
        let backlog = self.backlog.get_or_insert_with(Default::default);
        let (mut at, mut kept) = (self.head, Ok(()));
        // Above the bound the session ends, so the rest is not copied.
        while at != NONE && kept.is_ok() {
            kept = log.units(at, &mut skip, |unit, sent| match sent {
                0 => backlog.push(unit, bound, &mut tally.dropped),
                _ => {
                    backlog.begin(unit, sent, bound);
                    Ok(())
                }
            });
            at = log.node(at).next;
        }
        self.head = NONE;
        self.tail = NONE;
        match kept {
            Ok(()) => Flushed::Waiting,
            Err(Overflow) => Flushed::Overflow,
        }
    }

    /// The kernel takes bytes again.
    pub(crate) fn flush_backlog(
        &mut self,
        conn: ConnId,
        sink: &mut dyn Sink,
        tally: &mut Tally,
    ) -> Flushed {
        let Some(backlog) = &mut self.backlog else {
            return Flushed::Empty;
        };
        while !backlog.is_empty() {
            tally.writes += 1;
            let (taken, held) = match write_backlog(conn, backlog, sink) {
                Written::Bytes(taken) => (taken, false),
                Written::Held(taken) => (taken, true),
                Written::WouldBlock => return Flushed::Waiting,
                Written::Gone => {
                    self.discard();
                    return Flushed::Gone;
                }
            };
            tally.bytes += taken as u64;
            let units = backlog.advance(taken);
            // The kernel took less than it was offered, and says when it takes more.
            if held || units < SLICES && !backlog.is_empty() {
                return Flushed::Waiting;
            }
        }
        self.backlog = None;
        Flushed::Empty
    }

    /// What waits between turns, unit by unit, and how many bytes of the first are out.
    pub(crate) fn waiting(&self) -> (impl Iterator<Item = &Unit>, usize) {
        debug_assert_eq!(self.head, NONE, "a turn has not been flushed");
        let backlog = self.backlog.iter();
        let sent = self.backlog.as_ref().map_or(0, |backlog| backlog.sent());
        (backlog.flat_map(|backlog| backlog.units()), sent)
    }

    /// Goes on with what waited elsewhere. Of the first of them so many bytes are out.
    pub(crate) fn restore(&mut self, units: Vec<Unit>, sent: usize) {
        debug_assert!(self.is_empty());
        self.backlog = Some(Box::new(Backlog::restored(units, sent)));
    }

    /// What waits in the backlog, bytes.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.backlog.as_ref().map_or(0, |backlog| backlog.cost())
    }

    /// Bytes of the list of what waits; the pieces in it are counted where they are made.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.backlog
            .as_ref()
            .map_or(0, |backlog| backlog.heap_bytes() + size_of::<Backlog>())
    }
}

#[cfg(test)]
mod tests;
