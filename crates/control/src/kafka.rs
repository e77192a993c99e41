//! The bridge to Kafka: records of what clients do go out, and records of programs come in as orders to shards. The crate `kafka` has the
//! client; this module has its place in the process. A build without the feature `kafka` has the settings only.

#[cfg(not(feature = "kafka"))]
mod absent;
#[cfg(feature = "kafka")]
mod bridge;
#[cfg(feature = "kafka")]
mod orders;
#[cfg(feature = "kafka")]
mod outgoing;

#[cfg(not(feature = "kafka"))]
pub use absent::Bridge;
#[cfg(feature = "kafka")]
pub use bridge::Bridge;

use rules::{Chosen, Wanted};
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
    /// What decides about the partition.
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

/// What decides about the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The user; the socket where there is none.
    User,
    /// The document; the socket where there is none.
    Room,
    /// The socket.
    Socket,
    /// A claim of the token; the socket where there is none.
    Claim,
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

/// Carries out an order, on all nodes, and blocks until the shards have it.
pub type Carry = Arc<dyn Fn(Chosen, Wanted) -> Result<Carried, Uncarried> + Send + Sync>;

/// An order that the shards have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// `false`: too much waits for the other nodes, which do not get it.
    pub everywhere: bool,
}

/// Why an order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncarried {
    /// It is none, for this reason.
    Flaw(String),
    /// Nobody takes it now.
    Later,
}

/// What became of records so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Events that Kafka has.
    pub produced: u64,
    /// Events that were taken, and that Kafka did not acknowledge.
    pub failed: u64,
    /// Events that were not taken.
    pub refused: u64,
    /// Requests to brokers that were sent again.
    pub retried: u64,
    /// Bytes that wait for Kafka.
    pub waiting_bytes: u64,
    /// Commands that were handed over.
    pub handed: u64,
    /// Commands that other nodes did not get.
    pub partial: u64,
    /// Records that were left out, because they had been handed over before.
    pub repeated: u64,
    /// Records that are no command, written to the topic of dead letters.
    pub dead: u64,
    /// Records that are no command, and were not written there.
    pub lost: u64,
    /// Records that wait in the partitions that this process reads.
    pub lag: u64,
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
