//! Counters of the ledger, for the exporter.

use std::sync::atomic::{AtomicU64, Ordering};

/// What became of calls with an Idempotency-Key in a cluster.
#[derive(Debug, Default)]
pub struct Gauges {
    /// Carried out by this node.
    pub claimed: AtomicU64,
    /// Answered as another node answered them.
    pub repeated: AtomicU64,
    /// Calls that waited for another node first.
    pub waited: AtomicU64,
    /// Nobody knows whether they were carried out.
    pub lost: AtomicU64,
    /// Refused, because Redis could not be asked.
    pub refused: AtomicU64,
    /// Carried out by two nodes.
    pub doubled: AtomicU64,
    /// Times that Redis lost all, and was told again.
    pub repairs: AtomicU64,
}

impl Gauges {
    pub(super) fn add(cell: &AtomicU64) {
        cell.fetch_add(1, Ordering::Relaxed);
    }

    /// With the names of the metric's label.
    pub fn rows(&self) -> Vec<(String, f64)> {
        let rows = [
            ("carried_out", &self.claimed),
            ("repeated", &self.repeated),
            ("waited", &self.waited),
            ("lost", &self.lost),
            ("refused", &self.refused),
            ("doubled", &self.doubled),
            ("repaired", &self.repairs),
        ];
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed) as f64;
        rows.map(|(name, cell)| (name.to_owned(), read(cell)))
            .to_vec()
    }
}
