//! The nodes that a claim goes around, and the shards of each that its messages are for.
//!
//! Between nodes messages take the way of events: from the home of the namespace at one node to its home at the other. So a message that
//! goes by both homes arrives after all that was published before it.

use crate::recovery::messages::Message;
use crate::tables::id::Place;
use std::sync::Arc;

/// The nodes of a claim that crosses from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Circle {
    pub(crate) namespace: Arc<str>,
    /// All that are there, by number. The claimer's and the owner's are two of them.
    pub(crate) nodes: Arc<[u16]>,
    /// The shard of this node that is home to the namespace.
    pub(crate) home: u16,
}

impl Circle {
    /// The homes of all its nodes.
    pub(crate) fn homes(&self) -> Vec<Place> {
        let nodes = self.nodes.iter();
        nodes.map(|node| Place::home_of(*node)).collect()
    }

    pub(crate) fn has(&self, node: u16) -> bool {
        self.nodes.contains(&node)
    }
}

/// The shards of a node that a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Door {
    /// All of them.
    All,
    Shard(u16),
    /// The home of the namespace.
    Home,
    /// A shard, by way of the home.
    ByHome(u16),
}

/// The receivers of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// A shard of this node.
    Shard(u16),
    /// Shards of another.
    Node(u16, Door),
}

/// A message that is to leave.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) to: To,
    /// `None`: it is between shards of this node, which need no home.
    pub(crate) namespace: Option<Arc<str>>,
    pub(crate) message: Message,
}

/// The sender of a message, and what its receiver knows besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'a> {
    pub(crate) place: Place,
    /// Shards of its node.
    pub(crate) parts: u16,
    /// The namespace, where the message is about a claim between nodes.
    pub(crate) namespace: Option<&'a Arc<str>>,
    /// The shard that is home to it at the receiver's node.
    pub(crate) home: u16,
}
