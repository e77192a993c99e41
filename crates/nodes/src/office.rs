//! What a member of a cluster is given by its process, and what it is ordered.

use super::budgets::Shares;
use super::foreign::Ear;
use hub::{Inbox, Letter};
use process::health::Readiness;
use process::moving::Wish;
use std::sync::Arc;

/// Hears that a node is gone: its number, and which of its lives it was.
pub type Gone = Box<dyn Fn(u16, u64) + Send>;

/// Brings a letter to a shard.
pub type Deliver = Box<dyn Fn(u16, Arc<Letter>) + Send>;

/// What is there once the shards run.
pub struct Office {
    pub inbox: Inbox,
    pub shards: u16,
    pub deliver: Deliver,
    /// Some shard has more letters than it may: others wait at the engine's end, which is bounded.
    pub are_behind: Box<dyn Fn() -> bool + Send>,
    /// Sessions of this node.
    pub sessions: Box<dyn Fn() -> u64 + Send>,
    pub readiness: Readiness,
    pub gone: Gone,
    /// Servers of other kinds listen by it.
    pub foreign: Option<Ear>,
    /// Limits that nodes share.
    pub shares: Option<Shares>,
}

impl std::fmt::Debug for Office {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Office").finish_non_exhaustive()
    }
}

/// Orders of operators to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// This node is to send its clients away.
    Drain(u16),
    /// This node's sessions are to go elsewhere.
    Rebalance(u16, Wish),
    /// The others are to know how this node stands, now.
    Renew,
}
