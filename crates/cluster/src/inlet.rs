//! What one publisher sent to this node: gaps are found and asked for, letters are handed on in the publisher's order.
//!
//! A publisher has two sequences for us: its flood and its inbox lane. Each frame names the position of the other sequence before
//! it, so that one order over both is kept without one channel for both.

mod handing;
mod pace;

use crate::frame::{Known, Letters, Peer, Stream};
use crate::part::Part;
use pace::Pace;
use std::collections::{BTreeMap, VecDeque};
use std::ops::AddAssign;
use std::sync::Arc;

/// How often a missing letter is asked for.
const ASK_US: u64 = 100_000;

/// A letter is asked for when it has been known to exist for so long. Channels on different masters of an engine overtake each other.
const GRACE_US: u64 = 50_000;
/// How exactly that is noted.
const MARK_US: u64 = 1_000;

/// Bounds of an inlet.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of frames that wait for earlier ones.
    pub held_bytes: usize,
    /// Microseconds after which a gap is given up. They run only while the engine works for both sides. A publisher says what it
    /// does not keep any more; one that says nothing is slow: questions and repairs wait behind all that was sent before them.
    pub patience_us: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            held_bytes: 32 * 1024 * 1024,
            patience_us: 60_000_000,
        }
    }
}

/// What comes out of an inlet, in order.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    /// The next letter of the publisher, and its position in its stream.
    Letter(Stream, u64, Part),
    /// So many letters cannot be had any more.
    Lost(Stream, u64),
    /// The publisher had given this node up: nobody knows how many letters are gone.
    Resync,
}

/// A question for the publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// In which sequence.
    pub stream: Stream,
    /// First missing position.
    pub from: u64,
    /// Last missing position.
    pub to: u64,
}

/// A frame that waits.
#[derive(Debug)]
struct Held {
    last: u64,
    /// Position of the other sequence that must be there first.
    other_before: u64,
    letters: Vec<Part>,
    bytes: usize,
}

impl Held {
    /// Letters of a message of so many bytes: it is kept whole until the last of them has left.
    fn new(last: u64, other_before: u64, letters: Vec<Part>, message_bytes: usize) -> Self {
        let bytes = message_bytes + letters.len() * size_of::<Part>();
        Self {
            last,
            other_before,
            letters,
            bytes,
        }
    }
}

/// One of the two sequences.
#[derive(Debug, Default)]
struct Track {
    /// Position up to which everything was handed on or given up.
    got: u64,
    /// Highest position known to exist.
    top: u64,
    held: BTreeMap<u64, Held>,
    /// When letters were asked for last, and up to which position.
    asked: Option<(u64, u64)>,
    /// Positions that were the highest, and when that was seen.
    marks: VecDeque<(u64, u64)>,
    /// What is missing up to here is asked for.
    ripe: u64,
    /// First position of the hole that is waited for, and microseconds it has been missing while the engine worked.
    waiting: (u64, u64),
}

impl Track {
    /// The first hole: from the position behind `got` up to the one before the first frame that waits.
    fn hole(&self) -> Option<(u64, u64)> {
        let mut next = self.got + 1;
        for (first, held) in &self.held {
            if *first > next {
                return Some((next, first - 1));
            }
            next = held.last + 1;
        }
        (next <= self.top).then_some((next, self.top))
    }

    /// Notes how far the publisher is.
    fn mark(&mut self, now_us: u64) {
        let is_ripe = |(_, at_us): &mut (u64, u64)| *at_us + GRACE_US <= now_us;
        while let Some((top, _)) = self.marks.pop_front_if(is_ripe) {
            self.ripe = top;
        }
        let (last, at_us) = self.marks.back().copied().unwrap_or((self.ripe, 0));
        if self.top > last && now_us >= at_us + MARK_US {
            self.marks.push_back((self.top, now_us));
        }
    }

    /// When the hole is to be asked for. Another hole than the last one is asked for as soon as it is ripe.
    fn ask_due_us(&self, from: u64) -> u64 {
        match self.asked {
            Some((asked_us, to)) if from <= to => asked_us + ASK_US,
            _ if from <= self.ripe => 0,
            _ => self.ripe_us(from),
        }
    }

    fn ripe_us(&self, from: u64) -> u64 {
        let mark = self.marks.iter().find(|(top, _)| *top >= from);
        // A position that has no mark yet gets one soon.
        let soon = || self.marks.back().map_or(0, |(_, at_us)| at_us + MARK_US);
        mark.map_or_else(soon, |(_, at_us)| at_us + GRACE_US)
    }

    /// Whether the answer to a question would find room. What is next in turn always does.
    fn may_ask(&self, from: u64, is_full: bool) -> bool {
        !is_full || from == self.got + 1
    }

    /// Counts how long the hole has been missing.
    fn wait(&mut self, from: u64, passed_us: u64) -> u64 {
        let (waiting_for, waited_us) = self.waiting;
        let before = if waiting_for == from { waited_us } else { 0 };
        self.waiting = (from, before + passed_us);
        self.waiting.1
    }
}

/// Counters of an inlet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Letters handed on.
    pub letters: u64,
    /// Frames that were there already.
    pub duplicates: u64,
    /// Letters given up.
    pub lost: u64,
    /// Holes in a sequence that were found.
    pub gaps: u64,
    /// Questions for missing letters.
    pub asked: u64,
    /// Frames dropped because too much waited; they are asked for again.
    pub overflows: u64,
}

impl AddAssign for Received {
    fn add_assign(&mut self, more: Self) {
        self.letters += more.letters;
        self.duplicates += more.duplicates;
        self.lost += more.lost;
        self.gaps += more.gaps;
        self.asked += more.asked;
        self.overflows += more.overflows;
    }
}

/// What one publisher sent.
#[derive(Debug)]
pub struct Inlet {
    peer: Peer,
    limits: Limits,
    /// Our lane at the publisher; `None` until it told us.
    lane: Option<u32>,
    inbox: Track,
    flood: Track,
    held_bytes: usize,
    /// A frame that was asked for came since the last tick: the publisher is repairing.
    repaired: bool,
    pace: Pace,
    received: Received,
}

impl Inlet {
    /// An inlet for a life of a node that was heard of.
    pub fn new(peer: Peer, limits: Limits) -> Self {
        Self {
            peer,
            limits,
            lane: None,
            inbox: Track::default(),
            flood: Track::default(),
            held_bytes: 0,
            repaired: false,
            pace: Pace::default(),
            received: Received::default(),
        }
    }

    /// The publisher.
    pub fn peer(&self) -> Peer {
        self.peer
    }

    /// Our lane at the publisher.
    pub fn lane(&self) -> Option<u32> {
        self.lane
    }

    /// Position up to which the publisher's flood was handed on.
    pub fn got_flood(&self) -> u64 {
        self.flood.got
    }

    /// Counters.
    pub fn received(&self) -> Received {
        self.received
    }

    /// A frame of letters arrived by a message.
    pub fn letters(
        &mut self,
        letters: &Letters<'_>,
        message: &Arc<Vec<u8>>,
        out: &mut Vec<Output>,
    ) {
        // Before the publisher named our lane, a frame's place in the order is not known. It is asked for again later.
        let Some(mine) = self.lane else { return };
        let other_before = match letters.to {
            Some((_, lane)) if lane != mine => return,
            Some(_) => letters.flood_before,
            None => letters.inbox_before(mine),
        };
        let (track, other) = self.tracks(letters.stream);
        other.top = other.top.max(other_before);
        let was_asked_for = track.asked.is_some_and(|(_, to)| letters.first <= to);
        track.top = track.top.max(letters.last());
        if letters.last() <= track.got || track.held.contains_key(&letters.first) {
            self.received.duplicates += 1;
            return;
        }
        let places = letters.places(message.len());
        let parts: Vec<Part> = places.map(|place| Part::new(message, place)).collect();
        let held = Held::new(letters.last(), other_before, parts, message.len());
        let in_turn = letters.first <= track.got + 1;
        if !in_turn && self.held_bytes + held.bytes > self.limits.held_bytes {
            self.received.overflows += 1;
            return;
        }
        self.held_bytes += held.bytes;
        self.repaired |= was_asked_for;
        let (track, _) = self.tracks(letters.stream);
        track.held.insert(letters.first, held);
        self.hand_on(out);
    }

    fn tracks(&mut self, stream: Stream) -> (&mut Track, &mut Track) {
        match stream {
            Stream::Inbox => (&mut self.inbox, &mut self.flood),
            Stream::Flood => (&mut self.flood, &mut self.inbox),
        }
    }

    /// The publisher's heartbeat: how far it is, and what it says of us (`None` = it does not know us yet).
    pub fn heartbeat(&mut self, flood: u64, us: Option<Known>, out: &mut Vec<Output>) {
        let Some(us) = us else { return };
        if self.lane != Some(us.lane) {
            self.begin_lane(us, out);
        }
        self.inbox.top = self.inbox.top.max(us.sent);
        self.flood.top = self.flood.top.max(flood);
        self.hand_on(out);
    }

    fn begin_lane(&mut self, us: Known, out: &mut Vec<Output>) {
        if self.lane.replace(us.lane).is_some() {
            // The publisher gave us up in between: its floods until the new base were not owed to us.
            out.push(Output::Resync);
        }
        let inbox = std::mem::take(&mut self.inbox);
        self.held_bytes -= inbox.held.values().map(|held| held.bytes).sum::<usize>();
        self.skip_to(Stream::Flood, us.base);
    }

    /// Takes everything up to `position` as handed on.
    fn skip_to(&mut self, stream: Stream, position: u64) {
        let (track, _) = self.tracks(stream);
        track.got = track.got.max(position);
        let got = track.got;
        let mut freed = 0;
        track.held.retain(|_, held| {
            let kept = held.last > got;
            freed += if kept { 0 } else { held.bytes };
            kept
        });
        self.held_bytes -= freed;
    }

    /// Hands on what is in turn. A frame is in turn when its own sequence is complete before it, and the other one as far as the
    /// frame says.
    fn hand_on(&mut self, out: &mut Vec<Output>) {
        while self.hand_on_one(Stream::Flood, out) || self.hand_on_one(Stream::Inbox, out) {}
    }

    fn hand_on_one(&mut self, stream: Stream, out: &mut Vec<Output>) -> bool {
        if !self.pace.allows() {
            return false;
        }
        let (track, other) = self.tracks(stream);
        let Some(entry) = track.held.first_entry() else {
            return false;
        };
        let first = *entry.key();
        let in_turn = first <= track.got + 1 && entry.get().other_before <= other.got;
        if !in_turn {
            return false;
        }
        let held = entry.remove();
        // A gap that was given up may end within a frame that came after all.
        let from = track.got + 1;
        track.got = track.got.max(held.last);
        self.held_bytes -= held.bytes;
        self.pace.spend(held.bytes);
        for (position, letter) in (first..).zip(held.letters) {
            if position >= from {
                self.received.letters += 1;
                out.push(Output::Letter(stream, position, letter));
            }
        }
        true
    }

    /// The publisher does not keep letters up to a position any more.
    pub fn gone(&mut self, stream: Stream, upto: u64, out: &mut Vec<Output>) {
        let (track, _) = self.tracks(stream);
        // The frames that wait are here, whatever the publisher keeps.
        let in_turn = track.got + 1;
        let hole = track
            .hole()
            .filter(|(from, _)| *from <= upto && *from == in_turn);
        if let Some((from, to)) = hole {
            self.give_up(stream, from, to.min(upto), out);
        }
        self.hand_on(out);
    }

    fn give_up(&mut self, stream: Stream, from: u64, to: u64, out: &mut Vec<Output>) {
        let (track, _) = self.tracks(stream);
        debug_assert_eq!(from, track.got + 1);
        track.got = to;
        let lost = to + 1 - from;
        self.received.lost += lost;
        out.push(Output::Lost(stream, lost));
    }

    /// Time passed. `working`: our own probe came back and the publisher's heartbeats arrive, so missing letters are not merely
    /// late. Returns questions to send.
    pub fn tick(
        &mut self,
        now_us: u64,
        passed_us: u64,
        working: bool,
        out: &mut Vec<Output>,
    ) -> Vec<Ask> {
        let mut asks = Vec::new();
        self.pace.tick(now_us, self.held_bytes > 0);
        if self.lane.is_none() {
            return asks;
        }
        self.hand_on(out);
        // Both sequences wait for the same repairs: nothing is given up while some come.
        let repaired = std::mem::take(&mut self.repaired);
        let stalled = working && !repaired;
        for stream in [Stream::Inbox, Stream::Flood] {
            let patience_us = self.limits.patience_us;
            let is_full = self.is_full();
            let (track, _) = self.tracks(stream);
            track.mark(now_us);
            let Some((from, to)) = track.hole() else {
                track.asked = None;
                continue;
            };
            // The publisher is answering.
            if let Some((asked_us, _)) = &mut track.asked
                && repaired
            {
                *asked_us = now_us;
            }
            if !stalled && working {
                track.waiting.1 = 0;
            }
            let waited_us = track.wait(from, if stalled { passed_us } else { 0 });
            // Frames before the hole may wait for the other sequence: they come first.
            if waited_us >= patience_us && from == track.got + 1 {
                self.give_up(stream, from, to, out);
                self.hand_on(out);
            } else if now_us >= track.ask_due_us(from) && track.may_ask(from, is_full) {
                let to = to.min(track.ripe.max(from));
                let before = track.asked.replace((now_us, to));
                self.received.gaps += u64::from(before.is_none_or(|(_, asked)| asked < from));
                self.received.asked += 1;
                asks.push(Ask { stream, from, to });
            }
        }
        if !asks.is_empty() {
            self.pace.slow_down(now_us);
        }
        asks
    }

    /// What comes next should have come before: it is handed on at a pace.
    pub fn slow_down(&mut self, now_us: u64) {
        self.pace.slow_down(now_us);
    }

    /// So much waits that what comes after it would find no room.
    fn is_full(&self) -> bool {
        self.held_bytes > self.limits.held_bytes / 2
    }

    /// Gives up all that is missing now, and hands on the rest in order.
    pub fn give_up_all(&mut self, out: &mut Vec<Output>) {
        self.pace.end();
        loop {
            self.hand_on(out);
            let hole = |track: &Track| track.hole().filter(|(from, _)| *from == track.got + 1);
            if let Some((from, to)) = hole(&self.flood) {
                self.give_up(Stream::Flood, from, to, out);
            } else if let Some((from, to)) = hole(&self.inbox) {
                self.give_up(Stream::Inbox, from, to, out);
            } else {
                return;
            }
        }
    }

    /// When a question is due.
    pub fn due_us(&self) -> Option<u64> {
        let is_full = self.is_full();
        let due = |track: &Track| {
            let (from, _) = track
                .hole()
                .filter(|(from, _)| track.may_ask(*from, is_full))?;
            Some(track.ask_due_us(from))
        };
        let paced = !self.pace.allows() && self.held_bytes > 0;
        let paced = paced.then(|| self.pace.next_us());
        let dues = [due(&self.inbox), due(&self.flood), paced];
        dues.into_iter().flatten().min()
    }

    /// Whether everything that is known to exist was handed on.
    pub fn is_complete(&self) -> bool {
        self.inbox.got >= self.inbox.top && self.flood.got >= self.flood.top
    }
}

#[cfg(test)]
mod tests;
