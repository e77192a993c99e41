//! A look at backends from outside: an operator asks, and each driver answers between two rounds.

use super::glance::{Glance, Seen};
use super::letter::Letter;
use backend::Name;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

/// A driver that does not answer by then is missing.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

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
    pub async fn look(&self, sockets: &[Name]) -> Vec<(&str, Option<Seen>)> {
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
    pub async fn holders_of(&self, sockets: &[Name]) -> Vec<Option<(&str, String)>> {
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
