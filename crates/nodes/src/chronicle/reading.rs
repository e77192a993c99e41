//! The stream of a namespace on its way to the shards of this node.

use super::course::{self, Entry, News, What};
use super::{Desk, Office};
use crate::engine::Trouble;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::sleep;

const PAUSE: Duration = Duration::from_millis(100);
/// Shards with too much before them are asked again so soon.
const BREATH: Duration = Duration::from_millis(2);
/// How often it is looked whether it is still the same Redis.
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
    let goes_on = begin(&office, desk).await;
    // Another Redis than the process before knew is to be noticed before anything is passed on.
    let ago = if goes_on { LOOK } else { Duration::ZERO };
    let mut looked = Instant::now();
    looked = looked.checked_sub(ago).unwrap_or(looked);
    let mut told = (Instant::now(), 0);
    let (mut known, mut part) = (Known::default(), course::PART_MAX);
    known.note(*course.position.borrow());
    loop {
        if (office.are_behind)() {
            sleep(BREATH).await;
            continue;
        }
        let at = *course.position.borrow();
        let asks = looked.elapsed() >= LOOK;
        let mut news = course.next(at, part, asks).await;
        let _turn = desk.turn.lock().await;
        if let Ok(found) = &news
            && let Err(trouble) = look(&office, desk, found, at, &known).await
        {
            news = Err(trouble);
        }
        match news {
            Ok(found) => {
                if let Some(state) = &found.state {
                    looked = Instant::now();
                    let behind_ms = course::ms_between(at, state.newest);
                    desk.health.is_behind(behind_ms);
                }
                desk.health.reads_fail(false);
                office.note_state(desk);
                part = course::part_behind(&found.entries, part);
                pass(&office, desk, found.entries, &mut known);
            }
            Err(trouble) => {
                if desk.health.reads_fail(true) {
                    tracing::warn!(namespace, %trouble, "cannot read what is said in this namespace: its clients get nothing until Redis answers");
                }
                office.note_state(desk);
                // A Redis that comes back may be another.
                looked -= LOOK.min(looked.elapsed());
                sleep(PAUSE).await;
            }
        }
        let at = *course.position.borrow();
        if told.0.elapsed() >= TELL && at > told.1 {
            told = (Instant::now(), at);
            office.deliver(&office.mail.passed(&namespace, at));
        }
    }
}

/// Finds where the stream ends; `true`: the process before has said how far it was.
async fn begin(office: &Office, desk: &Desk) -> bool {
    let course = &desk.course;
    let _turn = desk.turn.lock().await;
    if !course.generation().0.is_empty() {
        return true;
    }
    loop {
        match course.look().await {
            Ok(last) => {
                office.chronicle.begins(&course.namespace, last);
                course.position.send_replace(last);
                desk.health.reads_fail(false);
                office.note_state(desk);
                return false;
            }
            Err(trouble) => {
                tracing::warn!(namespace = course.namespace, %trouble, "cannot read what is said in this namespace yet");
                sleep(PAUSE).await;
            }
        }
    }
}

/// Another Redis may lack the last that was said and stored: what clients have of the one before proves nothing there. And who was not
/// sent something is not to believe that it has all.
async fn look(
    office: &Office,
    desk: &Desk,
    news: &News,
    at: u64,
    known: &Known,
) -> Result<(), Trouble> {
    let course = &desk.course;
    let another = news.state.as_ref().map(|state| &*state.generation);
    let another = another.filter(|now| course.is_another(now));
    // It may have been away for longer than the stream keeps what is said, or read more slowly than others wrote.
    let is_behind = news.trimmed > at;
    let mut misses = is_behind;
    if let Some(now) = another {
        // What others said meanwhile may stand below what this node has read of the one before.
        let last = course.lift(at).await?;
        misses |= last != 0 && !known.has(last);
        let era = course.note_generation(now.to_owned());
        tracing::warn!(
            namespace = course.namespace,
            "Redis failed over or was restarted: clients whose node dies now come back to what is said from now on"
        );
        let lost = office.mail.lost(&course.namespace, upto(at), era);
        office.deliver(&lost);
    }
    if misses {
        tracing::warn!(
            namespace = course.namespace,
            is_behind,
            "events were lost before this node had read them: its clients are disconnected, so that they know. Give the stream more room \
                (limits.journal_bytes_max, recovery.window) if Redis was not away"
        );
        office.deliver(&office.mail.missed(&course.namespace, upto(at)));
        course.position.send_replace(at.max(news.trimmed));
    }
    Ok(())
}

/// Of this moment, by the clock of this host.
fn upto(at: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ms = now.map_or(0, |now| now.as_millis() as u64);
    at.max(now_ms << 20)
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

    /// What stands before the first that is remembered, nobody here missed: it is from before this node began, or far behind it.
    fn has(&self, number: u64) -> bool {
        let first = self.numbers.front();
        first.is_none_or(|first| number < *first) || self.numbers.binary_search(&number).is_ok()
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

    /// A node that had just begun ended all its sockets when Redis lost something from before.
    #[test]
    fn what_was_said_before_a_node_began_counted_as_missed() {
        let mut known = Known::default();
        known.note(10);
        assert!(known.has(9) && known.has(10) && !known.has(11));
        (11..11 + KNOWN_MAX as u64).for_each(|number| known.note(2 * number));
        assert!(known.has(10) && known.has(24) && !known.has(25));
    }
}
