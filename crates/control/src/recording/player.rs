//! A play from its beginning to its end: all clients at once, at the recorded pace or another one.

use super::actor;
use super::script::Script;
use super::stage::{Played, Progress, Stage};
use super::target::Target;
use super::verdict::Report;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Clients come in a moment after the beginning, so that all are ready for the first of them.
const BEGIN_AFTER: Duration = Duration::from_millis(200);
/// Clients that say something large at once: each needs several times its size.
const LARGE_AT_ONCE: usize = 8;

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

/// Plays it.
pub async fn play(script: Script, orders: Orders, progress: &Progress) -> Report {
    let script = Arc::new(script);
    let stage = Arc::new(Stage {
        target: orders.target,
        progress: progress.clone(),
        tokens: orders.tokens,
        begins: Instant::now() + BEGIN_AFTER,
        script: Arc::clone(&script),
        speed: orders.speed,
        happened: AtomicU64::new(0),
        large: Semaphore::new(LARGE_AT_ONCE),
    });
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
