//! What it means: settings become the types that hub, shard and control take, and are checked
//! against each other. Everything wrong is collected.

mod access;
mod auth;
mod backends;
mod bridges;
mod cluster;
mod history;
mod kafka;
mod kafka_tables;
mod large;
mod nats;
mod relations;
mod scopes;
mod tls;

use super::edges::{self, Listen};
use super::key::Profile;
use super::keys::{LogFormat, Settings};
use super::layer::{Layer, Path, Setting, Source};
use super::problem::Problem;
use super::typed::{Field, NodeNumber};
use super::value::Value;
pub use access::Admin;
pub use auth::Auth;
pub use cluster::{Cluster, Compat, RelayListen};
use hub::config::{Admission, Compression, Cors, PlainRaw, Rates, Transports};
use hub::heartbeat::Stretch;
use hub::trust::{Proxies, ProxyProtocol};
use rules::Rules;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
pub use tls::Tls;

/// Facts of the machine and the build that a configuration depends on.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub hostname: String,
    pub cores: usize,
    /// Folder of the configuration file: relative paths in it start here.
    pub folder: PathBuf,
    /// Whether this build can keep bodies in a bucket.
    pub has_s3: bool,
    /// Whether it has the client of Kafka.
    pub has_kafka: bool,
    /// Whether it has the client of NATS.
    pub has_nats: bool,
    /// Whether it has WebTransport.
    pub has_webtransport: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    pub profile: Profile,
    pub server: Server,
    pub tls: Option<Tls>,
    /// None: this node is alone.
    pub cluster: Option<Cluster>,
    pub hub: hub::config::Config,
    pub rules: Rules,
    pub auth: Auth,
    /// Bytes the process may have, if the operator says so.
    pub memory_max: Option<u64>,
    pub admin: Admin,
    /// Requests for pages that one address may make.
    pub page_rate: Option<control::page::PageRate>,
    pub serve_client: bool,
    pub log: Log,
    pub backends: Option<workers::Config>,
    /// Where workers attach.
    pub workers: Option<Listen>,
    /// None: workers attach without TLS.
    pub workers_tls: Option<crate::tls::Files>,
    pub traces: Option<control::traces::Settings>,
    /// The socket at which operators and successors find the process; none: it hands nothing over.
    pub upgrade: Option<PathBuf>,
    /// The treatment of large events.
    pub large: control::bodies::Namespaces,
    /// None: nothing is kept outside.
    pub bodies: Option<control::bodies::Settings>,
    /// None: no event is stored.
    pub history: Option<control::history::Settings>,
    /// None: nothing goes to Kafka or comes from there.
    pub kafka: Option<control::kafka::Settings>,
    /// None: nothing goes to NATS or comes from there.
    pub nats: Option<control::nats::Settings>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    pub listen: Vec<SocketAddr>,
    pub unix: Vec<PathBuf>,
    /// Permissions of the files of Unix sockets.
    pub unix_mode: u32,
    pub admin: Option<SocketAddr>,
    pub shards: usize,
    pub pin: bool,
    /// None: any that is free in the cluster.
    pub node: Option<u16>,
    pub drain_window: Duration,
    pub drain_grace: Duration,
    pub chat_page: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub level: String,
    pub format: LogFormat,
    /// A line for each client that comes or goes.
    pub connections: bool,
}

/// Makes sense of the merged settings, or says why that can not be done.
pub fn resolve(layer: &Layer, machine: &Machine) -> Result<Resolved, Vec<Problem>> {
    let settings = Settings::read(layer);
    let mut resolver = Resolver {
        settings: &settings,
        layer,
        machine,
        problems: Vec::new(),
    };
    let auth = resolver.auth();
    let server = resolver.server();
    let large = resolver.large();
    let rules = resolver.rules();
    let (workers, backends) = resolver.backends();
    let mut resolved = Resolved {
        profile: *settings.top.profile,
        tls: resolver.tls(&server.listen),
        server,
        cluster: resolver.cluster(),
        hub: hub::config::Config {
            auth: auth.hub.clone(),
            ..resolver.hub()
        },
        history: resolver.history(&rules),
        kafka: resolver.kafka(&rules),
        nats: resolver.nats(&rules),
        rules,
        auth,
        memory_max: settings.admission.memory_max.map(|max| max.0),
        admin: resolver.admin_access(),
        page_rate: resolver.page_rate(),
        serve_client: *settings.origins.serve_client,
        log: resolver.log(),
        workers,
        backends,
        workers_tls: resolver.workers_tls(),
        traces: resolver.traces(),
        upgrade: resolver.upgrade(),
        bodies: resolver.bodies(&large),
        large,
    };
    if let Some(bodies) = &mut resolved.bodies {
        bodies.cors = resolved.hub.cors.clone();
    }
    resolver.relations(&resolved);
    if resolver.problems.is_empty() {
        Ok(resolved)
    } else {
        Err(resolver.problems)
    }
}

struct Resolver<'a> {
    settings: &'a Settings,
    layer: &'a Layer,
    machine: &'a Machine,
    problems: Vec<Problem>,
}

impl Resolver<'_> {
    fn server(&mut self) -> Server {
        let (listen, unix) = self.listen();
        let server = &self.settings.server;
        let mode = &self.settings.proxies.unix_mode;
        let unix_mode = edges::mode(mode);
        Server {
            listen,
            unix,
            unix_mode: unix_mode.unwrap_or_else(|problem| {
                self.problem(mode, problem);
                0
            }),
            admin: self.admin(),
            shards: match server.shards.get() {
                0 => self.machine.cores.max(1),
                shards => shards,
            },
            pin: *server.pin,
            node: self.node(),
            drain_window: *server.drain_window,
            drain_grace: *server.drain_grace,
            chat_page: *server.chat_page,
        }
    }

    /// Addresses and Unix sockets.
    fn listen(&mut self) -> (Vec<SocketAddr>, Vec<PathBuf>) {
        let key = &self.settings.server.listen;
        let (mut addrs, mut unix) = (Vec::new(), Vec::new());
        for text in key.iter() {
            let twice = match edges::listen(text) {
                Ok(Listen::Tcp(addr)) if addr.port() != 0 && addrs.contains(&addr) => true,
                Ok(Listen::Unix(path)) if unix.contains(&path) => true,
                Ok(Listen::Tcp(addr)) => {
                    addrs.push(addr);
                    false
                }
                Ok(Listen::Unix(path)) => {
                    unix.push(path);
                    false
                }
                Err(problem) => {
                    self.problem(key, problem);
                    false
                }
            };
            if twice {
                self.problem(key, format!("cannot listen on {text} twice"));
            }
        }
        if key.is_empty() && self.settings.tls.listen.is_empty() {
            self.problem(key, "at least one address is needed".to_owned());
        }
        (addrs, unix)
    }

    fn proxies(&mut self) -> Proxies {
        let keys = &self.settings.proxies;
        let mut trusted = Vec::new();
        for text in keys.trusted_proxies.iter() {
            match edges::trusted(text) {
                Ok(range) => trusted.push(range),
                Err(problem) => self.problem(&keys.trusted_proxies, problem),
            }
        }
        if *keys.proxy_protocol != ProxyProtocol::Off && trusted.is_empty() {
            let message = "is not \"off\", but server.trusted_proxies names nobody to believe";
            self.problem(&keys.proxy_protocol, message);
        }
        Proxies {
            trusted,
            header: *keys.client_header,
            protocol: *keys.proxy_protocol,
        }
    }

    fn origins(&mut self, key: &Field<Vec<String>>) -> Vec<String> {
        for problem in key.iter().filter_map(|text| edges::origin_problem(text)) {
            self.problem(key, problem);
        }
        key.to_vec()
    }

    fn header_names(&mut self, key: &Field<Vec<String>>) -> Vec<String> {
        for problem in key.iter().filter_map(|text| edges::header_problem(text)) {
            self.problem(key, problem);
        }
        key.to_vec()
    }

    fn admin(&mut self) -> Option<SocketAddr> {
        let text = &self.settings.server.admin;
        if **text == "off" {
            return None;
        }
        let addr = edges::address(text);
        if addr.is_none() {
            self.problem(text, format!("{}, or \"off\"", edges::needs_addr(text)));
        }
        addr
    }

    fn node(&mut self) -> Option<u16> {
        let key = &self.settings.server.node;
        match **key {
            NodeNumber::Given(number) => return Some(number),
            NodeNumber::Free => return None,
            NodeNumber::OfHostname => {}
        }
        let hostname = &self.machine.hostname;
        let ordinal = hostname
            .rsplit_once('-')
            .and_then(|(_, ordinal)| ordinal.parse().ok());
        match ordinal.filter(|number| u64::from(*number) <= super::value::NODE_MAX) {
            Some(number) => Some(number),
            None => {
                let message = format!(
                    "cannot take the node number from host name {hostname:?}: it does not end in \
                     a dash and a number up to {}",
                    super::value::NODE_MAX
                );
                self.problem(key, message);
                None
            }
        }
    }

    fn hub(&mut self) -> hub::config::Config {
        let Settings {
            socketio,
            origins,
            plain,
            raw,
            sse,
            heartbeat,
            limits,
            policies,
            ..
        } = self.settings;
        let (slow_consumers, problems) =
            super::rules::slow_consumers(self.layer, *policies.slow_consumer);
        self.problems.extend(problems);
        hub::config::Config {
            socketio_path: socketio.path.clone(),
            plain_path: plain.enabled.then(|| plain.path.clone()),
            sse_path: (*plain.enabled && *sse.enabled).then(|| sse.path.clone()),
            plain_namespace: plain.namespace.clone(),
            plain_raw: raw.path.clone().map(|path| PlainRaw {
                path,
                namespace: raw.namespace.clone(),
            }),
            allow_eio3: *socketio.allow_eio3,
            parser: *socketio.parser,
            parsers: super::rules::parsers(self.layer),
            transports: self.transports(),
            ping_interval: *socketio.ping_interval,
            ping_timeout: *socketio.ping_timeout,
            plain_ping_interval: *plain.ping_interval,
            stretch: Stretch::new(heartbeat.stretch.get(), heartbeat.per_second_max.get()),
            connect_timeout: *socketio.connect_timeout,
            upgrade_timeout: *socketio.upgrade_timeout,
            max_payload: socketio.max_http_buffer_size.get(),
            plain_max_payload: plain.max_payload.get(),
            cors: self.cors(),
            cors_headers: self.header_names(&origins.cors_headers),
            cors_max_age: *origins.cors_max_age,
            origins: self.origins(&origins.origins),
            proxies: self.proxies(),
            slow_consumer: *policies.slow_consumer,
            slow_consumers,
            rates: self.rates(),
            cluster_scope: self.cluster_scope(),
            recovery: super::rules::recovery(self.layer),
            presence: super::rules::presence(self.layer),
            since_join: super::rules::since_join(self.layer),
            admission: self.admission(),
            limits: limits.clone(),
            compression: self.compression(),
            // Backends and traces need what a client said when it came.
            keep_handshake: self.settings.traces.endpoint.is_some()
                || *self.settings.workers.listen != "off"
                || !crate::config::rules::names_below(self.layer, &["backends"]).is_empty(),
            // Only programs built on the hub switch these on.
            ..hub::config::Config::default()
        }
    }

    fn compression(&self) -> Compression {
        let keys = &self.settings.compression;
        Compression {
            websocket: *keys.websocket,
            polling: *keys.polling,
            threshold: keys.threshold.get(),
            level: keys.level.get(),
            window_bits: keys.window_bits.get(),
            server_takeover: *keys.server_takeover,
            client_takeover: *keys.client_takeover,
            exempt: crate::config::rules::exempt(self.layer),
        }
    }

    fn transports(&mut self) -> Transports {
        let key = &self.settings.socketio.transports;
        for name in key.iter() {
            if !["polling", "websocket", "webtransport"].contains(&name.as_str()) {
                let known = "\"polling\", \"websocket\" and \"webtransport\" are known";
                self.problem(key, format!("cannot offer transport {name:?}: {known}"));
            }
        }
        let has = |wanted: &str| key.iter().any(|name| name == wanted);
        let webtransport = has("webtransport");
        if webtransport && !self.machine.has_webtransport {
            self.problem(key, control::webtransport::MISSING);
        } else if webtransport && self.settings.tls.listen.is_empty() {
            let message = "cannot offer WebTransport without TLS: set tls.listen, whose ports it takes by UDP";
            self.problem(key, message);
        }
        if key.is_empty() {
            self.problem(key, "at least one transport is needed");
        }
        Transports {
            websocket: has("websocket"),
            polling: has("polling"),
            webtransport,
            polling_user_agents: self.settings.socketio.polling_user_agents.clone(),
        }
    }

    fn cors(&mut self) -> Cors {
        let key = &self.settings.origins.cors;
        if key.is_empty() {
            return Cors::Off;
        }
        if key.iter().any(|origin| origin == "*") {
            if key.len() > 1 {
                self.problem(
                    key,
                    "\"*\" stands for every origin: name no others beside it",
                );
            }
            return Cors::Any;
        }
        Cors::Origins(self.origins(key))
    }

    fn rates(&self) -> Rates {
        let keys = &self.settings.rates;
        Rates {
            session: *keys.session,
            user: *keys.user,
            address: *keys.address,
            connects: *keys.connects,
            dry_run: *keys.dry_run,
        }
    }

    fn admission(&self) -> Admission {
        let keys = &self.settings.admission;
        Admission {
            turn_max: *keys.turn_max,
            ask_max: *keys.ask_max,
            memory_percent_max: keys.memory_percent_max.get(),
            memory_percent_shed: keys.memory_percent_shed.get(),
        }
    }

    fn rules(&mut self) -> Rules {
        let (rules, problems) = crate::config::rules::read(
            self.layer,
            &self.machine.folder,
            self.settings.limits.room_name_bytes_max,
        );
        self.problems.extend(problems);
        rules
    }

    fn upgrade(&mut self) -> Option<PathBuf> {
        let key = &self.settings.upgrade.socket;
        let path = key.as_deref().map(edges::upgrade_socket).transpose();
        path.unwrap_or_else(|problem| {
            self.problem(key, problem);
            None
        })
    }

    fn log(&mut self) -> Log {
        let keys = &self.settings.log;
        if let Err(error) = crate::telemetry::check_level(&keys.level) {
            let message = format!("cannot use log level {:?}: {error}", *keys.level);
            self.problem(&keys.level, message);
        }
        Log {
            level: keys.level.clone(),
            format: *keys.format,
            connections: *keys.connections,
        }
    }

    fn problem<T>(&mut self, field: &Field<T>, message: impl Into<String>) {
        self.problem_at(&field.path, message);
    }

    fn problem_at(&mut self, place: &Path, message: impl Into<String>) {
        let source = self.layer.source(place);
        let message = format!("\"{place}\": {}", message.into());
        self.problems.push(Problem::new(&source, message));
    }
}

impl Layer {
    /// The value of a key that holds no name chosen by the operator.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.settings
            .get(&Path::fixed(key))
            .map(|setting: &Setting| &setting.value)
    }

    pub fn source(&self, place: &Path) -> Source {
        let setting = self.settings.get(place);
        setting.map_or(Source::Default, |setting| setting.source.clone())
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
