//! The log, whose readers may be slow.

use std::sync::atomic::AtomicU64;

/// Lines that wait for the log, and those that did not make it.
#[derive(Debug, Default)]
pub struct LogLoss {
    /// Bytes of lines that wait to be written.
    pub queued_bytes: AtomicU64,
    /// Dropped because nobody reads the log fast enough.
    pub dropped: AtomicU64,
    /// Left out because there were too many of their kind.
    pub suppressed: AtomicU64,
}
