//! Finds out which servers take commands now. Sentinels and nodes of a cluster are asked all at once; the one with the latest epoch is
//! right, because others may be cut off from the rest.

use super::conn::{Conn, refusal, text};
use super::event::Event;
use super::settings::{Addr, Login, Mode, Settings};
use super::topology::Topology;
use crate::engine::Trouble;
use redis::{Pipeline, Value};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

/// Servers asked in one go.
const ASKED_MAX: usize = 8;
/// The others have so long to answer after the first did.
const GRACE: Duration = Duration::from_millis(100);
/// Between two looks, however many ask for one.
const PAUSE: Duration = Duration::from_millis(50);

/// How one server sees the whole.
#[derive(Debug)]
struct View {
    /// A server that knows itself in trouble comes last.
    well: bool,
    epoch: u64,
    topology: Topology,
}

/// Asks for the topology, again and again.
#[derive(Debug)]
pub(super) struct Resolver {
    settings: Arc<Settings>,
    conns: HashMap<Addr, Conn>,
    last: Topology,
}

impl Resolver {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self {
            settings,
            conns: HashMap::new(),
            last: Topology::default(),
        }
    }

    /// Looks whenever it is wanted, until the keeper is gone.
    pub(super) async fn run(mut self, wanted: Arc<Notify>, events: UnboundedSender<Event>) {
        loop {
            wanted.notified().await;
            let resolved = self.resolve().await;
            if events.send(Event::Resolved(resolved)).is_err() {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    pub(super) async fn resolve(&mut self) -> Result<Topology, Trouble> {
        let resolved = match self.settings.mode {
            Mode::Single => self.resolve_single().await,
            Mode::Sentinel(_) | Mode::Cluster => self.ask_all().await,
        }?;
        self.last.clone_from(&resolved);
        Ok(resolved)
    }

    /// The one server there is; it is tried only at the start.
    async fn resolve_single(&mut self) -> Result<Topology, Trouble> {
        if !self.last.servers.is_empty() {
            return Ok(self.last.clone());
        }
        let mut why = None;
        for addr in &self.settings.addrs {
            match Conn::open(addr, &self.settings.login, &self.settings, None).await {
                Ok(conn) => match conn.hello.suits(addr, &self.settings.mode) {
                    Ok(()) => return Ok(Topology::single(addr.clone())),
                    Err(trouble) => why = why.or(Some(trouble)),
                },
                Err(trouble) => why = why.or(Some(trouble)),
            }
        }
        Err(why.unwrap_or_else(|| Trouble::new("cannot find Redis: no address is given")))
    }

    async fn ask_all(&mut self) -> Result<Topology, Trouble> {
        let mut asked = JoinSet::new();
        for addr in self.to_ask() {
            let conn = self.conns.remove(&addr);
            let settings = Arc::clone(&self.settings);
            asked.spawn(async move { ask(addr, conn, &settings).await });
        }
        let (mut best, mut why): (Option<View>, _) = (None, None);
        let mut deadline = Instant::now() + Duration::from_secs(60);
        while let Ok(Some(answer)) = timeout_at(deadline, asked.join_next()).await {
            match answer {
                Ok(Ok((conn, view))) => {
                    self.conns.insert(conn.addr.clone(), conn);
                    if best.is_none() {
                        deadline = Instant::now() + GRACE;
                    }
                    let better = |best: &View| (view.well, view.epoch) > (best.well, best.epoch);
                    if best.as_ref().is_none_or(better) {
                        best = Some(view);
                    }
                }
                Ok(Err(trouble)) => why = why.or(Some(trouble)),
                Err(_) => {}
            }
        }
        let best = best.map(|view| view.topology);
        best.ok_or_else(|| why.unwrap_or_else(super::item::ended))
    }

    /// Servers that are known to work, then those of the configuration.
    fn to_ask(&self) -> Vec<Addr> {
        let known = match self.settings.mode {
            Mode::Cluster => &self.last.servers[..],
            _ => &[],
        };
        let mut addrs: Vec<Addr> = Vec::new();
        for addr in known.iter().chain(&self.settings.addrs) {
            if !addrs.contains(addr) && addrs.len() < ASKED_MAX {
                addrs.push(addr.clone());
            }
        }
        addrs
    }
}

async fn ask(addr: Addr, conn: Option<Conn>, settings: &Settings) -> Result<(Conn, View), Trouble> {
    let (login, sentinel): (&Login, _) = match &settings.mode {
        Mode::Sentinel(name) => (&settings.sentinel_login, Some(name)),
        _ => (&settings.login, None),
    };
    let conn = match conn {
        Some(conn) => conn,
        None => Conn::open(&addr, login, settings, None).await?,
    };
    let mut pipeline = Pipeline::new();
    match sentinel {
        Some(name) => pipeline.cmd("SENTINEL").arg("MASTER").arg(name),
        None => {
            conn.hello.suits(&addr, &settings.mode)?;
            pipeline.cmd("CLUSTER").arg("SLOTS");
            pipeline.cmd("CLUSTER").arg("INFO")
        }
    };
    let answers = conn.send(&pipeline, settings.patience).await?;
    let view = match sentinel {
        Some(name) => sentinel_view(&addr, name, &answers),
        None => cluster_view(&addr, &answers),
    }?;
    Ok((conn, view))
}

fn sentinel_view(addr: &Addr, name: &str, answers: &[Value]) -> Result<View, Trouble> {
    let refuse = |why: String| {
        let text = format!("Sentinel at {addr} does not tell the master {name:?}: {why}");
        Trouble::refused(text, &why)
    };
    let answer = answers.first().unwrap_or(&Value::Nil);
    if let Some(why) = refusal(answer) {
        return Err(refuse(why));
    }
    let fields: HashMap<String, String> = match answer.as_map_iter() {
        Some(fields) => fields
            .map(|(key, value)| (text(key), text(value)))
            .collect(),
        None => return Err(refuse(format!("it answered {answer:?}"))),
    };
    let field = |name: &str| fields.get(name).map(String::as_str).unwrap_or_default();
    let port = field("port").parse();
    let master = Addr {
        host: field("ip").into(),
        port: port.map_err(|_| refuse(format!("its port is {:?}", field("port"))))?,
    };
    Ok(View {
        well: !field("flags").contains("down"),
        epoch: field("config-epoch").parse().unwrap_or(0),
        topology: Topology::single(master),
    })
}

fn cluster_view(addr: &Addr, answers: &[Value]) -> Result<View, Trouble> {
    if let Some(why) = answers.iter().find_map(refusal) {
        let text = format!("Redis at {addr} does not tell the cluster's slots: {why}");
        return Err(Trouble::refused(text, &why));
    }
    let [Value::Array(ranges), info] = answers else {
        return Err(Trouble::new(format!(
            "Redis at {addr} does not tell the cluster's slots: it answered {answers:?}"
        )));
    };
    let info = text(info);
    let field = |name: &str| {
        let mut fields = info.lines().filter_map(|line| line.split_once(':'));
        fields.find_map(|(key, value)| (key == name).then(|| value.trim()))
    };
    let mut topology = Topology::cluster();
    for range in ranges {
        add_range(&mut topology, addr, range);
    }
    if topology.servers.is_empty() {
        return Err(Trouble::new(format!(
            "the cluster of Redis at {addr} serves no slots: create it with redis-cli --cluster create"
        )));
    }
    Ok(View {
        well: field("cluster_state") == Some("ok"),
        epoch: field("cluster_current_epoch")
            .and_then(|epoch| epoch.parse().ok())
            .unwrap_or(0),
        topology,
    })
}

/// `[first, last, [host, port, id, …], replicas…]`; what is malformed is left out.
fn add_range(topology: &mut Topology, asked: &Addr, range: &Value) {
    let Value::Array(parts) = range else { return };
    let [
        Value::Int(first),
        Value::Int(last),
        Value::Array(master),
        ..,
    ] = &parts[..]
    else {
        return;
    };
    let [host, Value::Int(port), ..] = &master[..] else {
        return;
    };
    let host = match text(host).as_str() {
        // It does not know its own address, or says: the one you know.
        "" | "?" => Arc::clone(&asked.host),
        host => host.into(),
    };
    let Ok(port) = u16::try_from(*port) else {
        return;
    };
    if let (Ok(first), Ok(last)) = (usize::try_from(*first), usize::try_from(*last)) {
        topology.give(first..=last, Addr { host, port });
    }
}
