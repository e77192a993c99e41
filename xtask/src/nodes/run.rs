//! Runs a scenario of the load generator on servers that share a Redis, and reads what it says.

use crate::repository;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use servers::{Cluster, Redis};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Programs, a folder for files, and how long phases last.
#[derive(Debug)]
pub struct Rig {
    pub bench: PathBuf,
    pub sockeye: PathBuf,
    pub folder: PathBuf,
    /// Share of the usual time.
    pub time_scale: f64,
    pub rounds: u32,
}

/// What servers share.
#[derive(Debug)]
pub enum Store {
    /// A node that is alone.
    Nothing,
    One(Redis),
    Cluster(Cluster),
}

/// Servers that are measured together.
#[derive(Debug)]
pub struct Side {
    pub name: &'static str,
    servers: Servers,
    store: Store,
    /// The only ones that servers, Redis and generator may use, as `taskset` names them.
    cores: Option<&'static str>,
}

#[derive(Debug)]
enum Servers {
    /// The generator starts them for each run.
    Sockeye {
        nodes: u32,
        config: PathBuf,
    },
    Node(Vec<Peer>),
}

/// Socket.IO on Node; dropping it ends it.
#[derive(Debug)]
struct Peer {
    child: Child,
    url: String,
}

/// A key of the configuration, and its value.
pub type Key = (&'static str, toml::Value);

/// A scenario in part: its first phases, for a share of their time.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub scenario: &'static str,
    pub phases: usize,
    pub share: f64,
}

/// The result of a run.
#[derive(Debug)]
pub struct Run {
    result: Value,
    stores: usize,
    redis: Traffic,
}

/// What Redis has done so far: commands carried out, and bytes read and written.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    commands: f64,
    bytes: f64,
}

/// A phase of it.
#[derive(Clone, Copy, Debug)]
pub struct Phase<'a> {
    row: &'a Value,
    stores: usize,
    cores: f64,
}

impl Store {
    fn traffic(&self) -> Traffic {
        let count = |name| {
            let each = self.servers().into_iter();
            let each =
                each.filter_map(|redis| redis.field(&["INFO", "stats"], name)?.parse::<f64>().ok());
            each.sum::<f64>()
        };
        Traffic {
            commands: count("total_commands_processed"),
            bytes: count("total_net_input_bytes") + count("total_net_output_bytes"),
        }
    }

    fn servers(&self) -> Vec<&Redis> {
        match self {
            Store::Nothing => Vec::new(),
            Store::One(redis) => vec![redis],
            Store::Cluster(cluster) => cluster.nodes.iter().collect(),
        }
    }
}

impl Side {
    /// Gateways with `benchmarks/nodes.toml`, and with these keys of `[cluster]`.
    pub fn sockeye(rig: &Rig, nodes: u32, store: Store, keys: &[Key]) -> Result<Side> {
        let mut config: toml::Table = repository::read("benchmarks/nodes.toml")?.parse()?;
        let urls: Vec<String> = store.servers().iter().map(|redis| redis.url()).collect();
        match (&store, config.get_mut("cluster")) {
            (Store::Nothing, _) => drop(config.remove("cluster")),
            (_, Some(toml::Value::Table(cluster))) => {
                cluster.insert("urls".into(), urls.into());
                let keys = keys
                    .iter()
                    .map(|(key, value)| ((*key).into(), value.clone()));
                cluster.extend(keys);
                if matches!(store, Store::Cluster(_)) {
                    cluster.insert("mode".into(), "cluster".into());
                }
            }
            _ => anyhow::bail!("benchmarks/nodes.toml has no table [cluster]"),
        }
        let values = keys.iter().map(|(key, value)| format!("-{key}-{value}"));
        let name = values.collect::<String>().replace('"', "");
        let path = rig.folder.join(format!("{nodes}{name}.toml"));
        fs::write(&path, toml::to_string(&config)?)?;
        let (servers, config) = (nodes, path);
        Ok(Side {
            name: "Sockeye",
            servers: Servers::Sockeye {
                nodes: servers,
                config,
            },
            store,
            cores: None,
        })
    }

    /// Socket.IO servers with its Redis adapter, in processes of their own.
    pub fn socket_io(nodes: u32) -> Result<Side> {
        let redis = Redis::start();
        let peers = (0..nodes).map(|_| Peer::start(&redis.url()));
        Ok(Side {
            name: "Socket.IO",
            servers: Servers::Node(peers.collect::<Result<_>>()?),
            store: Store::One(redis),
            cores: None,
        })
    }

    /// Keeps everything on some cores.
    pub fn on_cores(mut self, cores: &'static str) -> Result<Side> {
        for pid in self.store.servers().iter().map(|redis| redis.pid()) {
            let pinned = Command::new("taskset")
                .args(["-a", "-c", "-p", cores, &pid.to_string()])
                .stdout(Stdio::null())
                .status();
            let pinned = pinned.context("cannot run taskset (package util-linux)")?;
            ensure!(pinned.success(), "taskset {cores} of {pid}: {pinned}");
        }
        self.cores = Some(cores);
        Ok(self)
    }

    /// Its addresses and processes, for the generator; those of Redis are last.
    fn args(&self, rig: &Rig) -> Vec<String> {
        let mut args: Vec<String> = match &self.servers {
            Servers::Sockeye { nodes, config } => vec![
                format!("--gateways={nodes}"),
                format!("--gateway-config={}", config.display()),
                format!("--sockeye-bin={}", rig.sockeye.display()),
            ],
            Servers::Node(peers) => {
                let args = peers.iter().map(|peer| {
                    let pid = peer.child.id();
                    [format!("--url={}", peer.url), format!("--pid={pid}")]
                });
                args.flatten().collect()
            }
        };
        let stores = self.store.servers();
        args.extend(stores.iter().map(|redis| format!("--pid={}", redis.pid())));
        args
    }
}

impl Peer {
    fn start(redis: &str) -> Result<Peer> {
        let mut child = Command::new("node")
            .arg(repository::root().join("benchmarks/node-socketio/server.js"))
            .env("REDIS", redis)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run node")?;
        let mut line = String::new();
        let stdout = child.stdout.take().context("node has no output")?;
        BufReader::new(stdout).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line).context("node does not say its port")?;
        let url = format!("http://127.0.0.1:{}", said["port"]);
        Ok(Peer { child, url })
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Rig {
    /// Runs a part of a scenario. Messages that were lost are a result, too.
    pub fn run(&self, part: Part, side: &Side) -> Result<Run> {
        let (scenario, json) = (self.scenario(part)?, self.folder.join("run.json"));
        let mut command = Command::new(
            side.cores
                .map_or(self.bench.as_os_str(), |_| "taskset".as_ref()),
        );
        if let Some(cores) = side.cores {
            command.args(["-c", cores]).arg(&self.bench);
        }
        command.arg("run").arg(&scenario).args(side.args(self));
        command.arg("--json").arg(&json);
        let share = part.share * self.time_scale;
        command.args(["--time-scale", &share.to_string()]);
        let _ = fs::remove_file(&json);
        let before = side.store.traffic();
        let output = command.current_dir(repository::root()).output();
        let output = output.with_context(|| format!("cannot run {}", self.bench.display()))?;
        let said = || {
            let words = [output.stdout.as_slice(), &output.stderr].concat();
            format!(
                "no result of {command:?}: {}",
                String::from_utf8_lossy(&words)
            )
        };
        let text = fs::read_to_string(&json).with_context(said)?;
        let run = Run {
            result: serde_json::from_str(&text)?,
            stores: side.store.servers().len(),
            redis: side.store.traffic().since(before),
        };
        if run.faults() > 0.0 {
            eprintln!("wrong: {}", run.result["errors"]);
        }
        Ok(run)
    }

    /// Writes the part as a scenario of its own.
    fn scenario(&self, part: Part) -> Result<PathBuf> {
        let path = format!("crates/bench/scenarios/{}.toml", part.scenario);
        let mut table: toml::Table = repository::read(&path)?.parse()?;
        let phases = table.get_mut("phases").and_then(toml::Value::as_array_mut);
        let phases = phases.with_context(|| format!("{path} has no phases"))?;
        phases.truncate(part.phases);
        let path = self.folder.join(format!("{}.toml", part.scenario));
        fs::write(&path, toml::to_string(&table)?)?;
        Ok(path)
    }
}

impl Traffic {
    fn since(self, before: Self) -> Self {
        Self {
            commands: self.commands - before.commands,
            bytes: self.bytes - before.bytes,
        }
    }
}

impl Run {
    /// Commands at Redis, and bytes read and written there, for each message sent.
    pub fn redis_each(&self) -> [f64; 2] {
        let sent = self.total("sent").max(1.0);
        [self.redis.commands / sent, self.redis.bytes / sent]
    }

    pub fn phases(&self) -> impl Iterator<Item = Phase<'_>> {
        let rows = self.result["phases"].as_array().into_iter().flatten();
        let (stores, cores) = (self.stores, number(self.machine(), "cores"));
        rows.map(move |row| Phase { row, stores, cores })
    }

    pub fn total(&self, name: &str) -> f64 {
        number(&self.result["totals"], name)
    }

    /// Deliveries and acknowledgements that did not come as they should.
    pub fn faults(&self) -> f64 {
        let kinds = ["lost", "duplicated", "reordered", "stray"];
        kinds.iter().map(|kind| self.total(kind)).sum()
    }

    /// When, where and of what it was made.
    pub fn machine(&self) -> &Value {
        &self.result["machine"]
    }
}

impl Phase<'_> {
    pub fn name(&self) -> &str {
        self.row["name"].as_str().unwrap_or_default()
    }

    fn seconds(&self) -> f64 {
        number(self.row, "duration_s").max(1e-9)
    }

    /// `sent` or `received`, per second.
    pub fn rate(&self, what: &str) -> f64 {
        number(self.row, what) / self.seconds()
    }

    /// CPU of all servers and Redis by each that was `sent` or `received`, in microseconds.
    pub fn cpu_us(&self, what: &str) -> f64 {
        number(self.row, "server_cpu_s") * 1e6 / number(self.row, what).max(1.0)
    }

    /// Of one core, in percent.
    pub fn redis_percent(&self) -> f64 {
        let each = self.row["process_cpu_s"].as_array();
        let each = each.map(Vec::as_slice).unwrap_or_default();
        let redis = &each[each.len().saturating_sub(self.stores)..];
        let used: f64 = redis.iter().filter_map(Value::as_f64).sum();
        used / self.seconds() * 100.0
    }

    pub fn generator_cores(&self) -> f64 {
        number(self.row, "generator_cpu_s") / self.seconds()
    }

    /// What the generator left of the cores that it shared with the servers.
    pub fn cores_left(&self) -> f64 {
        (self.cores - self.generator_cores()).max(0.01)
    }

    /// A percentile of the `delivery` or `ack`, in milliseconds; `None` where the generator measured itself.
    pub fn ms(&self, what: &str, quantile: f64) -> Option<f64> {
        let is_own = !self.row["generator_saturated"].is_null();
        let buckets = self.row[what]["buckets_ns"].as_array()?;
        let buckets = buckets
            .iter()
            .map(|pair| (pair[0].as_f64(), pair[1].as_u64()));
        let all = number(&self.row[what], "count");
        let mut below = 0;
        let found = buckets.into_iter().find_map(|(top, count)| {
            below += count?;
            (below as f64 >= quantile * all).then_some(top?)
        });
        found.filter(|_| !is_own).map(|ns| ns / 1e6)
    }
}

fn number(table: &Value, name: &str) -> f64 {
    table[name].as_f64().unwrap_or_default()
}

/// A folder that is there and empty of older files.
pub fn folder() -> Result<PathBuf> {
    let folder = repository::built("nodes");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).context("cannot make a folder for files")?;
    Ok(Path::new(&folder).to_owned())
}
