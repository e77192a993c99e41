//! Owns what one member has of one stream (the messages of one worker to one room): which sequence
//! numbers arrived, and whether one came after a later one of the same publisher. Pure.
//!
//! HOT PATH: a message that follows the last one costs one comparison and no memory.

use std::ops::Range;

#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The highest run without a gap.
    current: Range<u64>,
    count: u64,
    disorder: Option<Box<Disorder>>,
}

/// Present only while something is missing.
#[derive(Clone, Debug, Default)]
struct Disorder {
    /// Runs below `current`, ascending, none touching another.
    below: Vec<Range<u64>>,
    /// (publisher, sequence) of messages that came before an earlier one of their publisher.
    overtakers: Vec<(u32, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    First,
    /// First, but after a later message of the same publisher.
    Reordered,
    Duplicate,
}

/// A publisher's message before the lowest one that arrived is out of reach for a member that
/// joined late; only so many messages at the beginning of a stream are in doubt.
const DOUBTFUL_AT_START: u64 = 256;
const OVERTAKERS_MAX: usize = 512;

impl Received {
    /// Notes message `sequence` of `publisher`, whose message before was `back` earlier (0: none).
    pub fn observe(&mut self, sequence: u64, publisher: u32, back: u32) -> Arrival {
        if sequence == self.current.end && self.disorder.is_none() {
            self.current.end += 1;
            self.count += 1;
            // The first run may have begun above the publisher's message before.
            if back == 0 || sequence.saturating_sub(u64::from(back)) >= self.current.start {
                return Arrival::First;
            }
            self.note_overtaking(sequence, publisher, back);
            return Arrival::First;
        }
        self.observe_out_of_turn(sequence, publisher, back)
    }

    /// Marks the member's own message, which is not sent to it: it leaves no gap.
    pub fn mark_own(&mut self, sequence: u64) {
        if sequence == self.current.end && self.disorder.is_none() {
            self.current.end += 1;
        } else {
            self.insert(sequence);
        }
    }

    #[cold]
    fn observe_out_of_turn(&mut self, sequence: u64, publisher: u32, back: u32) -> Arrival {
        let is_late = sequence < self.current.end;
        if !self.insert(sequence) {
            return Arrival::Duplicate;
        }
        self.count += 1;
        let overtaken = is_late && self.is_overtaken(sequence, publisher);
        self.note_overtaking(sequence, publisher, back);
        self.tidy();
        match overtaken {
            true => Arrival::Reordered,
            false => Arrival::First,
        }
    }

    fn is_overtaken(&self, sequence: u64, publisher: u32) -> bool {
        self.disorder.as_ref().is_some_and(|disorder| {
            let mut overtakers = disorder.overtakers.iter();
            overtakers.any(|&(own, later)| own == publisher && later > sequence)
        })
    }

    fn note_overtaking(&mut self, sequence: u64, publisher: u32, back: u32) {
        let Some(before) = sequence.checked_sub(u64::from(back)).filter(|_| back > 0) else {
            return;
        };
        if self.contains(before) {
            return;
        }
        let lowest = self.runs().next().map_or(0, |run| run.start);
        if before < lowest && self.count > DOUBTFUL_AT_START {
            return;
        }
        let disorder = self.disorder.get_or_insert_default();
        if disorder.overtakers.len() >= OVERTAKERS_MAX {
            disorder.overtakers.drain(..OVERTAKERS_MAX / 2);
        }
        disorder.overtakers.push((publisher, sequence));
    }

    /// `false` when it was there.
    fn insert(&mut self, sequence: u64) -> bool {
        if self.contains(sequence) {
            return false;
        }
        if sequence >= self.current.end {
            if sequence == self.current.end {
                self.current.end += 1;
                return true;
            }
            let before = std::mem::replace(&mut self.current, sequence..sequence + 1);
            if !before.is_empty() {
                self.disorder.get_or_insert_default().below.push(before);
            }
            return true;
        }
        if sequence + 1 == self.current.start {
            self.current.start = sequence;
        } else {
            self.disorder.get_or_insert_default().insert(sequence);
        }
        self.join_runs();
        true
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
        let settled = self.count > DOUBTFUL_AT_START || self.current.start == 0;
        if let Some(disorder) = &self.disorder
            && disorder.below.is_empty()
            && settled
        {
            self.disorder = None;
        }
    }

    pub fn contains(&self, sequence: u64) -> bool {
        self.current.contains(&sequence)
            || self
                .disorder
                .as_ref()
                .is_some_and(|disorder| disorder.contains(sequence))
    }

    /// Runs without a gap, ascending.
    pub fn runs(&self) -> impl Iterator<Item = &Range<u64>> {
        let below = self.disorder.iter().flat_map(|disorder| &disorder.below);
        below.chain(Some(&self.current).filter(|run| !run.is_empty()))
    }
}

impl Disorder {
    fn contains(&self, sequence: u64) -> bool {
        let at = self.below.partition_point(|run| run.end <= sequence);
        self.below
            .get(at)
            .is_some_and(|run| run.contains(&sequence))
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
        assert!(received.runs().cloned().eq(std::iter::once(0..4)));
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
        assert!(received.runs().cloned().eq(std::iter::once(0..6)));
    }

    proptest! {
        /// Any order of arrivals of up to three publishers, against a naive account.
        #[test]
        fn agrees_with_a_naive_account(
            owners in prop::collection::vec(0u32..3, 40),
            arrivals in prop::collection::vec(0usize..40, 0..160))
        {
            let back = |at: usize| {
                let before = owners[..at].iter().rposition(|owner| *owner == owners[at]);
                before.map_or(0, |before| (at - before) as u32)
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
                let arrival = received.observe(at as u64, owners[at], back(at));
                prop_assert_eq!(arrival, expected, "{} in {:?}", at, arrivals);
            }
            let all: Vec<u64> = received.runs().flat_map(|run| run.clone()).collect();
            let naive: Vec<u64> = seen.iter().map(|&at| at as u64).collect();
            prop_assert_eq!(all, naive);
        }
    }
}
