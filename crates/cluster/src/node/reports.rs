//! What can be read of a node.

use super::{Neighbours, Node, Refusals};
use crate::faults::{self, Fault};
use crate::frame::NodeId;
use crate::pulse::State;
use crate::{inlet, outlet};

/// A peer that is up, as this node hears it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its number.
    pub node: NodeId,
    /// Since its last heartbeat.
    pub silent_us: u64,
    /// Counters of what this life of it sent.
    pub received: inlet::Received,
}

/// How well a node hears the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hearing {
    /// The longest way of its own heartbeats through the engine and back, in the last four seconds. 700,000 stands for longer ones, too.
    pub round_trip_us: Option<u64>,
    /// By number.
    pub peers: Vec<Heard>,
}

/// How often things happened, and how much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// What was sent.
    pub sent: outlet::Sent,
    /// What all peers sent, those that went included.
    pub received: inlet::Received,
    /// What was refused.
    pub refusals: Refusals,
    /// Times that what was known of a peer's keys turned out to be incomplete: until it has told them again, it is sent everything.
    pub interest_misses: u64,
    /// Own probes that came back. Others that are there speak as often.
    pub probes_back: u64,
    /// Bytes of frames that the engine has not taken yet.
    pub queued_bytes: usize,
    /// Microseconds of traffic that can be repaired.
    pub ring_us: u64,
}

impl Node {
    /// Its clock at the last call.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// The other nodes.
    pub fn neighbours(&self) -> &Neighbours {
        &self.neighbours
    }

    /// Whether letters may be sent now. While the engine takes nothing, or this node stood still, they wait: what others hold is heard
    /// anew before. A peer that does not tell it soon is sent everything.
    pub fn may_send(&self) -> bool {
        let mut peers = self.neighbours.up();
        match self.pulse.state(self.now_us) {
            _ if faults::is_back(Fault::SentBeforeHearing) => true,
            State::Away => peers.next().is_none(),
            State::Back => !peers.any(|peer| self.interest.is_doubted(peer.node, self.now_us)),
            State::Steady => true,
        }
    }

    /// How well it hears the others now.
    pub fn hearing(&self) -> Hearing {
        let up = self.neighbours.all().filter(|one| one.is_up());
        let heard = up.map(|one| Heard {
            node: one.inlet.peer().node,
            silent_us: self.now_us.saturating_sub(one.heard_us()),
            received: one.inlet.received(),
        });
        Hearing {
            round_trip_us: self.pulse.round_trip_us(self.now_us),
            peers: heard.collect(),
        }
    }

    /// Whether the engine works, and neither it nor a peer that is up was silent for so long. A thread that got no time for a moment heard nobody
    /// meanwhile, and goes on.
    pub fn hears_all_peers(&self, silence_us: u64) -> bool {
        let own_us = self.pulse.silence_us(self.now_us);
        let mut up = self.neighbours.all().filter(|one| one.is_up());
        own_us.is_some_and(|own_us| own_us < silence_us)
            && up.all(|one| one.silent_us() < silence_us)
    }

    /// Counters.
    pub fn counts(&self) -> Counts {
        Counts {
            sent: self.outlet.sent(),
            received: self.neighbours.received(),
            refusals: self.refusals,
            interest_misses: self.interest.misses(),
            probes_back: self.pulse.probes_back(),
            queued_bytes: self.outlet.queue.bytes(),
            ring_us: self.outlet.lanes().ring_us(self.now_us),
        }
    }
}
