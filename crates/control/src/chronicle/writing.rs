//! What hubs have for the streams: for each namespace in order, in batches, each until Redis has taken it.

use super::adopting;
use super::course::{Course, text, user};
use super::{Desk, Office};
use ::redis::{Cmd, Value, cmd};
use hub::{ChronicleWord, Saving};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::sleep;

const APPEND: &str = include_str!("append.lua");
/// Words of one batch.
const WORDS_MAX: usize = 512;
const PAUSE: Duration = Duration::from_millis(100);
/// A writer's last batch is remembered for so long: no connection that was given up brings one later.
const BATCH_TTL_MS: u64 = 3_600_000;
/// Bytes of words that a namespace's writer may have before it.
const TRAY_BYTES_MAX: usize = 8 << 20;
/// What a word takes beside its texts.
const WORD_BYTES: usize = 200;

/// Words of one namespace on their way to its writer.
pub(super) struct Tray {
    words: UnboundedSender<Waiting>,
    /// A permit for each byte.
    room: Arc<Semaphore>,
    room_max: u32,
}

/// A word, and the room that it takes until it is written.
pub(super) type Waiting = (ChronicleWord, OwnedSemaphorePermit);

impl Tray {
    /// Where a stream keeps so many bytes: one batch takes no more than a part of it, or it would trim itself.
    pub(super) fn new(stream_bytes_max: u64) -> (Self, UnboundedReceiver<Waiting>) {
        let (words, receiver) = unbounded_channel();
        let half = usize::try_from(stream_bytes_max / 2).unwrap_or(usize::MAX);
        let room_max = TRAY_BYTES_MAX.min(half).max(1);
        let room = Arc::new(Semaphore::new(room_max));
        let room_max = room_max as u32;
        let tray = Self {
            words,
            room,
            room_max,
        };
        (tray, receiver)
    }

    async fn put(&self, word: ChronicleWord) {
        let bytes = u32::try_from(bytes_of(&word)).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.room);
        let room = room.acquire_many_owned(bytes.min(self.room_max)).await;
        if let Ok(room) = room {
            // Its writer ends with the process.
            let _ = self.words.send((word, room));
        }
    }
}

/// Brings words to the writers of their namespaces until the process ends; claims begin at once. A namespace whose Redis is away holds
/// the others only when its tray is full.
pub(super) async fn sort(office: Arc<Office>, bell: Arc<Notify>) {
    loop {
        let Some(word) = office.chronicle.next() else {
            bell.notified().await;
            continue;
        };
        match &word {
            ChronicleWord::Claiming(claiming) => {
                tokio::spawn(adopting::adopt(Arc::clone(&office), claiming.clone()));
                continue;
            }
            ChronicleWord::Listed { shard, number } => {
                office.listed(*shard, *number);
                continue;
            }
            ChronicleWord::Saving(saving) => office.tickets.given(saving.shard, saving.ticket),
            ChronicleWord::Said { .. }
            | ChronicleWord::Arrived { .. }
            | ChronicleWord::Ended { .. } => {}
        }
        if let Some(desk) = office.desks.get(namespace_of(&word)) {
            desk.tray.put(word).await;
        }
    }
}

/// Writes what is said in a namespace until the process ends.
pub(super) async fn run(
    office: Arc<Office>,
    namespace: String,
    mut tray: UnboundedReceiver<Waiting>,
) {
    let Some(desk) = office.desks.get(&namespace) else {
        return;
    };
    let (mut number, mut waiting) = (0u64, Vec::new());
    while tray.recv_many(&mut waiting, WORDS_MAX).await > 0 {
        number += 1;
        let (words, _room): (Vec<_>, Vec<_>) = waiting.drain(..).unzip();
        write(&office, desk, &words, number).await;
    }
}

fn namespace_of(word: &ChronicleWord) -> &str {
    match word {
        ChronicleWord::Said { namespace, .. }
        | ChronicleWord::Arrived { namespace, .. }
        | ChronicleWord::Ended { namespace, .. } => namespace,
        ChronicleWord::Saving(saving) => &saving.namespace,
        ChronicleWord::Claiming(claiming) => &claiming.namespace,
        ChronicleWord::Listed { .. } => "",
    }
}

fn bytes_of(word: &ChronicleWord) -> usize {
    WORD_BYTES
        + match word {
            ChronicleWord::Said { letter, .. } => letter.len(),
            ChronicleWord::Saving(saving) => saving.body.len(),
            _ => 0,
        }
}

async fn write(office: &Office, desk: &Desk, words: &[ChronicleWord], number: u64) {
    let course = &desk.course;
    let answers = loop {
        let call = call(office, course, words, number);
        let stream = course.stream();
        let done = course
            .ports
            .writer
            .carry_out_together(stream.as_bytes(), vec![call]);
        match done.await {
            Ok(answers) => break answers,
            Err(trouble) => {
                if desk.writes_fail(true) {
                    tracing::warn!(namespace = course.namespace, %trouble, "cannot write what clients may come back to: publishers are refused, and \
                        nobody who comes now can come back, until Redis takes it");
                }
                office.note_state(desk);
                sleep(PAUSE).await;
            }
        }
    };
    if desk.writes_fail(false) {
        tracing::info!(
            namespace = course.namespace,
            "what clients may come back to is written again"
        );
    }
    office.note_state(desk);
    tell_stale(office, &course.namespace, words, &answers);
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
            let upto = office.tickets.stored(saving.shard, saving.ticket);
            saved.insert(saving.shard, upto);
        }
    }
    for (shard, upto) in saved {
        office.deliver(&office.mail.saved(shard, upto));
    }
    // Last: whoever waits for it believes that shards are told.
    office.chronicle.written(words.len());
}

/// Sockets that somebody took are not here any more, before anybody is told that they are stored.
fn tell_stale(office: &Office, namespace: &str, words: &[ChronicleWord], answers: &[Value]) {
    let answer = answers.first().and_then(Value::as_sequence);
    let stale = answer.unwrap_or_default().iter().skip(1);
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

fn call(office: &Office, course: &Course, words: &[ChronicleWord], number: u64) -> Cmd {
    let records: Vec<String> = words
        .iter()
        .filter_map(|word| pid_of(word).map(|pid| course.record(pid)))
        .collect();
    let mut call = cmd("EVAL");
    call.arg(APPEND).arg(3 + records.len());
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
    let ttl_ms = 2 * course.window.as_millis() as u64 + 120_000;
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
            ChronicleWord::Claiming(_) | ChronicleWord::Listed { .. } => {}
        }
    }
    call
}

fn pid_of(word: &ChronicleWord) -> Option<&str> {
    match word {
        ChronicleWord::Saving(saving) => Some(&saving.pid),
        ChronicleWord::Arrived { pid, .. } | ChronicleWord::Ended { pid, .. } => Some(pid),
        _ => None,
    }
}
