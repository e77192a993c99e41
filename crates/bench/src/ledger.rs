//! Owns the account of deliveries: what each member should have received, by publisher and
//! sequence number, and what it did receive. Pure: no clock, no socket.
//!
//! Exactness is the point: every expected message ends up as received or lost, and every further
//! copy as a duplicate. A message is *reordered* when it arrives after a later one of the same
//! publisher.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Deliveries of all members of this worker.
#[derive(Debug, Default)]
pub struct Ledger {
    publishers_per_member: usize,
    streams: Vec<Stream>,
    reordered: u64,
    duplicated: u64,
    received: u64,
}

/// What one member has of one publisher: everything below `next` except `gaps`.
#[derive(Debug, Default)]
struct Stream {
    next: u64,
    /// Boxed because almost every stream has none: 16 bytes each.
    #[expect(
        clippy::box_collection,
        reason = "one null pointer while nothing is missing"
    )]
    gaps: Option<Box<Vec<Range<u64>>>>,
}

/// How a message arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    InOrder,
    /// Earlier ones are missing as yet.
    AfterGap,
    /// It fills a gap.
    Reordered,
    Duplicate,
}

/// The settled account. `received` counts each message once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    pub expected: u64,
    pub received: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    /// Arrived although nobody published it, or at a connection outside its room.
    pub stray: u64,
}

impl Ledger {
    pub fn new(members: usize, publishers_per_member: usize) -> Self {
        let mut streams = Vec::new();
        streams.resize_with(members * publishers_per_member, Stream::default);
        Ledger {
            publishers_per_member,
            streams,
            ..Ledger::default()
        }
    }

    /// Notes one message; `publisher` counts within those this member listens to.
    pub fn observe(&mut self, member: usize, publisher: usize, sequence: u64) -> Arrival {
        let stream = &mut self.streams[member * self.publishers_per_member + publisher];
        let arrival = stream.observe(sequence);
        match arrival {
            Arrival::InOrder | Arrival::AfterGap => self.received += 1,
            Arrival::Reordered => {
                self.received += 1;
                self.reordered += 1;
            }
            Arrival::Duplicate => self.duplicated += 1,
        }
        arrival
    }

    /// Messages received so far, each once.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Settles one member's streams against what their publishers sent.
    pub fn settle_member(&self, member: usize, published: &[u64], account: &mut Account) {
        let first = member * self.publishers_per_member;
        let streams = &self.streams[first..first + self.publishers_per_member];
        for (stream, &published) in streams.iter().zip(published) {
            let (lost, stray) = stream.settle(published);
            account.expected += published;
            account.lost += lost;
            account.stray += stray;
            account.received += published - lost;
        }
    }

    /// Adds what does not depend on the published counts.
    pub fn settle_totals(&self, account: &mut Account) {
        account.duplicated += self.duplicated;
        account.reordered += self.reordered;
    }
}

impl Stream {
    fn observe(&mut self, sequence: u64) -> Arrival {
        if sequence == self.next {
            self.next += 1;
            return Arrival::InOrder;
        }
        self.observe_out_of_turn(sequence)
    }

    #[cold]
    fn observe_out_of_turn(&mut self, sequence: u64) -> Arrival {
        if sequence > self.next {
            self.gaps.get_or_insert_default().push(self.next..sequence);
            self.next = sequence + 1;
            return Arrival::AfterGap;
        }
        let Some(gaps) = &mut self.gaps else {
            return Arrival::Duplicate;
        };
        let Some(at) = gaps.iter().position(|gap| gap.contains(&sequence)) else {
            return Arrival::Duplicate;
        };
        let gap = gaps.swap_remove(at);
        gaps.extend(
            [gap.start..sequence, sequence + 1..gap.end]
                .into_iter()
                .filter(|g| !g.is_empty()),
        );
        Arrival::Reordered
    }

    /// (lost, received beyond what was published).
    fn settle(&self, published: u64) -> (u64, u64) {
        let gaps = self.gaps.iter().flat_map(|gaps| gaps.iter());
        let missing: u64 = gaps
            .map(|gap| gap.end.min(published).saturating_sub(gap.start))
            .sum();
        let beyond_gaps: u64 = self
            .gaps
            .iter()
            .flat_map(|gaps| gaps.iter())
            .map(|gap| gap.end.saturating_sub(gap.start.max(published)))
            .sum();
        let tail = published.saturating_sub(self.next);
        (
            missing + tail,
            self.next
                .saturating_sub(published)
                .saturating_sub(beyond_gaps),
        )
    }
}

impl Account {
    pub fn add(&mut self, other: &Account) {
        self.expected += other.expected;
        self.received += other.received;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.stray += other.stray;
    }

    /// `None` when every member received every message once and in order.
    pub fn fault(&self) -> Option<String> {
        let clean = self.lost + self.duplicated + self.reordered + self.stray == 0;
        (!clean).then(|| {
            format!(
                "{} lost, {} duplicated, {} reordered, {} stray of {} expected deliveries",
                self.lost, self.duplicated, self.reordered, self.stray, self.expected
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn settle(ledger: &Ledger, published: &[u64]) -> Account {
        let mut account = Account::default();
        ledger.settle_member(0, published, &mut account);
        ledger.settle_totals(&mut account);
        account
    }

    #[test]
    fn a_clean_stream_has_no_fault() {
        let mut ledger = Ledger::new(1, 1);
        for sequence in 0..100 {
            assert_eq!(ledger.observe(0, 0, sequence), Arrival::InOrder);
        }
        let account = settle(&ledger, &[100]);
        assert_eq!((account.expected, account.received), (100, 100));
        assert_eq!(account.fault(), None);
    }

    #[test]
    fn a_swap_is_one_reordered_and_nothing_lost() {
        let mut ledger = Ledger::new(1, 1);
        for sequence in [0, 2, 1, 3] {
            ledger.observe(0, 0, sequence);
        }
        let account = settle(&ledger, &[4]);
        assert_eq!(
            (account.lost, account.reordered, account.duplicated),
            (0, 1, 0)
        );
    }

    #[test]
    fn what_nobody_published_is_stray() {
        let mut ledger = Ledger::new(1, 1);
        ledger.observe(0, 0, 0);
        ledger.observe(0, 0, 9);
        let account = settle(&ledger, &[3]);
        assert_eq!((account.received, account.lost, account.stray), (1, 2, 1));
    }

    proptest! {
        /// Any sequence of arrivals is accounted as a set and a naive scan account it.
        #[test]
        fn agrees_with_a_naive_account(arrivals in prop::collection::vec(0u64..40, 0..120)) {
            let mut ledger = Ledger::new(1, 1);
            let (mut seen, mut duplicated, mut reordered) = (HashSet::new(), 0, 0);
            let mut highest = None;
            for &sequence in &arrivals {
                ledger.observe(0, 0, sequence);
                if !seen.insert(sequence) {
                    duplicated += 1;
                } else if highest.is_some_and(|highest| sequence < highest) {
                    reordered += 1;
                }
                highest = highest.max(Some(sequence));
            }
            let account = settle(&ledger, &[40]);
            prop_assert_eq!(account.received, seen.len() as u64);
            prop_assert_eq!(ledger.received(), seen.len() as u64);
            prop_assert_eq!(account.lost, 40 - seen.len() as u64);
            prop_assert_eq!(account.duplicated, duplicated);
            prop_assert_eq!(account.reordered, reordered);
            prop_assert_eq!(account.stray, 0);
        }
    }
}
