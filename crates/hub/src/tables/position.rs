//! Where an event stands in a log, and how far an event stream has come in the rooms that it asked for.

use crate::books::faults::{self, Fault};
use crate::bounds::POSITIONS_MAX;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;
use std::io::Write;

/// Place of an event in a log. A log has a random name, so that a position means nothing in another one; its offsets count up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Never 0: that is the log of a client that nobody understands.
    pub(crate) log: u64,
    pub(crate) offset: u64,
}

/// A room that an event stream asked for.
#[derive(Debug)]
struct Asked {
    name: Box<str>,
    /// The client has all that the room keeps up to here.
    offset: Option<u64>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its history was not asked for.
    New,
    /// Its history is on its way: what the stream hears of the room meanwhile says nothing about what was before.
    Waiting,
    Told,
}

/// How far an event stream has come: its rooms, and where in the log of their namespace it stands in each. The client has it as
/// the id of its last event: `LOG:ROOM=OFFSET,ROOM=OFFSET`, hexadecimal. `ROOM` is a hash of the room's name.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// All offsets are of this log.
    log: u64,
    rooms: Vec<Asked>,
    /// The client said where it stopped.
    returns: bool,
}

/// Rooms are told apart for one client, which chose them: no secret is needed.
fn tag(room: &str) -> u64 {
    FixedState::with_seed(0).hash_one(room)
}

impl Reading {
    /// `last`: the id of the last event that the client has, as it says.
    pub(crate) fn new(rooms: impl Iterator<Item = Box<str>>, last: Option<&str>) -> Self {
        let (log, offsets) = last.and_then(parse).unwrap_or_default();
        let mut reading = Self {
            log,
            rooms: Vec::new(),
            returns: last.is_some(),
        };
        for name in rooms {
            if reading.rooms.iter().any(|asked| asked.name == name) {
                continue;
            }
            let tag = tag(&name);
            let known = offsets.iter().find(|(room, _)| *room == tag);
            reading.rooms.push(Asked {
                name,
                offset: known.map(|(_, offset)| *offset),
                state: State::New,
            });
        }
        reading
    }

    pub(crate) fn rooms(&self) -> Vec<Box<str>> {
        self.rooms.iter().map(|asked| asked.name.clone()).collect()
    }

    /// The history of a room is asked for: after which position? One that nobody knows is before everything. `None`: the stream
    /// did not ask for the room, or said nothing, or was told of the room before.
    pub(crate) fn begin(&mut self, room: &str) -> Option<Position> {
        let (log, returns) = (self.log, self.returns);
        let asked = self.find(room)?;
        let first = std::mem::replace(&mut asked.state, State::Waiting) == State::New;
        let known = asked.offset.map(|offset| Position { log, offset });
        (first && returns).then(|| known.unwrap_or_default())
    }

    /// Rooms of a client that comes back of which nobody can tell what it missed.
    pub(crate) fn unknown(&self) -> Vec<Box<str>> {
        let rooms = self.rooms.iter().filter(|_| self.returns);
        let rooms = rooms.filter(|asked| asked.state == State::New);
        rooms.map(|asked| asked.name.clone()).collect()
    }

    /// The stream is told all that a room keeps up to here; `false`: it did not ask for the room.
    pub(crate) fn told(&mut self, room: &str, at: Position) -> bool {
        self.enter(at.log);
        let Some(asked) = self.find(room) else {
            return false;
        };
        asked.state = State::Told;
        asked.offset = Some(at.offset);
        true
    }

    /// The stream gets an event of these rooms; `false`: it asked for none of them, and its position stays.
    pub(crate) fn advance(&mut self, rooms: &[&str], at: Position) -> bool {
        self.enter(at.log);
        let mut any = false;
        for asked in &mut self.rooms {
            // Until its history is told, the place of a room stays: what the client missed comes after that place.
            let is_its = asked.state == State::Told && rooms.contains(&&*asked.name);
            if is_its || faults::is_back(Fault::PlaceOfAnyRoom) {
                asked.offset = asked.offset.max(Some(at.offset));
                any = true;
            }
        }
        any
    }

    /// Offsets of another log mean nothing any more.
    fn enter(&mut self, log: u64) {
        if std::mem::replace(&mut self.log, log) != log {
            self.rooms.iter_mut().for_each(|asked| asked.offset = None);
        }
    }

    fn find(&mut self, room: &str) -> Option<&mut Asked> {
        self.rooms.iter_mut().find(|asked| *asked.name == *room)
    }

    /// Appends the line of an event stream that says how far it has come. Rooms beyond the bound are not in it: for these a client that
    /// comes back is told `"resumed":false`.
    pub(crate) fn write_id(&self, out: &mut Vec<u8>) {
        // Writing to a vector does not fail.
        let _ = write!(out, "id: {:x}:", self.log);
        let known = self.rooms.iter();
        let known = known.filter_map(|asked| Some((&asked.name, asked.offset?)));
        for (n, (name, offset)) in known.take(POSITIONS_MAX).enumerate() {
            let comma = if n == 0 { "" } else { "," };
            let _ = write!(out, "{comma}{:x}={offset:x}", tag(name));
        }
        out.push(b'\n');
    }

    /// How far it has come, for another process.
    pub(crate) fn record(&self) -> handoff::Reading {
        let rooms = self.rooms.iter().map(|asked| handoff::Reached {
            room: asked.name.to_string(),
            offset: asked.offset,
            told: match asked.state {
                State::New => 0,
                State::Waiting => 1,
                State::Told => 2,
            },
        });
        handoff::Reading {
            log: self.log,
            rooms: rooms.collect(),
            returns: self.returns,
        }
    }

    /// A stream that goes on from where it was in another process.
    pub(crate) fn restored(record: &handoff::Reading) -> Self {
        let rooms = record.rooms.iter().map(|reached| Asked {
            name: reached.room.as_str().into(),
            offset: reached.offset,
            state: match reached.told {
                0 => State::New,
                1 => State::Waiting,
                _ => State::Told,
            },
        });
        Self {
            log: record.log,
            rooms: rooms.collect(),
            returns: record.returns,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let names: usize = self.rooms.iter().map(|asked| asked.name.len()).sum();
        names + self.rooms.capacity() * size_of::<Asked>()
    }
}

/// A log, and offsets in it by the tags of rooms. What is no id of ours is none at all.
fn parse(id: &str) -> Option<(u64, Vec<(u64, u64)>)> {
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (log, rooms) = id.split_once(':')?;
    let rooms = rooms.split(',').filter(|room| !room.is_empty());
    let offsets = rooms.take(POSITIONS_MAX).map(|room| {
        let (tag, offset) = room.split_once('=')?;
        Some((number(tag)?, number(offset)?))
    });
    Some((number(log)?, offsets.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(rooms: &[&str], last: Option<&str>) -> Reading {
        Reading::new(rooms.iter().map(|room| (*room).into()), last)
    }

    fn id(reading: &Reading) -> String {
        let mut line = Vec::new();
        reading.write_id(&mut line);
        let line = String::from_utf8(line).expect("text");
        let id = line
            .strip_prefix("id: ")
            .and_then(|id| id.strip_suffix('\n'));
        id.expect("a line").to_owned()
    }

    fn at(log: u64, offset: u64) -> Position {
        Position { log, offset }
    }

    #[test]
    fn an_id_holds_a_place_for_each_room() {
        let mut first = reading(&["a", "b", "a"], None);
        assert_eq!(first.rooms().len(), 2);
        assert_eq!((first.begin("a"), first.begin("b")), (None, None));
        assert!(first.told("a", at(7, 3)) && first.told("b", at(7, 5)));
        assert!(first.advance(&["x", "a"], at(7, 9)));
        assert!(!first.advance(&["x"], at(7, 10)), "it did not ask for x");
        let mut again = reading(&["b", "a", "new"], Some(&id(&first)));
        assert_eq!(again.begin("a"), Some(at(7, 9)));
        assert_eq!(again.begin("b"), Some(at(7, 5)));
        assert_eq!(again.begin("new"), Some(Position::default()), "unknown");
        assert_eq!(again.begin("other"), None);
        // Before its histories are there, a stream that breaks off is where it was.
        assert!(!again.advance(&["a"], at(7, 20)));
        assert!(again.told("b", at(7, 20)));
        let mut third = reading(&["a", "b"], Some(&id(&again)));
        assert_eq!(third.begin("a"), Some(at(7, 9)));
        assert_eq!(third.begin("b"), Some(at(7, 20)));
    }

    #[test]
    fn a_stream_goes_on_elsewhere_from_where_it_was() {
        let mut here = reading(&["a", "b", "c"], Some("7:1=2"));
        let _ = (here.begin("a"), here.begin("b"));
        assert!(here.told("a", at(8, 3)));
        let mut there = Reading::restored(&here.record());
        assert_eq!(there.record(), here.record());
        assert_eq!(id(&there), id(&here));
        assert_eq!(there.unknown(), here.unknown());
        // The history of the second is on its way still, that of the third was not asked for.
        assert!(!there.advance(&["b", "c"], at(8, 4)) && there.advance(&["a"], at(8, 5)));
        let mut again = reading(&["a", "b"], Some(&id(&there)));
        assert_eq!(again.begin("a"), Some(at(8, 5)));
        assert_eq!(again.begin("b"), Some(Position::default()));
    }

    #[test]
    fn places_in_another_log_are_forgotten() {
        let mut first = reading(&["a", "b"], Some("7:1=2"));
        assert!(first.told("a", at(8, 1)));
        let mut again = reading(&["a", "b"], Some(&id(&first)));
        assert_eq!(again.begin("a"), Some(at(8, 1)));
        assert_eq!(again.begin("b"), Some(Position::default()));
    }

    #[test]
    fn what_is_no_id_is_before_everything() {
        let long = format!("7:{}", "1=1,".repeat(5_000));
        for strange in [
            "",
            "7",
            "7:",
            "yesterday",
            "7:1",
            "7:x=1",
            "7:1=1,2",
            ":1=1",
            &long,
        ] {
            let mut reading = reading(&["a"], Some(strange));
            assert_eq!(reading.unknown().len(), 1);
            let after = reading.begin("a");
            assert_eq!(after.map(|at| at.offset), Some(0), "{strange}");
        }
        let many: Vec<String> = (0..5_000).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let mut all = reading(&many, None);
        many.iter()
            .for_each(|room| assert!(all.told(room, at(u64::MAX, u64::MAX))));
        assert!(id(&all).len() <= 4096, "{}", id(&all).len());
    }
}
