//! What carries messages between nodes, as Redis does: in order to each subscriber, mostly. It loses what a subscriber misses, may lose all
//! for a while, may stand still, and some messages come twice or late.

use cluster::outlet::{Channel, Publish};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::sync::Arc;

const MS: u64 = 1_000;

/// A subscriber: a life, and the number of its node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subscriber {
    pub(crate) life: usize,
    pub(crate) number: u16,
}

/// What becomes of a batch.
#[derive(Debug, Default)]
pub(crate) struct Fate {
    /// When each message comes to which life.
    pub(crate) arrivals: Vec<(u64, usize, Arc<[u8]>)>,
    /// When its publisher hears of it, and whether all of it was taken.
    pub(crate) answered_us: u64,
    pub(crate) is_taken: bool,
}

#[derive(Debug)]
pub(crate) struct Engine {
    dice: Rng,
    /// It acknowledges what it loses.
    losing_until: u64,
    frozen_until: u64,
    /// Until when a node hears nothing, and until when it is not heard either.
    cut_until: BTreeMap<u16, u64>,
    alone_until: BTreeMap<u16, u64>,
    /// Keeps the order of messages to a life.
    last: BTreeMap<usize, u64>,
}

impl Engine {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Rng::with_seed(!seed),
            losing_until: 0,
            frozen_until: 0,
            cut_until: BTreeMap::new(),
            alone_until: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    pub(crate) fn lose(&mut self, until_us: u64) {
        self.losing_until = self.losing_until.max(until_us);
    }

    pub(crate) fn freeze(&mut self, until_us: u64) {
        self.frozen_until = self.frozen_until.max(until_us);
    }

    pub(crate) fn cut(&mut self, number: u16, until_us: u64) {
        self.cut_until.insert(number, until_us);
    }

    pub(crate) fn leave_alone(&mut self, number: u16, until_us: u64) {
        self.cut(number, until_us);
        self.alone_until.insert(number, until_us);
    }

    /// All works again.
    pub(crate) fn heal(&mut self) {
        (self.losing_until, self.frozen_until) = (0, 0);
        self.cut_until.clear();
        self.alone_until.clear();
    }

    /// Nobody hears this node.
    pub(crate) fn is_alone(&self, number: u16, at_us: u64) -> bool {
        at_us < self.alone_until.get(&number).copied().unwrap_or(0)
    }

    pub(crate) fn publish(
        &mut self,
        now_us: u64,
        from: u16,
        batch: &[Publish],
        all: &[Subscriber],
    ) -> Fate {
        let there_us = now_us + self.dice.u64(30..200);
        let is_alone = self.is_alone(from, there_us);
        let works = there_us >= self.frozen_until && !is_alone;
        let mut fate = Fate {
            arrivals: Vec::new(),
            answered_us: there_us + if works { 100 } else { 100 * MS },
            is_taken: works,
        };
        if works {
            self.carry(batch, there_us, all, &mut fate.arrivals);
        } else if !is_alone && self.dice.bool() {
            // Nobody knows how much of it an engine had read that is given up.
            let half = &batch[..batch.len() / 2];
            self.carry(half, self.frozen_until, all, &mut fate.arrivals);
        }
        fate
    }

    fn carry(
        &mut self,
        batch: &[Publish],
        at_us: u64,
        all: &[Subscriber],
        arrivals: &mut Vec<(u64, usize, Arc<[u8]>)>,
    ) {
        if at_us < self.losing_until {
            return;
        }
        for publish in batch {
            let hears = |one: &&Subscriber| match publish.channel {
                Channel::Flood => true,
                Channel::Inbox(node) => node.0 == one.number,
            };
            for one in all.iter().filter(hears) {
                if at_us < self.cut_until.get(&one.number).copied().unwrap_or(0) {
                    continue;
                }
                let at_us = self.arrival(one.life, at_us);
                arrivals.push((at_us, one.life, Arc::clone(&publish.frame)));
                if self.dice.u8(..) < 8 {
                    let again = at_us + self.dice.u64(..50 * MS);
                    arrivals.push((again, one.life, Arc::clone(&publish.frame)));
                }
            }
        }
    }

    fn arrival(&mut self, life: usize, at_us: u64) -> u64 {
        let last = self.last.entry(life).or_default();
        let arrival = (at_us + self.dice.u64(30..900)).max(*last);
        if self.dice.u8(..) < 8 {
            // A late one is overtaken.
            return arrival + self.dice.u64(..300 * MS);
        }
        *last = arrival;
        arrival
    }
}
