//! The way from a shard to the backends that hold the logic of its namespaces.

use backend::{Down, Up};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A backend as shards see it. Implemented outside; called in the middle of a turn, so it must not block.
pub trait Line: Send + Sync {
    /// Something for the backend. `false`: too much waits for it already.
    fn up(&self, up: Up) -> bool;
    /// The configuration has it decide before a session opens.
    fn decides_openings(&self) -> bool;
    /// How long it decides about newcomers at most.
    fn connect_timeout(&self) -> Duration;
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.downs.fmt(f)
    }
}

/// What a backend has for the handler of a shard: [`hub::Handler::outside`] gets it in a box.
pub struct Word {
    /// The shard that is to do it. Others pass it on.
    pub shard: u16,
    /// Whose it is: answers go there.
    pub line: Arc<dyn Line>,
    /// What is to be done, in this order.
    pub downs: Vec<Down>,
    /// Each shard does it for its own sockets; this one also tells other nodes.
    pub leads: bool,
}

impl Word {
    /// Its cost in bytes while it waits.
    pub fn bytes(&self) -> usize {
        let texts: usize = self.downs.iter().map(Down::bytes).sum();
        size_of::<Self>() + self.downs.len() * size_of::<Down>() + texts
    }
}
