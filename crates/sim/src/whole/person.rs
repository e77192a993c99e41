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
    /// When the last one began.
    pub(crate) posted_us: u64,
    /// Joins without an ack: the room, unless it has left since.
    pub(crate) joins: BTreeMap<u64, usize>,
    /// It wants to speak to workers, and whether it may.
    pub(crate) works: Option<bool>,
    /// As above, for its socket with the workers.
    pub(crate) work_pid: Option<String>,
    pub(crate) work_offset: Option<String>,
    /// Sockets that it had there and did not get back.
    pub(crate) work_sockets: usize,
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
            posted_us: 0,
            joins: BTreeMap::new(),
            works: None,
            work_pid: None,
            work_offset: None,
            work_sockets: 0,
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
        let shown = shown(&self.pid, &self.offset);
        format!("40{{\"name\":{name},\"turn\":{}{shown}}}", self.turns)
    }

    /// The same, where the workers are.
    pub(crate) fn connect_to_workers(&self, name: usize) -> String {
        let shown = shown(&self.work_pid, &self.work_offset);
        format!("40/work,{{\"work\":{name},\"turn\":{}{shown}}}", self.turns)
    }

    pub(crate) fn note_offset(&mut self, packet: &str) {
        if let Some(offset) = offset_of(packet).filter(|_| self.pid.is_some()) {
            self.offset = Some(offset.to_owned());
        }
    }
}

/// By which it asks for a socket that it had.
fn shown(pid: &Option<String>, offset: &Option<String>) -> String {
    let pid = pid.iter().map(|pid| format!(",\"pid\":\"{pid}\""));
    let offset = offset.iter();
    let offset = offset.map(|offset| format!(",\"offset\":\"{offset}\""));
    pid.chain(offset).collect()
}

/// An event ends with where its receiver is then.
pub(crate) fn offset_of(packet: &str) -> Option<&str> {
    let text = packet.strip_suffix("\"]")?;
    text.rsplit_once('"').map(|(_, offset)| offset)
}
