//! The actions of operators, for those who ask later. The log has the same lines for longer.

use identity::keys::Caller;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;

/// Actions of people at the console that are remembered, and as many of programs: these do not push out those. The newest one takes the place
/// of the oldest.
pub const ACTIONS_MAX: usize = 500;
/// A longer text is cut.
const TEXT_CHARS_MAX: usize = 300;

/// Something that an operator did or tried to do.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Action {
    #[serde(skip)]
    number: u64,
    /// Unix time, milliseconds.
    pub(crate) at_ms: u64,
    /// Name of the API key.
    pub(crate) key: String,
    /// A person at the console did it, and no program.
    pub(crate) console: bool,
    /// Such as `disconnect` or `login`.
    pub(crate) what: String,
    /// The namespace that it was about, if it was about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// The rooms, users, sockets or the node that it was about.
    pub(crate) of: String,
    /// `done`, the reason why it was refused, or `ordered`: its caller went away before it was told.
    pub(crate) outcome: String,
}

#[derive(Debug, Default)]
struct Rings {
    last: u64,
    people: VecDeque<Action>,
    programs: VecDeque<Action>,
}

/// The last actions, the oldest first.
#[derive(Debug, Default)]
pub struct Audit(Mutex<Rings>);

impl Audit {
    /// Notes what a key is about to do and whom it is about. The number is for [`Self::end`].
    pub(crate) fn begin(
        &self,
        caller: &Caller,
        (what, namespace): (&str, Option<&str>),
        of: &str,
    ) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let mut rings = self.rings();
        rings.last += 1;
        let number = rings.last;
        let action = Action {
            number,
            at_ms: now.map_or(0, |now| now.as_millis() as u64),
            key: caller.name().to_owned(),
            console: caller.is_at_console(),
            what: what.to_owned(),
            namespace: namespace.map(cut),
            of: cut(of),
            outcome: "ordered".to_owned(),
        };
        let ring = match caller.is_at_console() {
            true => &mut rings.people,
            false => &mut rings.programs,
        };
        if ring.len() == ACTIONS_MAX {
            ring.pop_front();
        }
        ring.push_back(action);
        number
    }

    /// How it ended.
    pub(crate) fn end(&self, number: u64, outcome: Result<(), String>) {
        let mut rings = self.rings();
        let Rings {
            people, programs, ..
        } = &mut *rings;
        let mut actions = people.iter_mut().rev().chain(programs.iter_mut().rev());
        if let Some(action) = actions.find(|action| action.number == number) {
            action.outcome = outcome.map_or_else(|why| cut(&why), |()| "done".to_owned());
        }
    }

    /// The last ones, the newest first.
    pub(crate) fn newest(&self, max: usize) -> Vec<Action> {
        let rings = self.rings();
        let actions = rings.people.iter().chain(&rings.programs);
        let mut actions: Vec<Action> = actions.cloned().collect();
        actions.sort_by_key(|action| std::cmp::Reverse(action.number));
        actions.truncate(max);
        actions
    }

    fn rings(&self) -> MutexGuard<'_, Rings> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callers::caller;

    #[test]
    fn programs_do_not_push_out_what_people_did_and_texts_are_cut() {
        let audit = Audit::default();
        let (person, program) = (caller("ops").at_the_console(), caller("job"));
        let first = audit.begin(&person, ("drain", None), "node 1");
        audit.end(first, Ok(()));
        let long = "x".repeat(1_000_000);
        for n in 0..ACTIONS_MAX + 5 {
            let number = audit.begin(&program, ("disconnect", Some(&long)), &n.to_string());
            audit.end(number, Err(long.clone()));
        }
        let left = audit.begin(&person, ("emit", Some("/")), &long);
        let actions = audit.newest(usize::MAX);
        assert_eq!(actions.len(), ACTIONS_MAX + 2);
        assert_eq!(
            (actions[0].of.len(), &*actions[0].outcome),
            (300, "ordered")
        );
        assert_eq!((&*actions[1].of, actions[1].outcome.len()), ("504", 300));
        assert_eq!(actions[1].namespace.as_ref().map(String::len), Some(300));
        let last = actions.last().expect("an action");
        assert_eq!((&*last.of, &*last.outcome), ("node 1", "done"));
        // One that is gone has no end.
        audit.end(left + 1, Ok(()));
    }
}
