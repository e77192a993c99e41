//! Deadlines. Most timers of a kind last equally long, so a queue per kind is already sorted: arming is a push, expiry a pop. A timer
//! whose slot has moved on is ignored when it comes up. It is forgotten earlier when others are armed after it, or when more owners
//! have ended than are left. Odd durations go through a heap.

use crate::books::heartbeat::Step;
use crate::bounds::STALE_MAX;
use crate::tables::slot::{AskId, ConnId, Key, SessionId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// The times that come due for a session. Each kind has one duration per process; heartbeats have one per step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SessionTimer {
    /// Send an Engine.IO ping.
    Ping(Step),
    /// Pong overdue.
    Pong,
    /// Plain protocol, check for silence.
    PlainPing(Step),
    /// No namespace joined.
    Connect,
    /// Upgrade not finished.
    Upgrade,
    /// Polling close not fetched.
    PollClose,
    /// Announced attachments not complete.
    Attachments,
}

/// What comes due for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConnTimer {
    /// Head not complete.
    Handshake,
    /// Message or body not complete.
    Message,
    /// Kept alive without a request.
    KeepAlive,
    /// Peer did not close after us.
    Linger,
}

/// The timers that the owner of an id may wait for.
pub(crate) trait Timed: Copy + Ord {
    type Kind: Copy + Ord + std::fmt::Debug + 'static;
    /// The kinds that have a lane from the start, by its number. Others get one when the first of them is armed.
    const KINDS: &'static [Self::Kind];
    fn lane(kind: Self::Kind) -> usize;
    /// The kind whose lane has this number.
    fn kind(lane: usize) -> Self::Kind;
}

impl Timed for SessionId {
    type Kind = SessionTimer;
    const KINDS: &'static [SessionTimer] = &[
        SessionTimer::Ping(Step::FIRST),
        SessionTimer::Pong,
        SessionTimer::PlainPing(Step::FIRST),
        SessionTimer::Connect,
        SessionTimer::Upgrade,
        SessionTimer::PollClose,
        SessionTimer::Attachments,
    ];

    fn lane(kind: SessionTimer) -> usize {
        match kind {
            SessionTimer::Ping(Step::FIRST) => 0,
            SessionTimer::Pong => 1,
            SessionTimer::PlainPing(Step::FIRST) => 2,
            SessionTimer::Connect => 3,
            SessionTimer::Upgrade => 4,
            SessionTimer::PollClose => 5,
            SessionTimer::Attachments => 6,
            // Longer intervals have two lanes for each length, from the second length on.
            SessionTimer::Ping(step) => Self::KINDS.len() + 2 * (step.number() - 1),
            SessionTimer::PlainPing(step) => Self::KINDS.len() + 2 * (step.number() - 1) + 1,
        }
    }

    fn kind(lane: usize) -> SessionTimer {
        match (Self::KINDS.get(lane), lane.wrapping_sub(Self::KINDS.len())) {
            (Some(kind), _) => *kind,
            (None, more) if more.is_multiple_of(2) => {
                SessionTimer::Ping(Step::numbered(more / 2 + 1))
            }
            (None, more) => SessionTimer::PlainPing(Step::numbered(more / 2 + 1)),
        }
    }
}

impl Timed for ConnId {
    type Kind = ConnTimer;
    const KINDS: &'static [ConnTimer] = &[
        ConnTimer::Handshake,
        ConnTimer::Message,
        ConnTimer::KeepAlive,
        ConnTimer::Linger,
    ];

    fn lane(kind: ConnTimer) -> usize {
        kind as usize
    }

    fn kind(lane: usize) -> ConnTimer {
        Self::KINDS[lane]
    }
}

/// A question has one deadline; how long it has depends on who answers.
impl Timed for AskId {
    type Kind = ();
    const KINDS: &'static [()] = &[()];

    fn lane(_: ()) -> usize {
        0
    }

    fn kind(_: usize) {}
}

/// Something that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Session(SessionTimer, Key<SessionId>),
    Conn(ConnTimer, Key<ConnId>),
    Ask(Key<AskId>),
}

/// Due time on the monotonic clock, milliseconds.
pub(crate) type Millis = u64;

/// Entries of one chunk of a lane.
const CHUNK: usize = 512;

/// A queue in chunks: growing never copies, and what has come due gives its memory back.
#[derive(Debug)]
struct Lane<I> {
    chunks: VecDeque<Vec<(Millis, Key<I>)>>,
    /// Entries of the first chunk that are gone.
    gone: usize,
    /// An empty chunk for the next one: a steady lane allocates nothing.
    spare: Option<Vec<(Millis, Key<I>)>>,
}

impl<I> Default for Lane<I> {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            gone: 0,
            spare: None,
        }
    }
}

impl<I> Lane<I> {
    fn push(&mut self, entry: (Millis, Key<I>)) {
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

    fn front(&self) -> Option<&(Millis, Key<I>)> {
        self.chunks.front()?.get(self.gone)
    }

    fn back(&self) -> Option<&(Millis, Key<I>)> {
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

    /// Forgets what is settled in one chunk. Two that fit into one become one.
    fn sweep(&mut self, at: usize, is_settled: impl Fn(Key<I>) -> bool)
    where
        I: Copy,
    {
        let Some(chunk) = self.chunks.get_mut(at) else {
            return;
        };
        if at == 0 {
            chunk.drain(..std::mem::take(&mut self.gone));
        }
        chunk.retain(|(_, key)| !is_settled(*key));
        let room = CHUNK - chunk.len();
        let next = self.chunks.get(at + 1).map_or(CHUNK, Vec::len);
        if room == CHUNK {
            self.spare = self.chunks.remove(at);
        } else if next <= room
            && let Some(mut next) = self.chunks.remove(at + 1)
        {
            self.chunks[at].append(&mut next);
            self.spare = Some(next);
        }
    }
}

/// A timer that comes due when it likes.
type Odd<I> = (Millis, <I as Timed>::Kind, Key<I>);

/// All timers of one table.
#[derive(Debug)]
pub(crate) struct Timetable<I: Timed> {
    lanes: Vec<Lane<I>>,
    /// Timers that are not armed in the order in which they come due.
    odd: BinaryHeap<Reverse<Odd<I>>>,
    /// Owners that ended since the last sweep began. Each may have left a timer in each lane.
    ended: usize,
    /// Chunks of each lane that the sweep under way has still to look at, from the back.
    unswept: usize,
}

impl<I: Timed> Default for Timetable<I> {
    fn default() -> Self {
        Self {
            lanes: I::KINDS.iter().map(|_| Lane::default()).collect(),
            odd: BinaryHeap::new(),
            ended: 0,
            unswept: 0,
        }
    }
}

impl<I: Timed> Timetable<I> {
    /// Arms a timer. `due` must not be earlier than that of the last one of this kind.
    pub(crate) fn arm(&mut self, kind: I::Kind, due: Millis, key: Key<I>) {
        let at = I::lane(kind);
        // A longer heartbeat gets its lane with the first session that has it (ADR 6).
        if at >= self.lanes.len() {
            self.lanes.resize_with(at + 1, Lane::default);
        }
        let lane = &mut self.lanes[at];
        debug_assert!(
            lane.back().is_none_or(|(last, _)| *last <= due),
            "lane {kind:?} not sorted"
        );
        lane.push((due, key));
    }

    /// Arms a timer of a kind that has several durations: in its queue if it comes due last there, else among the odd ones.
    pub(crate) fn arm_any(&mut self, kind: I::Kind, due: Millis, key: Key<I>) {
        let lane = self.lanes.get(I::lane(kind));
        let last = lane.and_then(Lane::back).map(|(last, _)| *last);
        if last.is_some_and(|last| due < last) {
            self.arm_odd(kind, due, key);
        } else {
            self.arm(kind, due, key);
        }
    }

    /// Arms a timer for any time.
    pub(crate) fn arm_odd(&mut self, kind: I::Kind, due: Millis, key: Key<I>) {
        self.odd.push(Reverse((due, kind, key)));
    }

    /// Forgets up to two settled timers at the head of a queue. Called once per arming, it lets a queue shrink faster than it
    /// grows: a queue begins with the oldest timer that is still waited for, not with one that was armed a deadline ago.
    pub(crate) fn forget(&mut self, kind: I::Kind, is_settled: impl Fn(Key<I>) -> bool) {
        let lane = &mut self.lanes[I::lane(kind)];
        for _ in 0..2 {
            match lane.front() {
                Some((_, key)) if is_settled(*key) => lane.pop(),
                _ => return,
            }
        }
    }

    /// An owner ended. When more have ended than live, their timers are forgotten. Each end sweeps one chunk of each lane, so
    /// nobody waits for a long sweep.
    pub(crate) fn owner_ended(&mut self, live: usize, is_settled: impl Fn(Key<I>) -> bool) {
        self.ended += 1;
        if self.unswept == 0 && self.ended > live + CHUNK {
            self.ended = 0;
            let lanes = self.lanes.iter().map(|lane| lane.chunks.len());
            self.unswept = lanes.max().unwrap_or(0);
            // Odd timers are few, so they are swept at once (ADR 6).
            self.odd.retain(|Reverse((_, _, key))| !is_settled(*key));
        }
        // From the back: chunks that a sweep removes move none of those that it has still to look at.
        if let Some(at) = self.unswept.checked_sub(1) {
            self.unswept = at;
            for lane in &mut self.lanes {
                lane.sweep(at, &is_settled);
            }
        }
    }

    fn pop_due(&mut self, now: Millis) -> Option<(I::Kind, Key<I>)> {
        if let Some(Reverse((due, kind, key))) = self.odd.peek().copied()
            && due <= now
        {
            self.odd.pop();
            return Some((kind, key));
        }
        self.lanes.iter_mut().enumerate().find_map(|(at, lane)| {
            let (_, key) = *lane.front().filter(|(due, _)| *due <= now)?;
            lane.pop();
            Some((I::kind(at), key))
        })
    }

    fn next_due(&self) -> Option<Millis> {
        let lanes = self.lanes.iter().filter_map(Lane::front);
        let odd = self.odd.peek().map(|Reverse((due, _, _))| *due);
        lanes.map(|(due, _)| *due).chain(odd).min()
    }

    fn heap_bytes(&self) -> usize {
        let chunks: usize = self.lanes.iter().map(|lane| lane.chunks.len()).sum();
        chunks * CHUNK * size_of::<(Millis, Key<I>)>() + self.odd.capacity() * size_of::<Odd<I>>()
    }
}

/// The kinds of owners that timers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owners {
    Sessions,
    Asks,
    Conns,
}

impl Owners {
    pub(crate) const ALL: [Self; 3] = [Self::Sessions, Self::Asks, Self::Conns];
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    pub(crate) sessions: Timetable<SessionId>,
    pub(crate) conns: Timetable<ConnId>,
    pub(crate) asks: Timetable<AskId>,
    /// (due, id) of server-side ack requests.
    acks: BinaryHeap<Reverse<(Millis, u64)>>,
}

impl Timers {
    pub(crate) fn arm_ack(&mut self, due: Millis, id: u64) {
        self.acks.push(Reverse((due, id)));
    }

    /// Forgets the deadlines of settled acks when they outnumber the live ones.
    pub(crate) fn compact_acks(&mut self, live: usize, is_live: impl Fn(u64) -> bool) {
        if self.acks.len() > 2 * live + STALE_MAX {
            self.acks.retain(|Reverse((_, id))| is_live(*id));
        }
    }

    pub(crate) fn pop_due(&mut self, of: Owners, now: Millis) -> Option<Due> {
        Some(match of {
            Owners::Sessions => {
                let (kind, key) = self.sessions.pop_due(now)?;
                Due::Session(kind, key)
            }
            Owners::Asks => {
                let ((), key) = self.asks.pop_due(now)?;
                Due::Ask(key)
            }
            Owners::Conns => {
                let (kind, key) = self.conns.pop_due(now)?;
                Due::Conn(kind, key)
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
        let acks = self.acks.peek().map(|Reverse((due, _))| *due);
        let tables = [
            self.sessions.next_due(),
            self.conns.next_due(),
            self.asks.next_due(),
        ];
        tables.into_iter().flatten().chain(acks).min()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.sessions.heap_bytes()
            + self.conns.heap_bytes()
            + self.asks.heap_bytes()
            + self.acks.capacity() * size_of::<(Millis, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::slot::SlotId;

    #[test]
    fn a_queue_is_as_long_as_what_it_waits_for() {
        let mut timers = Timers::default();
        let key = |index| Key::new(ConnId::at(index), 0);
        for n in 0..100_000 {
            // The oldest of the last ten is still waited for.
            timers
                .conns
                .forget(ConnTimer::Handshake, |key| SlotId::index(key.id()) + 10 < n);
            timers
                .conns
                .arm(ConnTimer::Handshake, 10_000 + u64::from(n), key(n));
        }
        assert!(
            timers.heap_bytes() <= 3 * CHUNK * 16,
            "{}",
            timers.heap_bytes()
        );
        assert_eq!(
            timers.pop_due(Owners::Conns, 200_000),
            Some(Due::Conn(ConnTimer::Handshake, key(99_989)))
        );
    }

    /// Kafka may have a minute, a token has five seconds: debug builds panicked, others gave up on the token after that minute.
    #[test]
    fn a_short_question_waited_for_a_long_one() {
        let mut timers = Timetable::<AskId>::default();
        let key = |index| Key::new(AskId::at(index), 0);
        for (index, due) in [(0, 60), (1, 5), (2, 61), (3, 7)] {
            timers.arm_any((), due, key(index));
        }
        assert_eq!(timers.next_due(), Some(5));
        let due = std::iter::from_fn(|| timers.pop_due(100));
        let due: Vec<_> = due.map(|(_, key)| key).collect();
        assert_eq!(due, [1, 3, 0, 2].map(key));
    }

    /// Nobody comes after them, so nobody takes their timers off the front.
    #[test]
    fn a_crowd_that_left_kept_its_timers_until_they_were_due() {
        const CROWD: u32 = 100_000;
        let mut timers = Timetable::<SessionId>::default();
        let key = |index| Key::new(SessionId::at(index), 0);
        for n in 0..CROWD {
            timers.arm(SessionTimer::Ping(Step::FIRST), u64::from(n), key(n));
            timers.arm(SessionTimer::Pong, u64::from(n), key(n));
        }
        timers.arm_odd(SessionTimer::Upgrade, 5, key(7));
        // Every hundredth stays. The others leave in no order: 7 has no divisor in common with their number.
        let mut left = vec![false; CROWD as usize];
        let mut live = CROWD as usize;
        for n in 0..CROWD {
            let leaver = (n * 7) % CROWD;
            if !leaver.is_multiple_of(100) {
                left[leaver as usize] = true;
                live -= 1;
                timers.owner_ended(live, |key| left[SlotId::index(key.id()) as usize]);
            }
        }
        let bytes = timers.heap_bytes();
        assert!(bytes <= 8 * CHUNK * 16, "{bytes} bytes");
        // Those that stayed hear everything, in order.
        let due = std::iter::from_fn(|| timers.pop_due(u64::from(CROWD)));
        let due: Vec<_> = due
            .filter(|(_, key)| !left[SlotId::index(key.id()) as usize])
            .collect();
        let stayed = || (0..CROWD).step_by(100).map(key);
        let expected = [SessionTimer::Ping(Step::FIRST), SessionTimer::Pong]
            .into_iter()
            .flat_map(|kind| stayed().map(move |key| (kind, key)));
        assert!(due.iter().copied().eq(expected), "{} are due", due.len());
    }

    /// What is swept is at any place of a queue, beside what comes in and what comes due.
    #[test]
    fn a_sweep_leaves_every_timer_of_the_living_in_its_order() {
        let mut timers = Timetable::<SessionId>::default();
        let key = |index| Key::new(SessionId::at(index), 0);
        let mut living = std::collections::VecDeque::new();
        let (mut left, mut seen) = (Vec::new(), Vec::new());
        for n in 0..40_000_u32 {
            timers.arm(SessionTimer::Ping(Step::FIRST), u64::from(n), key(n));
            living.push_back(n);
            left.push(false);
            if n % 8 != 0 {
                let at = (n as usize * 31) % living.len();
                let leaver = living.remove(at).expect("one of them");
                left[leaver as usize] = true;
                timers.owner_ended(living.len(), |key| left[SlotId::index(key.id()) as usize]);
            }
            if n % 1_000 == 999 {
                let due = std::iter::from_fn(|| timers.pop_due(u64::from(n / 2)));
                let due = due.map(|(_, key)| SlotId::index(key.id()));
                seen.extend(due.filter(|owner| !left[*owner as usize]));
            }
            let entries = timers.lanes[0].chunks.len() * CHUNK;
            assert!(entries <= 3 * living.len() + 8 * CHUNK, "{entries} entries");
        }
        assert!(seen.is_sorted() && seen.len() > 1_000, "{}", seen.len());
        let rest = std::iter::from_fn(|| timers.pop_due(40_000));
        let rest = rest.map(|(_, key)| SlotId::index(key.id()));
        let rest: Vec<u32> = rest.filter(|owner| !left[*owner as usize]).collect();
        let last = seen.last().copied();
        let waiting = living.iter().copied().filter(|owner| Some(*owner) > last);
        assert!(rest.into_iter().eq(waiting));
    }

    #[test]
    fn pops_what_is_due_and_no_more() {
        let mut timers = Timers::default();
        let key = |index| Key::new(SessionId::at(index), 0);
        timers.sessions.arm(SessionTimer::Pong, 50, key(1));
        timers
            .sessions
            .arm(SessionTimer::Ping(Step::FIRST), 30, key(2));
        timers.arm_ack(40, 7);
        assert_eq!(timers.next_due(), Some(30));
        assert_eq!(
            timers.pop_due(Owners::Sessions, 49),
            Some(Due::Session(SessionTimer::Ping(Step::FIRST), key(2)))
        );
        assert_eq!(timers.pop_due(Owners::Sessions, 49), None);
        assert_eq!(timers.pop_ack_due(39), None);
        assert_eq!(timers.pop_ack_due(40), Some(7));
        assert_eq!(
            timers.pop_due(Owners::Sessions, 50),
            Some(Due::Session(SessionTimer::Pong, key(1)))
        );
        assert_eq!(timers.next_due(), None);
    }

    /// Newcomers have longer intervals one moment and shorter ones the next: each length has a queue of its own, made when it is used.
    #[test]
    fn heartbeats_of_all_lengths_come_due_in_time() {
        let mut timers = Timetable::<SessionId>::default();
        let key = |index| Key::new(SessionId::at(index), 0);
        let lanes = timers.lanes.len();
        timers.arm(SessionTimer::Ping(Step::FIRST), 25_000, key(0));
        assert_eq!(timers.lanes.len(), lanes, "no queue that nobody needs");
        let mut expected = vec![(25_000, SessionTimer::Ping(Step::FIRST), key(0))];
        for n in 1..4_000_u32 {
            let step = Step::numbered(n as usize * 5 % 9);
            let kind = match n % 3 {
                0 => SessionTimer::PlainPing(step),
                _ => SessionTimer::Ping(step),
            };
            let due = 25_000 * (1 + step.number() as u64) + u64::from(n);
            timers.arm(kind, due, key(n));
            expected.push((due, kind, key(n)));
        }
        expected.sort_by_key(|(due, _, key)| (*due, *key));
        let mut heard = Vec::new();
        while let Some(due) = timers.next_due() {
            assert_eq!(timers.pop_due(due - 1), None);
            let (kind, key) = timers.pop_due(due).expect("it is due");
            heard.push((due, kind, key));
        }
        heard.sort_by_key(|(due, _, key)| (*due, *key));
        assert_eq!(heard, expected);
        for lane in 0..timers.lanes.len() {
            assert_eq!(SessionId::lane(SessionId::kind(lane)), lane);
        }
    }
}
