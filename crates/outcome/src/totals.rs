//! Owns what is counted in a run.

use super::NO_ANSWER;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Reasons with how often each occurred.
pub type Reasons = BTreeMap<String, u64>;

macro_rules! totals {
    ($($(#[$about:meta])* $name:ident;)*) => {
        /// What is counted: by a worker in a second, and settled of the whole run.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Totals {
            $($(#[$about])* pub $name: u64,)*
            /// Of all workers together.
            pub connections_peak: u64,
            pub connect_failures: Reasons,
            /// Connections that ended without the scenario asking for it, by reason.
            pub drops: Reasons,
            /// What else a user waited for in vain or was told, by reason: `expect: no "x" in time`.
            pub failures: Reasons,
            /// Rounds of loops that were due and not begun, by reason: load that was never offered.
            pub unbegun: Reasons,
        }

        impl Totals {
            /// Takes in another worker's or another second's; peaks do not add up.
            pub fn add(&mut self, more: &Totals) {
                $(self.$name += more.$name;)*
                let own = [&mut self.connect_failures, &mut self.drops, &mut self.failures, &mut self.unbegun];
                for (total, more) in own.into_iter().zip(more.reasons()) {
                    for (reason, count) in more {
                        *total.entry(reason.clone()).or_default() += count;
                    }
                }
            }
        }
    };
}

totals! {
    connects_attempted;
    connects_succeeded;
    /// Pings of the server that were answered.
    heartbeats;
    /// Messages of another run on the same server, counted nowhere else.
    foreign;
    sent;
    /// Events that reached clients: deliveries, copies, strays, and what the server sent by itself.
    heard;
    /// Deliveries that had to arrive; always `received + lost + not_waited_for`.
    expected;
    /// Expected deliveries that arrived, each counted once.
    received;
    /// Deliveries that may arrive or not, because their receiver was joining, leaving or lost.
    either_allowed;
    /// How many of those arrived.
    either_received;
    lost;
    duplicated;
    /// Arrived after a later message of the same publisher.
    reordered;
    /// Arrived although nobody sent it, or at a connection outside its room.
    stray;
    /// How many of those arrived at users that never asked for the room.
    outside;
    /// Own messages that had to come back to their sender, and did. Both are among the deliveries.
    echoes_expected;
    echoes_received;
    /// Joins and leaves asked for, and confirmed. Both are among the acknowledgements.
    joins_expected;
    joined;
    acks_expected;
    /// In time.
    acked;
    /// Answered after the step's `within`.
    acked_late;
    /// Deliveries, acknowledgements and connects that were under way or lost when somebody ended the
    /// wait for stragglers: which of both is not known.
    not_waited_for;
    acks_not_waited_for;
    connects_not_waited_for;
    /// Answers to what had been answered before, or was never asked.
    acks_duplicated;
    bytes_sent;
    bytes_received;
}

impl Totals {
    fn reasons(&self) -> [&Reasons; 4] {
        let Totals {
            connect_failures,
            drops,
            failures,
            unbegun,
            ..
        } = self;
        [connect_failures, drops, failures, unbegun]
    }

    /// All that went wrong, as far as it is known before accounts are settled.
    pub fn fault_count(&self) -> u64 {
        let reasons = self.reasons().into_iter();
        reasons.flat_map(|reasons| reasons.values()).sum()
    }

    pub fn failed_connects(&self) -> u64 {
        self.connect_failures.values().sum()
    }

    pub fn dropped(&self) -> u64 {
        self.drops.values().sum()
    }

    /// Answers and events that were waited for in vain, and complaints of the server.
    pub fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// Acknowledgements that were still waited for when the run ended; those that were given up
    /// before are failures.
    pub fn unanswered(&self) -> u64 {
        let is_late = |(why, _): &(&String, &u64)| why.ends_with(NO_ANSWER);
        let given_up: u64 = self.failures.iter().filter(is_late).map(|(_, n)| n).sum();
        let missing = self.acks_expected.saturating_sub(self.acked);
        missing.saturating_sub(given_up + self.acks_not_waited_for)
    }

    /// Acknowledgements that never came.
    pub fn acks_missing(&self) -> u64 {
        self.acks_expected
            .saturating_sub(self.acked + self.acked_late + self.acks_not_waited_for)
    }

    /// Share of all deliveries that could go either way, so that their loss would not show.
    pub fn unjudged(&self) -> f64 {
        let all = (self.expected + self.either_allowed).max(1);
        self.either_allowed as f64 / all as f64
    }

    pub fn rounds_unbegun(&self) -> u64 {
        self.unbegun.values().sum()
    }

    /// Every expected delivery arrived exactly once and in order.
    pub fn is_clean(&self) -> bool {
        self.lost + self.not_waited_for + self.duplicated + self.reordered + self.stray == 0
            && self.acked >= self.acks_expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_given_up_are_not_missing_twice() {
        let mut totals = Totals {
            acks_expected: 10,
            acked: 4,
            ..Totals::default()
        };
        assert_eq!(totals.unanswered(), 6);
        totals.failures.insert(format!("emit: {NO_ANSWER}"), 5);
        totals.failures.insert("expect: no \"x\" in time".into(), 3);
        assert_eq!(totals.unanswered(), 1);
    }
}
