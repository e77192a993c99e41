//! Owns what one worker counts. A tally covers one second; the conductor adds them up.

use super::flight::Flights;
use outcome::{Latencies, Totals};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
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
    /// Over the whole run, for the allowance around membership changes.
    #[serde(skip)]
    pub flights: Flights,
}

impl Tally {
    pub fn error(&mut self, what: String) {
        *self.totals.failures.entry(what).or_default() += 1;
    }

    /// Rounds that were due and that nobody began.
    pub fn unbegun(&mut self, reason: &str, rounds: u64) {
        if rounds > 0 {
            *self.totals.unbegun.entry(reason.into()).or_default() += rounds;
        }
    }

    pub fn delivered(&mut self, due_ns: u64, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(due_ns);
        self.latencies.delivery.record(took_ns);
        self.flights.record(due_ns, now_ns);
    }

    pub fn answered(&mut self, due_ns: u64, now_ns: u64) {
        let took_ns = now_ns.saturating_sub(due_ns);
        self.latencies.ack.record(took_ns);
        self.totals.acked += 1;
    }

    /// Hands over what was counted since the last time.
    pub fn take(&mut self, second: u64, own_cpu_ns: u64) -> Tally {
        let next = Tally {
            connections: self.connections,
            arrived: self.arrived,
            absent: self.absent,
            flights: std::mem::take(&mut self.flights),
            ..Tally::default()
        };
        Tally {
            second,
            own_cpu_ns,
            own_wait_ns: crate::clock::own_wait_ns(),
            ..std::mem::replace(self, next)
        }
    }
}
