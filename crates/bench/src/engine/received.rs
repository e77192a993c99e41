//! Owns what one member has of one stream (the messages of one worker to one room): which sequence
//! numbers arrived, and whether one came after a later one of the same publisher. Pure.
//!
//! HOT PATH: a message follows on the last run, as a rule. A server hands on the messages of many publishers in any order, so a few
//! of a stream are runs of their own for a moment, until the gap before them closes.

use std::ops::Range;

#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Ascending, none touching another.
    runs: Vec<Range<u64>>,
    count: u64,
    /// (publisher, sequence) of the last message of each publisher that came before an earlier one of it; by publisher.
    overtakers: Vec<(u32, u64)>,
    /// The last of all overtakers: no message above it was overtaken.
    overtaken_below: u64,
    /// Publishers whose overtakers could not be kept.
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

impl Received {
    /// Notes message `sequence` of `publisher`, whose message before was `back` earlier (0: none).
    #[inline]
    pub fn observe(&mut self, sequence: u64, publisher: u32, back: u32) -> Arrival {
        match self.runs.last_mut() {
            Some(run) if run.end == sequence && sequence >= self.overtaken_below => run.end += 1,
            _ => return self.observe_out_of_turn(sequence, publisher, back),
        }
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

    fn observe_out_of_turn(&mut self, sequence: u64, publisher: u32, back: u32) -> Arrival {
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

    fn lowest(&self) -> Range<u64> {
        self.runs.first().cloned().unwrap_or_default()
    }

    /// Behind the highest message that came.
    pub fn end(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.end)
    }

    /// Whether something may still come that lies before all that came.
    fn may_begin_earlier(&self) -> bool {
        self.lowest().start > 0 && self.count < DOUBTFUL_AT_START
    }

    fn is_overtaken(&self, sequence: u64, publisher: u32) -> bool {
        let at = self.overtaker(publisher);
        at.is_ok_and(|at| self.overtakers[at].1 > sequence)
    }

    fn overtaker(&self, publisher: u32) -> Result<usize, usize> {
        let overtakers = &self.overtakers;
        overtakers.binary_search_by_key(&publisher, |&(own, _)| own)
    }

    fn note_overtaking(&mut self, sequence: u64, publisher: u32, back: u32) {
        let Some(before) = sequence.checked_sub(u64::from(back)) else {
            return;
        };
        let is_given_up = || !self.may_begin_earlier() && before < self.lowest().start;
        if back == 0 || self.contains(before) || is_given_up() {
            return;
        }
        self.overtaken_below = self.overtaken_below.max(sequence);
        match self.overtaker(publisher) {
            Ok(at) => self.overtakers[at].1 = self.overtakers[at].1.max(sequence),
            Err(_) if self.overtakers.len() >= OVERTAKERS_MAX => self.unknown += 1,
            Err(at) => self.overtakers.insert(at, (publisher, sequence)),
        }
    }

    /// Publishers whose order is not known throughout, so that more may have been reordered.
    pub fn unknown_order(&self) -> u64 {
        self.unknown
    }

    /// Forgets what no later arrival can make use of: what is missing lies behind the lowest run.
    fn tidy(&mut self) {
        let is_of_use = self.overtaken_below > self.lowest().end || self.unknown > 0;
        if !self.overtakers.is_empty() && !is_of_use && !self.may_begin_earlier() {
            self.overtaken_below = 0;
            self.overtakers = Vec::new();
        }
    }

    #[inline]
    fn contains(&self, sequence: u64) -> bool {
        let is_in = |run: &Range<u64>| run.contains(&sequence);
        self.runs.last().is_some_and(is_in) || {
            let at = self.runs.partition_point(|run| run.end <= sequence);
            self.runs.get(at).is_some_and(is_in)
        }
    }

    /// Runs without a gap, ascending.
    pub fn runs(&self) -> &[Range<u64>] {
        &self.runs
    }

    /// `false` when it was there. A number that was not grows or joins its neighbours.
    fn insert(&mut self, sequence: u64) -> bool {
        let at = self.runs.partition_point(|run| run.end < sequence);
        let (left, right) = match self.runs.get_mut(at..) {
            Some([run, ..]) if run.contains(&sequence) => return false,
            Some([run, next, ..]) if run.end == sequence => (Some(run), Some(next)),
            Some([run]) if run.end == sequence => (Some(run), None),
            Some([run, ..]) => (None, Some(run)),
            _ => (None, None),
        };
        match (left, right.filter(|run| run.start == sequence + 1)) {
            (Some(left), Some(right)) => {
                left.end = right.end;
                self.runs.remove(at + 1);
            }
            (Some(left), None) => left.end += 1,
            (None, Some(right)) => right.start = sequence,
            (None, None) => self.runs.insert(at, sequence..sequence + 1),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn own_messages_leave_no_gap() {
        let mut received = Received::default();
        received.observe(0, 1, 0);
        received.mark_own(1);
        assert_eq!(received.observe(2, 1, 2), Arrival::First);
        assert!(received.overtakers.is_empty());
        received.mark_own(5);
        received.observe(3, 1, 1);
        received.observe(4, 1, 1);
        assert_eq!(received.runs(), std::slice::from_ref(&(0..6)));
    }

    #[test]
    fn members_that_join_late_forget_what_was_before() {
        let publishers = 1_000;
        let mut received = Received::default();
        for sequence in 50_000..50_000 + DOUBTFUL_AT_START {
            assert!(sequence == 50_000 || !received.overtakers.is_empty());
            received.observe(sequence, (sequence % publishers) as u32, publishers as u32);
        }
        assert!(received.overtakers.is_empty());
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
        /// Any order of arrivals of up to three publishers, against a naive account.
        #[test]
        fn agrees_with_a_naive_account(
            owners in prop::collection::vec(0u32..3, 40),
            arrivals in prop::collection::vec(0usize..40, 0..160),
            gap in 0u64..3,
            joined_at in prop::sample::select(vec![0, 7, 1_500]))
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
            let all: Vec<u64> = received.runs().iter().cloned().flatten().collect();
            let naive: Vec<u64> = seen.iter().map(|&at| number(at)).collect();
            prop_assert_eq!(all, naive);
        }
    }
}
