//! Logic outside: the listener where workers attach, and for each backend a task that owns its state. Shards send their news by a
//! queue and get back what they are to do through their mailboxes.

mod accept;
mod caller;
mod driver;
mod figures;
mod queue;
mod service;
mod webhook;

use crate::admin::keys::ApiKeys;
use crate::api::{Api, grpc};
pub use accept::{Listener, Secured};
use backend::proto::Manners;
use backend::{Backend, Calling, Down, Settings};
use caller::Caller;
use driver::{Desk, Driver};
pub use figures::Figures;
use queue::Inlet;
use rules::{Line, Tracer};
use service::Workers;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::Notify;
use webhook::Endpoint;
pub use webhook::Webhook;

/// `[backends]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where workers attach.
    pub listen: Option<SocketAddr>,
    /// Connections there.
    pub conns_max: usize,
    pub kitchens: BTreeMap<String, Kitchen>,
}

/// One backend as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Kitchen {
    pub keys: ApiKeys,
    pub settings: Settings,
    /// Its logic is called, and no worker attaches.
    pub webhook: Option<Webhook>,
}

/// Facts of the gateway that each worker is told.
#[derive(Clone, Debug)]
pub struct Served {
    /// Number of the node.
    pub node: u16,
    pub manners: Manners,
}

/// The way to the handlers of the shards.
pub trait ToShards: Send + Sync + 'static {
    fn shards(&self) -> u16;
    /// In order with all that is sent to this shard. `leads`: it tells other nodes, too.
    fn send(&self, shard: u16, line: &Arc<dyn Line>, down: Down, leads: bool);
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
    endpoint: Option<(Calling, Endpoint)>,
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
    /// # Errors
    /// An endpoint cannot be called.
    pub fn new(config: &Config) -> Result<Self, String> {
        let open = |kitchen: &Kitchen| -> Result<Open, String> {
            let endpoint = kitchen.webhook.as_ref();
            let endpoint = endpoint.map(|webhook| {
                Endpoint::new(webhook).map(|endpoint| (webhook.calling.clone(), endpoint))
            });
            let figures = Arc::<Figures>::default();
            let (inlet, outlet) = queue::open(&kitchen.settings, Arc::clone(&figures));
            Ok(Open {
                keys: kitchen.keys.clone(),
                settings: kitchen.settings.clone(),
                endpoint: endpoint.transpose()?,
                inlet: Arc::new(inlet),
                outlet,
                figures,
            })
        };
        let kitchens = config.kitchens.iter();
        let kitchens = kitchens.map(|(name, kitchen)| Ok((name.clone(), open(kitchen)?)));
        Ok(Self {
            kitchens: kitchens.collect::<Result<_, String>>()?,
        })
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

    /// Serves workers and callers of the server API, and calls endpoints, in the runtime that this is called in.
    pub fn serve(
        self,
        listener: Option<Listener>,
        served: Served,
        shards: &Arc<dyn ToShards>,
        api: Arc<Api>,
        tracer: Option<&Arc<dyn Tracer>>,
    ) {
        let mut desks = BTreeMap::new();
        for (name, open) in self.kitchens {
            let room = Arc::<Notify>::default();
            let (desk, letters) = Desk::new(open.keys, Arc::clone(&room));
            let settings = Settings {
                shards: shards.shards(),
                ..open.settings
            };
            let (backend, caller) = match open.endpoint {
                None => (Backend::new(settings), None),
                Some((calling, endpoint)) => {
                    let caller = Caller::new(
                        name.clone(),
                        endpoint,
                        desk.letters.clone(),
                        tracer.cloned(),
                    );
                    (Backend::calling(settings, calling), Some(caller))
                }
            };
            if caller.is_none() {
                desks.insert(name, desk);
            }
            let inlet = open.inlet;
            let driver = Driver::new(
                backend,
                caller,
                served.clone(),
                inlet,
                open.figures,
                Arc::clone(shards),
                tracer.cloned(),
            );
            tokio::spawn(driver.run(open.outlet, letters, room));
        }
        if let Some(listener) = listener {
            let workers = Workers::new(desks);
            let serving = service::serve(listener.open(), workers, grpc::Service(api));
            tokio::spawn(serving);
        }
    }
}
