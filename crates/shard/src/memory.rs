//! Where the memory of shards is: asked through their mailboxes, counted a few thousand slots a turn, so that nobody waits.

use crate::shards::Mail;
use hub::mailbox::Sender;
use hub::{Hub, MemoryWalk, Parts};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Slots that are counted in one turn: a fraction of a millisecond.
const SLOTS_PER_TURN: usize = 4_096;

/// Bytes of one shard by part.
#[derive(Clone, Debug)]
pub struct ShardMemory {
    pub shard: u16,
    pub connections: usize,
    pub parts: Parts,
}

/// Asks the shards; stays valid until they end.
#[derive(Clone, Debug)]
pub struct Inspector {
    pub(crate) mail: Vec<Sender<Mail>>,
}

impl Inspector {
    /// Waits for the answers of all shards, at most so long; those that did not answer are missing.
    pub fn memory(&self, within: Duration) -> Vec<ShardMemory> {
        let (answer, answers) = mpsc::channel();
        for mail in &self.mail {
            mail.send(Mail::Memory(answer.clone()));
        }
        drop(answer);
        let deadline = Instant::now() + within;
        let next = || {
            let left = deadline.saturating_duration_since(Instant::now());
            answers.recv_timeout(left).ok()
        };
        let mut shards: Vec<ShardMemory> = std::iter::from_fn(next).collect();
        shards.sort_by_key(|shard| shard.shard);
        shards
    }
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
    pub(crate) fn step(&mut self, hub: &Hub, shard: u16, own: impl FnOnce() -> Parts) {
        let Some(mut parts) = hub.memory_step(&mut self.walk, SLOTS_PER_TURN) else {
            return;
        };
        parts.extend(own());
        let memory = ShardMemory {
            shard,
            connections: hub.conns(),
            parts,
        };
        self.walk = MemoryWalk::default();
        for answer in self.waiting.drain(..) {
            // Who asked may have given up.
            let _ = answer.send(memory.clone());
        }
    }
}
