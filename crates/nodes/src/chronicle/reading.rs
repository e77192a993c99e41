//! The stream of a namespace on its way to the shards of this node.

use super::course::{self, Clock, Entry, Found, Known, News, What};
use super::{Desk, Office};
use crate::engine::Trouble;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const PAUSE: Duration = Duration::from_millis(100);
/// Shards with too much before them are asked again so soon.
const BREATH: Duration = Duration::from_millis(2);
/// How often it is looked how far the stream is.
const LOOK: Duration = Duration::from_millis(500);
/// So many entries are remembered: a failover that lost more is one that nobody knows anything of.
const KNOWN_MAX: usize = 16_384;
/// How often shards are told how far they are.
const TELL: Duration = Duration::from_secs(1);

/// Reads until the process ends.
pub(super) async fn run(office: Arc<Office>, namespace: String) {
    let Some(desk) = office.desks.get(&namespace) else {
        return;
    };
    let course = &desk.course;
    let mut reader = Reader {
        known: begin(&office, desk).await,
        part: course::PART_MAX,
        clock: None,
    };
    let mut looked: Option<Instant> = None;
    let mut told = (Instant::now(), 0);
    loop {
        if (office.are_behind)() {
            sleep(BREATH).await;
            continue;
        }
        let at = *course.position.borrow();
        let asks_newest = looked.is_none_or(|looked| looked.elapsed() >= LOOK);
        let news = course.next(at, reader.part, asks_newest).await;
        let _turn = desk.turn.lock().await;
        let read = match news {
            Ok(News::Found(found)) => {
                if found.newest.is_some() {
                    looked = Some(Instant::now());
                }
                reader.reads(&office, desk, found, at);
                Ok(())
            }
            Ok(News::Another(generation)) => {
                reader.notes_another(&office, desk, generation, at).await
            }
            Err(trouble) => Err(trouble),
        };
        let is_news = desk.health.reads_fail(read.is_err());
        office.note_state(desk);
        if let Err(trouble) = read {
            if is_news {
                tracing::warn!(namespace, %trouble, "cannot read what is said in this namespace: its clients get nothing until Redis answers");
            }
            sleep(PAUSE).await;
        }
        let at = *course.position.borrow();
        if told.0.elapsed() >= TELL && at > told.1 {
            told = (Instant::now(), at);
            office.deliver(&office.mail.passed(&namespace, at));
        }
    }
}

/// Finds where the stream ends, unless the process before has said how far it was, and of which Redis. What stood there last counts as read.
async fn begin(office: &Office, desk: &Desk) -> Memory {
    let course = &desk.course;
    let _turn = desk.turn.lock().await;
    let end = loop {
        match course.look().await {
            Ok(end) => break end,
            Err(trouble) => {
                desk.health.reads_fail(true);
                office.note_state(desk);
                tracing::warn!(namespace = course.namespace, %trouble, "cannot read what is said in this namespace yet");
                sleep(PAUSE).await;
            }
        }
    };
    let mut known = Memory::default();
    let (before, _) = course.generation();
    if before.is_empty() {
        let last = end.last();
        office.chronicle.begins(&course.namespace, last);
        course.position.send_replace(last);
        course.note_generation(end.generation.clone());
    }
    if before.is_empty() || before == end.generation {
        let at = *course.position.borrow();
        let own = end.known.iter().filter(|entry| entry.number <= at);
        own.for_each(|entry| known.note(*entry));
    }
    desk.health.reads_fail(false);
    office.note_state(desk);
    known
}

/// What a reader knows of what it has read.
struct Reader {
    known: Memory,
    /// So many entries are asked for.
    part: usize,
    /// The clock of the Redis that was read last.
    clock: Option<Clock>,
}

impl Reader {
    fn reads(&mut self, office: &Office, desk: &Desk, found: Found, at: u64) {
        self.clock = Some(found.clock);
        if let Some(newest) = found.newest {
            desk.health.is_behind(course::ms_between(at, newest));
        }
        // It may have been away for longer than the stream keeps what is said, or read more slowly than others wrote.
        if found.trimmed > at {
            self.misses(office, desk, at, true);
            desk.course.position.send_replace(found.trimmed);
        }
        self.part = course::part_behind(&found.entries, self.part);
        pass(office, desk, found.entries, &mut self.known);
    }

    /// Another Redis may lack the last that was said and stored: what clients have of the one before proves nothing there. And who was not sent
    /// something is not to believe that it has all.
    async fn notes_another(
        &self,
        office: &Office,
        desk: &Desk,
        generation: String,
        at: u64,
    ) -> Result<(), Trouble> {
        let course = &desk.course;
        // What others said meanwhile may stand below what this node has read of the one before: nothing of the new one was read yet.
        let last = course.lift(at).await?;
        let era = course.note_generation(generation);
        tracing::warn!(
            namespace = course.namespace,
            "Redis failed over or was restarted: clients whose node dies now come back to what is said from now on"
        );
        let lost = office.mail.lost(&course.namespace, self.upto(at), era);
        office.deliver(&lost);
        if last.is_some_and(|last| !self.known.has(last)) {
            self.misses(office, desk, at, false);
        }
        Ok(())
    }

    fn misses(&self, office: &Office, desk: &Desk, at: u64, is_behind: bool) {
        let namespace = &desk.course.namespace;
        tracing::warn!(
            namespace,
            is_behind,
            "events were lost before this node had read them: its clients are disconnected, so that they know. Give the stream more room \
                (limits.journal_bytes_max, recovery.window) if Redis was not away"
        );
        office.deliver(&office.mail.missed(namespace, self.upto(at)));
    }

    /// Up to there may be lost what this node has not read.
    fn upto(&self, at: u64) -> u64 {
        let now = self.clock.map_or(0, |clock| clock.number());
        now.max(at + 1)
    }
}

/// The entries that were read last.
#[derive(Default)]
struct Memory {
    entries: VecDeque<Known>,
}

impl Memory {
    fn note(&mut self, entry: Known) {
        if self.entries.len() == KNOWN_MAX {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    fn has(&self, entry: Known) -> bool {
        self.entries.binary_search(&entry).is_ok()
    }
}

fn pass(office: &Office, desk: &Desk, entries: Vec<Entry>, known: &mut Memory) {
    let course = &desk.course;
    let mut last = None;
    for entry in entries {
        let read = match &entry.what {
            What::Event(letter) => office.mail.said(&course.namespace, entry.number, letter),
            What::Taken { fence, pid } => office.mail.taken(&course.namespace, pid, *fence),
            // Nodes tell each other of orders.
            What::Order(_) => None,
        };
        if let Some(read) = read {
            office.deliver(&read);
        }
        known.note(entry.known());
        last = Some(entry.number);
    }
    if let Some(last) = last {
        course.position.send_replace(last);
    }
}
