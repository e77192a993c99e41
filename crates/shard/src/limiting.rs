//! What users and addresses have used of rates, for a process that takes over and in it.

use crate::clock::Clock;
use crate::shards::Shards;
use handoff::{Limiters, Rest, Share};
use hub::Process;
use std::time::Instant;

/// The clock and the limiters of a process, for its successor and for what came from the process before.
#[derive(Clone, Debug)]
pub struct Limiting {
    process: Process,
    clock: Clock,
}

impl Shards {
    pub fn limiting(&self) -> Limiting {
        Limiting {
            process: self.process().clone(),
            clock: self.clock(),
        }
    }
}

impl Limiting {
    /// With what a successor begins.
    pub fn onset(&self) -> handoff::Onset {
        handoff::Onset {
            clock_ms: self.clock.shown_at(Instant::now()).as_millis() as u64,
            seed: self.process.meters.seed().to_vec(),
        }
    }

    /// What users and addresses have used of rates.
    pub fn pages(&self) -> Vec<Limiters> {
        self.process.limiters(self.clock.limiter_us(Instant::now()))
    }

    /// What this node has of limits that nodes share.
    pub fn shares(&self) -> Vec<Share> {
        self.process.shares()
    }

    /// Of those that have no share of their own.
    pub fn rests(&self) -> Vec<Rest> {
        self.process.rests()
    }

    /// Goes on with that.
    pub fn take_rest(&self, rest: &Rest) {
        self.process.take_rest(rest);
    }

    /// Goes on with a share.
    pub fn take_share(&self, share: &Share) {
        let now_us = self.clock.limiter_us(Instant::now());
        self.process.take_share(share, now_us);
    }

    /// Goes on with what the process before had. Nobody is read yet.
    pub fn take(&self, page: &Limiters) {
        let now_us = self.clock.limiter_us(Instant::now());
        self.process.take_limiters(page, now_us);
    }
}
