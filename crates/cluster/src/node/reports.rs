//! What can be read of a node.

use super::{Node, Refusals};
use crate::faults::{self, Fault};
use crate::frame::{NodeId, Peer};
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

impl Node {
    /// Its clock at the last call.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// All other nodes that were heard, also those that are not up.
    pub fn heard(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.neighbours.keys().copied()
    }

    /// Whether letters may be sent now. While the engine takes nothing, or this node stood still, they wait: what others hold is heard
    /// anew before. A peer that does not tell it soon is sent everything.
    pub fn may_send(&self) -> bool {
        let mut peers = self.peers();
        match self.pulse.state(self.now_us) {
            _ if faults::is_back(Fault::SentBeforeHearing) => true,
            State::Away => peers.next().is_none(),
            State::Back => !peers.any(|peer| self.interest.is_doubted(peer.node, self.now_us)),
            State::Steady => true,
        }
    }

    /// How well it hears the others now.
    pub fn hearing(&self) -> Hearing {
        let up = self.neighbours.iter().filter(|(_, one)| one.up);
        let heard = up.map(|(node, one)| Heard {
            node: *node,
            silent_us: self.now_us.saturating_sub(one.heard_us),
            received: one.inlet.received(),
        });
        Hearing {
            round_trip_us: self.pulse.round_trip_us(self.now_us),
            peers: heard.collect(),
        }
    }

    /// Peers that are up.
    pub fn peers(&self) -> impl Iterator<Item = Peer> + '_ {
        let up = self.neighbours.values().filter(|neighbour| neighbour.up);
        up.map(|neighbour| neighbour.inlet.peer())
    }

    /// Whether the engine works, and neither it nor a peer that is up was silent for so long. A thread that got no time for a moment heard nobody
    /// meanwhile, and goes on.
    pub fn hears_all_peers(&self, silence_us: u64) -> bool {
        let is_recent = |back_us: u64| self.now_us - back_us < silence_us;
        let mut own = [self.probe_back_us, self.beat_back_us].into_iter();
        let mut up = self.neighbours.values().filter(|one| one.up);
        own.all(|back_us| back_us.is_some_and(is_recent))
            && up.all(|one| one.silent_us < silence_us)
    }

    /// Bytes of frames that the engine has not taken yet.
    pub fn queued_bytes(&self) -> usize {
        self.outlet.queue.bytes()
    }

    /// Counters of what was sent.
    pub fn sent(&self) -> outlet::Sent {
        self.outlet.sent()
    }

    /// Counters of what each peer sent.
    pub fn received(&self) -> impl Iterator<Item = (Peer, inlet::Received)> + '_ {
        self.neighbours
            .values()
            .map(|neighbour| (neighbour.inlet.peer(), neighbour.inlet.received()))
    }

    /// Counters of what all peers sent, those that went included.
    pub fn received_in_all(&self) -> inlet::Received {
        let mut all = self.received_before;
        self.received().for_each(|(_, received)| all += received);
        all
    }

    /// Times that what was known of a peer's keys turned out to be incomplete: until it has told them again, it is sent everything.
    pub fn interest_misses(&self) -> u64 {
        self.interest.misses()
    }

    /// Counters of what was refused.
    pub fn refusals(&self) -> Refusals {
        self.refusals
    }

    /// Microseconds of traffic that can be repaired.
    pub fn ring_us(&self) -> u64 {
        self.outlet.lanes().ring_us(self.now_us)
    }
}
