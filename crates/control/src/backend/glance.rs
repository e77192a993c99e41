//! A backend as operators see it, and its last failures: nothing else is kept for them while nobody looks.

use backend::{Name, PaceFigures, SeenWorker};
use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;

/// Failures that are kept of each backend, and characters of each.
const FAILURES_MAX: usize = 20;
const DETAIL_CHARS_MAX: usize = 300;

/// A question to the driver of a backend.
pub(super) struct Glance {
    /// Who has these sockets?
    pub(super) sockets: Vec<Name>,
    pub(super) answer: oneshot::Sender<Seen>,
}

/// A backend at a glance.
#[derive(Debug)]
pub(crate) struct Seen {
    /// The workers that have the sockets that were asked about, in the same order.
    pub(crate) holders: Vec<Option<String>>,
    /// With the shards that serve their links, if shards do.
    pub(crate) workers: Vec<(SeenWorker, Option<u16>)>,
    /// Of calls, where its logic is called.
    pub(crate) calls: Option<PaceFigures>,
    /// Whether the endpoint is well; `None`: workers attach.
    pub(crate) is_well: Option<bool>,
    /// The newest first.
    pub(crate) failures: Vec<Failure>,
}

/// What went wrong.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// Unix time, milliseconds.
    pub(crate) at_ms: u64,
    pub(crate) what: &'static str,
    /// As in the log; may have words of an endpoint's answer in it.
    pub(crate) detail: String,
}

/// The last failures.
#[derive(Debug, Default)]
pub(super) struct Failures(VecDeque<Failure>);

impl Failures {
    pub(super) fn note(&mut self, what: &'static str, detail: String) {
        if self.0.len() >= FAILURES_MAX {
            self.0.pop_back();
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        self.0.push_front(Failure {
            at_ms: since.map_or(0, |since| since.as_millis() as u64),
            what,
            detail: detail.chars().take(DETAIL_CHARS_MAX).collect(),
        });
    }

    pub(super) fn newest(&self) -> Vec<Failure> {
        self.0.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_failures_are_kept_and_none_is_long() {
        let mut failures = Failures::default();
        for n in 0..50 {
            failures.note("call failed", format!("{n} {}", "x".repeat(5_000)));
        }
        let newest = failures.newest();
        assert_eq!((newest.len(), newest[0].detail.len()), (20, 300));
        assert!(newest[0].detail.starts_with("49 "), "{newest:?}");
    }
}
