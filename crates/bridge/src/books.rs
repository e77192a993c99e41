//! Counts of records by their outcome. The carriers of records write them, the exporter reads them.

use crate::fault::{Fault, Kind};
use crate::figures::{InFigures, OutFigures};
use std::sync::atomic::{AtomicU64, Ordering};

/// Of events on their way out.
#[derive(Debug, Default)]
pub struct OutBooks {
    waiting: AtomicU64,
    waiting_bytes: AtomicU64,
    produced: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    retried: AtomicU64,
}

impl OutBooks {
    /// Room for a record of so many bytes.
    ///
    /// # Errors
    /// Too much waits for this bus already.
    pub fn reserve(&self, bytes: usize, max: usize, bus: &str) -> Result<(), Fault> {
        let (bytes, max) = (bytes as u64, max as u64);
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
            Err(waiting) => {
                let text =
                    format!("{waiting} bytes wait for {bus}, at most {max} may: try again later");
                Err(Fault::new(Kind::Full, text))
            }
        }
    }

    /// A record was not taken after all.
    pub fn release(&self, bytes: usize) {
        self.waiting_bytes
            .fetch_sub(bytes as u64, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// A record is done with.
    pub fn settle(&self, bytes: usize, is_produced: bool) {
        let count = match is_produced {
            true => &self.produced,
            false => &self.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        self.release(bytes);
    }

    /// A request was sent again.
    pub fn retry(&self) {
        self.retried.fetch_add(1, Ordering::Relaxed);
    }

    /// An event was not taken.
    pub fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that wait to be acknowledged.
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// All of them.
    pub fn figures(&self) -> OutFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        OutFigures {
            produced: read(&self.produced),
            failed: read(&self.failed),
            refused: read(&self.refused),
            retried: read(&self.retried),
            waiting: self.waiting(),
            waiting_bytes: read(&self.waiting_bytes),
        }
    }
}

/// Of commands on their way in. The fields are those of [`InFigures`].
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "a field counts what its figure says")]
pub struct InBooks {
    pub handed: AtomicU64,
    pub repeated: AtomicU64,
    pub dead: AtomicU64,
    pub lost: AtomicU64,
}

impl InBooks {
    /// All of them. `lag`: records that wait to be read.
    pub fn figures(&self, lag: u64) -> InFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        InFigures {
            handed: read(&self.handed),
            repeated: read(&self.repeated),
            dead: read(&self.dead),
            lost: read(&self.lost),
            lag,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_and_comes_back() {
        let books = OutBooks::default();
        assert!(books.reserve(60, 100, "Kafka").is_ok());
        let why = books.reserve(60, 100, "Kafka").expect_err("too much");
        let text = "60 bytes wait for Kafka, at most 100 may: try again later";
        assert_eq!((why.kind(), &*why.to_string()), (Kind::Full, text));
        books.settle(60, true);
        assert!(books.reserve(100, 100, "Kafka").is_ok());
        books.release(100);
        let figures = books.figures();
        assert_eq!(
            (figures.produced, figures.waiting, figures.waiting_bytes),
            (1, 0, 0)
        );
    }
}
