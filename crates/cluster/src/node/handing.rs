//! A node's place in the cluster as a record for the process that comes next, and back. The next process is the same life of the same
//! node: to the others it is as if this one had stood still for a moment. ADR 63.

use super::{EXPECTED_US, Event, Limits, Node};
use crate::frame::{Peer, bounded, node_id};
use crate::keys::Keys;
use crate::letter::WANT;
use crate::outlet::Outlet;
use crate::pulse::Pulse;
use handoff::cluster as record;

impl Node {
    /// Nothing changes here: the handover may be given up.
    ///
    /// # Errors
    /// It cannot be written down now: why.
    pub fn record(&self) -> Result<Vec<u8>, &'static str> {
        if !self.events.is_empty() {
            return Err("letters have arrived that nobody has read");
        }
        let peers = self.neighbours.all().map(|neighbour| {
            let node = neighbour.inlet.peer().node;
            neighbour.record(self.interest.expected_of(node))
        });
        let (announced, changes_at) = self.keys.record();
        let place = record::Place {
            now_us: self.now_us,
            beats: self.pulse.beats(),
            changes_at,
            sent: Some(self.outlet.record()?),
            peers: peers.collect(),
            announced,
            expected: self.interest.expected().collect(),
        };
        Ok(place.write())
    }

    /// The node of a record. It knows of no local members: [`Self::hold`] tells of all of them, and then [`Self::settle`] of those
    /// that the record had. What the peers hold is asked for; until it is there, they are sent everything.
    ///
    /// # Errors
    /// The record contradicts itself: in what.
    pub fn restored(me: Peer, limits: Limits, record: &[u8]) -> Result<Self, &'static str> {
        let record = record::Place::read(record).ok_or("bytes that are none")?;
        let mut node = Self::new(me, limits);
        let now_us = bounded(record.now_us)?.max(1);
        let sent = record.sent.as_ref().ok_or("nothing that was sent")?;
        node.outlet = Outlet::restored(me, limits.outlet, sent, now_us)?;
        node.now_us = now_us;
        node.pulse = Pulse::go_on(bounded(record.beats)?, now_us);
        for peer in &record.peers {
            node.restore_peer(peer)?;
        }
        node.keys = Keys::restored(&record.announced, bounded(record.changes_at)?);
        for expected in &record.expected {
            let until_us = expected.until_us.min(now_us + EXPECTED_US);
            let expecting = [node_id(expected.node)?];
            node.interest.expect(&expecting, &[expected.key], until_us);
        }
        Ok(node)
    }

    fn restore_peer(&mut self, record: &record::Peer) -> Result<(), &'static str> {
        let limits = self.limits.inlet;
        let peer = self.neighbours.restore(record, limits, self.now_us)?;
        if peer.node == self.me.node {
            return Err("two nodes with one number");
        }
        if record.up {
            self.interest.add(peer.node);
            let until_us = record.expected_us.min(self.now_us + EXPECTED_US);
            self.interest.expect_all_of(peer.node, until_us);
            self.events.push_back(Event::Up(peer));
            self.tell(peer.node, &[WANT]);
        }
        Ok(())
    }

    /// Keys that the others were told of and that nobody holds here any more are given back. To be called when all local members are
    /// known again.
    pub fn settle(&mut self) {
        self.keys.settle(self.now_us);
    }
}
