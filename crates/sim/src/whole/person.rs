//! A client of Socket.IO, and what it waits for.

use crate::client::Client;
use std::collections::BTreeMap;

pub(crate) struct Person {
    pub(crate) client: Client,
    pub(crate) life: usize,
    /// It has not read for a while: it may be closed for that.
    pub(crate) was_slow: bool,
    /// A POST without an answer.
    pub(crate) is_posting: bool,
    /// Joins without an ack: the room, unless it has left since.
    pub(crate) joins: BTreeMap<u64, usize>,
    /// It wants to speak to workers, and whether it may.
    pub(crate) works: Option<bool>,
}

impl Person {
    pub(crate) fn is_gone(&self) -> bool {
        self.client.gone
    }

    pub(crate) fn may_speak(&self) -> bool {
        let client = &self.client;
        client.joined && !client.gone && !client.pauses() && !self.is_posting
    }
}
