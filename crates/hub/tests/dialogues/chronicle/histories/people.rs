//! Clients of level `cluster`: what they do, what they hear, and what they may rely on.

use super::redis::Fate;
use crate::rig::net::Client;
use std::collections::{BTreeMap, BTreeSet};

/// Everybody is in the first; clients join the others.
pub(super) const ROOMS: [&str; 4] = ["", "a", "b", "c"];

/// A membership that a client was told of: what is written between these turns is for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stay {
    room: usize,
    from: u64,
    until: u64,
}

/// What a client waits for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    Join(usize),
    Said(u64),
    /// It has left that room since.
    Nothing,
}

/// A socket, as its client sees it: from the answer to CONNECT that makes it to the next that makes another.
#[derive(Clone, Debug, Default)]
pub(super) struct Life {
    pub(super) got: Vec<u64>,
    stays: Vec<Stay>,
    /// Rooms that it has asked for.
    asked: BTreeSet<usize>,
    /// The turn in which it was told last that something is missing.
    gap: u64,
    /// Lost by Redis before it came back as one that missed nothing: the node that it came to has them all the same, or it was told a lie.
    owed: BTreeSet<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Person {
    /// Its node and its connection.
    pub(super) place: Option<(usize, Client)>,
    pub(super) is_greeted: bool,
    pub(super) pid: Option<String>,
    pub(super) shown: Option<String>,
    pub(super) offset: Option<String>,
    pub(super) life: Life,
    pub(super) waits: BTreeMap<u64, Asked>,
    /// The node that had its socket last, and whether it comes to another.
    home: usize,
    is_elsewhere: bool,
    /// The moments in which its last connection broke and in which it came back.
    cut: u64,
    came: u64,
}

/// What a client does about what it hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Nothing,
    Ping,
    /// Its socket goes on.
    Recovered,
    /// It has another one.
    Renewed,
    /// It is sent away.
    Ended,
}

/// What is written where, by messages; and their rooms.
pub(super) struct Truth<'a> {
    pub(super) fates: &'a BTreeMap<u64, Fate>,
    pub(super) rooms: &'a [usize],
    pub(super) turn: u64,
}

impl Truth<'_> {
    fn room(&self, message: u64) -> usize {
        self.rooms[message as usize]
    }
}

fn member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("\"{name}\":\""))?;
    rest.split('"').next()
}

fn message_in(text: &str) -> u64 {
    let number = text.split('#').nth(1).and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("not a message of ours: {text}"))
}

impl Person {
    /// The CONNECT with which it comes back, or comes for the first time.
    pub(super) fn hello(&mut self, node: usize, moment: u64) -> String {
        (self.is_elsewhere, self.came) = (self.home != node, moment);
        self.shown.clone_from(&self.pid);
        let offset = self.offset.as_ref();
        match (&self.pid, offset) {
            (None, _) => "40".to_owned(),
            (Some(pid), None) => format!("40{{\"pid\":\"{pid}\"}}"),
            (Some(pid), Some(offset)) => format!("40{{\"pid\":\"{pid}\",\"offset\":\"{offset}\"}}"),
        }
    }

    /// Its connection is over.
    pub(super) fn is_cut(&mut self, moment: u64) {
        (self.place, self.is_greeted, self.cut) = (None, false, moment);
        self.waits.clear();
    }

    pub(super) fn hear(&mut self, text: &str, truth: &Truth<'_>) -> Result<Heard, String> {
        if text == "2" {
            return Ok(Heard::Ping);
        }
        if text.starts_with("40{") {
            return self.is_welcomed(text, truth);
        }
        if text.starts_with("41") || text.starts_with("44") {
            return Ok(Heard::Ended);
        }
        if let Some(rest) = text.strip_prefix("43") {
            let id = rest.split('[').next().and_then(|id| id.parse().ok());
            let is_refused = text.contains("refused");
            self.is_answered(id.unwrap_or_default(), is_refused, truth)?;
        } else if text.starts_with("42[\"sockeye:gap\"") {
            self.life.gap = truth.turn;
        } else if text.starts_with("42[\"said\"") {
            self.takes(text, truth)?;
        }
        Ok(Heard::Nothing)
    }

    fn is_welcomed(&mut self, text: &str, truth: &Truth<'_>) -> Result<Heard, String> {
        self.is_greeted = true;
        self.home = self.place.map_or(0, |(node, _)| node);
        let pid = member(text, "pid").map(str::to_owned);
        let is_same = pid.is_some() && pid == self.shown;
        self.pid = pid;
        if is_same {
            // A node does not know of a failover at once. Until then it is as if its clients had been there all the time.
            let lost = self.due(truth).into_iter().filter(|message| {
                let lost = truth.fates.get(message).and_then(|fate| fate.lost);
                self.is_elsewhere && lost.is_some_and(|lost| self.cut < lost && lost < self.came)
            });
            let lost: Vec<u64> = lost.collect();
            self.life.owed.extend(lost);
            return Ok(Heard::Recovered);
        }
        self.life = Life::default();
        self.stays_in(0, truth.turn);
        Ok(Heard::Renewed)
    }

    fn stays_in(&mut self, room: usize, from: u64) {
        self.life.asked.insert(room);
        self.life.stays.push(Stay {
            room,
            from,
            until: u64::MAX,
        });
    }

    fn is_answered(&mut self, id: u64, is_refused: bool, truth: &Truth<'_>) -> Result<(), String> {
        match self.waits.remove(&id) {
            Some(Asked::Said(_)) if is_refused => {}
            Some(Asked::Join(room)) => self.stays_in(room, truth.turn),
            // What those say who cannot come back is stored a moment later.
            Some(Asked::Said(message))
                if self.pid.is_some() && !truth.fates.contains_key(&message) =>
            {
                return Err(format!("is told that {message} is there, and it is not"));
            }
            Some(Asked::Said(_) | Asked::Nothing) => {}
            None => return Err(format!("is told of {id}, which it did not ask")),
        }
        Ok(())
    }

    fn takes(&mut self, text: &str, truth: &Truth<'_>) -> Result<(), String> {
        let message = message_in(text);
        if self.life.got.contains(&message) {
            return Err(format!("got {message} twice"));
        }
        let room = truth.room(message);
        if !self.life.asked.contains(&room) {
            return Err(format!("got {message} of room {room}, and is not there"));
        }
        self.life.got.push(message);
        self.life.owed.remove(&message);
        let offset = text.rsplit('"').nth(1);
        if self.pid.is_some() {
            self.offset = offset.map(str::to_owned);
        }
        Ok(())
    }

    pub(super) fn is_in(&self, room: usize) -> bool {
        let mut own = self.life.stays.iter();
        own.any(|stay| stay.room == room && stay.until == u64::MAX)
    }

    pub(super) fn asks_for(&mut self, room: usize) {
        self.life.asked.insert(room);
    }

    /// It leaves; all that was written up to `until` had come to its shard by then.
    pub(super) fn leaves(&mut self, room: usize, until: u64) {
        let own = self.life.stays.iter_mut();
        for stay in { own }.filter(|stay| stay.room == room) {
            stay.until = stay.until.min(until);
        }
        for asked in self.waits.values_mut() {
            if matches!(asked, Asked::Join(other) if *other == room) {
                *asked = Asked::Nothing;
            }
        }
    }

    /// Messages that its socket is to get and has not got.
    fn due(&self, truth: &Truth<'_>) -> Vec<u64> {
        let got: BTreeSet<u64> = self.life.got.iter().copied().collect();
        let is_for = |message: u64, fate: &Fate| {
            let room = truth.room(message);
            let last = fate.turns.last().copied().unwrap_or_default();
            // What stood there once more was told on its node before it came.
            if fate.turns.len() > 1 && last <= self.life.gap {
                return false;
            }
            let mut own = self.life.stays.iter();
            own.any(|stay| stay.room == room && stay.from < last && last <= stay.until)
        };
        let due = truth
            .fates
            .iter()
            .filter(|(message, fate)| !got.contains(message) && is_for(**message, fate));
        due.map(|(message, _)| *message).collect()
    }

    /// Nothing is under way any more.
    pub(super) fn check_whole(&self, truth: &Truth<'_>) -> Result<(), String> {
        self.check_order(truth)?;
        if let Some(lost) = self.life.owed.first() {
            return Err(format!(
                "is told that it missed nothing, and {lost} is lost"
            ));
        }
        if !self.waits.is_empty() {
            return Err(format!("waits for {:?}", self.waits));
        }
        let is_there = |message: &u64| truth.fates[message].lost.is_none();
        let missed: Vec<u64> = self.due(truth).into_iter().filter(is_there).collect();
        match missed.is_empty() {
            true => Ok(()),
            false => Err(format!("missed {missed:?}: {:?}", self.life)),
        }
    }

    /// All get what is said in the order of the stream.
    pub(super) fn check_order(&self, truth: &Truth<'_>) -> Result<(), String> {
        let mut last = 0;
        for message in &self.life.got {
            let turns = truth.fates.get(message).map(|fate| &fate.turns);
            let turns = turns.ok_or_else(|| format!("got {message}, which stands nowhere"))?;
            let next = turns.iter().find(|turn| **turn > last);
            last = *next.ok_or_else(|| format!("got {message} late: {:?}", self.life.got))?;
        }
        Ok(())
    }
}
