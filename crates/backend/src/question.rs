//! A question under way: who owes an answer, and what was said.
//!
//! Each shard answers for its own sockets, so that a question keeps its place among the commands on each. Servers are the workers of a
//! backend, other nodes, and Socket.IO servers in the cluster.

use crate::bounds::ANSWERS_BYTES_MAX;
use crate::ledger::Ledger;
use crate::proto;
use crate::proto::item::What;
use crate::weight::{answer_bytes, member_bytes};
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Asker {
    /// A worker, under its own number.
    Worker(u64, u64),
    /// Another server, which takes the first answer, under its shard's number.
    Server(u64),
}

/// The kind of a question decides the kind of its answer, also where nobody gave one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asks {
    /// Answers of clients or servers.
    Answers,
    Sockets,
    /// How many servers there are.
    Count,
}

#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) asker: Asker,
    asks: Asks,
    /// Shards that owe an answer.
    shards: u16,
    /// Workers that owe one.
    workers: BTreeSet<u64>,
    /// Servers are waited for until then.
    due_ms: Option<u64>,
    /// Of the answers so far, as the ledger has them.
    bytes: usize,
    answers: Vec<proto::Answer>,
    missing: u64,
    sockets: Vec<proto::Member>,
    incomplete: bool,
}

impl Question {
    pub(crate) fn to_shards(asker: Asker, asks: Asks, shards: u16) -> Self {
        Self {
            asker,
            asks,
            shards,
            workers: BTreeSet::new(),
            due_ms: None,
            bytes: 0,
            answers: Vec::new(),
            missing: 0,
            sockets: Vec::new(),
            incomplete: false,
        }
    }

    /// These workers were asked, and so many had no room for the question. A shard asks other servers if a worker wants to know.
    pub(crate) fn to_servers(
        asker: Asker,
        workers: BTreeSet<u64>,
        missing: u64,
        due_ms: u64,
    ) -> Self {
        let shards = u16::from(matches!(asker, Asker::Worker(..)));
        Self {
            workers,
            missing,
            due_ms: Some(due_ms),
            ..Self::to_shards(asker, Asks::Answers, shards)
        }
    }

    /// Nothing is kept of what shards say to it.
    pub(crate) fn is_count(&self) -> bool {
        self.asks == Asks::Count
    }

    pub(crate) fn is_to_servers(&self) -> bool {
        self.due_ms.is_some()
    }

    pub(crate) fn is_of(&self, worker: u64) -> bool {
        matches!(self.asker, Asker::Worker(id, _) if id == worker)
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|due_ms| due_ms <= now_ms)
    }

    pub(crate) fn is_over(&self) -> bool {
        let enough = matches!(self.asker, Asker::Server(_)) && !self.answers.is_empty();
        enough || (self.shards == 0 && self.workers.is_empty())
    }

    /// Takes so many bytes, if there is room for them.
    fn book(&mut self, ledger: &mut Ledger, bytes: usize) -> bool {
        let fits = self.bytes + bytes <= ANSWERS_BYTES_MAX && ledger.has_room(bytes);
        if fits {
            self.bytes += bytes;
            ledger.take(bytes);
        }
        fits
    }

    fn take(&mut self, ledger: &mut Ledger, answer: proto::Answer) {
        // A server's question ends with its first answer, which is not kept.
        let fits = matches!(self.asker, Asker::Server(_));
        match fits || self.book(ledger, answer_bytes(&answer)) {
            true => self.answers.push(answer),
            false => self.missing += 1,
        }
    }

    /// Its answers go, or somebody else books them.
    pub(crate) fn release(&mut self, ledger: &mut Ledger) {
        ledger.release(std::mem::take(&mut self.bytes));
    }

    /// Answers of a shard's sockets, or of other servers.
    pub(crate) fn answered(&mut self, ledger: &mut Ledger, answers: proto::Answers) {
        self.shards = self.shards.saturating_sub(1);
        self.missing += answers.missing;
        for answer in answers.answers {
            self.take(ledger, answer);
        }
    }

    /// Sockets of a shard.
    pub(crate) fn found(&mut self, ledger: &mut Ledger, found: proto::Found) {
        self.shards = self.shards.saturating_sub(1);
        self.incomplete |= found.incomplete;
        for socket in found.sockets {
            match self.book(ledger, member_bytes(&socket)) {
                true => self.sockets.push(socket),
                false => self.incomplete = true,
            }
        }
    }

    /// The answer of a worker. `false`: it owes none.
    pub(crate) fn replied(
        &mut self,
        ledger: &mut Ledger,
        worker: u64,
        reply: proto::Reply,
    ) -> bool {
        let owes = self.workers.remove(&worker);
        if owes {
            let answer = proto::Answer {
                args: reply.args,
                attachments: reply.attachments,
            };
            self.take(ledger, answer);
        }
        owes
    }

    /// A worker will not answer. `false`: it owes nothing.
    pub(crate) fn give_up(&mut self, worker: u64) -> bool {
        let owes = self.workers.remove(&worker);
        self.missing += u64::from(owes);
        owes
    }

    /// For a worker, under its number. A shard or a server that still owes its part makes the answer incomplete.
    pub(crate) fn into_item(self, query: u64) -> What {
        if self.asks == Asks::Sockets {
            return What::Found(proto::Found {
                query,
                sockets: self.sockets,
                incomplete: self.incomplete || self.shards > 0,
            });
        }
        let silent = self.workers.len() as u64 + u64::from(self.shards);
        What::Answers(proto::Answers {
            query,
            answers: self.answers,
            missing: self.missing + silent,
        })
    }

    /// For a server.
    pub(crate) fn into_first(self) -> Option<proto::Answer> {
        self.answers.into_iter().next()
    }
}
