//! A client of Socket.IO, and what it waits for.

use crate::client::Client;
use std::collections::BTreeMap;

/// The first publisher in the books that is a client after it came back.
pub(crate) const RETURNED: usize = 3_000_000;

pub(crate) struct Person {
    pub(crate) client: Client,
    pub(crate) life: usize,
    /// Under which it speaks in the books: another one each time that it comes back.
    pub(crate) publisher: usize,
    /// By which it asks for its socket, and where it is in what it heard.
    pub(crate) pid: Option<String>,
    pub(crate) offset: Option<String>,
    /// Its connection broke, and it was not let in again yet.
    pub(crate) is_away: bool,
    /// How often it came.
    pub(crate) turns: usize,
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
    pub(crate) fn new(client: Client, name: usize, life: usize) -> Self {
        Self {
            client,
            life,
            publisher: name,
            pid: None,
            offset: None,
            is_away: false,
            turns: 0,
            was_slow: false,
            is_posting: false,
            joins: BTreeMap::new(),
            works: None,
        }
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.client.gone
    }

    pub(crate) fn may_speak(&self) -> bool {
        let client = &self.client;
        client.joined && !self.is_away && !client.gone && !client.pauses() && !self.is_posting
    }

    /// It asks to be let in.
    pub(crate) fn connect(&self, name: usize) -> String {
        let turn = self.turns;
        let pid = self.pid.iter().map(|pid| format!(",\"pid\":\"{pid}\""));
        let offset = self.offset.iter();
        let offset = offset.map(|offset| format!(",\"offset\":\"{offset}\""));
        let shown: String = pid.chain(offset).collect();
        format!("40{{\"name\":{name},\"turn\":{turn}{shown}}}")
    }

    /// An event ends with where its receiver is then.
    pub(crate) fn note_offset(&mut self, packet: &str) {
        let text = packet.strip_suffix("\"]");
        let text = text.and_then(|packet| packet.rsplit_once('"'));
        if let Some((_, offset)) = text.filter(|_| self.pid.is_some()) {
            self.offset = Some(offset.to_owned());
        }
    }
}
