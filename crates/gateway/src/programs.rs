//! The things that programs outside share with this node in Redis: the directory of sockets, and channels of plain JSON.

use crate::chronicle;
use crate::cluster::redis_of;
use crate::config::{Cluster, Resolved};
use crate::errands::Errands;
use anyhow::Result;
use control::metrics::node::Node as Facts;
use hub::mailbox::waker;
use hub::{Outlets, RollCall, Tap};
use nodes::Member;
use nodes::channels;
use nodes::directory::{self, Directory, Documents};
use shard::Shards;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

/// The outlets of hubs.
pub fn outlets(config: &Resolved, facts: &Facts) -> Outlets {
    let cluster = config.cluster.as_ref();
    let directory = cluster.and_then(|cluster| cluster.directory.as_ref());
    Outlets {
        roll: directory.map(|_| Arc::new(RollCall::default())),
        tap: cluster.filter(|cluster| !cluster.feeds.is_empty()).map(tap),
        history: facts.history.get().map(|history| Arc::clone(history.tap())),
        chronicle: chronicle::of(config, facts),
    }
}

/// Copies events for the channels.
fn tap(cluster: &Cluster) -> Arc<Tap> {
    let chosen = cluster.feeds.iter().flat_map(|channel| {
        let events = channel.publish.iter();
        events.map(|event| (channel.namespace.clone(), event.clone()))
    });
    let bytes_max = cluster.feeds.iter().map(|channel| channel.bytes_max);
    Arc::new(Tap::new(chosen, bytes_max.max().unwrap_or_default()))
}

/// From now on what hubs tell is written, and what programs say is heard.
pub fn serve(
    cluster: &Cluster,
    member: &mut Member,
    (shards, config): (&Shards, &Resolved),
    runtime: &Runtime,
    facts: &Facts,
) -> Result<()> {
    let limits = &config.hub.limits;
    let _context = runtime.enter();
    let outlets = &shards.process().outlets;
    if let (Some(settings), Some(roll)) = (&cluster.directory, &outlets.roll) {
        member.keep(Directory::start(directory::Plan {
            redis: redis_of(cluster)?,
            prefix: cluster.prefix.clone(),
            node: member.number(),
            life: member.card().life,
            goes_on: member.goes_on(),
            handed: member.stop().handed(),
            roster: Arc::clone(member.roster()),
            roll: Arc::clone(roll),
            documents: Documents::new(settings.documents.clone()),
            renew: settings.renew,
            gauges: Arc::clone(&facts.directory),
        }));
    }
    if let Some(tap) = &outlets.tap {
        let bell = Arc::new(Notify::new());
        let rung = Arc::clone(&bell);
        tap.wake_for_each(waker(move || rung.notify_one()));
        let (to, limits) = (shards.to_handlers(), limits.clone());
        channels::start(channels::Plan {
            redis: redis_of(cluster)?,
            cluster: cluster.prefix.clone(),
            node: member.number(),
            channels: cluster.feeds.clone(),
            tap: Arc::clone(tap),
            bell,
            shards: Errands::of(shards),
            are_behind: Box::new(move || to.are_behind(&limits)),
            gauges: Arc::clone(&facts.channels),
        });
    }
    Ok(())
}
