//! A look at backends from outside: an operator asks, and each driver answers between two rounds. Nothing is counted for nobody but the last
//! failures.

use super::driver::Letter;
use backend::{Name, PaceFigures, SeenWorker};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

/// A driver that does not answer by then is missing.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
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
    pub(crate) workers: Vec<SeenWorker>,
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

/// The ways to the drivers of all backends.
pub struct Windows(BTreeMap<String, Sender<Letter>>);

impl fmt::Debug for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

impl Windows {
    pub(super) fn new(letters: BTreeMap<String, Sender<Letter>>) -> Self {
        Self(letters)
    }

    /// All backends, with `None` for those whose drivers do not answer in time: they have much to do, or have ended.
    pub(crate) async fn look(&self, sockets: &[Name]) -> Vec<(&str, Option<Seen>)> {
        let asked = self.0.iter().map(|(name, letters)| {
            let (answer, seen) = oneshot::channel();
            let (letters, sockets) = (letters.clone(), sockets.to_vec());
            let asked = tokio::spawn(tokio::time::timeout(ANSWER_TIMEOUT, async move {
                let glance = Letter::Glance(Glance { sockets, answer });
                letters.send(glance).await.ok()?;
                seen.await.ok()
            }));
            (name.as_str(), asked)
        });
        let asked: Vec<_> = asked.collect();
        let mut looks = Vec::new();
        for (name, asked) in asked {
            let seen = asked.await.ok().and_then(Result::ok).flatten();
            looks.push((name, seen));
        }
        looks
    }

    /// For each of these sockets the backend and the worker that have it, if any has.
    pub(crate) async fn holders_of(&self, sockets: &[Name]) -> Vec<Option<(&str, String)>> {
        let mut found = vec![None; sockets.len()];
        for (name, seen) in self.look(sockets).await {
            let holders = seen.map(|seen| seen.holders).unwrap_or_default();
            for (place, holder) in found.iter_mut().zip(holders) {
                if let Some(holder) = holder {
                    *place = Some((name, holder));
                }
            }
        }
        found
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

    /// A driver that stood still would have let every page wait.
    #[tokio::test]
    async fn a_driver_that_does_not_answer_is_missing() {
        let (letters, kept) = tokio::sync::mpsc::channel(1);
        let windows = Windows::new([("kitchen".to_owned(), letters)].into());
        let looks = windows.look(&[]).await;
        assert!(matches!(&looks[..], [("kitchen", None)]), "{looks:?}");
        // Its channel is full now, and later it is closed.
        assert!(windows.look(&[]).await[0].1.is_none());
        drop(kept);
        assert!(windows.look(&[]).await[0].1.is_none());
    }
}
