//! Bytes on their way out: the log of a turn, the outboxes that point into it, and the flush.

pub(crate) mod backlog;
pub(crate) mod budget;
pub(crate) mod compression;
pub(crate) mod copies;
pub(crate) mod log;
pub(crate) mod outbox;
pub(crate) mod piece;
pub(crate) mod sink;
