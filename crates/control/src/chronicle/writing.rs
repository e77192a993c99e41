//! What hubs have for the streams: in order, in batches, each until Redis has taken it.

use super::adopting;
use super::course::{Course, text, user};
use super::{Desk, Office};
use ::redis::{Cmd, Value, cmd};
use hub::{ChronicleWord, Saving};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;

const APPEND: &str = include_str!("append.lua");
/// Words of one batch.
const WORDS_MAX: usize = 512;
const PAUSE: Duration = Duration::from_millis(100);
/// A writer's last batch is remembered for so long.
const BATCH_TTL_MS: u64 = 600_000;

/// Writes until the process ends.
pub(super) async fn run(office: Arc<Office>, bell: Arc<Notify>) {
    let mut number = 0u64;
    loop {
        let batches = gather(&office);
        if batches.is_empty() {
            bell.notified().await;
            continue;
        }
        for (namespace, words) in batches {
            if let Some(desk) = office.desks.get(&namespace) {
                number += 1;
                write(&office, desk, &words, number).await;
            }
        }
    }
}

/// What waits, by namespace; claims begin at once.
fn gather(office: &Arc<Office>) -> BTreeMap<String, Vec<ChronicleWord>> {
    let mut batches: BTreeMap<String, Vec<ChronicleWord>> = BTreeMap::new();
    let mut count = 0;
    while count < WORDS_MAX
        && let Some(word) = office.chronicle.next()
    {
        count += 1;
        let namespace = match &word {
            ChronicleWord::Said { namespace, .. }
            | ChronicleWord::Arrived { namespace, .. }
            | ChronicleWord::Ended { namespace, .. } => namespace.clone(),
            ChronicleWord::Saving(saving) => saving.namespace.clone(),
            ChronicleWord::Claiming(claiming) => {
                tokio::spawn(adopting::adopt(Arc::clone(office), claiming.clone()));
                continue;
            }
            ChronicleWord::Listed { shard, number } => {
                office.listed(*shard, *number);
                continue;
            }
        };
        batches.entry(namespace).or_default().push(word);
    }
    batches
}

async fn write(office: &Office, desk: &Desk, words: &[ChronicleWord], number: u64) {
    let course = &desk.course;
    let answers = loop {
        let call = call(office, course, words, number);
        let stream = course.stream();
        let done = course
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
    office.chronicle.written(words.len());
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
            let ticket = saved.entry(saving.shard).or_default();
            *ticket = saving.ticket.max(*ticket);
        }
    }
    for (shard, ticket) in saved {
        office.deliver(&office.mail.saved(shard, ticket));
    }
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
    call.arg(office.stream_bytes_max)
        .arg(course.generation())
        .arg(words.len());
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
                uid, fence, body, ..
            }) => {
                call.arg("s")
                    .arg(*fence)
                    .arg(&body[..])
                    .arg(user(uid.as_deref()))
                    .arg(ttl_ms);
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
