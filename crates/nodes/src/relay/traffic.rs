//! When a relayed connection carried something last, so that it is cut in a pause of its client, when it has its answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// A client that said something so long ago, and nothing since, has begun a pause.
const QUIET: Duration = Duration::from_millis(4);
/// Later in a pause its next word may be on the way.
const PAUSE: Duration = Duration::from_millis(12);
/// A client that is silent for longer speaks so rarely that any moment is a good one.
const IDLE: Duration = Duration::from_secs(1);
/// One that never pauses has so long.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it is looked.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Traffic(Arc<Marks>);

#[derive(Debug)]
struct Marks {
    began: Instant,
    /// The client was told something.
    answered: AtomicBool,
    /// Microseconds since the beginning.
    last_up: AtomicU64,
    last_down: AtomicU64,
}

impl Traffic {
    pub(super) fn new() -> Self {
        Self(Arc::new(Marks {
            began: Instant::now(),
            answered: AtomicBool::new(false),
            last_up: AtomicU64::new(0),
            last_down: AtomicU64::new(0),
        }))
    }

    fn now(&self) -> u64 {
        self.0.began.elapsed().as_micros() as u64
    }

    /// The client said something.
    pub(super) fn up(&self) {
        self.0.last_up.store(self.now(), Ordering::Relaxed);
    }

    /// It was told something.
    pub(super) fn down(&self) {
        self.0.answered.store(true, Ordering::Relaxed);
        self.0.last_down.store(self.now(), Ordering::Relaxed);
    }

    pub(super) fn is_answered(&self) -> bool {
        self.0.answered.load(Ordering::Relaxed)
    }

    fn pauses(&self) -> bool {
        let up = self.0.last_up.load(Ordering::Relaxed);
        let down = self.0.last_down.load(Ordering::Relaxed);
        is_pause(self.now(), up, down)
    }

    /// Ends in the next pause, or when there was none for too long.
    pub(super) async fn pause(&self) {
        let until = Instant::now() + PATIENCE;
        while !self.pauses() && Instant::now() < until {
            sleep(LOOK_INTERVAL).await;
        }
    }
}

/// Whether a client is in a pause that said something last and was told something last at these times, in microseconds.
fn is_pause(now: u64, up: u64, down: u64) -> bool {
    let silent = Duration::from_micros(now.saturating_sub(up.max(down)));
    down > up && (QUIET..PAUSE).contains(&silent) || silent >= IDLE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_waits_for_an_answer_does_not_pause() {
        assert!(
            !is_pause(5_000, 0, 0),
            "it has said something, and was told nothing"
        );
        assert!(!is_pause(25_000, 20_000, 10_000));
        assert!(
            !is_pause(12_000, 5_000, 10_000),
            "it was told something just now"
        );
        assert!(is_pause(15_000, 5_000, 10_000));
        assert!(
            !is_pause(30_000, 5_000, 10_000),
            "its next word may be on the way"
        );
        assert!(is_pause(1_010_000, 5_000, 10_000));
    }
}
