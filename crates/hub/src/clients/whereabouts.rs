//! Sockets that are on another shard than the one that their id names: their clients came back there. One table for the process, so that
//! workers are heard by the right shard.

use crate::tables::id::{self, Place};
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

    /// A shard has it from now on, with its transport or without.
    pub(crate) fn came(&self, id: Id20, shard: u16) {
        let shards = self.shards.pin();
        match id::socket_owner(&id).shard == shard {
            // The id itself names this shard.
            true => drop(shards.remove(&id)),
            false => drop(shards.insert(id, shard)),
        }
    }

    /// A shard does not have it any more; another may have it by now.
    pub(crate) fn went(&self, id: Id20, shard: u16) {
        let _ = self.shards.pin().remove_if(&id, |_, at| *at == shard);
    }
}
