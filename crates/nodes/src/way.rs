//! The way to an engine: which one it is, where it is, and how to get in.

use super::engine::Trouble;
use super::feed::Opened;
use super::redis::{self, settings::Addr, settings::Settings as Redis};
use std::path::PathBuf;

/// Why a build without the client of NATS cannot use it.
pub const NATS_MISSING: &str =
    "this build has no client of NATS: build with `--features nats`; packages and images have it";

/// Bytes of messages that may wait for this process.
#[cfg(feature = "nats")]
const FEED_BYTES_MAX: usize = 64 << 20;

/// One of the engines.
#[derive(Clone, Debug)]
pub struct Way(Kind);

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Redis(Box<Redis>),
    #[cfg(feature = "nats")]
    Nats(Box<super::nats::Plan>),
}

/// What a way to NATS is made of.
#[derive(Clone, Debug)]
pub struct Nats {
    /// `nats://host:port`, `tls://host:port`.
    pub urls: Vec<String>,
    /// A file with a JWT and a seed.
    pub credentials_file: Option<PathBuf>,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Authorities besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// This node's own certificate and its key.
    pub own_cert: Option<(PathBuf, PathBuf)>,
    /// Of channels and keys.
    pub prefix: String,
    /// Of the JetStream that keeps the numbers of nodes, if it is another server's.
    pub domain: Option<String>,
    /// Bytes of messages that may wait for it.
    pub queue_bytes: usize,
}

impl Way {
    pub fn redis(settings: Redis) -> Self {
        Self(Kind::Redis(Box::new(settings)))
    }

    /// # Errors
    /// Which setting cannot be used, and why; or this build has no client of NATS.
    pub fn nats(nats: Nats) -> Result<Self, String> {
        #[cfg(feature = "nats")]
        return plan(nats).map(|plan| Self(Kind::Nats(Box::new(plan))));
        #[cfg(not(feature = "nats"))]
        {
            let _ = nats;
            Err(NATS_MISSING.to_owned())
        }
    }

    /// Connects, once.
    ///
    /// # Errors
    /// The engine cannot be used now: why, and what to do.
    pub async fn open(self) -> Result<Opened, Trouble> {
        match self.0 {
            Kind::Redis(settings) => redis::open(*settings).await,
            #[cfg(feature = "nats")]
            Kind::Nats(plan) => super::nats::open(*plan).await,
        }
    }

    pub(super) fn kind(&self) -> &Kind {
        &self.0
    }

    /// The first server that is named.
    pub fn first(&self) -> Option<Addr> {
        match &self.0 {
            Kind::Redis(settings) => settings.addrs.first().cloned(),
            #[cfg(feature = "nats")]
            Kind::Nats(plan) => plan.settings.first().map(|(host, port)| Addr {
                host: host.into(),
                port,
            }),
        }
    }
}

#[cfg(feature = "nats")]
fn plan(nats: Nats) -> Result<super::nats::Plan, String> {
    use ::nats::{Credentials, Password, Settings, Tls};
    if !super::nats::fits(&nats.prefix) {
        return Err(
            "cluster.prefix begins subjects of NATS: letters, digits, `-` and `_`, and a colon at its end"
                .to_owned(),
        );
    }
    let is_token = |domain: &String| !domain.is_empty() && !domain.contains(['.', '*', '>', ' ']);
    if !nats.domain.as_ref().is_none_or(is_token) {
        return Err(
            "cluster.jetstream_domain is one word without dots, spaces, `*` and `>`".to_owned(),
        );
    }
    let credentials = match (nats.credentials_file, nats.user, nats.password) {
        (Some(file), _, _) => Credentials::File(file),
        (None, Some(user), Some(password)) => Credentials::Known {
            user,
            password: Password::new(password),
        },
        (None, None, None) => Credentials::None,
        (None, _, _) => return Err("cluster.user and cluster.password need each other".to_owned()),
    };
    let tls = Tls {
        required: nats.urls.iter().any(|url| url.starts_with("tls://")),
        ca_file: nats.ca_file,
        own: nats.own_cert,
    };
    let settings = Settings::new(&nats.urls, credentials, tls);
    Ok(super::nats::Plan {
        settings: settings.map_err(|fault| fault.to_string())?,
        prefix: nats.prefix,
        domain: nats.domain,
        queue_bytes: nats.queue_bytes,
        feed_bytes: FEED_BYTES_MAX,
    })
}
