//! The stream of one namespace in Redis: its keys, its commands, and what answers mean.

use super::Stream;
use crate::engine::Trouble;
use crate::redis::Port;
use ::redis::{Cmd, Value, cmd};
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Bits of the counter in a number; the rest is the time of Redis in ms.
const COUNTER_BITS: u32 = 20;
/// Entries that are read at once, and their bytes: after large ones fewer are asked for.
pub(super) const PART_MAX: usize = 256;
pub(super) const PART_MIN: usize = 16;
const PART_BYTES: usize = 1 << 20;
/// Replicas that have not taken what was written by then count as away.
const REPLICAS_MS: u64 = 1_000;
const LIFT: &str = include_str!("lift.lua");
/// Which the last entries are, without what is in them.
const NAMES: &str = "local names = {} \
    for at, entry in ipairs(redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', ARGV[1])) do \
    names[at] = {entry[1], redis.sha1hex(entry[2][2])} end \
    return names";
/// A failover that loses more than so many entries is one that a node which has just begun knows nothing of.
const NAMES_MAX: usize = 256;
/// A reader that has nothing to read asks again so soon: it may be another Redis by then.
const BLOCK: Duration = Duration::from_millis(300);

/// One entry of the stream.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) what: What,
}

#[derive(Debug)]
pub(super) enum What {
    Event(Vec<u8>),
    Order(Vec<u8>),
    Taken { fence: u64, pid: String },
}

impl Entry {
    pub(super) fn known(&self) -> Known {
        let mut hash = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
        match &self.what {
            What::Event(letter) | What::Order(letter) => hash.update(letter),
            What::Taken { fence, pid } => hash.update(format!("{fence} {pid}").as_bytes()),
        }
        let hash = hash.finish();
        let first = hash.as_ref().first_chunk();
        Known {
            number: self.number,
            digest: first.copied().map_or(0, u64::from_be_bytes),
        }
    }

    fn bytes(&self) -> usize {
        match &self.what {
            What::Event(letter) | What::Order(letter) => letter.len(),
            What::Taken { pid, .. } => pid.len(),
        }
    }
}

/// How many entries to ask for behind these.
pub(super) fn part_behind(entries: &[Entry], before: usize) -> usize {
    let bytes: usize = entries.iter().map(Entry::bytes).sum();
    match bytes.checked_div(entries.len()) {
        Some(each) => (PART_BYTES / each.max(1)).clamp(PART_MIN, PART_MAX),
        None => before,
    }
}

/// Tells one entry from all others. A name alone does not: after a failover, where clocks are behind, another entry may get the name of a lost one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Known {
    pub(super) number: u64,
    /// The beginning of the SHA-1 of its content.
    digest: u64,
}

/// As scripts answer it: its name, and the SHA-1 in hex.
fn known_of(value: &Value) -> Option<Known> {
    let [name, digest] = value.as_sequence()? else {
        return None;
    };
    let (name, digest) = (text(name)?, text(digest)?);
    Some(Known {
        number: number(&name)?,
        digest: u64::from_str_radix(digest.get(..16)?, 16).ok()?,
    })
}

/// The name of an entry as a number.
pub(super) fn number(id: &str) -> Option<u64> {
    let (ms, counter) = id.split_once('-')?;
    let (ms, counter): (u64, u64) = (ms.parse().ok()?, counter.parse().ok()?);
    Some(ms << COUNTER_BITS | counter.min((1 << COUNTER_BITS) - 1))
}

/// And back.
pub(super) fn id(number: u64) -> String {
    let counter = number & ((1 << COUNTER_BITS) - 1);
    format!("{}-{counter}", number >> COUNTER_BITS)
}

/// Nobody is another user than one without a name.
pub(super) fn user(uid: Option<&str>) -> String {
    uid.map_or_else(|| "-".to_owned(), |uid| format!("+{uid}"))
}

pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

pub(super) fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes.clone()),
        _ => None,
    }
}

fn entry(value: &Value) -> Option<Entry> {
    let [name, fields] = value.as_sequence()? else {
        return None;
    };
    let [kind, body] = fields.as_sequence()? else {
        return None;
    };
    let what = match &*text(kind)? {
        "e" => What::Event(bytes(body)?),
        "o" => What::Order(bytes(body)?),
        _ => {
            let body = text(body)?;
            let (fence, pid) = body.split_once(' ')?;
            let (fence, pid) = (fence.parse().ok()?, pid.to_owned());
            What::Taken { fence, pid }
        }
    };
    let number = number(&text(name)?)?;
    Some(Entry { number, what })
}

/// Entries of XRANGE.
pub(super) fn entries(answer: &Value) -> Vec<Entry> {
    let entries = answer.as_sequence().unwrap_or_default();
    entries.iter().filter_map(entry).collect()
}

/// Connections: none waits for what another one reads.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) writer: Port,
    pub(super) reader: Port,
    pub(super) claims: Port,
}

/// Which Redis it is: another one may have lost something.
#[derive(Debug, Default)]
struct Generation {
    name: String,
    /// How many there were before.
    era: u64,
}

/// The stream of a namespace.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) namespace: String,
    root: String,
    pub(super) window: Duration,
    replicas: u16,
    generation: Mutex<Generation>,
    /// How far this node has read it.
    pub(super) position: watch::Sender<u64>,
    pub(super) ports: Ports,
}

impl Course {
    pub(super) fn new(stream: &Stream, prefix: &str, ports: Ports) -> Self {
        let namespace = &stream.namespace;
        Self {
            namespace: namespace.clone(),
            root: format!("{prefix}recovery:{{{namespace}}}:"),
            window: stream.window,
            replicas: stream.replicas,
            generation: Mutex::default(),
            position: watch::Sender::new(0),
            ports,
        }
    }

    pub(super) fn stream(&self) -> String {
        format!("{}stream", self.root)
    }

    pub(super) fn facts(&self) -> String {
        format!("{}facts", self.root)
    }

    pub(super) fn batch(&self, writer: &str) -> String {
        format!("{}batch:{writer}", self.root)
    }

    pub(super) fn record(&self, pid: &str) -> String {
        format!("{}socket:{pid}", self.root)
    }

    fn lock(&self) -> MutexGuard<'_, Generation> {
        let generation = self.generation.lock();
        generation.unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name, and how many there were before.
    pub(super) fn generation(&self) -> (String, u64) {
        let generation = self.lock();
        (generation.name.clone(), generation.era)
    }

    /// Whether it is another than before.
    fn is_another(&self, now: &str) -> bool {
        let generation = self.lock();
        !generation.name.is_empty() && generation.name != now
    }

    /// From now on it is this one; how many there were before.
    pub(super) fn note_generation(&self, now: String) -> u64 {
        let mut generation = self.lock();
        if !generation.name.is_empty() && generation.name != now {
            generation.era += 1;
        }
        generation.name = now;
        generation.era
    }

    /// Does it unless another generation was noted meanwhile, and before one is; whether it did.
    pub(super) fn within(&self, era: u64, act: impl FnOnce()) -> bool {
        let generation = self.lock();
        let is_same = generation.era == era;
        if is_same {
            act();
        }
        is_same
    }

    /// Writes, and waits for replicas on the connection that wrote: what it wrote before they have as well.
    pub(super) async fn write(&self, call: Cmd) -> Result<Value, Trouble> {
        let mut commands = vec![call];
        if self.replicas > 0 {
            let mut wait = cmd("WAIT");
            wait.arg(self.replicas).arg(REPLICAS_MS);
            commands.push(wait);
        }
        let (stream, port) = (self.stream(), &self.ports.writer);
        let answers = port.carry_out_together(stream.as_bytes(), commands).await?;
        let has = match answers.get(1) {
            Some(Value::Int(has)) => *has,
            _ => 0,
        };
        if has < i64::from(self.replicas) {
            return Err(Trouble::new(format!(
                "{has} of {} replicas of Redis have it within {REPLICAS_MS} ms: it is tried again; mend the others, or ask for fewer \
                 (recovery.replicas)",
                self.replicas
            )));
        }
        answers
            .into_iter()
            .next()
            .ok_or_else(|| strange(&"nothing"))
    }

    /// How it ends now, and at which Redis.
    pub(super) async fn look(&self) -> Result<End, Trouble> {
        let stream = self.stream();
        let mut names = cmd("EVAL");
        names.arg(NAMES).arg(1).arg(&stream).arg(NAMES_MAX);
        let commands = vec![names, self.trimmed_asked(), generation_asked()];
        let port = &self.ports.reader;
        let answers = port.carry_out_together(stream.as_bytes(), commands).await?;
        let [names, trimmed, info] = &answers[..] else {
            return Err(strange(&answers));
        };
        let names = names.as_sequence().ok_or_else(|| strange(names))?;
        let known = names.iter().rev().filter_map(known_of);
        Ok(End {
            generation: generation_of(info).ok_or_else(|| strange(info))?,
            trimmed: trimmed_of(trimmed),
            known: known.collect(),
        })
    }

    fn newest_asked(&self) -> Cmd {
        let mut newest = cmd("XREVRANGE");
        newest.arg(self.stream()).arg("+").arg("-");
        newest.arg("COUNT").arg(1);
        newest
    }

    /// What comes behind a number, now or soon. Which Redis that is, is asked in the same round trip and behind it: a read that began before a
    /// failover and ended after it counts as one of the new Redis.
    pub(super) async fn next(
        &self,
        after: u64,
        part: usize,
        asks_newest: bool,
    ) -> Result<News, Trouble> {
        let stream = self.stream();
        let mut next = cmd("XREAD");
        next.arg("COUNT").arg(part);
        next.arg("BLOCK").arg(BLOCK.as_millis() as u64);
        next.arg("STREAMS").arg(&stream).arg(id(after));
        let mut commands = vec![cmd("TIME"), next, self.trimmed_asked(), generation_asked()];
        if asks_newest {
            commands.push(self.newest_asked());
        }
        let began = Instant::now();
        let port = &self.ports.reader;
        let answers = port.carry_out_together(stream.as_bytes(), commands).await?;
        let [time, found, trimmed, info, newest @ ..] = &answers[..] else {
            return Err(strange(&answers));
        };
        let generation = generation_of(info).ok_or_else(|| strange(info))?;
        if self.is_another(&generation) {
            return Ok(News::Another(generation));
        }
        let streams = found.as_map_iter().into_iter().flatten();
        Ok(News::Found(Found {
            clock: Clock {
                began,
                then_ms: time_of(time).ok_or_else(|| strange(time))?,
            },
            newest: newest.first().map(last_of),
            trimmed: trimmed_of(trimmed),
            entries: streams.flat_map(|(_, own)| entries(own)).collect(),
        }))
    }

    fn trimmed_asked(&self) -> Cmd {
        let mut trimmed = cmd("HGET");
        trimmed.arg(self.facts()).arg("trimmed");
        trimmed
    }

    /// A part of what stands behind a number; and up to where the stream has nothing any more, looked at behind it.
    pub(super) async fn range(
        &self,
        after: u64,
        part: usize,
    ) -> Result<(Vec<Entry>, u64), Trouble> {
        let stream = self.stream();
        let mut range = cmd("XRANGE");
        range.arg(&stream).arg(format!("({}", id(after))).arg("+");
        range.arg("COUNT").arg(part);
        let commands = vec![range, self.trimmed_asked()];
        let port = &self.ports.claims;
        let answers = port.carry_out_together(stream.as_bytes(), commands).await?;
        let [found, trimmed] = &answers[..] else {
            return Err(strange(&answers));
        };
        Ok((entries(found), trimmed_of(trimmed)))
    }

    /// Behind a failover: what is said from now on gets numbers behind this one. The last entry up to there, if there is one.
    pub(super) async fn lift(&self, at: u64) -> Result<Option<Known>, Trouble> {
        let stream = self.stream();
        let mut call = cmd("EVAL");
        call.arg(LIFT).arg(2).arg(&stream).arg(self.facts());
        call.arg(id(at)).arg(id(at + 1));
        let port = &self.ports.reader;
        let answers = port
            .carry_out_together(stream.as_bytes(), vec![call])
            .await?;
        match answers.first() {
            Some(Value::Nil) => Ok(None),
            Some(last) => known_of(last).map(Some).ok_or_else(|| strange(last)),
            None => Err(strange(&answers)),
        }
    }
}

/// How a stream ends.
#[derive(Debug)]
pub(super) struct End {
    pub(super) generation: String,
    trimmed: u64,
    /// Its last entries, in order.
    pub(super) known: Vec<Known>,
}

impl End {
    /// Nothing stands behind it.
    pub(super) fn last(&self) -> u64 {
        let last = self.known.last();
        last.map_or(0, |last| last.number).max(self.trimmed)
    }
}

/// What a reader finds.
#[derive(Debug)]
pub(super) enum News {
    Found(Found),
    /// Another Redis than before answered. What that has is not to be had before it is noted: some may stand below what was read of the last.
    Another(String),
}

/// What the same Redis as before has.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) clock: Clock,
    /// The last entry, where it was asked for.
    pub(super) newest: Option<u64>,
    /// The stream has nothing up to here any more.
    pub(super) trimmed: u64,
    pub(super) entries: Vec<Entry>,
}

/// The clock of a Redis, which names its entries. That of this host may show anything.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// When it was asked.
    began: Instant,
    then_ms: u64,
}

impl Clock {
    /// No entry has a number above it by now, unless a failover lifted the stream.
    pub(super) fn number(&self) -> u64 {
        let since_ms = self.began.elapsed().as_millis() as u64;
        (self.then_ms + since_ms + 1) << COUNTER_BITS
    }
}

fn time_of(value: &Value) -> Option<u64> {
    let [seconds, micros] = value.as_sequence()? else {
        return None;
    };
    let (seconds, micros): (u64, u64) = (text(seconds)?.parse().ok()?, text(micros)?.parse().ok()?);
    Some(seconds * 1_000 + micros / 1_000)
}

/// For so long the stream went on behind a number, by the clock of Redis.
pub(super) fn ms_between(read: u64, newest: u64) -> u64 {
    (newest >> COUNTER_BITS).saturating_sub(read >> COUNTER_BITS)
}

/// The number of the only entry; 0: there is none.
fn last_of(found: &Value) -> u64 {
    entries(found).last().map_or(0, |entry| entry.number)
}

fn trimmed_of(value: &Value) -> u64 {
    let trimmed = text(value).and_then(|id| number(&id));
    trimmed.unwrap_or_default()
}

pub(super) fn generation_asked() -> Cmd {
    let mut info = cmd("INFO");
    info.arg("replication");
    info
}

/// A Redis that became master, or was started anew, has another.
pub(super) fn generation_of(info: &Value) -> Option<String> {
    let info = text(info)?;
    let mut lines = info.lines();
    let line = lines.find_map(|line| line.strip_prefix("master_replid:"))?;
    Some(line.trim().to_owned())
}

pub(super) fn strange(answer: &dyn std::fmt::Debug) -> Trouble {
    Trouble::new(format!("Redis answers strangely: {answer:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_entries_are_numbers_in_their_order() {
        let one = number("1795795200000-0").expect("a number");
        let two = number("1795795200000-7").expect("a number");
        let three = number("1795795200001-0").expect("a number");
        assert!(one < two && two < three);
        assert_eq!(id(two), "1795795200000-7");
        assert_eq!(number("0-0"), Some(0));
        assert_eq!(number("x"), None);
    }
}
