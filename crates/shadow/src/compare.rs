//! Finds for each packet of one side its like on the other. Pure: packets and times in, figures out.

use crate::report::{Kind, Report, Sample, differences, form};
use serde_json::Value;
use std::collections::{HashMap, VecDeque};

/// Packets of both sides that wait for their like.
const WAITING_MAX: usize = 200_000;
/// And their bytes, as they came.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// So many packets are looked through for an id that has just become known.
const RENAMED_MAX: usize = 10_000;
/// What the gateway said in the last moment of a session may have come too late from the running server.
const ON_ITS_WAY_MS: u64 = 500;

/// The two servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The running server, whose words clients hear.
    Real,
    /// The gateway, whose words nobody hears.
    Own,
}

/// Packets are compared among those of the same event, in the same namespace of the same session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lane {
    pub session: u64,
    pub namespace: String,
    pub event: String,
}

/// A packet that one side said.
#[derive(Debug)]
pub struct Saying {
    /// Without all that may differ.
    pub content: Value,
    /// The id of a question.
    pub id: Option<u64>,
    pub bytes: usize,
    /// Packets of the running server with the same cause have an order: one client brought them about, and no other spoke meanwhile.
    /// 0 = nobody knows.
    pub cause: u64,
}

#[derive(Debug)]
struct Waiting {
    said: Saying,
    until_ms: u64,
    /// Its like comes on the wrong side of another one of this cause. 0 = of none.
    crossed: u64,
}

#[derive(Debug, Default)]
struct Sides {
    real: VecDeque<Waiting>,
    own: VecDeque<Waiting>,
}

impl Sides {
    /// Those of this side, and those of the other.
    fn of(&mut self, side: Side) -> (&mut VecDeque<Waiting>, &mut VecDeque<Waiting>) {
        match side {
            Side::Real => (&mut self.real, &mut self.own),
            Side::Own => (&mut self.own, &mut self.real),
        }
    }
}

#[derive(Debug)]
pub struct Comparer {
    /// By session, namespace and event: those with a packet that waits.
    sessions: HashMap<u64, HashMap<(String, String), Sides>>,
    /// Lanes in which something becomes old, in order of time.
    due: VecDeque<(u64, Lane)>,
    window_ms: u64,
    waiting: usize,
    bytes: usize,
    /// Samples show values.
    values: bool,
}

impl Comparer {
    /// A packet waits for so long for its like.
    pub fn new(window_ms: u64, values: bool) -> Self {
        Self {
            sessions: HashMap::new(),
            due: VecDeque::new(),
            window_ms,
            waiting: 0,
            bytes: 0,
            values,
        }
    }

    /// A side said something. Returns the ids of two equal questions, that of the real side first.
    pub fn said(
        &mut self,
        now_ms: u64,
        side: Side,
        lane: Lane,
        said: Saying,
        report: &mut Report,
    ) -> Option<(u64, u64)> {
        let lanes = self.sessions.entry(lane.session).or_default();
        let key = (lane.namespace.clone(), lane.event.clone());
        let sides = lanes.entry(key).or_default();
        let (mine, others) = sides.of(side);
        let Some(at) = others.iter().position(|other| is_like(&other.said, &said)) else {
            if self.waiting >= WAITING_MAX || self.bytes + said.bytes > WAITING_BYTES_MAX {
                report.unjudged += 1;
                self.tidy(&lane);
                return None;
            }
            (self.waiting, self.bytes) = (self.waiting + 1, self.bytes + said.bytes);
            let until_ms = now_ms + self.window_ms;
            mine.push_back(Waiting {
                said,
                until_ms,
                crossed: 0,
            });
            self.due.push_back((until_ms, lane));
            return None;
        };
        let reordered = is_reordered(side, (mine, others), at, said.cause);
        let other = others.remove(at)?.said;
        self.waiting -= 1;
        self.bytes -= other.bytes;
        self.tidy(&lane);
        let counts = report.counts(&lane.event);
        counts.equal += 1;
        if reordered {
            counts.reordered += 1;
            let parts =
                vec!["another of this event comes before it there, and after it here".to_owned()];
            report.sample(sample(Kind::Reordered, &lane, parts));
        }
        let ids = (said.id?, other.id?);
        Some(match side {
            Side::Real => ids,
            Side::Own => (ids.1, ids.0),
        })
    }

    /// Judges what waited for too long.
    pub fn pass_time(&mut self, now_ms: u64, report: &mut Report) {
        while let Some((until_ms, _)) = self.due.front()
            && *until_ms <= now_ms
            && let Some((_, lane)) = self.due.pop_front()
        {
            self.judge(now_ms, &lane, report);
        }
    }

    /// Nothing else will come. The like of what came in the last half of a window may have been on its way.
    pub fn finish(&mut self, now_ms: u64, report: &mut Report) {
        self.pass_time(now_ms.saturating_add(self.window_ms / 2), report);
    }

    /// All that was said to this client was said alike.
    pub fn is_settled(&self, session: u64) -> bool {
        !self.sessions.contains_key(&session)
    }

    /// The client has gone: it got all that the running server had for it. What the gateway alone has said a moment ago may have been
    /// on its way there, too, and is no difference.
    pub fn end(&mut self, now_ms: u64, session: u64, report: &mut Report) {
        let names = self.sessions.get(&session).into_iter().flatten();
        let lanes = names.map(|((namespace, event), _)| Lane {
            session,
            namespace: namespace.clone(),
            event: event.clone(),
        });
        for lane in lanes.collect::<Vec<_>>() {
            let young_ms = (now_ms + self.window_ms).saturating_sub(ON_ITS_WAY_MS);
            while let Some(sides) = self.sides(&lane)
                && sides.own.len() > sides.real.len()
                && let Some(gone) = sides.own.pop_back_if(|last| last.until_ms > young_ms)
            {
                self.waiting -= 1;
                self.bytes -= gone.said.bytes;
            }
            self.judge(u64::MAX, &lane, report);
        }
        self.sessions.remove(&session);
    }

    /// Something stands for this text from now on, also in what waits.
    pub fn know(&mut self, text: &str, stands_for: &str) {
        if self.waiting > RENAMED_MAX {
            return;
        }
        let lanes = self.sessions.values_mut().flat_map(HashMap::values_mut);
        let sides = lanes.flat_map(|sides| sides.real.iter_mut().chain(&mut sides.own));
        sides.for_each(|waiting| rename(&mut waiting.said.content, text, stands_for));
    }

    /// The session is compared no more.
    pub fn give_up(&mut self, session: u64) {
        let lanes = self.sessions.remove(&session).unwrap_or_default();
        for gone in lanes
            .values()
            .flat_map(|sides| sides.real.iter().chain(&sides.own))
        {
            self.waiting -= 1;
            self.bytes -= gone.said.bytes;
        }
    }

    fn sides(&mut self, lane: &Lane) -> Option<&mut Sides> {
        let lanes = self.sessions.get_mut(&lane.session)?;
        lanes.get_mut(&(lane.namespace.clone(), lane.event.clone()))
    }

    /// A lane in which nothing waits is no lane.
    fn tidy(&mut self, lane: &Lane) {
        let is_empty = |sides: &Sides| sides.real.is_empty() && sides.own.is_empty();
        if self.sides(lane).is_some_and(|sides| is_empty(sides))
            && let Some(lanes) = self.sessions.get_mut(&lane.session)
        {
            lanes.remove(&(lane.namespace.clone(), lane.event.clone()));
            if lanes.is_empty() {
                self.sessions.remove(&lane.session);
            }
        }
    }

    fn judge(&mut self, now_ms: u64, lane: &Lane, report: &mut Report) {
        let Some(sides) = self.sides(lane) else {
            return;
        };
        let is_old =
            |queue: &VecDeque<Waiting>| queue.front().is_some_and(|first| first.until_ms <= now_ms);
        let mut judged = Vec::new();
        while is_old(&sides.real) || is_old(&sides.own) {
            // One that is old meets whatever stands at the same place of the other side.
            judged.push((sides.real.pop_front(), sides.own.pop_front()));
        }
        self.tidy(lane);
        for (real, own) in judged {
            for gone in real.iter().chain(&own) {
                self.waiting -= 1;
                self.bytes -= gone.said.bytes;
            }
            let counts = report.counts(&lane.event);
            let (kind, parts) = match (real, own) {
                // Ids of sockets became known while they waited.
                (Some(real), Some(own)) if is_like(&real.said, &own.said) => {
                    counts.equal += 1;
                    continue;
                }
                (Some(real), Some(own)) => {
                    counts.different += 1;
                    let mut parts = differences(&real.said.content, &own.said.content, self.values);
                    if real.said.id.is_some() != own.said.id.is_some() {
                        parts.push("only one of them asks for an answer".to_owned());
                    }
                    (Kind::Different, parts)
                }
                (Some(real), None) => {
                    counts.missing += 1;
                    (Kind::Missing, vec![form(&real.said.content, self.values)])
                }
                (None, Some(own)) => {
                    counts.additional += 1;
                    (Kind::Additional, vec![form(&own.said.content, self.values)])
                }
                (None, None) => continue,
            };
            report.sample(sample(kind, lane, parts));
        }
    }
}

/// The other side's packet at this place has found its like, which comes for this cause. Does one of the same cause stand on the wrong
/// side of it? Those whose like can now only come on the wrong side are marked.
fn is_reordered(
    side: Side,
    (mine, others): (&mut VecDeque<Waiting>, &mut VecDeque<Waiting>),
    at: usize,
    cause: u64,
) -> bool {
    let found = others.get(at);
    let cause = match side {
        Side::Own => found.map_or(0, |real| real.said.cause),
        Side::Real => cause,
    };
    if cause == 0 {
        return false;
    }
    let is_late = found.is_some_and(|found| found.crossed == cause);
    let before = others.range_mut(..at);
    match side {
        Side::Own => {
            mine.iter_mut().for_each(|own| own.crossed = cause);
            let mut before = before;
            is_late || before.any(|real| real.said.cause == cause)
        }
        Side::Real => {
            before.for_each(|own| own.crossed = cause);
            let alike = mine.iter_mut().filter(|real| real.said.cause == cause);
            alike.for_each(|real| real.crossed = cause);
            is_late
        }
    }
}

fn rename(value: &mut Value, text: &str, stands_for: &str) {
    match value {
        Value::String(own) if own == text => *own = stands_for.to_owned(),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| rename(item, text, stands_for)),
        Value::Object(members) => {
            if let Some(member) = members.remove(text) {
                members.insert(stands_for.to_owned(), member);
            }
            members
                .values_mut()
                .for_each(|member| rename(member, text, stands_for));
        }
        _ => {}
    }
}

fn is_like(one: &Saying, other: &Saying) -> bool {
    one.id.is_some() == other.id.is_some() && one.content == other.content
}

fn sample(kind: Kind, lane: &Lane, parts: Vec<String>) -> Sample {
    Sample {
        kind,
        session: lane.session,
        namespace: lane.namespace.clone(),
        event: lane.event.clone(),
        parts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Counts;
    use serde_json::json;

    struct Bench {
        comparer: Comparer,
        report: Report,
        cause: u64,
    }

    impl Bench {
        fn new() -> Self {
            let (comparer, report) = (Comparer::new(1_000, false), Report::default());
            Self {
                comparer,
                report,
                cause: 1,
            }
        }

        fn say(
            &mut self,
            now_ms: u64,
            side: Side,
            content: Value,
            id: Option<u64>,
        ) -> Option<(u64, u64)> {
            let (namespace, event) = ("/".to_owned(), "m".to_owned());
            let lane = Lane {
                session: 1,
                namespace,
                event,
            };
            let said = Saying {
                content,
                id,
                bytes: 10,
                cause: self.cause,
            };
            self.comparer
                .said(now_ms, side, lane, said, &mut self.report)
        }

        fn counts(&mut self) -> Counts {
            *self.report.counts("m")
        }
    }

    #[test]
    fn equal_packets_find_each_other_whoever_is_first() {
        let mut bench = Bench::new();
        assert_eq!(bench.say(0, Side::Real, json!(1), Some(7)), None);
        assert_eq!(bench.say(5, Side::Own, json!(1), Some(3)), Some((7, 3)));
        assert_eq!(bench.say(6, Side::Own, json!(1), Some(4)), None);
        assert_eq!(bench.say(9, Side::Real, json!(1), Some(8)), Some((8, 4)));
        bench.comparer.finish(u64::MAX, &mut bench.report);
        assert_eq!(
            bench.counts(),
            Counts {
                equal: 2,
                ..Counts::default()
            }
        );
        assert_eq!(
            (
                bench.comparer.waiting,
                bench.comparer.bytes,
                bench.comparer.sessions.len()
            ),
            (0, 0, 0)
        );
    }

    #[test]
    fn equal_values_twice_on_one_side_are_two_packets() {
        let mut bench = Bench::new();
        bench.say(0, Side::Real, json!(1), None);
        bench.say(0, Side::Real, json!(1), None);
        bench.say(0, Side::Own, json!(1), None);
        bench.comparer.finish(u64::MAX, &mut bench.report);
        assert_eq!(
            bench.counts(),
            Counts {
                equal: 1,
                missing: 1,
                ..Counts::default()
            }
        );
    }

    #[test]
    fn differences_are_told_by_kind_when_their_time_is_over() {
        let mut bench = Bench::new();
        bench.say(0, Side::Real, json!(1), None);
        bench.say(10, Side::Own, json!(2), None);
        bench.say(20, Side::Own, json!(3), None);
        bench.comparer.pass_time(999, &mut bench.report);
        assert_eq!(bench.counts(), Counts::default());
        bench.comparer.pass_time(1_000, &mut bench.report);
        assert_eq!(
            bench.counts(),
            Counts {
                different: 1,
                ..Counts::default()
            }
        );
        bench.comparer.pass_time(5_000, &mut bench.report);
        assert_eq!(
            bench.counts(),
            Counts {
                different: 1,
                additional: 1,
                ..Counts::default()
            }
        );
        // One that asks for an answer is not the like of one that does not.
        bench.say(6_000, Side::Real, json!(1), Some(1));
        bench.say(6_000, Side::Own, json!(1), None);
        bench.comparer.finish(u64::MAX, &mut bench.report);
        assert_eq!(bench.counts().different, 2);
        let last = bench
            .report
            .samples
            .last()
            .map(|sample| sample.parts.join(" "));
        assert_eq!(last.as_deref(), Some("only one of them asks for an answer"));
    }

    /// Who is first at the door says nothing about the order.
    #[test]
    fn another_order_is_a_difference_where_one_client_brought_it_about() {
        let orders = [
            [
                (Side::Real, 1),
                (Side::Real, 2),
                (Side::Own, 2),
                (Side::Own, 1),
            ],
            [
                (Side::Own, 2),
                (Side::Own, 1),
                (Side::Real, 1),
                (Side::Real, 2),
            ],
            [
                (Side::Own, 2),
                (Side::Real, 1),
                (Side::Own, 1),
                (Side::Real, 2),
            ],
        ];
        for (order, cause) in orders.iter().flat_map(|order| [(order, 1), (order, 0)]) {
            let mut bench = Bench::new();
            bench.cause = cause;
            for (side, value) in order {
                bench.say(0, *side, json!(value), None);
            }
            bench.comparer.finish(u64::MAX, &mut bench.report);
            let counts = Counts {
                equal: 2,
                reordered: cause,
                ..Counts::default()
            };
            assert_eq!(bench.counts(), counts, "{order:?} {cause}");
        }
    }

    #[test]
    fn a_client_that_has_gone_lacks_what_was_said_and_not_what_was_on_its_way() {
        let mut bench = Bench::new();
        bench.say(0, Side::Own, json!(1), None);
        bench.say(0, Side::Own, json!(2), None);
        bench.say(0, Side::Real, json!(3), None);
        assert!(!bench.comparer.is_settled(1));
        bench.comparer.end(100, 1, &mut bench.report);
        assert_eq!(
            bench.counts(),
            Counts {
                different: 1,
                ..Counts::default()
            }
        );
        bench.say(0, Side::Real, json!(4), None);
        bench.comparer.end(100, 1, &mut bench.report);
        assert_eq!(
            bench.counts(),
            Counts {
                different: 1,
                missing: 1,
                ..Counts::default()
            }
        );
        assert!(bench.comparer.is_settled(1));
        bench.say(0, Side::Own, json!(5), None);
        bench.comparer.end(500, 1, &mut bench.report);
        assert_eq!(bench.counts().additional, 1);
        assert_eq!((bench.comparer.waiting, bench.comparer.bytes), (0, 0));
    }

    #[test]
    fn packets_beyond_the_bound_are_counted_and_not_kept() {
        let mut bench = Bench::new();
        bench.comparer.bytes = WAITING_BYTES_MAX - 15;
        bench.say(0, Side::Real, json!(1), None);
        bench.say(0, Side::Real, json!(2), None);
        assert_eq!((bench.report.unjudged, bench.comparer.waiting), (1, 1));
    }
}
