//! Counts of live traces, for the exporter.

use std::sync::atomic::AtomicU64;

/// Written here, read by the exporter.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Traces that run at this node, whoever began them.
    pub running: AtomicU64,
    /// Lines that were told.
    pub told: AtomicU64,
    /// Lines for which there was no room.
    pub dropped: AtomicU64,
}
