//! Workers that were given up: how much of what they said was taken in.

use crate::bounds::PAST_MAX;
use std::collections::VecDeque;

/// By instance: the number of its last command. The oldest first.
#[derive(Debug, Default)]
pub(crate) struct Past(VecDeque<(String, u64)>);

impl Past {
    pub(crate) fn note(&mut self, instance: String, commands: u64) {
        if self.0.len() == PAST_MAX {
            self.0.pop_front();
        }
        self.0.push_back((instance, commands));
    }

    /// The oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0
            .iter()
            .map(|(instance, commands)| (&**instance, *commands))
    }

    /// It is back: it begins to count anew.
    pub(crate) fn take(&mut self, instance: &str) -> Option<u64> {
        let at = self.0.iter().rposition(|(known, _)| known == instance)?;
        let (_, commands) = self.0.remove(at)?;
        Some(commands)
    }
}
