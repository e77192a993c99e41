//! `sockeye history verify`: what is torn or missing in a store, in an export, or between both.

use super::Room;
use super::lines::{Line, Lines};
use super::progress::Progress;
use super::stored::{Stored, named};
use crate::config::Request;
use crate::door::{Door, Key};
use crate::print;
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;

/// Entries that are named; the others are counted.
const NAMED_MAX: u64 = 1_000;

/// Read a room, an export of it, or both, and name each entry that is torn or missing.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Name of the room; without it only the export is read, and no gateway is asked.
    #[arg(required_unless_present = "export")]
    room: Option<String>,
    /// Its namespace.
    #[arg(long, value_name = "NAME", default_value = "/")]
    namespace: String,
    /// An export: of the room that is named, to compare, or alone.
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    #[command(flatten)]
    key: Key,
}

pub(super) fn run(args: VerifyArgs, request: &Request) -> Result<()> {
    let mut verdict = Verdict::default();
    let export = args.export.as_deref().map(Lines::open).transpose()?;
    match (args.room, export) {
        (Some(room), export) => {
            let room = Room {
                room,
                namespace: args.namespace,
                key: args.key,
            };
            let door = Door::of(request, room.key.needed("read what a room said")?)?;
            let mut stored = Reading::new(Stored::oldest_first(&door, &room));
            match export {
                Some(export) => compare(&mut stored, export, &mut verdict)?,
                None => while stored.next(&mut verdict)?.is_some() {},
            }
            if let Some(why) = stored.torn.take() {
                find_end(&door, &room, &why, &stored.last, &mut verdict)?;
            }
        }
        (None, Some(mut export)) => while next_line(&mut export, &mut verdict)?.is_some() {},
        (None, None) => {}
    }
    verdict.say()
}

/// What was found.
#[derive(Default)]
struct Verdict {
    events: u64,
    wrong: u64,
    /// In the export and older than all that is stored: they made way.
    made_way: u64,
    progress: Option<Progress>,
}

impl Verdict {
    fn saw(&mut self) {
        self.events += 1;
        let (events, wrong) = (self.events, self.wrong);
        let progress = self.progress.get_or_insert_with(Progress::new);
        progress.at(|| format!("{events} events, {wrong} of them wrong"));
    }

    fn names(&mut self, what: &str) -> Result<()> {
        self.wrong += 1;
        match self.wrong <= NAMED_MAX {
            true => print::aside(format_args!("{what}\n")),
            false => Ok(()),
        }
    }

    fn say(self) -> Result<()> {
        let progress = self.progress.unwrap_or_else(Progress::new);
        if self.made_way > 0 {
            progress.end(&format!(
                "{} events of the export are older than all that is stored",
                self.made_way
            ));
        }
        progress.end(&format!("{} events", self.events));
        if self.wrong > 0 {
            bail!("{} entries are torn or missing", self.wrong);
        }
        Ok(())
    }
}

/// The events of a store, up to the first one that cannot be read.
struct Reading<'a> {
    stored: Stored<'a>,
    page: std::vec::IntoIter<Result<Line, String>>,
    last: String,
    torn: Option<String>,
}

impl<'a> Reading<'a> {
    fn new(stored: Stored<'a>) -> Self {
        Self {
            stored,
            page: Vec::new().into_iter(),
            last: String::new(),
            torn: None,
        }
    }

    /// `None`: the end, or a place that cannot be read.
    fn next(&mut self, verdict: &mut Verdict) -> Result<Option<Line>> {
        loop {
            for line in self.page.by_ref() {
                match line {
                    Ok(line) if line.at > self.last => {
                        verdict.saw();
                        self.last.clone_from(&line.at);
                        return Ok(Some(line));
                    }
                    Ok(line) => verdict.names(&format!(
                        "store: {} ({}) is not behind {}",
                        line.at,
                        named(&line.event),
                        self.last
                    ))?,
                    Err(why) => verdict.names(&format!("store: behind {:?}: {why}", self.last))?,
                }
            }
            match self.stored.page() {
                Ok(Some(page)) => self.page = page.into_iter(),
                Ok(None) => return Ok(None),
                // The first page fails for other reasons, too, and they are said as they are.
                Err(error) if self.last.is_empty() => return Err(error),
                Err(error) => {
                    self.torn = Some(format!("{error:#}"));
                    return Ok(None);
                }
            }
        }
    }
}

/// Reads from the newest to the other side of what cannot be read.
fn find_end(
    door: &Door<'_>,
    room: &Room,
    why: &str,
    last: &str,
    verdict: &mut Verdict,
) -> Result<()> {
    let mut stored = Stored::newest_first(door, room);
    let mut first = None;
    while let Ok(Some(page)) = stored.page() {
        for line in page.into_iter().flatten() {
            verdict.saw();
            first = Some(line.at);
        }
    }
    let until = first.unwrap_or_else(|| "the end".to_owned());
    verdict.names(&format!(
        "store: between {last} and {until} is what cannot be read: {why}"
    ))?;
    Ok(())
}

fn next_line(export: &mut Lines, verdict: &mut Verdict) -> Result<Option<Line>> {
    while let Some((number, line)) = export.next()? {
        match line {
            Ok(line) => {
                verdict.saw();
                return Ok(Some(line));
            }
            Err(why) => verdict.names(&format!("export: line {number}: {why}"))?,
        }
    }
    Ok(None)
}

/// Both have their events in the order of places.
fn compare(stored: &mut Reading<'_>, mut export: Lines, verdict: &mut Verdict) -> Result<()> {
    let mut kept = stored.next(verdict)?;
    let mut line = next_line(&mut export, verdict)?;
    let mut is_before = true;
    loop {
        match (&kept, &line) {
            (None, None) => return Ok(()),
            (Some(here), Some(there)) if here.at == there.at => {
                is_before = false;
                if here.mark() != there.mark() {
                    verdict.names(&format!(
                        "{}: the store has {}, the export {}",
                        here.at,
                        named(&here.event),
                        named(&there.event)
                    ))?;
                }
                kept = stored.next(verdict)?;
                line = next_line(&mut export, verdict)?;
            }
            (here, Some(there)) if here.as_ref().is_none_or(|here| here.at > there.at) => {
                if is_before && here.is_some() {
                    verdict.made_way += 1;
                } else if stored.torn.is_none() {
                    verdict.names(&format!(
                        "missing in the store: {} ({})",
                        there.at,
                        named(&there.event)
                    ))?;
                }
                line = next_line(&mut export, verdict)?;
            }
            (Some(here), there) => {
                // What was said after the export is in the store alone.
                if there.is_some() && !is_before {
                    verdict.names(&format!(
                        "missing in the export: {} ({})",
                        here.at,
                        named(&here.event)
                    ))?;
                }
                is_before = false;
                kept = stored.next(verdict)?;
            }
            (None, Some(_)) => return Ok(()),
        }
    }
}
