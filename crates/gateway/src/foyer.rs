//! Before a node has its number: health checks are answered, and everybody else is told to come again. Nobody has an id yet, so a node
//! that finds its number taken takes another.

use crate::cluster;
use crate::config::{Cluster, Resolved};
use crate::descriptors;
use crate::outside::{Desks, Link};
use crate::signals::Wish;
use crate::tls::Rotation;
use anyhow::{Context, Result};
use control::admin::Starting;
use control::metrics::Exporter;
use control::metrics::node::Node as Facts;
use control::page::{PageConfig, Pages};
use hub::{Context as Cx, Event, Handler, HandlerFactory, Outlets, Places, SocketKey};
use nodes::{Joining, Member, Start};
use shard::{Settings, Shards};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// How often it is looked for signals.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// What is being answered when the node opens has so long.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Connections at once.
const CONNS_MAX: usize = 1_000;

/// Everything that is listened on.
#[derive(Clone, Copy)]
pub struct Listeners<'a> {
    unix: &'a [UnixListener],
    pub admin: Option<&'a TcpListener>,
    certificates: Option<&'a Rotation>,
}

impl<'a> Listeners<'a> {
    pub fn new(
        unix: &'a [UnixListener],
        admin: Option<&'a TcpListener>,
        certificates: Option<&'a Rotation>,
    ) -> Self {
        Self {
            unix,
            admin,
            certificates,
        }
    }
}

/// Listeners that let nobody in.
#[derive(Debug)]
pub struct Foyer {
    shards: Shards,
    admin: Option<JoinHandle<()>>,
}

impl Foyer {
    pub fn open(
        config: &Resolved,
        listeners: Listeners<'_>,
        runtime: &Runtime,
        facts: &Arc<Facts>,
        places: &Arc<Places>,
    ) -> Result<Self> {
        let shards = shards(config, listeners, facts)?;
        let admin = listeners.admin.map(|listener| {
            let listener = listener.try_clone()?;
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let exporter = Exporter::new(shards.metrics(), Arc::clone(facts));
            let open = !config.admin.access.metrics_need_key;
            let starting = Starting {
                readiness: facts.readiness.clone(),
                metrics: open.then(|| Arc::new(exporter)),
                conns_max: config.admin.conns_max,
                places: Arc::clone(places),
            };
            let serve = async move {
                if let Err(error) = starting.serve(listener).await {
                    tracing::error!(%error, "the admin listener ended");
                }
            };
            Ok::<_, std::io::Error>(runtime.spawn(serve))
        });
        let admin = admin.transpose().context("cannot serve operators")?;
        Ok(Self { shards, admin })
    }

    /// The public addresses with the ports taken: plain, and those that speak TLS.
    pub fn addrs(&self) -> (Vec<SocketAddr>, Vec<SocketAddr>) {
        (
            self.shards.local_addrs().to_vec(),
            self.shards.tls_addrs().to_vec(),
        )
    }

    /// Waits until Redis' name is known; `false`: it was told to stop.
    pub fn wait_for_name(&self, cluster: &Cluster, wishes: &Receiver<Wish>) -> Result<bool> {
        let began = Instant::now();
        let mut told = false;
        while let Some(trouble) = cluster::is_nowhere(cluster)? {
            match cluster.start {
                Start::Wait(limit) if began.elapsed() < limit => {}
                _ => return Err(trouble.into()),
            }
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(%trouble, "waiting for the cluster: clients are told to come again");
            }
            if self.is_told_to_stop(wishes)? {
                return Ok(false);
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
        Ok(true)
    }

    /// Waits until the process is a member; `None`: it was told to stop.
    pub fn wait(&self, joining: &mut Joining, wishes: &Receiver<Wish>) -> Result<Option<Member>> {
        loop {
            if let Some(member) = joining.wait(LOOK_INTERVAL)? {
                return Ok(Some(member));
            }
            if self.is_told_to_stop(wishes)? {
                return Ok(None);
            }
        }
    }

    fn is_told_to_stop(&self, wishes: &Receiver<Wish>) -> Result<bool> {
        match wishes.try_recv() {
            Ok(Wish::Stop) => return Ok(true),
            Ok(Wish::Reload) => {
                tracing::warn!(
                    "not reloaded: this node is starting; send the signal again when it is ready"
                );
            }
            Err(_) => {}
        }
        if let Some(ended) = self.shards.wait_for(Duration::ZERO) {
            ended.context("cannot go on")?;
        }
        Ok(false)
    }

    /// Others listen now.
    pub fn close(self) {
        if let Some(admin) = self.admin {
            admin.abort();
        }
        self.shards.drain(Duration::ZERO, Duration::ZERO);
        if self.shards.wait_for(CLOSE_TIMEOUT).is_none() {
            self.shards.stop();
        }
    }
}

fn shards(config: &Resolved, listeners: Listeners<'_>, facts: &Arc<Facts>) -> Result<Shards> {
    // Of its own: connections that are cut off when the node opens give nothing back.
    let places = Arc::new(Places::new(
        CONNS_MAX.min(descriptors::for_clients(descriptors::limit())),
    ));
    let pages = Pages::new(
        PageConfig {
            chat_page: false,
            doors: String::new(),
            serve_client: false,
            socketio_path: config.hub.socketio_path.clone(),
            cors: config.hub.cors.clone(),
        },
        facts.readiness.clone(),
        &places,
    );
    let desks = Desks {
        tokens: None,
        relays: None,
        history: None,
        bridges: Arc::default(),
        turns: Arc::default(),
    };
    let link = Link::start(pages, desks, None, false, Arc::clone(&facts.log))?;
    let unix = listeners.unix.iter().map(UnixListener::try_clone);
    let tls = config.tls.as_ref().zip(listeners.certificates);
    let settings = Settings {
        inherited: None,
        onset: None,
        listen: config.server.listen.clone(),
        takes_over: false,
        unix: unix.collect::<Result<_, _>>()?,
        shards: 1,
        node: 0,
        uplink: None,
        outlets: Outlets::default(),
        hub: hub::config::Config {
            closed: true,
            ..config.hub.clone()
        },
        pin: false,
        conns_max: config.hub.limits.conns_max.min(CONNS_MAX),
        conns_reserve: 0,
        places,
        tls: tls.map(|(tls, files)| shard::Tls {
            listen: tls.listen.clone(),
            config: files.config(),
        }),
    };
    shard::start(settings, &Nobody, Arc::new(link)).context("cannot start the data plane")
}

/// The handler of those who are not let in.
struct Nobody;

impl HandlerFactory for Nobody {
    fn build(&self, _: u16) -> Box<dyn Handler> {
        Box::new(Nobody)
    }
}

impl Handler for Nobody {
    fn event(&mut self, _: &mut Cx<'_>, _: SocketKey, _: Event<'_>) {}
}
