//! Joining a cluster, and what its end means for this process.

use crate::config::Cluster;
use crate::config::RedisMode;
use anyhow::{Context, Result};
use control::cluster::engine::Server;
use control::cluster::gauges::Gauges;
use control::cluster::redis::settings::{Login, Mode, Settings as Redis};
use control::cluster::redis::{self, tls};
use control::cluster::{Member, Office, Settings};
use hub::Inbox;
use shard::Shards;
use std::path::PathBuf;
use std::sync::Arc;

/// Finds the engine and takes a node number. `number`: the one that is configured.
pub fn join(
    cluster: &Cluster,
    number: Option<u16>,
    hostname: &str,
    gauges: &Arc<Gauges>,
) -> Result<Member> {
    let settings = Settings {
        prefix: cluster.prefix.clone(),
        number,
        name: format!("{hostname}/{}", std::process::id()),
        secret: cluster
            .secret
            .as_ref()
            .map(|secret| secret.reveal().to_owned()),
        ring_bytes: cluster.ring_bytes,
        queue_bytes: cluster.queue_bytes,
        flood_always: cluster.flood_always,
        join_wait: cluster.join_wait,
    };
    if cluster.secret.is_none() {
        tracing::warn!(
            "a program that can publish to Redis can speak for every node: set cluster.secret"
        );
    }
    let redis = engine(cluster)?;
    let member = Member::join(settings, Arc::clone(gauges), move || redis::open(redis));
    Ok(member?)
}

/// Connects to the engine, once, and asks what it is.
pub fn look(cluster: &Cluster) -> Result<Server> {
    let redis = engine(cluster)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the control plane")?;
    let asked = runtime.block_on(async {
        let (engine, _feed) = redis::open(redis).await?;
        engine.server().await
    });
    Ok(asked?)
}

fn engine(cluster: &Cluster) -> Result<Redis> {
    let mode = match cluster.mode {
        RedisMode::Single => Mode::Single,
        RedisMode::Sentinel => Mode::Sentinel(cluster.master.clone()),
        RedisMode::Cluster => Mode::Cluster,
    };
    let secure = cluster.urls.iter().any(|url| url.starts_with("rediss://"));
    let tls = if secure { Some(tls(cluster)?) } else { None };
    let mut redis = Redis::new(&cluster.urls, mode, tls)?;
    redis.login = Login {
        user: cluster.user.clone(),
        password: cluster
            .password
            .as_ref()
            .map(|password| password.reveal().to_owned()),
    };
    // The native plane is bounded before this queue, which must not be the narrower one.
    redis.queue_bytes = redis.queue_bytes.max(4 * cluster.queue_bytes);
    Ok(redis)
}

fn tls(cluster: &Cluster) -> Result<Arc<rustls::ClientConfig>> {
    let read = |path: &Option<PathBuf>| {
        let bytes = path.as_ref().map(|path| {
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
        });
        bytes.transpose()
    };
    let files = &cluster.tls;
    let authorities = read(&files.authorities)?;
    let (certificate, key) = (read(&files.certificate)?, read(&files.key)?);
    let files = tls::Files {
        authorities: authorities.as_deref(),
        identity: certificate.as_deref().zip(key.as_deref()),
    };
    Ok(tls::config(files)?)
}

/// From now on letters of other nodes reach the shards.
pub fn open(member: &mut Member, shards: &Shards) {
    let count = shards.metrics().len() as u16;
    member.open(Office {
        inbox: Inbox::new(shards.process(), member.number(), count),
        shards: count,
        deliver: Box::new(shards.postman()),
    });
}
