//! What operators find of this node among the others, and how their wishes reach its shards.

use crate::cluster;
use crate::config::{self, Resolved, Server};
use control::admin::Nodes;
use control::metrics::node::Node as Facts;
use hub::metrics::Cells;
use nodes::Member;
use nodes::card::sessions;
use process::moving::Pace;
use shard::Shards;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The nodes of the cluster. From now on sessions of this one go elsewhere if an operator says so. Called within the runtime.
pub fn nodes(
    config: &Resolved,
    number: u16,
    member: Option<&Member>,
    shards: &Shards,
    facts: &Facts,
) -> Nodes {
    note_pace(&config.server, facts);
    let (cells, readiness) = (shards.metrics(), facts.readiness.clone());
    let nodes = match member {
        Some(member) => Nodes::of(member, cells, readiness),
        None => {
            let card = cluster::card(&config::hostname(), None);
            Nodes::alone(number, card, cells, readiness)
        }
    };
    let thinner = shards.thinner();
    let thin = move |count, window, patience| {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        thinner.thin(count, window, patience);
    };
    tokio::spawn(nodes.clone().serve_wishes(thin));
    nodes
}

/// Operators see how long a drain takes, before it begins.
pub fn note_pace(server: &Server, facts: &Facts) {
    facts.readiness.moving().set_pace(Pace {
        window: server.drain_window,
        grace: server.drain_grace,
    });
}

/// A drain begins: how far it is can be seen from now on.
pub fn note_drain(shards: &Shards, facts: &Facts) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| now.as_millis() as u64);
    let here = sessions(&shards.metrics(), &facts.readiness);
    facts.readiness.moving().drain_began(now_ms, here);
}

/// The end of a drain, and what it was like for those who left.
pub fn tell_stopped(shards: &Shards) {
    let cells = shards.metrics();
    let sum = |cell: fn(&Cells) -> &AtomicU64| -> u64 {
        let counts = cells
            .iter()
            .map(|cells| cell(cells).load(Ordering::Relaxed));
        counts.sum()
    };
    tracing::info!(
        closed_in_a_pause = sum(|cells| &cells.dismissed),
        closed_while_busy = sum(|cells| &cells.dismissed_busy),
        "stopped"
    );
}
