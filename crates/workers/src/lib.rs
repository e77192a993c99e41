//! Logic outside, on this side: the listener where workers attach, and for each backend a task that owns its state. Shards send their news by a
//! queue and get back what they are to do through their mailboxes.

mod accept;
mod caller;
mod conn;
mod driver;
mod figures;
mod glance;
mod host;
mod intake;
mod large;
mod letter;
mod link;
mod lodger;
mod manners;
mod pipe;
mod queue;
mod restoring;
mod service;
mod shards;
mod standstill;
mod state;
mod webhook;
mod windows;
mod wishes;

pub use accept::{Listener, Secured, Socket};
use backend::{Backend, Calling, Settings};
use caller::Caller;
use driver::Driver;
pub use figures::Figures;
pub use glance::Seen;
pub use host::{Facts, Host};
use identity::keys::{ApiKeys, Keyring};
pub use intake::{GROWTH_BYTES, MESSAGE_BYTES_MAX, ROOM_BYTES};
pub use large::{Kept, Larder};
pub use lodger::{Lodger, Next, Signs};
pub use manners::manners;
use process::health::Readiness;
use process::vitals::Pulse;
use queue::Inlet;
use rules::{Line, Tracer};
use service::Workers;
pub use shards::{Served, ToShards};
use standstill::Orders;
pub use standstill::{Drivers, Gone, HeldCalls, Still};
pub use state::Turns;
use state::{Core, Desk};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use webhook::Endpoint;
use webhook::Signer;
pub use webhook::Webhook;
pub use windows::Windows;
use wishes::Wishes;

/// `[backends]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Connections of workers.
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

/// What backends and the gateway know each other by, now.
#[derive(Debug, Default)]
pub struct Credentials(BTreeMap<String, Credential>);

#[derive(Debug)]
enum Credential {
    OfWorkers(Keyring),
    OfCalls(Signer),
}

impl Credentials {
    /// Takes those of a later configuration, but of no backend that is new, gone, or of the other kind there: such a one stays what it
    /// is until a restart, and its callers with it.
    pub fn set(&self, kitchens: &BTreeMap<String, Kitchen>) {
        for (name, credential) in &self.0 {
            let Some(kitchen) = kitchens.get(name) else {
                continue;
            };
            match (credential, &kitchen.webhook) {
                (Credential::OfWorkers(keys), None) => keys.set(kitchen.keys.clone()),
                (Credential::OfCalls(signer), Some(webhook)) => signer.set(&webhook.secrets),
                _ => {}
            }
        }
    }
}

/// Backends that shards can talk to and that nobody serves yet.
pub struct Backends {
    kitchens: BTreeMap<String, Open>,
    drivers: Drivers,
}

struct Open {
    keys: Keyring,
    settings: Settings,
    endpoint: Option<(Calling, Endpoint)>,
    inlet: Arc<Inlet>,
    outlet: queue::Outlet,
    figures: Arc<Figures>,
    /// Tells its driver to stand still.
    holds: UnboundedReceiver<Orders>,
    /// As the process before this one knew it.
    restored: Option<Backend>,
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
        let mut drivers = Drivers::default();
        let mut open = |name: &String, kitchen: &Kitchen| -> Result<Open, String> {
            let endpoint = kitchen.webhook.as_ref();
            let endpoint = endpoint.map(|webhook| {
                Endpoint::new(webhook).map(|endpoint| (webhook.calling.clone(), endpoint))
            });
            let figures = Arc::<Figures>::default();
            let (inlet, outlet) = queue::open(&kitchen.settings, Arc::clone(&figures));
            Ok(Open {
                keys: Keyring::new(kitchen.keys.clone()),
                settings: kitchen.settings.clone(),
                endpoint: endpoint.transpose()?,
                inlet: Arc::new(inlet),
                outlet,
                figures,
                holds: drivers.door(name.clone()),
                restored: None,
            })
        };
        let kitchens = config.kitchens.iter();
        let kitchens = kitchens.map(|(name, kitchen)| Ok((name.clone(), open(name, kitchen)?)));
        Ok(Self {
            kitchens: kitchens.collect::<Result<_, String>>()?,
            drivers,
        })
    }

    /// For one who hands over what they know.
    pub fn drivers(&self) -> Drivers {
        self.drivers.clone()
    }

    /// What shards send their news by.
    pub fn lines(&self) -> BTreeMap<String, Arc<dyn Line>> {
        let lines = self.kitchens.iter();
        lines
            .map(|(name, open)| (name.clone(), Arc::clone(&open.inlet) as Arc<dyn Line>))
            .collect()
    }

    /// Their keys and secrets, which may change while they are served.
    pub fn credentials(&self) -> Credentials {
        let own = |open: &Open| match &open.endpoint {
            None => Credential::OfWorkers(open.keys.clone()),
            Some((_, endpoint)) => Credential::OfCalls(endpoint.signer()),
        };
        let all = self.kitchens.iter();
        Credentials(all.map(|(name, open)| (name.clone(), own(open))).collect())
    }

    /// The sources of metrics.
    pub fn figures(&self) -> BTreeMap<String, Arc<Figures>> {
        let all = self.kitchens.iter();
        all.map(|(name, open)| (name.clone(), Arc::clone(&open.figures)))
            .collect()
    }

    /// Calls endpoints in the runtime that this is called in. Serves workers and callers of the server API on a thread of its own, but
    /// for what shards do themselves.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn serve(
        self,
        listener: Option<Listener>,
        served: Served,
        shards: &Arc<dyn ToShards>,
        larder: Arc<dyn Larder>,
        tracer: Option<&Arc<dyn Tracer>>,
        host: Host,
    ) -> io::Result<()> {
        let mut desks = BTreeMap::new();
        let mut drivers = Vec::new();
        let mut windows = BTreeMap::new();
        let mut cores = Vec::new();
        for (name, open) in self.kitchens {
            let room = Arc::<Notify>::default();
            let (mut desk, letters) = Desk::new(open.keys, Arc::clone(&room));
            windows.insert(name.clone(), desk.letters.clone());
            let settings = Settings {
                shards: shards.shards(),
                ..open.settings
            };
            let (backend, caller) = match open.endpoint {
                None => (
                    open.restored.unwrap_or_else(|| Backend::new(settings)),
                    None,
                ),
                Some((calling, endpoint)) => {
                    let figures = Arc::clone(&open.figures);
                    let (letters, vitals) = (desk.letters.clone(), host.vitals.clone());
                    let (who, ways) = (name.clone(), (letters, self.drivers.calls()));
                    let caller = Caller::new(who, endpoint, ways, tracer.cloned(), figures, vitals);
                    let restored = open.restored;
                    let backend = restored.unwrap_or_else(|| Backend::calling(settings, calling));
                    (backend, Some(caller))
                }
            };
            let is_called = caller.is_some();
            let driver = Driver::new(
                (name.clone(), backend),
                caller,
                served.clone(),
                Arc::clone(&open.inlet),
                Wishes::new(name.clone()),
                Arc::clone(shards),
                tracer.cloned(),
            );
            let ends = (open.outlet, Arc::clone(open.inlet.bell()));
            let core = Arc::new(Core::new(driver, ends, Arc::clone(shards), !is_called));
            cores.push(Arc::clone(&core));
            if !is_called {
                desk.core = Some(Arc::clone(&core));
                desks.insert(name, desk);
            }
            let pulse = host.vitals.pulse("the driver of a backend");
            let live = core.live(letters, open.holds, room);
            let run = missed(live, pulse, self.drivers.gone());
            match is_called {
                true => drop(tokio::spawn(run)),
                false => drivers.push(run),
            }
        }
        host.facts.turns.set(cores);
        // Nobody else sets it.
        let _ = host.facts.windows.set(Windows::new(windows));
        let pulse = host.vitals.pulse("the thread for workers");
        let ends = (host.readiness.clone(), self.drivers.gone());
        let workers = Workers::new(desks, host, larder);
        let served = listener.map(|listener| (listener, workers));
        start_thread(drivers, served, pulse, ends)
    }
}

/// The end of a driver is missed, unless another process goes on with what it knew.
async fn missed(run: impl Future<Output = ()>, pulse: Pulse, gone: Gone) {
    run.await;
    match gone.is_so() {
        true => pulse.rest(),
        false => drop(pulse),
    }
}

type Listening = (Listener, Workers);

/// Callers of the server API get their answers for so long when another process serves. Then their connections end: on a new one they find it.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// Where workers are served, until the process ends or its shards have: a worker with other gateways would wait for answers of this one.
fn start_thread<D>(
    drivers: Vec<D>,
    listening: Option<Listening>,
    pulse: Pulse,
    (readiness, mut gone): (Readiness, Gone),
) -> io::Result<()>
where
    D: Future<Output = ()> + Send + 'static,
{
    if drivers.is_empty() && listening.is_none() {
        pulse.rest();
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let live = async move {
        for driver in drivers {
            tokio::spawn(driver);
        }
        if let Some((listener, workers)) = listening {
            // It ends when it cannot go on.
            return accept::serve(listener, workers).await;
        }
        std::future::pending::<()>().await;
    };
    let thread = std::thread::Builder::new().name("workers".to_owned());
    let thread = thread.spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = live => drop(pulse),
                () = readiness.drained() => pulse.rest(),
                () = gone.happens() => {
                    pulse.rest();
                    tokio::time::sleep(LAST_ANSWERS).await;
                }
            }
        });
    });
    thread.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use backend::proto::Manners;
    use hub::Keeping;
    use hub::config::Recovery;
    use rules::{Large, Message, Word};
    use std::time::Instant;

    /// Shards whose mailboxes have a bug.
    struct Broken;

    impl ToShards for Broken {
        fn shards(&self) -> u16 {
            1
        }

        fn send(&self, _: u16, _: Word) {}

        fn keeping(&self) -> Arc<Keeping> {
            Arc::default()
        }

        fn shard_of(&self, _: &str) -> Option<u16> {
            None
        }

        fn are_behind(&self) -> bool {
            panic!("a bug");
        }
    }

    impl Larder for Broken {
        fn is_needless(&self) -> bool {
            true
        }

        fn treatment(&self, _: &str) -> Large {
            Large::Through
        }

        fn keep<'a>(&'a self, _: &'a str, _: &'a Message) -> Kept<'a> {
            Box::pin(async { None })
        }
    }

    /// Its workers stayed attached, its clients waited for answers, and nobody heard of it.
    #[test]
    fn a_backend_whose_driver_had_a_bug_was_silent_for_ever() {
        let kitchen = Kitchen {
            keys: ApiKeys::default(),
            settings: Settings::default(),
            webhook: None,
        };
        let config = Config {
            conns_max: 1,
            kitchens: [("kitchen".to_owned(), kitchen)].into(),
        };
        let host = Host::default();
        let vitals = host.vitals.clone();
        let served = Served {
            node: 1,
            manners: Manners::default(),
            recovery: Recovery::default(),
        };
        let shards: Arc<dyn ToShards> = Arc::new(Broken);
        let backends = Backends::new(&config).expect("backends");
        let opened = backends.serve(None, served, &shards, Arc::new(Broken), None, host);
        opened.expect("a thread");
        let deadline = Instant::now() + Duration::from_secs(20);
        while vitals.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(vitals.ended(), Some("the driver of a backend"));
    }
}
