//! What a node tells its process, and its bounds.

use crate::frame::Peer;
use crate::part::Part;
use crate::{inlet, outlet};

/// News for the process.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A letter for local members.
    Letter {
        /// Its publisher. Letters of one publisher come in its order.
        from: Peer,
        /// What was given to [`Node::send`].
        letter: Part,
    },
    /// An order of another node's operator.
    Order {
        /// The node that passes it on.
        from: Peer,
        /// The text that was given to [`Node::order`].
        order: Box<[u8]>,
    },
    /// Letters of a publisher cannot be had any more; `None` = nobody knows how many.
    Lost {
        /// The publisher.
        from: Peer,
        /// How many letters.
        letters: Option<u64>,
    },
    /// A peer is there.
    Up(Peer),
    /// A peer left, died, or began a new life: its members are gone.
    Down(Peer),
    /// Another process uses this node's number with a later epoch: this one must stop.
    Superseded(Peer),
}

/// Bounds of a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Of what it sends.
    pub outlet: outlet::Limits,
    /// Of what it receives from each publisher.
    pub inlet: inlet::Limits,
    /// What anybody holds goes to everybody.
    pub flood_always: bool,
}

/// Counters of a node, besides those of outlet and inlets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Messages of another version of the format.
    pub versions: u64,
    /// Messages that are no frames.
    pub malformed: u64,
    /// Control letters of a kind that this version does not know.
    pub unknown_letters: u64,
}
