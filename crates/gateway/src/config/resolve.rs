//! What it means: settings become the types that hub, shard and control take, and are checked
//! against each other. Everything wrong is collected.

mod access;
mod auth;
mod relations;
mod tls;

use super::bounds;
use super::edges::{self, Listen};
use super::keys::Profile;
use super::problem::Problem;
use super::raw::{Layer, Path, Setting, Source};
use super::value::Value;
pub use access::Admin;
pub use auth::Auth;
use hub::config::{Admission, Compression, Cors, Rates, SlowConsumer, Transports};
use hub::limits::Limits;
use hub::trust::Proxies;
use rules::Rules;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
pub use tls::Tls;

/// What the machine contributes to the meaning of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub hostname: String,
    pub cores: usize,
    /// Folder of the configuration file: relative paths in it start here.
    pub folder: PathBuf,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    pub profile: Profile,
    pub server: Server,
    pub tls: Option<Tls>,
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
    pub node: u16,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Auto,
    Json,
    Pretty,
}

/// Makes sense of the merged settings, or says why that can not be done.
pub fn resolve(layer: &Layer, machine: &Machine) -> Result<Resolved, Vec<Problem>> {
    let mut resolver = Resolver {
        layer,
        machine,
        problems: Vec::new(),
    };
    let auth = resolver.auth();
    let server = resolver.server();
    let resolved = Resolved {
        profile: Profile::from_name(&resolver.text("profile")).unwrap_or(Profile::Chat),
        tls: resolver.tls(&server.listen),
        server,
        hub: hub::config::Config {
            auth: auth.hub.clone(),
            ..resolver.hub()
        },
        rules: resolver.rules(),
        auth,
        memory_max: resolver.memory_max(),
        admin: resolver.admin_access(),
        page_rate: resolver.page_rate(),
        serve_client: resolver.on("socketio.serve_client"),
        log: resolver.log(),
    };
    resolver.relations(&resolved);
    if resolver.problems.is_empty() {
        Ok(resolved)
    } else {
        Err(resolver.problems)
    }
}

struct Resolver<'a> {
    layer: &'a Layer,
    machine: &'a Machine,
    problems: Vec<Problem>,
}

impl Resolver<'_> {
    fn server(&mut self) -> Server {
        let (listen, unix) = self.listen();
        let unix_mode = edges::mode(&self.text("server.unix_mode"));
        Server {
            listen,
            unix,
            unix_mode: unix_mode.unwrap_or_else(|problem| {
                self.problem("server.unix_mode", problem);
                0
            }),
            admin: self.admin(),
            shards: match self.number("server.shards") {
                0 => self.machine.cores.max(1),
                shards => usize::try_from(shards).unwrap_or(1),
            },
            pin: self.on("server.pin"),
            node: self.node(),
            drain_window: self.duration("server.drain_window"),
            drain_grace: self.duration("server.drain_grace"),
            chat_page: self.on("server.chat_page"),
        }
    }

    /// Addresses and Unix sockets.
    fn listen(&mut self) -> (Vec<SocketAddr>, Vec<PathBuf>) {
        let key = "server.listen";
        let (mut addrs, mut unix) = (Vec::new(), Vec::new());
        let texts = self.list(key);
        for text in &texts {
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
        if texts.is_empty() && self.list("tls.listen").is_empty() {
            self.problem(key, "at least one address is needed".to_owned());
        }
        (addrs, unix)
    }

    fn proxies(&mut self) -> Proxies {
        let key = "server.trusted_proxies";
        let mut trusted = Vec::new();
        for text in self.list(key) {
            match edges::trusted(&text) {
                Ok(range) => trusted.push(range),
                Err(problem) => self.problem(key, problem),
            }
        }
        let protocol = self.text("server.proxy_protocol");
        if protocol != "off" && trusted.is_empty() {
            let message =
                format!("is {protocol:?}, but server.trusted_proxies names nobody to believe");
            self.problem("server.proxy_protocol", message);
        }
        edges::proxies(trusted, &self.text("server.client_header"), &protocol)
    }

    fn origins(&mut self, key: &str) -> Vec<String> {
        let origins = self.list(key);
        for problem in origins
            .iter()
            .filter_map(|text| edges::origin_problem(text))
        {
            self.problem(key, problem);
        }
        origins
    }

    fn admin(&mut self) -> Option<SocketAddr> {
        let text = self.text("server.admin");
        if text == "off" {
            return None;
        }
        let addr = edges::address(&text);
        if addr.is_none() {
            self.problem(
                "server.admin",
                format!("{}, or \"off\"", edges::needs_addr(&text)),
            );
        }
        addr
    }

    fn node(&mut self) -> u16 {
        let key = "server.node";
        if let Some(Value::Integer(number)) = self.layer.value(key) {
            return u16::try_from(*number).unwrap_or(0);
        }
        let hostname = &self.machine.hostname;
        let ordinal = hostname
            .rsplit_once('-')
            .and_then(|(_, ordinal)| ordinal.parse().ok());
        match ordinal.filter(|number| u64::from(*number) <= super::value::NODE_MAX) {
            Some(number) => number,
            None => {
                let message = format!(
                    "cannot take the node number from host name {hostname:?}: it does not end in \
                     a dash and a number up to {}",
                    super::value::NODE_MAX
                );
                self.problem(key, message);
                0
            }
        }
    }

    fn hub(&mut self) -> hub::config::Config {
        hub::config::Config {
            socketio_path: self.text("socketio.path"),
            plain_path: self.on("plain.enabled").then(|| self.text("plain.path")),
            plain_namespace: self.text("plain.namespace"),
            transports: self.transports(),
            ping_interval: self.duration("socketio.ping_interval"),
            ping_timeout: self.duration("socketio.ping_timeout"),
            plain_ping_interval: self.duration("plain.ping_interval"),
            connect_timeout: self.duration("socketio.connect_timeout"),
            upgrade_timeout: self.duration("socketio.upgrade_timeout"),
            max_payload: self.bytes("socketio.max_http_buffer_size"),
            plain_max_payload: self.bytes("plain.max_payload"),
            cors: self.cors(),
            cors_max_age: self.duration("socketio.cors_max_age"),
            origins: self.origins("socketio.origins"),
            proxies: self.proxies(),
            slow_consumer: match self.text("limits.slow_consumer").as_str() {
                "drop-oldest" => SlowConsumer::DropOldest,
                _ => SlowConsumer::Disconnect,
            },
            rates: self.rates(),
            admission: self.admission(),
            limits: self.limits(),
            compression: self.compression(),
            // What only programs built on the hub switch on.
            ..hub::config::Config::default()
        }
    }

    fn compression(&self) -> Compression {
        let small = |key: &str, default| u8::try_from(self.number(key)).unwrap_or(default);
        Compression {
            websocket: self.on("compression.websocket"),
            polling: self.on("compression.polling"),
            threshold: self.bytes("compression.threshold"),
            level: small("compression.level", 6),
            window_bits: small("compression.window_bits", 15),
            server_takeover: self.on("compression.server_takeover"),
            client_takeover: self.on("compression.client_takeover"),
            exempt: crate::config::rules::exempt(self.layer),
        }
    }

    fn transports(&mut self) -> Transports {
        let key = "socketio.transports";
        let names = self.list(key);
        for name in &names {
            if name != "polling" && name != "websocket" {
                let known = "\"polling\" and \"websocket\" are known";
                self.problem(key, format!("cannot offer transport {name:?}: {known}"));
            }
        }
        let has = |wanted: &str| names.iter().any(|name| name == wanted);
        if names.is_empty() {
            self.problem(key, "at least one transport is needed".to_owned());
        }
        Transports {
            websocket: has("websocket"),
            polling: has("polling"),
            polling_user_agents: self.list("socketio.polling_user_agents"),
        }
    }

    fn cors(&mut self) -> Cors {
        let key = "socketio.cors";
        let origins = self.list(key);
        if origins.is_empty() {
            return Cors::Off;
        }
        if origins.iter().any(|origin| origin == "*") {
            if origins.len() > 1 {
                let message = "\"*\" stands for every origin: name no others beside it";
                self.problem(key, message.to_owned());
            }
            return Cors::Any;
        }
        Cors::Origins(self.origins(key))
    }

    fn limits(&self) -> Limits {
        bounds::build(|name| {
            let value = self.layer.value(&format!("limits.{name}"));
            value.cloned().unwrap_or(Value::Bool(false))
        })
    }

    fn rates(&self) -> Rates {
        let rate = |key: &str| match self.layer.value(key) {
            Some(Value::Rate(rate)) => Some(*rate),
            _ => None,
        };
        Rates {
            session: rate("rates.session"),
            user: rate("rates.user"),
            address: rate("rates.address"),
            connects: rate("rates.connects"),
            dry_run: self.on("rates.dry_run"),
        }
    }

    fn memory_max(&self) -> Option<u64> {
        match self.layer.value("admission.memory_max") {
            Some(Value::Size(bytes)) => Some(*bytes),
            _ => None,
        }
    }

    fn admission(&self) -> Admission {
        let percent = |key| u8::try_from(self.number(key)).unwrap_or(0);
        Admission {
            turn_max: self.duration("admission.turn_max"),
            ask_max: self.duration("admission.ask_max"),
            memory_percent_max: percent("admission.memory_percent_max"),
            memory_percent_shed: percent("admission.memory_percent_shed"),
        }
    }

    fn rules(&mut self) -> Rules {
        let (rules, problems) = crate::config::rules::read(self.layer, &self.machine.folder);
        self.problems.extend(problems);
        rules
    }

    fn log(&mut self) -> Log {
        let format = match self.text("log.format").as_str() {
            "json" => LogFormat::Json,
            "pretty" => LogFormat::Pretty,
            _ => LogFormat::Auto,
        };
        let level = self.text("log.level");
        if let Err(error) = crate::telemetry::check_level(&level) {
            self.problem(
                "log.level",
                format!("cannot use log level {level:?}: {error}"),
            );
        }
        Log {
            level,
            format,
            connections: self.on("log.connections"),
        }
    }

    fn problem(&mut self, key: &str, message: String) {
        let source = self.layer.source(key);
        let place = Path::fixed(key);
        self.problems
            .push(Problem::new(&source, format!("\"{place}\": {message}")));
    }

    fn text(&self, key: &str) -> String {
        match self.layer.value(key) {
            Some(Value::Text(text)) => text.clone(),
            _ => String::new(),
        }
    }

    fn list(&self, key: &str) -> Vec<String> {
        match self.layer.value(key) {
            Some(Value::List(items)) => items.clone(),
            _ => Vec::new(),
        }
    }

    fn on(&self, key: &str) -> bool {
        matches!(self.layer.value(key), Some(Value::Bool(true)))
    }

    fn number(&self, key: &str) -> u64 {
        match self.layer.value(key) {
            Some(Value::Integer(number) | Value::Size(number)) => *number,
            _ => 0,
        }
    }

    fn bytes(&self, key: &str) -> usize {
        usize::try_from(self.number(key)).unwrap_or(usize::MAX)
    }

    fn duration(&self, key: &str) -> Duration {
        match self.layer.value(key) {
            Some(Value::Duration(duration)) => *duration,
            _ => Duration::ZERO,
        }
    }
}

impl Layer {
    /// The value of a key that holds no name chosen by the operator.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.settings
            .get(&Path::fixed(key))
            .map(|setting: &Setting| &setting.value)
    }

    pub fn source(&self, key: &str) -> Source {
        let setting = self.settings.get(&Path::fixed(key));
        setting.map_or(Source::Default, |setting| setting.source.clone())
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
