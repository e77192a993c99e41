//! Owns what one worker counts. A tally covers one second; the conductor adds them up.

use super::flight::Flights;
use crate::outcome::{Latencies, Totals};
use serde::{Deserialize, Serialize};

/// One worker's second, for the way to the conductor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Whole seconds since the start; `u64::MAX` for the rest after the last one.
    pub second: u64,
    pub totals: Totals,
    pub latencies: Latencies,
    /// Open now.
    pub connections: u64,
    /// Users that came through their connect and first joins, or failed in them, so far.
    pub arrived: u64,
    /// Those of them that failed.
    pub absent: u64,
    pub own_cpu_ns: u64,
    /// Time in which the worker was ready but got no core.
    pub own_wait_ns: u64,
}

/// What is counted as it happens.
#[derive(Debug, Default)]
pub struct Tally {
    pub totals: Totals,
    pub latencies: Latencies,
    pub connections: u64,
    pub arrived: u64,
    pub absent: u64,
    /// Over the whole run, for the allowance around membership changes.
    pub flights: Flights,
}

impl Tally {
    pub fn error(&mut self, what: String) {
        *self.totals.failures.entry(what).or_default() += 1;
    }

    pub fn delivered(&mut self, due_ns: u64, now_ns: u64) {
        self.latencies
            .delivery
            .record(now_ns.saturating_sub(due_ns));
        self.flights.record(due_ns, now_ns);
    }

    /// Hands over what was counted since the last time.
    pub fn take(&mut self, second: u64, own_cpu_ns: u64) -> Report {
        Report {
            second,
            totals: std::mem::take(&mut self.totals),
            latencies: std::mem::take(&mut self.latencies),
            connections: self.connections,
            arrived: self.arrived,
            absent: self.absent,
            own_cpu_ns,
            own_wait_ns: crate::clock::own_wait_ns(),
        }
    }
}
