//! What happens to Redis or NATS, and to whom.

use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use fastrand::Rng;
use servers::{Cable, Cluster, Nats, Redis, wait_for};
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `CLIENT KILL TYPE pubsub`, at every server.
    Kick,
    /// A single Redis is killed and started again, empty.
    Restart,
    /// A single Redis is killed, and started again after six seconds.
    Dead,
    /// SIGSTOP of a single Redis for six seconds.
    Stand,
    /// A node's network is cut for ten seconds.
    Cut,
    /// The same for 25 seconds.
    LongCut,
    /// SIGKILL of a master in 3 + 3.
    Kill,
    /// SIGSTOP of a master in 3 + 3 for five seconds.
    Freeze,
    /// `CLUSTER FAILOVER` at a replica.
    Failover,
    /// The slots of the channels move to another master.
    Migrate,
}

enum Servers {
    Single(Redis),
    Cluster(Cluster),
    Nats(Nats),
}

pub struct Scene {
    fault: Fault,
    servers: Servers,
    /// Between the second node and a single server.
    cable: Option<Cable>,
    rng: Rng,
    /// `cluster.ring_bytes`.
    ring: &'static str,
    /// `cluster.join_wait`.
    join_wait: &'static str,
    /// `limits.outbox_bytes_max`. What was missed may come in one go.
    outbox: &'static str,
}

/// When service was interrupted, and when it was whole again: a master serves all slots, the network is mended.
#[derive(Clone, Copy, Debug)]
pub struct Outage {
    pub began: Instant,
    pub ended: Instant,
}

impl Scene {
    pub fn set(fault: Fault, seed: u64) -> Scene {
        let single = match fault {
            Fault::Restart | Fault::Dead | Fault::Stand | Fault::Cut | Fault::LongCut => true,
            Fault::Kick => seed.is_multiple_of(2),
            Fault::Kill | Fault::Freeze | Fault::Failover | Fault::Migrate => false,
        };
        let servers = match single {
            true => Servers::Single(Redis::start()),
            false => Servers::Cluster(Cluster::start_with(node_timeout_ms(), &[])),
        };
        Scene::of(servers, fault, seed)
    }

    /// The same of a single NATS. It restarts, is dead, stands still, or is cut off from a node.
    pub fn set_over_nats(fault: Fault, seed: u64) -> Scene {
        Scene::of(Servers::Nats(Nats::start()), fault, seed)
    }

    fn of(servers: Servers, fault: Fault, seed: u64) -> Scene {
        let port = match &servers {
            Servers::Single(redis) => Some(redis.port()),
            Servers::Nats(nats) => Some(nats.port()),
            Servers::Cluster(_) => None,
        };
        let is_cut = matches!(fault, Fault::Cut | Fault::LongCut);
        let cable = port.filter(|_| is_cut).map(Cable::to);
        Scene {
            fault,
            servers,
            cable,
            rng: Rng::with_seed(seed),
            ring: "64MiB",
            join_wait: "5s",
            outbox: "64MiB",
        }
    }

    pub fn with_outbox(mut self, outbox: &'static str) -> Scene {
        self.outbox = outbox;
        self
    }

    pub fn with_join_wait(mut self, join_wait: &'static str) -> Scene {
        self.join_wait = join_wait;
        self
    }

    pub fn with_ring(mut self, ring: &'static str) -> Scene {
        self.ring = ring;
        self
    }

    /// Of a single Redis.
    pub fn redis_url(&self) -> String {
        match &self.servers {
            Servers::Single(redis) => redis.url(),
            Servers::Cluster(_) | Servers::Nats(_) => panic!("there is no single Redis"),
        }
    }

    pub fn fault(&self) -> Fault {
        self.fault
    }

    /// The fault as the record calls it.
    pub fn name(&self) -> String {
        let carrier = match &self.servers {
            Servers::Nats(_) => "Nats",
            Servers::Single(_) | Servers::Cluster(_) => "",
        };
        format!("{carrier}{:?}", self.fault)
    }

    /// Three nodes that know each other.
    pub fn start_nodes(&self) -> [Gateway; 3] {
        let nodes = std::array::from_fn(|at| Gateway::start(&self.config(at)));
        for node in &nodes {
            assert!(eventually(PATIENCE, || is_ready(node)), "ready");
            let peers = node.metric_settles("sockeye_cluster_peers", |peers| peers == 2.0);
            assert_eq!(peers, Ok(2.0));
        }
        nodes
    }

    fn config(&self, node: usize) -> String {
        let (mode, addrs) = match (&self.servers, &self.cable) {
            (Servers::Cluster(cluster), _) => ("cluster", cluster.addrs()),
            (_, Some(cable)) if node == 1 => ("single", vec![cable.addr()]),
            (Servers::Single(redis), _) => ("single", vec![redis.addr()]),
            (Servers::Nats(nats), _) => ("single", vec![format!("127.0.0.1:{}", nats.port())]),
        };
        let (adapter, beside) = match &self.servers {
            Servers::Nats(_) => ("nats", ""),
            Servers::Single(_) | Servers::Cluster(_) => ("redis", "[compat]\nenabled = true\n"),
        };
        let url = |addr: &String| format!("{adapter}://{addr}");
        let urls: Vec<String> = addrs.iter().map(url).collect();
        let (ring, join_wait, outbox) = (self.ring, self.join_wait, self.outbox);
        // A busy machine refuses no client, and confirms joins late.
        format!(
            "profile = \"plain\"\n[server]\nshards = 2\n[admission]\nturn_max = \"0s\"\n[limits]\noutbox_bytes_max = {outbox:?}\n\
             [cluster]\nadapter = {adapter:?}\nmode = {mode:?}\nurls = {urls:?}\nsecret = \"s\"\nring_bytes = {ring:?}\n\
             join_wait = {join_wait:?}\n{beside}"
        )
    }

    /// One master after the other is late by some milliseconds, as on a busy machine.
    pub fn hiccup(&self) {
        let Servers::Cluster(cluster) = &self.servers else {
            panic!("one server overtakes nobody");
        };
        for master in &cluster.nodes[..3] {
            master.freeze();
            sleep(Duration::from_millis(10));
            master.thaw();
            sleep(Duration::from_millis(100));
        }
    }

    /// Lets the traffic run, does the deed, and lets it run on. Returns when service was interrupted.
    pub fn happen(&mut self) -> Outage {
        sleep(Duration::from_millis(1_000 + self.rng.u64(..1_000)));
        let began = Instant::now();
        self.interrupt();
        let ended = Instant::now();
        self.finish();
        sleep(Duration::from_secs(2));
        Outage { began, ended }
    }

    /// Returns when service is whole again.
    fn interrupt(&mut self) {
        let at = self.rng.usize(..3);
        match (&mut self.servers, self.fault) {
            (Servers::Single(redis), Fault::Kick) => kick(redis),
            (Servers::Nats(nats), Fault::Dead) => {
                nats.kill();
                sleep(Duration::from_secs(6));
                nats.restart();
            }
            (Servers::Nats(nats), Fault::Stand) => {
                nats.freeze();
                sleep(Duration::from_secs(6));
                nats.thaw();
            }
            (Servers::Nats(nats), _) if self.cable.is_none() => {
                nats.kill();
                sleep(Duration::from_millis(self.rng.u64(..2_000)));
                nats.restart();
            }
            (Servers::Single(redis), Fault::Dead) => {
                redis.kill();
                sleep(Duration::from_secs(6));
                redis.restart();
            }
            (Servers::Single(redis), Fault::Stand) => {
                redis.freeze();
                sleep(Duration::from_secs(6));
                redis.thaw();
            }
            (Servers::Single(redis), _) if self.cable.is_none() => {
                redis.kill();
                sleep(Duration::from_millis(self.rng.u64(..2_000)));
                redis.restart();
            }
            (Servers::Single(_) | Servers::Nats(_), _) => {
                let cable = self.cable.as_ref().expect("a cable");
                cable.cut();
                sleep(match self.fault {
                    Fault::LongCut => Duration::from_secs(25),
                    _ => Duration::from_secs(10),
                });
                cable.mend();
            }
            (Servers::Cluster(cluster), Fault::Kick) => {
                cluster.nodes[..3].iter().for_each(kick);
            }
            (Servers::Cluster(cluster), Fault::Migrate) => migrate(cluster),
            (Servers::Cluster(cluster), fault) => {
                let master = busy_master(cluster, at);
                match fault {
                    Fault::Kill => cluster.nodes[master].kill(),
                    Fault::Freeze => cluster.nodes[master].freeze(),
                    _ => drop(cluster.nodes[master + 3].ask(&["CLUSTER", "FAILOVER"])),
                }
                wait_for("the replica takes over", || {
                    let role = cluster.nodes[master + 3].field(&["INFO", "replication"], "role")?;
                    (role == "master").then_some(())
                });
            }
        }
    }

    /// A server that is frozen wakes up after five seconds, a dead one is started again.
    fn finish(&mut self) {
        let Servers::Cluster(cluster) = &mut self.servers else {
            return;
        };
        match self.fault {
            Fault::Freeze => {
                sleep(Duration::from_secs(3));
                cluster.nodes.iter().for_each(Redis::thaw);
            }
            Fault::Kill => {
                let dead = |redis: &&mut Redis| redis.ask(&["PING"]).trim() != "PONG";
                cluster
                    .nodes
                    .iter_mut()
                    .filter(dead)
                    .for_each(Redis::restart);
            }
            _ => {}
        }
    }
}

/// Of the cluster, milliseconds.
fn node_timeout_ms() -> u32 {
    let set = std::env::var("FAULT_NODE_TIMEOUT_MS").ok();
    set.map_or(1_000, |ms| ms.parse().expect("milliseconds"))
}

fn is_ready(node: &Gateway) -> bool {
    let request = "GET /ready HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n";
    RawConn::exchange(node.admin, request).status == 200
}

fn kick(redis: &Redis) {
    redis.ask(&["CLIENT", "KILL", "TYPE", "pubsub"]);
}

/// Channels of the nodes at a master.
fn channels(cluster: &Cluster, node: usize) -> Vec<String> {
    let channels = cluster.nodes[node].ask(&["PUBSUB", "SHARDCHANNELS"]);
    let channels = channels.lines().map(str::trim);
    channels
        .filter(|channel| !channel.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The nth master that carries something, or the next.
fn busy_master(cluster: &Cluster, nth: usize) -> usize {
    let mut masters = (nth..nth + 3).map(|master| master % 3);
    let busy = masters.find(|master| !channels(cluster, *master).is_empty());
    busy.expect("nodes subscribe to channels")
}

fn migrate(cluster: &Cluster) {
    for master in 0..3 {
        // Several channels may be in one slot.
        let channels = channels(cluster, master).into_iter();
        let slots: BTreeSet<_> = channels
            .map(|channel| cluster.slot(master, &channel))
            .collect();
        for slot in slots {
            cluster.migrate(slot, master, (master + 1) % 3);
        }
    }
}
