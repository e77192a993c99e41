//! What hubs have for the streams: each namespace's words in order, in batches, each until Redis has taken it; and their questions.

use super::adopting;
use super::course::{Course, text, user};
use super::{Desk, Office};
use crate::engine::Trouble;
use ::redis::{Cmd, Value, cmd};
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use hub::bounds::UNTOLD_MS;
use hub::mailbox::waker;
use hub::{ChronicleQuestion, ChronicleWord, Saving};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

const APPEND: &str = include_str!("append.lua");
/// Words of one batch, and their bytes.
const WORDS_MAX: usize = 512;
const BATCH_BYTES_MAX: usize = 8 << 20;
const PAUSE: Duration = Duration::from_millis(100);
/// A writer's last batch is remembered for so long: no connection that was given up brings one later.
const BATCH_TTL_MS: u64 = 3_600_000;

/// The script as it is named to Redis: by its digest once a Redis has it, which is 40 bytes instead of some 3,000 that are read and digested for each
/// event.
pub(super) struct Script {
    name: String,
    is_there: bool,
    /// The user of Redis may run whole scripts only.
    stays_whole: bool,
}

impl Script {
    pub(super) fn new() -> Self {
        let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, APPEND.as_bytes());
        let name = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        Self {
            name: name.collect(),
            is_there: false,
            stays_whole: false,
        }
    }

    pub(super) fn call(&self) -> Cmd {
        let (command, script) = match self.is_there {
            true => ("EVALSHA", &*self.name),
            false => ("EVAL", APPEND),
        };
        let mut call = cmd(command);
        call.arg(script);
        call
    }

    /// Redis carried it out, and has it from now on.
    pub(super) fn is_known(&mut self) {
        self.is_there = !self.stays_whole;
    }

    /// Whether it is to be said whole at once, as behind a failover.
    pub(super) fn is_wanted(&mut self, trouble: &Trouble) -> bool {
        let is_wanted = self.is_there && trouble.names_script();
        if is_wanted {
            self.is_there = false;
            self.stays_whole = trouble.lasts();
        }
        is_wanted
    }
}

/// A bell for the one task that is woken by it.
fn bell(wake: impl FnOnce(std::task::Waker)) -> Arc<Notify> {
    let bell = Arc::new(Notify::new());
    let rung = Arc::clone(&bell);
    wake(waker(move || rung.notify_one()));
    bell
}

/// Begins with claims at once, and never waits for one, until the process ends.
pub(super) async fn answer(office: Arc<Office>) {
    let bell = bell(|waker| office.chronicle.wake_answerer(waker));
    loop {
        match office.chronicle.next_question() {
            Some(ChronicleQuestion::Claiming(claiming)) => {
                tokio::spawn(adopting::adopt(Arc::clone(&office), claiming));
            }
            Some(ChronicleQuestion::Listed { shard, number }) => office.listed(shard, number),
            None => bell.notified().await,
        }
    }
}

/// Writes what is said in a namespace until the process ends.
pub(super) async fn run(office: Arc<Office>, namespace: String) {
    let Some(desk) = office.desks.get(&namespace) else {
        return;
    };
    let bell = bell(|waker| office.chronicle.wake_writer(&namespace, waker));
    let (mut number, mut script) = (0, Script::new());
    loop {
        let words = next_batch(&office, &namespace);
        if words.is_empty() {
            bell.notified().await;
            continue;
        }
        number += 1;
        write(&office, desk, (&words, number), &mut script).await;
    }
}

/// What one script writes: no more than half of what a stream keeps, or it would trim itself.
fn next_batch(office: &Office, namespace: &str) -> Vec<ChronicleWord> {
    let half = usize::try_from(office.stream_bytes_max / 2).unwrap_or(usize::MAX);
    let bytes_max = BATCH_BYTES_MAX.min(half);
    let (mut words, mut bytes) = (Vec::new(), 0);
    while words.len() < WORDS_MAX && bytes < bytes_max {
        let Some(word) = office.chronicle.next(namespace) else {
            break;
        };
        bytes += word.bytes();
        words.push(word);
    }
    words
}

async fn write(
    office: &Office,
    desk: &Desk,
    (words, number): (&[ChronicleWord], u64),
    script: &mut Script,
) {
    let course = &desk.course;
    let health = &desk.health;
    health.writing(office.chronicle.unwritten_of(&course.namespace));
    let answer = loop {
        match course
            .write(call(office, course, (words, number), script))
            .await
        {
            Ok(answer) => break answer,
            Err(trouble) if script.is_wanted(&trouble) => {}
            Err(trouble) => {
                if health.writes_fail(true) {
                    tracing::warn!(namespace = course.namespace, %trouble, "cannot write what clients may come back to: publishers are refused, and \
                        nobody who comes now can come back, until Redis takes it");
                }
                office.note_state(desk);
                sleep(PAUSE).await;
            }
        }
    };
    script.is_known();
    if health.writes_fail(false) {
        tracing::info!(
            namespace = course.namespace,
            "what clients may come back to is written again"
        );
    }
    office.note_state(desk);
    tell_stale(office, &course.namespace, words, &answer);
    let mut saved: BTreeMap<u16, u64> = BTreeMap::new();
    for word in words {
        if let ChronicleWord::Said {
            receipt: Some(receipt),
            ..
        } = word
        {
            office.acks.receipts.answer(*receipt, Ok(()));
        }
        if let ChronicleWord::Saving(saving) = word {
            saved.insert(saving.shard, saving.ticket);
        }
    }
    for (shard, upto) in saved {
        office.deliver(&office.mail.saved(shard, &course.namespace, upto));
    }
    // Last: whoever waits for it believes that shards are told.
    office.chronicle.written(&course.namespace, words.len());
    let left = office.chronicle.unwritten_of(&course.namespace);
    health.wrote(words.len(), left);
}

/// Sockets that somebody took are not here any more, before anybody is told that they are stored.
fn tell_stale(office: &Office, namespace: &str, words: &[ChronicleWord], answer: &Value) {
    let stale = answer.as_sequence().unwrap_or_default().iter().skip(1);
    for (index, fence) in stale.filter_map(stale_of) {
        if let Some(ChronicleWord::Saving(saving)) = words.get(index) {
            let mail = &office.mail;
            if let Some(read) = mail.taken_from(saving.shard, namespace, &saving.pid, fence) {
                office.deliver(&read);
            }
        }
    }
}

fn stale_of(value: &Value) -> Option<(usize, u64)> {
    let text = text(value)?;
    let (word, fence) = text.split_once(' ')?;
    let word: usize = word.parse().ok()?;
    Some((word.checked_sub(1)?, fence.parse().ok()?))
}

fn call(
    office: &Office,
    course: &Course,
    (words, number): (&[ChronicleWord], u64),
    script: &Script,
) -> Cmd {
    let records: Vec<String> = words
        .iter()
        .filter_map(|word| pid_of(word).map(|pid| course.record(pid)))
        .collect();
    let mut call = script.call();
    call.arg(3 + records.len());
    call.arg(course.stream())
        .arg(course.facts())
        .arg(course.batch(&office.writer))
        .arg(&records);
    call.arg(number)
        .arg(BATCH_TTL_MS)
        .arg(course.window.as_millis() as u64);
    call.arg(office.stream_bytes_max).arg(words.len());
    let (generation, era) = course.generation();
    // A socket whose client is silent is told of with each of its pongs.
    let ttl_ms = 2 * (course.window.as_millis() as u64 + UNTOLD_MS);
    for word in words {
        match word {
            ChronicleWord::Said {
                letter, is_order, ..
            } => {
                call.arg(if *is_order { "o" } else { "e" }).arg(&letter[..]);
            }
            ChronicleWord::Saving(Saving {
                uid,
                fence,
                body,
                era: made_in,
                ..
            }) => {
                // What was made before a failover knows nothing of what it lost.
                let is_current = *made_in == era;
                call.arg("s")
                    .arg(*fence)
                    .arg(&body[..])
                    .arg(user(uid.as_deref()))
                    .arg(ttl_ms)
                    .arg(if is_current { &*generation } else { "" });
            }
            ChronicleWord::Arrived { fence, number, .. } => {
                call.arg("a").arg(*fence).arg(super::course::id(*number));
            }
            ChronicleWord::Ended { fence, .. } => {
                call.arg("d").arg(*fence);
            }
        }
    }
    call
}

fn pid_of(word: &ChronicleWord) -> Option<&str> {
    match word {
        ChronicleWord::Saving(saving) => Some(&saving.pid),
        ChronicleWord::Arrived { pid, .. } | ChronicleWord::Ended { pid, .. } => Some(pid),
        ChronicleWord::Said { .. } => None,
    }
}
