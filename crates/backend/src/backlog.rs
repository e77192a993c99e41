//! The items that wait for a worker and have no number yet, and the choice of those that may go out now.

use crate::bounds::{ALONE_MS, CAREFUL_MS, QUEUE_KEPT};
use crate::entry::Entry;
use crate::name::Name;
use std::collections::VecDeque;

/// An item that is the only one under way, because workers ended while they had it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sole {
    pub(crate) about: Option<Name>,
    pub(crate) life: u64,
    pub(crate) sequence: u64,
    pub(crate) number: u64,
    since_ms: u64,
}

impl Sole {
    pub(crate) fn is(&self, entry: &Entry) -> bool {
        (self.about, self.life, self.sequence) == (entry.about, entry.life, entry.sequence)
    }

    /// Others wait for it no longer.
    pub(crate) fn is_old(&self, now_ms: u64) -> bool {
        now_ms >= self.since_ms + ALONE_MS
    }
}

#[derive(Debug, Default)]
pub(crate) struct Backlog {
    queue: VecDeque<Entry>,
    /// Those of them that are about no socket.
    replies: usize,
    sole: Option<Sole>,
    /// Since when items go out alone, one after the other.
    careful_ms: Option<u64>,
}

impl Backlog {
    pub(crate) fn push(&mut self, entry: Entry) {
        self.replies += usize::from(entry.about.is_none());
        self.queue.push_back(entry);
    }

    /// The next item to send, if one may go now. `idle`: nothing is under way.
    pub(crate) fn pop(&mut self, now_ms: u64, idle: bool) -> Option<Entry> {
        let entry = match self.may_send_all(now_ms, idle) {
            true => self.queue.pop_front(),
            false => self.pop_reply(),
        }?;
        self.replies -= usize::from(entry.about.is_none());
        // After an outage it is large.
        if self.queue.is_empty() && self.queue.capacity() > QUEUE_KEPT {
            self.queue = VecDeque::new();
        }
        Some(entry)
    }

    /// An item that goes alone waits until nothing is under way, and others wait for it.
    fn may_send_all(&mut self, now_ms: u64, idle: bool) -> bool {
        if self.sole.is_some() {
            return false;
        }
        let Some(next) = self.queue.front() else {
            self.careful_ms = None;
            return true;
        };
        if !next.goes_alone() {
            return true;
        }
        let since_ms = *self.careful_ms.get_or_insert(now_ms);
        now_ms >= since_ms + CAREFUL_MS || idle
    }

    /// The handler of an item that is alone may wait for one: it goes out of turn.
    fn pop_reply(&mut self) -> Option<Entry> {
        if self.replies == 0 {
            return None;
        }
        let at = self.queue.iter().position(|entry| entry.about.is_none())?;
        self.queue.remove(at)
    }

    /// It goes out under this number; if it goes alone, it is the only one.
    pub(crate) fn sends(&mut self, entry: &Entry, number: u64, now_ms: u64) {
        if entry.alone {
            self.sole = Some(Sole {
                about: entry.about,
                life: entry.life,
                sequence: entry.sequence,
                number,
                since_ms: now_ms,
            });
        }
    }

    pub(crate) fn sole(&self) -> Option<Sole> {
        self.sole
    }

    pub(crate) fn end_sole(&mut self) {
        self.sole = None;
    }

    /// Whether an item that waits goes out alone now.
    pub(crate) fn is_careful(&self, now_ms: u64) -> bool {
        let since_ms = self.careful_ms;
        since_ms.is_some_and(|since_ms| now_ms < since_ms + CAREFUL_MS)
    }

    /// Items wait for others to be handled, or for time to pass.
    pub(crate) fn holds_back(&self) -> bool {
        self.sole.is_some() || self.careful_ms.is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.queue.iter()
    }

    pub(crate) fn into_entries(self) -> VecDeque<Entry> {
        self.queue
    }
}
