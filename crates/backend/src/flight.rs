//! The items that a worker was sent and has not handled, by number.

use crate::done::Done;
use crate::entry::Entry;
use crate::pace::Pace;
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug)]
pub(crate) struct Flight {
    /// Items it has not begun, as far as it has said so. The first has number `first`.
    sent: VecDeque<Entry>,
    /// Items it has begun.
    begun: BTreeMap<u64, Entry>,
    /// All up to this number have begun, by its own word.
    begun_told: u64,
    first: u64,
    /// Number of the next item for the link: above the last number unless a resumed link gets some again.
    next: u64,
    bytes: usize,
    /// When what it was sent began to wait, or last became shorter.
    progress_ms: u64,
    /// Of what was handled.
    pub(crate) pace: Pace,
}

impl Flight {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            sent: VecDeque::new(),
            begun: BTreeMap::new(),
            begun_told: 0,
            first: 1,
            next: 1,
            bytes: 0,
            progress_ms: now_ms,
            pace: Pace::default(),
        }
    }

    /// As another process had it. The link is to come still, and says where it begins again.
    pub(crate) fn restored(
        now_ms: u64,
        (first, begun_told): (u64, u64),
        sent: VecDeque<Entry>,
        begun: BTreeMap<u64, Entry>,
    ) -> Self {
        Self {
            next: first + sent.len() as u64,
            bytes: sent.iter().map(|entry| entry.bytes).sum(),
            sent,
            begun,
            begun_told,
            first,
            ..Self::new(now_ms)
        }
    }

    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    pub(crate) fn begun_told(&self) -> u64 {
        self.begun_told
    }

    pub(crate) fn unbegun(&self) -> impl Iterator<Item = &Entry> {
        self.sent.iter()
    }

    pub(crate) fn begun(&self) -> impl Iterator<Item = (u64, &Entry)> {
        self.begun.iter().map(|(number, entry)| (*number, entry))
    }

    /// Number of the last item that it was sent.
    pub(crate) fn last(&self) -> u64 {
        self.first + self.sent.len() as u64 - 1
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The link begins again behind this number. `false`: that cannot be.
    pub(crate) fn rewind(&mut self, received: u64) -> bool {
        let possible = received < self.next && received + 1 >= self.first;
        if possible {
            self.next = received + 1;
        }
        possible
    }

    /// The next item, if the worker gets it again.
    pub(crate) fn again(&mut self) -> Option<&Entry> {
        let at = usize::try_from(self.next.checked_sub(self.first)?).ok()?;
        let entry = self.sent.get(at)?;
        self.next += 1;
        Some(entry)
    }

    /// Something more may be under way. One item may always be, whatever its size.
    pub(crate) fn has_room(&self, window_bytes: usize) -> bool {
        self.bytes < window_bytes
    }

    /// How much of its window is under way; one large item may be more than all of it.
    pub(crate) fn share_of(&self, window_bytes: usize) -> f64 {
        self.bytes as f64 / window_bytes.max(1) as f64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty() && self.begun.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.sent.len() + self.begun.len()
    }

    /// Something was sent that has not begun.
    pub(crate) fn has_unbegun(&self) -> bool {
        !self.sent.is_empty()
    }

    /// This one is not handled.
    pub(crate) fn has(&self, number: u64) -> bool {
        number >= self.first || self.begun.contains_key(&number)
    }

    /// The worker has said so.
    pub(crate) fn has_begun(&self, number: u64) -> bool {
        number <= self.begun_told
    }

    pub(crate) fn send(&mut self, entry: Entry, now_ms: u64) {
        if self.sent.is_empty() {
            self.progress_ms = now_ms;
        }
        self.bytes += entry.bytes;
        self.sent.push_back(entry);
        self.next += 1;
    }

    /// The next item that is handled. Those before it that are not have begun.
    pub(crate) fn pop_handled(&mut self, done: &mut Done<'_>, now_ms: u64) -> Option<Entry> {
        self.begun_told = self.begun_told.max(done.begun());
        while self.first <= done.begun() {
            let entry = self.sent.pop_front()?;
            let number = self.first;
            self.first += 1;
            self.next = self.next.max(self.first);
            self.bytes -= entry.bytes;
            self.progress_ms = now_ms;
            if done.has(number) {
                return Some(self.handled(entry, now_ms));
            }
            self.begun.insert(number, entry);
        }
        let number = done.next_of(&self.begun)?;
        let entry = self.begun.remove(&number)?;
        self.progress_ms = now_ms;
        Some(self.handled(entry, now_ms))
    }

    fn handled(&mut self, entry: Entry, now_ms: u64) -> Entry {
        let took_ms = now_ms.saturating_sub(entry.came_ms);
        self.pace.note(now_ms, took_ms);
        entry
    }

    /// Nothing became shorter for so long.
    fn rests(&self, now_ms: u64, for_ms: u64) -> bool {
        now_ms >= self.progress_ms + for_ms
    }

    /// It has begun nothing of what it has for so long.
    pub(crate) fn is_slow(&self, now_ms: u64, slow_after_ms: u64) -> bool {
        !self.sent.is_empty() && self.rests(now_ms, slow_after_ms)
    }

    /// Items it has begun do not end.
    pub(crate) fn hangs(&self, now_ms: u64, stalled_after_ms: u64) -> bool {
        !self.begun.is_empty() && self.rests(now_ms, stalled_after_ms)
    }

    /// The oldest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.begun.values().chain(&self.sent)
    }

    pub(crate) fn into_entries(self) -> impl Iterator<Item = Entry> {
        self.begun.into_values().chain(self.sent)
    }
}
