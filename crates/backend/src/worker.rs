//! One worker: what it has got, what waits for it.

use crate::done::Done;
use crate::entry::Entry;
use crate::links::Link;
use crate::name::Name;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Places in a queue that are kept while it is empty.
const QUEUE_KEPT: usize = 1_024;
/// An item that is sent alone keeps the others waiting for so long at most: then it has begun, and only waits for something itself.
const ALONE_MS: u64 = 5_000;
/// So many commands are taken in before the worker is told of it by a message of its own, which would wake it.
const CONFIRMED_EACH: u64 = 64;
/// It is told no later than this, with what has come meanwhile.
const CONFIRMED_MS: u64 = 20;
/// Items go out alone for so long at most, in a row: then all that waits goes out as ever.
const CAREFUL_MS: u64 = 30_000;

/// An item that is the only one under way, because workers ended while they had it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sole {
    pub(crate) about: Option<Name>,
    pub(crate) sequence: u64,
    number: u64,
    since_ms: u64,
}

/// What a worker has and waits for, counted.
#[derive(Debug, Default)]
struct Counted {
    /// Sockets that it was given and has not handled.
    newcomers: usize,
    /// Items in its queue about no socket.
    replies: usize,
    /// Once it leaves: items by socket.
    busy: Option<HashMap<Name, usize, FixedState>>,
}

impl Counted {
    fn add(&mut self, entry: &Entry) {
        self.newcomers += usize::from(entry.introduces());
        if let (Some(busy), Some(name)) = (&mut self.busy, entry.about) {
            *busy.entry(name).or_default() += 1;
        }
    }

    fn take(&mut self, entry: &Entry) {
        self.newcomers -= usize::from(entry.introduces());
        if let (Some(busy), Some(name)) = (&mut self.busy, entry.about)
            && let Some(many) = busy.get_mut(&name)
        {
            *many -= 1;
            if *many == 0 {
                busy.remove(&name);
            }
        }
    }
}

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
    /// What it was sent and has not begun, as far as it has said so. The first has number `first`.
    sent: VecDeque<Entry>,
    /// What it has begun and not handled, by number.
    begun: BTreeMap<u64, Entry>,
    /// All up to this number have begun, by its own word.
    begun_told: u64,
    /// It says `begun` before it handles an item that is alone.
    pub(crate) announces: bool,
    /// The item that is the only one under way.
    sole: Option<Sole>,
    /// Since when its items go out alone, one after the other.
    careful_ms: Option<u64>,
    first: u64,
    /// Number of the next item for the link: above the last number unless a resumed link gets some again.
    next: u64,
    in_flight_bytes: usize,
    /// When what it was sent began to wait, or last became shorter.
    pub(crate) progress_ms: u64,
    /// When last nothing waited for it to go on.
    free_ms: u64,
    /// What has no number yet.
    queue: VecDeque<Entry>,
    counted: Counted,
    /// Number of the last command taken in, and of the last one that the worker was told of.
    pub(crate) commands: u64,
    pub(crate) commands_told: u64,
    /// When that was; 0 = it is to be told at once.
    pub(crate) told_ms: u64,
    /// Items that tell it of failed commands and that it has not handled.
    pub(crate) failures: usize,
    /// `FromWorker.overdue`, as it was last said.
    pub(crate) overdue: u64,
    /// `FromWorker.asks`, to be answered.
    pub(crate) asks: u64,
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
            begun: BTreeMap::new(),
            begun_told: 0,
            announces: false,
            sole: None,
            careful_ms: None,
            first: 1,
            next: 1,
            in_flight_bytes: 0,
            progress_ms: now_ms,
            free_ms: now_ms,
            queue: VecDeque::new(),
            counted: Counted::default(),
            commands: 0,
            commands_told: 0,
            told_ms: now_ms,
            failures: 0,
            overdue: 0,
            asks: 0,
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

    /// Sockets that it was given and has not handled.
    pub(crate) fn newcomers(&self) -> usize {
        self.counted.newcomers
    }

    /// It wants to end: its items are counted by socket from now on.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
        self.counted.busy = Some(HashMap::default());
        let had = self.begun.values().chain(&self.sent).chain(&self.queue);
        if let Some(busy) = &mut self.counted.busy {
            for name in had.filter_map(|entry| entry.about) {
                *busy.entry(name).or_default() += 1;
            }
        }
    }

    /// It leaves, and has something of this socket in its hands or its queue.
    pub(crate) fn is_busy_with(&self, name: &Name) -> bool {
        let busy = self.counted.busy.as_ref();
        busy.is_some_and(|busy| busy.contains_key(name))
    }

    pub(crate) fn has_queue(&self) -> bool {
        !self.queue.is_empty()
    }

    /// It was sent something that it has not handled.
    pub(crate) fn has_items(&self) -> bool {
        !self.sent.is_empty() || !self.begun.is_empty()
    }

    /// It was sent something that it has not begun.
    pub(crate) fn has_unbegun(&self) -> bool {
        !self.sent.is_empty()
    }

    /// Its commands that were taken in, and that it was not told of.
    pub(crate) fn untold(&self) -> u64 {
        self.commands - self.commands_told
    }

    /// It is told of them now, even if there is nothing else to say.
    pub(crate) fn is_confirmed_at(&self, now_ms: u64) -> bool {
        self.untold() >= CONFIRMED_EACH || now_ms >= self.told_ms + CONFIRMED_MS
    }

    /// Something more may be under way. One item may always be, whatever its size.
    pub(crate) fn has_window(&self, window_bytes: usize) -> bool {
        self.in_flight_bytes < window_bytes
    }

    pub(crate) fn enqueue(&mut self, entry: Entry) {
        self.counted.add(&entry);
        self.counted.replies += usize::from(entry.about.is_none());
        self.queue.push_back(entry);
    }

    /// The next item to send, if one may go now.
    pub(crate) fn pop_waiting(&mut self, now_ms: u64) -> Option<Entry> {
        let entry = match self.may_send_all(now_ms) {
            true => self.queue.pop_front(),
            false => self.pop_reply(),
        }?;
        self.counted.take(&entry);
        self.counted.replies -= usize::from(entry.about.is_none());
        // After an outage it is large.
        if self.queue.is_empty() && self.queue.capacity() > QUEUE_KEPT {
            self.queue = VecDeque::new();
        }
        Some(entry)
    }

    /// An item that goes alone waits until nothing is under way, and others wait for it.
    fn may_send_all(&mut self, now_ms: u64) -> bool {
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
        now_ms >= since_ms + CAREFUL_MS || !self.has_items()
    }

    /// The handler of an item that is alone may wait for one: it goes out of turn.
    fn pop_reply(&mut self) -> Option<Entry> {
        if self.counted.replies == 0 {
            return None;
        }
        let at = self.queue.iter().position(|entry| entry.about.is_none())?;
        self.queue.remove(at)
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

    pub(crate) fn sole(&self) -> Option<Sole> {
        self.sole
    }

    pub(crate) fn end_sole(&mut self) {
        self.sole = None;
    }

    /// It is not handled, or not answered (`owes`), and others wait for it no longer than they must.
    pub(crate) fn has_sole(&self, sole: Sole, owes: bool, now_ms: u64) -> bool {
        let has = sole.number >= self.first || self.begun.contains_key(&sole.number);
        (has || owes) && now_ms < sole.since_ms + ALONE_MS
    }

    /// The item that it had alone, and had begun, when it ended; `None`: it had others beside it.
    pub(crate) fn culprit(&self) -> Option<Result<Sole, ()>> {
        let sole = self.sole?;
        let begun = !self.announces || sole.number <= self.begun_told;
        Some(if begun { Ok(sole) } else { Err(()) })
    }

    pub(crate) fn send(&mut self, entry: Entry, now_ms: u64) {
        if self.sent.is_empty() {
            self.progress_ms = now_ms;
        }
        self.counted.add(&entry);
        if entry.alone {
            self.sole = Some(Sole {
                about: entry.about,
                sequence: entry.sequence,
                number: self.next,
                since_ms: now_ms,
            });
        }
        self.in_flight_bytes += entry.bytes;
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
            self.in_flight_bytes -= entry.bytes;
            self.progress_ms = now_ms;
            if done.has(number) {
                self.counted.take(&entry);
                return Some(entry);
            }
            self.begun.insert(number, entry);
        }
        let number = done.next_of(&self.begun)?;
        let entry = self.begun.remove(&number)?;
        self.progress_ms = now_ms;
        self.counted.take(&entry);
        Some(entry)
    }

    /// What it had and had not handled, the oldest first; then what waited for it.
    pub(crate) fn into_items(self) -> (impl Iterator<Item = Entry>, VecDeque<Entry>) {
        let had = self.begun.into_values().chain(self.sent);
        (had, self.queue)
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
        let slow = self.is_slow(now_ms, stalled_after_ms)
            || (self.leaving
                && !self.begun.is_empty()
                && now_ms >= self.progress_ms + stalled_after_ms);
        slow && now_ms >= self.free_ms + stalled_after_ms
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
