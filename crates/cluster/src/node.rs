//! One node: its outlet, an inlet for each peer, interest, heartbeats, and the verdict that a peer is dead.

mod beats;
mod handing;
mod neighbours;
mod news;
pub mod reports;

pub use neighbours::Neighbours;
pub use news::{Event, Limits, Refusals};

use crate::frame::{self, Frame, Malformed, NodeId, Peer, Stream};
use crate::inlet::Output;
use crate::interest::{Address, Interest, Route};
use crate::keys::{CHANGE_BYTES, Keys};
use crate::letter::{CHANGES, CONFIRM, DIGEST, ORDER, PAYLOAD, SNAPSHOT, WANT, number, tagged};
use crate::outlet::{Channel, Closed, Outlet, Publish, Worth};
use crate::part::Part;
use crate::pulse::Pulse;
use neighbours::Life;
use std::collections::VecDeque;
use std::sync::Arc;

/// A heartbeat after such a silence is answered at once: its sender may wait for that with all its letters.
const SILENCE_US: u64 = 350_000;

/// A join that another node was asked for is carried out and told of within this time.
const EXPECTED_US: u64 = 10_000_000;

/// The native plane of one node.
#[derive(Debug)]
pub struct Node {
    me: Peer,
    limits: Limits,
    now_us: u64,
    outlet: Outlet,
    neighbours: Neighbours,
    keys: Keys,
    interest: Interest,
    events: VecDeque<Event>,
    pulse: Pulse,
    refusals: Refusals,
}

impl Node {
    /// A node that knows nobody.
    pub fn new(me: Peer, limits: Limits) -> Self {
        Self {
            me,
            limits,
            now_us: 0,
            outlet: Outlet::new(me, limits.outlet),
            neighbours: Neighbours::default(),
            keys: Keys::default(),
            interest: Interest::default(),
            events: VecDeque::new(),
            pulse: Pulse::default(),
            refusals: Refusals::default(),
        }
    }

    /// A life of a node that has its number and is not up: it stands still, is cut off, or is dead. From now on it is owed all that is for
    /// everybody, like one that was given up. One that was heard once, and does not hear this node yet, is owed it, too.
    pub fn owe(&mut self, peer: Peer) {
        if peer.node != self.me.node && !self.neighbours.is_up(peer.node) {
            self.outlet.add(peer, self.now_us);
            self.outlet.rest(peer.node, self.now_us);
        }
    }

    /// Sets the time and does what is due.
    pub fn begin(&mut self, now_us: u64) {
        // The first call has no time before it.
        let passed_us = if self.now_us == 0 {
            self.pulse.begin(now_us);
            0
        } else {
            now_us.saturating_sub(self.now_us)
        };
        self.now_us = now_us;
        let nodes: Vec<NodeId> = self.neighbours.heard().collect();
        nodes
            .into_iter()
            .for_each(|node| self.tick(node, passed_us));
        if passed_us > SILENCE_US {
            self.neighbours.slow_down(now_us);
        }
        // While the engine takes nothing, one heartbeat in the queue is as good as thousands.
        if self.pulse.is_due(now_us) && self.outlet.queue.moved_since_beat() {
            self.beat();
        }
        self.keys.begin(&mut self.outlet, now_us);
    }

    fn tick(&mut self, node: NodeId, passed_us: u64) {
        let now_us = self.now_us;
        let Some(neighbour) = self.neighbours.get_mut(node) else {
            return;
        };
        let mut out = Vec::new();
        let asks = neighbour.tick(passed_us, &self.pulse, now_us, &mut out);
        let is_dead = neighbour.is_dead();
        if let Some(lane) = neighbour.inlet.lane() {
            for ask in asks {
                let nack = frame::write_nack(self.me, ask.stream, lane, ask.from, ask.to);
                (self.outlet.queue).push(Channel::Inbox(node), nack, Worth::Once);
            }
        }
        self.outputs(node, out);
        let unheard = self.interest.is_unheard(node, now_us);
        let Some(neighbour) = self.neighbours.get_mut(node) else {
            return;
        };
        if neighbour.falls_silent(unheard) {
            self.interest.count_miss();
        }
        if is_dead || neighbour.has_left() {
            self.bury(node, is_dead);
        }
    }

    /// A peer is gone. Its inlet stays: if the peer comes back in the same life, nothing is handed on twice. One that only was silent is
    /// kept what is for all: it may have been cut off.
    fn bury(&mut self, node: NodeId, may_return: bool) {
        let there = self.neighbours.get_mut(node);
        let Some(neighbour) = there.filter(|there| there.is_up()) else {
            return;
        };
        neighbour.goes();
        let (peer, heard_us, mut out) = (neighbour.inlet.peer(), neighbour.heard_us(), Vec::new());
        neighbour.inlet.give_up_all(&mut out);
        self.outputs(node, out);
        match may_return {
            true => self.outlet.rest(node, heard_us),
            false => self.outlet.remove(node),
        }
        self.interest.remove(node);
        self.events.push_back(Event::Down(peer));
    }

    // ---- what arrives -------------------------------------------------------------------------------------------------

    /// A message of the own inbox channel or of the flood channel. Malformed ones are counted and change nothing.
    pub fn arrived(&mut self, message: Vec<u8>) {
        let message = Arc::new(message);
        let (peer, frame) = match frame::read(&message) {
            Ok(read) => read,
            Err(Malformed::Version(_)) => {
                self.refusals.versions += 1;
                return;
            }
            Err(_) => {
                self.refusals.malformed += 1;
                return;
            }
        };
        if peer.node == self.me.node {
            return self.own(peer, &frame);
        }
        if self.meet(peer) {
            self.on_frame(peer, &frame, &message);
        }
    }

    fn own(&mut self, peer: Peer, frame: &Frame<'_>) {
        if peer.epoch > self.me.epoch {
            self.events.push_back(Event::Superseded(peer));
        } else if peer == self.me {
            match frame {
                Frame::Probe => self.pulse.probe_came_back(self.now_us),
                Frame::Heartbeat { beat, .. } => self.pulse.came_back(*beat, self.now_us),
                _ => {}
            }
        }
    }

    /// Whether the frame's publisher is the present life of its node; a new one is taken up.
    fn meet(&mut self, peer: Peer) -> bool {
        let life = self.neighbours.life(peer);
        if life == Life::Next {
            self.bury(peer.node, false);
            self.outlet.remove(peer.node);
        }
        if matches!(life, Life::First | Life::Next) {
            self.neighbours.begin(peer, self.limits.inlet, self.now_us);
        }
        life != Life::Past
    }

    fn on_frame(&mut self, peer: Peer, frame: &Frame<'_>, message: &Arc<Vec<u8>>) {
        let Some(neighbour) = self.neighbours.get_mut(peer.node) else {
            return;
        };
        let mut out = Vec::new();
        match frame {
            Frame::Letters(letters) => {
                if letters.to.is_none_or(|(to, _)| to == self.me) {
                    neighbour.inlet.letters(letters, message, &mut out);
                }
            }
            Frame::Heartbeat {
                beat,
                flood,
                hears,
                known,
                is_old,
            } => {
                if *is_old {
                    self.pulse.heard_old(self.now_us);
                }
                if neighbour.is_news(*beat, *hears) {
                    self.on_heartbeat(peer, *flood, known, &mut out);
                }
            }
            Frame::Probe => {}
            Frame::Nack {
                stream,
                lane,
                from,
                to,
            } => {
                let missing = (*from, *to);
                self.outlet
                    .nack(peer.node, *stream, *lane, missing, self.now_us);
            }
            Frame::Gone { stream, lane, upto } => {
                if neighbour.inlet.lane() == Some(*lane) {
                    neighbour.inlet.gone(*stream, *upto, &mut out);
                }
            }
            Frame::Bye { flood } => {
                neighbour.inlet.heartbeat(*flood, None, &mut out);
                neighbour.leaves();
            }
        }
        self.outputs(peer.node, out);
    }

    fn outputs(&mut self, node: NodeId, out: Vec<Output>) {
        let Some(neighbour) = self.neighbours.get_mut(node) else {
            return;
        };
        let (from, known_us) = (neighbour.inlet.peer(), neighbour.known_us());
        for output in out {
            let letters = match output {
                Output::Letter(stream, position, letter) => {
                    self.on_letter(from, stream, position, letter);
                    continue;
                }
                Output::Lost(_, letters) => Some(letters),
                Output::Resync => None,
            };
            self.events.push_back(Event::Lost { from, letters });
            // A change of its keys may have been among them.
            self.interest.doubt(node);
            self.tell(node, &[WANT]);
        }
        if let Some(known_us) = known_us {
            self.interest.knows(node, known_us);
        }
    }

    fn on_letter(&mut self, from: Peer, stream: Stream, position: u64, letter: Part) {
        let node = from.node;
        let Some((kind, body)) = letter.split_first() else {
            self.refusals.unknown_letters += 1;
            return;
        };
        match *kind {
            PAYLOAD => {
                let letter = letter.without_first();
                self.events.push_back(Event::Letter { from, letter });
            }
            ORDER => {
                let order = body.into();
                self.events.push_back(Event::Order { from, order });
            }
            CHANGES => {
                for change in body.chunks_exact(CHANGE_BYTES) {
                    self.interest.apply(node, (number(change), change[8] == 1));
                }
                if stream == Stream::Flood {
                    self.tell(node, &tagged(CONFIRM, &[position]));
                }
            }
            DIGEST if body.len() == 16 => {
                if !self
                    .interest
                    .agrees(node, (number(body), number(&body[8..])))
                {
                    self.tell(node, &[WANT]);
                }
            }
            WANT => self.keys.tell_all(node, &mut self.outlet, self.now_us),
            SNAPSHOT if body.len() % 8 == 1 => {
                let keys: Vec<u64> = body[1..].chunks_exact(8).map(number).collect();
                let (first, last) = (body[0] & 1 != 0, body[0] & 2 != 0);
                self.interest.apply_snapshot(node, &keys, first, last);
            }
            CONFIRM if body.len() == 8 => {
                if let Some(neighbour) = self.neighbours.get_mut(node) {
                    neighbour.confirm(number(body));
                }
            }
            _ => self.refusals.unknown_letters += 1,
        }
    }

    /// A control letter to a peer. If the engine takes nothing the peer asks again, or its digest tells.
    fn tell(&mut self, node: NodeId, letter: &[u8]) {
        if self.outlet.queue.has_room(letter.len()) {
            self.outlet.send(&[node], letter, self.now_us);
        }
    }

    // ---- what local members do ----------------------------------------------------------------------------------------

    /// A local member of a key more. A client may be told of its join once [`Self::is_confirmed`] says so of the position that
    /// [`Self::told`] names then. While the engine is away there is none: the key is told when it is back.
    pub fn hold(&mut self, key: u64) {
        if self.keys.hold(key) {
            self.keys.tell(&mut self.outlet, self.now_us);
        }
    }

    /// A local member of a key fewer.
    pub fn release(&mut self, key: u64) {
        self.keys.release(key, self.now_us);
    }

    /// Whether every live peer knows what was flooded up to a position. One that has been silent while the engine worked is not
    /// waited for: it is dead, stands still or is cut off, and sends this node everything when it goes on.
    pub fn is_confirmed(&self, position: u64) -> bool {
        self.neighbours.have_confirmed(position, self.now_us)
    }

    /// Sends a letter to the nodes that hold any of the keys. Returns those. See [`Self::has_room`].
    pub fn send(&mut self, keys: &[u64], letter: &[u8]) -> Vec<NodeId> {
        let to = Address {
            keys,
            ..Address::default()
        };
        self.send_to(&to, letter)
    }

    /// Sends a letter to these nodes, as far as they are up. Returns those. See [`Self::has_room`].
    pub fn send_to(&mut self, to: &Address<'_>, letter: &[u8]) -> Vec<NodeId> {
        let mut tagged = Vec::with_capacity(letter.len() + 1);
        tagged.push(PAYLOAD);
        tagged.extend_from_slice(letter);
        let nodes = to.nodes.iter().copied();
        let nodes: Vec<NodeId> = nodes.filter(|node| self.neighbours.is_up(*node)).collect();
        let to = Address {
            nodes: &nodes,
            ..*to
        };
        let everyone = self.limits.flood_always && !to.keys.is_empty() && to.without.is_empty();
        match self.interest.route(&to, self.now_us) {
            Route::Nodes(nodes) if nodes.is_empty() || !everyone => {
                self.outlet.send(&nodes, &tagged, self.now_us);
                if !to.keys.is_empty() {
                    self.outlet.send_resting(to.without, &tagged, self.now_us);
                }
                nodes
            }
            _ => {
                self.outlet.flood(&tagged, self.now_us);
                self.neighbours.up().map(|peer| peer.node).collect()
            }
        }
    }

    /// Whether more letters are wanted. Nothing is refused here: above the bound their sender keeps them, and tells those behind it.
    pub fn has_room(&self) -> bool {
        self.outlet.queue.has_room(1)
    }

    /// Sends an order to the process of a node. A node that does not know it ignores it.
    pub fn order(&mut self, node: NodeId, order: &[u8]) {
        let letter = [&[ORDER], order].concat();
        self.outlet.send(&[node], &letter, self.now_us);
    }

    /// These nodes were asked to let sockets join rooms: until they have said so themselves, they count as holders of the keys.
    pub fn expect(&mut self, nodes: &[NodeId], keys: &[u64]) {
        self.interest.expect(nodes, keys, self.now_us + EXPECTED_US);
    }

    /// By which position in the flood all own keys are told; `None` = some are not.
    pub fn told(&self) -> Option<u64> {
        self.keys.told()
    }

    // ---- the driver's side --------------------------------------------------------------------------------------------

    /// Moves what is to be published now to `batch`.
    pub fn take(&mut self, batch: &mut Vec<Publish>) {
        self.outlet.take(batch, self.now_us);
    }

    /// A batch ended. The engine took those of its frames that `taken` says; of the others nobody knows.
    pub fn ended(&mut self, batch: Vec<Publish>, taken: impl Fn(usize) -> bool) {
        if (0..batch.len()).any(&taken) {
            self.pulse.taken(self.now_us);
        }
        self.outlet.ended(batch, taken, self.now_us);
    }

    /// What happened since the last call.
    pub fn events(&mut self) -> impl Iterator<Item = Event> + '_ {
        self.events.drain(..)
    }

    /// When to call [`Self::begin`] and [`Self::take`] if nothing happens before, microseconds.
    pub fn due(&self) -> u64 {
        let asks = self.neighbours.all().filter_map(|one| one.inlet.due_us());
        let other = [self.keys.due_us(), self.outlet.due_us(self.now_us)];
        let soonest = asks.chain(other.into_iter().flatten()).min();
        let heartbeat_us = self.pulse.due_us();
        soonest.map_or(heartbeat_us, |due_us| due_us.min(heartbeat_us))
    }

    /// Tells the peers that this node leaves on purpose, behind all letters.
    pub fn leave(&mut self) {
        self.outlet.close_all(Closed::Waited, self.now_us);
        self.beat();
        self.pulse.end();
        let bye = frame::write_bye(self.me, self.outlet.lanes().flood_position());
        self.outlet.queue.push(Channel::Flood, bye, Worth::Kept);
    }
}
