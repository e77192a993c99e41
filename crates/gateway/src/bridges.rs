//! Bridges to Kafka and NATS: made before the rules, which write to them; opened for commands when shards are there; closed behind the last
//! client.

use crate::config::Resolved;
use anyhow::{Result, anyhow};
use control::api::Api;
use control::bridge::Carry;
use control::metrics::node::Node as Facts;
use control::{kafka, nats};
use rules::RulesFactory;
use rules::bridge::Bus;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};

/// What waits at the end has so long.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// Servers may be away. Where nothing is configured, there is nothing to start.
pub fn start(config: &Resolved, facts: &Facts) -> Result<()> {
    let kafka = config.kafka.as_ref().map(kafka::start);
    let nats = config.nats.as_ref().map(nats::start);
    for (bus, started) in [(Bus::Kafka, kafka), (Bus::Nats, nats)] {
        if let Some(started) = started {
            let bridge = started.map_err(|why| anyhow!("cannot use {}: {why}", name(bus)))?;
            facts.bridges.set(bus, bridge);
        }
    }
    Ok(())
}

/// For messages.
pub fn name(bus: Bus) -> &'static str {
    match bus {
        Bus::Kafka => "Kafka",
        Bus::Nats => "NATS",
    }
}

/// The rules write to them.
pub fn record(rules: RulesFactory, facts: &Facts) -> RulesFactory {
    let recorders = facts.bridges.all();
    let recorders = recorders.filter_map(|(bus, bridge)| Some((bus, bridge.recorder()?)));
    recorders.fold(rules, |rules, (bus, recorder)| {
        rules.recorded(bus, recorder)
    })
}

/// From now on commands reach the shards, by the door of the server API. Within a runtime.
pub fn open(facts: &Facts, api: &Arc<Api>) -> Result<()> {
    let (api, runtime) = (Arc::clone(api), Handle::current());
    let carry: Carry = Arc::new(move |of, wanted| api.carry_out_for_topic(&runtime, of, wanted));
    let opened = facts.bridges.open(carry);
    opened.map_err(|(bus, why)| anyhow!("cannot read commands from {}: {why}", name(bus)))
}

/// The clients are about to go: other nodes take over what is read, also if an upgrade is given up meanwhile.
pub fn stop_reading(facts: &Facts) {
    facts.bridges.close_reading();
}

/// All that clients did is written, if the servers take it.
pub fn close(facts: &Facts, runtime: &Runtime) {
    stop_reading(facts);
    let closing = facts
        .bridges
        .all()
        .map(|(_, bridge)| bridge.close(CLOSE_TIME));
    runtime.block_on(async {
        // Beside each other, so that one that is away takes nothing from the other.
        let mut all: Vec<_> = closing.collect();
        std::future::poll_fn(|cx| {
            all.retain_mut(|one| one.as_mut().poll(cx).is_pending());
            match all.is_empty() {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    });
}
