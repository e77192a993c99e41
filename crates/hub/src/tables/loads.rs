//! How full the mailboxes of the shards are.

use crate::books::limits::Limits;
use crate::bounds::SHARDS_MAX;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What waits in one mailbox. Each has a cache line of its own: all shards write here.
#[derive(Debug, Default)]
#[repr(align(64))]
pub(crate) struct Load {
    pub(crate) messages: AtomicUsize,
    pub(crate) bytes: AtomicUsize,
}

/// What waits in the mailboxes of a process.
#[derive(Debug)]
pub struct Loads(Box<[Load; SHARDS_MAX]>);

impl Default for Loads {
    fn default() -> Self {
        Self(Box::new(std::array::from_fn(|_| Load::default())))
    }
}

impl Loads {
    pub(crate) fn of(&self, shard: u16) -> &Load {
        &self.0[usize::from(shard) % SHARDS_MAX]
    }

    /// Messages waiting (approximate while others send).
    pub fn messages(&self, shard: u16) -> usize {
        self.of(shard).messages.load(Ordering::Relaxed)
    }

    /// Bytes that wait in the mailbox of a shard.
    pub fn bytes(&self, shard: u16) -> usize {
        self.of(shard).bytes.load(Ordering::Relaxed)
    }

    /// Above its bound: connections that send there wait.
    pub fn is_long(&self, shard: u16, limits: &Limits) -> bool {
        self.messages(shard) > limits.mailbox_messages_max
            || self.bytes(shard) > limits.mailbox_bytes_max
    }

    /// Far above: too many connections sent one message each. Everybody waits.
    pub fn is_overfull(&self, shard: u16, limits: &Limits) -> bool {
        self.messages(shard) / 2 > limits.mailbox_messages_max
            || self.bytes(shard) / 2 > limits.mailbox_bytes_max
    }
}
