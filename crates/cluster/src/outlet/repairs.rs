//! Letters that peers asked for again: what is still to be sent, and what was sent a moment ago.

use super::lanes::Lanes;
use super::queue::{Channel, Publish, Queue, Worth};
use crate::bounds::REPAIRS_BYTES_MAX;
use crate::frame::{NodeId, Stream};
use std::collections::{BTreeMap, VecDeque};

/// A question that comes so soon after its answer was sent crossed it on the way.
pub(super) const CROSSING_US: u64 = 100_000;

/// Who asks, and for which of its sequences.
type Asker = (NodeId, Stream);

#[derive(Debug)]
struct Repair {
    asker: Asker,
    next: u64,
    to: u64,
}

/// A repair whose last frame has left: the same question may still be on its way.
#[derive(Debug)]
struct Answered {
    asker: Asker,
    to: u64,
    /// The frame's.
    number: u64,
    /// When the engine had taken it.
    taken_us: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Repairs {
    /// Bytes in one batch, so that repairs do not hold up new letters.
    share_bytes: usize,
    open: VecDeque<Repair>,
    answered: Vec<Answered>,
    /// Bytes that the engine has not taken, by peer.
    under_way: BTreeMap<NodeId, usize>,
    /// Repairs have left since a batch ended: the next ones wait for the end of one. It need not be the same: behind a server that
    /// stands still, the others go on.
    wait: bool,
}

impl Repairs {
    pub(super) fn new(share_bytes: usize) -> Self {
        Self {
            share_bytes,
            ..Self::default()
        }
    }

    pub(super) fn forget(&mut self, node: NodeId) {
        self.open.retain(|repair| repair.asker.0 != node);
        self.answered.retain(|answered| answered.asker.0 != node);
    }

    /// The first position of a question that was not answered a moment ago.
    pub(super) fn unanswered(&mut self, asker: Asker, from: u64, now_us: u64) -> u64 {
        let waits = |taken_us: u64| now_us < taken_us + CROSSING_US;
        self.answered
            .retain(|answered| answered.taken_us.is_none_or(waits));
        let same = self.answered.iter().filter(|one| one.asker == asker);
        let upto = same.map(|answered| answered.to).max();
        upto.map_or(from, |upto| from.max(upto + 1))
    }

    /// The peer asks again for what does not come: one question at a time is enough.
    pub(super) fn ask(&mut self, asker: Asker, next: u64, to: u64) {
        if !self.open.iter().any(|repair| repair.asker == asker) {
            self.open.push_back(Repair { asker, next, to });
        }
    }

    /// Whether some could leave now.
    pub(super) fn may_leave(&self) -> bool {
        !self.wait && (self.open.iter()).any(|repair| self.has_room(repair.asker.0))
    }

    fn has_room(&self, node: NodeId) -> bool {
        self.under_way.get(&node) < Some(&REPAIRS_BYTES_MAX)
    }

    /// Queues the next ones, within their share of a batch. How many.
    pub(super) fn leave(&mut self, lanes: &Lanes, queue: &mut Queue) -> u64 {
        if self.wait {
            return 0;
        }
        let (mut share, mut left, mut later) = (self.share_bytes, 0, Vec::new());
        while share > 0
            && let Some(mut repair) = self.open.pop_front()
        {
            let (node, stream) = repair.asker;
            if !self.has_room(node) {
                later.push(repair);
                continue;
            }
            let Some((last, frame)) = lanes.find(node, stream, repair.next, repair.to) else {
                continue;
            };
            share = share.saturating_sub(frame.len());
            left += 1;
            self.wait = true;
            *self.under_way.entry(node).or_default() += frame.len();
            let number = queue.push(Channel::Inbox(node), frame, Worth::Repair);
            repair.next = last + 1;
            // In turns: a receiver needs both sequences, and others wait as well.
            if repair.next <= repair.to {
                self.open.push_back(repair);
            } else {
                self.answered.push(Answered {
                    asker: repair.asker,
                    to: repair.to,
                    number,
                    taken_us: None,
                });
            }
        }
        self.open.extend(later);
        left
    }

    /// A batch ended: the engine took these frames of it.
    pub(super) fn ended(&mut self, batch: &[Publish], taken: impl Fn(usize) -> bool, now_us: u64) {
        self.wait = false;
        for (at, publish) in batch.iter().enumerate() {
            if let (Worth::Repair, Channel::Inbox(node)) = (publish.worth, publish.channel) {
                self.note(node, publish, taken(at).then_some(now_us));
            }
        }
    }

    fn note(&mut self, node: NodeId, publish: &Publish, taken_us: Option<u64>) {
        if let Some(bytes) = self.under_way.get_mut(&node) {
            *bytes -= publish.frame.len();
            if *bytes == 0 {
                self.under_way.remove(&node);
            }
        }
        let mut answered = self.answered.iter();
        let Some(at) = answered.position(|answered| answered.number == publish.number) else {
            return;
        };
        match taken_us {
            Some(_) => self.answered[at].taken_us = taken_us,
            None => drop(self.answered.swap_remove(at)),
        }
    }
}
