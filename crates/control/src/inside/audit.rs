//! What operators did, for those who ask later who did it. The log has the same lines for longer.

use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use utoipa::ToSchema;

/// Actions that are remembered. The newest one takes the place of the oldest.
pub const ACTIONS_MAX: usize = 1_000;
/// A longer text about whom it was is cut.
const TEXT_CHARS_MAX: usize = 300;

/// Something that an operator did or tried to do.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub(crate) struct Action {
    /// Unix time, milliseconds.
    pub(crate) at_ms: u64,
    /// Name of the API key; empty for one that is not known.
    pub(crate) key: String,
    /// Such as `disconnect` or `login`.
    pub(crate) what: String,
    /// The namespace that it was about, if it was about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
    /// The rooms, users, sockets or the node that it was about.
    pub(crate) of: String,
    /// `done`, or the reason why it was refused.
    pub(crate) outcome: String,
}

/// The last actions, the oldest first.
#[derive(Debug, Default)]
pub struct Audit(Mutex<VecDeque<Action>>);

impl Audit {
    /// Notes what a key did, whom it was about, and how that ended.
    pub(crate) fn note(
        &self,
        key: &str,
        (what, namespace): (&str, Option<&str>),
        of: &str,
        outcome: Result<(), String>,
    ) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let cut = |text: &str| text.chars().take(TEXT_CHARS_MAX).collect::<String>();
        let action = Action {
            at_ms: now.map_or(0, |now| now.as_millis() as u64),
            key: key.to_owned(),
            what: what.to_owned(),
            namespace: namespace.map(str::to_owned),
            of: cut(of),
            outcome: outcome
                .err()
                .map_or_else(|| "done".to_owned(), |why| cut(&why)),
        };
        let mut actions = self.actions();
        if actions.len() == ACTIONS_MAX {
            actions.pop_front();
        }
        actions.push_back(action);
    }

    /// The last ones, the newest first.
    pub(crate) fn newest(&self, max: usize) -> Vec<Action> {
        self.actions().iter().rev().take(max).cloned().collect()
    }

    fn actions(&self) -> MutexGuard<'_, VecDeque<Action>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_thousand_actions_are_remembered_the_newest_first() {
        let audit = Audit::default();
        for n in 0..ACTIONS_MAX + 5 {
            audit.note("ops", ("drain", None), &n.to_string(), Ok(()));
        }
        audit.note(
            "ops",
            ("emit", Some("/")),
            &"x".repeat(1_000),
            Err("no".to_owned()),
        );
        let actions = audit.newest(usize::MAX);
        assert_eq!(actions.len(), ACTIONS_MAX);
        assert_eq!((actions[0].of.len(), &*actions[0].outcome), (300, "no"));
        assert_eq!((&*actions[1].of, &*actions[1].outcome), ("1004", "done"));
    }
}
