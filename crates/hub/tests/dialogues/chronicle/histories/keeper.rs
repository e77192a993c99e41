//! The control plane's part of level `cluster`, played: a writer, a reader and claims of one node, each as slow as the dice say. Its steps are
//! those of `nodes/chronicle`.

use super::redis::{Asker, COUNTER_BITS, Claimed, Entry, Redis, What};
use hub::{
    Adoption, Chronicle, ChronicleMail, ChronicleQuestion, ChronicleWord, Claiming, Letter, Read,
    Stored, Unadopted,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Claims that last for longer are given up.
const PATIENCE_MS: u64 = 4_000;
/// How often shards are told how far they are.
const TELL_MS: u64 = 1_000;

#[derive(Debug)]
enum Stage {
    Asked,
    /// Its shard is to list itself.
    Offered(Adoption),
    Reading {
        adoption: Adoption,
        upto: u64,
        is_claimed: bool,
    },
    /// Its node is to read up to there.
    Read(Adoption, u64),
}

#[derive(Debug)]
struct Claim {
    claiming: Claiming,
    era: u64,
    began_ms: u64,
    stage: Stage,
}

#[derive(Debug)]
pub(super) struct Keeper {
    node: u64,
    chronicle: Arc<Chronicle>,
    mail: ChronicleMail,
    position: u64,
    /// The turn of the last entry that shards were sent.
    pub(super) read_turn: u64,
    generation: u64,
    era: u64,
    /// The turns of entries by their numbers: after a failover another one may have the number of one that was lost.
    known: BTreeMap<u64, u64>,
    tray: VecDeque<ChronicleWord>,
    batch: Vec<ChronicleWord>,
    batches: u64,
    writes_fail: bool,
    reads_fail: bool,
    claims: Vec<Claim>,
    listed: BTreeSet<(u16, u64)>,
    /// On their way to shards, in order.
    pub(super) letters: BTreeMap<u16, VecDeque<Arc<Letter>>>,
    /// The clock of the Redis that it read last, and when that was.
    clock: (u64, u64),
    told: (u64, u64),
    /// How often its clients were disconnected because it had not read something.
    pub(super) misses: usize,
}

impl Keeper {
    /// It finds where the stream ends.
    pub(super) fn begin(
        node: u64,
        chronicle: &Arc<Chronicle>,
        mail: ChronicleMail,
        redis: &Redis,
        now_ms: u64,
    ) -> Self {
        let position = redis.end();
        chronicle.begins("/", position);
        chronicle.is_away("/", false);
        Self {
            node,
            chronicle: Arc::clone(chronicle),
            mail,
            position,
            read_turn: redis.turn,
            generation: redis.generation,
            era: 0,
            known: redis.latest().collect(),
            tray: VecDeque::new(),
            batch: Vec::new(),
            batches: 0,
            writes_fail: false,
            reads_fail: false,
            claims: Vec::new(),
            listed: BTreeSet::new(),
            letters: BTreeMap::new(),
            clock: (redis.clock(), now_ms),
            told: (now_ms, 0),
            misses: 0,
        }
    }

    fn deliver(&mut self, read: &Read) {
        for shard in read.shards() {
            let letters = self.letters.entry(shard).or_default();
            letters.push_back(Arc::clone(&read.letter));
        }
    }

    fn note_state(&self) {
        let is_away = self.writes_fail || self.reads_fail;
        self.chronicle.is_away("/", is_away);
    }

    /// Nothing is on its way through it.
    pub(super) fn is_idle(&self, redis: &Redis) -> bool {
        self.tray.is_empty()
            && self.batch.is_empty()
            && self.claims.is_empty()
            && self.letters.values().all(VecDeque::is_empty)
            && self.chronicle.unwritten() == 0
            && redis.range(self.position, 1).0.is_empty()
    }

    /// Words of hubs go their ways.
    pub(super) fn sort(&mut self, now_ms: u64) {
        self.tray
            .extend(std::iter::from_fn(|| self.chronicle.next("/")));
        while let Some(question) = self.chronicle.next_question() {
            match question {
                ChronicleQuestion::Claiming(claiming) => self.claims.push(Claim {
                    claiming,
                    era: self.era,
                    began_ms: now_ms,
                    stage: Stage::Asked,
                }),
                ChronicleQuestion::Listed { shard, number } => {
                    self.listed.insert((shard, number));
                }
            }
        }
    }

    /// Writes a batch. `hears`: its answer comes.
    pub(super) fn write(&mut self, redis: &mut Redis, most: usize, hears: bool) {
        if self.batch.is_empty() {
            let some = most.min(self.tray.len());
            self.batch = self.tray.drain(..some).collect();
            self.batches += u64::from(some > 0);
        }
        if self.batch.is_empty() {
            return;
        }
        let stale = (!redis.is_away).then(|| {
            let place = (self.node, self.batches);
            redis.append(place, &self.batch, (self.generation, self.era))
        });
        self.writes_fail = stale.is_none() || !hears;
        self.note_state();
        let Some(stale) = stale.filter(|_| hears) else {
            return;
        };
        let words = std::mem::take(&mut self.batch);
        for (at, fence) in stale.unwrap_or_default() {
            if let ChronicleWord::Saving(saving) = &words[at] {
                let taken = self.mail.taken_from(saving.shard, "/", &saving.pid, fence);
                self.deliver(&taken.expect("a pid of ours"));
            }
        }
        self.chronicle.written("/", words.len());
        self.tell_stored(&words);
    }

    fn tell_stored(&mut self, words: &[ChronicleWord]) {
        let mut stored = BTreeMap::new();
        for word in words {
            let ChronicleWord::Saving(saving) = word else {
                continue;
            };
            stored.insert(saving.shard, saving.ticket);
        }
        for (shard, upto) in stored {
            self.deliver(&self.mail.saved(shard, "/", upto));
        }
    }

    /// Reads a part of the stream, and with it which Redis that is: nothing of another one is passed on before it is noted.
    pub(super) fn read(&mut self, redis: &mut Redis, most: usize, now_ms: u64) {
        if redis.is_away {
            self.reads_fail = true;
            return self.note_state();
        }
        let at = self.position;
        let (clock_ms, then_ms) = self.clock;
        let clock = (clock_ms + now_ms - then_ms + 1) << COUNTER_BITS;
        let upto = clock.max(at + 1);
        if redis.generation == self.generation {
            self.clock = (redis.clock(), now_ms);
            let (entries, trimmed) = redis.range(at, most);
            if trimmed > at {
                self.misses(upto);
                self.position = trimmed;
            }
            self.pass(entries);
        } else {
            let last = redis.lift(at);
            self.generation = redis.generation;
            self.era += 1;
            self.deliver(&self.mail.lost("/", upto, self.era));
            if last.is_some_and(|(last, turn)| self.known.get(&last) != Some(&turn)) {
                self.misses(upto);
            }
        }
        self.reads_fail = false;
        self.note_state();
        if now_ms >= self.told.0 + TELL_MS && self.position > self.told.1 {
            self.told = (now_ms, self.position);
            self.deliver(&self.mail.passed("/", self.position));
        }
    }

    fn misses(&mut self, upto: u64) {
        self.misses += 1;
        self.deliver(&self.mail.missed("/", upto));
    }

    fn pass(&mut self, entries: Vec<Entry>) {
        for entry in entries {
            let read = match &entry.what {
                What::Event(letter) => self.mail.said("/", entry.number, letter),
                What::Taken { fence, pid } => self.mail.taken("/", pid, *fence),
            };
            if let Some(read) = read {
                self.deliver(&read);
            }
            self.known.insert(entry.number, entry.turn);
            (self.position, self.read_turn) = (entry.number, entry.turn);
        }
    }

    /// One of its claims goes on.
    pub(super) fn claim(&mut self, redis: &mut Redis, dice: usize, most: usize, now_ms: u64) {
        if self.claims.is_empty() {
            return;
        }
        let at = dice % self.claims.len();
        let Claim {
            claiming,
            era,
            began_ms,
            stage,
        } = self.claims.swap_remove(at);
        let asker = (claiming.shard, claiming.number);
        if now_ms > began_ms + PATIENCE_MS {
            self.listed.remove(&asker);
            return self.refuse(asker, Unadopted::Late);
        }
        let next = match stage {
            Stage::Asked if redis.is_away => Some(Stage::Asked),
            Stage::Asked => self.take(redis, &claiming),
            Stage::Offered(adoption) if !self.listed.contains(&asker) => {
                Some(Stage::Offered(adoption))
            }
            Stage::Offered(adoption) => {
                let (upto, is_claimed) = (adoption.after(), false);
                Some(Stage::Reading {
                    adoption,
                    upto,
                    is_claimed,
                })
            }
            reading @ Stage::Reading { .. } if redis.is_away => Some(reading),
            Stage::Reading {
                adoption,
                upto,
                is_claimed,
            } => self.read_for(redis, &claiming, (adoption, upto, is_claimed), most),
            Stage::Read(adoption, upto) if self.position < upto => {
                Some(Stage::Read(adoption, upto))
            }
            Stage::Read(adoption, upto) => {
                self.adopt(asker, era, adoption, upto);
                None
            }
        };
        if let Some(stage) = next {
            self.claims.push(Claim {
                claiming,
                era,
                began_ms,
                stage,
            });
        }
    }

    fn refuse(&mut self, (shard, number): (u16, u64), why: Unadopted) {
        self.deliver(&self.mail.refused(shard, number, why));
    }

    fn adopt(&mut self, asker: (u16, u64), era: u64, adoption: Adoption, upto: u64) {
        self.listed.remove(&asker);
        if self.era == era {
            let read = self.mail.adopted("/", asker, adoption, upto);
            self.deliver(&read);
        } else {
            self.refuse(asker, Unadopted::Trimmed);
        }
    }

    fn take(&mut self, redis: &mut Redis, claiming: &Claiming) -> Option<Stage> {
        let asker = (claiming.shard, claiming.number);
        let name: Asker = (self.node, asker.0, asker.1);
        let (record, trimmed) = match redis.claim(&claiming.pid, claiming.uid.as_deref(), name) {
            Claimed::Unknown => {
                self.refuse(asker, Unadopted::Unknown);
                return None;
            }
            Claimed::OtherUser => {
                self.refuse(asker, Unadopted::OtherUser);
                return None;
            }
            // It was stored in a Redis that is no more: what that had last may be lost.
            Claimed::Taken {
                record, generation, ..
            } if record.generation != Some(generation) => {
                self.refuse(asker, Unadopted::Trimmed);
                return None;
            }
            Claimed::Taken {
                record, trimmed, ..
            } => (record, trimmed),
        };
        let stored = Stored {
            namespace: "/",
            pid: &claiming.pid,
            uid: claiming.uid.as_deref(),
            body: &record.body,
            fence: record.fence,
            confirmed: record.confirmed,
            written: record.written,
        };
        let adoption = Adoption::new(stored, claiming.shown, claiming.bytes_max);
        let mut adoption = adoption.expect("a record of ours");
        adoption.trimmed(trimmed);
        if adoption.is_over() {
            return Some(Stage::Read(adoption, 0));
        }
        let offered = self.mail.offered(asker.0, asker.1, &adoption);
        self.deliver(&offered);
        Some(Stage::Offered(adoption))
    }

    fn read_for(
        &mut self,
        redis: &Redis,
        claiming: &Claiming,
        (mut adoption, mut upto, mut is_claimed): (Adoption, u64, bool),
        most: usize,
    ) -> Option<Stage> {
        let (part, trimmed) = redis.range(upto, most);
        let mut is_last = part.len() < most;
        if trimmed > upto {
            adoption.trimmed(trimmed);
            is_last = true;
        } else {
            for entry in part {
                upto = entry.number;
                match entry.what {
                    What::Event(letter) => adoption.read(upto, &letter),
                    What::Taken { fence, pid } if pid == claiming.pid => {
                        is_claimed = true;
                        adoption.taken(fence);
                    }
                    What::Taken { .. } => {}
                }
            }
        }
        if !is_last && !adoption.is_over() {
            return Some(Stage::Reading {
                adoption,
                upto,
                is_claimed,
            });
        }
        if !is_claimed && !adoption.is_over() {
            self.refuse((claiming.shard, claiming.number), Unadopted::Trimmed);
            return None;
        }
        Some(Stage::Read(adoption, upto))
    }
}
