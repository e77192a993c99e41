//! Redis as the scripts of level `cluster` use it, played: one stream, the records of sockets, and failovers that lose the last of both.

use hub::ChronicleWord;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Bits of the counter in a number; the rest is the time of Redis in ms.
pub(super) const COUNTER_BITS: u32 = 20;
/// Entries that a node knows when it begins: fewer than in truth, so that more are lost.
const NAMES_MAX: usize = 8;
/// Changes that a failover can lose.
const PAST_MAX: usize = 6;

/// One entry of the stream.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    /// Which one it is of all that were ever written. Numbers may go back with a failover, and this does not.
    pub(super) turn: u64,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Event(Rc<[u8]>),
    Taken { fence: u64, pid: String },
}

/// The record of a socket.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) fence: u64,
    pub(super) body: Vec<u8>,
    pub(super) uid: Option<String>,
    pub(super) generation: Option<u64>,
    pub(super) written: u64,
    pub(super) confirmed: u64,
    claim: Option<Asker>,
    ends_ms: u64,
}

/// Node, shard and number of a claim.
pub(super) type Asker = (u64, u16, u64);

/// What becomes of a claim.
#[derive(Debug)]
pub(super) enum Claimed {
    Unknown,
    OtherUser,
    Taken {
        record: Record,
        trimmed: u64,
        generation: u64,
    },
}

#[derive(Clone, Debug, Default)]
struct State {
    entries: VecDeque<Entry>,
    last: u64,
    trimmed: u64,
    records: BTreeMap<String, Record>,
    batches: BTreeMap<u64, u64>,
}

impl State {
    fn newest(&self) -> u64 {
        self.entries.back().map_or(0, |entry| entry.number)
    }
}

/// A message of a client, wherever it stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Fate {
    /// When it was written, in turns. After a failover a writer may write it once more.
    pub(super) turns: Vec<u64>,
    /// The moment in which a failover lost it.
    pub(super) lost: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Redis {
    state: State,
    past: VecDeque<State>,
    now_ms: u64,
    behind_ms: u64,
    pub(super) generation: u64,
    pub(super) turn: u64,
    /// Steps of the history so far.
    pub(super) moment: u64,
    pub(super) is_away: bool,
    window_ms: u64,
    entries_max: usize,
    pub(super) fates: BTreeMap<u64, Fate>,
}

/// The number of the message in a letter.
fn message_in(letter: &[u8]) -> Option<u64> {
    // Numbers stand before it.
    let mut parts = letter.rsplit(|byte| *byte == b'#').skip(1);
    std::str::from_utf8(parts.next()?).ok()?.parse().ok()
}

impl Redis {
    pub(super) fn new(window_ms: u64, entries_max: usize) -> Self {
        Self {
            state: State::default(),
            past: VecDeque::new(),
            now_ms: 0,
            behind_ms: 0,
            generation: 1,
            turn: 0,
            moment: 0,
            is_away: false,
            window_ms,
            entries_max,
            fates: BTreeMap::new(),
        }
    }

    pub(super) fn at(&mut self, wall_ms: u64) {
        self.now_ms = wall_ms;
    }

    pub(super) fn clock(&self) -> u64 {
        self.now_ms - self.behind_ms
    }

    /// Before something changes.
    fn remember(&mut self) {
        if self.past.len() == PAST_MAX {
            self.past.pop_front();
        }
        self.past.push_back(self.state.clone());
        let now_ms = self.clock();
        self.state
            .records
            .retain(|_, record| record.ends_ms > now_ms);
    }

    fn add(&mut self, number: u64, what: What) {
        self.turn += 1;
        if let What::Event(letter) = &what
            && let Some(message) = message_in(letter)
        {
            let fate = self.fates.entry(message).or_default();
            fate.turns.push(self.turn);
            fate.lost = None;
        }
        self.state.last = number;
        self.state.entries.push_back(Entry {
            number,
            turn: self.turn,
            what,
        });
    }

    fn add_now(&mut self, what: What) {
        // No two servers give one name to two entries: their clocks never show the same to a billionth part of a second.
        let own = self.clock() << COUNTER_BITS | self.generation << 10;
        let number = own.max(self.state.last + 1);
        self.add(number, what);
    }

    /// As `append.lua` does it: the words whose sockets somebody took, and with which fence. `None`: that batch is there already.
    pub(super) fn append(
        &mut self,
        (writer, batch): (u64, u64),
        words: &[ChronicleWord],
        (generation, era): (u64, u64),
    ) -> Option<Vec<(usize, u64)>> {
        if self.state.batches.get(&writer) >= Some(&batch) {
            return None;
        }
        self.remember();
        let ttl_ms = 2 * self.window_ms + 120_000;
        let ends_ms = self.clock() + ttl_ms;
        let (mut written, mut stale) = (self.state.newest(), Vec::new());
        for (at, word) in words.iter().enumerate() {
            match word {
                ChronicleWord::Said { letter, .. } => {
                    self.add_now(What::Event(letter.as_slice().into()));
                    written = self.state.last;
                }
                ChronicleWord::Saving(saving) => {
                    let record = self.state.records.entry(saving.pid.clone()).or_default();
                    if record.fence > saving.fence {
                        stale.push((at, record.fence));
                        continue;
                    }
                    // What was made before a failover is nobody's.
                    let is_current = saving.era == era;
                    record.fence = saving.fence;
                    record.body.clone_from(&saving.body);
                    record.uid.clone_from(&saving.uid);
                    record.generation = is_current.then_some(generation);
                    (record.written, record.ends_ms) = (written, ends_ms);
                }
                ChronicleWord::Arrived {
                    pid, fence, number, ..
                } => {
                    let record = self.state.records.get_mut(pid);
                    if let Some(record) = record.filter(|record| record.fence == *fence) {
                        (record.confirmed, record.ends_ms) = (*number, ends_ms);
                    }
                }
                ChronicleWord::Ended { pid, fence, .. } => {
                    let record = self.state.records.get(pid);
                    if record.is_some_and(|record| record.fence == *fence) {
                        self.state.records.remove(pid);
                    }
                }
            }
        }
        self.trim();
        self.state.batches.insert(writer, batch);
        Some(stale)
    }

    fn trim(&mut self) {
        let old_ms = self.clock().saturating_sub(self.window_ms);
        let state = &mut self.state;
        while let Some(entry) = state.entries.front()
            && (entry.number >> COUNTER_BITS < old_ms || state.entries.len() > self.entries_max)
        {
            state.trimmed = entry.number;
            state.entries.pop_front();
        }
    }

    /// As `claim.lua` does it.
    pub(super) fn claim(&mut self, pid: &str, uid: Option<&str>, asker: Asker) -> Claimed {
        self.remember();
        let (trimmed, generation) = (self.state.trimmed, self.generation);
        let Some(record) = self.state.records.get_mut(pid) else {
            return Claimed::Unknown;
        };
        if record.uid.as_deref() != uid {
            return Claimed::OtherUser;
        }
        let is_new = record.claim != Some(asker);
        if is_new {
            record.fence += 1;
            record.claim = Some(asker);
        }
        let record = record.clone();
        if is_new {
            self.add_now(What::Taken {
                fence: record.fence,
                pid: pid.to_owned(),
            });
        }
        Claimed::Taken {
            record,
            trimmed,
            generation,
        }
    }

    /// Some of what stands behind a number, and up to where the stream has nothing any more.
    pub(super) fn range(&self, after: u64, most: usize) -> (Vec<Entry>, u64) {
        let entries = self.state.entries.iter();
        let behind = entries.filter(|entry| entry.number > after);
        (behind.take(most).cloned().collect(), self.state.trimmed)
    }

    /// Numbers and turns of its last entries.
    pub(super) fn latest(&self) -> impl Iterator<Item = (u64, u64)> {
        let entries = self.state.entries.iter().rev().take(NAMES_MAX);
        entries.map(|entry| (entry.number, entry.turn))
    }

    /// Where the stream ends.
    pub(super) fn end(&self) -> u64 {
        self.state.newest().max(self.state.trimmed)
    }

    /// As `lift.lua` does it.
    pub(super) fn lift(&mut self, at: u64) -> Option<(u64, u64)> {
        let upto = self.state.entries.iter().rev();
        let upto = { upto }.find(|entry| entry.number <= at);
        let found = upto.map_or(0, |entry| entry.number);
        let newest = self.state.newest();
        if newest == found && newest != at && self.state.last <= at {
            self.remember();
            let (fence, pid) = (0, "-".to_owned());
            self.add(at + 1, What::Taken { fence, pid });
        }
        // What another node lifted it with, nobody said.
        let is_lift = |what: &What| matches!(what, What::Taken { fence: 0, .. });
        let mut upto = self.state.entries.iter().rev();
        let said = upto.find(|entry| entry.number <= at && !is_lift(&entry.what));
        said.map(|entry| (entry.number, entry.turn))
    }

    /// Another server takes over, which lacks the last changes, or all, and whose clock may be behind.
    pub(super) fn fail_over(&mut self, lacks: Option<usize>, behind_ms: u64) {
        let before = std::mem::take(&mut self.state);
        self.state = match lacks {
            Some(0) => before.clone(),
            Some(lacks) => {
                let at = self.past.len().saturating_sub(lacks);
                self.past.get(at).cloned().unwrap_or_default()
            }
            None => State::default(),
        };
        let is_kept = |turn: u64| {
            let mut kept = self.state.entries.iter();
            kept.any(|entry| entry.turn == turn)
        };
        let lost: Vec<&Entry> = { before.entries.iter() }
            .filter(|entry| !is_kept(entry.turn))
            .collect();
        for entry in lost {
            if let What::Event(letter) = &entry.what
                && let Some(fate) = message_in(letter).and_then(|one| self.fates.get_mut(&one))
                && fate.turns.last() == Some(&entry.turn)
            {
                fate.lost = Some(self.moment);
            }
        }
        self.past.clear();
        self.generation += 1;
        self.behind_ms = behind_ms;
    }
}
