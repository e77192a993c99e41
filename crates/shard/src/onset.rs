//! With what the shards of a process begin that takes over: the clock of limiters goes on, and what was used of rates is used.

use crate::clock::Clock;
use hub::Process;
use hub::config::Rates;
use std::time::{Duration, Instant};

/// What another process has told, and when it came.
#[derive(Clone, Copy, Debug)]
pub struct Onset {
    clock: Duration,
    seed: Option<[u64; 2]>,
    came: Instant,
}

impl Onset {
    /// It came just now.
    pub fn of(told: &handoff::Onset) -> Self {
        Self {
            clock: Duration::from_millis(told.clock_ms),
            seed: <[u64; 2]>::try_from(&*told.seed).ok(),
            came: Instant::now(),
        }
    }

    pub(crate) fn clock(this: Option<Self>) -> Clock {
        this.map_or_else(Clock::new, |own| Clock::going_on(own.clock, own.came))
    }

    pub(crate) fn process(this: Option<Self>, rates: &Rates) -> Process {
        let seed = this.and_then(|own| own.seed);
        seed.map_or_else(|| Process::new(rates), |seed| Process::seeded(rates, seed))
    }
}
