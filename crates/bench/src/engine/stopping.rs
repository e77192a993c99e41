//! Owns what is left open when a run stops: rounds that were due, answers and connects under way.

use super::connection::Link;
use super::course::{Course, State};
use super::membership::Account;
use super::user::User;
use crate::scenario::{Flow, Pace, Step};

/// What has not come and still may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    pub deliveries: u64,
    pub answers: u64,
    pub connects: u64,
}

impl Missing {
    pub fn of(users: &[User], account: &Account) -> Self {
        // An answer that was given up comes by the connection that asked, or not at all.
        let is_open = |user: &&User| user.connection.link == Link::Open;
        let open = users.iter().filter(is_open);
        let given_up: u64 = open.map(|user| user.sent.given_up()).sum();
        let awaited: u64 = users.iter().map(User::awaited).sum();
        Missing {
            deliveries: account.totals.lost,
            answers: awaited + given_up,
            connects: connecting(users),
        }
    }

    pub fn is_none(&self) -> bool {
        *self == Missing::default()
    }
}

/// Connects under way.
pub fn connecting(users: &[User]) -> u64 {
    let is_connecting = |user: &&User| user.course.state == State::Connecting;
    users.iter().filter(is_connecting).count() as u64
}

/// Rounds of one user that were due before `until_ns` and have not begun.
pub fn late_rounds(course: &Course, flow: &Flow, until_ns: u64) -> u64 {
    if matches!(
        course.state,
        State::Gone | State::Finished | State::Phase(_)
    ) {
        return 0;
    }
    let late = course.loops.iter().map(|round| {
        let Some(Step::Loop(repeat)) = flow.steps.get(round.step) else {
            return 0;
        };
        let Pace::Every(period) = repeat.pace else {
            return 0;
        };
        let period_ns = (period.as_nanos() as u64).max(1);
        let until_ns = until_ns.min(round.end_ns);
        let left = repeat
            .times
            .map_or(u64::MAX, |times| times.saturating_sub(round.done).into());
        // One that the user sleeps until is booked as done, but has not begun.
        let is_asleep = course.state == State::Sleeping && course.step == round.step + 1;
        let slept_for = u64::from(is_asleep);
        let next_ns = round.next_due_ns.saturating_sub(slept_for * period_ns);
        let due = until_ns.saturating_sub(next_ns);
        due.div_ceil(period_ns).min(left.saturating_add(slept_for))
    });
    late.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::course::Round;
    use crate::scenario::Scenario;

    const MS: u64 = 1_000_000;

    fn flow(options: &str) -> Flow {
        let text = format!(
            "name = 'test'\n[[phases]]\nconnections = 1\nduration = '1s'\n[flows.a]\nsteps = [{{ connect = true }}, \
             {{ loop = [{{ emit = 'x', ack = true }}], {options} }}]"
        );
        Scenario::parse("test.toml", &text).unwrap().flows.remove(0)
    }

    /// In its loop since 0 ms; three rounds have begun.
    fn blocked(flow: &Flow, end_ns: u64) -> Course {
        let mut course = Course::new(0);
        course.state = State::Expecting { event: 0, count: 1 };
        let step = flow.steps.iter().position(|s| matches!(s, Step::Loop(_)));
        course.loops.push(Round {
            step: step.unwrap(),
            done: 3,
            next_due_ns: 300 * MS,
            end_ns,
        });
        course
    }

    #[test]
    fn rounds_that_a_blocked_user_never_came_to_are_counted() {
        let every = flow("every = '100ms'");
        let course = blocked(&every, u64::MAX);
        let late = |until_ms: u64| late_rounds(&course, &every, until_ms * MS);
        assert_eq!([late(250), late(300), late(301), late(400)], [0, 0, 1, 1]);
        assert_eq!([late(401), late(1_000)], [2, 7]);
    }

    #[test]
    fn a_loop_owes_no_more_rounds_than_it_has() {
        let every = flow("every = '100ms', times = 5");
        assert_eq!(
            late_rounds(&blocked(&every, u64::MAX), &every, 1_000 * MS),
            2
        );
        let every = flow("every = '100ms', for = '450ms'");
        assert_eq!(
            late_rounds(&blocked(&every, 450 * MS), &every, 1_000 * MS),
            2
        );
    }

    #[test]
    fn a_round_that_its_user_slept_too_long_for_has_not_begun() {
        let every = flow("every = '100ms', times = 4");
        let mut course = blocked(&every, u64::MAX);
        (course.state, course.step) = (State::Sleeping, course.loops[0].step + 1);
        let late = |until_ms: u64| late_rounds(&course, &every, until_ms * MS);
        assert_eq!([late(200), late(201), late(301), late(900)], [0, 1, 2, 2]);
    }

    #[test]
    fn who_is_gone_or_has_no_schedule_owes_none() {
        let every = flow("every = '100ms'");
        let mut course = blocked(&every, u64::MAX);
        course.state = State::Gone;
        assert_eq!(late_rounds(&course, &every, 1_000 * MS), 0);
        let free = flow("times = 9");
        assert_eq!(late_rounds(&blocked(&free, u64::MAX), &free, 1_000 * MS), 0);
    }
}
