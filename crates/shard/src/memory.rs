//! Where the memory of shards is: asked through their mailboxes, counted a few thousand slots a turn, so that nobody waits.

use hub::{Footprint, Hub, MemoryWalk};
use std::sync::mpsc;

/// Slots that are counted in one turn: a fraction of a millisecond.
const SLOTS_PER_TURN: usize = 4_096;

/// Bytes of one shard by part.
#[derive(Clone, Debug)]
pub struct ShardMemory {
    pub shard: u16,
    pub connections: usize,
    pub parts: Footprint,
}

/// A count under way, and who waits for it: whoever asks meanwhile gets the same answer.
#[derive(Debug, Default)]
pub(crate) struct Measuring {
    walk: MemoryWalk,
    waiting: Vec<mpsc::Sender<ShardMemory>>,
}

impl Measuring {
    pub(crate) fn ask(&mut self, answer: mpsc::Sender<ShardMemory>) {
        self.waiting.push(answer);
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.is_empty()
    }

    /// This turn's step. `own`: what the shard has beside the hub.
    pub(crate) fn step(&mut self, hub: &Hub, shard: u16, own: Footprint) {
        let Some(mut parts) = hub.memory_step(&mut self.walk, SLOTS_PER_TURN) else {
            return;
        };
        parts.extend(own);
        let memory = ShardMemory {
            shard,
            connections: hub.conns(),
            parts,
        };
        self.walk = MemoryWalk::default();
        for answer in self.waiting.drain(..) {
            // The asker may have given up.
            let _ = answer.send(memory.clone());
        }
    }
}
