//! What verification counts. The exporter reads it when it is asked.

use super::rejection::Rejection;
use hub::claims::Claims;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

#[derive(Debug, Default)]
pub(crate) struct Stats {
    results: [AtomicU64; Rejection::NAMES.len()],
    pub(crate) fetches_ok: AtomicU64,
    pub(crate) fetches_failed: AtomicU64,
    last_fetch: Mutex<Option<Instant>>,
}

/// All of it at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Tokens checked: `accepted`, or why not.
    pub results: Vec<(&'static str, u64)>,
    /// Keys that tokens are checked with.
    pub keys: usize,
    /// Fetches of the key set that went well, and that did not.
    pub fetches: (u64, u64),
    /// Since the key set was fetched last; `None`: never, or there is no URL.
    pub age_s: Option<f64>,
}

impl Stats {
    pub(crate) fn count(&self, result: &Result<Claims, Rejection>) {
        let index = result.as_ref().map_or_else(Rejection::index, |_| 0);
        if let Some(cell) = self.results.get(index) {
            cell.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn fetched(&self) {
        let mut last = self
            .last_fetch
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *last = Some(Instant::now());
    }

    pub(crate) fn figures(&self, keys: usize) -> Figures {
        let load = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        let last = *self
            .last_fetch
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let results = Rejection::NAMES.into_iter().zip(&self.results);
        Figures {
            results: results.map(|(name, cell)| (name, load(cell))).collect(),
            keys,
            fetches: (load(&self.fetches_ok), load(&self.fetches_failed)),
            age_s: last.map(|at| at.elapsed().as_secs_f64()),
        }
    }
}
