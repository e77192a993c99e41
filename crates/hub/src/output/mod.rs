//! Bytes on their way out: the log of a turn, the outboxes that point into it, and the flush.

pub(crate) mod backlog;
pub(crate) mod budget;
pub(crate) mod compression;
pub(crate) mod flush;
pub(crate) mod log;
pub(crate) mod outbox;
pub(crate) mod piece;

use budget::Budget;
use compression::Codecs;
use log::TurnLog;
use piece::Pool;
use std::hash::RandomState;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) log: TurnLog,
    /// What waits beyond the turn.
    pub(crate) pool: Arc<Pool>,
    /// Keys of events that replace each other. Clients choose what is hashed.
    pub(crate) hasher: RandomState,
    pub(crate) codecs: Codecs,
    /// Reused while encoding.
    pub(crate) scratch: Vec<u8>,
    pub(crate) budget: Budget,
}

impl Output {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self {
            log: TurnLog::new(Arc::clone(&pool)),
            pool,
            hasher: RandomState::new(),
            codecs: Codecs::default(),
            scratch: Vec::new(),
            budget: Budget::default(),
        }
    }
}
