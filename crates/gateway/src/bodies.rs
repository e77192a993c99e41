//! Large bodies: the part of the control plane that keeps them, and its ways to rules and shards.

use crate::config::Resolved;
use anyhow::{Result, anyhow};
use control::bodies::{Announcer, Bodies};
use control::metrics::node::Node as Facts;
use identity::Verifier;
use rules::RulesFactory;
use rules::ToShards;
use std::sync::Arc;

/// Descriptors of a transfer: the connection and a file.
const DESCRIPTORS_EACH: usize = 2;

/// Where no namespace stores large events, there is nothing to start.
pub fn start(config: &Resolved, facts: &Facts) -> Result<()> {
    if let Some(settings) = config.bodies.clone() {
        let pulse = facts.vitals.pulse("the store of large events");
        let bodies = Bodies::start(settings, pulse).map_err(|why| anyhow!("{why}"))?;
        // Nobody else sets it.
        let _ = facts.bodies.set(bodies);
    }
    Ok(())
}

/// From now on uploads reach the shards.
pub fn open(
    facts: &Facts,
    rules: &RulesFactory,
    shards: Box<dyn ToShards>,
    verifier: Option<&Arc<Verifier>>,
) {
    if let Some(bodies) = facts.bodies.get() {
        bodies.open(Announcer {
            rules: rules.uploads(),
            shards,
            verifier: verifier.cloned(),
        });
    }
}

/// Uploads and downloads that are under way.
pub fn open_transfers(facts: &Facts) -> u64 {
    let bodies = facts.bodies.get();
    bodies.map_or(0, |bodies| bodies.books().open_transfers() as u64)
}

/// Of so many descriptors, those that are not for transfers.
pub fn descriptors(config: &Resolved, limit: usize) -> usize {
    let bodies = config.bodies.as_ref();
    let taken = bodies.map_or(0, |bodies| bodies.transfers_max * DESCRIPTORS_EACH);
    limit.saturating_sub(taken).max(limit / 2)
}
