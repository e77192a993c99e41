//! How large a history is, and which things happen in it.

/// Size of a history.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub hubs: usize,
    pub clients: usize,
    pub rooms: usize,
    pub steps: usize,
    /// Percent of the clients that poll.
    pub polling: usize,
    /// Bytes that a message carries beside its numbers.
    pub padding: usize,
    /// Rooms keep their events for those who join later.
    pub kept: bool,
    /// Hubs ask about tokens, and the answers take their time.
    pub tokens: bool,
    /// Processes take over from each other.
    pub upgrades: bool,
    /// Percent of the messages between hubs that are lost: 0 but for proving that the checks can fail.
    pub loss: usize,
}
