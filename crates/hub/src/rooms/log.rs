//! The last events of a room, kept in memory by the room's home shard for clients that join later.
//! Bounded in events, bytes and rooms.

use crate::books::limits::{
    HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, HISTORY_ROOMS_MAX, HISTORY_TOTAL_BYTES_MAX,
};
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io::Write;

/// Place of an event among those that its room keeps. Offsets count up by one; a log that was forgotten and begun anew has
/// another epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub(crate) epoch: u64,
    pub(crate) offset: u64,
}

impl Position {
    /// Appends the line of an event stream that names it.
    pub(crate) fn write_id(self, out: &mut Vec<u8>) {
        // Writing to a vector does not fail.
        let _ = writeln!(out, "id: {self}");
    }

    /// Reads what `Display` wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (epoch, offset) = text.split_once('-')?;
        Some(Self {
            epoch: epoch.parse().ok()?,
            offset: offset.parse().ok()?,
        })
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.epoch, self.offset)
    }
}

/// What a room keeps, for a client that comes.
#[derive(Debug, Default)]
pub struct Kept {
    /// Raw JSON, separated by commas.
    pub(crate) events: String,
    /// Of the last of them.
    pub(crate) at: Option<Position>,
    /// The client said what it has, and these are all that it missed, or may not be.
    pub(crate) resumed: Option<bool>,
}

#[derive(Debug)]
struct Ring {
    events: VecDeque<Box<str>>,
    bytes: usize,
    /// Number of the last write on this shard.
    written: u64,
    /// Of the last event.
    position: Position,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    rooms: HashMap<(String, String), Ring>,
    writes: u64,
    /// Bytes of all rings.
    bytes: usize,
    /// Of the next ring, at least.
    epoch: u64,
}

impl Ring {
    fn new(epoch: u64) -> Self {
        Self {
            events: VecDeque::new(),
            bytes: 0,
            written: 0,
            position: Position { epoch, offset: 0 },
        }
    }
}

impl Ring {
    /// How many of the kept events a client has that has all up to this one; `None`: it missed some that are not kept.
    fn behind(&self, after: Position) -> Option<usize> {
        let Position { epoch, offset } = self.position;
        let forgotten = offset - self.events.len() as u64;
        let known = after.epoch == epoch && (forgotten..=offset).contains(&after.offset);
        known.then(|| (after.offset - forgotten) as usize)
    }
}

impl Log {
    /// Keeps an event; its position, or `None` if it is too long. `now_ms` is Unix time: epochs of a process that was started
    /// anew are others.
    pub(crate) fn append(
        &mut self,
        namespace: &str,
        room: &str,
        event: &str,
        now_ms: u64,
    ) -> Option<Position> {
        if event.len() > HISTORY_BYTES_MAX {
            return None;
        }
        self.writes += 1;
        let key = (namespace.to_owned(), room.to_owned());
        if self.rooms.len() >= HISTORY_ROOMS_MAX && !self.rooms.contains_key(&key) {
            self.evict();
        }
        let epoch = self.epoch.max(now_ms);
        let ring = self.rooms.entry(key).or_insert_with(|| {
            self.epoch = epoch + 1;
            Ring::new(epoch)
        });
        ring.written = self.writes;
        ring.position.offset += 1;
        let (position, before) = (ring.position, ring.bytes);
        ring.bytes += event.len();
        ring.events.push_back(event.into());
        while ring.events.len() > HISTORY_EVENTS_MAX || ring.bytes > HISTORY_BYTES_MAX {
            ring.bytes -= ring.events.pop_front().map_or(0, |event| event.len());
        }
        self.bytes = self.bytes - before + ring.bytes;
        while self.bytes > HISTORY_TOTAL_BYTES_MAX {
            self.evict();
        }
        Some(position)
    }

    /// Makes room by forgetting a sixteenth of the rooms, those written longest ago.
    fn evict(&mut self) {
        let mut written: Vec<u64> = self.rooms.values().map(|ring| ring.written).collect();
        written.sort_unstable();
        let limit = written.get(written.len() / 16).copied().unwrap_or(u64::MAX);
        self.rooms.retain(|_, ring| ring.written > limit);
        self.bytes = self.rooms.values().map(|ring| ring.bytes).sum();
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let names = |(namespace, room): &(String, String)| namespace.len() + room.len();
        let rings: usize = self
            .rooms
            .iter()
            .map(|(key, ring)| {
                names(key) + ring.bytes + ring.events.capacity() * size_of::<Box<str>>()
            })
            .sum();
        rings + self.rooms.capacity() * size_of::<((String, String), Ring)>()
    }

    /// What is kept of a room, or of it what came after a position.
    pub(crate) fn kept(&self, namespace: &str, room: &str, after: Option<Position>) -> Kept {
        let key = (namespace.to_owned(), room.to_owned());
        let Some(ring) = self.rooms.get(&key) else {
            return Kept {
                resumed: after.map(|_| false),
                ..Kept::default()
            };
        };
        let known = after.and_then(|after| ring.behind(after));
        let mut events = String::with_capacity(ring.bytes + ring.events.len());
        for event in ring.events.iter().skip(known.unwrap_or(0)) {
            if !events.is_empty() {
                events.push(',');
            }
            events.push_str(event);
        }
        Kept {
            events,
            at: Some(ring.position),
            resumed: after.map(|_| known.is_some()),
        }
    }
}

/// Shard that gives the events of a room their order, and keeps them: the same answer on every shard.
pub(crate) fn home(namespace: &str, room: &str, shards: u16) -> u16 {
    if shards == 1 {
        return 0;
    }
    let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
    hasher.write(namespace.as_bytes());
    hasher.write_u8(0);
    hasher.write(room.as_bytes());
    (hasher.finish() % u64::from(shards)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_within_bounds() {
        let mut log = Log::default();
        for n in 0..HISTORY_EVENTS_MAX + 3 {
            log.append("/", "r", &n.to_string(), 1);
        }
        assert!(log.kept("/", "r", None).events.starts_with("3,4,"));
        log.append("/", "r", &"x".repeat(HISTORY_BYTES_MAX), 1);
        assert_eq!(log.kept("/", "r", None).events.len(), HISTORY_BYTES_MAX);
        assert_eq!(log.bytes, HISTORY_BYTES_MAX);
        assert_eq!(log.kept("/", "other", None).events, "");
    }

    #[test]
    fn positions_count_up_and_a_new_log_has_a_new_epoch() {
        let mut log = Log::default();
        let [first, second, other] = ["a", "a", "b"].map(|room| log.append("/", room, "1", 7));
        let [first, second, other] = [first, second, other].map(|at| at.expect("short enough"));
        assert_eq!((first.epoch, first.offset), (7, 1));
        assert_eq!((second.epoch, second.offset), (7, 2));
        assert!(other.epoch > first.epoch, "{other:?}");
        assert_eq!(
            log.append("/", "a", &"x".repeat(HISTORY_BYTES_MAX + 1), 7),
            None
        );
    }

    #[test]
    fn what_a_client_missed_begins_behind_its_position() {
        let mut log = Log::default();
        let mut append = |n: usize| log.append("/", "r", &n.to_string(), 7).expect("short");
        let all: Vec<Position> = (0..HISTORY_EVENTS_MAX + 3).map(&mut append).collect();
        let last = all[HISTORY_EVENTS_MAX + 2];
        let kept = |after| log.kept("/", "r", Some(after));
        let missed = kept(all[HISTORY_EVENTS_MAX]);
        let texts = format!("{},{}", HISTORY_EVENTS_MAX + 1, HISTORY_EVENTS_MAX + 2);
        assert_eq!((missed.events, missed.resumed), (texts, Some(true)));
        assert_eq!(kept(last).events, "");
        // The last one that is not kept any more is the first that need not be.
        assert_eq!(
            (kept(all[2]).resumed, kept(all[1]).resumed),
            (Some(true), Some(false))
        );
        let ahead = Position {
            offset: last.offset + 1,
            ..last
        };
        let elsewhere = Position { epoch: 8, ..last };
        for strange in [ahead, elsewhere, Position::default()] {
            let kept = kept(strange);
            assert_eq!((kept.resumed, kept.at), (Some(false), Some(last)));
            assert!(kept.events.starts_with("3,4,"), "{strange}");
        }
        assert_eq!(log.kept("/", "other", Some(last)).resumed, Some(false));
        assert_eq!(Position::parse(&last.to_string()), Some(last));
    }

    #[test]
    fn full_rooms_are_bounded_together() {
        let (mut log, event) = (Log::default(), "x".repeat(HISTORY_BYTES_MAX));
        for n in 0..=HISTORY_TOTAL_BYTES_MAX / HISTORY_BYTES_MAX {
            log.append("/", &n.to_string(), &event, 1);
        }
        assert!(log.bytes <= HISTORY_TOTAL_BYTES_MAX);
        let held: usize = log.rooms.values().map(|ring| ring.bytes).sum();
        assert_eq!(log.bytes, held);
        assert_eq!(log.kept("/", "0", None).events, "");
    }

    #[test]
    fn forgets_old_rooms_first() {
        let mut log = Log::default();
        for n in 0..HISTORY_ROOMS_MAX + 1 {
            log.append("/", &n.to_string(), "1", 1);
        }
        assert!(log.rooms.len() <= HISTORY_ROOMS_MAX);
        assert_eq!(log.kept("/", "0", None).events, "");
        assert_eq!(
            log.kept("/", &HISTORY_ROOMS_MAX.to_string(), None).events,
            "1"
        );
    }
}
