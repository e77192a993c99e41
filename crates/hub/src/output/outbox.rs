//! What waits to be written. During a turn every outgoing byte is encoded once, into one of two logs (`shared` for what many
//! receive, `private` for what one receives), and a connection only notes ranges of them; ranges that touch become one. So a
//! room's sixteen messages of a turn reach each member by one write of one slice, and nothing is allocated per delivery.
//! What the kernel does not take is copied into the connection's bounded backlog.
//!
//! HOT PATH: no allocation (once warm), no lock, no dyn.

use crate::books::config::SlowConsumer;
use crate::output::droppable::{compressed_event, unit, unit_rest, units_within};
use crate::tables::slot::ConnId;
use std::io::IoSlice;
use wire::websocket::deflate::Inflater;

/// A piece of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    start: u32,
    len: u32,
    shared: bool,
}

impl Range {
    /// A position that wrapped would send a client what is another's: better no shard than that. A turn stops long before; only
    /// one call of a handler can write so much.
    fn new(start: usize, end: usize, shared: bool) -> Self {
        let end = u32::try_from(end).expect("the output of a turn is less than 4 GiB");
        debug_assert!(start <= end as usize, "{start} is behind {end}");
        let start = start as u32;
        Self {
            start,
            len: end - start,
            shared,
        }
    }
}

const NONE: u32 = u32::MAX;
/// Slices per write (well below UIO_MAXIOV; beyond it the gain is nil).
const SLICES: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Node {
    range: Range,
    next: u32,
}

/// Output of one turn.
#[derive(Debug, Default)]
pub(crate) struct TurnLog {
    pub(crate) shared: Vec<u8>,
    pub(crate) private: Vec<u8>,
    nodes: Vec<Node>,
    /// Connections with something to write.
    pub(crate) dirty: Vec<ConnId>,
}

/// Capacity a log keeps between turns.
const LOG_KEEP_BYTES: usize = 4 * 1024 * 1024;

impl TurnLog {
    pub(crate) fn len(&self) -> usize {
        self.shared.len() + self.private.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.shared.capacity()
            + self.private.capacity()
            + self.nodes.capacity() * size_of::<Node>()
            + self.dirty.capacity() * size_of::<ConnId>()
    }

    /// Closes what was appended to a log since `start` into a range.
    pub(crate) fn private_range(&self, start: usize) -> Range {
        Range::new(start, self.private.len(), false)
    }

    pub(crate) fn shared_range(&self, start: usize) -> Range {
        Range::new(start, self.shared.len(), true)
    }

    pub(crate) fn bytes(&self, range: Range) -> &[u8] {
        let log = if range.shared {
            &self.shared
        } else {
            &self.private
        };
        &log[range.start as usize..(range.start + range.len) as usize]
    }

    pub(crate) fn clear(&mut self) {
        for log in [&mut self.shared, &mut self.private] {
            log.clear();
            if log.capacity() > LOG_KEEP_BYTES {
                log.shrink_to(LOG_KEEP_BYTES);
            }
        }
        self.nodes.clear();
        self.dirty.clear();
    }
}

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
    WouldBlock,
    /// The connection is broken.
    Gone,
}

/// Where bytes go: the shard's sockets, or a test's buffers.
pub trait Sink {
    fn write(&mut self, conn: ConnId, slices: &[IoSlice<'_>]) -> Written;
}

/// State of an outbox after a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    Empty,
    Waiting,
    Gone,
    /// Over the bound under `SlowConsumer::Disconnect`.
    Overflow,
}

/// What a flush did, for the counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) bytes: u64,
    pub(crate) writes: u64,
    pub(crate) dropped: u64,
}

/// The bound of an outbox and what happens there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub(crate) bytes_max: usize,
    pub(crate) policy: SlowConsumer,
}

impl Outbox {
    /// Queues a range. Returns `true` when the outbox had nothing from this turn yet.
    pub(crate) fn push(&mut self, log: &mut TurnLog, range: Range) -> bool {
        if self.tail != NONE {
            let tail = &mut log.nodes[self.tail as usize];
            if tail.range.shared == range.shared && tail.range.start + tail.range.len == range.start
            {
                tail.range.len += range.len;
                return false;
            }
        }
        let at = log.nodes.len() as u32;
        log.nodes.push(Node { range, next: NONE });
        if self.tail == NONE {
            self.head = at;
        } else {
            log.nodes[self.tail as usize].next = at;
        }
        self.tail = at;
        self.head == at
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
            backlog.bytes.truncate(backlog.sent + backlog.started);
        }
    }

    /// Forgets everything (the connection is gone).
    pub(crate) fn discard(&mut self) {
        *self = Self::default();
    }

    /// Writes this turn's ranges; what does not fit goes to the backlog.
    pub(crate) fn flush(
        &mut self,
        log: &TurnLog,
        conn: ConnId,
        sink: &mut dyn Sink,
        bound: Bound,
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
        self.keep(log, skip, bound, tally)
    }

    fn gather<'a>(
        &self,
        log: &'a TurnLog,
        mut skip: usize,
        slices: &mut [IoSlice<'a>; SLICES],
    ) -> (usize, usize) {
        let (mut count, mut total, mut at) = (0, 0, self.head);
        while at != NONE && count < SLICES {
            let node = log.nodes[at as usize];
            let bytes = &log.bytes(node.range)[skip..];
            skip = 0;
            slices[count] = IoSlice::new(bytes);
            count += 1;
            total += bytes.len();
            at = node.next;
        }
        (count, total)
    }

    /// Drops `n` written bytes from the front; returns how many of the new front are written already.
    fn advance(&mut self, log: &TurnLog, mut n: usize) -> usize {
        while self.head != NONE {
            let node = log.nodes[self.head as usize];
            if n < node.range.len as usize {
                return n;
            }
            n -= node.range.len as usize;
            self.head = node.next;
        }
        self.tail = NONE;
        0
    }

    /// Copies what is left of this turn into the backlog, and never much more than the bound.
    fn keep(&mut self, log: &TurnLog, mut skip: usize, bound: Bound, tally: &mut Tally) -> Flushed {
        let fresh = self.backlog.is_none();
        let backlog = self.backlog.get_or_insert_with(Default::default);
        let mut at = self.head;
        let mut flushed = Flushed::Waiting;
        while at != NONE && flushed == Flushed::Waiting {
            let node = log.nodes[at as usize];
            let bytes = log.bytes(node.range);
            let begun = match fresh && at == self.head {
                true => unit_rest(bytes, skip),
                false => 0,
            };
            if begun > 0 {
                backlog.started = begun;
                backlog.append(&bytes[skip..skip + begun], bound);
            }
            flushed = backlog.append_units(&bytes[skip + begun..], bound, tally);
            skip = 0;
            at = node.next;
        }
        self.head = NONE;
        self.tail = NONE;
        flushed
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
        while !backlog.pending().is_empty() {
            tally.writes += 1;
            match sink.write(conn, &[IoSlice::new(backlog.pending())]) {
                Written::Bytes(n) => {
                    tally.bytes += n as u64;
                    backlog.advance(n);
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

    pub(crate) fn heap_bytes(&self) -> usize {
        self.backlog
            .as_ref()
            .map_or(0, |b| b.bytes.capacity() + size_of::<Backlog>())
    }
}

/// Bytes the kernel did not take.
#[derive(Debug, Default)]
struct Backlog {
    bytes: Vec<u8>,
    /// Written already.
    sent: usize,
    /// Bytes at the front of `pending` that finish a frame whose beginning is out: never dropped.
    started: usize,
}

impl Backlog {
    fn pending(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    fn advance(&mut self, n: usize) {
        if n >= self.started {
            let (unit_start, cut) = (self.started, n);
            self.started = unit_rest(&self.pending()[unit_start..], cut - unit_start);
        } else {
            self.started -= n;
        }
        self.sent += n;
        if self.sent > self.bytes.len() / 2 {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Takes more bytes. It grows in a few large steps, as what it grew out of stays with the allocator for a while, and not past
    /// the bound: a thousand slow clients are a thousand bounds, not several thousand.
    fn append(&mut self, bytes: &[u8], bound: Bound) {
        if self.bytes.len() + bytes.len() > self.bytes.capacity() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
            let needed = self.bytes.len() + bytes.len();
            let grown = (self.bytes.capacity() * 4).min(bound.bytes_max);
            self.bytes
                .reserve_exact(grown.max(needed) - self.bytes.len());
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes whole units; past the bound the policy decides before more are taken. Dropping reads the whole backlog, so it comes
    /// after a quarter of the bound and not after each unit.
    fn append_units(&mut self, mut bytes: &[u8], bound: Bound, tally: &mut Tally) -> Flushed {
        let step = match bound.policy {
            SlowConsumer::Disconnect => 0,
            SlowConsumer::DropOldest => bound.bytes_max / 4,
        };
        while !bytes.is_empty() {
            let room = bound.bytes_max.saturating_sub(self.pending().len());
            let fits = units_within(bytes, room + step);
            self.append(&bytes[..fits], bound);
            bytes = &bytes[fits..];
            if self.pending().len() <= bound.bytes_max {
                continue;
            }
            if bound.policy == SlowConsumer::DropOldest {
                tally.dropped += self.drop_oldest(bound.bytes_max);
            }
            if self.pending().len() > bound.bytes_max {
                return Flushed::Overflow;
            }
        }
        Flushed::Waiting
    }

    /// Drops the oldest events until three quarters of `bytes_max` are left; returns how many. Only whole events are dropped
    /// (header and attachments together), never control frames, acks or connects. What stays moves up in place.
    fn drop_oldest(&mut self, bytes_max: usize) -> u64 {
        self.bytes.drain(..self.sent);
        self.sent = 0;
        let mut excess = self.bytes.len().saturating_sub(bytes_max / 4 * 3);
        let (mut from, mut to) = (self.started, self.started);
        let mut dropped = 0;
        let mut inflater = Inflater::default();
        while excess > 0 && from < self.bytes.len() {
            let (len, droppable) = unit(&self.bytes[from..]);
            if droppable || compressed_event(&mut inflater, &self.bytes[from..]) {
                excess = excess.saturating_sub(len);
                dropped += 1;
            } else {
                self.bytes.copy_within(from..from + len, to);
                to += len;
            }
            from += len;
        }
        self.bytes.drain(to..from);
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::droppable::tests::framed;
    use crate::tables::slot::SlotId;
    use wire::websocket::frame::{self, OpCode};

    /// Takes at most `room` bytes in all.
    struct Pipe {
        taken: Vec<u8>,
        room: usize,
    }

    impl Sink for Pipe {
        fn write(&mut self, _: ConnId, slices: &[IoSlice<'_>]) -> Written {
            let mut n = 0;
            for slice in slices {
                let take = slice.len().min(self.room - n);
                self.taken.extend_from_slice(&slice[..take]);
                n += take;
            }
            self.room -= n;
            if n == 0 {
                Written::WouldBlock
            } else {
                Written::Bytes(n)
            }
        }
    }

    fn conn() -> ConnId {
        ConnId::at(0)
    }

    const BOUND: Bound = Bound {
        bytes_max: 1000,
        policy: SlowConsumer::Disconnect,
    };

    fn append(log: &mut TurnLog, outbox: &mut Outbox, text: &str, shared: bool) {
        let buf = if shared {
            &mut log.shared
        } else {
            &mut log.private
        };
        let start = buf.len();
        frame::write_frame(buf, OpCode::Text, text.as_bytes());
        let range = if shared {
            log.shared_range(start)
        } else {
            log.private_range(start)
        };
        outbox.push(log, range);
    }

    #[test]
    fn a_position_beyond_32_bits_wrapped_to_anothers_bytes() {
        let far = u32::MAX as usize;
        assert_eq!(Range::new(far - 1, far, true).start, u32::MAX - 1);
        let beyond = std::panic::catch_unwind(|| Range::new(far + 1, far + 2, true));
        assert!(beyond.is_err());
    }

    #[test]
    fn touching_ranges_become_one_and_order_is_kept() {
        let (mut log, mut outbox) = (TurnLog::default(), Outbox::default());
        for (text, shared) in [("42a", true), ("42b", true), ("43c", false), ("42d", true)] {
            append(&mut log, &mut outbox, text, shared);
        }
        assert_eq!(log.nodes.len(), 3);
        let mut pipe = Pipe {
            taken: Vec::new(),
            room: 1000,
        };
        let flushed = outbox.flush(&log, conn(), &mut pipe, BOUND, &mut Tally::default());
        assert_eq!(flushed, Flushed::Empty);
        assert_eq!(pipe.taken, framed(&["42a", "42b", "43c", "42d"]));
    }

    #[test]
    fn whatever_the_kernel_takes_the_stream_is_the_same() {
        let texts = ["42one", "451-x", "42three", "43four", "42five"];
        let whole = framed(&texts);
        for first in 0..=whole.len() {
            let (mut log, mut outbox) = (TurnLog::default(), Outbox::default());
            for (n, text) in texts.iter().enumerate() {
                append(&mut log, &mut outbox, text, n % 2 == 0);
            }
            let mut pipe = Pipe {
                taken: Vec::new(),
                room: first,
            };
            outbox.flush(&log, conn(), &mut pipe, BOUND, &mut Tally::default());
            for _ in 0..whole.len() {
                pipe.room = 3;
                outbox.flush_backlog(conn(), &mut pipe, &mut Tally::default());
            }
            assert_eq!(pipe.taken, whole, "first write of {first}");
            assert!(outbox.is_empty());
        }
    }

    #[test]
    fn overflow_follows_the_policy() {
        let bound = Bound {
            bytes_max: 60,
            policy: SlowConsumer::Disconnect,
        };
        let (mut log, mut outbox) = (TurnLog::default(), Outbox::default());
        for _ in 0..20 {
            append(&mut log, &mut outbox, "42[\"e\"]", true);
        }
        let mut pipe = Pipe {
            taken: Vec::new(),
            room: 3,
        };
        let flushed = outbox.flush(&log, conn(), &mut pipe, bound, &mut Tally::default());
        assert_eq!(flushed, Flushed::Overflow);
    }

    #[test]
    fn a_turn_larger_than_the_bound_is_not_kept_whole() {
        for policy in [SlowConsumer::Disconnect, SlowConsumer::DropOldest] {
            let bound = Bound {
                bytes_max: 1_000,
                policy,
            };
            let mut outbox = Outbox::default();
            let mut pipe = Pipe {
                taken: Vec::new(),
                room: 3,
            };
            for _ in 0..3 {
                let mut log = TurnLog::default();
                (0..1_000).for_each(|_| append(&mut log, &mut outbox, "42[\"e\"]", true));
                outbox.flush(&log, conn(), &mut pipe, bound, &mut Tally::default());
            }
            let held = outbox.heap_bytes();
            assert!(held <= 1_350, "{policy:?} holds {held} bytes");
        }
    }

    #[test]
    fn drop_oldest_keeps_the_started_frame_acks_and_the_newest() {
        let bound = Bound {
            bytes_max: 60,
            policy: SlowConsumer::DropOldest,
        };
        let (mut log, mut outbox) = (TurnLog::default(), Outbox::default());
        let mut texts = vec!["42[\"first\"]".to_owned(), "430[1]".to_owned()];
        texts.extend((0..20).map(|n| format!("42[{n:02}]")));
        for text in &texts {
            append(&mut log, &mut outbox, text, true);
        }
        let mut pipe = Pipe {
            taken: Vec::new(),
            room: 4,
        };
        let mut tally = Tally::default();
        assert_eq!(
            outbox.flush(&log, conn(), &mut pipe, bound, &mut tally),
            Flushed::Waiting
        );
        assert!(tally.dropped > 0);
        pipe.room = 1000;
        outbox.flush_backlog(conn(), &mut pipe, &mut tally);
        let keep = 20 - tally.dropped as usize;
        let mut expected = vec!["42[\"first\"]".to_owned(), "430[1]".to_owned()];
        expected.extend((20 - keep..20).map(|n| format!("42[{n:02}]")));
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        assert_eq!(pipe.taken, framed(&expected));
    }
}
