//! The bridge to Kafka: made before the rules, which write to it; opened for commands when shards are there; closed behind the last client.

use crate::config::Resolved;
use anyhow::{Result, anyhow};
use control::api::Api;
use control::kafka::{Bridge, Carry};
use control::metrics::node::Node as Facts;
use rules::RulesFactory;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// What waits for Kafka at the end has so long.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// Brokers may be away. Where nothing is configured, there is nothing to start.
pub fn start(config: &Resolved, facts: &Facts) -> Result<()> {
    if let Some(settings) = &config.kafka {
        let bridge = Bridge::start(settings).map_err(|why| anyhow!("cannot use Kafka: {why}"))?;
        // Nobody else sets it.
        let _ = facts.kafka.set(bridge);
    }
    Ok(())
}

/// The rules write to it.
pub fn record(rules: RulesFactory, facts: &Facts) -> RulesFactory {
    let recorder = facts.kafka.get().and_then(|bridge| bridge.recorder());
    match recorder {
        Some(recorder) => rules.recorded(recorder),
        None => rules,
    }
}

/// From now on commands reach the shards, by the door of the server API. Within a runtime.
pub fn open(config: &Resolved, facts: &Facts, api: &Arc<Api>) -> Result<()> {
    let (Some(settings), Some(bridge)) = (&config.kafka, facts.kafka.get()) else {
        return Ok(());
    };
    let (api, runtime) = (Arc::clone(api), Handle::current());
    let carry: Carry = Arc::new(move |of, wanted| api.carry_out_for_topic(&runtime, of, wanted));
    let opened = bridge.open(settings, &carry);
    opened.map_err(|why| anyhow!("cannot read commands from Kafka: {why}"))
}

/// The clients are about to go: other nodes take over the topics.
pub fn stop_reading(facts: &Facts) {
    if let Some(bridge) = facts.kafka.get() {
        bridge.stop_reading();
    }
}

/// All that clients did is written, if Kafka takes it.
pub fn close(facts: &Facts, runtime: &Runtime) {
    if let Some(bridge) = facts.kafka.get() {
        bridge.stop_reading();
        runtime.block_on(bridge.close(CLOSE_TIME));
    }
}
