//! The loop between the shards, the native plane and the engine. Everything that is there is taken in first; then what is to be
//! published leaves in one batch. While it is under way the next one fills.

mod handing;
mod leases;

use super::arrival;
use super::card::Card;
use super::engine::{Engine, Kind, Name, News, Publish, Published, Topic};
use super::feed::Feed;
use super::foreign::Passed;
use super::gauges::Gauges;
use super::joins::Joins;
use super::number::{Entry, Number, Register};
use super::office::{Office, Order};
use super::roster::{Roster, Way};
use super::seal::Seal;
use super::standing::Orders;
use cluster::frame::{NodeId, Peer};
use cluster::interest::Address;
use cluster::node::{Event, Limits, Node};
use cluster::outlet::{Channel, Publish as Frame};
use hub::foreign::ELSEWHERE;
use hub::{Letter, Parcel, Piece, Tidings, Uplink};
use leases::Leases;
use process::moving::Wish;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

/// Messages and parcels taken in before anything is published.
const TAKEN_AT_ONCE: usize = 256;
/// While a lone server is away, it is looked at what waits so often.
const PAUSE: Duration = Duration::from_millis(50);
/// While a shard has more letters than it may, it is looked at so often.
const BEHIND: Duration = Duration::from_millis(1);
/// After so many probes of its own a node has heard all others that speak: they do so as often.
const PROBES_ALONE: u64 = 8;
/// Nobody waits for the socket of a client that may be on a node that was silent for so long.
const SILENCE_US: u64 = 2_000_000;
/// How often operators are shown the way to the others anew.
const WAY_INTERVAL: Duration = Duration::from_millis(500);
/// A node that ends for a later life waits so long for the engine to take its number back.
const RELEASE: Duration = Duration::from_millis(500);
/// A node that leaves waits so long for its last frames to be taken.
const LAST_WORDS: Duration = Duration::from_millis(1_500);

/// What is under way to the engine is waited for so long, before the place in the cluster is another process's.
const LAST_BATCHES: Duration = Duration::from_millis(500);

/// Why a member is none any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to leave.
    Left,
    /// Another process has its number.
    Superseded,
    /// Another process goes on as this life of the node.
    HandedOver,
}

/// What a driver is made of.
pub(super) struct Rig {
    pub(super) prefix: String,
    pub(super) seal: Seal,
    pub(super) limits: Limits,
    pub(super) number: Number,
    /// The nodes that were heard before it had its number.
    pub(super) expected: Vec<Peer>,
    /// All numbers, as they were read already.
    pub(super) leases: Vec<Entry>,
    pub(super) engine: Engine,
    pub(super) feed: Feed,
    pub(super) office: Office,
    pub(super) uplink: Arc<Uplink>,
    pub(super) gauges: Arc<Gauges>,
    pub(super) parcels: UnboundedReceiver<Parcel>,
    pub(super) card: Card,
    pub(super) roster: Arc<Roster>,
    pub(super) orders: UnboundedReceiver<Order>,
    pub(super) stops: UnboundedReceiver<Orders>,
    /// The place in the cluster that another process had.
    pub(super) place: Option<Box<Node>>,
}

/// The letter that orders a node to send its clients away.
const DRAIN: &[u8] = b"drain";
/// The letter of a process that goes on for another one without some of its sockets: it is to be asked whom it has. A node that does not know it
/// counts them until rooms change.
pub(super) const DOUBT: &[u8] = b"doubt";

type Batch = (Vec<Frame>, Published, Instant);

struct Driver {
    rig: Rig,
    node: Node,
    kind: Kind,
    me: NodeId,
    /// The node's clock then, which must not be 0.
    began_us: u64,
    started: Instant,
    /// With the place of another process.
    goes_on: bool,
    batches: JoinSet<Batch>,
    /// Parcels whose letters wait.
    waiting: VecDeque<Parcel>,
    joins: Joins,
    up: bool,
    /// The nodes that were there at the start know this one.
    is_met: bool,
    /// A message was refused.
    refuses: bool,
    ended: Option<Ended>,
    /// Nodes that went, and may come back.
    gone: HashSet<NodeId>,
    leases: Leases,
    /// When the way to the others was noted last.
    noted: Option<Instant>,
}

/// Carries letters until asked to leave, or until another process has this node's number.
pub(super) async fn drive(rig: Rig, mut left: oneshot::Receiver<()>) -> Ended {
    let mut driver = Driver::new(rig);
    driver.begin();
    let mut lease = Driver::renewals();
    loop {
        driver.step();
        if let Some(ended) = driver.ended {
            // Its own key may stand there still: the next process of this number need not wait until it ends.
            let release = driver.leases.release(&driver.rig.engine);
            let _ = timeout(RELEASE, release).await;
            return ended;
        }
        let due = driver.due();
        tokio::select! {
            // Rare things first: under load there is always a message.
            biased;
            _ = &mut left => return driver.leave().await,
            _ = lease.tick() => driver.renew(),
            Some(Ok(looked)) = driver.leases.looks.join_next() => driver.on_look(&looked),
            Some(order) = driver.rig.orders.recv() => driver.on_order(order),
            Some(orders) = driver.rig.stops.recv() => {
                if driver.stand(orders).await {
                    return Ended::HandedOver;
                }
            }
            Some(batch) = driver.batches.join_next() => driver.on_batch(batch),
            Some(news) = driver.rig.feed.next(), if !driver.shards_are_behind() => driver.on_news(news),
            Some(parcel) = driver.rig.parcels.recv() => driver.on_parcel(parcel),
            () = sleep_until(due.into()) => {}
        }
    }
}

impl Driver {
    fn new(mut rig: Rig) -> Self {
        let register = Register::new(&rig.prefix, &rig.seal);
        let mut leases = Leases::new(rig.number.clone(), register, rig.expected.clone());
        for (number, entry) in (0..).map(NodeId).zip(std::mem::take(&mut rig.leases)) {
            leases.guests.read(number, entry.claim);
        }
        let me = leases.me();
        let place = rig.place.take();
        Self {
            goes_on: place.is_some(),
            began_us: place.as_ref().map_or(1_000, |place| place.now_us()),
            node: place.map_or_else(|| Node::new(me, rig.limits), |place| *place),
            kind: rig.engine.native(),
            me: me.node,
            started: Instant::now(),
            batches: JoinSet::new(),
            waiting: VecDeque::new(),
            joins: Joins::default(),
            // Its number was taken a moment ago; the engine tells of changes.
            up: true,
            is_met: false,
            refuses: false,
            ended: None,
            gone: HashSet::new(),
            leases,
            noted: None,
            rig,
        }
    }

    fn channel(&self, channel: Channel) -> Name {
        let prefix = &self.rig.prefix;
        match channel {
            Channel::Inbox(node) => arrival::inbox(prefix, node),
            Channel::Flood => arrival::flood(prefix),
        }
    }

    fn begin(&mut self) {
        match self.goes_on {
            // It listens already.
            true => self.go_on(),
            false => self.listen(),
        }
    }

    fn listen(&self) {
        let channels = [Channel::Flood, Channel::Inbox(self.me)];
        let topics = channels.map(|channel| Topic::Channel(self.kind, self.channel(channel)));
        self.rig.engine.subscribe(topics.to_vec());
    }

    /// Takes in what is there, and publishes what is to be published.
    fn step(&mut self) {
        self.node.begin(self.now_us());
        for _ in 0..TAKEN_AT_ONCE {
            let news = match self.shards_are_behind() {
                true => None,
                false => self.rig.feed.next_now(),
            };
            let parcel = self.rig.parcels.try_recv().ok();
            if news.is_none() && parcel.is_none() {
                break;
            }
            news.into_iter().for_each(|news| self.on_news(news));
            parcel.into_iter().for_each(|parcel| self.on_parcel(parcel));
        }
        self.look_for_strangers();
        self.renew_when_it_stands_otherwise();
        self.hand_on();
        self.meet();
        self.send();
        self.confirm_joins();
        self.publish();
        self.count();
        self.note_way();
    }

    /// At the start nobody knows this node, and it knows nobody: what it sent then would reach no one. A node whose lease stands
    /// without a heartbeat is dead or frozen. It is not waited for: what is sent from now on is kept for it.
    fn meet(&mut self) {
        if self.is_met || !self.up {
            return;
        }
        let is_whole = self.rig.roster.is_whole() && !self.leases.guests.are_awaited();
        if is_whole || self.node.counts().probes_back >= PROBES_ALONE {
            self.is_met = true;
            let silent = self.rig.roster.silent().into_iter();
            silent
                .chain(self.leases.guests.awaited())
                .for_each(|peer| self.node.owe(peer));
            self.tell_up();
        }
    }

    fn tell_up(&self) {
        let up = self.up && self.is_met;
        self.rig.gauges.up.store(up, Ordering::Relaxed);
    }

    fn now_us(&self) -> u64 {
        self.began_us + self.started.elapsed().as_micros() as u64
    }

    fn due(&self) -> Instant {
        let due_us = self.node.due().saturating_sub(self.began_us);
        let due = self.started + Duration::from_micros(due_us);
        let now = Instant::now();
        // Nothing can be published now.
        let due = match self.may_publish() {
            true => due,
            false => due.max(now + PAUSE),
        };
        match self.shards_are_behind() {
            true => due.min(now + BEHIND),
            false => due,
        }
    }

    /// What shards cannot take waits in the feed, which is bounded, and not in their mailboxes. Messages that find no room there
    /// are asked for again.
    fn shards_are_behind(&self) -> bool {
        (self.rig.office.are_behind)()
    }

    /// Of several servers one may be away: the channels of the others go on.
    fn may_publish(&self) -> bool {
        self.up || self.kind == Kind::Sharded
    }

    // ---- from the engine ----------------------------------------------------------------------------------------------------

    fn on_news(&mut self, news: News) {
        match news {
            News::Message(message) => self.message(message.body),
            News::Up => {
                if !std::mem::replace(&mut self.up, true) {
                    tracing::info!(node = self.me.0, "the cluster can be reached");
                    // The engine may have lost the key, and somebody may look for a number right now.
                    self.renew();
                }
            }
            News::Down(trouble) => {
                if std::mem::replace(&mut self.up, false) {
                    tracing::warn!(node = self.me.0, %trouble, "the cluster cannot be reached: local clients are served, the rest waits");
                }
            }
            News::Dropped(count) => {
                tracing::warn!(
                    count,
                    "messages of the engine were dropped, and are asked for again"
                );
            }
            News::Heard(_) | News::Unheard(_) => {}
        }
        self.tell_up();
    }

    fn message(&mut self, mut body: Vec<u8>) {
        let Some(bytes) = self.rig.seal.open(&body).map(<[u8]>::len) else {
            return self.refused();
        };
        // Its code stands behind it.
        body.truncate(bytes);
        if self.is_of_a_guest(&body) {
            self.node.arrived(body);
        }
    }

    /// A message of another secret than ours. The first one is told: nodes of two secrets do not see each other.
    fn refused(&mut self) {
        Gauges::add(&self.rig.gauges.unreadable, 1);
        if !std::mem::replace(&mut self.refuses, true) {
            tracing::warn!(
                "a message that does not fit cluster.secret was refused: all nodes need the same secret, and nobody else may publish \
                 to channels that begin with cluster.prefix"
            );
        }
    }

    fn on_batch(&mut self, batch: Result<Batch, tokio::task::JoinError>) {
        let Ok((frames, published, sent)) = batch else {
            return;
        };
        self.rig.gauges.lag.observe(sent.elapsed());
        if !published.is_complete() {
            Gauges::add(&self.rig.gauges.failed, 1);
        }
        if let Some(trouble) = &published.trouble {
            tracing::debug!(%trouble, "a batch is published again, or a part of it");
        }
        // Receivers drop what they have already.
        let taken = |at: usize| published.receivers.get(at).is_some_and(Option::is_some);
        self.node.ended(frames, taken);
    }

    // ---- orders -------------------------------------------------------------------------------------------------------------

    fn on_order(&mut self, order: Order) {
        match order {
            Order::Drain(node) if node == self.me.0 => self.rig.office.readiness.ask_to_drain(),
            Order::Drain(node) => self.node.order(NodeId(node), DRAIN),
            Order::Rebalance(node, wish) if node == self.me.0 => {
                self.rig.office.readiness.moving().ask(wish);
            }
            Order::Rebalance(node, wish) => {
                self.node.order(NodeId(node), wish.text().as_bytes());
            }
            Order::Renew => self.renew(),
        }
    }

    // ---- to the shards ------------------------------------------------------------------------------------------------------

    fn hand_on(&mut self) {
        let events: Vec<Event> = self.node.events().collect();
        for event in events {
            match event {
                Event::Letter { from, letter } => self.deliver(from.node, &letter),
                Event::Lost { from, letters } => self.lost(from.node, letters),
                Event::Up(peer) => {
                    self.rig.uplink.meets(peer.node.0);
                    self.rig.roster.up(peer.node.0, peer.epoch.0);
                    self.look();
                    tracing::info!(node = peer.node.0, "a node came");
                    if self.gone.remove(&peer.node) {
                        let node = peer.node.0;
                        let lost = false;
                        self.tell_all(&Arc::new(Tidings::Missed { node, lost }.into()));
                    }
                }
                Event::Down(peer) => {
                    let node = peer.node.0;
                    self.rig.roster.down(node);
                    tracing::info!(node, "a node went");
                    (self.rig.office.gone)(node, peer.epoch.0);
                    self.gone.insert(peer.node);
                    self.tell_all(&Arc::new(Tidings::Down { node }.into()));
                }
                Event::Order { from, order } if *order == *DRAIN => {
                    tracing::info!(
                        node = from.node.0,
                        "another node passes on the order to drain"
                    );
                    self.rig.office.readiness.ask_to_drain();
                }
                Event::Order { from, order } if *order == *DOUBT => {
                    let (node, lost) = (from.node.0, false);
                    self.tell_all(&Arc::new(Tidings::Missed { node, lost }.into()));
                }
                Event::Order { from, order } => match Wish::read(&order) {
                    Some(wish) => {
                        tracing::info!(
                            node = from.node.0,
                            ?wish,
                            "another node passes on an order"
                        );
                        self.rig.office.readiness.moving().ask(wish);
                    }
                    None => Gauges::add(&self.rig.gauges.unreadable, 1),
                },
                Event::Superseded(_) => self.ended = Some(Ended::Superseded),
            }
        }
    }

    fn deliver(&self, from: NodeId, letter: &[u8]) {
        let office = &self.rig.office;
        Gauges::add(&self.rig.gauges.received, 1);
        match office.inbox.read(from.0, letter) {
            Ok(read) => read
                .shards()
                .for_each(|shard| (office.deliver)(shard, Arc::clone(&read.letter))),
            Err(problem) => {
                Gauges::add(&self.rig.gauges.unreadable, 1);
                tracing::debug!(node = from.0, ?problem, "a letter was skipped");
            }
        }
    }

    /// `None`: the node had given this one up, and nobody knows what it sent since.
    fn lost(&self, from: NodeId, letters: Option<u64>) {
        let (gauges, node) = (&self.rig.gauges, from.0);
        match letters {
            Some(letters) => {
                Gauges::add(&gauges.lost, letters);
                tracing::warn!(
                    node,
                    letters,
                    "letters of a node are lost: cluster.ring_bytes held less than the time it was away"
                );
            }
            None => {
                Gauges::add(&gauges.resyncs, 1);
                tracing::warn!(
                    node,
                    "letters of a node are lost: this node stood still or was cut off for so long that the other one forgot it"
                );
            }
        }
        // Counts of rooms may have been among them.
        let lost = true;
        self.tell_all(&Arc::new(Tidings::Missed { node, lost }.into()));
    }

    /// Joins that all nodes know of by now.
    fn confirm_joins(&mut self) {
        let (told, node) = (self.node.told().filter(|_| self.is_met), &self.node);
        let confirmed = self.joins.confirmed(told, |at| node.is_confirmed(at));
        for (shard, ticket) in confirmed {
            self.tell(shard, Tidings::Confirmed { ticket });
        }
    }

    fn tell_all(&self, letter: &Arc<Letter>) {
        let office = &self.rig.office;
        (0..office.shards).for_each(|shard| (office.deliver)(shard, Arc::clone(letter)));
    }

    fn tell(&self, shard: u16, tidings: Tidings) {
        (self.rig.office.deliver)(shard, Arc::new(tidings.into()));
    }

    // ---- from the shards ----------------------------------------------------------------------------------------------------

    /// Keys come and go at once, so that they cancel out while the engine is away; letters keep their order.
    fn on_parcel(&mut self, parcel: Parcel) {
        for piece in parcel.pieces() {
            match piece {
                Piece::Hold { key, ticket } => {
                    // A full queue is no loss: the key is told of when there is room, and the join waits for that.
                    self.node.hold(key);
                    self.joins.wait(parcel.shard(), ticket);
                }
                Piece::Release { key } => self.node.release(key),
                Piece::Room {
                    came,
                    namespace,
                    room,
                } => {
                    if let Some(ear) = &self.rig.office.foreign {
                        ear.room(came, namespace, room);
                    }
                }
                Piece::Letter { .. } => {}
            }
        }
        self.waiting.push_back(parcel);
    }

    /// Letters leave the shards' parcels while there is room for them. What has none waits here: publishers are told when that is
    /// too much, and nothing that they were promised is dropped behind their backs.
    fn send(&mut self) {
        while self.is_met
            && self.node.may_send()
            && self.node.has_room()
            && let Some(parcel) = self.waiting.pop_front()
        {
            self.rig.uplink.took(&parcel);
            let shard = parcel.shard();
            parcel
                .pieces()
                .for_each(|piece| self.on_piece(shard, &piece));
        }
    }

    fn on_piece(&mut self, shard: u16, piece: &Piece<'_>) {
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
        let foreign = self.rig.office.foreign.as_ref();
        let elsewhere = foreign.map_or(Passed::By, |ear| {
            ear.hear(shard, keys, nodes, round.is_some(), bytes)
        });
        let (nodes, without) = (numbered(nodes), numbered(without));
        let to = Address {
            keys,
            nodes: &nodes,
            without: &without,
        };
        let to = self.node.send_to(&to, bytes);
        self.node.expect(&to, expected);
        if let Some(round) = round {
            // First, or the round could end as a whole one before.
            if elsewhere == Passed::Dropped {
                self.tell(shard, Tidings::Refused { round });
            }
            self.tell(shard, posted(round, to, elsewhere));
        }
    }

    // ---- to the engine ------------------------------------------------------------------------------------------------------

    fn publish(&mut self) {
        if !self.may_publish() {
            return;
        }
        let mut frames = Vec::new();
        self.node.take(&mut frames);
        if frames.is_empty() {
            return;
        }
        let sealed = frames.iter().map(|frame| Publish {
            kind: self.kind,
            channel: self.channel(frame.channel),
            body: self.rig.seal.close(&frame.frame),
        });
        let sent = Instant::now();
        let sealed: Vec<Publish> = sealed.collect();
        let published = self.rig.engine.publish(&sealed);
        self.batches
            .spawn(async move { (frames, published.await, sent) });
    }

    fn note_way(&mut self) {
        let now = Instant::now();
        if self.noted.is_some_and(|at| now < at + WAY_INTERVAL) {
            return;
        }
        self.noted = Some(now);
        self.rig.roster.note_way(Way {
            engine: self.rig.engine.name(),
            hearing: self.node.hearing(),
            is_lost: false,
        });
        if self.rig.roster.has_newcomers(now) {
            self.look();
        }
    }

    fn count(&self) {
        let (gauges, counts) = (&self.rig.gauges, self.node.counts());
        let (sent, received, refusals) = (counts.sent, counts.received, counts.refusals);
        for (cell, frames) in gauges.frames.iter().zip(sent.frames) {
            Gauges::set(cell, frames);
        }
        self.rig.uplink.engine_holds(counts.queued_bytes);
        let hears_all = self.node.hears_all_peers(SILENCE_US);
        self.rig.uplink.hears_all(hears_all);
        let peers = self.node.neighbours().up().count() as u64;
        self.rig.uplink.counts_nodes(peers);
        for (cell, value) in [
            (&gauges.peers, peers),
            (&gauges.letters, sent.letters),
            (&gauges.bytes, sent.bytes),
            (&gauges.repairs, sent.repairs),
            (&gauges.questions_heard, sent.questions),
            (&gauges.gone, sent.gone),
            (&gauges.gaps, received.gaps),
            (&gauges.questions_asked, received.asked),
            (&gauges.interest_misses, counts.interest_misses),
            (&gauges.ring_us, counts.ring_us),
            (&gauges.queued_bytes, self.rig.uplink.waiting() as u64),
            (&gauges.strangers, self.leases.guests.refused()),
            (&gauges.versions, refusals.versions),
            (
                &gauges.malformed,
                refusals.malformed + refusals.unknown_letters,
            ),
        ] {
            Gauges::set(cell, value);
        }
    }

    /// The peers are told, what waits leaves, and the number is free.
    async fn leave(mut self) -> Ended {
        let deadline = Instant::now() + LAST_WORDS;
        self.leave_until(deadline, |driver| {
            driver.rig.parcels.is_empty() && driver.waiting.is_empty()
        })
        .await;
        self.node.leave();
        self.leave_until(deadline, |driver| driver.node.counts().queued_bytes == 0)
            .await;
        let bytes = self.rig.uplink.waiting();
        if bytes > 0 {
            tracing::warn!(
                bytes,
                "the engine did not take the last bytes for other nodes in time: messages among them are lost"
            );
        }
        self.leases.release(&self.rig.engine).await;
        Ended::Left
    }

    async fn leave_until(&mut self, deadline: Instant, is_done: impl Fn(&Self) -> bool) {
        self.step();
        while !is_done(self) && Instant::now() < deadline {
            let due = self.due().min(deadline);
            tokio::select! {
                Some(batch) = self.batches.join_next() => self.on_batch(batch),
                Some(news) = self.rig.feed.next() => self.on_news(news),
                () = sleep_until(due.into()) => {}
            }
            self.step();
        }
    }
}

/// Numbers of our nodes: servers of other kinds have none.
fn numbered(nodes: &[u64]) -> Vec<NodeId> {
    let nodes = nodes.iter().map(|node| *node as u16);
    nodes
        .filter(|node| *node != ELSEWHERE)
        .map(NodeId)
        .collect()
}

/// `elsewhere`: servers of other kinds were asked as well.
fn posted(round: u64, to: Vec<NodeId>, elsewhere: Passed) -> Tidings {
    let elsewhere = (elsewhere == Passed::Asked).then_some(ELSEWHERE);
    Tidings::Posted {
        round,
        nodes: to.into_iter().map(|node| node.0).chain(elsewhere).collect(),
    }
}

#[cfg(test)]
mod tests;
