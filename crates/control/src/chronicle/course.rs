//! The stream of one namespace in Redis: its keys, its commands, and what answers mean.

use crate::cluster::engine::Trouble;
use crate::cluster::redis::Port;
use ::redis::{Cmd, Value, cmd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Bits of the counter in a number; the rest is the time of Redis in ms.
const COUNTER_BITS: u32 = 20;
/// Entries that are read at once.
pub(super) const PART: usize = 256;
/// A reader that has nothing to read asks again so soon: it looks for another generation then.
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

/// The stream of a namespace.
#[derive(Debug)]
pub(super) struct Course {
    pub(super) namespace: String,
    root: String,
    pub(super) window: Duration,
    /// Which Redis it is: another one may have lost something.
    generation: Mutex<String>,
    /// How far this node has read it.
    pub(super) position: watch::Sender<u64>,
    pub(super) writer: Port,
    reader: Port,
}

impl Course {
    pub(super) fn new(
        namespace: &str,
        prefix: &str,
        window: Duration,
        (writer, reader): (Port, Port),
    ) -> Self {
        Self {
            namespace: namespace.to_owned(),
            root: format!("{prefix}recovery:{{{namespace}}}:"),
            window,
            generation: Mutex::default(),
            position: watch::Sender::new(0),
            writer,
            reader,
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

    pub(super) fn generation(&self) -> String {
        let generation = self.generation.lock();
        generation.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The one before, if it was another.
    pub(super) fn note_generation(&self, now: String) -> Option<String> {
        let generation = self.generation.lock();
        let mut generation = generation.unwrap_or_else(PoisonError::into_inner);
        (*generation != now).then(|| std::mem::replace(&mut *generation, now))
    }

    /// How it is at the beginning: the number of its last entry.
    pub(super) async fn look(&self) -> Result<u64, Trouble> {
        let stream = self.stream();
        let mut newest = cmd("XREVRANGE");
        newest.arg(&stream).arg("+").arg("-").arg("COUNT").arg(1);
        let answers = [generation_asked(), newest].to_vec();
        let answers = self
            .reader
            .carry_out_together(stream.as_bytes(), answers)
            .await?;
        let [info, newest] = &answers[..] else {
            return Err(strange(&answers));
        };
        self.note_generation(generation_of(info).ok_or_else(|| strange(info))?);
        let last = entries(newest).last().map_or(0, |entry| entry.number);
        Ok(last)
    }

    /// What comes behind a number, now or soon. `Some`: which Redis it is, where it was asked for.
    pub(super) async fn next(
        &self,
        after: u64,
        asks_generation: bool,
    ) -> Result<(Option<Sign>, Vec<Entry>), Trouble> {
        let stream = self.stream();
        let mut next = cmd("XREAD");
        next.arg("COUNT").arg(PART);
        next.arg("BLOCK").arg(BLOCK.as_millis() as u64);
        next.arg("STREAMS").arg(&stream).arg(id(after));
        let commands = match asks_generation {
            true => vec![generation_asked(), self.trimmed_asked(), next],
            false => vec![next],
        };
        let answers = self
            .reader
            .carry_out_together(stream.as_bytes(), commands)
            .await?;
        let generation = match asks_generation {
            true => Some(Sign::read(&answers).ok_or_else(|| strange(&answers))?),
            false => None,
        };
        let streams = answers.last().and_then(Value::as_map_iter);
        let found = streams.into_iter().flatten();
        let found = found.flat_map(|(_, own)| entries(own)).collect();
        Ok((generation, found))
    }

    fn trimmed_asked(&self) -> Cmd {
        let mut trimmed = cmd("HGET");
        trimmed.arg(self.facts()).arg("trimmed");
        trimmed
    }

    /// A part of what stands behind a number.
    pub(super) async fn range(&self, after: u64) -> Result<Vec<Entry>, Trouble> {
        let stream = self.stream();
        let mut range = cmd("XRANGE");
        range.arg(&stream).arg(format!("({}", id(after))).arg("+");
        range.arg("COUNT").arg(PART);
        let answers = self
            .writer
            .carry_out_together(stream.as_bytes(), vec![range])
            .await?;
        Ok(answers.first().map(entries).unwrap_or_default())
    }
}

/// What a reader looks at beside the stream.
#[derive(Debug)]
pub(super) struct Sign {
    pub(super) generation: String,
    /// The stream has nothing up to here any more.
    pub(super) trimmed: u64,
}

impl Sign {
    fn read(answers: &[Value]) -> Option<Self> {
        let generation = answers.first().and_then(generation_of)?;
        let trimmed = text(answers.get(1)?);
        let trimmed = trimmed.and_then(|id| number(&id)).unwrap_or_default();
        Some(Self {
            generation,
            trimmed,
        })
    }
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
