//! Configuration, bounds, counters and accounts.

pub(crate) mod close;
pub mod config;
pub mod limits;
pub mod metrics;
pub mod tls;

use crate::config::Config;
use metrics::Counts;
use std::sync::Arc;

/// What the hub was told to do, and what it counts.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) config: Arc<Config>,
    pub(crate) counts: Counts,
}
