//! What both sides of the queue of events know.

use bridge::{Failures, Fault, Kind, OutFigures};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Who has a message when it counts as produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The connection: whoever listens gets it, unless the connection ends before.
    Core,
    /// A stream, once, in order for each key.
    JetStream,
}

/// What both sides of the queue know.
#[derive(Debug, Default)]
pub(crate) struct Books {
    waiting: AtomicU64,
    waiting_bytes: AtomicUsize,
    produced: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    retried: AtomicU64,
    pub(crate) failures: Arc<Failures>,
}

impl Books {
    pub(crate) fn new(failures: &Arc<Failures>) -> Self {
        Self {
            failures: Arc::clone(failures),
            ..Self::default()
        }
    }

    /// Room for a message.
    pub(crate) fn reserve(&self, bytes: usize, max: usize) -> Result<(), Fault> {
        let reserved =
            self.waiting_bytes
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |waiting| {
                    Some(waiting + bytes).filter(|sum| *sum <= max)
                });
        match reserved {
            Ok(_) => {
                self.waiting.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(waiting) => Err(Fault::new(
                Kind::Full,
                format!(
                    "{waiting} bytes of messages wait for NATS, at most {max} may: try again later"
                ),
            )),
        }
    }

    /// A message is done with.
    pub(crate) fn settle(&self, bytes: usize, produced: bool) {
        let count = if produced {
            &self.produced
        } else {
            &self.failed
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn retry(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn figures(&self) -> OutFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        OutFigures {
            produced: read(&self.produced),
            failed: read(&self.failed),
            refused: read(&self.refused),
            retried: read(&self.retried),
            waiting: read(&self.waiting),
            waiting_bytes: self.waiting_bytes.load(Ordering::Relaxed) as u64,
        }
    }
}
