//! What became of records so far.

/// Of an [`Outlet`](crate::Outlet).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutFigures {
    /// Records that Kafka has acknowledged.
    pub produced: u64,
    /// Records that were taken, and that Kafka did not acknowledge.
    pub failed: u64,
    /// Events that were not taken.
    pub refused: u64,
    /// Requests to brokers that were sent again.
    pub retried: u64,
    /// Records that wait for Kafka.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
}

/// Of an [`Inlet`](crate::Inlet).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFigures {
    /// Commands that were handed over.
    pub handed: u64,
    /// Records that were handed over before, and left out.
    pub repeated: u64,
    /// Records that are no command, written to the topic of dead letters.
    pub dead: u64,
    /// Records that are no command, and could not be written there, or there is no such topic.
    pub lost: u64,
    /// Records behind the end of the partitions that are read here, as of the last second.
    pub lag: u64,
}
