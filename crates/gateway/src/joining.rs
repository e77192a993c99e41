//! The way of a process into its cluster: as a new life of a node, or as the one that the process before is.

use crate::cluster;
use crate::config::{Loaded, Resolved};
use crate::foyer::{Foyer, Listeners};
use crate::greeting;
use crate::opened::Opened;
use crate::relay::Door;
use crate::signals::Wish;
use crate::tls::Rotation;
use crate::upgrade::{self, Heritage};
use anyhow::Result;
use control::metrics::node::Node as Facts;
use hub::Places;
use nodes::Member;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use tokio::runtime::Runtime;

/// A member and its door, if there are other nodes, and the listeners that answer until its shards do.
pub type Joined = (Option<Member>, Option<Door>, Option<Foyer>);

/// `None`: it was told to stop meanwhile.
pub fn join_cluster(
    loaded: &Loaded,
    (opened, certified): (&mut Opened, Option<&Rotation>),
    runtime: &Runtime,
    known: (&Arc<Facts>, &Arc<Places>),
    wishes: &Receiver<Wish>,
) -> Result<Option<Joined>> {
    let heritage = opened.heritage.take();
    let comes = (opened.listeners(certified), heritage);
    let joined = come_in(loaded, comes, runtime, known, wishes)?;
    if let Some((member, door, _)) = &joined {
        opened.note_seat(member.as_ref(), door.as_ref())?;
    }
    Ok(joined)
}

fn come_in(
    loaded: &Loaded,
    (listeners, heritage): (Listeners<'_>, Option<Heritage>),
    runtime: &Runtime,
    (facts, places): (&Arc<Facts>, &Arc<Places>),
    wishes: &Receiver<Wish>,
) -> Result<Option<Joined>> {
    let config = &loaded.resolved;
    let Some(cluster) = &config.cluster else {
        return Ok(Some((None, None, None)));
    };
    if let Some(heritage) = heritage {
        let (member, door) = cluster::go_on(cluster, heritage, namespaces(config), facts)?;
        return Ok(Some((Some(member), door, None)));
    }
    facts.readiness.set_joining();
    let foyer = Foyer::open(config, listeners, runtime, facts, places)?;
    greeting::say_starting(&foyer, listeners.admin);
    // It lives, and may wait for long: a supervisor would end what does not begin.
    upgrade::ready();
    if !foyer.wait_for_name(cluster, wishes)? {
        return Ok(None);
    }
    let joining = cluster::join(cluster, config.server.node, namespaces(config), facts);
    let (mut joining, door) = joining?;
    let Some(member) = foyer.wait(&mut joining, wishes)? else {
        return Ok(None);
    };
    Ok(Some((Some(member), door, Some(foyer))))
}

/// Those that have a table of their own.
pub fn namespaces(config: &Resolved) -> Vec<String> {
    let names = config.rules.namespaces.keys();
    names.filter(|name| *name != "*").cloned().collect()
}
