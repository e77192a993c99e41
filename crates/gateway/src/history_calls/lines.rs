//! An export of a room: one event a line, oldest first.

use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A line; a longer one is torn.
const LINE_BYTES_MAX: u64 = 8 << 20;
/// Characters of a place.
const PLACE: usize = 13;

/// An event of a line, or of a page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// Its place, which sorts as text.
    pub(super) at: String,
    pub(super) event: Value,
}

/// What is the same in both of two stores: all but the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mark(u64, u64);

impl Line {
    /// Why it is no event, in words.
    pub(super) fn read(event: Value) -> Result<Self, String> {
        let at = event["at"].as_str().unwrap_or_default();
        if at.len() != PLACE || !at.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(format!("\"at\" is no place: {}", event["at"]));
        }
        for (name, is_good) in [
            ("time", event["time"].is_u64()),
            ("event", event["event"].is_string()),
            ("args", event["args"].is_array()),
            ("user", event["user"].is_null() || event["user"].is_string()),
        ] {
            if !is_good {
                return Err(format!("{name:?} is missing or of another kind"));
            }
        }
        Ok(Self {
            at: at.to_owned(),
            event,
        })
    }

    /// Events with one mark are the same event.
    pub(super) fn mark(&self) -> Mark {
        let half = |salt: u8| {
            let mut sum = DefaultHasher::new();
            salt.hash(&mut sum);
            for name in ["time", "event", "args", "user"] {
                self.event[name].to_string().hash(&mut sum);
            }
            sum.finish()
        };
        Mark(half(0), half(1))
    }
}

/// The lines of a file, one after the other, with what is wrong with each.
#[derive(Debug)]
pub(super) struct Lines {
    reader: BufReader<File>,
    number: u64,
    last: String,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self {
            reader: BufReader::new(file),
            number: 0,
            last: String::new(),
        })
    }

    /// `None`: the end. Else the line's number, and the event or what is wrong.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Result<Line, String>)>> {
        let mut bytes = Vec::new();
        let limited = &mut self.reader;
        let read = std::io::Read::take(limited, LINE_BYTES_MAX).read_until(b'\n', &mut bytes);
        if read.context("cannot read on")? == 0 {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some((self.number, self.judge(&bytes))))
    }

    fn judge(&mut self, bytes: &[u8]) -> Result<Line, String> {
        let Some(text) = bytes.strip_suffix(b"\n") else {
            return Err("it is torn: no end of line".to_owned());
        };
        let event = serde_json::from_slice(text).map_err(|error| format!("it is torn: {error}"))?;
        let line = Line::read(event)?;
        if line.at <= self.last {
            return Err(format!(
                "its place {} is not behind the one before ({}): it stands twice, or lines were moved",
                line.at, self.last
            ));
        }
        self.last.clone_from(&line.at);
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str) -> Vec<Result<String, String>> {
        let folder = std::env::temp_dir().join(format!("sockeye-lines-{}", std::process::id()));
        std::fs::write(&folder, text).expect("a file");
        let mut lines = Lines::open(&folder).expect("it is there");
        let mut all = Vec::new();
        while let Some((_, line)) = lines.next().expect("it can be read") {
            all.push(line.map(|line| line.at));
        }
        std::fs::remove_file(&folder).expect("it is ours");
        all
    }

    #[test]
    fn each_byte_that_is_cut_off_is_seen() {
        let good = "{\"at\":\"0000000000001\",\"time\":1,\"event\":\"a\",\"args\":[]}\n\
                    {\"at\":\"0000000000002\",\"time\":2,\"event\":\"a\",\"args\":[{\"x\":\"ä\"}],\"user\":\"u\"}\n";
        let at = |n: u8| Ok(format!("000000000000{n}"));
        assert_eq!(judged(good), [at(1), at(2)]);
        let first = good.find('\n').expect("a line") + 1;
        for cut in (first + 1)..good.len() {
            let Some(text) = good.get(..cut) else {
                continue;
            };
            let lines = judged(text);
            assert_eq!((lines.len(), &lines[0]), (2, &at(1)), "{text}");
            assert!(lines[1].is_err(), "{text}");
        }
    }

    #[test]
    fn lines_that_stand_twice_or_are_no_events_are_seen() {
        let line =
            |at: &str| format!("{{\"at\":\"{at}\",\"time\":1,\"event\":\"a\",\"args\":[]}}\n");
        let (one, two) = (line("0000000000001"), line("0000000000002"));
        let wrong = |text: String| judged(&text).into_iter().filter(Result::is_err).count();
        assert_eq!(wrong(format!("{one}{two}")), 0);
        assert_eq!(wrong(format!("{one}{one}{two}")), 1);
        assert_eq!(wrong(format!("{two}{one}")), 1);
        for odd in [
            "\n",
            "{}\n",
            "[]\n",
            "{\"at\":\"0000000000003\",\"time\":-1,\"event\":\"a\",\"args\":[]}\n",
            "{\"at\":\"3\",\"time\":1,\"event\":\"a\",\"args\":[]}\n",
        ] {
            assert_eq!(wrong(format!("{one}{odd}{two}")), 1, "{odd}");
        }
    }
}
