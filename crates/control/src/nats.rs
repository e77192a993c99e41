//! The bridge to NATS: messages of what clients do go out, and messages of programs come in as orders to shards. The crate `nats` has the
//! client; this module has its place in the process. A build without the feature `nats` has the settings only.

#[cfg(feature = "nats")]
mod bridge;

use crate::bridge::{Bridge, Reads, Writes};
use std::path::PathBuf;
use std::sync::Arc;

/// Whether this build has the client.
pub const HAS_NATS: bool = cfg!(feature = "nats");

/// Why a build without it does not start.
pub use nodes::way::NATS_MISSING as MISSING;

/// The settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `nats://host:port`, `tls://host:port`.
    pub urls: Vec<String>,
    /// A file with a JWT and a seed.
    pub credentials_file: Option<PathBuf>,
    /// A user's name.
    pub user: Option<String>,
    /// The file with the user's password.
    pub password_file: Option<PathBuf>,
    /// No connection without TLS.
    pub tls: bool,
    /// Authorities besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// The gateway's own certificate and its key.
    pub own_cert: Option<(PathBuf, PathBuf)>,
    /// `None`: nothing is published.
    pub out: Option<Out>,
    /// Subjects with commands.
    pub inlets: Vec<In>,
}

/// Who has a message when it counts as produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The connection.
    Core,
    /// A stream.
    JetStream,
}

/// Of messages that are published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    /// `{namespace}` and `{name}` stand for those of the event.
    pub subject: String,
    /// By which way.
    pub mode: Mode,
    /// All else.
    pub writes: Writes,
}

/// Of messages that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct In {
    /// The subject.
    pub subject: String,
    /// The stream; `None`: core NATS.
    pub stream: Option<String>,
    /// Messages of the stream that are handed out and not acknowledged.
    pub pending_max: u32,
    /// All else.
    pub reads: Reads,
}

/// Whether the client takes the settings. Nothing is asked of a server.
pub fn check(settings: &Settings) -> Result<(), String> {
    #[cfg(feature = "nats")]
    return bridge::check(settings);
    #[cfg(not(feature = "nats"))]
    {
        let _ = settings;
        Err(MISSING.to_owned())
    }
}

/// Servers may be away: they are looked for in the background. Within a runtime.
pub fn start(settings: &Settings) -> Result<Arc<dyn Bridge>, String> {
    #[cfg(feature = "nats")]
    return Ok(Arc::new(bridge::Nats::start(settings)?));
    #[cfg(not(feature = "nats"))]
    {
        let _ = settings;
        Err(MISSING.to_owned())
    }
}
