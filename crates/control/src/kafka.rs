//! The bridge to Kafka: records of what clients do go out, and records of programs come in as orders to shards. The crate `kafka` has the
//! client; this module has its place in the process. A build without the feature `kafka` has the settings only.

#[cfg(feature = "kafka")]
mod bridge;
#[cfg(feature = "kafka")]
mod outgoing;

use crate::bridge::{Bridge, Key};
use std::sync::Arc;
use std::time::Duration;

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
    /// Events with the same key go to one partition.
    pub key: Key,
    /// The rooms that are documents; `*` stands for any text. `None`: none is.
    pub room: Option<String>,
    /// The word that programs shall answer with.
    pub operator: Option<String>,
    /// The ack of a client means that Kafka has the event.
    pub waits: bool,
    /// Such acks that may wait, of each shard.
    pub acks_max: usize,
    /// Bytes that may wait for Kafka.
    pub waiting_bytes_max: usize,
    /// Bytes of one record.
    pub record_bytes_max: usize,
    /// How long a record waits.
    pub time: Duration,
}

/// Of records that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct In {
    /// The topics.
    pub topics: Vec<String>,
    /// The consumer group.
    pub group: String,
    /// Where their records may speak.
    pub namespaces: Vec<String>,
    /// What they may ask for.
    pub operators: Vec<String>,
    /// Where records go that are no command.
    pub dead_letters: Option<String>,
    /// Bytes of a record's value.
    pub value_bytes_max: usize,
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
