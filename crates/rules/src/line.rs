//! The way from a shard to the backends that hold the logic of its namespaces.

use crate::aim::borrowed;
use crate::faults::{self, Fault};
use backend::proto::command::What;
use backend::{Down, Up};
use hub::{Context, Expected};
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
    shard: u16,
    /// Whose it is: answers go there.
    pub(crate) line: Arc<dyn Line>,
    /// What is to be done, in this order.
    pub(crate) downs: Vec<Down>,
    /// Who else is told of it.
    pub(crate) spread: Spread,
    /// Joins that it is on its way with, behind the shard that gives events their order.
    expected: Vec<Expected>,
}

/// How much of a backend's command is one shard's to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// It is about one socket, and no other shard is told. If the socket is not here any more, it is done as if it were about anyone:
    /// its client may be away, or come back somewhere else.
    Alone,
    /// Each shard does it for its own sockets; this one also tells other nodes.
    Leads,
    /// Each shard does it for its own sockets, and another one tells other nodes.
    Follows,
}

impl Word {
    /// `shard`: the one that is to do it; others pass it on.
    pub fn new(shard: u16, line: Arc<dyn Line>, downs: Vec<Down>, spread: Spread) -> Self {
        Self {
            shard,
            line,
            downs,
            spread,
            expected: Vec::new(),
        }
    }

    /// The shard that is to do it.
    pub fn shard(&self) -> u16 {
        self.shard
    }

    /// What is to be done, in this order.
    pub fn downs(&self) -> &[Down] {
        &self.downs
    }

    /// Who else is told of it.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// Passes it on to the shard that is to do it.
    pub(crate) fn pass(mut self: Box<Self>, cx: &mut Context<'_>) {
        for down in &self.downs {
            if let Down::Move { what, .. } = down
                && let What::Join(join) = what
                && let Some(of) = &join.of
                && !faults::is_back(Fault::JoinUnexpected)
            {
                let expected = cx.expect(&of.namespace, &borrowed(&join.rooms));
                self.expected.extend(expected);
            }
        }
        let (shard, bytes) = (self.shard, self.bytes());
        cx.pass(shard, self, bytes);
    }

    /// Its cost in bytes while it waits.
    pub fn bytes(&self) -> usize {
        let texts: usize = self.downs.iter().map(Down::bytes).sum();
        size_of::<Self>() + self.downs.len() * size_of::<Down>() + texts
    }
}
