//! `[cluster]`: what is needed to be a member.

use super::Resolver;
use crate::config::chronicle::hindrances;
use crate::config::edges;
use crate::config::keys::{Adapter, FEEDS, Feed, RedisMode, Routing, StartMode};
use crate::config::layer::Path;
use crate::config::rules::names_below;
use crate::config::typed::Field;
use compat::clustered::Mode;
use compat::plane::Membership;
use hub::Naming;
use identity::Secret;
use nodes::Start;
use nodes::channels::Channel;
use nodes::redis::settings;
use nodes::way::{Nats, Way};
use process::files;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// The cluster that this node belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Cluster {
    pub adapter: Adapter,
    pub urls: Vec<String>,
    pub mode: RedisMode,
    pub master: String,
    pub user: Option<String>,
    pub password: Option<Secret>,
    pub credentials_file: Option<PathBuf>,
    pub jetstream_domain: Option<String>,
    pub start: Start,
    pub tls: TlsFiles,
    pub prefix: String,
    pub secret: Option<Secret>,
    /// `None`: requests for sessions of other nodes are not relayed.
    pub relay: Option<RelayListen>,
    pub relays_max: usize,
    pub relay_tls: bool,
    pub flood_always: bool,
    pub join_wait: Duration,
    pub frame_letters: u16,
    pub ring_bytes: usize,
    pub queue_bytes: usize,
    pub compat: Compat,
    /// `None`: programs outside are told nothing.
    pub directory: Option<Directory>,
    /// Channels that programs outside share with clients.
    pub feeds: Vec<Channel>,
}

impl Cluster {
    /// Servers of NATS, and credentials.
    pub fn nats(&self) -> Nats {
        let (password, files) = (self.password.as_ref(), &self.tls);
        Nats {
            urls: self.urls.clone(),
            credentials_file: self.credentials_file.clone(),
            user: self.user.clone(),
            password: password.map(|password| password.reveal().to_owned()),
            ca_file: files.authorities.clone(),
            own_cert: files.certificate.clone().zip(files.key.clone()),
            prefix: self.prefix.clone(),
            domain: self.jetstream_domain.clone(),
            // The native plane is bounded before this queue, which must not be the narrower one.
            queue_bytes: 4 * self.queue_bytes,
        }
    }
}

/// The directory that programs outside read.
#[derive(Clone, Debug, PartialEq)]
pub struct Directory {
    pub documents: Vec<String>,
    pub renew: Duration,
}

/// Where other nodes bring requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayListen {
    /// `None`: a free port, where Redis is reached.
    pub on: Option<SocketAddr>,
    /// The address that the others are told, if it is another one.
    pub advertise: Option<SocketAddr>,
}

/// Servers of other kinds in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Compat {
    pub enabled: bool,
    pub classic: Membership,
    pub sharded: Membership,
    pub mode: Mode,
    pub streams: Membership,
    pub stream: String,
    pub prefix: String,
    pub list_bytes_max: usize,
    pub python: bool,
}

impl Compat {
    /// Whether anybody is to be listened to.
    pub fn is_wanted(&self) -> bool {
        let hears = |membership| membership != Membership::Never;
        let wanted = [self.classic, self.sharded, self.streams];
        self.enabled && (wanted.into_iter().any(hears) || self.python)
    }

    /// What they are to know by name: servers of the sharded adapter may have a channel for each socket.
    pub fn naming(&self) -> Naming {
        match self.mode {
            _ if !self.is_wanted() => Naming::Nothing,
            Mode::DynamicPrivate if self.sharded != Membership::Never => Naming::RoomsAndSockets,
            _ => Naming::Rooms,
        }
    }
}

/// Certificates for Redis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TlsFiles {
    pub authorities: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// How long a client may wait for the ack of a join. Other nodes doubt what they know of this one after `cluster::interest::DOUBT_US`:
/// an ack must not leave before that.
const JOIN_WAIT: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(5);

/// Every entry is written as often.
const RENEW_MIN: Duration = Duration::from_secs(30);

impl Resolver<'_> {
    pub(super) fn cluster(&mut self) -> Option<Cluster> {
        self.chronicles();
        let keys = &self.settings.cluster;
        if *keys.adapter == Adapter::Memory {
            if !keys.urls.is_empty() {
                let message = "nothing uses it: set cluster.adapter = \"redis\" or \"nats\"";
                self.problem(&keys.urls, message);
            }
            return None;
        }
        let (is_nats, before) = (*keys.adapter == Adapter::Nats, self.problems.len());
        self.cluster_urls(is_nats);
        self.check_name(&keys.prefix);
        if keys.tls_cert.is_some() != keys.tls_key.is_some() {
            self.problem(&keys.tls_cert, "and cluster.tls_key need each other");
        }
        if !JOIN_WAIT.contains(&*keys.join_wait) {
            self.problem(
                &keys.join_wait,
                "must be from \"1s\" to \"5s\": clients wait for it, and with less they miss messages while Redis is away",
            );
        }
        for key in [&keys.tls_ca, &keys.tls_cert, &keys.tls_key] {
            self.readable(key);
        }
        let folder = &self.machine.folder;
        let file = |name: &Option<String>| name.as_ref().map(|name| folder.join(name));
        let cluster = Cluster {
            adapter: *keys.adapter,
            credentials_file: file(&keys.credentials_file),
            jetstream_domain: (*keys.jetstream_domain).clone(),
            urls: keys.urls.clone(),
            mode: *keys.mode,
            master: keys.master.clone(),
            user: keys.user.clone(),
            password: keys.password.clone(),
            start: match *keys.start {
                StartMode::Wait => Start::Wait(*keys.start_timeout),
                StartMode::Fail => Start::Fail,
            },
            tls: TlsFiles {
                authorities: file(&keys.tls_ca),
                certificate: file(&keys.tls_cert),
                key: file(&keys.tls_key),
            },
            prefix: keys.prefix.clone(),
            secret: keys.secret.clone(),
            relay: self.relay(),
            relays_max: keys.relays_max.get(),
            relay_tls: *keys.relay_tls,
            flood_always: *keys.routing == Routing::Broadcast,
            join_wait: *keys.join_wait,
            frame_letters: keys.frame_letters.get(),
            ring_bytes: keys.ring_bytes.get(),
            queue_bytes: keys.queue_bytes.get(),
            compat: self.compat(),
            directory: self.directory(),
            feeds: self.feeds(),
        };
        if is_nats {
            self.over_nats(&cluster, before);
        } else if keys.credentials_file.is_some() {
            let message =
                "is for cluster.adapter = \"nats\": Redis knows cluster.user and cluster.password";
            self.problem(&keys.credentials_file, message);
        }
        Some(cluster)
    }

    /// Namespaces whose clients come back when a node died.
    fn chronicles(&mut self) {
        for name in names_below(self.layer, &["namespaces"]) {
            let place = Path::new(&["namespaces", name, "recovery", "level"]);
            for message in hindrances(self.layer, name) {
                self.problem_at(&place, message);
            }
        }
    }

    fn cluster_urls(&mut self, is_nats: bool) {
        let keys = &self.settings.cluster;
        if keys.urls.is_empty() {
            let message = match is_nats {
                true => "needs a server: set cluster.urls = [\"nats://127.0.0.1:4222\"]",
                false => "needs a server: set cluster.urls = [\"redis://127.0.0.1:6379\"]",
            };
            self.problem(&keys.adapter, message);
        }
        if keys.urls.iter().any(|url| url.contains('@')) {
            let message = "put user and password into cluster.user and cluster.password: addresses are logged";
            self.problem(&keys.urls, message);
        } else if !is_nats
            && !keys.urls.is_empty()
            && let Err(why) = settings::check(&keys.urls)
        {
            self.problem(&keys.urls, why.to_string());
        }
    }

    /// NATS carries what nodes say to each other. What other programs share with nodes, they share by Redis.
    fn over_nats(&mut self, cluster: &Cluster, before: usize) {
        let (keys, settings) = (&self.settings.cluster, self.settings);
        if !self.machine.has_nats {
            self.problem(&keys.adapter, control::nats::MISSING);
            return;
        }
        if *keys.mode != RedisMode::Single {
            let message = "is about Redis: leave it out with cluster.adapter = \"nats\"";
            self.problem(&keys.mode, message);
        }
        if *settings.compat.enabled == Some(true) {
            let message =
                "Node servers and emitters speak by Redis: they need cluster.adapter = \"redis\"";
            self.problem(&settings.compat.enabled, message);
        }
        if *settings.directory.enabled {
            let message = "the directory stands in Redis: it needs cluster.adapter = \"redis\"";
            self.problem(&settings.directory.enabled, message);
        }
        if let Some(name) = names_below(self.layer, &FEEDS).first() {
            let feed = Feed::of(self.layer, name);
            let message = "feeds are channels of Redis: they need cluster.adapter = \"redis\"; programs at NATS have [nats.in] and [nats.out]";
            self.problem(&feed.publish, message);
        }
        if keys.credentials_file.is_some() && keys.user.is_some() {
            let message = "cluster.credentials_file and cluster.user exclude each other";
            self.problem(&keys.credentials_file, message);
        }
        self.readable(&keys.credentials_file);
        if self.problems.len() == before
            && let Err(why) = Way::nats(cluster.nats())
        {
            self.problem(&keys.urls, why);
        }
    }

    fn feeds(&mut self) -> Vec<Channel> {
        let names = names_below(self.layer, &FEEDS);
        let feeds = names.into_iter().map(|name| self.feed(name.to_owned()));
        feeds.collect()
    }

    fn feed(&mut self, name: String) -> Channel {
        let keys = Feed::of(self.layer, &name);
        let prefix = &self.settings.cluster.prefix;
        if name.is_empty() || name.starts_with(prefix.as_str()) {
            let message = format!(
                "the channel {name:?} is one of the nodes': it must not be empty, or begin with cluster.prefix"
            );
            self.problem(&keys.publish, message);
        }
        if keys.publish.is_empty() && keys.take.is_empty() {
            self.problem(
                &keys.publish,
                "nothing uses the channel: name events in publish or take",
            );
        }
        for list in [&keys.publish, &keys.take] {
            if let Some(event) = list
                .iter()
                .find(|event| event.is_empty() || hub::is_reserved(event))
            {
                self.problem(list, format!("{event:?} is no event of a program"));
            }
        }
        if *keys.bare && keys.take.len() > 1 {
            self.problem(
                &keys.take,
                "a bare message does not say which of these events it is: name one",
            );
        }
        Channel {
            namespace: keys.namespace.clone(),
            publish: keys.publish.clone(),
            take: keys.take.clone(),
            room: keys.room.clone(),
            bare: *keys.bare,
            bytes_max: keys.bytes_max.get(),
            per_second_max: keys.per_second_max.get(),
            name,
        }
    }

    fn directory(&mut self) -> Option<Directory> {
        let keys = &self.settings.directory;
        if *keys.renew < RENEW_MIN {
            self.problem(
                &keys.renew,
                "must be at least \"30s\": each renewal writes every entry",
            );
        }
        keys.enabled.then(|| Directory {
            documents: keys.documents.clone(),
            renew: *keys.renew,
        })
    }

    pub(super) fn readable(&mut self, key: &Field<Option<String>>) {
        let Some(name) = key.as_deref() else { return };
        let path = self.machine.folder.join(name);
        if let Err(error) = files::bytes(&path, files::BYTES_MAX) {
            self.problem(key, format!("cannot read {}: {error}", path.display()));
        }
    }

    fn relay(&mut self) -> Option<RelayListen> {
        let keys = &self.settings.cluster;
        let (listen, told) = (&keys.relay_listen, &keys.relay_advertise);
        if keys.secret.is_none() && !matches!(listen.as_str(), "auto" | "off") {
            self.problem(
                listen,
                "needs cluster.secret, the same on all nodes: without it, no node relays",
            );
        }
        let on = match listen.as_str() {
            "off" => return None,
            "auto" => None,
            text => match edges::address(text) {
                Some(address) => Some(address),
                None => {
                    let needs = edges::needs_addr(text);
                    self.problem(listen, format!("{needs}, or \"auto\", or \"off\""));
                    None
                }
            },
        };
        let parsed = told.as_deref().map(|text| (text, edges::address(text)));
        let usable = |address: &SocketAddr| address.port() != 0 && !address.ip().is_unspecified();
        let advertise = match parsed {
            None => None,
            Some((_, Some(address))) if usable(&address) => Some(address),
            Some((text, _)) => {
                let message = format!("{}: other nodes connect to it", edges::needs_addr(text));
                self.problem(told, message);
                None
            }
        };
        Some(RelayListen { on, advertise })
    }

    /// Names of keys and channels stand in commands and in logs.
    fn check_name(&mut self, key: &Field<String>) {
        if key.is_empty() {
            self.problem(key, "must not be empty");
        } else if key.chars().any(char::is_control) {
            self.problem(key, "must not have line ends or other control characters");
        }
    }

    fn compat(&mut self) -> Compat {
        let keys = &self.settings.compat;
        self.check_name(&keys.prefix);
        self.check_name(&keys.stream);
        Compat {
            enabled: keys.enabled.unwrap_or(
                self.settings.cluster.secret.is_none()
                    && *self.settings.cluster.adapter == Adapter::Redis,
            ),
            classic: *keys.classic,
            sharded: *keys.sharded,
            mode: *keys.sharded_mode,
            streams: *keys.streams,
            stream: keys.stream.clone(),
            prefix: keys.prefix.clone(),
            list_bytes_max: keys.list_bytes_max.get(),
            python: *keys.python,
        }
    }
}
