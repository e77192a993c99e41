//! What waits to be written on one connection: ranges of this turn's log, and behind them, once the kernel does not take all,
//! the connection's bounded backlog.
//!
//! HOT PATH: no allocation (once warm), no lock, no dyn.

use crate::output::backlog::{Backlog, Losses, Overflow};
use crate::output::log::{NONE, Range, TurnLog};
use crate::tables::slot::ConnId;
use std::io::IoSlice;

/// Slices per write (well below UIO_MAXIOV; beyond it the gain is nil).
const SLICES: usize = 64;

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

/// How a write went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// So many were taken; if that is not all, no more are for now.
    Bytes(usize),
    /// So many were taken, perhaps all, and some of them wait in the sink: no more for now.
    Held(usize),
    /// None for now.
    WouldBlock,
    /// The connection is broken.
    Gone,
}

/// Where bytes go: the shard's sockets, or a test's buffers.
pub trait Sink {
    /// Takes as many of these bytes as it can now.
    fn write(&mut self, conn: ConnId, slices: &[IoSlice<'_>]) -> Written;
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

/// What a flush did, for the counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) bytes: u64,
    pub(crate) writes: u64,
    pub(crate) dropped: Losses,
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

    /// Nothing queued and nothing in the backlog: a volatile packet may go out.
    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE && self.backlog.is_none()
    }

    /// The kernel is not taking bytes now.
    pub(crate) fn is_blocked(&self) -> bool {
        self.backlog.is_some()
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

    /// Writes this turn's ranges; what does not fit goes to the backlog.
    pub(crate) fn flush(
        &mut self,
        log: &mut TurnLog,
        conn: ConnId,
        sink: &mut dyn Sink,
        bytes_max: usize,
        tally: &mut Tally,
    ) -> Flushed {
        let (mut skip, mut held) = (0, false);
        while self.head != NONE && self.backlog.is_none() && !held {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let (count, total) = self.gather(log, skip, &mut slices);
            tally.writes += 1;
            match sink.write(conn, &slices[..count]) {
                Written::Bytes(n) => {
                    tally.bytes += n as u64;
                    skip = self.advance(log, skip + n);
                    if n < total {
                        break;
                    }
                }
                Written::Held(n) => {
                    tally.bytes += n as u64;
                    skip = self.advance(log, skip + n);
                    held = true;
                }
                Written::WouldBlock => break,
                Written::Gone => {
                    self.discard();
                    return Flushed::Gone;
                }
            }
        }
        if self.head == NONE {
            if held {
                // Nothing waits here, but what comes now must, and `writable` will tell when the sink is empty.
                self.backlog.get_or_insert_with(Default::default);
            }
            return if self.backlog.is_some() {
                Flushed::Waiting
            } else {
                Flushed::Empty
            };
        }
        self.keep(log, skip, bytes_max, tally)
    }

    fn gather<'a>(
        &self,
        log: &'a TurnLog,
        mut skip: usize,
        slices: &mut [IoSlice<'a>; SLICES],
    ) -> (usize, usize) {
        let (mut count, mut total, mut at) = (0, 0, self.head);
        while at != NONE && count < SLICES {
            let bytes = &log.node_bytes(at)[skip..];
            skip = 0;
            slices[count] = IoSlice::new(bytes);
            count += 1;
            total += bytes.len();
            at = log.node(at).next;
        }
        (count, total)
    }

    /// Drops `n` written bytes from the front; returns how many of the new front are written already.
    fn advance(&mut self, log: &TurnLog, mut n: usize) -> usize {
        while self.head != NONE {
            let node = log.node(self.head);
            if n < node.len() {
                return n;
            }
            n -= node.len();
            self.head = node.next;
        }
        self.tail = NONE;
        0
    }

    /// Moves what is left of this turn into the backlog. `skip` bytes of it are out already.
    fn keep(
        &mut self,
        log: &mut TurnLog,
        mut skip: usize,
        bytes_max: usize,
        tally: &mut Tally,
    ) -> Flushed {
        let backlog = self.backlog.get_or_insert_with(Default::default);
        let (mut at, mut kept) = (self.head, Ok(()));
        while at != NONE && kept.is_ok() {
            kept = log.units(at, &mut skip, |unit, sent| match sent {
                0 => backlog.push(unit, bytes_max, &mut tally.dropped),
                _ => {
                    backlog.begin(unit, sent);
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
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = backlog.gather(&mut slices);
            let total: usize = slices[..count].iter().map(|slice| slice.len()).sum();
            tally.writes += 1;
            match sink.write(conn, &slices[..count]) {
                Written::Bytes(n) => {
                    tally.bytes += n as u64;
                    backlog.advance(n);
                    if n < total {
                        return Flushed::Waiting;
                    }
                }
                Written::Held(n) => {
                    tally.bytes += n as u64;
                    backlog.advance(n);
                    return Flushed::Waiting;
                }
                Written::WouldBlock => return Flushed::Waiting,
                Written::Gone => {
                    self.discard();
                    return Flushed::Gone;
                }
            }
        }
        self.backlog = None;
        Flushed::Empty
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
