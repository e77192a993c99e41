//! Configuration, bounds, counters and accounts.

/// Makes an enum whose variants have names in metrics and in the configuration: both stand in one line.
macro_rules! named {
    ($(#[$about:meta])* $visible:vis enum $list:ident {
        $($(#[$doc:meta])* $variant:ident = $name:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        $visible enum $list {
            $($(#[$doc])* $variant,)*
        }

        impl $list {
            /// The names, in the order of the variants.
            $visible const NAMES: [&'static str; [$($name),*].len()] = [$($name),*];
        }
    };
}

pub mod claims;
pub(crate) mod close;
pub mod config;
pub(crate) mod ends;
pub mod faults;
pub mod heartbeat;
pub mod ledger;
pub mod limits;
pub mod metrics;
pub mod places;
pub(crate) mod proxies;
pub mod tls;

use crate::config::Config;
use ends::Ends;
use ledger::Ledger;
use metrics::{Cells, Counts};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the hub was told to do, and what it counts.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) config: Arc<Config>,
    pub(crate) counts: Counts,
    pub(crate) ends: Ends,
    pub(crate) ledger: Ledger,
    /// What others see of the counts.
    cells: Arc<Cells>,
    /// Messages that had come when the turn began.
    messages_before: u64,
}

impl Books {
    pub(crate) fn new(config: Arc<Config>, cells: Arc<Cells>) -> Self {
        Self {
            config,
            counts: Counts::default(),
            ends: Ends::default(),
            ledger: Ledger::default(),
            cells,
            messages_before: 0,
        }
    }

    pub(crate) fn begin_turn(&self) {
        self.cells.in_turn.store(true, Ordering::Relaxed);
    }

    /// Books the turn and the messages that it brought.
    pub(crate) fn turn_took(&mut self, took_us: u64) {
        let messages = self.counts.messages_in - self.messages_before;
        self.messages_before = self.counts.messages_in;
        self.counts.turn_took(took_us, messages);
    }

    pub(crate) fn publish(&mut self) {
        self.counts.kept = self.ledger.sums();
        self.cells.publish(&self.counts);
    }

    pub(crate) fn end_turn(&self) {
        self.cells.in_turn.store(false, Ordering::Relaxed);
    }
}
