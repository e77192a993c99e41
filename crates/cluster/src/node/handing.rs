//! A node's place in the cluster as a record for the process that comes next, and back. The next process is the same life of the same
//! node: to the others it is as if this one had stood still for a moment. ADR 63.

use super::{EXPECTED_US, Event, Limits, Neighbour, Node};
use crate::bounds::PAST_LIVES_MAX;
use crate::frame::{Epoch, Peer, bounded, node_id};
use crate::inlet::Inlet;
use crate::keys::Keys;
use crate::letter::WANT;
use crate::outlet::Outlet;
use handoff::cluster as record;
use std::collections::VecDeque;

impl Node {
    /// Nothing changes here: the handover may be given up.
    ///
    /// # Errors
    /// It cannot be written down now: why.
    pub fn record(&self) -> Result<Vec<u8>, &'static str> {
        if !self.events.is_empty() {
            return Err("letters have arrived that nobody has read");
        }
        let peers = self.neighbours.values();
        let place = record::Place {
            now_us: self.now_us,
            beats: self.pulse.beats(),
            changes_at: self.keys.told_at(),
            sent: Some(self.outlet.record()?),
            peers: peers.map(|peer| self.peer_record(peer)).collect(),
            announced: self.keys.announced().collect(),
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
        // The next process has both channels before it gets the place: it hears from its first moment, not from its first heartbeat on.
        (node.probe_back_us, node.beat_back_us) = (Some(now_us), Some(now_us));
        node.pulse.go_on(bounded(record.beats)?, now_us);
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
        let peer = Peer {
            node: node_id(record.node)?,
            epoch: Epoch(record.epoch),
        };
        let past = record.past.iter().map(|epoch| Epoch(*epoch));
        let neighbour = Neighbour {
            inlet: Inlet::restored(peer, self.limits.inlet, record)?,
            up: record.up,
            leaving: record.leaving,
            // Its next heartbeat says so.
            hears: false,
            beat: record.beat,
            past: past.take(PAST_LIVES_MAX).collect(),
            heard_us: self.now_us,
            silent_us: bounded(record.silent_us)?,
            confirmed: record.confirmed,
            claims: VecDeque::new(),
            unheard: true,
        };
        let is_new = self.neighbours.insert(peer.node, neighbour).is_none();
        if !is_new || peer.node == self.me.node {
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

    fn peer_record(&self, neighbour: &Neighbour) -> record::Peer {
        let (inlet, peer) = (&neighbour.inlet, neighbour.inlet.peer());
        let [inbox, flood] = inlet.tracks_record();
        record::Peer {
            node: u32::from(peer.node.0),
            epoch: peer.epoch.0,
            up: neighbour.up,
            leaving: neighbour.leaving,
            beat: neighbour.beat,
            past: neighbour.past.iter().map(|epoch| epoch.0).collect(),
            silent_us: neighbour.silent_us,
            confirmed: neighbour.confirmed,
            lane: inlet.lane(),
            inbox: Some(inbox),
            flood: Some(flood),
            expected_us: self.interest.expected_of(peer.node),
        }
    }

    /// Keys that the others were told of and that nobody holds here any more are given back. To be called when all local members are
    /// known again.
    pub fn settle(&mut self) {
        self.keys.settle(self.now_us);
    }
}
