//! Namespaces whose clients come back when a node died: what is said there goes through Redis.

use crate::cluster::redis_of;
use crate::config::Resolved;
use anyhow::{Context, Result};
use control::metrics::node::Node as Facts;
use hub::{Chronicle, ChronicleMail};
use nodes::chronicle::{Acks, Plan, Stream};
use shard::Shards;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Redis was found when the node joined.
const OPEN_TIME: Duration = Duration::from_secs(10);
/// A read of what is asked for waits no longer than a silent server is given.
const PATIENCE: Duration = Duration::from_secs(2);

/// What waits for Redis at the end has so long.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// What hubs write; `None`: no namespace has it.
pub fn of(config: &Resolved, facts: &Facts) -> Option<Arc<Chronicle>> {
    let recovery = &config.hub.recovery;
    let names: Vec<String> = recovery
        .chronicled()
        .map(|(name, _)| name.to_owned())
        .collect();
    let bytes_max = config.cluster.as_ref()?.queue_bytes;
    if names.is_empty() {
        return None;
    }
    let chronicle = Arc::new(Chronicle::new(names, bytes_max));
    let acks = facts
        .chronicle
        .get_or_init(|| Arc::new(Acks::new(&chronicle)));
    Some(Arc::clone(acks.chronicle()))
}

/// From now on it is written, and read unless another process has to say from where. `goes_on`: it has.
pub fn start(config: &Resolved, shards: &Shards, facts: &Facts, goes_on: bool) -> Result<()> {
    let process = shards.process();
    let Some((acks, cluster)) = facts.chronicle.get().zip(config.cluster.as_ref()) else {
        return Ok(());
    };
    let (to, limits) = (shards.to_handlers(), config.hub.limits.clone());
    let mut redis = redis_of(cluster)?;
    redis.patience = PATIENCE;
    let streams = config.hub.recovery.chronicled();
    let streams = streams.map(|(name, recover)| Stream {
        namespace: name.to_owned(),
        window: recover.window,
        replicas: recover.replicas,
    });
    let plan = Plan {
        redis,
        prefix: cluster.prefix.clone(),
        streams: streams.collect(),
        stream_bytes_max: limits.journal_bytes_max as u64,
        acks: Arc::clone(acks),
        mail: ChronicleMail::new(process, shards.metrics().len() as u16),
        postman: Box::new(shards.postman()),
        are_behind: Box::new(move || to.are_behind(&limits)),
        goes_on,
    };
    nodes::chronicle::start(plan, OPEN_TIME)
        .context("cannot begin with recovery of level \"cluster\": Redis is that of cluster.urls")
}

/// All that was said, and what is known of sockets, is in Redis, if it takes it.
pub fn close(facts: &Facts, runtime: &Runtime) {
    if let Some(acks) = facts.chronicle.get() {
        runtime.block_on(nodes::chronicle::close(acks, CLOSE_TIME));
    }
}
