//! Sockets that are on another shard than the one that their id names: their clients came back there. One table for the process, which
//! a socket enters and leaves with its transport.

use crate::tables::id::Place;
use papaya::HashMap;
use wire::base64url::Id20;

/// Where sockets are that have moved.
#[derive(Debug, Default)]
pub struct Whereabouts {
    shards: HashMap<Id20, u16>,
}

impl Whereabouts {
    /// The shard that has a socket with this id, if it is one of this process.
    pub fn shard_of(&self, socket: &str) -> Option<u16> {
        let moved = Id20::decode(socket.as_bytes());
        let moved = moved.and_then(|id| self.shards.pin().get(&id).copied());
        moved.or_else(|| Place::of_socket(socket).map(|place| place.shard))
    }

    pub(crate) fn came(&self, id: Id20, shard: u16) {
        self.shards.pin().insert(id, shard);
    }

    /// It is another shard's by now if that is not its place any more.
    pub(crate) fn went(&self, id: Id20, shard: u16) {
        let _ = self.shards.pin().remove_if(&id, |_, at| *at == shard);
    }
}
