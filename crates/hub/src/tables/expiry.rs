//! Sockets whose tokens end soon. A heartbeat looks at the tokens of its session, so only those wait here whose warning is due before
//! the next one. They wait in buckets of a second of the wall clock. An idle connection with an hour left pays nothing.

use crate::bounds::STALE_MAX;
use crate::tables::slot::SocketKey;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Expiries {
    buckets: BTreeMap<u64, Vec<SocketKey>>,
    entries: usize,
    /// Entries whose socket left before its time.
    stale: usize,
}

impl Expiries {
    pub(crate) fn add(&mut self, due_s: u64, socket: SocketKey) {
        self.entries += 1;
        let bucket = self.buckets.entry(due_s).or_default();
        bucket.push(socket);
    }

    /// A socket that is due.
    pub(crate) fn pop_due(&mut self, now_s: u64) -> Option<SocketKey> {
        let mut bucket = self.buckets.first_entry()?;
        if *bucket.key() > now_s {
            return None;
        }
        let socket = bucket.get_mut().pop();
        if bucket.get().is_empty() {
            bucket.remove();
        }
        self.entries -= 1;
        // The entry that went may have been a stale one.
        self.stale = self.stale.min(self.entries);
        socket
    }

    pub(crate) fn next_due_s(&self) -> Option<u64> {
        self.buckets.first_key_value().map(|(due, _)| *due)
    }

    /// A socket with an entry is gone. Churn must not fill the buckets of a distant time.
    pub(crate) fn forget_one(&mut self, is_live: impl Fn(SocketKey) -> bool) {
        self.stale += 1;
        if self.stale <= self.entries / 2 + STALE_MAX {
            return;
        }
        self.buckets.retain(|_, bucket| {
            bucket.retain(|socket| is_live(*socket));
            bucket.shrink_to_fit();
            !bucket.is_empty()
        });
        self.entries = self.buckets.values().map(Vec::len).sum();
        self.stale = 0;
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let entry = size_of::<(u64, Vec<SocketKey>)>();
        self.buckets
            .values()
            .map(|bucket| entry + bucket.capacity() * size_of::<SocketKey>())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::slot::{SlotId, SocketId};

    #[test]
    fn churn_does_not_fill_a_distant_second() {
        let mut expiries = Expiries::default();
        let key = |index| SocketKey::new(SocketId::at(index), 0);
        expiries.add(5, key(0));
        for index in 1..100_000 {
            expiries.add(1_000_000 + u64::from(index % 10), key(index));
            expiries.forget_one(|live| live == key(0));
        }
        assert!(expiries.entries < 5_000, "{}", expiries.entries);
        assert_eq!(expiries.pop_due(4), None);
        assert_eq!(expiries.pop_due(5), Some(key(0)));
        assert_eq!(expiries.pop_due(5), None);
        assert!(expiries.heap_bytes() < 200_000);
    }
}
