//! What the configuration says about records, whatever carries them.

use super::Key;
use std::time::Duration;

/// Of records that are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writes {
    /// Events with the same key keep their order.
    pub key: Key,
    /// The rooms that are documents; `*` stands for any text. `None`: none is.
    pub room: Option<String>,
    /// The word that programs shall answer with.
    pub operator: Option<String>,
    /// The ack of a client means that the bus has the event.
    pub waits: bool,
    /// Such acks that may wait, of each shard.
    pub acks_max: usize,
    /// Bytes that may wait for the bus.
    pub waiting_bytes_max: usize,
    /// Bytes of one record.
    pub record_bytes_max: usize,
    /// How long a record waits.
    pub time: Duration,
}

/// Of records that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reads {
    /// Each record goes to one of those that have the same.
    pub group: String,
    /// Where they may speak.
    pub namespaces: Vec<String>,
    /// What they may ask for.
    pub operators: Vec<String>,
    /// Where records go that are no command.
    pub dead_letters: Option<String>,
    /// Bytes of a record's value.
    pub value_bytes_max: usize,
}

#[cfg(any(feature = "kafka", feature = "nats"))]
mod for_clients {
    use super::{Reads, Writes};
    use ::bridge::{Limits, Operator};
    use rules::bridge::Waits;

    impl Writes {
        pub(crate) fn limits(&self) -> Limits {
            Limits {
                waiting_bytes_max: self.waiting_bytes_max,
                record_bytes_max: self.record_bytes_max,
                time: self.time,
            }
        }

        /// `None`: no client waits.
        pub(crate) fn waits(&self) -> Option<Waits> {
            self.waits.then_some(Waits {
                time: self.time,
                acks_max: self.acks_max,
            })
        }
    }

    impl Reads {
        pub(crate) fn operators(&self) -> Vec<Operator> {
            let words = self.operators.iter();
            words.filter_map(|word| Operator::from_word(word)).collect()
        }
    }
}
