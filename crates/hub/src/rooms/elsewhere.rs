//! How many members rooms have on other nodes, as their shards told last.

use crate::tables::id::Place;
use crate::tables::slot::RoomId;
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Elsewhere {
    /// The handler wants counts over all nodes.
    wanted: bool,
    counts: HashMap<RoomId, Vec<(Place, u32)>>,
}

impl Elsewhere {
    /// The handler wants counts of rooms over all nodes, or does not: then nodes do not tell each other.
    pub(crate) fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// A shard of another node has so many members of a room. Whether that is news, and whether it is the first word of that shard.
    pub(crate) fn note(&mut self, room: RoomId, from: Place, members: u32) -> (bool, bool) {
        let counts = self.counts.entry(room).or_default();
        let known = counts.iter().position(|(place, _)| *place == from);
        let before = known.map_or(0, |at| counts[at].1);
        match (known, members) {
            (Some(at), 0) => drop(counts.swap_remove(at)),
            (Some(at), _) => counts[at].1 = members,
            (None, 0) => {}
            (None, _) => counts.push((from, members)),
        }
        if counts.is_empty() {
            self.counts.remove(&room);
        }
        (before != members, known.is_none())
    }

    pub(crate) fn members(&self, room: RoomId) -> u64 {
        let counts = self.counts.get(&room).into_iter().flatten();
        counts.map(|(_, members)| u64::from(*members)).sum()
    }

    pub(crate) fn forget(&mut self, room: RoomId) {
        self.counts.remove(&room);
    }

    /// A node is gone; the rooms that it had members of.
    pub(crate) fn node_down(&mut self, node: u16) -> Vec<RoomId> {
        let mut concerned = Vec::new();
        self.counts.retain(|room, counts| {
            let before = counts.len();
            counts.retain(|(place, _)| place.node != node);
            if counts.len() < before {
                concerned.push(*room);
            }
            !counts.is_empty()
        });
        concerned
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let lists = self.counts.values();
        let lists = lists.map(|list| list.capacity() * size_of::<(Place, u32)>());
        self.counts.capacity() * size_of::<(RoomId, Vec<(Place, u32)>)>() + lists.sum::<usize>()
    }
}
