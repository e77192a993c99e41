//! Spans for a collector of OpenTelemetry, if the configuration names one.

use crate::config::Resolved;
use anyhow::{Result, anyhow};
use control::metrics::node::Node as Facts;
use control::traces::Traces;
use rules::Tracer;
use std::sync::Arc;

/// Records what is done, for a collector.
pub fn start(config: &Resolved, facts: &Facts) -> Result<Option<Arc<dyn Tracer>>> {
    let Some(settings) = &config.traces else {
        return Ok(None);
    };
    let traces = Traces::start(settings, Arc::clone(&facts.traces));
    let traces = traces.map_err(|why| anyhow!("cannot record traces: {why}"))?;
    Ok(Some(Arc::new(traces)))
}
