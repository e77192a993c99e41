//! From a resolved configuration to a running node, and from a signal to its end.

use crate::bodies;
use crate::bridges;
use crate::carrier;
use crate::certificates::Certificates;
use crate::chronicle;
use crate::cluster;
use crate::config::show::InForce;
use crate::config::{self, Loaded, Request, Resolved};
use crate::credentials::Credentials;
use crate::departures;
use crate::descriptors;
use crate::errands::Errands;
use crate::foyer::Foyer;
use crate::greeting;
use crate::history;
use crate::inside::Seen;
use crate::joining::{join_cluster, namespaces};
use crate::memory;
use crate::opened::{Opened, Sockets};
use crate::operators;
use crate::outside::{Desks, Link, TokenDesk};
use crate::programs;
use crate::relay;
use crate::signals::{self, Wish};
use crate::telemetry::Telemetry;
use crate::tls::Rotation;
use crate::traces;
use crate::unix::SocketFiles;
use crate::upgrade::{self, Host};
use crate::workers::Counter;
use anyhow::{Context, Result, bail};
use control::metrics::detection::Detection;
use control::metrics::node::{Bounds, Node as Facts};
use control::page::{PageConfig, Pages};
use hub::Places;
use identity::Verifier;
use nodes::relay::Relays;
use nodes::{Ended, Gone, Member, Order};
use process::moving::Pace;
use rules::{PayloadCheck, RulesFactory, Tracer};
use shard::{Settings, Shards};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use workers::Socket;

/// How often the main thread looks for wishes; it has nothing else to do.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// Threads of the control plane: it answers operators and page loads, nothing hot.
const CONTROL_THREADS: usize = 2;
/// Connections beyond the bound, for sessions that exist and for health checks.
const CONNS_RESERVE: usize = 48;
/// What is still being answered to browsers when all else has ended.
const PAGES_TIMEOUT: Duration = Duration::from_secs(1);
/// Behind an upgrade, connections for sessions of other nodes end by themselves within this time, if they are polls.
const RELAYED_GRACE: Duration = Duration::from_secs(30);
/// How long backends have for the last news, and how it is seen that they have them.
const LAST_NEWS: Duration = Duration::from_secs(2);
const QUIET_LOOK: Duration = Duration::from_millis(30);
const QUIET_LOOKS: u32 = 3;
/// Who says it so often does not want to wait for clients. The first of them may come in the middle of an operator's drain.
const STOPS_IN_A_HURRY: usize = 2;

/// Opens everything and begins to serve; `None`: it was told to stop before.
pub fn start<'a>(
    request: &'a Request,
    loaded: Loaded,
    telemetry: &'a Telemetry,
) -> Result<Option<Node<'a>>> {
    prepare(&loaded.doubts);
    let config = &loaded.resolved;
    let mut opened = Opened::begin(config, request.takes_over)?;
    let runtime = control_runtime()?;
    let context = runtime.enter();
    let wishes = signals::listen().context("cannot listen for signals")?;
    let facts = facts(telemetry);
    let verifier = start_verifier(config)?;
    let certificates = Certificates::start(config, &facts)?;
    let mut workers = open_counter(config, &certificates, opened.workers.take())?;
    let credentials = Credentials::start(config, workers.as_ref());
    let places = places(config);
    let comes = (&mut opened, certificates.of_clients());
    let joined = join_cluster(&loaded, comes, &runtime, (&facts, &places), &wishes)?;
    let Some((mut member, door, foyer)) = joined else {
        return Ok(None);
    };
    start_stores(config, &facts, &runtime, request.takes_over)?;
    let relays = start_relays(config, member.as_ref(), &runtime, &places, &facts)?;
    let (rules, tracer) = make_rules(config, workers.as_ref(), &facts)?;
    let certified = certificates.of_clients();
    let entrance = Entrance(opened.sockets(), Arc::clone(&places), certified);
    let desks = desks(&runtime, verifier.as_ref(), relays.as_ref(), &facts);
    let others = (member.as_ref(), foyer.as_ref());
    let mut shards = start_shards(config, others, &rules, entrance, &facts, desks)?;
    chronicle::start(config, &shards, &facts, request.takes_over)?;
    let goes = (workers.as_mut(), member.as_mut(), &*facts);
    let front = opened.finish(config, &mut shards, goes)?;
    let (node, gone) = (member.as_mut(), workers.as_ref());
    open_to_others(config, node, &shards, &runtime, &facts, gone)?;
    let number = node_number(config, member.as_ref());
    let seen = Seen::open(number, &shards, relays.as_ref(), &facts);
    relay::open(relays.as_ref(), door, (&shards, &seen.desk), &runtime)?;
    note(&facts, &shards, &rules, verifier.as_ref());
    carrier::start(config, request.takes_over, certified, &shards, &facts)?;
    let nodes = departures::nodes(config, number, member.as_ref(), &shards, &facts);
    let room = (&shards, &rules, &places, member.as_ref());
    let (api, gate) = operators::gate(config, &credentials, nodes, room, &facts)?;
    // Operators find the node itself from now on.
    foyer.into_iter().for_each(Foyer::close);
    let settings = Arc::new(InForce::new(request, &loaded));
    let service = operators::serve(&runtime, front, (&shards, &settings, seen), &facts, gate);
    let serve = |all: Counter| all.serve(config, number, &shards, &facts, (&api, &places), tracer);
    let workers = workers.map(serve).transpose()?.flatten();
    greeting::say(&loaded, number, &shards, service.addr, workers);
    let host = opened.host(config, &shards, &facts, service)?;
    drop(context);
    Ok(Some(Node {
        request,
        loaded,
        settings,
        telemetry,
        facts,
        shards,
        member,
        relays,
        verifier,
        certificates,
        credentials,
        wishes,
        runtime,
        socket_files: opened.files,
        host,
    }))
}

/// Of large events, of history, and the bridges.
fn start_stores(
    config: &Resolved,
    facts: &Facts,
    runtime: &Runtime,
    takes_over: bool,
) -> Result<()> {
    bodies::start(config, facts)?;
    bridges::start(config, facts)?;
    history::start(config, facts, runtime, takes_over)
}

/// For the connections of clients.
fn places(config: &Resolved) -> Arc<Places> {
    let descriptors = bodies::descriptors(config, descriptors::limit());
    Arc::new(Places::new(descriptors::for_clients(descriptors)))
}

/// Doubts are told, and the process takes all descriptors that it may have.
fn prepare(doubts: &[String]) {
    descriptors::raise_limit();
    for doubt in doubts {
        tracing::warn!("{doubt}");
    }
}

fn facts(telemetry: &Telemetry) -> Arc<Facts> {
    Arc::new(Facts {
        log: telemetry.loss(),
        ..Facts::default()
    })
}

fn control_runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(CONTROL_THREADS)
        .thread_name("control")
        .enable_all();
    builder.build().context("cannot start the control plane")
}

fn node_number(config: &Resolved, member: Option<&Member>) -> u16 {
    member.map_or(config.server.node.unwrap_or_default(), Member::number)
}

fn open_counter(
    config: &Resolved,
    certificates: &Certificates,
    listener: Option<Socket>,
) -> Result<Option<Counter>> {
    let secured = certificates.of_workers();
    let backends = config.backends.as_ref();
    let open = |backends| Counter::open(backends, secured, listener);
    backends.map(open).transpose()
}

fn start_relays(
    config: &Resolved,
    member: Option<&Member>,
    runtime: &Runtime,
    places: &Arc<Places>,
    facts: &Facts,
) -> Result<Option<Relays>> {
    let Some((cluster, member)) = config.cluster.as_ref().zip(member) else {
        return Ok(None);
    };
    relay::relays(cluster, member, runtime, places, facts)
}

/// From now on nodes and servers of other kinds reach the shards.
fn open_to_others(
    config: &Resolved,
    member: Option<&mut Member>,
    shards: &Shards,
    runtime: &Runtime,
    facts: &Facts,
    workers: Option<&Counter>,
) -> Result<()> {
    let Some((cluster, member)) = config.cluster.as_ref().zip(member) else {
        return Ok(());
    };
    let gone = workers.map_or_else(|| Box::new(|_, _| {}) as Gone, Counter::nodes_gone);
    let limits = &config.hub.limits;
    let names = namespaces(config);
    let ear = cluster::hear_others(cluster, names, member, (shards, limits), runtime, facts)?;
    cluster::open(member, shards, limits, &facts.readiness, ear, gone);
    programs::serve(cluster, member, (shards, config), runtime, facts)?;
    Ok(())
}

fn start_verifier(config: &Resolved) -> Result<Option<Arc<Verifier>>> {
    let settings = config.auth.verifier.clone();
    let verifier = settings.map(Verifier::new).transpose();
    verifier.context("cannot check tokens")
}

fn desks(
    runtime: &Runtime,
    verifier: Option<&Arc<Verifier>>,
    relays: Option<&Relays>,
    facts: &Facts,
) -> Desks {
    Desks {
        tokens: token_desk(runtime, verifier),
        relays: relays.cloned(),
        history: facts.history.get().cloned(),
        bridges: Arc::clone(&facts.bridges),
        turns: Arc::clone(&facts.workers.turns),
    }
}

fn token_desk(runtime: &Runtime, verifier: Option<&Arc<Verifier>>) -> Option<TokenDesk> {
    verifier.map(|verifier| TokenDesk {
        runtime: runtime.handle().clone(),
        verifier: Arc::clone(verifier),
    })
}

fn make_rules(
    config: &Resolved,
    workers: Option<&Counter>,
    facts: &Facts,
) -> Result<(RulesFactory, Option<Arc<dyn Tracer>>)> {
    let compile = |text: &str| {
        let schema = control::schema::compile(text)?;
        Ok(Arc::new(schema) as Arc<dyn PayloadCheck>)
    };
    let lines = workers.map(Counter::lines).unwrap_or_default();
    let rules = RulesFactory::with_backends(&config.rules, &compile, &lines);
    let rules = rules.map_err(anyhow::Error::msg)?.with_large(&config.large);
    let tracer = traces::start(config, facts)?;
    let rules = match &tracer {
        Some(tracer) => rules.traced(Arc::clone(tracer)),
        None => rules,
    };
    Ok((bridges::record(rules, facts), tracer))
}

fn pages(config: &Resolved, facts: &Arc<Facts>, places: &Arc<Places>) -> Pages {
    let pages = Pages::new(
        PageConfig {
            chat_page: config.server.chat_page,
            doors: greeting::doors(&config.hub),
            serve_client: config.serve_client,
            socketio_path: config.hub.socketio_path.clone(),
            cors: config.hub.cors.clone(),
        },
        facts.readiness.clone(),
        places,
    );
    let pages = match config.page_rate {
        Some(rate) => pages.limited(rate, Arc::clone(facts)),
        None => pages,
    };
    pages.with_bodies(facts.bodies.get().cloned())
}

/// How clients come in, beside the addresses of the configuration: Unix sockets, places, certificates.
struct Entrance<'a>(Sockets, Arc<Places>, Option<&'a Rotation>);

fn start_shards(
    config: &Resolved,
    (member, foyer): (Option<&Member>, Option<&Foyer>),
    rules: &RulesFactory,
    Entrance((inherited, unix, onset), places, certificates): Entrance<'_>,
    facts: &Arc<Facts>,
    desks: Desks,
) -> Result<Shards> {
    let pages = pages(config, facts, &places);
    let descriptors = bodies::descriptors(config, descriptors::limit());
    let for_clients = descriptors::for_clients(descriptors);
    let conns_max = config.hub.limits.conns_max.min(for_clients);
    // Nobody else sets it.
    let _ = facts.bounds.set(Bounds {
        connections: conns_max as u64,
        memory_bytes: memory::limit(config.memory_max),
    });
    let _ = facts.detection.set(Detection::of(&config.hub));
    let secure = config.tls.iter().flat_map(|tls| tls.listen.clone());
    let (listen, secure) = match foyer {
        Some(foyer) => foyer.addrs(),
        None => (config.server.listen.clone(), secure.collect()),
    };
    let settings = Settings {
        listen,
        takes_over: foyer.is_some(),
        inherited,
        onset,
        unix,
        shards: config.server.shards,
        node: node_number(config, member),
        uplink: member.map(|member| Arc::clone(member.uplink())),
        outlets: programs::outlets(config, facts),
        hub: config.hub.clone(),
        pin: config.server.pin,
        conns_max,
        conns_reserve: CONNS_RESERVE.min((descriptors - for_clients) / 2),
        places,
        tls: config
            .tls
            .as_ref()
            .zip(certificates)
            .map(|(_, files)| shard::Tls {
                listen: secure,
                config: files.config(),
            }),
    };
    let parcels = member.map(Member::parcels);
    let link = Link::start(
        pages,
        desks,
        parcels,
        config.log.connections,
        Arc::clone(&facts.log),
    )?;
    shard::start(settings, rules, Arc::new(link)).context("cannot start the data plane")
}

/// What the exporter reads, which nobody else sets; and uploads reach the shards from now on.
fn note(facts: &Facts, shards: &Shards, rules: &RulesFactory, verifier: Option<&Arc<Verifier>>) {
    bodies::open(facts, rules, Errands::of(shards), verifier);
    let _ = facts.addresses.set(Arc::clone(&shards.process().addresses));
    if let Some(verifier) = verifier {
        let _ = facts.verifier.set(Arc::clone(verifier));
    }
}

/// A node that runs.
#[derive(Debug)]
pub struct Node<'a> {
    request: &'a Request,
    loaded: Loaded,
    /// The same, for operators who look at it.
    settings: Arc<InForce>,
    telemetry: &'a Telemetry,
    facts: Arc<Facts>,
    shards: Shards,
    member: Option<Member>,
    relays: Option<Relays>,
    verifier: Option<Arc<Verifier>>,
    certificates: Certificates,
    credentials: Credentials,
    wishes: Receiver<Wish>,
    runtime: Runtime,
    socket_files: SocketFiles,
    /// Where another process finds this one, to take over from it.
    host: Option<Host>,
}

/// What becomes of a process whose clients are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Stays,
    /// It was told to, or another process serves.
    Ends,
}

impl Left {
    fn after(stops: usize) -> Self {
        match stops {
            0 => Self::Stays,
            _ => Self::Ends,
        }
    }
}

impl Node<'_> {
    /// Serves until asked to stop (`Ok`) or until something is beyond repair.
    pub fn run(mut self) -> Result<()> {
        let ended = self.serve();
        carrier::close(&self.loaded.resolved, &self.facts);
        // Whatever it ended for: another process may have taken over in the last moment.
        self.let_files_go();
        if ended.is_ok() {
            self.tell_of_the_last();
        }
        // The last messages of clients that were told to go have left their shards by now.
        chronicle::close(&self.facts, &self.runtime);
        history::close(&self.facts, &self.runtime);
        bridges::close(&self.facts, &self.runtime);
        if let Some(member) = &mut self.member {
            member.leave();
        }
        self.runtime.shutdown_timeout(PAGES_TIMEOUT);
        ended
    }

    /// Backends hear of the sockets that ended last, as far as they take it.
    fn tell_of_the_last(&self) {
        let Some(backends) = self.facts.backends.get() else {
            return;
        };
        let deadline = Instant::now() + LAST_NEWS;
        let mut quiet = 0;
        while quiet < QUIET_LOOKS && Instant::now() < deadline {
            std::thread::sleep(QUIET_LOOK);
            let all_quiet = backends.values().all(|figures| figures.are_quiet());
            quiet = if all_quiet { quiet + 1 } else { 0 };
        }
        for (backend, figures) in backends {
            let bytes = figures.untold_bytes();
            if bytes > 0 {
                tracing::warn!(
                    backend,
                    bytes,
                    "what waited for this backend is lost: its endpoint or its workers have not taken it in time"
                );
            }
        }
    }

    fn serve(&mut self) -> Result<()> {
        let memory_max = memory::limit(self.loaded.resolved.memory_max);
        let bounds = &self.loaded.resolved.hub.admission;
        let bounds = [bounds.memory_percent_max, bounds.memory_percent_shed];
        let bound = bounds.into_iter().filter(|bound| *bound > 0).min();
        let bound = bound.unwrap_or(u8::MAX);
        let mut kept = memory::Kept::default();
        loop {
            if let Some(ended) = self.shards.wait_for(LOOK_INTERVAL) {
                if ended.is_ok() && self.has_handed_over() {
                    return self.leave(false);
                }
                return ended.context("cannot go on");
            }
            // Asked first: where another process serves, operators are served there.
            let part = self.facts.vitals.ended();
            if self.host.as_ref().is_some_and(Host::is_gone) {
                return self.leave(false);
            }
            if let Some(part) = part {
                bail!(
                    "cannot go on: {part} has ended, and that is a bug: the lines before this one say more"
                );
            }
            let pressure = &self.shards.process().pressure;
            pressure.set_memory_percent(kept.look(memory_max, bound));
            if self.has_lost_its_number() {
                self.drain(0)?;
                bail!(
                    "another process has this node's number in the cluster, or had it after this one: start it again, with server.node = \"auto\" or another number if this comes back"
                );
            }
            if self.facts.readiness.is_asked_to_drain() {
                return match self.drain(0)? {
                    Left::Stays => self.stay_drained(),
                    Left::Ends => Ok(()),
                };
            }
            match self.wishes.try_recv() {
                Ok(Wish::Stop) => return self.drain(1).map(drop),
                Ok(Wish::Reload) => self.reload(),
                Err(_) => {}
            }
            self.certificates.look(&self.shards);
        }
    }

    /// Shards end when another process has what they had, mostly before that is noted.
    fn has_handed_over(&self) -> bool {
        let host = self.host.as_ref();
        host.is_some_and(|host| {
            host.settle();
            host.is_gone()
        })
    }

    /// Another process serves: those who could not go there have been told to come back, and are waited for.
    /// `hurries`: this process was told to stop.
    fn leave(&mut self, mut hurries: bool) -> Result<()> {
        carrier::stop(&self.facts);
        let grace = self.loaded.resolved.server.drain_grace;
        let (began, mut ended) = (Instant::now(), None);
        // What is relayed to other nodes needs nothing of the cluster.
        while began.elapsed() < grace || ended.is_some() && began.elapsed() < RELAYED_GRACE {
            ended = ended.or_else(|| self.shards.wait_for(LOOK_INTERVAL));
            if ended.is_some() {
                // The next process waits for the port.
                carrier::close(&self.loaded.resolved, &self.facts);
            }
            let relayed = self.relays.as_ref().map_or(0, Relays::open)
                + bodies::open_transfers(&self.facts)
                + self.facts.owed.count() as u64;
            // A supervisor waits for this process before it stops the one that serves.
            hurries |= matches!(self.wishes.try_recv(), Ok(Wish::Stop));
            match ended {
                Some(ended) if relayed == 0 || hurries || ended.is_err() => {
                    tracing::info!(relayed, "stopped: another process serves");
                    return ended.context("cannot drain");
                }
                Some(_) => std::thread::sleep(LOOK_INTERVAL),
                None => {}
            }
        }
        if let Some(relays) = &self.relays {
            relays.drain(Duration::ZERO);
        }
        let connections = self.shards.open_conns();
        tracing::warn!(
            connections,
            "stopped before all connections were closed: another process serves"
        );
        self.shards.stop_within(LOOK_INTERVAL);
        Ok(())
    }

    /// Where another process serves, the files of sockets are its own.
    fn let_files_go(&mut self) {
        if let Some(host) = &mut self.host {
            host.settle();
            if host.is_gone() {
                host.let_go();
                self.socket_files.let_go();
            }
        }
    }

    /// Looks after the membership. A node without its number must stop: its ids are another's now.
    fn has_lost_its_number(&self) -> bool {
        let Some(member) = &self.member else {
            return false;
        };
        self.facts.readiness.set_connected(member.is_up());
        member.has_ended() == Some(Ended::Superseded)
    }

    /// Others read the present state of this node.
    fn tell_others(&self) {
        if let Some(member) = &self.member {
            let _ = member.orders().send(Order::Renew);
        }
    }

    /// An operator sent the clients away: the process stays, so that no supervisor starts another, until it is told to stop.
    fn stay_drained(&mut self) -> Result<()> {
        carrier::close(&self.loaded.resolved, &self.facts);
        if let Some(relays) = &self.relays {
            relays.close();
        }
        self.tell_of_the_last();
        // Its shards answer nothing any more: it would keep its workers waiting, and other nodes.
        self.facts.readiness.set_drained();
        if let Some(member) = &mut self.member {
            member.leave();
        }
        tracing::info!("drained: this node takes no clients until it is started anew");
        loop {
            if matches!(self.wishes.recv_timeout(LOOK_INTERVAL), Ok(Wish::Stop)) {
                return Ok(());
            }
        }
    }

    /// Not ready, no new clients; the others are told, closed over the window, and waited for. `stops`: how often the process was told to
    /// stop so far.
    fn drain(&mut self, mut stops: usize) -> Result<Left> {
        if self.host.as_ref().is_some_and(|host| !host.stop()) {
            return self.leave(stops > 0).map(|()| Left::Ends);
        }
        let server = &self.loaded.resolved.server;
        let (window, grace) = (server.drain_window, server.drain_grace);
        tracing::info!(
            connections = self.shards.open_conns(),
            window_ms = window.as_millis() as u64,
            hurry = greeting::HURRY,
            "draining"
        );
        upgrade::stopping();
        departures::note_drain(&self.shards, &self.facts);
        self.facts.readiness.drain();
        self.tell_others();
        bridges::stop_reading(&self.facts);
        let pace = Pace { window, grace };
        self.shards.drain(window, pace.patience());
        if let Some(relays) = &self.relays {
            relays.drain(window);
        }
        let deadline = Instant::now() + window + grace;
        let mut ended = None;
        loop {
            ended = ended.or_else(|| self.shards.wait_for(LOOK_INTERVAL));
            if ended.is_some() {
                // The next process waits for the port.
                carrier::close(&self.loaded.resolved, &self.facts);
            }
            let relayed = self.relays.as_ref().map_or(0, Relays::open);
            match ended {
                Some(ended) if relayed == 0 || ended.is_err() => {
                    departures::tell_stopped(&self.shards);
                    return ended.context("cannot drain").map(|()| Left::after(stops));
                }
                Some(_) => std::thread::sleep(LOOK_INTERVAL),
                None => {}
            }
            let told = matches!(self.wishes.try_recv(), Ok(Wish::Stop));
            stops += usize::from(told);
            let hurried = stops >= STOPS_IN_A_HURRY;
            if hurried || Instant::now() >= deadline {
                let connections = self.shards.open_conns();
                tracing::warn!(
                    connections,
                    hurried,
                    "stopped before all connections were closed"
                );
                self.shards.stop_within(LOOK_INTERVAL);
                return Ok(Left::after(stops));
            }
        }
    }

    /// Applies what can be applied now and names what can not.
    fn reload(&mut self) {
        let later = match config::load(self.request) {
            Ok(later) => later,
            Err(problems) => {
                for problem in &problems.0 {
                    tracing::error!(%problem, "cannot reload: the old configuration stays");
                }
                self.facts.reloads.failed();
                return;
            }
        };
        let changes = self.loaded.changes(&later);
        self.certificates.apply(&later.resolved, &self.shards);
        self.credentials.apply(&later.resolved);
        self.telemetry.set_level(&later.resolved.log.level);
        let server = &mut self.loaded.resolved.server;
        server.drain_window = later.resolved.server.drain_window;
        server.drain_grace = later.resolved.server.drain_grace;
        departures::note_pace(server, &self.facts);
        self.loaded.adopt_live(&later);
        self.settings.set(&self.loaded);
        if let Some(verifier) = &self.verifier {
            verifier.reload();
        }
        self.facts.reloads.succeeded();
        tracing::info!(
            applied = changes.live.join(","),
            needs_restart = changes.restart.join(","),
            "reloaded"
        );
    }
}
