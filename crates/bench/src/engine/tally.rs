//! Owns what one worker counts. A tally covers one second; the conductor adds them up.

use super::flight::Flights;
use crate::latency::Distribution;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

macro_rules! counts {
    ($($(#[$about:meta])* $name:ident;)*) => {
        /// Plain counts of one second.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Counts { $($(#[$about])* pub $name: u64),* }

        impl Counts {
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counts! {
    connects_attempted;
    connects_succeeded;
    sent;
    /// Event messages received, copies included.
    received;
    acks_expected;
    acked;
    /// Answered after they had been given up.
    acked_late;
    /// Answers to what had been answered, or was never asked.
    acks_duplicated;
    duplicated;
    reordered;
    /// For a room that this user never was in, or its own message sent back.
    stray;
    /// Of those, for a room that this user never asked for.
    outside;
    /// Own messages that have to come back to their sender, and those that did.
    echoes_expected;
    echoes_received;
    /// Joins and leaves asked for, and confirmed.
    joins_expected;
    joined;
    /// Pings of the server that were answered.
    heartbeats;
    /// Of another run on the same server.
    foreign;
    bytes_sent;
    bytes_received;
}

/// One of each kind of latency.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Kinds {
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

impl Kinds {
    pub fn merge(&mut self, more: &Kinds) {
        self.delivery.merge(&more.delivery);
        self.ack.merge(&more.ack);
        self.connect.merge(&more.connect);
        self.again.merge(&more.again);
        self.turn_lag.merge(&more.turn_lag);
        self.read_lag.merge(&more.read_lag);
    }
}

/// Reasons with how often each occurred.
pub type Reasons = BTreeMap<String, u64>;

/// Everything that went wrong, by reason.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Faults {
    pub connect_failures: Reasons,
    pub drops: Reasons,
    pub errors: Reasons,
    /// Rounds that were due and that nobody began.
    pub unbegun: Reasons,
}

/// One worker's second, for the way to the conductor.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Whole seconds since the start; `u64::MAX` for the rest after the last one.
    pub second: u64,
    pub counts: Counts,
    pub latencies: Kinds,
    pub faults: Faults,
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
    pub latencies: Kinds,
    pub faults: Faults,
    pub connections: u64,
    pub arrived: u64,
    pub absent: u64,
    /// Over the whole run, for the allowance around membership changes.
    pub flights: Flights,
}

impl Tally {
    pub fn error(&mut self, what: String) {
        *self.faults.errors.entry(what).or_default() += 1;
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
            counts: std::mem::take(&mut self.counts),
            latencies: std::mem::take(&mut self.latencies),
            faults: std::mem::take(&mut self.faults),
            connections: self.connections,
            arrived: self.arrived,
            absent: self.absent,
            own_cpu_ns,
            own_wait_ns: crate::clock::own_wait_ns(),
        }
    }
}

impl Report {
    /// All that went wrong in it, as far as it is known before accounts are settled.
    pub fn error_count(&self) -> u64 {
        let kinds = self.faults.kinds().into_iter();
        kinds.flat_map(|reasons| reasons.values()).sum()
    }
}

impl Faults {
    fn kinds(&self) -> [&Reasons; 4] {
        [
            &self.connect_failures,
            &self.drops,
            &self.errors,
            &self.unbegun,
        ]
    }

    pub fn add(&mut self, more: &Faults) {
        let own = [
            &mut self.connect_failures,
            &mut self.drops,
            &mut self.errors,
            &mut self.unbegun,
        ];
        for (total, more) in own.into_iter().zip(more.kinds()) {
            for (reason, count) in more {
                *total.entry(reason.clone()).or_default() += count;
            }
        }
    }
}
