//! What the clients of a play share, and what each of them leaves behind.

use super::script::{Script, Word};
use super::target::Target;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// What was said so far; clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Steps that were taken.
    pub fn steps(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn step(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What became of a part.
#[derive(Debug, Default)]
pub(super) struct Played {
    pub(super) heard: Vec<Word>,
    pub(super) unheard: u64,
    pub(super) said: u64,
    pub(super) joined: bool,
    pub(super) trouble: Option<String>,
}

impl Played {
    pub(super) fn failed(why: String) -> Self {
        Self {
            trouble: Some(why),
            ..Self::default()
        }
    }
}

/// What all clients of a play share.
pub(super) struct Stage {
    pub(super) target: Target,
    pub(super) progress: Progress,
    pub(super) tokens: HashMap<String, String>,
    pub(super) begins: Instant,
    pub(super) script: Arc<Script>,
    pub(super) speed: f64,
    /// Clients that came or left, and words that are judged; also those that were waited for in vain.
    pub(super) happened: AtomicU64,
    /// Turns of those that say something large.
    pub(super) large: Semaphore,
}

impl Stage {
    /// When it is, what was then.
    pub(super) fn time(&self, at_ms: u64) -> Instant {
        let since = Duration::from_millis(at_ms.saturating_sub(self.script.began_ms));
        self.begins + since.div_f64(self.speed)
    }

    pub(super) fn end(&self) -> Instant {
        self.begins + self.script.length.div_f64(self.speed)
    }

    /// Somebody came, left, or heard a word that is judged.
    pub(super) fn happens(&self) {
        self.happened.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn is_behind(&self, needs: u64) -> bool {
        self.happened.load(Ordering::Relaxed) < needs
    }

    /// A thing that did not come is not waited for a second time.
    pub(super) fn forgive(&self, needs: u64) {
        self.happened.fetch_max(needs, Ordering::Relaxed);
    }

    pub(super) fn token(&self, user: &str) -> Option<&str> {
        self.tokens.get(user).map(String::as_str)
    }
}
