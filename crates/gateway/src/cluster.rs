//! Joining a cluster, and what its end means for this process.

use crate::config::{self, Adapter, Cluster, Compat, RedisMode, Resolved};
use crate::relay::{self, Door};
use crate::upgrade::Heritage;
use anyhow::{Context, Result};
use compat::plane;
use compat::verb::own_uid;
use control::api::REMEMBERED;
use control::metrics::node::Node as Facts;
use handoff::cluster::Membership;
use hub::Inbox;
use hub::limits::Limits;
use nodes::card::{Card, sessions, unix_seconds};
use nodes::engine::{Server, Trouble};
use nodes::foreign::{self, Ear};
use nodes::ledger::{self, Ledger};
use nodes::redis::settings::{Login, Mode, Settings as Redis};
use nodes::redis::{self, tls};
use nodes::way::Way;
use nodes::{Gone, Joining, Member, Office, Settings, Shares};
use process::files;
use process::health::Readiness;
use shard::Shards;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Runtime;

/// How often it is looked whether a process has arrived.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Begins to find the engine and a node number. `number`: the one that is configured.
pub fn join(
    cluster: &Cluster,
    number: Option<u16>,
    namespaces: Vec<String>,
    facts: &Facts,
) -> Result<(Joining, Option<Door>)> {
    let door = Door::open(cluster, way(cluster)?.first().as_ref())?;
    let card = card(&config::hostname(), door.as_ref());
    let settings = settings(cluster, card, namespaces);
    let joining = begin(cluster, Settings { number, ..settings }, facts);
    Ok((joining?, door))
}

/// Goes on as the node that the process before is.
pub fn go_on(
    cluster: &Cluster,
    mut heritage: Heritage,
    namespaces: Vec<String>,
    facts: &Facts,
) -> Result<(Member, Option<Door>)> {
    let door = heritage.door()?.map(Door::inherited);
    let Membership {
        life, started_s, ..
    } = heritage.membership;
    let card = Card {
        life,
        started_s,
        ..card(&config::hostname(), door.as_ref())
    };
    let settings = Settings {
        succeeds: Some(heritage.life()?),
        ..settings(cluster, card, namespaces)
    };
    let mut joining = begin(cluster, settings, facts)?;
    loop {
        // It has a deadline of its own.
        if let Some(member) = joining.wait(LOOK_INTERVAL)? {
            return Ok((member, door));
        }
    }
}

fn begin(cluster: &Cluster, settings: Settings, facts: &Facts) -> Result<Joining> {
    if cluster.secret.is_none() {
        tracing::warn!(
            "a program that can publish to the servers in cluster.urls can speak for every node: set cluster.secret"
        );
    }
    let way = way(cluster)?;
    let gauges = Arc::clone(&facts.cluster);
    let pulse = facts.vitals.pulse("the thread for the cluster");
    Ok(Joining::begin(settings, gauges, pulse, move || {
        way.clone().open()
    })?)
}

fn settings(cluster: &Cluster, card: Card, namespaces: Vec<String>) -> Settings {
    Settings {
        prefix: cluster.prefix.clone(),
        number: None,
        card,
        secret: cluster
            .secret
            .as_ref()
            .map(|secret| secret.reveal().to_owned()),
        start: cluster.start,
        frame_letters: cluster.frame_letters,
        ring_bytes: cluster.ring_bytes,
        queue_bytes: cluster.queue_bytes,
        flood_always: cluster.flood_always,
        join_wait: cluster.join_wait,
        naming: cluster.compat.naming(),
        namespaces,
        succeeds: None,
    }
}

/// Why this process cannot say yet where it is; `None`: it can.
pub fn is_nowhere(cluster: &Cluster) -> Result<Option<Trouble>> {
    let engine = way(cluster)?.first();
    let host = engine.as_ref().map_or("", |engine| &*engine.host);
    let why = || {
        let why = format!(
            "cannot find this node's own address: the name {host:?} in cluster.urls is not known, or there is no way to it"
        );
        Trouble::new(why)
    };
    Ok(relay::lacks_address(cluster, engine.as_ref()).then(why))
}

/// As large as a number of JSON can be.
fn random() -> u64 {
    RandomState::new().build_hasher().finish() >> 11
}

/// The description of this process, for others.
pub fn card(hostname: &str, door: Option<&Door>) -> Card {
    Card {
        name: format!("{hostname}/{}", std::process::id()),
        life: random(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        relay: door.map(|door| door.address),
        returns: true,
        spots: true,
        started_s: unix_seconds(),
        sessions: 0,
        leaving: 0,
        upgrading: false,
        state: "starting".to_owned(),
    }
}

/// Connects to the engine, once, and asks what it is.
pub fn look(cluster: &Cluster) -> Result<Server> {
    let way = way(cluster)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the control plane")?;
    let asked = runtime.block_on(async {
        let (engine, _feed) = way.open().await?;
        engine.server().await
    });
    Ok(asked?)
}

/// The way to the engine between nodes.
fn way(cluster: &Cluster) -> Result<Way> {
    if cluster.adapter == Adapter::Redis {
        return Ok(Way::redis(redis_of(cluster)?));
    }
    Way::nats(cluster.nats()).map_err(anyhow::Error::msg)
}

/// Addresses of Redis, and credentials.
pub fn redis_of(cluster: &Cluster) -> Result<Redis> {
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
        database: 0,
    };
    // The native plane is bounded before this queue, which must not be the narrower one.
    redis.queue_bytes = redis.queue_bytes.max(4 * cluster.queue_bytes);
    Ok(redis)
}

fn tls(cluster: &Cluster) -> Result<Arc<rustls::ClientConfig>> {
    let read = |path: &Option<PathBuf>| {
        let bytes = path.as_ref().map(|path| {
            let bytes = files::bytes(path, files::BYTES_MAX);
            bytes.with_context(|| format!("cannot read {}", path.display()))
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

/// All namespaces that clients may be in; `None`: nobody knows them, or servers of other kinds have more.
pub fn whole_world(config: &Resolved) -> Option<BTreeSet<String>> {
    let names = config.rules.namespaces.keys();
    let others = config.cluster.as_ref();
    let is_open = config.rules.namespaces.contains_key("*")
        || others.is_some_and(|cluster| cluster.compat.is_wanted());
    (!is_open).then(|| names.cloned().collect())
}

/// The orders under Idempotency-Keys that all nodes know, on the runtime that is entered.
pub fn ledger(member: Option<(&Cluster, &Member)>, facts: &Facts) -> Result<Option<Arc<Ledger>>> {
    let Some((cluster, _)) = member else {
        return Ok(None);
    };
    Ok(Some(Ledger::start(ledger::Plan {
        way: way(cluster)?,
        prefix: cluster.prefix.clone(),
        // Of this process, and not of the node: what another one has begun, and not ended, is not to be carried out again.
        life: random(),
        remembered: REMEMBERED,
        gauges: Arc::clone(&facts.ledger),
    })))
}

/// From now on letters of other nodes reach the shards.
pub fn open(
    member: &mut Member,
    shards: &Shards,
    limits: &Limits,
    readiness: &Readiness,
    foreign: Option<Ear>,
    gone: Gone,
) {
    let cells = shards.metrics();
    let (to, limits) = (shards.to_handlers(), limits.clone());
    let count = cells.len() as u16;
    let own = readiness.clone();
    member.open(Office {
        inbox: Inbox::new(shards.process(), member.number(), count),
        shards: count,
        deliver: Box::new(shards.postman()),
        are_behind: Box::new(move || to.are_behind(&limits)),
        sessions: Box::new(move || sessions(&cells, &own)),
        readiness: readiness.clone(),
        gone,
        foreign,
        shares: shares_of(shards),
    });
}

/// This node's part of limits that nodes share, if there are any.
fn shares_of(shards: &Shards) -> Option<Shares> {
    let budgets = shards.process().budgets.clone()?;
    Some(Shares {
        budgets,
        now_us: Box::new(shards.limiter_time()),
    })
}

/// Listens to servers of other kinds on a connection of its own.
pub fn hear_others(
    cluster: &Cluster,
    namespaces: Vec<String>,
    member: &Member,
    (shards, limits): (&Shards, &Limits),
    runtime: &Runtime,
    facts: &Facts,
) -> Result<Option<Ear>> {
    if !cluster.compat.is_wanted() {
        if cluster.secret.is_some() && !cluster.compat.enabled && cluster.adapter == Adapter::Redis
        {
            watch_others(cluster, namespaces, member, runtime)?;
        }
        return Ok(None);
    }
    let to = shards.to_handlers();
    let limits = limits.clone();
    let count = shards.metrics().len() as u16;
    let plan = foreign::Plan {
        settings: compat(&cluster.compat, member.number()),
        stream: cluster.compat.stream.clone(),
        namespaces,
        inbox: Inbox::new(shards.process(), member.number(), count),
        postman: Box::new(shards.postman()),
        are_behind: Box::new(move || to.are_behind(&limits)),
        gauges: Arc::clone(&facts.foreign),
        pulse: facts.vitals.pulse("the bridge to servers of other kinds"),
    };
    let redis = redis_of(cluster)?;
    let ear = runtime.block_on(async {
        let opened = redis::open(redis).await?;
        Ok::<Ear, Trouble>(foreign::start(opened, plan).await)
    });
    Ok(Some(ear?))
}

/// Tells operators of the first server of another kind that speaks in vain.
fn watch_others(
    cluster: &Cluster,
    namespaces: Vec<String>,
    member: &Member,
    runtime: &Runtime,
) -> Result<()> {
    let settings = plane::Settings {
        python: true,
        ..compat(&cluster.compat, member.number())
    };
    let (redis, stream) = (redis_of(cluster)?, cluster.compat.stream.clone());
    runtime.spawn(async move {
        // It is no more than advice: without it the node is whole.
        if let Ok(opened) = redis::open(redis).await {
            foreign::watch(opened, settings, &stream, &namespaces).await;
        }
    });
    Ok(())
}

fn compat(compat: &Compat, node: u16) -> plane::Settings {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let epoch = since.map_or(1, |since| since.as_micros() as u64);
    plane::Settings {
        prefix: compat.prefix.clone(),
        uid: own_uid(node, epoch),
        membership: [compat.classic, compat.sharded, compat.streams],
        mode: compat.mode,
        python: compat.python,
        list_bytes_max: compat.list_bytes_max,
    }
}
