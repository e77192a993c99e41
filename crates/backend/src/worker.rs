//! One worker: what it says of itself, which sockets it has, what it has got and what waits for it.

use crate::backlog::{Backlog, Sole};
use crate::bounds::{BACK_MS, INSTANCE_BYTES_MAX, NUMBER_MAX};
use crate::done::Done;
use crate::entry::Entry;
use crate::flight::Flight;
use crate::link::Link;
use crate::name::Name;
use crate::proto;
use crate::taken::Taken;
use foldhash::fast::FixedState;
use handoff::Unfit;
use handoff::backend::{Item, Worker as Record};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// The load of a worker: items it has, and items that wait for it.
#[derive(Debug, Default)]
struct Counted {
    /// Sockets that it was given and has not handled.
    newcomers: usize,
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

/// A worker's own words about itself.
#[derive(Debug)]
pub(crate) struct Profile {
    pub(crate) instance: String,
    weight: u64,
    /// Another node is its first.
    away: bool,
    /// It says `begun` before it handles an item that is alone.
    announces: bool,
    /// It says so where it means everybody (`Hello.version`).
    pub(crate) says_all: bool,
    /// Whether it wants to decide about requests for sessions; `None` = it has not said.
    pub(crate) openings: Option<bool>,
    /// `FromWorker.overdue`, as it was last said.
    overdue: u64,
    /// `FromWorker.asks`, to be answered.
    asks: u64,
}

impl Profile {
    fn new(hello: &proto::Hello) -> Self {
        Self {
            instance: hello.instance.clone(),
            weight: u64::from(hello.weight.max(1)),
            away: false,
            announces: false,
            says_all: false,
            openings: None,
            overdue: 0,
            asks: 0,
        }
    }

    /// Returns how many more items counted as handled because they took too long.
    pub(crate) fn hear(&mut self, said: &proto::FromWorker) -> u64 {
        if said.asks != 0 {
            self.asks = said.asks;
        }
        let overdue = self.overdue.max(said.overdue);
        overdue - std::mem::replace(&mut self.overdue, overdue)
    }

    pub(crate) fn take_asks(&mut self) -> u64 {
        std::mem::take(&mut self.asks)
    }
}

#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) profile: Profile,
    pub(crate) link: Option<Link>,
    /// Last sign of life; without a link: when it was lost.
    heard_ms: u64,
    /// When last nothing waited for it to go on.
    free_ms: u64,
    /// Since when it wants to end and has nothing left but questions.
    free_to_go_ms: Option<u64>,
    pub(crate) sockets: BTreeSet<Name>,
    /// Those of its sockets that move next: what comes for them waits for another worker.
    pub(crate) parting: BTreeSet<Name>,
    pub(crate) flight: Flight,
    pub(crate) backlog: Backlog,
    counted: Counted,
    pub(crate) taken: Taken,
    /// Requests that it was asked about, or let in, and whose sockets are not there yet.
    pub(crate) asked: usize,
}

impl Worker {
    pub(crate) fn new(hello: &proto::Hello, now_ms: u64) -> Self {
        Self {
            profile: Profile::new(hello),
            link: None,
            heard_ms: now_ms,
            free_ms: now_ms,
            free_to_go_ms: None,
            sockets: BTreeSet::new(),
            parting: BTreeSet::new(),
            flight: Flight::new(now_ms),
            backlog: Backlog::default(),
            counted: Counted::default(),
            taken: Taken::default(),
            asked: 0,
        }
    }

    // ---- from one process to the next -------------------------------------------------------------------------------------------

    pub(crate) fn record(&self, id: u64, now_ms: u64) -> Record {
        let (profile, flight) = (&self.profile, &self.flight);
        let begun = flight.begun().map(|(number, entry)| Item {
            number,
            ..entry.record(now_ms)
        });
        let sole = self.backlog.sole();
        let sole = sole.filter(|sole| flight.has(sole.number));
        Record {
            id,
            instance: profile.instance.clone(),
            weight: profile.weight,
            away: profile.away,
            announces: profile.announces,
            openings: profile.openings,
            overdue: profile.overdue,
            leaving: self.is_leaving(),
            parting: self
                .parting
                .iter()
                .map(|name| name.as_str().to_owned())
                .collect(),
            first: flight.first(),
            begun_told: flight.begun_told(),
            sent: flight.unbegun().map(|entry| entry.record(now_ms)).collect(),
            begun: begun.collect(),
            waiting: self
                .backlog
                .entries()
                .map(|entry| entry.record(now_ms))
                .collect(),
            sole: sole.map_or(0, |sole| sole.number),
            taken: self.taken.last(),
            in_doubt: self.taken.is_in_doubt(),
            before: self.taken.before(),
        }
    }

    /// It has no link, and time to come by one. Its sockets are known elsewhere.
    pub(crate) fn restored(record: &Record, now_ms: u64) -> Result<Self, Unfit> {
        let entry = |item: &Item| Entry::restored(item, now_ms);
        let sent: VecDeque<Entry> = record.sent.iter().map(entry).collect::<Result<_, _>>()?;
        let begun = record
            .begun
            .iter()
            .map(|item| Ok((item.number, entry(item)?)));
        let begun: BTreeMap<u64, Entry> = begun.collect::<Result<_, Unfit>>()?;
        let waiting: Vec<Entry> = record.waiting.iter().map(entry).collect::<Result<_, _>>()?;
        let fits = (1..=INSTANCE_BYTES_MAX).contains(&record.instance.len())
            && (1..=NUMBER_MAX).contains(&record.first)
            && record.taken <= NUMBER_MAX
            && begun
                .last_key_value()
                .is_none_or(|(last, _)| *last < record.first)
            && begun.len() == record.begun.len();
        if !fits {
            return Err(Unfit {
                field: format!("worker {:?}", record.instance),
                wanted: "one with a name and with numbers in their order",
            });
        }
        let hello = proto::Hello {
            instance: record.instance.clone(),
            weight: u32::try_from(record.weight).unwrap_or(u32::MAX),
            ..proto::Hello::default()
        };
        let mut worker = Self::new(&hello, now_ms + BACK_MS);
        worker.free_ms = now_ms;
        worker.profile.away = record.away;
        worker.profile.announces = record.announces;
        worker.profile.openings = record.openings;
        worker.profile.overdue = record.overdue;
        let all = sent.iter().chain(begun.values()).chain(&waiting);
        let failures = all.filter(|entry| entry.is_failed()).count();
        worker.taken = Taken::restored(record.taken, failures, record.in_doubt, record.before);
        let had = sent.iter().chain(begun.values());
        had.for_each(|entry| worker.counted.add(entry));
        waiting.into_iter().for_each(|entry| worker.enqueue(entry));
        let at = record
            .sole
            .checked_sub(record.first)
            .filter(|_| record.sole > 0);
        let sole = match at {
            Some(at) => sent.get(usize::try_from(at).unwrap_or(usize::MAX)),
            None => begun.get(&record.sole),
        };
        if let Some(sole) = sole {
            worker.backlog.sends(sole, record.sole, now_ms);
        }
        let numbers = (record.first, record.begun_told);
        worker.flight = Flight::restored(now_ms, numbers, sent, begun);
        if record.leaving {
            worker.leave();
        }
        Ok(worker)
    }

    /// Its items, wherever they are.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.flight.entries().chain(self.backlog.entries())
    }

    // ---- its link -------------------------------------------------------------------------------------------------------------

    pub(crate) fn heard(&mut self, now_ms: u64) {
        self.heard_ms = now_ms;
    }

    pub(crate) fn attach(&mut self, now_ms: u64, hello: &proto::Hello) {
        self.heard_ms = now_ms;
        self.profile.away = hello.away;
        self.profile.announces = hello.announces;
        self.profile.says_all = hello.version > 0;
    }

    pub(crate) fn unheard(&self, now_ms: u64, patience_ms: u64) -> bool {
        now_ms >= self.heard_ms + patience_ms
    }

    /// It wants to end: its items are counted by socket from now on.
    pub(crate) fn leave(&mut self) {
        let mut busy: HashMap<Name, usize, FixedState> = HashMap::default();
        let had = self.flight.entries().chain(self.backlog.entries());
        for name in had.filter_map(|entry| entry.about) {
            *busy.entry(name).or_default() += 1;
        }
        self.counted.busy = Some(busy);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.counted.busy.is_some()
    }

    /// It leaves, and has something of this socket in its hands or its queue.
    pub(crate) fn is_busy_with(&self, name: &Name) -> bool {
        let busy = self.counted.busy.as_ref();
        busy.is_some_and(|busy| busy.contains_key(name))
    }

    /// Since when it could end, but for questions; `None`: it has something else left.
    pub(crate) fn free_to_go(&mut self, now_ms: u64) -> Option<u64> {
        if !self.sockets.is_empty() || !self.flight.is_empty() {
            return None;
        }
        Some(*self.free_to_go_ms.get_or_insert(now_ms))
    }

    // ---- items ----------------------------------------------------------------------------------------------------------------

    /// Sockets that it was given and has not handled.
    pub(crate) fn newcomers(&self) -> usize {
        self.counted.newcomers
    }

    pub(crate) fn enqueue(&mut self, entry: Entry) {
        self.counted.add(&entry);
        self.backlog.push(entry);
    }

    /// The next item to send, if one may go now.
    pub(crate) fn pop_waiting(&mut self, now_ms: u64) -> Option<Entry> {
        let mut entry = self.backlog.pop(now_ms, self.flight.is_empty())?;
        self.counted.take(&entry);
        entry.alone = entry.goes_alone() && self.backlog.is_careful(now_ms);
        Some(entry)
    }

    pub(crate) fn send(&mut self, entry: Entry, now_ms: u64) {
        self.counted.add(&entry);
        self.backlog.sends(&entry, self.flight.next(), now_ms);
        self.flight.send(entry, now_ms);
    }

    pub(crate) fn pop_handled(&mut self, done: &mut Done<'_>, now_ms: u64) -> Option<Entry> {
        let entry = self.flight.pop_handled(done, now_ms)?;
        self.counted.take(&entry);
        Some(entry)
    }

    /// Items it had and had not handled, the oldest first; then items that waited for it.
    pub(crate) fn into_items(self) -> (impl Iterator<Item = Entry>, VecDeque<Entry>) {
        (self.flight.into_entries(), self.backlog.into_entries())
    }

    /// The others wait no longer for the item that is alone: it is handled and answered (`owes` says of one whether it is not), or
    /// took too long.
    pub(crate) fn review_sole(&mut self, now_ms: u64, owes: impl Fn(&Sole) -> bool) {
        if let Some(sole) = self.backlog.sole()
            && (sole.is_old(now_ms) || !self.flight.has(sole.number) && !owes(&sole))
        {
            self.backlog.end_sole();
        }
    }

    /// The item that it had alone, and had begun, when it ended; `None`: it had others beside it.
    pub(crate) fn culprit(&self) -> Option<Result<Sole, ()>> {
        let sole = self.backlog.sole()?;
        let begun = !self.profile.announces || self.flight.has_begun(sole.number);
        Some(if begun { Ok(sole) } else { Err(()) })
    }

    /// It is there and stays, and was told all that was taken in of it. What it has of items is in the books.
    pub(crate) fn is_quiet(&self) -> bool {
        self.takes_sockets() && self.taken.is_told()
    }

    // ---- time -----------------------------------------------------------------------------------------------------------------

    /// It has handled nothing for so long, and has something to handle.
    pub(crate) fn is_slow(&self, now_ms: u64, slow_after_ms: u64) -> bool {
        self.flight.is_slow(now_ms, slow_after_ms)
    }

    /// Time passes. More waits than its window or its link take, or it is to end and has something left.
    pub(crate) fn look(&mut self, now_ms: u64) {
        if self.backlog.is_empty() && !self.is_leaving() {
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
        let hangs = || self.is_leaving() && self.flight.hangs(now_ms, stalled_after_ms);
        let slow = self.is_slow(now_ms, stalled_after_ms) || hangs();
        slow && now_ms >= self.free_ms + stalled_after_ms
    }

    // ---- choosing -------------------------------------------------------------------------------------------------------------

    pub(crate) fn takes_sockets(&self) -> bool {
        self.link.is_some() && !self.is_leaving()
    }

    pub(crate) fn decides_openings(&self) -> bool {
        self.takes_sockets() && self.profile.openings == Some(true)
    }

    /// Messages between servers reach it by this node.
    pub(crate) fn is_home(&self) -> bool {
        self.takes_sockets() && !self.profile.away
    }

    /// Sockets that it has and will have, compared with its weight, as a fraction of the other's.
    pub(crate) fn is_freer_than(&self, other: &Self) -> bool {
        let has = |worker: &Self| (worker.sockets.len() + worker.asked) as u64;
        let (own, theirs) = (has(self), has(other));
        own * other.profile.weight < theirs * self.profile.weight
    }
}
