//! Owns what one member has of one stream (the messages of one worker to one room): which sequence
//! numbers arrived, and whether one came after a later one of the same publisher. Pure.
//!
//! HOT PATH: a server hands on the messages of many publishers in any order, so a few of a stream
//! are always out of turn. Those close above the last run are bits of a ring, and cost no memory.

use std::ops::Range;

#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The highest run without a gap, but for what is ahead of it.
    current: Range<u64>,
    ahead: Ahead,
    /// The last of all overtakers: no message above it was overtaken.
    overtaken_below: u64,
    count: u64,
    disorder: Option<Box<Disorder>>,
}

/// Messages above the end of a run, within reach of it and with a gap between: bit *n* is message *n*
/// modulo the reach.
#[derive(Clone, Debug, Default)]
struct Ahead {
    words: [u64; REACH as usize / 64],
    count: u32,
}

/// Present only while something is missing for long, or was overtaken by its own publisher.
#[derive(Clone, Debug, Default)]
struct Disorder {
    /// Runs below `current`, ascending, none touching another.
    below: Vec<Range<u64>>,
    /// (publisher, sequence) of the last message of each publisher that came before an earlier one of it; by publisher.
    overtakers: Vec<(u32, u64)>,
    /// Publishers of which that could not be kept.
    unknown: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    First,
    /// First, but after a later message of the same publisher.
    Reordered,
    Duplicate,
}

/// Publishers of one stream whose order is kept after they overtook themselves; 16 bytes each.
const OVERTAKERS_MAX: usize = 4_096;
/// What lies before the first message that a member got may be from before it joined, and then never comes: after so many
/// messages it is given up, or each member that joins late would have to remember every publisher.
const DOUBTFUL_AT_START: u64 = 4_096;
/// So far a message may be ahead of one that is still missing; a power of two.
const REACH: u64 = 512;

impl Received {
    /// Notes message `sequence` of `publisher`, whose message before was `back` earlier (0: none).
    #[inline]
    pub fn observe(&mut self, sequence: u64, publisher: u32, back: u32) -> Arrival {
        let distance = sequence.wrapping_sub(self.current.end);
        if distance >= REACH || sequence < self.overtaken_below {
            return self.observe_far(sequence, publisher, back);
        }
        if distance > 0 && self.ahead.contains(sequence) {
            return Arrival::Duplicate;
        }
        self.extend(sequence);
        self.count_one();
        // The first run may have begun above the publisher's message before.
        if back != 0 && !self.contains(sequence.wrapping_sub(u64::from(back))) {
            self.note_overtaking(sequence, publisher, back);
        }
        Arrival::First
    }

    /// Marks the member's own message, which is not sent to it: it leaves no gap.
    pub fn mark_own(&mut self, sequence: u64) {
        self.insert(sequence);
    }

    #[cold]
    fn observe_far(&mut self, sequence: u64, publisher: u32, back: u32) -> Arrival {
        if !self.insert(sequence) {
            return Arrival::Duplicate;
        }
        let overtaken = self.is_overtaken(sequence, publisher);
        self.note_overtaking(sequence, publisher, back);
        self.count_one();
        self.tidy();
        match overtaken {
            true => Arrival::Reordered,
            false => Arrival::First,
        }
    }

    fn count_one(&mut self) {
        self.count += 1;
        if self.count == DOUBTFUL_AT_START {
            self.tidy();
        }
    }

    /// Whether something may still come that lies before all that came.
    fn may_begin_earlier(&self) -> bool {
        !self.current.contains(&0) && self.count < DOUBTFUL_AT_START
    }

    fn is_overtaken(&self, sequence: u64, publisher: u32) -> bool {
        self.disorder.as_ref().is_some_and(|disorder| {
            let overtakers = &disorder.overtakers;
            let at = overtakers.binary_search_by_key(&publisher, |&(own, _)| own);
            at.is_ok_and(|at| overtakers[at].1 > sequence)
        })
    }

    #[cold]
    fn note_overtaking(&mut self, sequence: u64, publisher: u32, back: u32) {
        let Some(before) = sequence.checked_sub(u64::from(back)).filter(|_| back > 0) else {
            return;
        };
        let lowest = || self.runs().next().map_or(0, |run| run.start);
        if self.contains(before) || (!self.may_begin_earlier() && before < lowest()) {
            return;
        }
        self.overtaken_below = self.overtaken_below.max(sequence);
        let disorder = self.disorder.get_or_insert_default();
        disorder.note_overtaker(publisher, sequence);
    }

    /// Publishers whose order is not known throughout, so that more may have been reordered.
    pub fn unknown_order(&self) -> u64 {
        self.disorder
            .as_ref()
            .map_or(0, |disorder| disorder.unknown)
    }

    /// `false` when it was there.
    fn insert(&mut self, sequence: u64) -> bool {
        if self.contains(sequence) {
            return false;
        }
        if sequence >= self.current.end {
            self.come_within_reach(sequence);
            self.extend(sequence);
        } else if sequence + 1 == self.current.start {
            self.current.start = sequence;
        } else {
            self.disorder.get_or_insert_default().insert(sequence);
        }
        self.join_runs();
        true
    }

    /// Takes in a message at the end of the current run, or within reach of it.
    #[inline]
    fn extend(&mut self, sequence: u64) {
        if sequence > self.current.end {
            return self.ahead.insert(sequence);
        }
        self.current.end += 1;
        self.current.end = self.ahead.take_run(self.current.end);
    }

    /// Whether a message is not too far above the current run to be noted without giving up the
    /// gaps between.
    pub fn is_within_reach(&self, sequence: u64) -> bool {
        sequence < self.current.end + REACH
    }

    /// Moves the current run up until `sequence` is within reach: gaps far below are told apart
    /// from then on by the runs between them.
    fn come_within_reach(&mut self, sequence: u64) {
        while !self.is_within_reach(sequence) {
            let start = self.ahead.first(self.current.end).unwrap_or(sequence);
            let end = self.ahead.take_run(start);
            let before = std::mem::replace(&mut self.current, start..end);
            if !before.is_empty() {
                self.disorder.get_or_insert_default().below.push(before);
            }
        }
    }

    /// The run below may have grown up to `current`.
    fn join_runs(&mut self) {
        let Some(disorder) = &mut self.disorder else {
            return;
        };
        if disorder
            .below
            .last()
            .is_some_and(|run| run.end == self.current.start)
            && let Some(run) = disorder.below.pop()
        {
            self.current.start = run.start;
        }
    }

    /// Forgets what no later arrival can make use of.
    fn tidy(&mut self) {
        // While something may be missing below, all of it may still be of use.
        let is_whole = |disorder: &Disorder| disorder.below.is_empty() && disorder.unknown == 0;
        if !self.may_begin_earlier()
            && self.overtaken_below <= self.current.end
            && self.disorder.as_deref().is_some_and(is_whole)
        {
            self.overtaken_below = 0;
            self.disorder = None;
        }
    }

    #[inline]
    pub fn contains(&self, sequence: u64) -> bool {
        let distance = sequence.wrapping_sub(self.current.end);
        self.current.contains(&sequence)
            || (distance < REACH && self.ahead.contains(sequence))
            || self
                .disorder
                .as_ref()
                .is_some_and(|disorder| disorder.contains(sequence))
    }

    /// Runs without a gap, ascending.
    pub fn runs(&self) -> impl Iterator<Item = Range<u64>> {
        let below = self.disorder.iter().flat_map(|disorder| &disorder.below);
        let current = Some(&self.current).filter(|run| !run.is_empty());
        let mut ahead = self.ahead.clone();
        let mut end = self.current.end;
        let above = std::iter::from_fn(move || {
            let start = ahead.first(end)?;
            end = ahead.take_run(start);
            Some(start..end)
        });
        below.chain(current).cloned().chain(above)
    }
}

impl Ahead {
    fn place(sequence: u64) -> (usize, u64) {
        let bit = sequence % REACH;
        (bit as usize / 64, bit % 64)
    }

    #[inline]
    fn contains(&self, sequence: u64) -> bool {
        let (word, bit) = Ahead::place(sequence);
        self.words[word] >> bit & 1 != 0
    }

    #[inline]
    fn insert(&mut self, sequence: u64) {
        let (word, bit) = Ahead::place(sequence);
        self.words[word] |= 1 << bit;
        self.count += 1;
    }

    /// Takes out the run that begins at `start`, if any; returns its end.
    #[inline]
    fn take_run(&mut self, start: u64) -> u64 {
        let mut end = start;
        while self.count > 0 {
            let (word, bit) = Ahead::place(end);
            let run = (self.words[word] >> bit).trailing_ones();
            let ones = u64::MAX.checked_shr(64 - run).unwrap_or(0);
            self.words[word] &= !(ones << bit);
            self.count -= run;
            end += u64::from(run);
            if run == 0 || !end.is_multiple_of(64) {
                break;
            }
        }
        end
    }

    /// The lowest one that is not below `from`, the end of the run before.
    fn first(&self, from: u64) -> Option<u64> {
        (from..from + REACH)
            .filter(|_| self.count > 0)
            .find(|&sequence| self.contains(sequence))
    }
}

impl Disorder {
    fn contains(&self, sequence: u64) -> bool {
        let at = self.below.partition_point(|run| run.end <= sequence);
        self.below
            .get(at)
            .is_some_and(|run| run.contains(&sequence))
    }

    fn note_overtaker(&mut self, publisher: u32, sequence: u64) {
        match self
            .overtakers
            .binary_search_by_key(&publisher, |&(own, _)| own)
        {
            Ok(at) => self.overtakers[at].1 = self.overtakers[at].1.max(sequence),
            Err(_) if self.overtakers.len() >= OVERTAKERS_MAX => self.unknown += 1,
            Err(at) => self.overtakers.insert(at, (publisher, sequence)),
        }
    }

    /// Adds a number that no run holds, growing or joining its neighbours.
    fn insert(&mut self, sequence: u64) {
        let at = self.below.partition_point(|run| run.end < sequence);
        let touches_left = self.below.get(at).is_some_and(|run| run.end == sequence);
        let right = if touches_left { at + 1 } else { at };
        let touches_right = self
            .below
            .get(right)
            .is_some_and(|run| run.start == sequence + 1);
        match (touches_left, touches_right) {
            (true, true) => {
                let joined = self.below.remove(right);
                self.below[at].end = joined.end;
            }
            (true, false) => self.below[at].end += 1,
            (false, true) => self.below[right].start = sequence,
            (false, false) => self.below.insert(at, sequence..sequence + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn publishers_may_overtake_each_other_but_not_themselves() {
        let mut received = Received::default();
        // 0 and 2 are of publisher 7, 1 and 3 of publisher 8.
        assert_eq!(received.observe(0, 7, 0), Arrival::First);
        assert_eq!(received.observe(2, 7, 2), Arrival::First);
        assert_eq!(
            received.observe(1, 8, 0),
            Arrival::First,
            "late, but of another publisher"
        );
        assert_eq!(received.observe(3, 8, 2), Arrival::First);
        assert!(received.runs().eq(std::iter::once(0..4)));
        assert!(received.disorder.is_none(), "order costs no memory");
    }

    #[test]
    fn a_chain_overtaken_by_its_last_is_reordered_throughout() {
        let mut received = Received::default();
        assert_eq!(received.observe(2, 7, 1), Arrival::First);
        assert_eq!(received.observe(0, 7, 0), Arrival::Reordered);
        assert_eq!(received.observe(1, 7, 1), Arrival::Reordered);
        assert_eq!(received.observe(1, 7, 1), Arrival::Duplicate);
    }

    #[test]
    fn own_messages_leave_no_gap() {
        let mut received = Received::default();
        received.observe(0, 1, 0);
        received.mark_own(1);
        assert_eq!(received.observe(2, 1, 2), Arrival::First);
        assert!(received.disorder.is_none());
        received.mark_own(5);
        received.observe(3, 1, 1);
        received.observe(4, 1, 1);
        assert!(received.runs().eq(std::iter::once(0..6)));
    }

    #[test]
    fn gaps_far_below_become_runs_and_may_still_close() {
        let mut received = Received::default();
        let far = 3 * REACH;
        for sequence in [0, 1, 5, far, far + 2] {
            assert_eq!(received.observe(sequence, 7, 0), Arrival::First);
        }
        assert!(
            received
                .runs()
                .eq([0..2, 5..6, far..far + 1, far + 2..far + 3])
        );
        for sequence in [5, far, far + 2] {
            assert_eq!(received.observe(sequence, 7, 0), Arrival::Duplicate);
        }
        for sequence in (2..5).chain(6..far).chain([far + 1]) {
            received.observe(sequence, 8, 0);
        }
        assert!(received.runs().eq(std::iter::once(0..far + 3)));
        assert!(received.disorder.is_none());
    }

    #[test]
    fn members_that_join_late_forget_what_was_before() {
        let publishers = 1_000;
        let mut received = Received::default();
        for sequence in 50_000..50_000 + DOUBTFUL_AT_START {
            assert!(sequence == 50_000 || received.disorder.is_some());
            received.observe(sequence, (sequence % publishers) as u32, publishers as u32);
        }
        assert!(received.disorder.is_none());
        assert_eq!(received.observe(49_999, 999, 1_000), Arrival::First);
    }

    /// Each publisher sends in its turn, and the server turns every batch around.
    #[test]
    fn many_publishers_turned_around_are_counted_exactly() {
        for (publishers, batch, joined_at) in
            [(20, 2_500, 0), (1_000, 2_500, 0), (1_000, 3_000, 700)]
        {
            let mut received = Received::default();
            let (mut latest, mut expected, mut reordered) = (vec![0; publishers], 0, 0);
            for start in (joined_at..joined_at + 4 * batch).step_by(batch) {
                for sequence in (start..start + batch).rev() {
                    let publisher = sequence % publishers;
                    expected += u64::from(latest[publisher] > sequence);
                    latest[publisher] = latest[publisher].max(sequence);
                    let back = if sequence < publishers { 0 } else { publishers };
                    let arrival = received.observe(sequence as u64, publisher as u32, back as u32);
                    reordered += u64::from(arrival == Arrival::Reordered);
                }
            }
            assert_eq!(reordered, expected, "{publishers} publishers");
            assert_eq!(received.unknown_order(), 0);
        }
    }

    #[test]
    fn more_publishers_than_can_be_kept_are_told() {
        let mut received = Received::default();
        let publishers = OVERTAKERS_MAX as u64 + 5;
        received.observe(0, u32::MAX, 0);
        for sequence in (publishers + 1..=2 * publishers).rev() {
            received.observe(sequence, (sequence - publishers) as u32, publishers as u32);
        }
        assert_eq!(received.unknown_order(), 5);
    }

    proptest! {
        /// Any order of arrivals of up to three publishers, against a naive account. With a wide
        /// `gap`, messages are out of each other's reach.
        #[test]
        fn agrees_with_a_naive_account(
            owners in prop::collection::vec(0u32..3, 40),
            arrivals in prop::collection::vec(0usize..40, 0..160),
            gap in prop::sample::select(vec![0, 1, 63, REACH - 10, 2 * REACH]),
            joined_at in prop::sample::select(vec![0, 7, 3 * REACH]))
        {
            let number = |at: usize| joined_at + at as u64 + at as u64 / 10 * gap;
            // A late member never gets the first message of each publisher.
            let first = |at: usize| if joined_at > 0 { number(at) as u32 } else { 0 };
            let back = |at: usize| {
                let before = owners[..at].iter().rposition(|owner| *owner == owners[at]);
                before.map_or(first(at), |before| (number(at) - number(before)) as u32)
            };
            let mut received = Received::default();
            let mut seen = BTreeSet::new();
            for &at in &arrivals {
                let overtaken = seen.iter().any(|&later| later > at && owners[later] == owners[at]);
                let expected = match (seen.insert(at), overtaken) {
                    (false, _) => Arrival::Duplicate,
                    (true, true) => Arrival::Reordered,
                    (true, false) => Arrival::First,
                };
                let arrival = received.observe(number(at), owners[at], back(at));
                prop_assert_eq!(arrival, expected, "{} in {:?}", at, arrivals);
            }
            let all: Vec<u64> = received.runs().flatten().collect();
            let naive: Vec<u64> = seen.iter().map(|&at| number(at)).collect();
            prop_assert_eq!(all, naive);
        }
    }
}
