//! Configuration, bounds, counters and accounts.

pub(crate) mod close;
pub mod config;
pub(crate) mod invariants;
pub mod limits;
pub(crate) mod memory;
pub mod metrics;
pub mod tls;
