//! `sockeye history import`: an export into a store, once however often it is tried.

use super::Room;
use super::lines::{Line, Lines, Mark};
use super::progress::Progress;
use super::stored::Stored;
use crate::config::Request;
use crate::door::Door;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;

/// Of one call, which the gateway bounds as well.
const EVENTS: usize = 500;
const BYTES: usize = 512 << 10;
/// Torn lines that are named.
const NAMED_MAX: usize = 20;

/// Store what an export of a room has. Run it again if it breaks off: what is there already is left out.
#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    pub(super) room: Room,
    /// The export.
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
}

pub(super) fn run(args: &ImportArgs, request: &Request) -> Result<()> {
    let total = check(args)?;
    let door = Door::of(request, args.room.key.needed("store what a room said")?)?;
    let mut there = marks(&door, &args.room)?;
    let mut lines = Lines::open(&args.file)?;
    let mut sending = Sending::new(&door, &args.room);
    let (mut read, mut known, mut progress) = (0_u64, 0_u64, Progress::new());
    while let Some((_, line)) = lines.next()? {
        let line = line.map_err(anyhow::Error::msg)?;
        read += 1;
        match there.get_mut(&line.mark()) {
            Some(count) if *count > 0 => {
                *count -= 1;
                known += 1;
            }
            _ => sending.push(line)?,
        }
        let stored = sending.stored;
        progress.at(|| format!("{read} of {total} events: {stored} stored, {known} were there"));
    }
    sending.send()?;
    progress.end(&format!(
        "{read} events: {} stored, {known} were there",
        sending.stored
    ));
    Ok(())
}

/// Nothing is stored of an export that is torn.
fn check(args: &ImportArgs) -> Result<u64> {
    let (mut lines, mut wrong, mut total) = (Lines::open(&args.file)?, 0, 0);
    while let Some((number, line)) = lines.next()? {
        total += 1;
        if let Err(why) = line {
            wrong += 1;
            if wrong <= NAMED_MAX {
                eprintln!("line {number}: {why}");
            }
        }
    }
    if wrong > 0 {
        bail!(
            "cannot import {}: {wrong} of {total} lines cannot be used, and nothing was stored: mend or remove them",
            args.file.display()
        );
    }
    Ok(total)
}

/// How often each event is there.
fn marks(door: &Door<'_>, room: &Room) -> Result<HashMap<Mark, u32>> {
    let (mut marks, mut progress) = (HashMap::new(), Progress::new());
    let mut stored = Stored::oldest_first(door, room);
    while let Some(page) = stored.page()? {
        for line in page.into_iter().flatten() {
            *marks.entry(line.mark()).or_default() += 1;
        }
        let known = marks.len();
        progress.at(|| format!("{known} events are there"));
    }
    Ok(marks)
}

/// Events on their way.
struct Sending<'a> {
    door: &'a Door<'a>,
    room: &'a Room,
    waiting: Vec<Value>,
    bytes: usize,
    stored: u64,
}

impl<'a> Sending<'a> {
    fn new(door: &'a Door<'a>, room: &'a Room) -> Self {
        Self {
            door,
            room,
            waiting: Vec::new(),
            bytes: 0,
            stored: 0,
        }
    }

    fn push(&mut self, line: Line) -> Result<()> {
        let bytes = line.event.to_string().len();
        if self.waiting.len() == EVENTS || self.bytes + bytes > BYTES {
            self.send()?;
        }
        self.bytes += bytes;
        self.waiting.push(line.event);
        Ok(())
    }

    fn send(&mut self) -> Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        self.bytes = 0;
        let events = std::mem::take(&mut self.waiting);
        let body = json!({
            "namespace": self.room.namespace,
            "room": self.room.room,
            "events": events,
        });
        let answer = self.door.call("POST", "/v1/history", Some(&body));
        let answer = answer.with_context(|| {
            format!(
                "{} events are stored, and perhaps some of the next {}: run it again when sockeye_history_waiting_bytes is 0",
                self.stored,
                events_of(&body)
            )
        })?;
        self.stored += answer["stored"].as_u64().unwrap_or_default();
        Ok(())
    }
}

fn events_of(body: &Value) -> usize {
    body["events"].as_array().map_or(0, Vec::len)
}
