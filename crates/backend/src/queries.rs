//! Questions of workers to shards. Each shard answers for its own sockets, so that a question keeps its place among the commands on each.

use crate::proto;
use prost::Message;

/// Answers to one question may take so much. Those beyond it are missing.
const BYTES_MAX: usize = 16 << 20;

/// A question under way, and what shards have said to it.
#[derive(Debug)]
pub(crate) struct Query {
    pub(crate) worker: u64,
    /// The worker's own number for it.
    pub(crate) number: u64,
    /// Shards that have not answered.
    silent: u16,
    bytes: usize,
    answers: Vec<proto::Answer>,
    missing: u64,
    sockets: Vec<proto::Member>,
    incomplete: bool,
}

impl Query {
    pub(crate) fn new(worker: u64, number: u64, shards: u16) -> Self {
        Self {
            worker,
            number,
            silent: shards,
            bytes: 0,
            answers: Vec::new(),
            missing: 0,
            sockets: Vec::new(),
            incomplete: false,
        }
    }

    fn has_room(&mut self, message: &impl Message) -> bool {
        let bytes = self.bytes + message.encoded_len();
        let fits = bytes <= BYTES_MAX;
        if fits {
            self.bytes = bytes;
        }
        fits
    }

    /// Returns whether this was the last shard.
    pub(crate) fn answered(&mut self, answers: proto::Answers) -> bool {
        self.missing += answers.missing;
        for answer in answers.answers {
            match self.has_room(&answer) {
                true => self.answers.push(answer),
                false => self.missing += 1,
            }
        }
        self.is_last()
    }

    /// Returns whether this was the last shard.
    pub(crate) fn found(&mut self, found: proto::Found) -> bool {
        self.incomplete |= found.incomplete;
        for socket in found.sockets {
            match self.has_room(&socket) {
                true => self.sockets.push(socket),
                false => self.incomplete = true,
            }
        }
        self.is_last()
    }

    fn is_last(&mut self) -> bool {
        self.silent = self.silent.saturating_sub(1);
        self.silent == 0
    }

    pub(crate) fn into_answers(self) -> proto::Answers {
        proto::Answers {
            query: self.number,
            answers: self.answers,
            missing: self.missing,
        }
    }

    pub(crate) fn into_found(self) -> proto::Found {
        proto::Found {
            query: self.number,
            sockets: self.sockets,
            incomplete: self.incomplete,
        }
    }
}
