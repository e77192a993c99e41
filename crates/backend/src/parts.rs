//! The parts of a backend, side by side. Steps take those that they need.

use crate::nodes::NodesGone;
use crate::openings::Openings;
use crate::questions::Questions;
use crate::queue::Queue;
use crate::settle;

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) queue: Queue,
    pub(crate) questions: Questions,
    pub(crate) openings: Openings,
    pub(crate) nodes_gone: NodesGone,
}

impl Parts {
    /// A call begins at this time. Lives of sockets begin between two calls: in the midst of one, parts of a life that is over may be in hand.
    pub(crate) fn at(&mut self, now_ms: u64) -> &mut Self {
        self.queue.now_ms = now_ms;
        settle::next_lives(&mut self.queue);
        self
    }
}
