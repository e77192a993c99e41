//! One worker: what it has got, what waits for it.

use crate::entry::Entry;
use crate::links::Link;
use crate::name::Name;
use std::collections::{BTreeSet, VecDeque};

/// Places in a queue that are kept while it is empty.
const QUEUE_KEPT: usize = 1_024;

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) instance: String,
    pub(crate) weight: u64,
    /// Another node is its first.
    pub(crate) away: bool,
    pub(crate) link: Option<Link>,
    /// Last sign of life; without a link: when it was lost.
    pub(crate) heard_ms: u64,
    pub(crate) leaving: bool,
    /// Since when it wants to end and has nothing left but questions.
    pub(crate) free_to_go_ms: Option<u64>,
    pub(crate) sockets: BTreeSet<Name>,
    /// Those of its sockets that move next: what comes for them waits for another worker.
    pub(crate) parting: BTreeSet<Name>,
    /// What it was sent and has not handled. The first has number `first`.
    pub(crate) sent: VecDeque<Entry>,
    first: u64,
    /// Number of the next item for the link: above the last number unless a resumed link gets some again.
    next: u64,
    in_flight_bytes: usize,
    /// When what it was sent began to wait, or last became shorter.
    pub(crate) progress_ms: u64,
    /// When last nothing waited for it to go on.
    free_ms: u64,
    /// What has no number yet.
    pub(crate) queue: VecDeque<Entry>,
    /// Number of the last command taken in, and of the last one that the worker was told of.
    pub(crate) commands: u64,
    pub(crate) commands_told: u64,
    /// Items that tell it of failed commands and that it has not handled.
    pub(crate) failures: usize,
    /// Whether it wants to decide about requests for sessions; `None` = it has not said.
    pub(crate) openings: Option<bool>,
    /// Requests that it was asked about, or let in, and whose sockets are not there yet.
    pub(crate) asked: usize,
    /// It attached as one that goes on, and was told to begin anew. Until it speaks, nobody knows whether it has read that.
    pub(crate) in_doubt: bool,
    /// `Welcome.taken` of that.
    pub(crate) taken: Option<u64>,
}

impl Worker {
    pub(crate) fn new(instance: String, weight: u32, now_ms: u64) -> Self {
        Self {
            instance,
            weight: u64::from(weight.max(1)),
            away: false,
            link: None,
            heard_ms: now_ms,
            leaving: false,
            free_to_go_ms: None,
            sockets: BTreeSet::new(),
            parting: BTreeSet::new(),
            sent: VecDeque::new(),
            first: 1,
            next: 1,
            in_flight_bytes: 0,
            progress_ms: now_ms,
            free_ms: now_ms,
            queue: VecDeque::new(),
            commands: 0,
            commands_told: 0,
            failures: 0,
            openings: None,
            asked: 0,
            in_doubt: false,
            taken: None,
        }
    }

    /// Number of the last item that it was sent.
    pub(crate) fn last(&self) -> u64 {
        self.first + self.sent.len() as u64 - 1
    }

    /// Of its commands, what its next life is told was taken in. While it is in doubt, that is what this one was told.
    pub(crate) fn legacy(&self) -> Option<u64> {
        match self.in_doubt {
            true => self.taken,
            false => Some(self.commands),
        }
    }

    /// The link begins again behind this number. `false`: that cannot be.
    pub(crate) fn rewind(&mut self, received: u64) -> bool {
        let possible = received < self.next && received + 1 >= self.first;
        if possible {
            self.next = received + 1;
        }
        possible
    }

    /// Number of the next item, and the item if the worker gets it again.
    pub(crate) fn again(&mut self) -> Option<&Entry> {
        let at = usize::try_from(self.next.checked_sub(self.first)?).ok()?;
        let entry = self.sent.get(at)?;
        self.next += 1;
        Some(entry)
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Sockets that it was given and has not begun to handle.
    pub(crate) fn newcomers(&self) -> usize {
        let given = self.sent.iter().chain(&self.queue);
        given.filter(|entry| entry.introduces()).count()
    }

    /// Something more may be under way. One item may always be, whatever its size.
    pub(crate) fn has_window(&self, window_bytes: usize) -> bool {
        self.in_flight_bytes < window_bytes
    }

    pub(crate) fn pop_waiting(&mut self) -> Option<Entry> {
        let entry = self.queue.pop_front();
        // After an outage it is large.
        if self.queue.is_empty() && self.queue.capacity() > QUEUE_KEPT {
            self.queue = VecDeque::new();
        }
        entry
    }

    pub(crate) fn send(&mut self, entry: Entry, now_ms: u64) {
        if self.sent.is_empty() {
            self.progress_ms = now_ms;
        }
        self.in_flight_bytes += entry.bytes;
        self.sent.push_back(entry);
        self.next += 1;
    }

    /// The oldest item, if it is handled by that number.
    pub(crate) fn pop_handled(&mut self, handled: u64, now_ms: u64) -> Option<Entry> {
        if self.first > handled {
            return None;
        }
        let entry = self.sent.pop_front()?;
        self.first += 1;
        self.next = self.next.max(self.first);
        self.in_flight_bytes -= entry.bytes;
        self.progress_ms = now_ms;
        Some(entry)
    }

    /// It has handled nothing for so long, and has something to handle.
    pub(crate) fn is_slow(&self, now_ms: u64, slow_after_ms: u64) -> bool {
        !self.sent.is_empty() && now_ms >= self.progress_ms + slow_after_ms
    }

    /// Time passes. More waits than its window or its link take, or it is to end and has something left.
    pub(crate) fn look(&mut self, now_ms: u64) {
        if self.queue.is_empty() && !self.leaving {
            self.free_ms = now_ms;
        }
    }

    /// The gateway stood still: what it heard of nobody counts for nobody.
    pub(crate) fn forgive(&mut self, now_ms: u64, still_ms: u64) {
        for moment in [&mut self.heard_ms, &mut self.free_ms] {
            *moment = now_ms.min(*moment + still_ms);
        }
    }

    /// It speaks, and has handled nothing for so long, although more waits for it.
    pub(crate) fn is_stalled(&self, now_ms: u64, stalled_after_ms: u64) -> bool {
        self.is_slow(now_ms, stalled_after_ms) && now_ms >= self.free_ms + stalled_after_ms
    }

    pub(crate) fn takes_sockets(&self) -> bool {
        self.link.is_some() && !self.leaving
    }

    /// Messages between servers reach it by this node.
    pub(crate) fn is_home(&self) -> bool {
        self.link.is_some() && !self.away && !self.leaving
    }

    /// Sockets that it has and will have, compared with its weight, as a fraction of the other's.
    pub(crate) fn is_freer_than(&self, other: &Self) -> bool {
        let has = |worker: &Self| (worker.sockets.len() + worker.asked) as u64;
        let (own, theirs) = (has(self), has(other));
        own * other.weight < theirs * self.weight
    }
}
