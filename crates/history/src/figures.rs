//! What became of events that were given to the queue.

/// Since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Events that are stored.
    pub stored: u64,
    /// Events for which the queue had no room.
    pub dropped: u64,
    /// Events that the store refused for good.
    pub refused: u64,
    /// Bytes that wait now.
    pub waiting_bytes: u64,
    /// Batches that were tried again.
    pub failures: u64,
    /// Seconds since the store last took what it was given, while there is something; else 0.
    pub away_seconds: u64,
}
