//! The last events of a room, kept in memory by the room's home shard for clients that join later.
//! Bounded in events, bytes and rooms.

use std::collections::{HashMap, VecDeque};

/// Place of an event among those that its room keeps. Offsets count up by one; a log that was forgotten and begun anew has
/// another epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) epoch: u64,
    pub(crate) offset: u64,
}

/// Events kept per room.
pub const EVENTS_MAX: usize = 50;
/// Bytes kept per room.
pub const BYTES_MAX: usize = 64 * 1024;
/// Rooms with history per shard; the one least recently written makes way.
pub const ROOMS_MAX: usize = 10_000;
/// Bytes kept per shard: many full rooms are fewer rooms.
pub const TOTAL_BYTES_MAX: usize = 64 * 1024 * 1024;

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
        if event.len() > BYTES_MAX {
            return None;
        }
        self.writes += 1;
        let key = (namespace.to_owned(), room.to_owned());
        if self.rooms.len() >= ROOMS_MAX && !self.rooms.contains_key(&key) {
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
        while ring.events.len() > EVENTS_MAX || ring.bytes > BYTES_MAX {
            ring.bytes -= ring.events.pop_front().map_or(0, |event| event.len());
        }
        self.bytes = self.bytes - before + ring.bytes;
        while self.bytes > TOTAL_BYTES_MAX {
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

    /// Kept events joined by commas.
    pub(crate) fn events(&self, namespace: &str, room: &str) -> String {
        let key = (namespace.to_owned(), room.to_owned());
        let Some(ring) = self.rooms.get(&key) else {
            return String::new();
        };
        let mut all = String::with_capacity(ring.bytes + ring.events.len());
        for (n, event) in ring.events.iter().enumerate() {
            if n > 0 {
                all.push(',');
            }
            all.push_str(event);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_within_bounds() {
        let mut log = Log::default();
        for n in 0..EVENTS_MAX + 3 {
            log.append("/", "r", &n.to_string(), 1);
        }
        assert!(log.events("/", "r").starts_with("3,4,"));
        log.append("/", "r", &"x".repeat(BYTES_MAX), 1);
        assert_eq!(log.events("/", "r").len(), BYTES_MAX);
        assert_eq!(log.bytes, BYTES_MAX);
        assert_eq!(log.events("/", "other"), "");
    }

    #[test]
    fn positions_count_up_and_a_new_log_has_a_new_epoch() {
        let mut log = Log::default();
        let [first, second, other] = ["a", "a", "b"].map(|room| log.append("/", room, "1", 7));
        let [first, second, other] = [first, second, other].map(|at| at.expect("short enough"));
        assert_eq!((first.epoch, first.offset), (7, 1));
        assert_eq!((second.epoch, second.offset), (7, 2));
        assert!(other.epoch > first.epoch, "{other:?}");
        assert_eq!(log.append("/", "a", &"x".repeat(BYTES_MAX + 1), 7), None);
    }

    #[test]
    fn full_rooms_are_bounded_together() {
        let (mut log, event) = (Log::default(), "x".repeat(BYTES_MAX));
        for n in 0..=TOTAL_BYTES_MAX / BYTES_MAX {
            log.append("/", &n.to_string(), &event, 1);
        }
        assert!(log.bytes <= TOTAL_BYTES_MAX);
        let held: usize = log.rooms.values().map(|ring| ring.bytes).sum();
        assert_eq!(log.bytes, held);
        assert_eq!(log.events("/", "0"), "");
    }

    #[test]
    fn forgets_old_rooms_first() {
        let mut log = Log::default();
        for n in 0..ROOMS_MAX + 1 {
            log.append("/", &n.to_string(), "1", 1);
        }
        assert!(log.rooms.len() <= ROOMS_MAX);
        assert_eq!(log.events("/", "0"), "");
        assert_eq!(log.events("/", &ROOMS_MAX.to_string()), "1");
    }
}
