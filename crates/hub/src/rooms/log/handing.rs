//! The events that rooms keep as records for the process that comes next, and back: the log goes on under its name, and each place in it
//! means the same.

use super::{Log, Ring};
use crate::bounds::HISTORY_ROOMS_MAX;
use handoff::keepsakes as record;
use std::sync::Arc;

/// Whether a record can name the room. Clients may give namespaces longer names, and so may programs that speak to a room that nobody is in.
fn may_go((namespace, room): &(String, String)) -> bool {
    record::Room::may_be(namespace, room)
}

impl Log {
    /// Names of the rooms that keep something and go.
    pub(crate) fn names(&self) -> Vec<(String, String)> {
        let rooms = self.rooms.keys();
        rooms.filter(|key| may_go(key)).cloned().collect()
    }

    /// How many rooms keep events that no record can have.
    pub(crate) fn left_behind(&self) -> u64 {
        let stay = self.rooms.iter().filter(|(key, _)| !may_go(key));
        stay.filter(|(_, ring)| !ring.events.is_empty()).count() as u64
    }

    /// Rooms that keep something, and their events.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        let events = self.rooms.values().map(|ring| ring.events.len() as u64);
        (self.rooms.len() as u64, events.sum())
    }

    /// `None`: it has given no place yet. A client that missed something of a room that does not go is not told that it has all.
    pub(crate) fn record(&self) -> Option<record::Log> {
        let stay = self.rooms.iter().filter(|(key, _)| !may_go(key));
        let floor = stay.map(|(_, ring)| ring.last()).max();
        (self.name != 0).then_some(record::Log {
            name: self.name,
            last: self.offset,
            floor: self.floor.max(floor.unwrap_or_default()),
        })
    }

    /// A room with its events.
    pub(crate) fn room(&self, key: &(String, String)) -> Option<record::Room> {
        let ring = self.rooms.get(key)?;
        let events = ring.events.iter();
        Some(record::Room {
            namespace: key.0.clone(),
            name: key.1.clone(),
            floor: ring.floor,
            events: events
                .map(|(place, text)| record::Kept {
                    place: *place,
                    text: text.to_string(),
                })
                .collect(),
        })
    }

    /// The log of the process before goes on here.
    pub(crate) fn go_on_as(&mut self, word: record::Log) {
        (self.name, self.offset, self.floor) = (word.name, word.last, word.floor);
    }

    /// Takes in a room of the process before. `false`: it is there already, or there is no place for it. A client that missed something of
    /// a room that is left out is not told that it has all.
    pub(crate) fn take_in(&mut self, room: &record::Room) -> bool {
        let key = (room.namespace.clone(), room.name.clone());
        let last = room.events.last().map_or(0, |kept| kept.place);
        let last = last.max(room.floor);
        let fits = last <= self.offset;
        if !fits || self.rooms.len() >= HISTORY_ROOMS_MAX || self.rooms.contains_key(&key) {
            self.floor = self.floor.max(last.min(self.offset));
            return false;
        }
        let mut ring = Ring::new(room.floor, &self.account);
        for kept in &room.events {
            ring.push(kept.place, Arc::from(kept.text.as_str()));
        }
        self.rooms.insert(key, ring);
        while self.account.is_exceeded() && !self.rooms.is_empty() {
            self.evict();
        }
        true
    }
}
