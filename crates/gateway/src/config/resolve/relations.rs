//! Relations between keys: settings that do not go together.

use super::{Resolved, Resolver};
use crate::config::bounds;
use crate::config::edges::Listen;
use crate::config::keys::Settings;
use crate::config::layer::Path;
use crate::config::units::{format_duration, format_size};
use hub::config::SlowConsumer;
use hub::heartbeat::Step;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Nobody means more, and a typing error in a size should not be found out by memory.
const MAX_PAYLOAD_BYTES: usize = 256 << 20;

/// A longer delay of `setTimeout` ends at once.
const TIMER_MAX: Duration = Duration::from_millis(i32::MAX as u64);

/// Time of a pong on its way.
const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(30);

impl Resolver<'_> {
    /// What no single key can say.
    pub(super) fn relations(&mut self, resolved: &Resolved) {
        let hub = &resolved.hub;
        self.paths(hub, resolved.server.chat_page);
        let Settings {
            socketio, plain, ..
        } = self.settings;
        let times = [
            &socketio.ping_interval,
            &socketio.ping_timeout,
            // Zero is no absence of a bound: nobody could join, and no upgrade would be in time.
            &socketio.connect_timeout,
            &socketio.upgrade_timeout,
            &plain.ping_interval,
        ];
        for key in times.into_iter().filter(|key| key.is_zero()) {
            self.problem(key, "must be longer than zero");
        }
        self.heartbeats(hub);
        for (key, time) in [
            ("limits.keep_alive_timeout", hub.limits.keep_alive_timeout),
            ("limits.message_timeout", hub.limits.message_timeout),
            ("limits.handshake_timeout", hub.limits.handshake_timeout),
        ] {
            if time.is_zero() {
                self.problem_at(&Path::fixed(key), "must be longer than zero");
            }
        }
        for key in bounds::too_long(self.layer) {
            let message = format!("must be at most \"{}\"", format_duration(bounds::TIME_MAX));
            self.problem_at(&Path::fixed(&key), message);
        }
        if hub.limits.read_bytes_per_turn > MAX_PAYLOAD_BYTES {
            let message = "must be \"256MiB\" or less: each thread has a buffer of this size";
            self.problem_at(&Path::fixed("limits.read_bytes_per_turn"), message);
        }
        for key in [&socketio.max_http_buffer_size, &plain.max_payload] {
            let bytes = key.get();
            if bytes == 0 || bytes > MAX_PAYLOAD_BYTES {
                self.problem(key, "must be from \"1B\" to \"256MiB\"");
            } else if bytes > hub.limits.outbox_bytes_max {
                let message = format!(
                    "one message may be larger than limits.outbox_bytes_max ({}): a slow client \
                     has room for one such message only",
                    format_size(hub.limits.outbox_bytes_max as u64)
                );
                self.problem(key, message);
            }
        }
        self.plain_namespace(resolved);
        self.private_addresses(resolved);
        self.private_paths(resolved);
        if hub.compression.server_takeover && hub.drops_events() {
            let own = hub.slow_consumers.iter();
            let mut dropping = own.filter(|(_, slow)| slow.policy != SlowConsumer::Disconnect);
            let (key, policy) = match dropping.next() {
                Some((name, slow)) if hub.slow_consumer == SlowConsumer::Disconnect => {
                    (format!("namespaces.{name:?}.slow_consumer"), slow.policy)
                }
                _ => ("limits.slow_consumer".to_owned(), hub.slow_consumer),
            };
            let policy = SlowConsumer::NAMES[policy as usize];
            let message = format!(
                "cannot be used while {key} is {policy:?}: a client could not inflate what follows \
                 a message that was dropped"
            );
            self.problem(&self.settings.compression.server_takeover, message);
        }
    }

    /// The longest interval that is announced.
    fn heartbeats(&mut self, hub: &hub::config::Config) {
        if !hub.stretch.is_on() {
            return;
        }
        let key = &self.settings.heartbeat.stretch;
        let longest = hub.ping_interval(Step::LAST);
        let sum = longest.saturating_add(hub.ping_timeout);
        if sum > TIMER_MAX {
            let message = format!(
                "clients would wait for {} (socketio.ping_interval times stretch, and socketio.ping_timeout), and timers of JavaScript last {} at most",
                format_duration(sum),
                format_duration(TIMER_MAX)
            );
            self.problem(key, message);
        } else if hub.transports.polling && hub.limits.keep_alive_timeout <= longest {
            let message = format!(
                "a polling client may be pinged every {}, and limits.keep_alive_timeout is {}: its connection could be cut while it answers; set \
                 limits.keep_alive_timeout = \"{}\", or a smaller stretch",
                format_duration(longest),
                format_duration(hub.limits.keep_alive_timeout),
                format_duration(longest + KEEP_ALIVE_MARGIN)
            );
            self.problem(key, message);
        }
    }

    fn plain_namespace(&mut self, resolved: &Resolved) {
        let (namespace, known) = (&resolved.hub.plain_namespace, &resolved.rules.namespaces);
        if resolved.hub.plain_path.is_none() || known.contains_key(namespace) {
            return;
        }
        let slashed = format!("/{namespace}");
        let advice = match namespace.strip_prefix('/') {
            Some(_) => format!("add [namespaces.{namespace:?}]"),
            None if known.contains_key(&slashed) => format!("did you mean {slashed:?}?"),
            None => format!("a namespace begins with a slash, add [namespaces.{slashed:?}]"),
        };
        let message = format!("there is no namespace {namespace:?}: {advice}");
        self.problem(&self.settings.plain.namespace, message);
    }

    /// The listeners that are not for clients: each needs a port of its own.
    fn private_addresses(&mut self, resolved: &Resolved) {
        let public = resolved.server.listen.iter();
        let secure = resolved.tls.iter().flat_map(|tls| &tls.listen);
        let public = public.map(|addr| ("server.listen", *addr));
        let mut taken: Vec<(&str, SocketAddr)> = public
            .chain(secure.map(|addr| ("tls.listen", *addr)))
            .collect();
        let workers = resolved.workers.as_ref();
        let relay = resolved.cluster.as_ref().and_then(|c| c.relay.as_ref());
        for (key, whose, addr) in [
            (
                "server.admin",
                "the operators' listener",
                resolved.server.admin,
            ),
            (
                "workers.listen",
                "the workers' listener",
                workers.and_then(Listen::tcp),
            ),
            (
                "cluster.relay_listen",
                "the relay",
                relay.and_then(|r| r.on),
            ),
        ] {
            let Some(addr) = addr else { continue };
            if let Some((other, has)) = taken.iter().find(|(_, has)| overlap(*has, addr)) {
                let message = format!(
                    "cannot listen on {addr}: {other} has {has}; {whose} needs a port of its own"
                );
                self.problem_at(&Path::fixed(key), message);
            }
            taken.push((key, addr));
        }
    }

    /// Each Unix socket has a path of its own.
    fn private_paths(&mut self, resolved: &Resolved) {
        let public = resolved.server.unix.iter().cloned();
        let mut taken: Vec<(&str, PathBuf)> = public.map(|path| ("server.listen", path)).collect();
        let workers = resolved.workers.as_ref().and_then(Listen::unix).cloned();
        let upgrade = resolved.upgrade.clone();
        // A successor opens its socket there first.
        let beside = upgrade.as_deref().map(crate::unix::name_beside);
        for (key, path) in [
            ("workers.listen", workers),
            ("upgrade.socket", upgrade),
            ("upgrade.socket", beside),
        ] {
            let Some(path) = path else { continue };
            if let Some((other, _)) = taken.iter().find(|(_, has)| *has == path) {
                let message = format!(
                    "cannot listen on unix:{}: {other} has it; name another path",
                    path.display()
                );
                self.problem_at(&Path::fixed(key), message);
            }
            taken.push((key, path));
        }
    }

    fn paths(&mut self, hub: &hub::config::Config, chat_page: bool) {
        let path = &hub.socketio_path;
        if path.len() < 3 || !path.starts_with('/') || !path.ends_with('/') || !is_plain_path(path)
        {
            let message = format!("cannot use path {path:?}: it must look like \"/socket.io/\"");
            self.problem(&self.settings.socketio.path, message);
        }
        let at_pages = hub.plain_path.as_deref() == Some("/");
        if let Some(plain) = hub.plain_path.as_ref().filter(|_| !at_pages) {
            // At `/` it stands beside the pages, told apart by `Upgrade`.
            if let Some(why) = taken(plain, "/ws", path, chat_page) {
                self.problem(&self.settings.plain.path, why);
            }
        }
        self.raw_path(hub, chat_page);
        let Some(sse) = &hub.sse_path else { return };
        if let Some(why) = taken(sse, "/sse", path, chat_page) {
            self.problem(&self.settings.sse.path, why);
        } else if hub.plain_path.as_ref() == Some(sse) {
            let message = format!("cannot use path {sse:?}: it is that of plain.path");
            self.problem(&self.settings.sse.path, message);
        }
    }

    /// Like the plain protocol, it may stand beside the pages.
    fn raw_path(&mut self, hub: &hub::config::Config, chat_page: bool) {
        let Some(raw) = hub.plain_raw.as_ref().map(|raw| raw.path.as_str()) else {
            return;
        };
        let other = [("plain.path", &hub.plain_path), ("sse.path", &hub.sse_path)];
        let other = other.iter().find(|(_, path)| path.as_deref() == Some(raw));
        let why = match other {
            Some((key, _)) => Some(format!("cannot use path {raw:?}: it is that of {key}")),
            None if raw == "/" => None,
            None => taken(raw, "/raw", &hub.socketio_path, chat_page),
        };
        if let Some(why) = why {
            self.problem(&self.settings.raw.path, why);
        }
    }
}

/// Why an endpoint cannot have that path.
fn taken(path: &str, example: &str, socketio: &str, chat_page: bool) -> Option<String> {
    let why = if !path.starts_with('/') || !is_plain_path(path) {
        format!("it must look like {example:?}")
    } else if path.starts_with(socketio) {
        format!("it lies below socketio.path {socketio:?}")
    } else if path == "/" || control::page::is_reserved(path, chat_page) {
        "the gateway serves it already".to_owned()
    } else {
        return None;
    };
    Some(format!("cannot use path {path:?}: {why}"))
}

/// Whether a second listener on `b` would fail beside one on `a`.
fn overlap(a: SocketAddr, b: SocketAddr) -> bool {
    // `[::]` takes connections of IPv4, too.
    let covers = |any: SocketAddr, other: SocketAddr| {
        any.ip().is_unspecified() && (any.is_ipv6() || other.is_ipv4())
    };
    let same_ip = a.ip() == b.ip() || covers(a, b) || covers(b, a);
    a.port() != 0 && a.port() == b.port() && same_ip
}

fn is_plain_path(path: &str) -> bool {
    path.bytes()
        .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'"'))
}
