//! A play from its beginning to its end: all clients at once, at the recorded pace or another one.

use super::actor;
use super::script::{Script, Word};
use super::target::Target;
use super::verdict::Report;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Clients come in a moment after the beginning, so that all are ready for the first of them.
const BEGIN_AFTER: Duration = Duration::from_millis(200);

/// How it is to be played.
pub struct Orders {
    /// Against this gateway.
    pub target: Target,
    /// Times the recorded pace.
    pub speed: f64,
    /// Judge events of all names.
    pub strict: bool,
    /// A token for each user; those without one come without.
    pub tokens: HashMap<String, String>,
}

/// Without the tokens.
impl fmt::Debug for Orders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Orders");
        shown.field("target", &self.target);
        shown.field("speed", &self.speed).finish_non_exhaustive()
    }
}

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
    tokens: HashMap<String, String>,
    begins: Instant,
    began_ms: u64,
    length: Duration,
    speed: f64,
}

impl Stage {
    /// When it is, what was then.
    pub(super) fn time(&self, at_ms: u64) -> Instant {
        let since = Duration::from_millis(at_ms.saturating_sub(self.began_ms));
        self.begins + since.div_f64(self.speed)
    }

    pub(super) fn end(&self) -> Instant {
        self.begins + self.length.div_f64(self.speed)
    }

    pub(super) fn token(&self, user: &str) -> Option<&str> {
        self.tokens.get(user).map(String::as_str)
    }
}

impl Script {
    /// The users that have a part.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| part.user.as_deref())
    }
}

/// Plays it.
pub async fn play(script: Script, orders: Orders, progress: &Progress) -> Report {
    let stage = Arc::new(Stage {
        target: orders.target,
        progress: progress.clone(),
        tokens: orders.tokens,
        begins: Instant::now() + BEGIN_AFTER,
        began_ms: script.began_ms,
        length: script.length,
        speed: orders.speed,
    });
    let script = Arc::new(script);
    let mut parts = JoinSet::new();
    for at in 0..script.parts.len() {
        let (script, stage) = (Arc::clone(&script), Arc::clone(&stage));
        parts.spawn(async move { (at, actor::play(&script.parts[at], &stage).await) });
    }
    let mut played: Vec<Played> = script.parts.iter().map(|_| Played::default()).collect();
    while let Some(ended) = parts.join_next().await {
        // A task that panicked would be a fault of ours; its part counts as one that said nothing.
        if let Ok((at, done)) = ended {
            played[at] = done;
        }
    }
    Report::of(&script, &played, orders.strict)
}
