//! Bytes on their way out: the log of a turn, the outboxes that point into it, and the flush.

pub(crate) mod budget;
pub(crate) mod compression;
pub(crate) mod droppable;
pub(crate) mod flush;
pub(crate) mod outbox;

use budget::Budget;
use compression::Codecs;
use outbox::TurnLog;

#[derive(Default)]
pub(crate) struct Output {
    pub(crate) log: TurnLog,
    pub(crate) codecs: Codecs,
    /// Reused while encoding.
    pub(crate) scratch: Vec<u8>,
    pub(crate) budget: Budget,
}
