//! Owns what a user sent, and which answers it still waits for. Pure.

use std::collections::VecDeque;

/// An event without an answer that its user does not wait for, or not yet.
#[derive(Clone, Copy, Debug)]
pub struct Flying {
    /// `None`: the message that comes back is the answer.
    pub id: Option<u32>,
    pub due_ns: u64,
    pub deadline_ns: u64,
}

#[derive(Debug, Default)]
pub struct Sent {
    next_id: u32,
    events: u64,
    /// Last sequence number by room, for the order of this publisher.
    published: Vec<(u64, u64)>,
    /// Unanswered events of steps with a `window`, oldest first.
    flying: VecDeque<Flying>,
    /// Ids whose answers were given up and have not come since, ascending.
    given_up: Vec<u32>,
}

impl Sent {
    pub fn take_id(&mut self) -> u32 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id - 1
    }

    /// Events sent so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    pub fn count_event(&mut self) {
        self.events += 1;
    }

    /// Distance to this user's message before in the stream of its worker; 0 for the first.
    pub fn back(&mut self, room: u64, sequence: u64) -> u32 {
        let known = self.published.iter_mut().find(|(own, _)| *own == room);
        match known {
            Some((_, last)) => (sequence - std::mem::replace(last, sequence)) as u32,
            None => {
                self.published.push((room, sequence));
                0
            }
        }
    }

    pub fn fly(&mut self, event: Flying) {
        self.flying.push_back(event);
    }

    /// When the oldest of so many unanswered events is given up.
    pub fn full_until_ns(&self, window: u32) -> Option<u64> {
        let oldest = self.flying.front();
        let is_full = self.flying.len() >= window as usize;
        Some(oldest.filter(|_| is_full)?.deadline_ns)
    }

    /// The event whose answer has come; `None` for the oldest message that comes back.
    pub fn land(&mut self, id: Option<u32>) -> Option<Flying> {
        let at = self.flying.iter().position(|flying| flying.id == id)?;
        self.flying.remove(at)
    }

    /// The question that an answer without a number is for.
    pub fn oldest_question(&self) -> Option<u32> {
        self.flying.iter().find_map(|flying| flying.id)
    }

    pub fn give_up(&mut self, id: u32) {
        self.given_up.push(id);
    }

    /// The oldest event makes room. Returns whether it was to be answered.
    pub fn give_up_oldest(&mut self) -> bool {
        let id = self.flying.pop_front().and_then(|oldest| oldest.id);
        self.given_up.extend(id);
        id.is_some()
    }

    /// Whether an answer that was given up comes after all.
    pub fn comes_late(&mut self, id: u32) -> bool {
        let at = self.given_up.iter().position(|given_up| *given_up == id);
        at.map(|at| self.given_up.remove(at)).is_some()
    }

    /// Answers that may still come on an open connection although nobody waits for them.
    pub fn given_up(&self) -> u64 {
        self.given_up.len() as u64
    }

    /// Answers that are waited for.
    pub fn awaited(&self) -> u64 {
        self.flying
            .iter()
            .filter(|event| event.id.is_some())
            .count() as u64
    }

    /// No answer can come any more: another connection would not bring it.
    pub fn cut(&mut self) {
        self.flying.clear();
        self.given_up.clear();
    }
}
