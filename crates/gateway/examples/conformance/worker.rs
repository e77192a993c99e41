//! `--worker`: a worker serves the namespaces, as `sdk/node/examples/conformance-worker.mjs` does. Nothing of them is in this process.

use anyhow::{Context as _, anyhow};
use backend::proto::NodeGone;
use backend::{Settings, Up};
use control::api::{self, Api};
use hub::config::Rate;
use hub::{
    Collected, ConnectRequest, Context, Data, Decision, DisconnectReason, Event, Found, Handler,
    HandlerFactory, Keeping, Place, Places, ServerEvent, SessionKey, SocketKey,
};
use identity::keys::{ApiKeys, Keyring};
use nodes::Gone;
use process::health::Readiness;
use rules::{Action, Errand, EventRule, NamespaceRules, Rules, RulesFactory, Word};
use shard::{Shards, ToHandlers};
use std::any::Any;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use workers::{Backends, Config, Drivers, Host, Kitchen, Listener, Served, ToShards, manners};

const BACKEND: &str = "conformance";
/// Of the key `sockeye-conformance`, which is no secret: the listener is for programs on this machine.
const KEY: &str = "worker:eff7cc65a0796225a01bc1713fa057371f9585f61cab3a652c442e90d636066f";
const SOCKET_BYTES_MAX: usize = 16 << 20;
/// Workers are few here.
const CONNS_MAX: usize = 64;

/// Where the worker attaches.
pub(crate) struct Counter {
    listener: TcpListener,
    backends: Backends,
}

impl Counter {
    pub(crate) fn open(address: SocketAddr) -> anyhow::Result<Self> {
        anyhow::ensure!(
            address.ip().is_loopback(),
            "cannot listen on {address} (--worker): its key is known to everybody, give an address of the loopback"
        );
        let listener = TcpListener::bind(address)
            .with_context(|| format!("cannot listen on {address} (--worker)"))?;
        listener.set_nonblocking(true)?;
        let keys = ApiKeys::parse(&[KEY.to_owned()]).map_err(|why| anyhow!(why))?;
        let kitchen = Kitchen {
            keys,
            // The suites send bursts, and large messages in a row: none is refused because others wait.
            settings: Settings {
                socket_bytes_max: SOCKET_BYTES_MAX,
                ..Settings::default()
            },
            webhook: None,
        };
        let backends = Backends::new(&Config {
            conns_max: CONNS_MAX,
            kitchens: [(BACKEND.to_owned(), kitchen)].into(),
        });
        let backends = backends.map_err(|why| anyhow!(why))?;
        Ok(Self { listener, backends })
    }

    /// All namespaces are the worker's, which refuses those that it does not know.
    pub(crate) fn applications(&self) -> anyhow::Result<Applications> {
        let all = NamespaceRules {
            backend: Some(BACKEND.to_owned()),
            ..NamespaceRules::new(EventRule::new(Action::Backend))
        };
        let rules = Rules {
            namespaces: [("*".to_owned(), all)].into(),
        };
        let no_schemas = |_: &str| Err("there are no schemas here".to_owned());
        let rules = RulesFactory::with_backends(&rules, &no_schemas, &self.backends.lines());
        Ok(Applications(rules.map_err(|why| anyhow!(why))?))
    }

    /// Tells the worker of nodes that are gone.
    pub(crate) fn nodes_gone(&self) -> Gone {
        let lines = self.backends.lines();
        Box::new(move |node, life| {
            for line in lines.values() {
                let node = u32::from(node);
                line.up(Up::NodeGone(NodeGone { node, life }));
            }
        })
    }

    /// Begins to serve, in the runtime that this is called in; returns the address.
    pub(crate) fn serve(
        self,
        node: u16,
        config: &hub::config::Config,
        shards: &Shards,
        places: &Arc<Places>,
    ) -> anyhow::Result<SocketAddr> {
        let address = self.listener.local_addr()?;
        let served = Served {
            node,
            manners: manners(config),
            recovery: config.recovery.clone(),
        };
        let nobody = api::Settings {
            past: api::Past::default(),
            keys: Keyring::default(),
            rate: Rate::new(1, Duration::from_secs(1)),
            room_name_bytes_max: config.limits.room_name_bytes_max,
            namespaces: None,
            large: control::bodies::Namespaces::new(),
            bodies: None,
            history: None,
            chronicle: None,
            keeping: std::sync::Arc::default(),
            audit: std::sync::Arc::default(),
            ledger: None,
            readiness: Readiness::default(),
        };
        let api = Arc::new(Api::new(nobody, Box::new(Errands(shards.to_handlers()))));
        let listener = Listener {
            socket: workers::Socket::Tcp(self.listener),
            secured: None,
            conns_max: CONNS_MAX,
            places: Arc::clone(places),
            gone: Drivers::default().gone(),
            api: api::routes(Arc::clone(&api)),
        };
        let ways: Arc<dyn ToShards> = Arc::new(Ways {
            to: shards.to_handlers(),
            limits: config.limits.clone(),
        });
        self.backends
            .serve(Some(listener), served, &ways, api, None, Host::default())?;
        Ok(address)
    }
}

struct Errands(ToHandlers);

impl rules::ToShards for Errands {
    fn send(&self, errand: Errand) {
        let bytes = errand.bytes();
        self.0.send(0, Box::new(errand), bytes);
    }
}

struct Ways {
    to: ToHandlers,
    limits: hub::limits::Limits,
}

impl ToShards for Ways {
    fn shards(&self) -> u16 {
        self.to.shards()
    }

    fn send(&self, by: u16, word: Word) {
        let bytes = word.bytes();
        self.to.send(by, Box::new(word), bytes);
    }

    fn keeping(&self) -> Arc<Keeping> {
        Arc::default()
    }

    fn shard_of(&self, socket: &str) -> Option<u16> {
        Place::of_socket(socket).map(|place| place.shard)
    }

    fn are_behind(&self) -> bool {
        self.to.are_behind(&self.limits)
    }
}

/// The gateway's own handler, and an echo for sessions without Socket.IO, which no worker hears of.
pub(crate) struct Applications(RulesFactory);

impl HandlerFactory for Applications {
    fn build(&self, shard: u16) -> Box<dyn Handler> {
        Box::new(Application(self.0.build(shard)))
    }
}

struct Application(Box<dyn Handler>);

impl Handler for Application {
    fn reads_requests(&self) -> bool {
        self.0.reads_requests()
    }

    fn connecting(&mut self, cx: &mut Context<'_>, request: &ConnectRequest<'_>) -> Decision {
        self.0.connecting(cx, request)
    }

    fn connected(&mut self, cx: &mut Context<'_>, socket: SocketKey, auth: &str) {
        self.0.connected(cx, socket, auth);
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        self.0.event(cx, socket, event);
    }

    fn disconnecting(&mut self, cx: &mut Context<'_>, socket: SocketKey, why: DisconnectReason) {
        self.0.disconnecting(cx, socket, why);
    }

    fn acked(
        &mut self,
        cx: &mut Context<'_>,
        socket: SocketKey,
        token: u64,
        args: &str,
        bin: &[Vec<u8>],
    ) {
        self.0.acked(cx, socket, token, args, bin);
    }

    fn ack_timed_out(&mut self, cx: &mut Context<'_>, socket: SocketKey, token: u64) {
        self.0.ack_timed_out(cx, socket, token);
    }

    fn collected(&mut self, cx: &mut Context<'_>, token: u64, collected: Collected) {
        self.0.collected(cx, token, collected);
    }

    fn found(&mut self, cx: &mut Context<'_>, token: u64, found: Found) {
        self.0.found(cx, token, found);
    }

    fn server_event(&mut self, cx: &mut Context<'_>, event: ServerEvent<'_>) {
        self.0.server_event(cx, event);
    }

    fn outside(&mut self, cx: &mut Context<'_>, word: Box<dyn Any + Send>) {
        self.0.outside(cx, word);
    }

    fn message(&mut self, cx: &mut Context<'_>, session: SessionKey, data: Data<'_>) {
        cx.send(session, data);
    }
}
