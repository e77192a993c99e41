//! What a shard knows for recovery beside its journal's entries and its records, for the process that comes next, and back.

use super::Recovery;
use crate::recovery::journal::handing::{stamps, vector_of};
use crate::recovery::stamp::ShardLife;
use handoff::keepsakes as record;

impl Recovery {
    /// The word that follows the entries of the journal.
    pub(crate) fn word(&self, now_ms: u64) -> record::Journal {
        // All shards share these notes, so one of them writes them down.
        let apart = match self.ways.me.shard {
            0 => self.ways.apart.ages(now_ms),
            _ => Vec::new(),
        };
        record::Journal {
            given: stamps(self.stamps.given()),
            last: self.stamps.last().number,
            life: self.stamps.last().life.0,
            claims: self.takings.last(),
            apart: apart
                .into_iter()
                .map(|(namespace, age_ms)| record::Apart { namespace, age_ms })
                .collect(),
            ..self.journal.word()
        }
    }

    /// The journal of the process before goes on here. `false`: it is not all there.
    pub(crate) fn go_on_as(&mut self, word: &record::Journal, now_ms: u64) -> bool {
        if !self.journal.go_on_as(word, now_ms) {
            return false;
        }
        let given = vector_of(&word.given);
        self.stamps
            .go_on_from(given, ShardLife(word.life), word.last);
        self.takings.go_on_from(word.claims);
        for apart in &word.apart {
            self.ways
                .apart
                .go_on_with(&apart.namespace, apart.age_ms, now_ms);
        }
        self.is_heir = true;
        true
    }
}
