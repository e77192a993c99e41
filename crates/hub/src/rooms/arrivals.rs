//! When members joined, in namespaces where a member may see nothing that was said before. Elsewhere nothing is noted.

use crate::tables::slot::{RoomId, SocketId};
use std::collections::{BTreeSet, HashMap};

/// Members of this shard, and when each joined.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    namespaces: BTreeSet<String>,
    /// In ms since 1970.
    since: HashMap<(RoomId, SocketId), u64>,
}

impl Arrivals {
    pub(crate) fn new(namespaces: &BTreeSet<String>) -> Self {
        Self {
            namespaces: namespaces.clone(),
            since: HashMap::new(),
        }
    }

    /// Whether some namespace hides what was before.
    pub(crate) fn is_on(&self) -> bool {
        !self.namespaces.is_empty()
    }

    /// Whether members of this namespace see nothing of what was said before they joined.
    pub(crate) fn hide_the_past_of(&self, namespace: &str) -> bool {
        self.is_on() && self.namespaces.contains(namespace)
    }

    /// Notes an arrival. A socket that is a member already joined before.
    pub(crate) fn came(&mut self, room: RoomId, socket: SocketId, now_ms: u64) {
        self.since.entry((room, socket)).or_insert(now_ms);
    }

    pub(crate) fn went(&mut self, room: RoomId, socket: SocketId) {
        if self.is_on() {
            self.since.remove(&(room, socket));
            if self.since.len() < self.since.capacity() / 8 {
                self.since.shrink_to(2 * self.since.len());
            }
        }
    }

    pub(crate) fn since_ms(&self, room: RoomId, socket: SocketId) -> Option<u64> {
        self.since.get(&(room, socket)).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.since.len()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.since.capacity() * size_of::<((RoomId, SocketId), u64)>()
    }
}
