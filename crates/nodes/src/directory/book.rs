//! The directory as it stands and as it should stand: the sockets of this process, and the names written of each. From the difference come
//! the next writes, so an outage of Redis costs no more memory than the sockets themselves.

use super::entry::{Entry, Traces};
use super::words::{Documents, Words, bounded, delete, fits};
use crate::redis::Command;
use hub::{Listed, Place, RollWord};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use wire::base64url::Id20;

/// Documents of one socket.
const DOCUMENTS_MAX: usize = 64;

#[derive(Debug, Default)]
struct Record {
    /// `None`: the socket is gone.
    now: Option<Entry>,
    /// The names under which it may stand in Redis. `None`: Redis has nothing of it.
    written: Option<Traces>,
    /// The node's index names it.
    is_indexed: bool,
    written_ms: u64,
    is_waiting: bool,
    /// It stands in `renewals`.
    is_timed: bool,
}

/// The changes of one batch.
#[derive(Debug, Default)]
pub(super) struct Batch {
    sockets: Vec<Id20>,
    /// Those that the node's index must name before anything is written of them.
    pub(super) new: Vec<Id20>,
    /// Those that it is not to name after everything of them was deleted.
    pub(super) gone: Vec<Id20>,
    pub(super) commands: Vec<Command>,
    /// When keys end: each follows a command, by its place.
    pub(super) expiries: Vec<(usize, Command)>,
}

#[derive(Debug)]
pub(super) struct Book {
    records: HashMap<Id20, Record>,
    waiting: VecDeque<Id20>,
    /// When entries are written again, each once.
    renewals: BinaryHeap<Reverse<(u64, Id20)>>,
    renew_ms: u64,
    documents: Documents,
    left_out: u64,
}

impl Book {
    pub(super) fn new(documents: Documents, renew_ms: u64) -> Self {
        Self {
            records: HashMap::new(),
            waiting: VecDeque::new(),
            renewals: BinaryHeap::new(),
            renew_ms,
            documents,
            left_out: 0,
        }
    }

    pub(super) fn sockets(&self) -> usize {
        self.records.len()
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Whether a socket is, or was just now, one of this process.
    pub(super) fn knows(&self, socket: &Id20) -> bool {
        self.records.contains_key(socket)
    }

    pub(super) fn hear(&mut self, word: RollWord) {
        match word {
            RollWord::Here(listed) => {
                let socket = listed.socket;
                let entry = self.entry(*listed);
                let record = self.records.entry(socket).or_default();
                if record.now.as_ref() != Some(&entry) {
                    record.now = Some(entry);
                    self.wait(socket);
                }
            }
            RollWord::Gone(socket) => self.gone(socket),
            RollWord::Anew(shard) => {
                let text = |socket: &Id20| socket.to_string();
                let of_shard = |socket: &&Id20| {
                    Place::of_socket(&text(socket)).is_some_and(|place| place.shard == shard)
                };
                let all: Vec<Id20> = self.records.keys().filter(of_shard).copied().collect();
                all.into_iter().for_each(|socket| self.gone(socket));
            }
        }
    }

    fn entry(&mut self, listed: Listed) -> Entry {
        let (names, before) = (listed.rooms.len(), usize::from(listed.user.is_some()));
        let user: Option<Arc<str>> = listed.user.filter(|user| fits(user)).map(Arc::from);
        let rooms: Box<[Arc<str>]> = bounded(listed.rooms).into();
        let documents = rooms.iter().filter(|room| self.documents.has(room));
        let documents = documents.take(DOCUMENTS_MAX).cloned().collect();
        let missing = before - usize::from(user.is_some()) + names - rooms.len();
        self.left_out += missing as u64;
        Entry {
            namespace: listed.namespace,
            user,
            rooms,
            documents,
            connected_ms: listed.connected_ms,
        }
    }

    fn gone(&mut self, socket: Id20) {
        let Some(record) = self.records.get_mut(&socket) else {
            return;
        };
        record.now = None;
        match record.written.is_some() {
            true => self.wait(socket),
            // It came and went while nothing was written.
            false => drop(self.records.remove(&socket)),
        }
    }

    fn wait(&mut self, socket: Id20) {
        if let Some(record) = self.records.get_mut(&socket)
            && !std::mem::replace(&mut record.is_waiting, true)
        {
            self.waiting.push_back(socket);
        }
    }

    /// Redis may have lost all of it, or some, or nothing: everything is written anew. The names stay: a socket that left a document or
    /// its user meanwhile may still stand there.
    pub(super) fn write_anew(&mut self) {
        self.waiting.clear();
        self.renewals.clear();
        self.records.iter_mut().for_each(|(socket, record)| {
            record.is_indexed = false;
            record.is_timed = false;
            record.is_waiting = true;
            self.waiting.push_back(*socket);
        });
    }

    /// Entries that were not written for long are written again: their times tell that they are true, and they do not expire.
    pub(super) fn renew(&mut self, now_ms: u64) {
        while let Some(Reverse((due_ms, socket))) = self.renewals.peek().copied()
            && due_ms <= now_ms
        {
            self.renewals.pop();
            let Some(record) = self.records.get_mut(&socket) else {
                continue;
            };
            let due_ms = record.written_ms + self.renew_ms;
            record.is_timed = due_ms > now_ms;
            match record.is_timed {
                true => self.renewals.push(Reverse((due_ms, socket))),
                false => self.wait(socket),
            }
        }
    }

    /// The next writes, about so many commands; `None`: there are none.
    pub(super) fn take(&mut self, words: &Words, commands_max: usize) -> Option<Batch> {
        let mut batch = Batch::default();
        while batch.commands.len() < commands_max
            && let Some(socket) = self.waiting.pop_front()
        {
            let Some(record) = self.records.get_mut(&socket) else {
                continue;
            };
            record.is_waiting = false;
            let id = socket.to_string();
            let before = record.written.as_ref();
            match &record.now {
                Some(entry) => {
                    words.write(&id, entry, before, &mut batch.commands, &mut batch.expiries);
                    if !record.is_indexed {
                        batch.new.push(socket);
                    }
                }
                None => {
                    let before = before.cloned().unwrap_or_default();
                    let users = before.users.iter().map(|user| &**user);
                    let documents = before.documents.iter().map(|document| &**document);
                    delete(&id, users, documents, &mut batch.commands);
                    batch.gone.push(socket);
                }
            }
            batch.sockets.push(socket);
        }
        (!batch.sockets.is_empty()).then_some(batch)
    }

    /// A batch was carried out at this time. Nothing was heard since it was taken.
    pub(super) fn done(&mut self, batch: &Batch, now_ms: u64) {
        for socket in &batch.sockets {
            let Some(record) = self.records.get_mut(socket) else {
                continue;
            };
            let Some(entry) = &record.now else {
                self.records.remove(socket);
                continue;
            };
            record.written = Some(Traces::of(entry));
            record.is_indexed = true;
            record.written_ms = now_ms;
            if !std::mem::replace(&mut record.is_timed, true) {
                let due_ms = now_ms + self.renew_ms;
                self.renewals.push(Reverse((due_ms, *socket)));
            }
        }
    }

    /// A batch failed, wholly or in part: nobody knows what Redis has of it. `tried`: it may have some.
    pub(super) fn failed(&mut self, batch: &Batch, tried: bool) {
        for socket in &batch.sockets {
            if let Some(record) = self.records.get_mut(socket)
                && let (true, Some(entry)) = (tried, &record.now)
            {
                record.is_indexed = true;
                let may_stand = Traces::of(entry);
                record.written.get_or_insert_default().add(may_stand);
            }
            self.wait(*socket);
        }
    }
}

#[cfg(test)]
#[path = "book_tests.rs"]
mod tests;
