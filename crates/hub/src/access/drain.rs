//! Sessions that are to leave: those whose time has come, those that wait for a pause of their client, and when newcomers may come back.

use crate::bounds::{
    IDLE_MS_MAX, LEAVE_LOOK_MS, LEAVE_LOOKS_MAX, LEAVE_STEP_MS, PAUSE_MS, QUIET_MS, SPREAD_MIN_MS,
};
use crate::tables::slot::{SessionId, SessionKey};
use foldhash::fast::FixedState;
use std::collections::{HashMap, VecDeque};

#[derive(Debug, Default)]
pub(crate) enum Drain {
    /// Nobody wants the hub to end.
    #[default]
    Off,
    Closing(Leaving),
    /// Every session has been told to go.
    Done,
}

impl Drain {
    /// No newcomer is let in.
    pub(crate) fn is_on(&self) -> bool {
        !matches!(self, Self::Off)
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Every session of this hub has been told to go.
    pub(crate) fn has_sent_all(&self) -> bool {
        match self {
            Self::Off => false,
            Self::Closing(leaving) => leaving.has_sent_all(),
            Self::Done => true,
        }
    }

    /// The sessions that leave now, while there are any.
    pub(crate) fn leaving(&mut self) -> Option<&mut Leaving> {
        match self {
            Self::Closing(leaving) => Some(leaving),
            Self::Off | Self::Done => None,
        }
    }

    /// When sessions are looked at next.
    pub(crate) fn next_due(&self, now_ms: u64) -> Option<u64> {
        match self {
            Self::Closing(leaving) => Some(leaving.next_due(now_ms)),
            Self::Off | Self::Done => None,
        }
    }

    /// In how many milliseconds a client may come back: after what is left of the window, each at a time of its own.
    pub(crate) fn delay_ms(&self, now_ms: u64, dice: [u8; 2]) -> u64 {
        match self {
            Self::Closing(leaving) => leaving.delay_ms(now_ms, dice),
            Self::Off | Self::Done => spread_ms(0, dice),
        }
    }
}

fn spread_ms(window_ms: u64, dice: [u8; 2]) -> u64 {
    dealt_ms(window_ms.max(SPREAD_MIN_MS), dice)
}

/// A random time within this one, and at least a millisecond.
fn dealt_ms(within_ms: u64, dice: [u8; 2]) -> u64 {
    let dice = u64::from(u16::from_be_bytes(dice));
    1 + within_ms * dice / u64::from(u16::MAX)
}

/// How fast sessions leave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Their times are spread over so long.
    pub(crate) window_ms: u64,
    /// A session that never pauses has so long after its time has come.
    pub(crate) patience_ms: u64,
}

impl Pace {
    /// `false`: all leave at once.
    pub(crate) fn takes_time(self) -> bool {
        self.window_ms > 0 || self.patience_ms > 0
    }
}

/// Sessions that leave over a window, each in a pause of its client.
#[derive(Debug)]
pub(crate) struct Leaving {
    started_ms: u64,
    pace: Pace,
    /// The silence that makes a client an idle one. The first leave after so long: by then it is known which clients are idle.
    idle_ms: u64,
    total: usize,
    /// The time of these has not come. The last one is the next.
    left: Vec<SessionKey>,
    /// The clients of the first so many of them have not been told. They stay until they are.
    untold: usize,
    due: VecDeque<Due>,
    /// Other shards have sessions still, and newcomers are told here as there when to come back.
    awaits_others: bool,
    /// When clients said something last, of those that did since it began.
    spoke: HashMap<SessionId, u64, FixedState>,
}

/// A session whose time has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    pub(crate) session: SessionKey,
    since_ms: u64,
}

/// What becomes of a session whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Its client is in a pause: what it says next, it says to another node.
    Goes,
    /// It never paused, and has to go.
    GoesBusy,
    Stays,
}

impl Leaving {
    pub(crate) fn new(now_ms: u64, pace: Pace, sessions: Vec<SessionKey>) -> Self {
        Self {
            started_ms: now_ms,
            pace,
            // A short window has no second to wait for that (ADR 49).
            idle_ms: IDLE_MS_MAX.min(pace.window_ms / 4),
            total: sessions.len(),
            left: sessions,
            untold: 0,
            due: VecDeque::new(),
            awaits_others: false,
            spoke: HashMap::default(),
        }
    }

    /// It goes on until the sessions of other shards have left, too.
    pub(crate) fn awaiting_others(self, awaits_others: bool) -> Self {
        Self {
            awaits_others,
            ..self
        }
    }

    pub(crate) fn awaits(&self) -> bool {
        self.awaits_others
    }

    pub(crate) fn others_have_left(&mut self) {
        self.awaits_others = false;
    }

    /// The clients of the first so many sessions are told before they leave.
    pub(crate) fn telling(self, untold: usize) -> Self {
        Self { untold, ..self }
    }

    /// The sessions whose clients have not been told.
    pub(crate) fn untold(&self) -> &[SessionKey] {
        &self.left[..self.untold]
    }

    /// The next session whose client is told. Those that leave first come first.
    pub(crate) fn next_untold(&mut self) -> Option<SessionKey> {
        let session = self.untold().last().copied()?;
        self.untold -= 1;
        Some(session)
    }

    /// In how many milliseconds a client may come back.
    pub(crate) fn delay_ms(&self, now_ms: u64, dice: [u8; 2]) -> u64 {
        self.left_ms(now_ms) + spread_ms(self.pace.window_ms, dice)
    }

    /// The same for a client whose sockets another node takes from this one. It has to come while this node waits for that, and the last
    /// quarter of the time is for its way.
    pub(crate) fn taken_delay_ms(&self, now_ms: u64, dice: [u8; 2]) -> u64 {
        let within_ms = self.takers_ms() * 3 / 4;
        let window_ms = self.pace.window_ms.max(SPREAD_MIN_MS);
        self.left_ms(now_ms) + dealt_ms(window_ms.min(within_ms), dice)
    }

    /// What is left of the window.
    fn left_ms(&self, now_ms: u64) -> u64 {
        let ends_ms = self.started_ms + self.pace.window_ms;
        ends_ms.saturating_sub(now_ms)
    }

    /// Sessions that leave where nothing is in a hurry. Few sessions have a short window, and no client is more idle for that: the time in
    /// which idle clients are found is added.
    pub(crate) fn at_leisure(now_ms: u64, pace: Pace, sessions: Vec<SessionKey>) -> Self {
        let idle_ms = IDLE_MS_MAX.min(pace.patience_ms);
        let pace = Pace {
            window_ms: pace.window_ms + idle_ms,
            ..pace
        };
        Self {
            idle_ms,
            ..Self::new(now_ms, pace, sessions)
        }
    }

    /// Every session has been told to go.
    pub(crate) fn has_sent_all(&self) -> bool {
        self.left.is_empty() && self.due.is_empty()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.has_sent_all() && !self.awaits_others
    }

    /// All sessions are gone, sent away or not: there is no time to wait for.
    pub(crate) fn nobody_is_left(&mut self) {
        self.left.clear();
        self.due.clear();
        self.untold = 0;
    }

    /// For so long, sockets of clients that left are kept for other nodes. The clients come back within a second or two, and the process
    /// ends a little later.
    pub(crate) fn takers_ms(&self) -> u64 {
        self.pace.patience_ms * 3 / 4
    }

    pub(super) fn next_due(&self, now_ms: u64) -> u64 {
        let pause = match (self.untold, self.due.is_empty()) {
            (1.., _) => 0,
            (0, true) => LEAVE_STEP_MS,
            (0, false) => LEAVE_LOOK_MS,
        };
        now_ms + pause
    }

    /// A client said something.
    pub(crate) fn spoke(&mut self, session: SessionId, now_ms: u64) {
        self.spoke.insert(session, now_ms);
    }

    /// The sessions to be looked at now: the time of some has come just now, others did not pause yet.
    pub(crate) fn take_due(&mut self, now_ms: u64) -> Vec<Due> {
        let (idle_ms, window_ms) = (self.idle_ms, self.pace.window_ms);
        let elapsed = (now_ms - self.started_ms).saturating_sub(idle_ms);
        let spread = window_ms - idle_ms;
        // A window of no length ends here, and divides nothing.
        let keep = if elapsed >= spread {
            0
        } else {
            let done = self.total as u64 * elapsed / spread;
            self.total - done as usize
        };
        // A client is told before it is sent away.
        let keep = keep.max(self.untold).min(self.left.len());
        let come = self.left.drain(keep..);
        self.due.extend(come.map(|session| Due {
            session,
            since_ms: now_ms,
        }));
        let looks = self.due.len().min(LEAVE_LOOKS_MAX);
        self.due.drain(..looks).collect()
    }

    /// Whether such a session leaves now. `is_busy`: something of its client's is under way.
    pub(crate) fn judge(&mut self, due: Due, now_ms: u64, is_busy: bool) -> Verdict {
        let session = due.session.id();
        // A pause begins when the work under way is done.
        if is_busy {
            self.spoke(session, now_ms);
        }
        let spoke_ms = self.spoke.get(&session).copied();
        // A client without a word since the beginning may have spoken just before it.
        let silent_ms = now_ms - spoke_ms.unwrap_or(self.started_ms);
        let pauses = (QUIET_MS..PAUSE_MS).contains(&silent_ms) || silent_ms >= self.idle_ms;
        let verdict = match now_ms >= due.since_ms + self.pace.patience_ms {
            _ if pauses && !is_busy => Verdict::Goes,
            true => Verdict::GoesBusy,
            false => Verdict::Stays,
        };
        match verdict {
            Verdict::Stays => self.due.push_back(due),
            Verdict::Goes | Verdict::GoesBusy => drop(self.spoke.remove(&session)),
        }
        verdict
    }
}

/// Deals sessions out in an order of chance: neighbours in the tables came at the same time, often from one place.
pub(crate) fn shuffle(sessions: &mut [SessionKey], seed: [u8; 8]) {
    let mut state = u64::from_be_bytes(seed) | 1;
    for at in (1..sessions.len()).rev() {
        // xorshift64: it need not be a secret.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        sessions.swap(at, (state % (at as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::slot::SlotId;

    const PACE: Pace = Pace {
        window_ms: 4_000,
        patience_ms: 500,
    };

    fn sessions(count: u32) -> Vec<SessionKey> {
        let key = |at| SessionKey::new(SessionId::at(at), 0);
        (0..count).map(key).collect()
    }

    /// Plays a client that speaks at these times; when it is sent away, and how.
    fn leaves(speaks: impl Fn(u64) -> bool, busy: impl Fn(u64) -> bool) -> (u64, Verdict) {
        let mut leaving = Leaving::new(0, PACE, sessions(1));
        for now_ms in 0..10_000 {
            if speaks(now_ms) {
                leaving.spoke(SessionId::at(0), now_ms);
            }
            for due in leaving.take_due(now_ms) {
                match leaving.judge(due, now_ms, busy(now_ms)) {
                    Verdict::Stays => {}
                    verdict => return (now_ms, verdict),
                }
            }
        }
        unreachable!("nobody stays")
    }

    #[test]
    fn a_client_leaves_at_the_beginning_of_a_pause() {
        let never = |_| false;
        assert_eq!(leaves(never, never), (4_000, Verdict::Goes), "an idle one");
        let (at, verdict) = leaves(|now| now % 200 == 50, never);
        assert_eq!(
            (at, verdict),
            (4_054, Verdict::Goes),
            "one of five a second"
        );
        let (at, verdict) = leaves(|now| now % 100 == 0, |now| now % 100 < 30);
        assert_eq!(
            (at, verdict),
            (4_033, Verdict::Goes),
            "it waits for answers"
        );
    }

    #[test]
    fn a_client_without_pauses_leaves_all_the_same() {
        let (at, verdict) = leaves(|now| now % 3 == 0, |_| false);
        assert_eq!((at, verdict), (4_500, Verdict::GoesBusy));
        let (at, verdict) = leaves(|_| false, |_| true);
        assert_eq!((at, verdict), (4_500, Verdict::GoesBusy));
    }

    /// Few sessions are sent elsewhere in a short window. A client that pauses for longer than a quarter of it left just before its next word.
    #[test]
    fn a_client_that_pauses_for_longer_than_the_window_was_an_idle_one() {
        let pace = Pace {
            window_ms: 1_000,
            patience_ms: 2_000,
        };
        for first in (0..500).step_by(7) {
            let mut leaving = Leaving::at_leisure(0, pace, sessions(20));
            for now_ms in 0..4_000 {
                let spoke_ms = now_ms % 500;
                if spoke_ms == first {
                    (0..20).for_each(|at| leaving.spoke(SessionId::at(at), now_ms));
                }
                for due in leaving.take_due(now_ms) {
                    let verdict = leaving.judge(due, now_ms, false);
                    let silent_ms = (now_ms + 500 - first) % 500;
                    assert!(
                        verdict == Verdict::Stays || silent_ms < PAUSE_MS,
                        "{silent_ms}"
                    );
                }
            }
            assert!(leaving.is_over());
        }
    }

    /// A client that did as it was told came a second after its node had ended.
    #[test]
    fn clients_come_back_while_their_sockets_are_kept() {
        let leaving = Leaving::new(1_000, PACE, sessions(1));
        assert_eq!(
            (leaving.takers_ms(), leaving.delay_ms(3_000, [255; 2])),
            (375, 6_001)
        );
        let latest_ms = |now_ms| leaving.taken_delay_ms(now_ms, [255; 2]);
        // The window ends at 5,000.
        assert_eq!(latest_ms(3_000), 2_000 + 1 + 281);
        assert_eq!(latest_ms(9_000), 1 + 281);
        assert_eq!(leaving.taken_delay_ms(3_000, [0; 2]), 2_001);
        let patient = Pace {
            patience_ms: 60_000,
            ..PACE
        };
        let leaving = Leaving::new(1_000, patient, sessions(1));
        assert_eq!(
            leaving.taken_delay_ms(1_000, [255; 2]),
            leaving.delay_ms(1_000, [255; 2])
        );
    }

    #[test]
    fn idle_clients_leave_evenly_and_none_is_looked_at_twice() {
        let mut leaving = Leaving::new(0, PACE, sessions(1_000));
        let mut gone = Vec::new();
        for now_ms in (0..=4_000).step_by(20) {
            for due in leaving.take_due(now_ms) {
                assert_eq!(leaving.judge(due, now_ms, false), Verdict::Goes);
                gone.push(now_ms);
            }
        }
        assert!(leaving.is_over());
        let by = |ms| gone.iter().filter(|at| **at <= ms).count();
        assert_eq!([by(1_000), by(2_500), by(4_000)], [0, 500, 1_000]);
    }

    #[test]
    fn chance_keeps_everybody() {
        let mut dealt = sessions(500);
        shuffle(&mut dealt, [7; 8]);
        assert_ne!(dealt, sessions(500));
        dealt.sort_by_key(|session| session.id());
        assert_eq!(dealt, sessions(500));
    }
}
