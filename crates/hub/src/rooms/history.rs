//! The last events of a room, kept in memory by the shard that owns the room's name, for those who join later.
//! Bounded in events, bytes and rooms; durable history with offsets is another thing.

use crate::cluster::relay::Relay;
use crate::core::Core;
use crate::seam::context::{Context, Emit};
use crate::seam::notices;
use crate::tables::slot::SocketKey;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};

/// Events kept per room.
pub const EVENTS_MAX: usize = 50;
/// Bytes kept per room.
pub const BYTES_MAX: usize = 64 * 1024;
/// Rooms with history per shard; the one least recently written makes way.
pub const ROOMS_MAX: usize = 10_000;
/// Bytes kept per shard: many full rooms are fewer rooms.
pub const TOTAL_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<Box<str>>,
    bytes: usize,
    /// Number of the last write on this shard.
    written: u64,
}

#[derive(Debug, Default)]
pub(crate) struct History {
    rooms: HashMap<(String, String), Ring>,
    writes: u64,
    /// Bytes of all rings.
    bytes: usize,
}

impl History {
    fn record(&mut self, namespace: &str, room: &str, event: &str) {
        if event.len() > BYTES_MAX {
            return;
        }
        self.writes += 1;
        let key = (namespace.to_owned(), room.to_owned());
        if self.rooms.len() >= ROOMS_MAX && !self.rooms.contains_key(&key) {
            self.evict();
        }
        let ring = self.rooms.entry(key).or_default();
        ring.written = self.writes;
        let before = ring.bytes;
        ring.bytes += event.len();
        ring.events.push_back(event.into());
        while ring.events.len() > EVENTS_MAX || ring.bytes > BYTES_MAX {
            ring.bytes -= ring.events.pop_front().map_or(0, |event| event.len());
        }
        self.bytes = self.bytes - before + ring.bytes;
        while self.bytes > TOTAL_BYTES_MAX {
            self.evict();
        }
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

    /// Recorded arguments joined by commas.
    fn events(&self, namespace: &str, room: &str) -> String {
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

impl Core {
    /// Shard that keeps a room's history: the same answer on every shard.
    fn history_owner(&self, namespace: &str, room: &str) -> u16 {
        let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
        hasher.write(namespace.as_bytes());
        hasher.write_u8(0);
        hasher.write(room.as_bytes());
        (hasher.finish() % u64::from(self.ids.me.shards)) as u16
    }

    pub(crate) fn record(&mut self, namespace: &str, room: &str, event: &str) {
        let owner = self.history_owner(namespace, room);
        if owner == self.ids.me.shard {
            self.history.record(namespace, room, event);
        } else {
            let (namespace, room) = (namespace.to_owned(), room.to_owned());
            self.send(
                owner,
                Relay::Record {
                    namespace,
                    room,
                    event: event.to_owned(),
                },
            );
        }
    }

    /// Sends a socket of shard `shard` what is kept of a room.
    pub(crate) fn replay(&mut self, namespace: &str, room: &str, shard: u16, socket: SocketKey) {
        let owner = self.history_owner(namespace, room);
        if owner != self.ids.me.shard {
            let (namespace, room) = (namespace.to_owned(), room.to_owned());
            let shard = self.ids.me.shard;
            return self.send(
                owner,
                Relay::Replay {
                    namespace,
                    room,
                    shard,
                    socket,
                },
            );
        }
        let events = self.history.events(namespace, room);
        if events.is_empty() {
            return;
        }
        let mut args = b"{\"room\":".to_vec();
        wire::json::quote(&mut args, room);
        args.extend_from_slice(b",\"messages\":[");
        args.extend_from_slice(events.as_bytes());
        args.extend_from_slice(b"]}");
        let args = String::from_utf8_lossy(&args).into_owned();
        let exempt = self.config.compression.exempt.holds(namespace, &[room]);
        if shard == self.ids.me.shard {
            self.replayed(socket, &args, exempt);
        } else {
            let replayed = Relay::Replayed {
                socket,
                args,
                exempt,
            };
            self.send(shard, replayed);
        }
    }

    /// Delivers the `history` event to a socket of this shard.
    pub(crate) fn replayed(&mut self, socket: SocketKey, args: &str, exempt: bool) {
        Context { core: self }.emit_with(
            socket,
            &Emit {
                name: notices::HISTORY,
                args,
                ..Emit::default()
            },
            None,
            exempt,
        );
    }
}

impl Context<'_> {
    /// Keeps an event's arguments for those who join the room later.
    pub fn record(&mut self, namespace: &str, room: &str, args: &str) {
        self.core.record(namespace, room, args);
    }

    /// Sends a socket the event `history` `{room, messages}` if something is kept of the room.
    pub fn replay(&mut self, socket: SocketKey, namespace: &str, room: &str) {
        let shard = self.core.ids.me.shard;
        self.core.replay(namespace, room, shard, socket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_within_bounds() {
        let mut history = History::default();
        for n in 0..EVENTS_MAX + 3 {
            history.record("/", "r", &n.to_string());
        }
        assert!(history.events("/", "r").starts_with("3,4,"));
        history.record("/", "r", &"x".repeat(BYTES_MAX));
        assert_eq!(history.events("/", "r").len(), BYTES_MAX);
        assert_eq!(history.bytes, BYTES_MAX);
        assert_eq!(history.events("/", "other"), "");
    }

    #[test]
    fn full_rooms_are_bounded_together() {
        let (mut history, event) = (History::default(), "x".repeat(BYTES_MAX));
        for n in 0..=TOTAL_BYTES_MAX / BYTES_MAX {
            history.record("/", &n.to_string(), &event);
        }
        assert!(history.bytes <= TOTAL_BYTES_MAX);
        let held: usize = history.rooms.values().map(|ring| ring.bytes).sum();
        assert_eq!(history.bytes, held);
        assert_eq!(history.events("/", "0"), "");
    }

    #[test]
    fn forgets_old_rooms_first() {
        let mut history = History::default();
        for n in 0..ROOMS_MAX + 1 {
            history.record("/", &n.to_string(), "1");
        }
        assert!(history.rooms.len() <= ROOMS_MAX);
        assert_eq!(history.events("/", "0"), "");
        assert_eq!(history.events("/", &ROOMS_MAX.to_string()), "1");
    }
}
