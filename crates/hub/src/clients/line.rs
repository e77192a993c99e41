//! The connections of a shard, what waits of what they sent, and what is on its way to them.

use crate::books::faults::{self, Fault};
use crate::books::limits::Limits;
use crate::books::metrics::{Counts, Limit};
use crate::bounds::SQUEEZED_BYTES_MAX;
use crate::clients::conn::{Conn, State};
use crate::clients::intake::Intake;
use crate::clients::polls::Polls;
use crate::clients::session::Session;
use crate::clients::table::Table;
use crate::output::backlog::{Backlog, Bound, Fate};
use crate::output::budget::Budget;
use crate::output::compression::{Codecs, Deflate};
use crate::output::log::{Range, TurnLog};
use crate::output::outbox::{Flushed, Settled, Tally, has_gap};
use crate::output::piece::{Piece, Pool};
use crate::output::sink::{Job, Outcome, Sink, Submission};
use crate::tables::clock::Clock;
use crate::tables::slot::{ConnId, ConnKey};
use crate::tables::timer::ConnTimer;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) conns: Table<ConnId, Conn>,
    pub(crate) intake: Intake,
    pub(super) log: TurnLog,
    /// Empty between flushes; kept for its memory.
    submission: Submission,
    /// What waits beyond the turn.
    pub(super) pool: Arc<Pool>,
    /// Keys of events that replace each other. Clients choose what is hashed.
    pub(super) hasher: RandomState,
    pub(crate) codecs: Codecs,
    /// Reused while encoding.
    pub(super) scratch: Vec<u8>,
    pub(crate) budget: Budget,
    pub(crate) polls: Polls,
    /// Connections whose output waits no more.
    released: Vec<ConnId>,
    /// No connection is accepted any more: no other request follows an answer.
    pub(crate) answers_are_last: bool,
}

impl Line {
    /// Whether the connection speaks TLS and may bring the next request of its client: one that another node relays brings only one.
    pub(crate) fn is_secure(&self, conn: ConnId) -> bool {
        let slot = self.conns.get(conn);
        slot.is_some_and(|slot| slot.origin.stays_secure())
    }

    pub(crate) fn new(pool: Arc<Pool>, intake: Intake) -> Self {
        Self {
            conns: Table::default(),
            intake,
            log: TurnLog::new(Arc::clone(&pool)),
            submission: Submission::default(),
            pool,
            hasher: RandomState::new(),
            codecs: Codecs::default(),
            scratch: Vec::new(),
            budget: Budget::default(),
            polls: Polls::default(),
            released: Vec::new(),
            answers_are_last: false,
        }
    }

    /// A connection comes. Its first request is waited for, but not for ever.
    pub(crate) fn open(&mut self, clock: &mut Clock, limits: &Limits, peer: IpAddr) -> ConnId {
        let conn = self.conns.insert(Conn::new(peer)).id();
        self.arm(clock, ConnTimer::Handshake, limits.handshake_timeout, conn);
        conn
    }

    /// Output that waits for the client of a session, in whatever way it is fetched.
    pub(crate) fn unsent_bytes(&self, session: &Session) -> usize {
        let conn = self.conns.get(session.conn);
        let polling = session.polling.as_ref();
        conn.map_or(0, |conn| conn.outbox.waiting_bytes())
            + polling.map_or(0, |polling| polling.queue.cost())
    }

    /// Drops that output, but for what has begun to leave.
    pub(crate) fn discard_unsent(&mut self, session: &mut Session) {
        if let Some(polling) = &mut session.polling {
            polling.queue = Backlog::default();
        }
        if let Some(conn) = self.conns.get_mut(session.conn) {
            conn.outbox.discard_unstarted();
        }
    }

    /// What may wait for one connection now, and whether that is less than usual because too much waits in the whole process.
    pub(crate) fn outbox_bytes_max(&self, limits: &Limits) -> (usize, bool) {
        let squeezed = limits.waiting_bytes_max > 0
            && self.pool.process_bytes() > limits.waiting_bytes_max as u64;
        match squeezed {
            true => (limits.outbox_bytes_max.min(SQUEEZED_BYTES_MAX), true),
            false => (limits.outbox_bytes_max, false),
        }
    }

    /// The turn has done its share: flush before going on.
    pub(crate) fn is_full(&self, limits: &Limits) -> bool {
        self.budget.is_spent(limits, self.log.len())
    }

    /// Queues a range of a turn log on a connection. HOT PATH.
    #[inline]
    pub(crate) fn push(&mut self, conn: impl Into<Option<ConnId>>, range: Range) {
        let Some(conn) = conn.into() else {
            return;
        };
        let Some(slot) = self.conns.get_mut(conn) else {
            return;
        };
        if slot.outbox.push(&mut self.log, range) && !slot.dirty {
            slot.dirty = true;
            self.log.dirty.push(conn);
        }
    }

    /// Lets `write` append to the private log and queues the result on a connection.
    pub(crate) fn reply(
        &mut self,
        conn: impl Into<Option<ConnId>>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let log = self.log.bytes_mut(false);
        let start = log.len();
        write(log);
        if log.len() > start {
            // Answers, heartbeats and ends are never dropped for a slow client.
            let range = self.log.close(false, start, Fate::Fixed);
            self.push(conn, range);
        }
    }

    /// Output of a connection waits, from this turn's on, until it was released as often.
    pub(crate) fn hold(&mut self, conn: ConnId, times: u16) {
        if times > 0
            && let Some(slot) = self.conns.get_mut(conn)
        {
            slot.lag.hold(times);
            // With a backlog in place the flush writes nothing of this connection.
            slot.outbox.block();
        }
    }

    /// One reason fewer for output to wait.
    pub(crate) fn release(&mut self, conn: ConnKey) {
        if let Some(slot) = self.conns.live_mut(conn)
            && slot.lag.release()
        {
            self.released.push(conn.id());
        }
    }

    /// The connections whose output waits no more.
    pub(crate) fn take_released(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.released)
    }

    /// Arms a timer of a connection.
    pub(crate) fn arm(&self, clock: &mut Clock, kind: ConnTimer, delay: Duration, conn: ConnId) {
        let (due, key) = (clock.after(delay), self.conns.key(conn));
        let timers = &mut clock.timers.conns;
        // Nearly all handshakes end long before their time: their lane is kept short.
        if kind == ConnTimer::Handshake {
            timers.forget(kind, |key| {
                let slot = self.conns.live(key);
                slot.is_none_or(|slot| slot.exchange.has_served())
            });
        }
        timers.arm(kind, due, key);
    }

    /// Ends a connection once everything queued on it is written.
    pub(crate) fn finish(&mut self, clock: &mut Clock, limits: &Limits, conn: ConnId) {
        let Some(slot) = self.conns.get_mut(conn) else {
            return;
        };
        if matches!(slot.state, State::Finishing | State::Linger) {
            return;
        }
        slot.state = State::Finishing;
        slot.session = None;
        slot.unread.discard();
        // The flush shuts the connection, also one that has nothing to write.
        if !std::mem::replace(&mut slot.dirty, true) {
            self.log.dirty.push(conn);
        }
        self.arm(clock, ConnTimer::Linger, limits.close_timeout, conn);
    }

    /// Takes a connection out, and its timers if many have none to wait for.
    pub(crate) fn remove(&mut self, clock: &mut Clock, conn: ConnId) -> Option<Conn> {
        let slot = self.conns.remove(conn)?;
        let (conns, timers) = (&self.conns, &mut clock.timers.conns);
        timers.owner_ended(conns.len(), |key| conns.live(key).is_none());
        Some(slot)
    }

    /// The answer to a poll arrived, or nobody will ever know.
    pub(crate) fn forget_answer(&mut self, conn: ConnId) {
        if let Some(slot) = self.conns.get_mut(conn)
            && slot.exchange.prove()
        {
            self.polls.confirm(conn);
        }
    }

    /// Counts bytes that come after the end. Some were on their way when the peer was told, and are no offence. A peer that goes on is not
    /// read any more, which costs nothing. It is not cut before its time, for then it would be back at once.
    pub(crate) fn ignore(&mut self, counts: &mut Counts, conn: ConnId, len: usize) {
        if let Some(slot) = self.conns.get_mut(conn)
            && slot.unread.ignore(len)
        {
            counts.hit(Limit::Ignored);
        }
    }

    /// How a connection's messages are to be compressed.
    pub(crate) fn deflate_of(&self, conn: Option<ConnId>) -> Deflate {
        let slot = self.conns.get(conn);
        slot.map_or(Deflate::Off, |slot| slot.handshake.deflate())
    }

    // ---- the end of a turn --------------------------------------------------------------------------------------------

    pub(crate) fn has_output(&self) -> bool {
        !self.log.dirty.is_empty()
    }

    /// The connections with output.
    pub(crate) fn take_dirty(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.log.dirty)
    }

    /// All output is with the kernel or in backlogs. `dirty` comes back, so that it need not be allocated again.
    pub(crate) fn end_flush(&mut self, dirty: Vec<ConnId>) {
        if dirty.capacity() > self.log.dirty.capacity() {
            self.log.dirty = dirty;
        }
        self.log.clear();
    }

    /// Bytes of output of this turn.
    pub(crate) fn log_bytes(&self) -> usize {
        self.log.len()
    }

    /// Bytes that wait in all outboxes.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.pool.bytes()
    }

    /// Writes what the turn has for these connections. `after` gets the connections for which something follows. It is looked at when
    /// every outbox here has learnt how its write went: what follows may discard, and must know which frames have begun.
    pub(crate) fn flush(
        &mut self,
        batch: &[ConnId],
        sink: &mut dyn Sink,
        (limits, counts): (&Limits, &mut Counts),
        after: &mut Vec<(ConnId, Flushed)>,
    ) {
        let mut submission = std::mem::take(&mut self.submission);
        for conn in batch {
            let Some(slot) = self.conns.get_mut(*conn) else {
                continue;
            };
            // The mark goes now: what follows the write may give the connection output again.
            slot.dirty = false;
            match slot.outbox.submit(*conn) {
                Some(job) => submission.push(job),
                // While a backlog waits nothing of the turn is written: it joins the backlog.
                None => {
                    self.settle(*conn, None, (limits, counts), after);
                }
            }
        }
        while !submission.is_empty() {
            let reaped = submission.write(&self.log, sink);
            submission = reaped.settle(|outcome| {
                self.settle(outcome.conn(), Some(outcome), (limits, counts), after)
            });
        }
        self.submission = submission;
    }

    /// Tells an outbox how its write went, or that there was nothing to write. Returns what it wants written next.
    #[inline]
    fn settle(
        &mut self,
        conn: ConnId,
        outcome: Option<Outcome>,
        (limits, counts): (&Limits, &mut Counts),
        after: &mut Vec<(ConnId, Flushed)>,
    ) -> Option<Job> {
        let (mut bytes_max, squeezed) = self.outbox_bytes_max(limits);
        let slot = self.conns.get_mut(conn)?;
        if slot.exchange.is_unproven() {
            // The answer was bounded when it was a queue; here it waits for the kernel.
            bytes_max = bytes_max.saturating_mul(4);
        }
        let is_held = slot.lag.is_held() && !faults::is_back(Fault::NewcomerSlow);
        if is_held {
            // Held output waits for other nodes: its client is not slow, and is not squeezed.
            bytes_max = bytes_max.max(limits.outbox_bytes_max);
        }
        let bound = match squeezed && !is_held {
            true => Bound::strict(bytes_max),
            false => Bound::beside_one(bytes_max),
        };
        let (log, mut tally) = (&mut self.log, Tally::default());
        let settled = match outcome {
            Some(outcome) => slot.outbox.settle(log, outcome, bound, &mut tally),
            None => Settled::Done(slot.outbox.keep_rest(log, 0, bound, &mut tally)),
        };
        tally.count(counts);
        let flushed = match settled {
            Settled::More(job) => return Some(job),
            Settled::Done(flushed) => flushed,
        };
        if squeezed && (flushed == Flushed::Overflow || tally.dropped.iter().any(|n| *n > 0)) {
            counts.hit(Limit::WaitingBytes);
        }
        if has_gap(&tally.dropped) {
            slot.lag.widen();
        }
        // Nothing follows most writes: those connections are not looked at once more.
        let ends = slot.state == State::Finishing;
        match flushed {
            Flushed::Waiting if !slot.lag.is_fresh() => {}
            Flushed::Empty if !ends && slot.lag.is_whole() => {}
            _ => after.push((conn, flushed)),
        }
        None
    }

    // ---- buffers ------------------------------------------------------------------------------------------------------

    /// An empty buffer to work in; [`Line::recycle`] takes it back.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.scratch);
        buffer.clear();
        buffer
    }

    pub(crate) fn recycle(&mut self, buffer: Vec<u8>) {
        self.scratch = buffer;
    }

    /// A copy that may wait beyond the turn.
    pub(crate) fn piece(&self, bytes: &[u8]) -> Piece {
        Piece::new(bytes, &self.pool)
    }

    /// The key of events that replace each other.
    pub(crate) fn key_of(&self, event: impl Hash) -> u64 {
        self.hasher.hash_one(event)
    }

    /// Appends one unit to a log. `write` gets the log and a buffer to work in.
    #[inline]
    pub(crate) fn append(
        &mut self,
        shared: bool,
        fate: Fate,
        write: impl FnOnce(&mut Vec<u8>, &mut Vec<u8>),
    ) -> Range {
        let log = self.log.bytes_mut(shared);
        let start = log.len();
        write(log, &mut self.scratch);
        self.log.close(shared, start, fate)
    }

    // ---- for checks ---------------------------------------------------------------------------------------------------

    pub(crate) fn is_dirty(&self, conn: ConnId) -> bool {
        self.log.dirty.contains(&conn)
    }

    /// Bytes of what waits, of the turn's log, and of compressors.
    pub(crate) fn heap_bytes(&self) -> [usize; 3] {
        let waiting = self.pool.bytes() as usize;
        let log = self.log.heap_bytes() + self.submission.heap_bytes();
        [waiting, log, self.codecs.heap_bytes()]
    }
}
