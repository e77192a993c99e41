//! `--redis`: the application as one node of several, beside Node servers with the same handlers.

use clap::{Args, ValueEnum};
use compat::clustered::Mode as Rooms;
use compat::plane::{self, Membership};
use compat::verb::own_uid;
use hub::{Inbox, Naming, Places};
use nodes::card::Card;
use nodes::engine::Trouble;
use nodes::feed::Opened;
use nodes::foreign::{self, Ear};
use nodes::redis;
use nodes::redis::settings::{Mode, Settings as Redis};
use nodes::relay::{Relays, Secrets};
use nodes::{Gone, Joining, Member, Office, Settings, Start};
use process::health::Readiness;
use process::vitals::Vitals;
use shard::Shards;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};

/// Node's adapters have it as their default, and so has their stream.
const PREFIX: &str = "socket.io";
/// The secret that nodes show each other before they pass connections on. The door is for programs on this machine.
const SECRET: &str = "sockeye-conformance-nodes";
const RELAYS_MAX: usize = 1_024;

#[derive(Clone, Debug, Args)]
pub(crate) struct Wanted {
    /// Join the Redis at this address, or the Redis Cluster at these, as redis://HOST:PORT with commas between.
    #[arg(long, value_delimiter = ',', value_name = "URL,…")]
    redis: Vec<String>,
    /// The adapter of Node servers in the same cluster. By default all that can be told apart are spoken with.
    #[arg(long, requires = "redis")]
    adapter: Option<Adapter>,
    /// The `subscriptionMode` of servers with the sharded adapter.
    #[arg(long, requires = "redis", default_value = "dynamic")]
    sharded_mode: ShardedMode,
    /// This node's number. By default any that is free.
    #[arg(long, requires = "redis", value_parser = clap::value_parser!(u16).range(..1024))]
    node: Option<u16>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Adapter {
    /// `createAdapter` of `@socket.io/redis-adapter`.
    #[value(alias = "redis")]
    Classic,
    /// `createShardedAdapter` of the same package.
    Sharded,
    /// `@socket.io/redis-streams-adapter`.
    Streams,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ShardedMode {
    Dynamic,
    DynamicPrivate,
}

/// A member of the cluster, whose shards do not run yet.
pub(crate) struct Seat {
    pub(crate) member: Member,
    /// Where other nodes pass connections on.
    door: TcpListener,
    wanted: Wanted,
    redis: Redis,
}

impl Seat {
    /// Takes a number in the cluster; `None` without `--redis`.
    pub(crate) fn take(wanted: &Wanted) -> anyhow::Result<Option<Self>> {
        if wanted.redis.is_empty() {
            return Ok(None);
        }
        let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        door.set_nonblocking(true)?;
        let address = door.local_addr()?;
        let join = |mode| join(wanted, mode, address);
        let (member, redis) = match &wanted.redis[..] {
            [_] => join(Mode::Single).or_else(|alone| {
                // It may be one node of a cluster, which knows the others.
                join(Mode::Cluster).map_err(|_| alone)
            }),
            _ => join(Mode::Cluster),
        }?;
        Ok(Some(Self {
            member,
            door,
            wanted: wanted.clone(),
            redis,
        }))
    }

    /// The way to sessions of other nodes.
    pub(crate) fn relays(&self, runtime: &Handle, places: &Arc<Places>) -> std::io::Result<Relays> {
        let (me, roster) = (self.member.number(), self.member.roster());
        let secrets = Secrets {
            secret: SECRET,
            encrypts: true,
        };
        Relays::new(
            runtime,
            me,
            secrets,
            roster,
            (places, RELAYS_MAX),
            &Arc::default(),
        )
    }

    /// From now on other nodes and Node servers reach the shards. `gone`: hears of nodes that are no more.
    pub(crate) async fn open(
        &mut self,
        shards: &Shards,
        relays: &Relays,
        gone: Option<Gone>,
    ) -> anyhow::Result<()> {
        let count = shards.metrics().len() as u16;
        let inbox = || Inbox::new(shards.process(), self.member.number(), count);
        let plan = foreign::Plan {
            pulse: Vitals::default().pulse("the bridge"),
            settings: self.wanted.compat(self.member.number()),
            stream: PREFIX.to_owned(),
            namespaces: namespaces(),
            inbox: inbox(),
            postman: Box::new(shards.postman()),
            are_behind: Box::new(|| false),
            gauges: Arc::default(),
        };
        let opened: Opened = redis::open(self.redis.clone()).await?;
        let ear: Ear = foreign::start(opened, plan).await;
        let office = Office {
            inbox: inbox(),
            shards: count,
            deliver: Box::new(shards.postman()),
            are_behind: Box::new(|| false),
            sessions: Box::new(|| 0),
            readiness: Readiness::default(),
            gone: gone.unwrap_or_else(|| Box::new(|_, _| {})),
            foreign: Some(ear),
            shares: None,
        };
        self.member.open(office);
        let door = tokio::net::TcpListener::from_std(self.door.try_clone()?)?;
        let adopter = shards.adopter(relays.tls().cloned());
        relays.serve(door, Box::new(adopter), None);
        Ok(())
    }

    /// Gives the number back when the process is told to end, so that the next one may have it at once.
    pub(crate) async fn leave_when_told(mut self) -> std::io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        self.member.leave();
        std::process::exit(0);
    }
}

fn join(wanted: &Wanted, mode: Mode, door: SocketAddr) -> Result<(Member, Redis), Trouble> {
    let redis = Redis::new(&wanted.redis, mode, None)?;
    let settings = Settings {
        prefix: "sockeye".to_owned(),
        number: wanted.node,
        card: Card {
            name: format!("conformance/{}", std::process::id()),
            relay: Some(door),
            ..Card::default()
        },
        secret: None,
        start: Start::Fail,
        frame_letters: 64,
        ring_bytes: 64 << 20,
        queue_bytes: 32 << 20,
        flood_always: false,
        join_wait: Duration::from_millis(50),
        naming: match wanted.sharded_mode {
            ShardedMode::Dynamic => Naming::Rooms,
            ShardedMode::DynamicPrivate => Naming::RoomsAndSockets,
        },
        namespaces: namespaces(),
        succeeds: None,
    };
    let engine = redis.clone();
    let pulse = Vitals::default().pulse("the cluster");
    let open = move || redis::open(engine.clone());
    let mut joining = Joining::begin(settings, Arc::default(), pulse, open)?;
    loop {
        if let Some(member) = joining.wait(Duration::from_secs(1))? {
            return Ok((member, redis));
        }
    }
}

/// Those that clients may join.
fn namespaces() -> Vec<String> {
    ["/", "/custom", "/forbidden", "/lab"]
        .map(str::to_owned)
        .into()
}

impl Wanted {
    fn membership(&self, adapter: Adapter) -> Membership {
        match self.adapter {
            None => Membership::Auto,
            Some(one) if one as u8 == adapter as u8 => Membership::Always,
            Some(_) => Membership::Never,
        }
    }

    fn compat(&self, node: u16) -> plane::Settings {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let epoch = since.map_or(1, |since| since.as_micros() as u64);
        plane::Settings {
            prefix: PREFIX.to_owned(),
            uid: own_uid(node, epoch),
            membership: [Adapter::Classic, Adapter::Sharded, Adapter::Streams]
                .map(|adapter| self.membership(adapter)),
            mode: match self.sharded_mode {
                ShardedMode::Dynamic => Rooms::Dynamic,
                ShardedMode::DynamicPrivate => Rooms::DynamicPrivate,
            },
            python: false,
            list_bytes_max: 8 << 20,
        }
    }
}
