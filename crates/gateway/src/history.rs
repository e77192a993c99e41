//! The store of what rooms said: opened before clients come, closed after they left.

use crate::config::Resolved;
use anyhow::{Context, Result};
use control::history::History;
use control::metrics::node::Node as Facts;
use std::time::Duration;
use tokio::runtime::Runtime;

/// The store has so long to open.
const OPEN_TIME: Duration = Duration::from_secs(30);
/// What waits for the store at the end has so long.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// Where nothing is stored, there is nothing to start.
/// `takes_over`: another process has the folder of a store on disk, and closes it when this one takes over.
pub fn start(config: &Resolved, facts: &Facts, runtime: &Runtime, takes_over: bool) -> Result<()> {
    let Some(settings) = config.history.clone() else {
        return Ok(());
    };
    let opening =
        async { tokio::time::timeout(OPEN_TIME, History::start(settings, takes_over)).await };
    let opened = runtime.block_on(opening);
    let opened = opened.context("the store of history (history.store) does not answer")?;
    let history = opened.context("cannot open the store of history (history.store)")?;
    // Nobody else sets it.
    let _ = facts.history.set(history);
    Ok(())
}

/// All that was said is stored, if the store takes it.
pub fn close(facts: &Facts, runtime: &Runtime) {
    if let Some(history) = facts.history.get() {
        runtime.block_on(history.close(CLOSE_TIME));
    }
}
