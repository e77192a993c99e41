//! Logic outside: the listener where workers attach, and for each backend a task that owns its state. Shards send their news by a
//! queue and get back what they are to do through their mailboxes.

mod driver;
mod figures;
mod queue;
mod service;

use crate::admin::keys::ApiKeys;
use backend::{Down, Settings};
use driver::{Desk, Driver};
pub use figures::Figures;
use queue::Inlet;
use rules::Line;
use service::Workers;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// `[backends]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    pub listen: SocketAddr,
    pub kitchens: BTreeMap<String, Kitchen>,
}

/// One backend as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Kitchen {
    pub keys: ApiKeys,
    pub settings: Settings,
}

/// The way to the handlers of the shards.
pub trait ToShards: Send + Sync + 'static {
    fn shards(&self) -> u16;
    /// In order with all that is sent to this shard.
    fn send(&self, shard: u16, line: &Arc<dyn Line>, down: Down);
    /// Which shard has the socket with this id.
    fn shard_of(&self, socket: &str) -> Option<u16>;
    /// Some shard has more to do than it should: workers can wait.
    fn are_behind(&self) -> bool;
}

/// Backends that shards can talk to and that nobody serves yet.
pub struct Backends {
    kitchens: BTreeMap<String, Open>,
}

struct Open {
    keys: ApiKeys,
    settings: Settings,
    inlet: Arc<Inlet>,
    outlet: queue::Outlet,
    figures: Arc<Figures>,
}

impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.kitchens.keys()).finish()
    }
}

impl Backends {
    pub fn new(config: &Config) -> Self {
        let open = |kitchen: &Kitchen| {
            let figures = Arc::<Figures>::default();
            let (inlet, outlet) = queue::open(&kitchen.settings, Arc::clone(&figures));
            Open {
                keys: kitchen.keys.clone(),
                settings: kitchen.settings.clone(),
                inlet: Arc::new(inlet),
                outlet,
                figures,
            }
        };
        let kitchens = config.kitchens.iter();
        Self {
            kitchens: kitchens
                .map(|(name, kitchen)| (name.clone(), open(kitchen)))
                .collect(),
        }
    }

    /// What shards send their news by.
    pub fn lines(&self) -> BTreeMap<String, Arc<dyn Line>> {
        let lines = self.kitchens.iter();
        lines
            .map(|(name, open)| (name.clone(), Arc::clone(&open.inlet) as Arc<dyn Line>))
            .collect()
    }

    /// What metrics are made of.
    pub fn figures(&self) -> BTreeMap<String, Arc<Figures>> {
        let all = self.kitchens.iter();
        all.map(|(name, open)| (name.clone(), Arc::clone(&open.figures)))
            .collect()
    }

    /// Serves workers, in the runtime that this is called in.
    pub fn serve(self, listener: TcpListener, node: u16, shards: Arc<dyn ToShards>) {
        let mut desks = BTreeMap::new();
        for (name, open) in self.kitchens {
            let driver = Driver::new(
                open.settings,
                node,
                open.inlet,
                open.figures,
                Arc::clone(&shards),
            );
            let room = Arc::<Notify>::default();
            let (desk, letters) = Desk::new(open.keys, Arc::clone(&room));
            desks.insert(name, desk);
            tokio::spawn(driver.run(open.outlet, letters, room));
        }
        tokio::spawn(service::serve(listener, Workers::new(desks)));
    }
}
