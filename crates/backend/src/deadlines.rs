//! Clients that wait for a decision or for the answer to an event, and until when.

use crate::bounds::{LOOK_MS, STILL_MS};
use crate::message::Why;
use crate::name::Name;
use crate::queue::Queue;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    /// Newcomers, by the numbers of their CONNECTs.
    decisions: VecDeque<(u64, Name, u64)>,
    /// When the events came whose answers are awaited, the oldest first.
    came: VecDeque<(u64, Name, u64)>,
    /// Those whose sockets were without a worker meanwhile: when they are looked at again, and when they came.
    late: BTreeMap<(u64, Name, u64), u64>,
    ticked_ms: u64,
    looked_ms: u64,
}

impl Deadlines {
    pub(crate) fn decide_by(&mut self, due_ms: u64, name: Name, number: u64) {
        self.decisions.push_back((due_ms, name, number));
    }

    /// The next newcomer about whom somebody should have decided by now, or has: nobody waits for those.
    pub(crate) fn next_decision(&mut self, queue: &Queue) -> Option<(Name, u64)> {
        let next = self.decisions.pop_front_if(|(due_ms, name, number)| {
            *due_ms <= queue.now_ms || !queue.homes.waits_for_decision(name, *number)
        });
        next.map(|(_, name, number)| (name, number))
    }

    /// Nobody waits for a decision or an answer. Those that have theirs count until time passes.
    pub(crate) fn are_none(&self) -> bool {
        self.decisions.is_empty() && self.came.is_empty() && self.late.is_empty()
    }

    /// An event came whose client waits for the answer.
    pub(crate) fn answer_by(&mut self, now_ms: u64, name: Name, ack: u64) {
        self.came.push_back((now_ms, name, ack));
    }

    /// The newcomers about whom somebody is to decide, and when that is due.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = (u64, Name, u64)> {
        self.decisions.iter().copied()
    }

    /// Answers that are awaited, some of them in vain by now: when their events came.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (u64, Name, u64)> {
        let late = self.late.iter();
        let late = late.map(|((_, name, ack), came_ms)| (*came_ms, *name, *ack));
        late.chain(self.came.iter().copied())
    }

    /// Time passes. Returns for how long nobody said so: the gateway itself stood still, and heard of nobody.
    pub(crate) fn tick(&mut self, now_ms: u64) -> Option<u64> {
        let last_ms = std::mem::replace(&mut self.ticked_ms, now_ms);
        let still_ms = now_ms.saturating_sub(last_ms);
        (last_ms > 0 && still_ms > STILL_MS).then_some(still_ms)
    }

    /// It is time to look at those that wait for an endpoint.
    pub(crate) fn looks(&mut self, now_ms: u64) -> bool {
        let due = now_ms >= self.looked_ms + LOOK_MS;
        if due {
            self.looked_ms = now_ms;
        }
        due
    }

    /// Clients that waited for too long are told.
    pub(crate) fn end_waits(&mut self, queue: &mut Queue) {
        while let Some((came_ms, name, ack)) = self.next_due(queue) {
            self.end_wait(queue, came_ms, name, ack);
        }
    }

    /// The oldest that is due, or that has its answer: what was answered is not kept until its time.
    fn next_due(&mut self, queue: &Queue) -> Option<(u64, Name, u64)> {
        if let Some(first) = self.late.first_entry()
            && first.key().0 <= queue.now_ms
        {
            let ((_, name, ack), came_ms) = first.remove_entry();
            return Some((came_ms, name, ack));
        }
        let timeout_ms = queue.settings.answer_timeout_ms;
        self.came.pop_front_if(|(came_ms, name, ack)| {
            let home = queue.homes.last(name);
            *came_ms + timeout_ms <= queue.now_ms
                || home.is_none_or(|home| !home.items.awaits(*ack))
        })
    }

    /// Time without a worker is not the worker's: `park_timeout` bounds it, and says so.
    fn end_wait(&mut self, queue: &mut Queue, came_ms: u64, name: Name, ack: u64) {
        let Some(home) = queue.homes.last(&name) else {
            return;
        };
        if !home.items.awaits(ack) {
            return;
        }
        let called = queue.is_called();
        let began_ms = match home.worker {
            _ if called => came_ms,
            Some(_) => home.since_ms.max(came_ms),
            None => queue.now_ms,
        };
        let began_ms = began_ms.min(came_ms + queue.settings.park_timeout_ms);
        let due_ms = began_ms + queue.settings.answer_timeout_ms;
        let why = match home.worker {
            None if !called => Why::Absent,
            _ => Why::Unanswered,
        };
        if due_ms > queue.now_ms {
            self.late.insert((due_ms, name, ack), came_ms);
        } else if queue.settle_ack(name, ack) {
            queue.outlet.refuse(name, ack, why);
        }
    }
}
