//! Questions to other servers and of other servers, and what is said to them.

use crate::verb::{Args, Fetched};

/// A question of one of our hubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Which of our shards asks.
    pub shard: u16,
    /// Which of its questions.
    pub number: u64,
}

/// What other servers say to a question of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The hub's question.
    pub round: Round,
    /// How many `Count` or `Sockets` there will be in all.
    pub servers: u64,
    /// What is said.
    pub told: Told,
}

/// What a server, or a socket of it, says.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// So many sockets of a server were asked; `None` = it did not say, or could not be asked.
    Count(Option<u64>),
    /// One of them answered.
    Ack(Args),
    /// The sockets of a server; `None` = it did not say, or could not be asked.
    Sockets(Option<Vec<Fetched>>),
}

/// What a shard of ours says to a question of another server.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// So many of its sockets were asked.
    Asked {
        /// How many.
        sockets: u64,
        /// Shards that answer in all.
        parts: u64,
    },
    /// Its sockets.
    Found {
        /// Which.
        sockets: Vec<Fetched>,
        /// Shards that answer in all.
        parts: u64,
        /// The shard could name all of them.
        complete: bool,
    },
    /// A socket answered.
    Ack(Args),
    /// A socket left without an answer.
    Gone,
}
