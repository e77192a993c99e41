//! Backends: the listener for their workers, and the way of their commands to the shards.

use crate::config::Resolved;
use anyhow::{Context, Result, anyhow};
use backend::Up;
use backend::proto::NodeGone;
use control::api::{self, Api};
use control::metrics::node::Node as Facts;
use hub::limits::Limits;
use hub::{Keeping, Places, Process};
use nodes::Gone;
use rules::{Line, Tracer, Word};
use shard::{Guest, Readiness, Shards, Stay, ToHandlers};
use std::collections::{BTreeMap, HashMap};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use workers::{
    Backends, Config, Credentials, Drivers, Larder, Listener, Lodger, Next, Secured, Served, Signs,
    Socket, ToShards, manners,
};

/// What another process gets of backends.
#[derive(Debug, Default)]
pub struct Held {
    pub listener: Option<OwnedFd>,
    pub drivers: Drivers,
}

/// Where workers will attach, if any do.
#[derive(Debug)]
pub struct Counter {
    listener: Option<Socket>,
    conns_max: usize,
    secured: Option<Secured>,
    backends: Backends,
}

impl Counter {
    /// `secured`: workers attach by TLS.
    pub fn open(
        config: &Config,
        secured: Option<Secured>,
        listener: Option<Socket>,
    ) -> Result<Self> {
        let backends = Backends::new(config);
        Ok(Self {
            listener,
            conns_max: config.conns_max,
            secured,
            backends: backends.map_err(|why| anyhow!("cannot prepare backends: {why}"))?,
        })
    }

    pub fn lines(&self) -> BTreeMap<String, Arc<dyn Line>> {
        self.backends.lines()
    }

    pub fn credentials(&self) -> Credentials {
        self.backends.credentials()
    }

    /// What another process would get of it.
    pub fn held(&self) -> Result<Held> {
        let listener = self.listener.as_ref().map(Socket::try_clone);
        Ok(Held {
            listener: listener
                .transpose()
                .context("cannot copy the workers' listener")?,
            drivers: self.backends.drivers(),
        })
    }

    /// Takes in what the process before this one knew of a backend.
    pub fn restore(
        &mut self,
        name: &str,
        record: &[u8],
        shards: u16,
        asked: &[(String, u64)],
    ) -> Result<(), String> {
        self.backends.restore(name, record, shards, asked)
    }

    /// All sessions of that process that come are here.
    pub fn settle(&mut self, is_here: impl Fn(&[u8]) -> bool, rooms: HashMap<String, Vec<String>>) {
        self.backends.settle(is_here, rooms);
    }

    /// Tells all backends of nodes that are gone.
    pub fn nodes_gone(&self) -> Gone {
        let lines = self.lines();
        Box::new(move |node, life| {
            for line in lines.values() {
                let node = u32::from(node);
                line.up(Up::NodeGone(NodeGone { node, life }));
            }
        })
    }

    /// Begins to serve; returns the address.
    pub fn serve(
        self,
        config: &Resolved,
        node: u16,
        shards: &Shards,
        facts: &Arc<Facts>,
        (api, places): (&Arc<Api>, &Arc<Places>),
        tracer: Option<Arc<dyn Tracer>>,
    ) -> Result<Option<String>> {
        let addr = self.listener.as_ref().map(Socket::address);
        let addr = addr.transpose()?;
        // Nobody else sets it.
        let _ = facts.backends.set(self.backends.figures());
        let drivers = self.backends.drivers();
        let listener = self.listener.map(|socket| Listener {
            socket,
            secured: self.secured,
            conns_max: self.conns_max,
            places: Arc::clone(places),
            gone: drivers.gone(),
            api: api::routes(Arc::clone(api)),
        });
        let handlers: Arc<dyn ToShards> = Arc::new(Handlers {
            to: shards.to_handlers(),
            process: shards.process().clone(),
            limits: config.hub.limits.clone(),
        });
        let served = Served {
            node,
            manners: manners(&config.hub),
            recovery: config.hub.recovery.clone(),
        };
        let larder: Arc<dyn Larder> = Arc::<Api>::clone(api);
        self.backends
            .serve(
                listener,
                served,
                &handlers,
                larder,
                tracer.as_ref(),
                facts.host(),
            )
            .context("cannot start the thread for workers")?;
        Ok(addr)
    }
}

struct Handlers {
    to: ToHandlers,
    process: Process,
    limits: Limits,
}

impl ToShards for Handlers {
    fn shards(&self) -> u16 {
        self.to.shards()
    }

    fn send(&self, by: u16, word: Word) {
        let bytes = word.bytes();
        self.to.send(by, Box::new(word), bytes);
    }

    fn keeping(&self) -> Arc<Keeping> {
        // Before there are hubs there are no clients.
        self.process.keeping.get().cloned().unwrap_or_default()
    }

    fn shard_of(&self, socket: &str) -> Option<u16> {
        self.process.whereabouts.shard_of(socket)
    }

    fn are_behind(&self) -> bool {
        self.to.are_behind(&self.limits)
    }

    fn lodge(&self, shard: u16, lodger: Lodger) {
        self.to.send_guest(shard, Box::new(Worker(lodger)));
    }

    fn call_lodgers(&self, shard: u16) {
        self.to.call_guests(shard);
    }
}

/// A worker's link at a shard.
struct Worker(Lodger);

impl Guest for Worker {
    fn stream(&self) -> BorrowedFd<'_> {
        self.0.stream()
    }

    fn ready(&mut self, readiness: Readiness) -> Stay {
        let next = self.0.ready(Signs {
            readable: readiness.readable,
            writable: readiness.writable,
            ending: readiness.ending,
        });
        match next {
            Next::Wait => Stay::Waits,
            Next::Call(time) => Stay::Again(time),
            Next::Leave => Stay::Leaves,
        }
    }

    fn leave(self: Box<Self>) {
        self.0.leave();
    }
}
