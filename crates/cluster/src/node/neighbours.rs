//! The other nodes, as this one hears them: which are there, for how long each is silent, and what it knows of this one.

use crate::bounds::PAST_LIVES_MAX;
use crate::frame::{Epoch, Known, NodeId, Peer, bounded, node_id};
use crate::inlet::{Ask, Inlet, Limits, Output, Received};
use crate::interest::DOUBT_US;
use crate::pulse::{Pulse, WORKING_US};
use handoff::cluster as record;
use std::collections::{BTreeMap, VecDeque};

/// A peer that was silent for so long while the engine worked is dead.
const DEAD_US: u64 = 15_000_000;
/// Others wait no longer with their joins for a node of which they have heard nothing for so long. It doubts them all by then.
const UNHEARD_US: u64 = 2 * WORKING_US;

#[derive(Debug)]
pub(super) struct Neighbour {
    pub(super) inlet: Inlet,
    up: bool,
    leaving: bool,
    /// It said that it hears: questions reach it.
    hears: bool,
    /// Its last heartbeat.
    beat: u64,
    /// Earlier lives of the number: frames of theirs that are repeated are nobody's.
    past: Vec<Epoch>,
    heard_us: u64,
    /// Silence while the engine worked.
    silent_us: u64,
    /// Position of our flood that it has handed on.
    confirmed: u64,
    /// Once its flood is here up to a position, all that it held at a time is known.
    claims: VecDeque<(u64, u64)>,
    /// It is new, or has told nothing for long.
    unheard: bool,
}

impl Neighbour {
    fn new(inlet: Inlet, past: Vec<Epoch>, now_us: u64) -> Self {
        Self {
            inlet,
            up: false,
            leaving: false,
            hears: false,
            beat: 0,
            past,
            heard_us: now_us,
            silent_us: 0,
            confirmed: 0,
            claims: VecDeque::new(),
            unheard: true,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.up
    }

    pub(super) fn beat(&self) -> u64 {
        self.beat
    }

    pub(super) fn heard_us(&self) -> u64 {
        self.heard_us
    }

    pub(super) fn silent_us(&self) -> u64 {
        self.silent_us
    }

    /// It was silent for too long.
    pub(super) fn is_dead(&self) -> bool {
        self.silent_us >= DEAD_US
    }

    /// It said goodbye, and all that it said before is here.
    pub(super) fn has_left(&self) -> bool {
        self.leaving && self.inlet.is_complete()
    }

    pub(super) fn leaves(&mut self) {
        self.leaving = true;
    }

    pub(super) fn goes(&mut self) {
        self.up = false;
    }

    /// It is there. `false`: it was before.
    pub(super) fn comes(&mut self) -> bool {
        let comes = !std::mem::replace(&mut self.up, true);
        if comes {
            (self.silent_us, self.confirmed) = (0, 0);
        }
        comes
    }

    /// Whether another life of its number may be heard. One that left or died gave its number back, perhaps to a machine whose clock is
    /// behind.
    fn gives_way_to(&self, epoch: Epoch) -> bool {
        let is_gone = !self.up && (self.leaving || self.is_dead());
        !self.past.contains(&epoch) && (self.inlet.peer().epoch < epoch || is_gone)
    }

    /// Time passed. Returns questions to send.
    pub(super) fn tick(
        &mut self,
        passed_us: u64,
        pulse: &Pulse,
        now_us: u64,
        out: &mut Vec<Output>,
    ) -> Vec<Ask> {
        let beats = now_us - self.heard_us <= WORKING_US;
        if beats {
            self.silent_us = 0;
        } else if pulse.hears_all(now_us) {
            self.silent_us += passed_us;
        }
        let working = pulse.hears(now_us) && beats && self.hears;
        self.inlet.tick(now_us, passed_us, working, out)
    }

    /// Notes whether it tells anything. `true`: from now on nothing.
    pub(super) fn falls_silent(&mut self, unheard: bool) -> bool {
        !std::mem::replace(&mut self.unheard, unheard) && unheard
    }

    /// Whether a heartbeat is newer than the last one.
    pub(super) fn is_news(&mut self, beat: u64, hears: bool) -> bool {
        let is_news = self.beat < beat;
        if is_news {
            (self.beat, self.hears) = (beat, hears);
        }
        is_news
    }

    /// A heartbeat came. How long it had been silent.
    pub(super) fn speaks(&mut self, now_us: u64) -> u64 {
        now_us - std::mem::replace(&mut self.heard_us, now_us)
    }

    pub(super) fn confirm(&mut self, position: u64) {
        self.confirmed = self.confirmed.max(position);
    }

    /// Its heartbeat tells of this node: it had heard our heartbeat of that time when its flood was at that position.
    pub(super) fn claim(&mut self, us: Known, flood: u64, sent_us: Option<u64>, now_us: u64) {
        self.confirm(us.got_flood);
        let too_old = |(_, sent_us): &mut (u64, u64)| *sent_us + DOUBT_US < now_us;
        while self.claims.pop_front_if(too_old).is_some() {}
        self.claims.extend(sent_us.map(|sent_us| (flood, sent_us)));
    }

    /// All that it held at this time is known.
    pub(super) fn known_us(&mut self) -> Option<u64> {
        let got_flood = self.inlet.got_flood();
        let there = |(position, _): &mut (u64, u64)| *position <= got_flood;
        let known = std::iter::from_fn(|| self.claims.pop_front_if(there));
        known.map(|(_, at_us)| at_us).max()
    }

    /// Whether it knows what was flooded up to a position. One that has been silent while the engine worked is not waited for.
    fn has_confirmed(&self, position: u64, now_us: u64) -> bool {
        let is_silent = self.silent_us >= WORKING_US && now_us > self.heard_us + UNHEARD_US;
        !self.up || is_silent || self.confirmed >= position
    }

    /// The neighbour of a record, which was heard now.
    fn restored(record: &record::Peer, limits: Limits, now_us: u64) -> Result<Self, &'static str> {
        let peer = Peer {
            node: node_id(record.node)?,
            epoch: Epoch(record.epoch),
        };
        let past = record.past.iter().map(|epoch| Epoch(*epoch));
        let past = past.take(PAST_LIVES_MAX).collect();
        Ok(Self {
            up: record.up,
            leaving: record.leaving,
            beat: record.beat,
            silent_us: bounded(record.silent_us)?,
            confirmed: record.confirmed,
            ..Self::new(Inlet::restored(peer, limits, record)?, past, now_us)
        })
    }

    /// `expected_us`: until when it may hold any key soon.
    pub(super) fn record(&self, expected_us: u64) -> record::Peer {
        let peer = self.inlet.peer();
        let [inbox, flood] = self.inlet.tracks_record();
        record::Peer {
            node: u32::from(peer.node.0),
            epoch: peer.epoch.0,
            up: self.up,
            leaving: self.leaving,
            beat: self.beat,
            past: self.past.iter().map(|epoch| epoch.0).collect(),
            silent_us: self.silent_us,
            confirmed: self.confirmed,
            lane: self.inlet.lane(),
            inbox: Some(inbox),
            flood: Some(flood),
            expected_us,
        }
    }
}

/// Which life of its node published a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    /// The present life of its node.
    Present,
    /// A life that ended.
    Past,
    /// A life that begins, of a node that was never heard.
    First,
    /// The same after another one.
    Next,
}

/// The other nodes that were heard.
#[derive(Debug, Default)]
pub struct Neighbours {
    by_node: BTreeMap<NodeId, Neighbour>,
    /// What earlier lives sent.
    received_before: Received,
}

impl Neighbours {
    /// All of them, also those that are not up.
    pub fn heard(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.by_node.keys().copied()
    }

    /// Those that are up.
    pub fn up(&self) -> impl Iterator<Item = Peer> + '_ {
        let up = self.all().filter(|neighbour| neighbour.up);
        up.map(|neighbour| neighbour.inlet.peer())
    }

    pub(super) fn is_up(&self, node: NodeId) -> bool {
        self.get(node).is_some_and(|neighbour| neighbour.up)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Neighbour> {
        self.by_node.values()
    }

    pub(super) fn get(&self, node: NodeId) -> Option<&Neighbour> {
        self.by_node.get(&node)
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut Neighbour> {
        self.by_node.get_mut(&node)
    }

    /// What comes next from each should have come before.
    pub(super) fn slow_down(&mut self, now_us: u64) {
        let inlets = self.by_node.values_mut();
        inlets.for_each(|neighbour| neighbour.inlet.slow_down(now_us));
    }

    /// What all of them sent, with all their lives.
    pub(super) fn received(&self) -> Received {
        let mut all = self.received_before;
        self.all()
            .for_each(|neighbour| all += neighbour.inlet.received());
        all
    }

    /// Whether all that are there know what was flooded up to a position.
    pub(super) fn have_confirmed(&self, position: u64, now_us: u64) -> bool {
        self.all().all(|one| one.has_confirmed(position, now_us))
    }

    pub(super) fn life(&self, peer: Peer) -> Life {
        match self.get(peer.node) {
            None => Life::First,
            Some(known) if known.inlet.peer() == peer => Life::Present,
            Some(known) if known.gives_way_to(peer.epoch) => Life::Next,
            Some(_) => Life::Past,
        }
    }

    /// A life begins.
    pub(super) fn begin(&mut self, peer: Peer, limits: Limits, now_us: u64) {
        let mut past = Vec::new();
        if let Some(known) = self.by_node.remove(&peer.node) {
            self.received_before += known.inlet.received();
            past = known.past;
            past.truncate(PAST_LIVES_MAX - 1);
            past.insert(0, known.inlet.peer().epoch);
        }
        let neighbour = Neighbour::new(Inlet::new(peer, limits), past, now_us);
        self.by_node.insert(peer.node, neighbour);
    }

    /// The neighbour of a record is taken up: who it is.
    pub(super) fn restore(
        &mut self,
        record: &record::Peer,
        limits: Limits,
        now_us: u64,
    ) -> Result<Peer, &'static str> {
        let neighbour = Neighbour::restored(record, limits, now_us)?;
        let peer = neighbour.inlet.peer();
        match self.by_node.insert(peer.node, neighbour) {
            None => Ok(peer),
            Some(_) => Err("two nodes with one number"),
        }
    }
}
