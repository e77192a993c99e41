//! The bridge to Kafka: records of what clients do go out, and records of programs come in as orders to shards. The crate `kafka` has the
//! client; this module has its place in the process. A build without the feature `kafka` has the settings only.

#[cfg(feature = "kafka")]
mod bridge;
#[cfg(feature = "kafka")]
mod outgoing;

use crate::bridge::{Bridge, Reads, Writes};
use std::sync::Arc;

/// Whether this build has the client.
pub const HAS_KAFKA: bool = cfg!(feature = "kafka");

/// Why a build without it does not start.
pub const MISSING: &str =
    "this build has no client of Kafka: build with `--features kafka`; packages and images have it";

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `host:port`.
    pub brokers: Vec<String>,
    /// Names and values of librdkafka.
    pub properties: Vec<(String, String)>,
    /// `None`: nothing is written.
    pub out: Option<Out>,
    /// Each is a member of its consumer group.
    pub inlets: Vec<In>,
}

/// Of records that are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Out {
    /// The topic.
    pub topic: String,
    /// All else.
    pub writes: Writes,
}

/// Of records that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct In {
    /// The topics.
    pub topics: Vec<String>,
    /// All else.
    pub reads: Reads,
}

/// Whether librdkafka takes the settings. Nothing is asked of a broker.
pub fn check(settings: &Settings) -> Result<(), String> {
    #[cfg(feature = "kafka")]
    return bridge::check(settings);
    #[cfg(not(feature = "kafka"))]
    {
        let _ = settings;
        Err(MISSING.to_owned())
    }
}

/// Brokers may be away: they are looked for in the background. Within a runtime.
pub fn start(settings: &Settings) -> Result<Arc<dyn Bridge>, String> {
    #[cfg(feature = "kafka")]
    return Ok(Arc::new(bridge::Kafka::start(settings)?));
    #[cfg(not(feature = "kafka"))]
    {
        let _ = settings;
        Err(MISSING.to_owned())
    }
}
