//! Questions about a whole table: where the memory of a shard is, which sessions and rooms it has. They come through the shard's mailbox
//! and are worked on a few thousand slots a turn, after everybody was served, so that nobody waits.

use crate::bounds::WALKS_MAX;
use hub::{Footprint, Hub, Look, MemoryWalk, Sight};
use std::collections::VecDeque;
use std::sync::mpsc;
use std::time::Instant;

/// Slots that are looked at in one turn: a fraction of a millisecond.
const SLOTS_PER_TURN: usize = 2_048;

/// Bytes of one shard by part.
#[derive(Clone, Debug)]
pub struct ShardMemory {
    pub shard: u16,
    pub connections: usize,
    pub parts: Footprint,
}

/// A walk under way, and when nobody waits for it any more.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) what: What,
    pub(crate) until: Instant,
}

/// What is asked, and the way back to the one who asked.
#[derive(Debug)]
pub(crate) enum What {
    Memory(MemoryWalk, mpsc::Sender<ShardMemory>),
    Look(Box<Look>, mpsc::Sender<(u16, Sight)>),
}

/// Walks, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Walks(VecDeque<Walk>);

impl Walks {
    pub(crate) fn ask(&mut self, walk: Walk) {
        if self.0.len() < WALKS_MAX {
            self.0.push_back(walk);
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.0.is_empty()
    }

    /// This turn's step. `own`: the memory that the shard has beside the hub's. A sight that is whole is returned, with the way to the one
    /// who asked.
    pub(crate) fn step(
        &mut self,
        hub: &Hub,
        shard: u16,
        own: impl FnOnce() -> Footprint,
    ) -> Option<(Sight, mpsc::Sender<(u16, Sight)>)> {
        // Walks for nobody would hold up those that are waited for.
        let now = Instant::now();
        while self.0.front().is_some_and(|walk| walk.until <= now) {
            self.0.pop_front();
        }
        let front = self.0.front_mut().map(|walk| &mut walk.what);
        // A send that fails is no fault: the asker has gone.
        let seen = match front? {
            What::Memory(walk, answer) => {
                let mut parts = hub.memory_step(walk, SLOTS_PER_TURN)?;
                parts.extend(own());
                let connections = hub.conns();
                let _ = answer.send(ShardMemory {
                    shard,
                    connections,
                    parts,
                });
                None
            }
            What::Look(look, answer) => {
                let sight = look.step(hub, SLOTS_PER_TURN)?;
                Some((sight, answer.clone()))
            }
        };
        self.0.pop_front();
        seen
    }
}
