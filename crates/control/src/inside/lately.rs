//! An answer that costs much and many ask for: those who ask at about the same time share it.

use super::TURN_TIMEOUT;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

/// An answer is given for so long.
const FRESH: Duration = Duration::from_secs(2);

type Answer<T> = Option<(Instant, T)>;

/// The last answer. Clones are the same.
#[derive(Debug)]
pub(super) struct Lately<T>(Arc<Mutex<Answer<T>>>);

impl<T> Clone for Lately<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Lately<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone + Send + 'static> Lately<T> {
    /// The last answer or, if it is old, a new one: one at a time is made, and the others wait for it. `None`: it took too long.
    pub(super) async fn read<F>(&self, make: impl FnOnce() -> F) -> Option<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let lock = Arc::clone(&self.0).lock_owned();
        let mut last = timeout(TURN_TIMEOUT, lock).await.ok()?;
        if let Some((at, answer)) = &*last
            && at.elapsed() < FRESH
        {
            return Some(answer.clone());
        }
        let (make, all) = (make(), self.clone());
        // A task of its own: others wait for the answer when the one who asked first has gone.
        let task = tokio::spawn(async move {
            let answer = make.await;
            *last = Some((Instant::now(), answer.clone()));
            tokio::spawn(async move { all.forget_old().await });
            answer
        });
        task.await.ok()
    }

    /// An answer that nobody will get takes no memory.
    async fn forget_old(&self) {
        sleep(FRESH).await;
        let mut last = self.0.lock().await;
        if last.as_ref().is_some_and(|(at, _)| at.elapsed() >= FRESH) {
            *last = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tokio::task::JoinSet;

    /// Makes a number, slowly.
    async fn ask(lately: Lately<u64>, made: Arc<AtomicU64>) -> Option<u64> {
        let make = || async move {
            sleep(Duration::from_millis(200)).await;
            made.fetch_add(1, Ordering::Relaxed)
        };
        lately.read(make).await
    }

    #[tokio::test]
    async fn many_who_ask_at_once_share_an_answer_also_when_the_first_one_goes() {
        let (lately, made) = (Lately::default(), Arc::default());
        let ask = || ask(lately.clone(), Arc::clone(&made));
        let first = timeout(Duration::from_millis(50), ask()).await;
        assert!(first.is_err(), "it has gone");
        let mut asked: JoinSet<_> = (0..300).map(|_| ask()).collect();
        while let Some(answer) = asked.join_next().await {
            assert_eq!(answer.expect("an answer"), Some(0));
        }
        sleep(FRESH + Duration::from_millis(200)).await;
        assert!(lately.0.lock().await.is_none(), "it is not kept");
        assert_eq!(ask().await, Some(1));
    }
}
