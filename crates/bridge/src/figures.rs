//! What became of records so far.

/// Of events on their way out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutFigures {
    /// Records that were acknowledged.
    pub produced: u64,
    /// Records that were taken, and not acknowledged.
    pub failed: u64,
    /// Events that were not taken.
    pub refused: u64,
    /// Requests that were sent again.
    pub retried: u64,
    /// Records that wait to be acknowledged.
    pub waiting: u64,
    /// Their bytes.
    pub waiting_bytes: u64,
}

/// Of commands on their way in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFigures {
    /// Commands that were handed over.
    pub handed: u64,
    /// Records that were handed over before, and left out.
    pub repeated: u64,
    /// Records that are no command, written as dead letters.
    pub dead: u64,
    /// Records that are no command, and were not written there, or what was given up unread.
    pub lost: u64,
    /// Records that wait to be read here, as of the last second.
    pub lag: u64,
}
