//! What a shard waits for goes by its tickets in order, but namespaces are written each by itself: it is told of a ticket when
//! all before it are stored as well.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// The tickets of all shards.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    shards: Mutex<HashMap<u16, Shard>>,
}

#[derive(Debug, Default)]
struct Shard {
    /// How many words have it that are not stored yet.
    open: BTreeMap<u64, usize>,
    last: u64,
}

impl Tickets {
    /// A word with it leaves for its writer.
    pub(super) fn given(&self, shard: u16, ticket: u64) {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let shard = shards.entry(shard).or_default();
        *shard.open.entry(ticket).or_default() += 1;
        shard.last = shard.last.max(ticket);
    }

    /// It is stored. The ticket up to which all is.
    pub(super) fn stored(&self, shard: u16, ticket: u64) -> u64 {
        let mut shards = self.shards.lock().unwrap_or_else(PoisonError::into_inner);
        let shard = shards.entry(shard).or_default();
        if let Some(words) = shard.open.get_mut(&ticket) {
            *words -= 1;
            if *words == 0 {
                shard.open.remove(&ticket);
            }
        }
        let first = shard.open.first_key_value();
        first.map_or(shard.last, |(first, _)| first.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_waits_for_those_before_it() {
        let tickets = Tickets::default();
        for ticket in [3, 7, 8, 9, 9] {
            tickets.given(1, ticket);
        }
        // Of another namespace, whose Redis is quicker.
        assert_eq!(tickets.stored(1, 8), 2);
        assert_eq!(tickets.stored(1, 3), 6);
        assert_eq!(tickets.stored(1, 7), 8);
        assert_eq!(tickets.stored(1, 9), 8);
        assert_eq!(tickets.stored(1, 9), 9);
        // Other shards have nothing to do with it.
        tickets.given(0, 1);
        assert_eq!(tickets.stored(0, 1), 1);
    }
}
