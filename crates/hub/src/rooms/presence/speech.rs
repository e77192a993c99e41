//! The times at which a shard speaks of its people in a room, and what it says.

use crate::bounds::{ANSWERED_MS, FIRST_WORD_MS, SECOND_WORD_MS};

#[derive(Debug)]
pub(super) struct Speech {
    /// The number of the last word; 0: nothing was said yet.
    pub(super) version: u64,
    /// The time from which the first word may be said. Once it was said, the time of that.
    pub(super) first_ms: Option<u64>,
    /// The next word is said though nobody came or went. It says all there is, and others are to do the same.
    pub(super) again: bool,
    pub(super) whole: bool,
    pub(super) asks: bool,
    /// This shard names its own people.
    pub(super) names: bool,
    /// Other nodes were told of somebody here, and not yet that nobody is.
    pub(super) is_believed: bool,
}

impl Default for Speech {
    fn default() -> Self {
        Self {
            version: 0,
            first_ms: None,
            again: false,
            // The first word is all there is, and asks for the same (ADR 44).
            whole: true,
            asks: true,
            names: true,
            is_believed: false,
        }
    }
}

impl Speech {
    /// Whether the first word is still to wait.
    pub(super) fn waits(&mut self, now_ms: u64) -> bool {
        let first_ms = *self.first_ms.get_or_insert(now_ms + FIRST_WORD_MS);
        self.version == 0 && now_ms < first_ms
    }

    /// When others are to hear from this shard again; `None`: it has said nothing. The time may be over.
    pub(super) fn again_ms(&self) -> Option<u64> {
        let first_ms = self.first_ms.filter(|_| self.version > 0);
        first_ms.map(|first_ms| first_ms + SECOND_WORD_MS)
    }

    /// Others were asked for all they have, and have answered.
    pub(super) fn is_answered(&self, now_ms: u64) -> bool {
        let first_ms = self.first_ms.filter(|_| self.version > 0);
        let is_late = first_ms.is_some_and(|first_ms| now_ms >= first_ms + ANSWERED_MS);
        is_late && !self.asks
    }
}
