//! The file of a recording: one JSON object a line. The first says what it is, the last that it is whole; between them are the lines of the
//! live trace. Whoever wrote it may be a stranger.

use serde::Deserialize;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Of the format. A change that an old reader would misread gets another number.
pub const VERSION: u64 = 1;
/// A larger file is not read.
pub const FILE_BYTES_MAX: u64 = 256 << 20;
/// Each has some hundred bytes in memory, however short it is in the file.
const LINES_MAX: usize = 2_000_000;
/// Args have 4 KiB at most, and each byte may need six as JSON.
const LINE_BYTES_MAX: u64 = 128 * 1024;

/// What was recorded.
#[derive(Debug)]
pub struct Recording {
    of: String,
    pub(super) payload: bool,
    pub(super) lines: Vec<Line>,
    dropped: u64,
    lost: Vec<String>,
    torn: Option<String>,
}

#[derive(Deserialize)]
struct Head {
    sockeye_recording: u64,
    #[serde(default)]
    of: String,
    #[serde(default)]
    payload: bool,
}

/// One thing that passed, as far as it is played or compared.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line {
    kind: String,
    pub(super) at_ms: u64,
    pub(super) direction: String,
    pub(super) what: String,
    pub(super) session: Option<String>,
    pub(super) socket: Option<String>,
    pub(super) user: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) event: Option<String>,
    pub(super) bytes: usize,
    pub(super) args: Option<String>,
    pub(super) mark: Option<String>,
    pub(super) attachments: Vec<usize>,
    pub(super) ack: Option<u64>,
    pub(super) decision: String,
    why: String,
    node: Option<u64>,
    state: String,
    /// Of a word about lines that are missing, and of the last line.
    lines: u64,
}

impl Recording {
    /// Reads a file. One that is torn off is refused, unless `torn` says that the rest is enough.
    ///
    /// # Errors
    /// What is wrong with it, for people.
    pub fn read(path: &Path, torn: bool) -> Result<Self, String> {
        let name = path.display();
        let file = File::open(path).map_err(|error| format!("cannot open {name}: {error}"))?;
        let len = file.metadata().map_or(0, |data| data.len());
        if len > FILE_BYTES_MAX {
            return Err(format!(
                "cannot read {name}: it has {len} bytes, and a recording has {FILE_BYTES_MAX} at most"
            ));
        }
        // A device or pipe has no length.
        let mut from = BufReader::new(file.take(FILE_BYTES_MAX));
        Self::parse(&mut from, torn).map_err(|why| format!("cannot read {name}: {why}"))
    }

    fn parse(from: &mut impl BufRead, torn: bool) -> Result<Self, String> {
        let mut recording = Self::begin(from)?;
        let (mut number, mut end) = (1_u64, None);
        while end.is_none() {
            number += 1;
            let line = match next(from, number)? {
                Next::Line(text) => read_line(&text, number)?,
                Next::Torn => {
                    recording.torn = Some(format!("line {number} breaks off"));
                    break;
                }
                Next::End => {
                    recording.torn = Some(format!("it breaks off behind line {}", number - 1));
                    break;
                }
            };
            match line.kind.as_str() {
                "line" if recording.lines.len() == LINES_MAX => {
                    return Err(format!(
                        "it has more than {LINES_MAX} lines: record a smaller share"
                    ));
                }
                "line" => recording.lines.push(line),
                "dropped" => recording.dropped = recording.dropped.saturating_add(line.lines),
                "node" if line.state != "followed" => recording.lost.push(format!(
                    "node {} {}: {}",
                    line.node.unwrap_or_default(),
                    line.state,
                    line.why
                )),
                "end" => end = Some(line.lines),
                // A later minor version may know more.
                _ => {}
            }
        }
        recording.check(end, torn)?;
        if !matches!(next(from, number + 1)?, Next::End) && end.is_some() {
            return Err(format!("something stands behind its last line, {number}"));
        }
        // Nodes come together as they are read.
        recording.lines.sort_by_key(|line| line.at_ms);
        Ok(recording)
    }

    fn begin(from: &mut impl BufRead) -> Result<Self, String> {
        let what = format!(
            "line 1 is no beginning of a recording ({{\"sockeye_recording\":{VERSION},…}}): `sockeye record` writes them"
        );
        let Next::Line(text) = next(from, 1)? else {
            return Err(what);
        };
        let head: Head = serde_json::from_str(&text).map_err(|_| what)?;
        if head.sockeye_recording != VERSION {
            return Err(format!(
                "it is of version {} of the format, and this program knows {VERSION}: use the sockeye that wrote it",
                head.sockeye_recording
            ));
        }
        Ok(Self {
            of: head.of,
            payload: head.payload,
            lines: Vec::new(),
            dropped: 0,
            lost: Vec::new(),
            torn: None,
        })
    }

    fn check(&self, end: Option<u64>, torn: bool) -> Result<(), String> {
        let read = self.lines.len() as u64;
        match (&self.torn, end) {
            (Some(why), _) if !torn => Err(format!(
                "{why}, without a last line: it is torn; --torn plays the {read} lines that are there"
            )),
            (None, Some(said)) if said != read => Err(format!(
                "its last line speaks of {said} lines, and {read} are there: somebody has changed it"
            )),
            _ => Ok(()),
        }
    }

    /// What it is of, as the one who recorded it said.
    pub fn of(&self) -> &str {
        &self.of
    }

    /// What is missing in it, for people.
    pub fn gaps(&self) -> Vec<String> {
        let mut gaps = self.lost.clone();
        gaps.truncate(GAPS_MAX);
        if self.dropped > 0 {
            gaps.push(format!("{} lines found no room", self.dropped));
        }
        gaps.extend(self.torn.clone());
        gaps
    }
}

/// Words about nodes.
const GAPS_MAX: usize = 20;

enum Next {
    Line(String),
    /// The end of the file comes before the end of the line.
    Torn,
    End,
}

fn next(from: &mut impl BufRead, number: u64) -> Result<Next, String> {
    let mut bytes = Vec::new();
    let read = from
        .by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut bytes);
    let read = read.map_err(|error| format!("line {number}: {error}"))?;
    if read == 0 {
        return Ok(Next::End);
    }
    if bytes.last() != Some(&b'\n') {
        return match read as u64 == LINE_BYTES_MAX {
            true => Err(format!(
                "line {number} has more than {LINE_BYTES_MAX} bytes: it is no recording"
            )),
            false => Ok(Next::Torn),
        };
    }
    let text = String::from_utf8(bytes);
    text.map(Next::Line)
        .map_err(|_| format!("line {number} is not UTF-8: it is no recording"))
}

fn read_line(text: &str, number: u64) -> Result<Line, String> {
    serde_json::from_str(text).map_err(|error| format!("line {number} cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "{\"sockeye_recording\":1,\"of\":\"user\",\"payload\":false}\n";
    const LINE: &str = "{\"kind\":\"line\",\"at_ms\":7,\"direction\":\"in\",\"what\":\"event\"}\n";

    fn parse(text: &[u8], torn: bool) -> Result<Recording, String> {
        Recording::parse(&mut &*text, torn)
    }

    #[test]
    fn a_whole_file_is_read_in_the_order_of_time() {
        let early = LINE.replace('7', "3");
        let text = format!(
            "{HEAD}{LINE}{{\"kind\":\"dropped\",\"node\":1,\"lines\":4}}\n{early}{{\"kind\":\"end\",\"why\":\"x\",\"lines\":2}}\n"
        );
        let read = parse(text.as_bytes(), false).expect("a recording");
        let times: Vec<u64> = read.lines.iter().map(|line| line.at_ms).collect();
        assert_eq!((times, read.of()), (vec![3, 7], "user"));
        assert_eq!(read.gaps(), ["4 lines found no room"]);
    }

    #[test]
    fn what_a_stranger_gives_is_refused_with_the_line() {
        let huge = format!("{HEAD}{}\n", "x".repeat(200_000));
        let changed = format!("{HEAD}{LINE}{{\"kind\":\"end\",\"lines\":9}}\n");
        let behind = format!("{HEAD}{{\"kind\":\"end\",\"lines\":0}}\n{LINE}");
        let odd = format!("{HEAD}{{\"kind\":\"line\",\"at_ms\":-1}}\n");
        let newer = HEAD.replace(":1,", ":2,");
        for (text, why) in [
            (b"".as_slice(), "line 1 is no beginning"),
            (b"\x7fELF\x00\x01\n", "line 1 is no"),
            (b"\xff\xfe\n", "line 1 is not UTF-8"),
            (b"{}\n", "line 1 is no beginning"),
            (newer.as_bytes(), "version 2"),
            (huge.as_bytes(), "line 2 has more than"),
            (odd.as_bytes(), "line 2 cannot be read"),
            (changed.as_bytes(), "speaks of 9 lines, and 1"),
            (behind.as_bytes(), "behind its last line"),
        ] {
            let refused = parse(text, false).expect_err(why);
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn a_torn_file_is_played_only_if_it_is_asked_for() {
        for torn in [
            format!("{HEAD}{LINE}"),
            format!("{HEAD}{LINE}{{\"kind\":\"li"),
        ] {
            let refused = parse(torn.as_bytes(), false).expect_err("it is torn");
            assert!(refused.contains("--torn plays the 1 lines"), "{refused}");
            let read = parse(torn.as_bytes(), true).expect("what is there");
            assert_eq!((read.lines.len(), read.gaps().len()), (1, 1));
        }
    }
}
