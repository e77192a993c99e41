//! The way of one node to the others: what the gateway's driver does between its shards, the native plane and the engine.

use cluster::frame::{Epoch, NodeId, Peer};
use cluster::interest::Address;
use cluster::node::{Event, Limits, Node};
use cluster::outlet::Publish;
use hub::foreign::ELSEWHERE;
use hub::{Inbox, Letter, Parcel, Piece, Tidings, Uplink};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// After so many of its own probes a node has heard all others that speak.
const PROBES_ALONE: u64 = 8;
const SILENCE_US: u64 = 2_000_000;
/// Batches under way to the engine at once.
const BATCHES_MAX: usize = 4;
/// While it can publish nothing, it looks so often.
const PAUSE_US: u64 = 1_000;

/// A join that waits: from which position on the others know of it, the shard, and its ticket.
#[derive(Debug)]
struct Join(Option<u64>, u16, u64);

/// What came of a step.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) letters: Vec<(u16, Arc<Letter>)>,
    pub(crate) batch: Vec<Publish>,
    /// Lives of which letters are lost.
    pub(crate) lost: Vec<Peer>,
    pub(crate) gone: Vec<Peer>,
    /// Others know of a later life of its number: its process ends.
    pub(crate) superseded: Option<Peer>,
    /// What passed by for servers of other kinds: the shard, and the letter.
    pub(crate) overheard: Vec<(u16, Box<[u8]>)>,
}

#[derive(Debug)]
pub(crate) struct Station {
    node: Node,
    shards: u16,
    inbox: Inbox,
    uplink: Arc<Uplink>,
    waiting: VecDeque<Parcel>,
    joins: VecDeque<Join>,
    /// Those that hold a number while this node begins.
    awaited: Vec<Peer>,
    is_met: bool,
    gone: BTreeSet<NodeId>,
    under_way: usize,
    /// It publishes nothing, for another process is to go on with its place.
    stands: bool,
    /// Servers of another kind hear what is said.
    pub(crate) has_ear: bool,
}

pub(crate) fn peer(number: u16, epoch: u64) -> Peer {
    Peer {
        node: NodeId(number),
        epoch: Epoch(epoch),
    }
}

impl Station {
    pub(crate) fn new(
        me: Peer,
        limits: Limits,
        (inbox, uplink): (Inbox, Arc<Uplink>),
        shards: u16,
        awaited: Vec<Peer>,
    ) -> Self {
        Self {
            node: Node::new(me, limits),
            shards,
            inbox,
            uplink,
            waiting: VecDeque::new(),
            joins: VecDeque::new(),
            awaited,
            is_met: false,
            gone: BTreeSet::new(),
            under_way: 0,
            stands: false,
            has_ear: false,
        }
    }

    pub(crate) fn is_met(&self) -> bool {
        self.is_met
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub(crate) fn stand(&mut self, stands: bool) {
        self.stands = stands;
    }

    /// Its place for another process, if that can be written down now.
    pub(crate) fn record(&self) -> Option<Vec<u8>> {
        let is_free = self.waiting.is_empty() && self.under_way == 0 && self.is_met;
        is_free.then(|| self.node.record().ok()).flatten()
    }

    pub(crate) fn restore(&mut self, me: Peer, limits: Limits, place: &[u8]) {
        self.node = Node::restored(me, limits, place).expect("a record of a node");
        self.is_met = true;
        self.gone.extend(self.node.neighbours().heard());
    }

    /// All members are known: what nobody holds any more is given back.
    pub(crate) fn go_on(&mut self) {
        self.node.settle();
        self.stands = false;
    }

    /// Whether something waits to leave, or a join to be known.
    pub(crate) fn what_waits(&self) -> Option<String> {
        let (parcels, joins) = (self.waiting.len(), self.joins.len());
        let waits = parcels + joins > 0;
        waits.then(|| format!("{parcels} parcels and {joins} joins wait"))
    }

    /// When it is to be stepped if nothing comes before.
    pub(crate) fn due_us(&self, now_us: u64) -> u64 {
        match self.may_publish() {
            true => self.node.due(),
            false => self.node.due().max(now_us + PAUSE_US),
        }
    }

    fn may_publish(&self) -> bool {
        self.under_way < BATCHES_MAX && !self.stands
    }

    /// Whether its heartbeats tell of a life of this number, perhaps of a dead one.
    pub(crate) fn tells_of(&self, number: u16) -> bool {
        let mut heard = self.node.neighbours().heard();
        heard.any(|node| node == NodeId(number))
    }

    pub(crate) fn begin(&mut self, now_us: u64) {
        self.node.begin(now_us);
    }

    pub(crate) fn arrived(&mut self, frame: Vec<u8>) {
        self.node.arrived(frame);
    }

    pub(crate) fn ended(&mut self, batch: Vec<Publish>, is_taken: bool) {
        self.under_way -= 1;
        self.node.ended(batch, |_| is_taken);
    }

    /// Keys come and go at once; letters keep their order.
    pub(crate) fn take(&mut self, parcel: Parcel) {
        for piece in parcel.pieces() {
            match piece {
                Piece::Hold { key, ticket } => {
                    self.node.hold(key);
                    self.wait(parcel.shard(), ticket);
                }
                Piece::Release { key } => self.node.release(key),
                Piece::Letter { .. } | Piece::Room { .. } => {}
            }
        }
        self.waiting.push_back(parcel);
    }

    fn wait(&mut self, shard: u16, ticket: u64) {
        let mut untold = self.joins.iter_mut();
        match untold.find(|join| join.0.is_none() && join.1 == shard) {
            Some(join) => join.2 = ticket,
            None => self.joins.push_back(Join(None, shard, ticket)),
        }
    }

    /// Does what follows from all that came.
    pub(crate) fn step(&mut self) -> Outcome {
        let mut outcome = Outcome::default();
        self.hand_on(&mut outcome);
        self.meet();
        self.send(&mut outcome);
        self.confirm(&mut outcome);
        if self.may_publish() {
            self.node.take(&mut outcome.batch);
            self.under_way += usize::from(!outcome.batch.is_empty());
        }
        self.uplink.engine_holds(self.node.counts().queued_bytes);
        self.uplink.hears_all(self.node.hears_all_peers(SILENCE_US));
        self.uplink
            .counts_nodes(self.node.neighbours().up().count() as u64);
        outcome
    }

    fn meet(&mut self) {
        if self.is_met {
            return;
        }
        let up: BTreeSet<NodeId> = self.node.neighbours().up().map(|peer| peer.node).collect();
        self.awaited.retain(|peer| !up.contains(&peer.node));
        let heard_enough = self.node.counts().probes_back >= PROBES_ALONE;
        if self.awaited.is_empty() || heard_enough {
            self.is_met = true;
            for peer in std::mem::take(&mut self.awaited) {
                self.node.owe(peer);
            }
        }
    }

    fn hand_on(&mut self, outcome: &mut Outcome) {
        let events: Vec<Event> = self.node.events().collect();
        for event in events {
            match event {
                Event::Letter { from, letter } => {
                    let read = self.inbox.read(from.node.0, &letter).expect("a letter");
                    let shards = read.shards();
                    let letters = shards.map(|shard| (shard, Arc::clone(&read.letter)));
                    outcome.letters.extend(letters);
                }
                Event::Lost { from, .. } => {
                    outcome.lost.push(from);
                    self.tell_missed(from.node, true, outcome);
                }
                Event::Up(peer) => {
                    self.uplink.meets(peer.node.0);
                    self.uplink.is_here(peer.node.0, true);
                    self.uplink.relays_to(peer.node.0, true);
                    if self.gone.remove(&peer.node) {
                        self.tell_missed(peer.node, false, outcome);
                    }
                }
                Event::Down(peer) => {
                    self.uplink.is_here(peer.node.0, false);
                    self.uplink.relays_to(peer.node.0, false);
                    self.gone.insert(peer.node);
                    outcome.gone.push(peer);
                    let node = peer.node.0;
                    self.tell_all(Tidings::Down { node }, outcome);
                }
                Event::Order { order, .. } => panic!("nobody ordered {order:?}"),
                Event::Superseded(by) => outcome.superseded = Some(by),
            }
        }
    }

    fn tell_missed(&self, node: NodeId, lost: bool, outcome: &mut Outcome) {
        let node = node.0;
        self.tell_all(Tidings::Missed { node, lost }, outcome);
    }

    fn tell_all(&self, tidings: Tidings, outcome: &mut Outcome) {
        let letter: Arc<Letter> = Arc::new(tidings.into());
        let letters = (0..self.shards).map(|shard| (shard, Arc::clone(&letter)));
        outcome.letters.extend(letters);
    }

    fn send(&mut self, outcome: &mut Outcome) {
        while self.is_met
            && self.node.may_send()
            && self.node.has_room()
            && let Some(parcel) = self.waiting.pop_front()
        {
            self.uplink.took(&parcel);
            for piece in parcel.pieces() {
                self.send_piece(parcel.shard(), &piece, outcome);
            }
        }
    }

    fn send_piece(&mut self, shard: u16, piece: &Piece<'_>, outcome: &mut Outcome) {
        let Piece::Letter {
            keys,
            nodes,
            without,
            expected,
            round,
            bytes,
        } = *piece
        else {
            return;
        };
        let for_others = !keys.is_empty() || nodes.contains(&u64::from(ELSEWHERE));
        let is_overheard = self.has_ear && for_others;
        if is_overheard {
            outcome.overheard.push((shard, bytes.into()));
        }
        let (nodes, without) = (numbered(nodes), numbered(without));
        let to = Address {
            keys,
            nodes: &nodes,
            without: &without,
        };
        let to = self.node.send_to(&to, bytes);
        self.node.expect(&to, expected);
        if let Some(round) = round {
            let elsewhere = is_overheard.then_some(ELSEWHERE);
            let nodes = to.iter().map(|node| node.0).chain(elsewhere).collect();
            let posted = Tidings::Posted { round, nodes };
            outcome.letters.push((shard, Arc::new(posted.into())));
        }
    }

    fn confirm(&mut self, outcome: &mut Outcome) {
        let told = self.node.told().filter(|_| self.is_met);
        while let Some(join) = self.joins.front_mut() {
            join.0 = join.0.or(told);
            if !join.0.is_some_and(|at| self.node.is_confirmed(at)) {
                return;
            }
            let (shard, ticket) = (join.1, join.2);
            let confirmed = Tidings::Confirmed { ticket };
            outcome.letters.push((shard, Arc::new(confirmed.into())));
            self.joins.pop_front();
        }
    }
}

/// Numbers of our nodes: servers of other kinds have none.
fn numbered(nodes: &[u64]) -> Vec<NodeId> {
    let nodes = nodes.iter().map(|node| *node as u16);
    let ours = nodes.filter(|node| *node != ELSEWHERE);
    ours.map(NodeId).collect()
}
