//! Owns who is in which room when, as one user's client knows it, and what therefore had to reach
//! it. A message counts as expected when it was sent after the join was confirmed and long enough
//! before the leave was asked for; while a change is in flight the server may decide either way.
//! How long is enough, `flight` says.
//! Pure: times are arguments.

use super::flight::{Flights, push};
use super::received::{Arrival, Received};
use outcome::Totals;
use std::ops::Range;

/// One user's view of one room.
#[derive(Debug, Default)]
pub struct Membership {
    pub room: u64,
    spans: Vec<Span>,
    /// By worker; a worker that never sent has none.
    streams: Vec<Received>,
    /// Own messages that the server must not send back: their sequences, ascending.
    own: Vec<u64>,
    /// How many of them the stream of this user's worker knows. The rest are ahead of what arrived, and would only tear it.
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
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Account {
    pub totals: Totals,
    /// Publishers of which more messages may have been out of order than were counted.
    pub order_unknown: u64,
    /// Expected deliveries by the second in which their message was sent.
    pub expected_by_second: Vec<u64>,
}

/// When each message of one stream was sent; `index` is its sequence.
pub type SentTimes = [u64];

/// How send times become seconds of the run.
#[derive(Clone, Debug)]
pub struct Clockwork {
    pub start_ns: u64,
    /// How long messages may have been on their way to the server's decision.
    pub flights: Flights,
}

impl Membership {
    pub fn new(room: u64) -> Self {
        Membership {
            room,
            ..Membership::default()
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
            && sequence <= self.stream(worker).end()
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
        clockwork: &Clockwork,
        account: &mut Account,
    ) {
        let claims = self.claims(&clockwork.flights);
        for (worker, times) in sent.iter().enumerate() {
            let own: &[u64] = if worker == own_worker { &self.own } else { &[] };
            let mut stream = self.streams.get(worker).cloned().unwrap_or_default();
            for &sequence in own.iter().skip(self.own_marked) {
                stream.mark_own(sequence);
            }
            account.order_unknown += stream.unknown_order();
            claims.settle_stream(times, stream.runs(), own, clockwork, account);
        }
    }

    /// What this user may claim of the messages sent to the room, by when they were sent.
    fn claims(&self, flights: &Flights) -> Claims {
        let mut claims = Claims::default();
        for span in &self.spans {
            let definite = &mut claims.definite;
            match (span.leave_asked_ns, span.lost) {
                (end_ns, true) | (end_ns @ u64::MAX, _) => push(definite, span.joined_ns..end_ns),
                (end_ns, false) => flights.decided(span.joined_ns, end_ns, definite),
            }
            for before in flights.undecided(span.join_asked_ns) {
                push(&mut claims.possible, before);
            }
            push(&mut claims.possible, span.join_asked_ns..span.left_ns);
            let from_ns = span.join_asked_ns.saturating_sub(flights.longest_ns());
            push(&mut claims.conceivable, from_ns..span.left_ns);
        }
        claims
    }
}

/// Times, each kind within the next.
#[derive(Debug, Default)]
struct Claims {
    /// What was sent then had to arrive.
    definite: Vec<Range<u64>>,
    /// It may arrive or not.
    possible: Vec<Range<u64>>,
    /// It is not stray if it arrives: some delivery of the run took that long.
    conceivable: Vec<Range<u64>>,
}

/// One stream's messages of one kind; the user's own are left out.
struct Claimed {
    all: u64,
    got: u64,
}

impl Claims {
    fn settle_stream(
        &self,
        times: &SentTimes,
        runs: &[Range<u64>],
        own: &[u64],
        clockwork: &Clockwork,
        account: &mut Account,
    ) {
        let definite_ranges = ranges_of(times, &self.definite);
        let claimed = |ranges: &[Range<u64>]| {
            let within = |n: &&u64| ranges.iter().any(|range| range.contains(n));
            let own = own.iter().filter(within).count() as u64;
            Claimed {
                all: ranges.iter().map(|r| r.end - r.start).sum::<u64>() - own,
                got: overlap(runs, ranges) - own,
            }
        };
        let definite = claimed(&definite_ranges);
        let possible = claimed(&ranges_of(times, &self.possible));
        let conceivable = claimed(&ranges_of(times, &self.conceivable));
        let totals = &mut account.totals;
        totals.expected += definite.all;
        totals.received += definite.got;
        totals.lost += definite.all - definite.got;
        // What is possible and not definite may go either way; so did what came all the same.
        let besides = conceivable.got - possible.got;
        totals.either_allowed += possible.all - definite.all + besides;
        totals.either_received += conceivable.got - definite.got;
        let all = runs.iter().map(|run| run.end - run.start).sum::<u64>();
        totals.stray += all - own.len() as u64 - conceivable.got;
        for range in &definite_ranges {
            count_by_second(
                times,
                range,
                own,
                clockwork,
                &mut account.expected_by_second,
            );
        }
    }
}

/// Sequences sent in any of these times, ascending.
fn ranges_of(times: &SentTimes, claims: &[Range<u64>]) -> Vec<Range<u64>> {
    let ranges = claims
        .iter()
        .map(|time| range_of(times, time.start, time.end));
    let mut ranges: Vec<_> = ranges.filter(|range| !range.is_empty()).collect();
    // A stay may reach back into the one before it.
    ranges.sort_unstable_by_key(|range| range.start);
    merged(ranges)
}

/// Sequences sent from `from_ns` on and before `to_ns`. A worker's sequence follows its clock.
fn range_of(times: &SentTimes, from_ns: u64, to_ns: u64) -> Range<u64> {
    let start = times.partition_point(|&sent_ns| sent_ns < from_ns) as u64;
    let end = times.partition_point(|&sent_ns| sent_ns < to_ns) as u64;
    start..end.max(start)
}

/// Ranges that come in the order of their starts, joined where they meet.
fn merged(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
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
    clockwork: &Clockwork,
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
        self.totals.add(&other.totals);
        self.order_unknown += other.order_unknown;
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

    /// Every message may be under way for 10 ms.
    fn clockwork() -> Clockwork {
        Clockwork {
            start_ns: 0,
            flights: Flights::default(),
        }
    }

    /// Times in milliseconds.
    fn settle(membership: &Membership, times: &[u64]) -> Account {
        let times: Vec<u64> = times.iter().map(|at| at * MS).collect();
        let mut account = Account::default();
        membership.settle(&[&times], 0, &clockwork(), &mut account);
        account
    }

    /// In the room from 100 (asked at 90) to 200 (asked), 210 (confirmed).
    fn stay() -> Membership {
        let mut membership = Membership::new(1);
        membership.join_asked(90 * MS);
        membership.joined(100 * MS);
        membership.leave_asked(200 * MS);
        membership.left(210 * MS);
        membership
    }

    #[test]
    fn messages_around_a_change_may_go_either_way() {
        // Before; in flight; inside (two); too close to leaving (two); after.
        let times = [79, 85, 100, 150, 195, 205, 220];
        let mut membership = stay();
        let account = settle(&membership, &times);
        assert_eq!(
            (
                account.totals.expected,
                account.totals.lost,
                account.totals.either_allowed
            ),
            (2, 2, 3)
        );
        for sequence in [1, 2, 3, 4] {
            membership.observe(0, sequence, 9, 0);
        }
        let account = settle(&membership, &times);
        assert_eq!((account.totals.received, account.totals.lost), (2, 0));
        assert_eq!(
            (account.totals.either_received, account.totals.stray),
            (2, 0)
        );
        membership.observe(0, 6, 9, 0);
        assert_eq!(
            settle(&membership, &times).totals.stray,
            1,
            "sent after it had left"
        );
    }

    #[test]
    fn a_broken_connection_owes_everything_up_to_the_break() {
        let mut membership = Membership::new(1);
        membership.join_asked(0);
        membership.joined(MS);
        membership.cut(200 * MS, true);
        let account = settle(&membership, &[50, 199, 201]);
        assert_eq!(
            (
                account.totals.expected,
                account.totals.lost,
                account.totals.either_allowed
            ),
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
            (
                account.totals.expected,
                account.totals.received,
                account.totals.lost
            ),
            (2, 2, 0)
        );
        assert_eq!(account.totals.stray, 0);
    }

    #[test]
    fn what_nobody_sent_is_stray_and_seconds_add_up() {
        let mut membership = Membership::new(1);
        membership.join_asked(0);
        membership.joined(0);
        for sequence in 0..5 {
            membership.observe(0, sequence, 9, u32::from(sequence > 0));
        }
        let times = [500, 900, 1_000, 2_500];
        let account = settle(&membership, &times);
        assert_eq!(
            (
                account.totals.expected,
                account.totals.received,
                account.totals.stray
            ),
            (4, 4, 1)
        );
        assert_eq!(account.expected_by_second, [2, 1, 1]);
    }

    const MS: u64 = 1_000_000;

    /// Twenty rooms of one member each, who joins and leaves all the time, and a server that stands still for a while. What
    /// waits then is handled in any order.
    struct Simulation {
        stall: Range<u64>,
        /// Of the deliveries to who has left before, the server drops one in five.
        is_faulty: bool,
        gap_ns: u64,
        dice: fastrand::Rng,
        flights: Flights,
        dropped: u64,
    }

    impl Simulation {
        const ROOMS: usize = 20;
        const LENGTH_NS: u64 = 20_000 * MS;

        /// When the server handles what was sent then.
        fn handled(&mut self, sent_ns: u64) -> u64 {
            match self.stall.contains(&sent_ns) {
                true => self.stall.end + self.dice.u64(..20 * MS),
                false => sent_ns + self.dice.u64(MS / 10..2 * MS),
            }
        }

        /// The stays in one room, each with when the server saw its ends.
        fn stays(&mut self, membership: &mut Membership) -> Vec<Range<u64>> {
            let mut stays = Vec::new();
            let mut now_ns = self.dice.u64(..1_000 * MS);
            while now_ns < Simulation::LENGTH_NS {
                membership.join_asked(now_ns);
                let joined_ns = self.handled(now_ns);
                membership.joined(joined_ns + MS / 5);
                self.flights.record(now_ns, joined_ns + MS / 5);
                let leave_ns = joined_ns + 400 * MS;
                membership.leave_asked(leave_ns);
                let left_ns = self.handled(leave_ns);
                membership.left(left_ns + MS / 5);
                self.flights.record(leave_ns, left_ns + MS / 5);
                stays.push(joined_ns..left_ns);
                now_ns = left_ns + 600 * MS;
            }
            stays
        }

        fn run(mut self) -> (Account, u64) {
            let mut members: Vec<Membership> =
                (0..Simulation::ROOMS as u64).map(Membership::new).collect();
            let stays: Vec<_> = members
                .iter_mut()
                .map(|member| self.stays(member))
                .collect();
            let mut times = vec![Vec::new(); Simulation::ROOMS];
            let mut now_ns = 0;
            while now_ns < Simulation::LENGTH_NS {
                now_ns += self.dice.u64(1..2 * self.gap_ns);
                let room = self.dice.usize(..Simulation::ROOMS);
                let sequence = times[room].len() as u64;
                times[room].push(now_ns);
                let handled_ns = self.handled(now_ns);
                let Some(stay) = stays[room]
                    .iter()
                    .position(|stay| stay.contains(&handled_ns))
                else {
                    continue;
                };
                if self.is_faulty && stay > 0 && self.dice.u8(..5) == 0 {
                    self.dropped += 1;
                    continue;
                }
                self.flights.record(now_ns, handled_ns + MS / 5);
                members[room].observe(0, sequence, 9, 0);
            }
            let clockwork = Clockwork {
                start_ns: 0,
                flights: self.flights,
            };
            let mut account = Account::default();
            for (member, times) in members.iter().zip(&times) {
                member.settle(&[times], 0, &clockwork, &mut account);
            }
            (account, self.dropped)
        }
    }

    fn simulation(seed: u64, gap_ns: u64, stall_ns: u64, is_faulty: bool) -> Simulation {
        let mut dice = fastrand::Rng::with_seed(seed);
        let start_ns = dice.u64(..Simulation::LENGTH_NS);
        Simulation {
            stall: start_ns..start_ns + stall_ns,
            is_faulty,
            gap_ns,
            dice,
            flights: Flights::default(),
            dropped: 0,
        }
    }

    #[test]
    fn a_healthy_server_that_stands_still_lost_nothing() {
        for seed in 0..200 {
            for gap_ns in [2 * MS, 10 * MS, 100 * MS, 400 * MS] {
                for stall_ns in [0, 60 * MS, 250 * MS, 600 * MS, 5_000 * MS] {
                    let (account, _) = simulation(seed, gap_ns, stall_ns, false).run();
                    let what =
                        format!("seed {seed}, a message each {gap_ns} ns, {stall_ns} ns still");
                    assert_eq!(
                        (account.totals.lost, account.totals.stray),
                        (0, 0),
                        "{what}: {account:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_short_stall_does_not_hide_what_was_lost() {
        for seed in 0..100 {
            for stall_ns in [0, 250 * MS, 600 * MS] {
                let (account, dropped) = simulation(seed, 2 * MS, stall_ns, true).run();
                assert!(
                    account.totals.lost > dropped * 6 / 10,
                    "{dropped} dropped, {account:?}"
                );
                assert!(
                    account.totals.lost <= dropped,
                    "{dropped} dropped, {account:?}"
                );
            }
        }
    }

    /// What came although it was sent too early to be possible is no stray: some delivery took that long.
    #[test]
    fn what_arrives_long_after_a_join_may_do_so() {
        let mut flights = Flights::default();
        (0..500).for_each(|at| flights.record(at * 10 * MS, at * 10 * MS + MS));
        flights.record(0, 2_000 * MS);
        let mut membership = Membership::new(1);
        membership.join_asked(3_000 * MS);
        membership.joined(3_001 * MS);
        membership.observe(0, 0, 9, 0);
        let clockwork = Clockwork {
            start_ns: 0,
            flights: flights.clone(),
        };
        let mut account = Account::default();
        let times = [2_500 * MS, 2_600 * MS];
        membership.settle(&[&times], 0, &clockwork, &mut account);
        assert_eq!(
            (account.totals.stray, account.totals.either_allowed),
            (0, 1)
        );
        assert_eq!(account.totals.either_received, 1);
    }
}
