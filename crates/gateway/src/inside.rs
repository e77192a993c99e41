//! Where the memory of this process is: the shards' parts, and what the allocator says.

use control::debug::{Inspect, ShardParts};
use control::live::Desk;
use control::metrics::node::Node;
use hub::{LiveTrace, Question, Sight};
use mimalloc::MiMalloc;
use nodes::relay::Relays;
use serde_json::Value;
use shard::{Inspector, Shards};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub struct Inside {
    shards: Inspector,
    count: usize,
    facts: Arc<Node>,
}

impl Inside {
    fn new(shards: &Shards, facts: &Arc<Node>) -> Self {
        Inside {
            shards: shards.inspector(),
            count: shards.metrics().len(),
            facts: Arc::clone(facts),
        }
    }
}

/// All that operators see of the shards: figures, and what passes here and on other nodes.
#[derive(Debug)]
pub struct Seen {
    pub inside: Arc<Inside>,
    pub desk: Desk,
    pub relays: Option<Relays>,
}

impl Seen {
    pub fn open(node: u16, shards: &Shards, relays: Option<&Relays>, facts: &Arc<Node>) -> Self {
        let inside = Arc::new(Inside::new(shards, facts));
        Self {
            desk: Desk::new(node, Arc::<Inside>::clone(&inside), &facts.live),
            relays: relays.cloned(),
            inside,
        }
    }
}

impl Inspect for Inside {
    fn shards(&self, within: Duration) -> Vec<ShardParts> {
        let shards = self.shards.memory(within).into_iter();
        shards
            .map(|memory| ShardParts {
                shard: memory.shard,
                connections: memory.connections,
                parts: memory.parts,
            })
            .collect()
    }

    fn shard_count(&self) -> usize {
        self.count
    }

    fn look(&self, question: &Question, within: Duration) -> Vec<Sight> {
        let sights = self.shards.look(question, within).into_iter();
        sights.map(|(_, sight)| sight).collect()
    }

    fn trace(&self, trace: &Arc<LiveTrace>) {
        self.shards.trace(trace);
    }

    fn parts(&self) -> Vec<(&'static str, usize)> {
        self.facts.kept()
    }

    /// Of mimalloc's many numbers those that are bytes now: reserved is address space, committed is what it may touch, and
    /// the difference between committed and what the parts add up to is free, or the allocator's rounding.
    fn allocator(&self) -> Vec<(&'static str, u64)> {
        let Ok(stats) = MiMalloc::stats_json() else {
            return Vec::new();
        };
        let stats: Value = serde_json::from_slice(stats.to_bytes()).unwrap_or_default();
        let current = |name: &str| stats[name]["current"].as_u64();
        [
            ("reserved_bytes", current("reserved")),
            ("committed_bytes", current("committed")),
        ]
        .into_iter()
        .filter_map(|(name, bytes)| Some((name, bytes?)))
        .collect()
    }
}
