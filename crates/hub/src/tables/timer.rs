//! Deadlines. Most timers of a kind last equally long, so a queue per kind is already sorted: arming is a push, expiry a pop,
//! and a timer whose slot has moved on is ignored when it comes up, or forgotten before that when others come in behind it. Odd
//! durations go through a heap.

use crate::tables::slab::Key;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What comes due. Each kind has one duration per process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Session: send an Engine.IO ping.
    Ping,
    /// Session: pong overdue.
    Pong,
    /// Session: plain protocol, check for silence.
    PlainPing,
    /// Session: no namespace joined.
    Connect,
    /// Session: upgrade not finished.
    Upgrade,
    /// Session: polling close not fetched.
    PollClose,
    /// Session: announced attachments not complete.
    Attachments,
    /// Question to the control plane: no answer.
    Ask,
    /// Conn: head not complete.
    Handshake,
    /// Conn: message or body not complete.
    Message,
    /// Conn: kept alive without a request.
    KeepAlive,
    /// Conn: peer did not close after us.
    Linger,
}

const KINDS: usize = Kind::Linger as usize + 1;
const ALL: [Kind; KINDS] = [
    Kind::Ping,
    Kind::Pong,
    Kind::PlainPing,
    Kind::Connect,
    Kind::Upgrade,
    Kind::PollClose,
    Kind::Attachments,
    Kind::Ask,
    Kind::Handshake,
    Kind::Message,
    Kind::KeepAlive,
    Kind::Linger,
];

/// Due time on the monotonic clock, milliseconds.
pub(crate) type Millis = u64;

/// Entries of one chunk of a lane.
const CHUNK: usize = 512;

/// A queue in chunks: growing never copies, and what has come due gives its memory back.
#[derive(Debug, Default)]
struct Lane {
    chunks: VecDeque<Vec<(Millis, Key)>>,
    /// Entries of the first chunk that are gone.
    gone: usize,
    /// An empty chunk for the next one: a steady lane allocates nothing.
    spare: Option<Vec<(Millis, Key)>>,
}

impl Lane {
    fn push(&mut self, entry: (Millis, Key)) {
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(entry),
            _ => {
                let spare = self.spare.take();
                let mut chunk = spare.unwrap_or_else(|| Vec::with_capacity(CHUNK));
                chunk.push(entry);
                self.chunks.push_back(chunk);
            }
        }
    }

    fn front(&self) -> Option<&(Millis, Key)> {
        self.chunks.front()?.get(self.gone)
    }

    fn back(&self) -> Option<&(Millis, Key)> {
        self.chunks.back()?.last()
    }

    fn pop(&mut self) {
        let last = self.chunks.len() == 1;
        let Some(chunk) = self.chunks.front_mut() else {
            return;
        };
        self.gone += 1;
        if self.gone < chunk.len() {
            return;
        }
        self.gone = 0;
        if last {
            chunk.clear();
        } else if let Some(mut chunk) = self.chunks.pop_front() {
            chunk.clear();
            self.spare = Some(chunk);
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    lanes: [Lane; KINDS],
    /// Timers that are not armed in the order in which they come due.
    odd: BinaryHeap<Reverse<(Millis, Kind, Key)>>,
    /// (due, id) of server-side ack requests.
    acks: BinaryHeap<Reverse<(Millis, u64)>>,
}

impl Timers {
    /// Arms a timer. `due` must not be earlier than that of the last one of this kind.
    pub(crate) fn arm(&mut self, kind: Kind, due: Millis, key: Key) {
        let lane = &mut self.lanes[kind as usize];
        debug_assert!(
            lane.back().is_none_or(|(last, _)| *last <= due),
            "lane {kind:?} not sorted"
        );
        lane.push((due, key));
    }

    /// Forgets timers at the head of a queue that have nothing to do any more: more than one arming adds. So while others come, a
    /// queue begins with the oldest that is still waited for, not with what was armed a deadline ago.
    pub(crate) fn forget(&mut self, kind: Kind, is_settled: impl Fn(Key) -> bool) {
        let lane = &mut self.lanes[kind as usize];
        for _ in 0..2 {
            match lane.front() {
                Some((_, key)) if is_settled(*key) => lane.pop(),
                _ => return,
            }
        }
    }

    /// Arms a timer for any time.
    pub(crate) fn arm_odd(&mut self, kind: Kind, due: Millis, key: Key) {
        self.odd.push(Reverse((due, kind, key)));
    }

    pub(crate) fn arm_ack(&mut self, due: Millis, id: u64) {
        self.acks.push(Reverse((due, id)));
    }

    /// Forgets the deadlines of settled acks when they outnumber the live ones.
    pub(crate) fn compact_acks(&mut self, live: usize, is_live: impl Fn(u64) -> bool) {
        if self.acks.len() > 2 * live + 1024 {
            self.acks.retain(|Reverse((_, id))| is_live(*id));
        }
    }

    pub(crate) fn pop_due(&mut self, now: Millis) -> Option<(Kind, Key)> {
        if let Some(Reverse((due, kind, key))) = self.odd.peek().copied()
            && due <= now
        {
            self.odd.pop();
            return Some((kind, key));
        }
        ALL.into_iter().find_map(|kind| {
            let lane = &mut self.lanes[kind as usize];
            match lane.front() {
                Some((due, key)) if *due <= now => {
                    let key = *key;
                    lane.pop();
                    Some((kind, key))
                }
                _ => None,
            }
        })
    }

    pub(crate) fn pop_ack_due(&mut self, now: Millis) -> Option<u64> {
        match self.acks.peek() {
            Some(Reverse((due, id))) if *due <= now => {
                let id = *id;
                self.acks.pop();
                Some(id)
            }
            _ => None,
        }
    }

    pub(crate) fn next_due(&self) -> Option<Millis> {
        let lanes = self
            .lanes
            .iter()
            .filter_map(|lane| lane.front().map(|(due, _)| *due));
        let odd = self.odd.peek().map(|Reverse((due, _, _))| *due);
        lanes
            .chain(odd)
            .chain(self.acks.peek().map(|Reverse((due, _))| *due))
            .min()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.lanes
            .iter()
            .map(|lane| lane.chunks.len() * CHUNK * size_of::<(Millis, Key)>())
            .sum::<usize>()
            + self.odd.capacity() * size_of::<(Millis, Kind, Key)>()
            + self.acks.capacity() * size_of::<(Millis, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_as_long_as_what_it_waits_for() {
        let mut timers = Timers::default();
        let key = |index| Key {
            index,
            generation: 0,
        };
        for n in 0..100_000 {
            // Of the last ten, the oldest is still waited for.
            timers.forget(Kind::Handshake, |key| key.index + 10 < n);
            timers.arm(Kind::Handshake, 10_000 + u64::from(n), key(n));
        }
        assert!(
            timers.heap_bytes() <= 3 * CHUNK * 16,
            "{}",
            timers.heap_bytes()
        );
        assert_eq!(
            timers.pop_due(200_000),
            Some((Kind::Handshake, key(99_989)))
        );
    }

    #[test]
    fn pops_what_is_due_and_no_more() {
        let mut timers = Timers::default();
        let key = |index| Key {
            index,
            generation: 0,
        };
        timers.arm(Kind::Pong, 50, key(1));
        timers.arm(Kind::Ping, 30, key(2));
        timers.arm_ack(40, 7);
        assert_eq!(timers.next_due(), Some(30));
        assert_eq!(timers.pop_due(49), Some((Kind::Ping, key(2))));
        assert_eq!(timers.pop_due(49), None);
        assert_eq!(timers.pop_ack_due(39), None);
        assert_eq!(timers.pop_ack_due(40), Some(7));
        assert_eq!(timers.pop_due(50), Some((Kind::Pong, key(1))));
        assert_eq!(timers.next_due(), None);
    }
}
