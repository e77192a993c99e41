//! Owns who is in which room when, as one user's client knows it, and what therefore had to reach
//! it. A message counts as expected when it was sent after the join was confirmed and long enough
//! before the leave was asked for; while a change is in flight the server may decide either way.
//! Pure: times are arguments.

use super::received::{Arrival, Received};
use std::ops::Range;

/// One user's view of one room.
#[derive(Debug)]
pub struct Membership {
    pub room: u64,
    spans: Vec<Span>,
    /// By worker; a worker that never sent has none.
    streams: Vec<Received>,
    /// Own messages that the server must not send back: their sequences, ascending.
    own: Vec<u64>,
    /// How many of them the stream of this user's worker knows. The rest are so far ahead of what
    /// arrived that they would only tear it.
    own_marked: usize,
    own_worker: u16,
}

/// One stay in a room.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub join_asked_ns: u64,
    /// `u64::MAX` until confirmed.
    pub joined_ns: u64,
    pub leave_asked_ns: u64,
    pub left_ns: u64,
    /// The connection broke: what was sent before had to arrive, however shortly before.
    pub lost: bool,
}

/// What the members of one worker should have had, and had.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Account {
    pub expected: u64,
    pub received: u64,
    pub lost: u64,
    pub either_allowed: u64,
    pub either_received: u64,
    pub stray: u64,
    /// Expected deliveries by the second in which their message was sent.
    pub expected_by_second: Vec<u64>,
}

/// When each message of one stream was sent; `index` is its sequence.
pub type SentTimes = [u64];

/// How send times become seconds of the run.
#[derive(Clone, Copy, Debug)]
pub struct Clockwork {
    pub start_ns: u64,
    /// Longest that a message may have been on its way to the server's decision.
    pub flight_ns: u64,
}

impl Membership {
    pub fn new(room: u64) -> Self {
        Membership {
            room,
            spans: Vec::new(),
            streams: Vec::new(),
            own: Vec::new(),
            own_marked: 0,
            own_worker: 0,
        }
    }

    pub fn join_asked(&mut self, now_ns: u64) {
        self.spans.push(Span {
            join_asked_ns: now_ns,
            joined_ns: u64::MAX,
            leave_asked_ns: u64::MAX,
            left_ns: u64::MAX,
            lost: false,
        });
    }

    pub fn joined(&mut self, now_ns: u64) {
        if let Some(span) = self.spans.last_mut() {
            span.joined_ns = now_ns;
        }
    }

    pub fn leave_asked(&mut self, now_ns: u64) {
        if let Some(span) = self.open_span() {
            span.leave_asked_ns = now_ns;
        }
    }

    pub fn left(&mut self, now_ns: u64) {
        if let Some(span) = self.open_span() {
            span.left_ns = now_ns;
            span.leave_asked_ns = span.leave_asked_ns.min(now_ns);
        }
    }

    /// The connection ended; `lost` when nobody had asked for it.
    pub fn cut(&mut self, now_ns: u64, lost: bool) {
        if let Some(span) = self.open_span() {
            span.lost = lost && span.leave_asked_ns == u64::MAX;
            span.left_ns = now_ns;
            span.leave_asked_ns = span.leave_asked_ns.min(now_ns);
        }
    }

    pub fn is_member(&self) -> bool {
        self.spans
            .last()
            .is_some_and(|span| span.left_ns == u64::MAX)
    }

    fn open_span(&mut self) -> Option<&mut Span> {
        self.spans
            .last_mut()
            .filter(|span| span.left_ns == u64::MAX)
    }

    pub fn observe(&mut self, worker: u16, sequence: u64, publisher: u32, back: u32) -> Arrival {
        let arrival = self.stream(worker).observe(sequence, publisher, back);
        if self.own_marked < self.own.len() {
            self.mark_own(worker);
        }
        arrival
    }

    /// Notes that this user sent message `sequence` itself and will not get it.
    pub fn sent_own(&mut self, worker: u16, sequence: u64) {
        self.own.push(sequence);
        self.own_worker = worker;
        self.mark_own(worker);
    }

    /// Tells the stream about own messages that it has come close to.
    fn mark_own(&mut self, worker: u16) {
        if worker != self.own_worker {
            return;
        }
        while let Some(&sequence) = self.own.get(self.own_marked)
            && self.stream(worker).is_within_reach(sequence)
        {
            self.stream(worker).mark_own(sequence);
            self.own_marked += 1;
        }
    }

    /// Whether this is a message of this user that must not come back to it.
    pub fn is_own(&self, sequence: u64) -> bool {
        self.own.binary_search(&sequence).is_ok()
    }

    fn stream(&mut self, worker: u16) -> &mut Received {
        let at = usize::from(worker);
        if at >= self.streams.len() {
            self.streams.resize_with(at + 1, Received::default);
        }
        &mut self.streams[at]
    }

    /// Compares what arrived with what was sent. `sent` has the send times of each worker's
    /// messages to this room, `own_worker` is the one this user belongs to.
    pub fn settle(
        &self,
        sent: &[&SentTimes],
        own_worker: usize,
        clockwork: Clockwork,
        account: &mut Account,
    ) {
        for (worker, times) in sent.iter().enumerate() {
            let own: &[u64] = if worker == own_worker { &self.own } else { &[] };
            let mut stream = self.streams.get(worker).cloned().unwrap_or_default();
            for &sequence in own.iter().skip(self.own_marked) {
                stream.mark_own(sequence);
            }
            let runs: Vec<Range<u64>> = stream.runs().collect();
            self.settle_stream(times, &runs, own, clockwork, account);
        }
    }

    fn settle_stream(
        &self,
        times: &SentTimes,
        runs: &[Range<u64>],
        own: &[u64],
        clockwork: Clockwork,
        account: &mut Account,
    ) {
        let definite = self.definite(times, clockwork);
        let possible = self.possible(times, clockwork);
        let within = |ranges: &[Range<u64>], n: &u64| ranges.iter().any(|r| r.contains(n));
        let own_definite = own.iter().filter(|n| within(&definite, n)).count() as u64;
        let own_possible = own.iter().filter(|n| within(&possible, n)).count() as u64;
        let total = |ranges: &[Range<u64>]| ranges.iter().map(|r| r.end - r.start).sum::<u64>();
        let got_definite = overlap(runs, &definite);
        let got_possible = overlap(runs, &possible);
        let (all_definite, all_possible) = (total(&definite), total(&possible));
        account.expected += all_definite - own_definite;
        account.received += got_definite - own_definite;
        account.lost += all_definite - got_definite;
        // `possible` contains `definite`: what is between them may go either way.
        account.either_allowed += (all_possible - own_possible) - (all_definite - own_definite);
        account.either_received += (got_possible - own_possible) - (got_definite - own_definite);
        let own_outside = own.len() as u64 - own_possible;
        account.stray += total(runs) - got_possible - own_outside;
        for range in &definite {
            count_by_second(
                times,
                range,
                own,
                clockwork,
                &mut account.expected_by_second,
            );
        }
    }

    /// Messages that had to arrive, as sequence ranges.
    fn definite(&self, times: &SentTimes, clockwork: Clockwork) -> Vec<Range<u64>> {
        let ranges = self.spans.iter().map(|span| {
            let allowance = if span.lost { 0 } else { clockwork.flight_ns };
            let end_ns = match span.leave_asked_ns {
                u64::MAX => u64::MAX,
                asked => asked.saturating_sub(allowance),
            };
            range_of(times, span.joined_ns, end_ns)
        });
        merged(ranges)
    }

    /// Messages that might arrive, the definite ones among them.
    fn possible(&self, times: &SentTimes, clockwork: Clockwork) -> Vec<Range<u64>> {
        let ranges = self.spans.iter().map(|span| {
            let from_ns = span.join_asked_ns.saturating_sub(clockwork.flight_ns);
            range_of(times, from_ns, span.left_ns)
        });
        merged(ranges)
    }
}

/// Sequences sent from `from_ns` on and before `to_ns`. A worker's sequence follows its clock.
fn range_of(times: &SentTimes, from_ns: u64, to_ns: u64) -> Range<u64> {
    let start = times.partition_point(|&sent_ns| sent_ns < from_ns) as u64;
    let end = times.partition_point(|&sent_ns| sent_ns < to_ns) as u64;
    start..end.max(start)
}

/// Ranges that come in the order of their starts, joined where they meet.
fn merged(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges.filter(|range| !range.is_empty()) {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Numbers that are in both of two ascending lists of disjoint ranges.
fn overlap(a: &[Range<u64>], b: &[Range<u64>]) -> u64 {
    let (mut i, mut j, mut total) = (0, 0, 0);
    while let (Some(left), Some(right)) = (a.get(i), b.get(j)) {
        let (start, end) = (left.start.max(right.start), left.end.min(right.end));
        total += end.saturating_sub(start);
        if left.end <= right.end {
            i += 1;
        } else {
            j += 1;
        }
    }
    total
}

fn count_by_second(
    times: &SentTimes,
    range: &Range<u64>,
    own: &[u64],
    clockwork: Clockwork,
    seconds: &mut Vec<u64>,
) {
    const SECOND_NS: u64 = 1_000_000_000;
    let mut at = range.start;
    while at < range.end {
        let second = times[at as usize].saturating_sub(clockwork.start_ns) / SECOND_NS;
        let next_ns = clockwork.start_ns + (second + 1) * SECOND_NS;
        let rest = &times[at as usize..range.end as usize];
        let end = at + rest.partition_point(|&sent_ns| sent_ns < next_ns) as u64;
        if second as usize >= seconds.len() {
            seconds.resize(second as usize + 1, 0);
        }
        let own = own.iter().filter(|n| (at..end).contains(n)).count() as u64;
        seconds[second as usize] += end - at - own;
        at = end;
    }
}

impl Account {
    pub fn add(&mut self, other: &Account) {
        self.expected += other.expected;
        self.received += other.received;
        self.lost += other.lost;
        self.either_allowed += other.either_allowed;
        self.either_received += other.either_received;
        self.stray += other.stray;
        let seconds = self
            .expected_by_second
            .len()
            .max(other.expected_by_second.len());
        self.expected_by_second.resize(seconds, 0);
        for (total, more) in self
            .expected_by_second
            .iter_mut()
            .zip(&other.expected_by_second)
        {
            *total += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCKWORK: Clockwork = Clockwork {
        start_ns: 0,
        flight_ns: 10,
    };

    fn settle(membership: &Membership, times: &[u64]) -> Account {
        let mut account = Account::default();
        membership.settle(&[times], 0, CLOCKWORK, &mut account);
        account
    }

    /// In the room from 100 (asked at 90) to 200 (asked), 210 (confirmed).
    fn stay() -> Membership {
        let mut membership = Membership::new(1);
        membership.join_asked(90);
        membership.joined(100);
        membership.leave_asked(200);
        membership.left(210);
        membership
    }

    #[test]
    fn messages_around_a_change_may_go_either_way() {
        // Before; in flight; inside (two); too close to leaving (two); after.
        let times = [79, 85, 100, 150, 195, 205, 220];
        let mut membership = stay();
        let account = settle(&membership, &times);
        assert_eq!(
            (account.expected, account.lost, account.either_allowed),
            (2, 2, 3)
        );
        for sequence in [1, 2, 3, 4] {
            membership.observe(0, sequence, 9, 0);
        }
        let account = settle(&membership, &times);
        assert_eq!((account.received, account.lost), (2, 0));
        assert_eq!((account.either_received, account.stray), (2, 0));
        membership.observe(0, 6, 9, 0);
        assert_eq!(
            settle(&membership, &times).stray,
            1,
            "sent after it had left"
        );
    }

    #[test]
    fn a_broken_connection_owes_everything_up_to_the_break() {
        let mut membership = Membership::new(1);
        membership.join_asked(0);
        membership.joined(1);
        membership.cut(200, true);
        let account = settle(&membership, &[50, 199, 201]);
        assert_eq!(
            (account.expected, account.lost, account.either_allowed),
            (2, 2, 0)
        );
    }

    #[test]
    fn own_messages_are_not_expected_back() {
        let mut membership = stay();
        membership.observe(0, 0, 9, 0);
        membership.sent_own(0, 1);
        membership.observe(0, 2, 9, 2);
        let account = settle(&membership, &[110, 120, 130]);
        assert_eq!(
            (account.expected, account.received, account.lost),
            (2, 2, 0)
        );
        assert_eq!(account.stray, 0);
    }

    #[test]
    fn what_nobody_sent_is_stray_and_seconds_add_up() {
        let mut membership = Membership::new(1);
        membership.join_asked(0);
        membership.joined(0);
        for sequence in 0..5 {
            membership.observe(0, sequence, 9, u32::from(sequence > 0));
        }
        let times = [500_000_000, 900_000_000, 1_000_000_000, 2_500_000_000];
        let account = settle(&membership, &times);
        assert_eq!(
            (account.expected, account.received, account.stray),
            (4, 4, 1)
        );
        assert_eq!(account.expected_by_second, [2, 1, 1]);
    }

    #[test]
    fn a_second_stay_is_accounted_like_the_first() {
        let mut membership = stay();
        membership.join_asked(300);
        membership.joined(310);
        let times = [150, 250, 350];
        for sequence in [0, 2] {
            membership.observe(0, sequence, 9, 1);
        }
        let account = settle(&membership, &times);
        assert_eq!(
            (account.expected, account.received, account.either_allowed),
            (2, 2, 0)
        );
    }
}
