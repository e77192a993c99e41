//! The stream of a namespace on its way to the shards of this node.

use super::course::{self, Clock, Entry, Found, News, What};
use super::{Desk, Office};
use crate::cluster::engine::Trouble;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const PAUSE: Duration = Duration::from_millis(100);
/// Shards with too much before them are asked again so soon.
const BREATH: Duration = Duration::from_millis(2);
/// How often it is looked how far the stream is.
const LOOK: Duration = Duration::from_millis(500);
/// So many numbers are remembered: a failover that lost more is one that nobody knows anything of.
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
async fn begin(office: &Office, desk: &Desk) -> Known {
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
    let mut known = Known::default();
    let (before, _) = course.generation();
    if before.is_empty() {
        let last = end.last();
        office.chronicle.begins(&course.namespace, last);
        course.position.send_replace(last);
        course.note_generation(end.generation.clone());
    }
    if before.is_empty() || before == end.generation {
        let at = *course.position.borrow();
        let numbers = end.numbers.iter().filter(|number| **number <= at);
        numbers.for_each(|number| known.note(*number));
    }
    desk.health.reads_fail(false);
    office.note_state(desk);
    known
}

/// What a reader knows of what it has read.
struct Reader {
    known: Known,
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
        if last != 0 && !self.known.has(last) {
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

/// The numbers that were read last.
#[derive(Default)]
struct Known {
    numbers: VecDeque<u64>,
}

impl Known {
    fn note(&mut self, number: u64) {
        if self.numbers.len() == KNOWN_MAX {
            self.numbers.pop_front();
        }
        self.numbers.push_back(number);
    }

    fn has(&self, number: u64) -> bool {
        self.numbers.binary_search(&number).is_ok()
    }
}

fn pass(office: &Office, desk: &Desk, entries: Vec<Entry>, known: &mut Known) {
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
        known.note(entry.number);
        last = Some(entry.number);
    }
    if let Some(last) = last {
        course.position.send_replace(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that a clock gave which is behind counted as those of entries from before a node began, or from long ago.
    #[test]
    fn what_was_never_read_is_not_known() {
        let mut known = Known::default();
        [7, 8, 10].into_iter().for_each(|number| known.note(number));
        assert!(known.has(8) && known.has(10));
        assert!(!known.has(6) && !known.has(9) && !known.has(11));
        (11..11 + KNOWN_MAX as u64).for_each(|number| known.note(2 * number));
        assert!(!known.has(10) && known.has(24) && !known.has(25));
    }
}
