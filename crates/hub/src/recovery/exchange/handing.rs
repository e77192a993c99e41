//! What a shard knows for recovery beside its journal's entries and its records, for the process that comes next, and back.

use super::Recovery;
use crate::recovery::circle::{Circle, Door};
use crate::recovery::journal::handing::{stamps, vector_of};
use crate::recovery::messages::Message;
use crate::recovery::pid::Pid;
use crate::recovery::stamp::ShardLife;
use handoff::bounds::OPEN_MAX;
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
            open: self.open(),
            ..self.journal.word()
        }
    }

    /// Claims that other nodes know of, and whose clients were told nothing. Others than these end with their time.
    fn open(&self) -> Vec<record::Open> {
        let open = self.takings.abroad();
        let open = open.map(|(number, pid, circle)| record::Open {
            pid: String::from_utf8_lossy(&pid.text()).into_owned(),
            number,
            namespace: circle.namespace.to_string(),
            nodes: circle.nodes.iter().copied().map(u32::from).collect(),
        });
        let claims = self.takings.last();
        let open = open.filter(|open| open.is_taken(claims));
        open.take(OPEN_MAX).collect()
    }

    /// A client waited for its socket in the process before, and comes anew. The node that keeps its socket for that claim frees it.
    fn give_back(&mut self, open: &record::Open) {
        let Some(pid) = Pid::read(&open.pid) else {
            return;
        };
        let nodes = open.nodes.iter().map(|node| u16::try_from(*node));
        let circle = Circle {
            namespace: open.namespace.as_str().into(),
            nodes: nodes.filter_map(Result::ok).collect(),
            home: self.ways.me.shard,
        };
        let claim = self.ways.own(open.number);
        for node in circle.nodes.iter().copied() {
            if node != self.ways.me.node {
                let released = Message::Released { pid, claim };
                self.ways.post_abroad(node, Door::All, &circle, released);
            }
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
        word.open.iter().for_each(|open| self.give_back(open));
        self.is_heir = true;
        true
    }
}
