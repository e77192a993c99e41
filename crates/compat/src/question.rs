//! Questions to other servers and of other servers, and what is said to them.

use crate::verb::{Args, Fetched};

/// A question of one of our hubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// The number of our shard that asks.
    pub shard: u16,
    /// The number of its question.
    pub number: u64,
}

/// Answers of other servers to a question of ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The hub's question.
    pub round: Round,
    /// The number of `Count` or `Sockets` that there will be in all.
    pub servers: u64,
    /// The content.
    pub told: Told,
}

/// The answer of a server, or of a socket of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    /// So many sockets of a server were asked; `None` = it did not say, or could not be asked.
    Count(Option<u64>),
    /// One of them answered.
    Ack(Args),
    /// The sockets of a server; `None` = it did not say, or could not be asked.
    Sockets(Option<Vec<Fetched>>),
}

/// Our shard's answer to a question of another server.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// So many of its sockets were asked.
    Asked {
        /// Their number.
        sockets: u64,
        /// Shards that answer in all.
        parts: u64,
    },
    /// Some of its sockets; others follow.
    Page(Vec<Fetched>),
    /// Its sockets, or the last of them.
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
