//! Owns what one worker counts. A tally covers one second; the conductor adds them up.

use super::flight::Flights;
use crate::latency::{Distribution, Latency};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Plain counts of one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub connects_attempted: u64,
    pub connects_succeeded: u64,
    pub sent: u64,
    /// Event messages received, copies included.
    pub received: u64,
    pub acks_expected: u64,
    pub acked: u64,
    /// Answered after they had been given up.
    pub acked_late: u64,
    /// Answers to what had been answered, or was never asked.
    #[serde(default)]
    pub acks_duplicated: u64,
    pub duplicated: u64,
    pub reordered: u64,
    /// For a room that this user never was in, or its own message sent back.
    pub stray: u64,
    /// Of those, for a room that this user never asked for.
    pub outside: u64,
    /// Own messages that have to come back to their sender, and those that did.
    pub echoes_expected: u64,
    pub echoes_received: u64,
    /// Joins and leaves asked for, and confirmed.
    pub joins_expected: u64,
    pub joined: u64,
    /// Pings of the server that were answered.
    pub heartbeats: u64,
    /// Of another run on the same server.
    pub foreign: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
}

/// Latencies of one second.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latencies {
    pub delivery: Distribution,
    pub ack: Distribution,
    pub connect: Distribution,
    /// Connects of users that were connected before.
    pub again: Distribution,
    /// How late the generator was against its schedule.
    pub turn_lag: Distribution,
    /// How late it was to read what had come. Kept apart: there are as many as reads, which would
    /// hide the few turns that were late.
    pub read_lag: Distribution,
}

/// Reasons with how often each occurred.
pub type Reasons = BTreeMap<String, u64>;

/// One worker's second, for the way to the conductor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Whole seconds since the start; `u64::MAX` for the rest after the last one.
    pub second: u64,
    pub counts: Counts,
    pub latencies: Latencies,
    pub connect_failures: Reasons,
    pub drops: Reasons,
    pub errors: Reasons,
    /// Rounds that were due and that nobody began.
    #[serde(default)]
    pub unbegun: Reasons,
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
    pub counts: Counts,
    pub delivery: Latency,
    pub ack: Latency,
    pub connect: Latency,
    pub again: Latency,
    pub turn_lag: Latency,
    pub read_lag: Latency,
    pub connect_failures: Reasons,
    pub drops: Reasons,
    pub errors: Reasons,
    pub unbegun: Reasons,
    pub connections: u64,
    pub arrived: u64,
    pub absent: u64,
    /// Over the whole run, for the allowance around membership changes.
    pub flights: Flights,
}

impl Tally {
    pub fn error(&mut self, what: String) {
        *self.errors.entry(what).or_default() += 1;
    }

    pub fn delivered(&mut self, due_ns: u64, now_ns: u64) {
        self.delivery.record(now_ns.saturating_sub(due_ns));
        self.flights.record(due_ns, now_ns);
    }

    /// Hands over what was counted since the last time.
    pub fn take(&mut self, second: u64, own_cpu_ns: u64) -> Report {
        Report {
            second,
            counts: std::mem::take(&mut self.counts),
            latencies: Latencies {
                delivery: self.delivery.take(),
                ack: self.ack.take(),
                connect: self.connect.take(),
                again: self.again.take(),
                turn_lag: self.turn_lag.take(),
                read_lag: self.read_lag.take(),
            },
            connect_failures: std::mem::take(&mut self.connect_failures),
            drops: std::mem::take(&mut self.drops),
            errors: std::mem::take(&mut self.errors),
            unbegun: std::mem::take(&mut self.unbegun),
            connections: self.connections,
            arrived: self.arrived,
            absent: self.absent,
            own_cpu_ns,
            own_wait_ns: crate::clock::own_wait_ns(),
        }
    }
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.connects_attempted += other.connects_attempted;
        self.connects_succeeded += other.connects_succeeded;
        self.sent += other.sent;
        self.received += other.received;
        self.acks_expected += other.acks_expected;
        self.acked += other.acked;
        self.acked_late += other.acked_late;
        self.acks_duplicated += other.acks_duplicated;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.stray += other.stray;
        self.outside += other.outside;
        self.echoes_expected += other.echoes_expected;
        self.echoes_received += other.echoes_received;
        self.joins_expected += other.joins_expected;
        self.joined += other.joined;
        self.heartbeats += other.heartbeats;
        self.foreign += other.foreign;
        self.bytes_sent += other.bytes_sent;
        self.bytes_received += other.bytes_received;
    }
}

impl Report {
    /// All that went wrong in it, as far as it is known before accounts are settled.
    pub fn error_count(&self) -> u64 {
        let kinds = [
            &self.connect_failures,
            &self.drops,
            &self.errors,
            &self.unbegun,
        ];
        kinds.iter().flat_map(|reasons| reasons.values()).sum()
    }
}

pub fn add_reasons(total: &mut Reasons, more: &Reasons) {
    for (reason, count) in more {
        *total.entry(reason.clone()).or_default() += count;
    }
}
