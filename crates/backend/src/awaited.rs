//! Clients that wait for the answers to their events, and until when.

use crate::message::Why;
use crate::name::Name;
use crate::state::Backend;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Default)]
pub(crate) struct Awaited {
    /// When their events came, the oldest first.
    came: VecDeque<(u64, Name, u64)>,
    /// Those whose sockets were without a worker meanwhile: when they are looked at again, and when they came.
    late: BTreeMap<(u64, Name, u64), u64>,
}

impl Backend {
    pub(crate) fn await_answer(&mut self, now_ms: u64, name: Name, ack: u64) {
        self.awaited.came.push_back((now_ms, name, ack));
    }

    /// Clients that waited for too long are told.
    pub(crate) fn end_waits(&mut self, now_ms: u64) {
        while let Some((came_ms, name, ack)) = self.next_due(now_ms) {
            self.end_wait(now_ms, came_ms, name, ack);
        }
    }

    /// The oldest that is due, or that has its answer: what was answered is not kept until its time.
    fn next_due(&mut self, now_ms: u64) -> Option<(u64, Name, u64)> {
        if let Some(first) = self.awaited.late.first_entry()
            && first.key().0 <= now_ms
        {
            let ((_, name, ack), came_ms) = first.remove_entry();
            return Some((came_ms, name, ack));
        }
        let (homes, timeout_ms) = (&self.homes, self.settings.answer_timeout_ms);
        self.awaited.came.pop_front_if(|(came_ms, name, ack)| {
            let home = homes.get(name);
            *came_ms + timeout_ms <= now_ms || home.is_none_or(|home| !home.open.contains(*ack))
        })
    }

    /// Time without a worker is not the worker's: `park_timeout` bounds it, and says so.
    fn end_wait(&mut self, now_ms: u64, came_ms: u64, name: Name, ack: u64) {
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        if !home.open.contains(ack) {
            return;
        }
        let began_ms = match home.worker {
            _ if self.calls.is_some() => came_ms,
            Some(_) => home.since_ms.max(came_ms),
            None => now_ms,
        };
        let began_ms = began_ms.min(came_ms + self.settings.park_timeout_ms);
        let due_ms = began_ms + self.settings.answer_timeout_ms;
        let why = match home.worker {
            None if self.calls.is_none() => Why::Absent,
            _ => Why::Unanswered,
        };
        if due_ms > now_ms {
            self.awaited.late.insert((due_ms, name, ack), came_ms);
        } else if let Some(freed) = home.settle(ack) {
            self.release_bytes(freed);
            self.refuse(name, ack, why);
        }
    }
}
