//! What an event stream has heard.

use std::collections::{BTreeMap, BTreeSet};

/// Streams have client numbers of their own.
pub(crate) const STREAMS: usize = 1_000_000;

/// What a stream knows of one of its rooms.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// The numbers of its messages.
    pub(crate) sure: BTreeSet<u64>,
    /// Those that came by another room before this one told its history, which may hold them again.
    pub(crate) perhaps: BTreeSet<u64>,
    /// This connection has its history.
    pub(crate) told: bool,
    /// What was sent later must come.
    pub(crate) since: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) rooms: BTreeMap<usize, Heard>,
    pub(crate) link: Option<usize>,
    /// The answer has begun.
    pub(crate) begun: bool,
    pub(crate) input: Vec<u8>,
    pub(crate) last_id: String,
    /// What came live, in order.
    pub(crate) live: Vec<u64>,
}
