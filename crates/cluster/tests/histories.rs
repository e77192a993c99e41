//! Many nodes over an engine that loses, repeats, delays and reorders messages. Each history is made of a seed.
//!
//! Checked of each: letters of one publisher come in its order, none comes twice, and each letter for a room that a node held from
//! before the first letter to the end is delivered or told as lost. The same holds for a room that a node came to in between, from
//! the ack of its join on.

#[path = "histories/check.rs"]
mod check;
#[path = "histories/upgrades.rs"]
mod upgrades;

use check::Outcome;
use cluster::frame::{Epoch, NodeId, Peer};
use cluster::node::{Event, Limits, Node};
use cluster::outlet::{Channel, Publish};
use seeds::Script;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

const MS: u64 = 1_000;
const SECOND: u64 = 1_000 * MS;
/// Rooms with these numbers are held from the start to the end; the others come and go.
const STEADY_ROOMS: u64 = 8;
const ROOMS: u64 = 16;
/// Rooms from this number on are come to some time, and kept.
const NEW_ROOMS: u64 = 1_000;
const NEW_ROOMS_COUNT: u64 = 40;
/// The ack of a join waits at most so long.
const JOIN_WAIT_US: u64 = SECOND;
/// By then all nodes know each other.
const MEET_US: u64 = 3 * SECOND;
/// Histories of each kind, and acts of clients that may be left out of one that fails.
const HISTORIES: u64 = 30;
const ACTS: usize = 10_000;
/// Batches under way to the engine at once.
const BATCHES_MAX: usize = 4;

/// What is done to the network of a history.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    /// Subscribers are cut off for at most so long, several times.
    cuts_us: u64,
    /// The engine acknowledges publishes and loses them for at most so long.
    loses_us: u64,
    /// The engine answers nothing for at most so long; what was sent to it meanwhile fails.
    freezes_us: u64,
    /// A node is cut off alone, both ways, for at most so long.
    alone_us: u64,
    repeats: bool,
    reorders: bool,
    /// Nodes die, and come back as another life.
    deaths: bool,
    /// Processes hand their places over to others, which go on as the same lives.
    upgrades: bool,
    /// Bytes of the rings; 0 = the default.
    ring_bytes: usize,
}

#[derive(Debug)]
enum Step {
    Arrive(usize, Arc<[u8]>),
    Answer(usize, u64, bool),
    Wake(usize),
    Act(usize),
    Acked(usize),
    Kill(usize),
    Restart(usize),
    Upgrade(usize),
    Resume(usize),
}

/// One life of a node, and what its clients saw.
struct Life {
    node: Node,
    peer: Peer,
    alive: bool,
    sent: u64,
    /// Last number of each publisher, and the numbers seen in steady rooms.
    last: BTreeMap<Peer, u64>,
    seen: BTreeMap<Peer, Vec<u64>>,
    lost: BTreeMap<Peer, u64>,
    batches: BTreeMap<u64, Vec<Publish>>,
    churn: Vec<u64>,
    wake_us: u64,
    /// Letters that may not leave yet.
    waiting: VecDeque<(u64, Vec<u8>)>,
    /// Joins without an ack: room, when, and at which position they are told.
    joins: Vec<(u64, u64, Option<u64>)>,
    /// Rooms that were come to, and when that was acked.
    acked: BTreeMap<u64, u64>,
    /// It stands still: its place as bytes.
    standing: Option<Vec<u8>>,
    /// What came meanwhile, and behind it what a successor that listened before has heard, too.
    feed: Vec<Arc<[u8]>>,
    recent: VecDeque<Arc<[u8]>>,
}

struct World<'a> {
    script: &'a Script,
    /// How often clients have acted.
    acts: usize,
    /// Questions for letters that came before their receivers knew the publisher's lane.
    asked_before: u64,
    is_begun: bool,
    rng: fastrand::Rng,
    faults: Faults,
    now_us: u64,
    order: u64,
    steps: BinaryHeap<Reverse<(u64, u64, usize)>>,
    bodies: Vec<Option<Step>>,
    lives: Vec<Life>,
    /// Index of the present life of each node.
    present: Vec<usize>,
    /// Time until which a node's subscriptions are cut.
    cut_until: Vec<u64>,
    alone_until: Vec<u64>,
    frozen_until: u64,
    losing_until: u64,
    /// Keeps the order of messages to a subscriber.
    last_arrival: Vec<u64>,
    /// Letters in steady rooms and new ones: publisher, number, room, and when.
    letters: Vec<(Peer, u64, u64, u64)>,
    ends_us: u64,
    quiet_us: u64,
    batch: u64,
}

impl<'a> World<'a> {
    fn new(script: &'a Script, nodes: usize, faults: Faults) -> Self {
        let mut world = Self {
            script,
            acts: 0,
            asked_before: 0,
            is_begun: false,
            rng: script.opening(),
            faults,
            now_us: SECOND,
            order: 0,
            steps: BinaryHeap::new(),
            bodies: Vec::new(),
            lives: Vec::new(),
            present: Vec::new(),
            cut_until: vec![0; nodes],
            alone_until: vec![0; nodes],
            frozen_until: 0,
            losing_until: 0,
            last_arrival: vec![0; nodes],
            letters: Vec::new(),
            ends_us: 40 * SECOND,
            quiet_us: 20 * SECOND,
            batch: 0,
        };
        for number in 0..nodes {
            let life = world.life(number, 1);
            world.lives.push(life);
            world.present.push(number);
        }
        world
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        if self.faults.ring_bytes > 0 {
            limits.outlet.ring_bytes = self.faults.ring_bytes;
        }
        limits
    }

    fn life(&mut self, number: usize, epoch: u64) -> Life {
        let peer = Peer {
            node: NodeId(number as u16),
            epoch: Epoch(epoch),
        };
        let mut node = Node::new(peer, self.limits());
        node.begin(self.now_us);
        for room in (0..STEADY_ROOMS).filter(|room| holds(number, *room)) {
            node.hold(room);
        }
        Life {
            node,
            peer,
            alive: true,
            sent: 0,
            last: BTreeMap::new(),
            seen: BTreeMap::new(),
            lost: BTreeMap::new(),
            batches: BTreeMap::new(),
            churn: Vec::new(),
            wake_us: u64::MAX,
            waiting: VecDeque::new(),
            joins: Vec::new(),
            acked: BTreeMap::new(),
            standing: None,
            feed: Vec::new(),
            recent: VecDeque::new(),
        }
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        self.script
            .tell(|| format!("{:8} us: {}", self.now_us, what()));
    }

    fn at(&mut self, at_us: u64, step: Step) {
        self.order += 1;
        self.bodies.push(Some(step));
        let index = self.bodies.len() - 1;
        self.steps.push(Reverse((at_us, self.order, index)));
    }

    fn run(&mut self) {
        let nodes = self.present.len();
        for number in 0..nodes {
            self.at(self.now_us, Step::Wake(number));
            // Clients come when the nodes know each other.
            let first = MEET_US + self.rng.u64(..SECOND);
            self.at(first, Step::Act(number));
        }
        if self.faults.upgrades {
            for _ in 0..8 * nodes {
                let at = self.rng.u64(4 * SECOND..self.quiet_us + 5 * SECOND);
                let number = self.rng.usize(..nodes);
                self.at(at, Step::Upgrade(number));
            }
        }
        if self.faults.deaths {
            for _ in 0..2 {
                let (victim, at) = (
                    self.rng.usize(..nodes),
                    self.rng.u64(5 * SECOND..15 * SECOND),
                );
                self.at(at, Step::Kill(victim));
                let back = at + self.rng.u64(MS..20 * SECOND);
                self.at(back.min(self.quiet_us + 2 * SECOND), Step::Restart(victim));
            }
        }
        while let Some(Reverse((at_us, _, index))) = self.steps.pop() {
            if at_us > self.ends_us {
                break;
            }
            self.now_us = at_us;
            if at_us >= MEET_US && !self.is_begun {
                (self.is_begun, self.asked_before) = (true, self.asked());
            }
            let step = self.bodies[index].take().expect("a step once");
            self.step(step);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Arrive(life, frame) if self.lives[life].standing.is_some() => {
                self.lives[life].feed.push(frame);
            }
            Step::Wake(_) | Step::Act(_) | Step::Acked(_) if self.stands(&step) => {
                self.at(self.now_us + MS, step);
            }
            Step::Upgrade(number) => self.stand(number),
            Step::Resume(life) => self.resume(life),
            Step::Arrive(life, frame) => {
                self.note_recent(life, &frame);
                if self.lives[life].alive {
                    self.lives[life].node.begin(self.now_us);
                    self.lives[life].node.arrived(frame.to_vec());
                    self.after(life);
                }
            }
            Step::Answer(life, batch, taken) => {
                if !self.lives[life].alive {
                    return;
                }
                self.lives[life].node.begin(self.now_us);
                let sent = self.lives[life].batches.remove(&batch).expect("a batch");
                self.lives[life].node.ended(sent, |_| taken);
                self.after(life);
            }
            Step::Wake(life) => {
                let due = self.lives[life].wake_us;
                if self.lives[life].alive && (due <= self.now_us || due == u64::MAX) {
                    self.lives[life].wake_us = u64::MAX;
                    self.lives[life].node.begin(self.now_us);
                    self.after(life);
                }
            }
            Step::Act(number) => self.act(number),
            Step::Acked(life) => {
                if self.lives[life].alive {
                    self.lives[life].node.begin(self.now_us);
                    self.after(life);
                }
            }
            Step::Kill(number) => {
                self.tell(|| format!("node {number} dies"));
                let life = self.present[number];
                self.lives[life].alive = false;
            }
            Step::Restart(number) => {
                let life = self.present[number];
                if !self.lives[life].alive {
                    let epoch = self.lives[life].peer.epoch.0 + 1;
                    let next = self.life(number, epoch);
                    self.lives.push(next);
                    self.present[number] = self.lives.len() - 1;
                    self.after(self.lives.len() - 1);
                }
            }
        }
    }

    /// A client of the node does something, or the network breaks.
    fn act(&mut self, number: usize) {
        if self.now_us > self.quiet_us {
            return;
        }
        let step = self.acts;
        self.acts += 1;
        let Some(dice) = self.script.dice(step) else {
            return self.at(self.now_us + 10 * MS, Step::Act(number));
        };
        let others = std::mem::replace(&mut self.rng, dice);
        self.act_now(number);
        self.rng = others;
    }

    fn act_now(&mut self, number: usize) {
        let life = self.present[number];
        if self.lives[life].alive {
            self.lives[life].node.begin(self.now_us);
            for _ in 0..self.rng.usize(1..8) {
                self.publish(life);
            }
            if self.rng.u8(..4) == 0 {
                self.churn(life);
            }
            if self.rng.u8(..20) == 0 {
                self.come(life);
            }
            self.after(life);
        }
        self.break_something(number);
        let pause = self.rng.u64(100..20 * MS);
        self.at(self.now_us + pause, Step::Act(number));
    }

    fn publish(&mut self, life: usize) {
        let room = match self.rng.u8(..3) {
            0 => NEW_ROOMS + self.rng.u64(..NEW_ROOMS_COUNT),
            _ => self.rng.u64(..ROOMS),
        };
        let number = self.lives[life].sent + 1;
        self.tell(|| format!("life {life} says {number} to room {room}"));
        let mut letter = number.to_le_bytes().to_vec();
        letter.extend_from_slice(&room.to_le_bytes());
        letter.resize(16 + self.rng.usize(..200), 0);
        let now_us = self.now_us;
        let me = &mut self.lives[life];
        me.waiting.push_back((room, letter));
        me.sent = number;
        if !(STEADY_ROOMS..NEW_ROOMS).contains(&room) {
            self.letters.push((me.peer, number, room, now_us));
        }
    }

    /// A room gets its first member, who stays.
    fn come(&mut self, life: usize) {
        let room = NEW_ROOMS + self.rng.u64(..NEW_ROOMS_COUNT);
        let now_us = self.now_us;
        let me = &mut self.lives[life];
        let is_there = me.joins.iter().any(|(joining, ..)| *joining == room);
        if !is_there && !me.acked.contains_key(&room) {
            me.node.hold(room);
            me.joins.push((room, now_us, None));
            self.at(now_us + JOIN_WAIT_US, Step::Acked(life));
        }
    }

    /// Acks joins that everybody knows of, or that have waited for long enough; then letters leave, as far as they may.
    fn drive(&mut self, life: usize) {
        let now_us = self.now_us;
        let me = &mut self.lives[life];
        let told = me.node.told();
        for (room, at_us, position) in &mut me.joins {
            *position = position.or(told);
            let known = position.is_some_and(|position| me.node.is_confirmed(position));
            if known || now_us >= *at_us + JOIN_WAIT_US {
                me.acked.insert(*room, now_us);
            }
        }
        me.joins.retain(|(room, ..)| !me.acked.contains_key(room));
        while me.node.may_send()
            && me.node.has_room()
            && let Some((room, letter)) = me.waiting.pop_front()
        {
            me.node.send(&[room], &letter);
        }
    }

    fn churn(&mut self, life: usize) {
        let room = self.rng.u64(STEADY_ROOMS..ROOMS);
        let held = self.lives[life].churn.iter().position(|held| *held == room);
        match held {
            Some(at) => {
                self.lives[life].churn.swap_remove(at);
                self.lives[life].node.release(room);
            }
            None => {
                self.lives[life].node.hold(room);
                self.lives[life].churn.push(room);
            }
        }
    }

    fn break_something(&mut self, number: usize) {
        if self.now_us > self.quiet_us - 2 * SECOND || self.rng.u16(..400) > 0 {
            return;
        }
        let faults = self.faults;
        self.tell(|| format!("node {number} is in trouble"));
        if faults.cuts_us > 0 {
            self.cut_until[number] = self.now_us + self.rng.u64(..faults.cuts_us);
        }
        if faults.alone_us > 0 {
            let until = self.now_us + self.rng.u64(..faults.alone_us);
            self.cut_until[number] = self.cut_until[number].max(until);
            self.alone_until[number] = self.alone_until[number].max(until);
        }
        if faults.loses_us > 0 && self.rng.bool() {
            self.losing_until = self.now_us + self.rng.u64(..faults.loses_us);
        }
        if faults.freezes_us > 0 && self.rng.bool() {
            self.frozen_until = self.now_us + self.rng.u64(..faults.freezes_us);
        }
    }

    /// Carries what a node publishes to the engine, and notes what it delivered.
    fn after(&mut self, life: usize) {
        self.note(life);
        self.drive(life);
        let mut batch = Vec::new();
        if self.lives[life].batches.len() < BATCHES_MAX {
            self.lives[life].node.take(&mut batch);
        }
        if !batch.is_empty() {
            self.batch += 1;
            let number = self.batch;
            let there = self.now_us + self.rng.u64(30..200);
            let number_of = usize::from(self.lives[life].peer.node.0);
            let is_alone = there < self.alone_until[number_of];
            let works = there >= self.frozen_until && !is_alone;
            if works {
                batch.iter().for_each(|publish| self.carry(publish, there));
            }
            // A frozen engine is given up after a while; half of what it took it had read.
            let partly = !works && !is_alone && self.rng.bool();
            if partly {
                let half = batch.len() / 2;
                batch[..half]
                    .iter()
                    .for_each(|publish| self.carry(publish, self.frozen_until));
            }
            let back = if works {
                there + self.rng.u64(30..200)
            } else {
                there + 100 * MS
            };
            self.lives[life].batches.insert(number, batch);
            self.at(back, Step::Answer(life, number, works));
        }
        // A driver that waits for answers is woken by them.
        let waits = self.lives[life].batches.len() >= BATCHES_MAX;
        let soonest = self.now_us + if waits { MS } else { 10 };
        let due = self.lives[life].node.due().max(soonest);
        if due < self.lives[life].wake_us {
            self.lives[life].wake_us = due;
            self.at(due, Step::Wake(life));
        }
    }

    fn carry(&mut self, publish: &Publish, at_us: u64) {
        if at_us < self.losing_until {
            return;
        }
        let receivers: Vec<usize> = match publish.channel {
            Channel::Flood => (0..self.present.len()).collect(),
            Channel::Inbox(node) => vec![usize::from(node.0)],
        };
        for number in receivers {
            if at_us < self.cut_until[number] {
                continue;
            }
            let mut arrival = (at_us + self.rng.u64(30..150)).max(self.last_arrival[number]);
            if self.faults.reorders && self.rng.u8(..20) == 0 {
                arrival += self.rng.u64(..5 * MS);
            } else {
                self.last_arrival[number] = arrival;
            }
            let life = self.present[number];
            self.at(arrival, Step::Arrive(life, Arc::clone(&publish.frame)));
            if self.faults.repeats && self.rng.u8(..10) == 0 {
                let again = arrival + self.rng.u64(..50 * MS);
                self.at(again, Step::Arrive(life, Arc::clone(&publish.frame)));
            }
        }
    }

    fn note(&mut self, life: usize) {
        let (script, now_us) = (self.script, self.now_us);
        let me = &mut self.lives[life];
        let events: Vec<Event> = me.node.events().collect();
        for event in events {
            match event {
                Event::Letter { from, letter } => {
                    let number = u64::from_le_bytes(letter[..8].try_into().expect("eight bytes"));
                    let room = u64::from_le_bytes(letter[8..16].try_into().expect("eight bytes"));
                    let last = me.last.insert(from, number).unwrap_or(0);
                    assert!(
                        last < number,
                        "{:?} got {number} of {from:?} after {last}",
                        me.peer
                    );
                    let is_new = room >= NEW_ROOMS;
                    if is_new || room < STEADY_ROOMS && holds(usize::from(me.peer.node.0), room) {
                        me.seen.entry(from).or_default().push(number);
                    }
                }
                Event::Lost { from, letters } => {
                    script.tell(|| {
                        format!("{now_us:8} us: {:?} lost {letters:?} of {from:?}", me.peer)
                    });
                    *me.lost.entry(from).or_default() += letters.unwrap_or(u64::MAX / 2);
                }
                Event::Up(_) | Event::Down(_) => {}
                Event::Order { order, .. } => panic!("nobody ordered {order:?}"),
                Event::Superseded(by) => panic!("{:?} superseded by {by:?}", me.peer),
            }
        }
    }
}

/// Whether a node has members in a steady room; each room has another set of nodes.
fn holds(node: usize, room: u64) -> bool {
    (room >> (node % 3)) & 1 == 1
}

fn play(name: &str, faults: Faults) -> Outcome {
    let mut all = Outcome::default();
    let outcomes = seeds::play(name, HISTORIES, ACTS, |script| {
        let nodes = 2 + (script.seed() % 4) as usize;
        let mut world = World::new(script, nodes, faults);
        world.run();
        world.check()
    });
    for outcome in outcomes {
        all.delivered += outcome.delivered;
        all.missing += outcome.missing;
        all.told += outcome.told;
        all.asked += outcome.asked;
    }
    assert!(all.delivered > 0, "{name}: nothing was delivered");
    println!("{name}: {all:?}");
    all
}

#[test]
fn a_healthy_network_loses_nothing_and_asks_nothing() {
    play("healthy", Faults::default());
}

#[test]
fn repeated_and_reordered_messages_come_once_and_in_order() {
    let faults = Faults {
        repeats: true,
        reorders: true,
        ..Faults::default()
    };
    play("repeats", faults);
}

#[test]
fn what_subscribers_missed_is_repaired() {
    let faults = Faults {
        cuts_us: SECOND,
        reorders: true,
        ..Faults::default()
    };
    let outcome = play("cuts", faults);
    assert!(outcome.asked > 0);
}

#[test]
fn an_engine_that_freezes_and_forgets_loses_nothing() {
    let faults = Faults {
        loses_us: 5 * SECOND,
        freezes_us: 5 * SECOND,
        cuts_us: 500 * MS,
        ..Faults::default()
    };
    let outcome = play("failover", faults);
    assert!(outcome.asked > 0);
}

/// Members that came while a node or the engine was away missed what others said meanwhile, and nobody was told.
#[test]
fn newcomers_heard_nothing_while_the_engine_was_away() {
    let faults = Faults {
        freezes_us: 6 * SECOND,
        ..Faults::default()
    };
    play("frozen", faults);
}

#[test]
fn newcomers_of_a_node_that_is_cut_off_alone_heard_nothing() {
    let faults = Faults {
        alone_us: 6 * SECOND,
        ..Faults::default()
    };
    play("alone", faults);
}

#[test]
fn a_ring_that_is_too_short_tells_what_it_lost() {
    let faults = Faults {
        cuts_us: 3 * SECOND,
        ring_bytes: 20_000,
        ..Faults::default()
    };
    let outcome = play("short ring", faults);
    assert!(outcome.missing > 0 && outcome.told >= outcome.missing);
}

#[test]
fn nodes_that_die_and_come_back_disturb_no_others() {
    let faults = Faults {
        deaths: true,
        cuts_us: 500 * MS,
        ..Faults::default()
    };
    play("deaths", faults);
}

/// An engine that was away for hours found a heartbeat for every quarter of a second of them.
#[test]
fn heartbeats_do_not_pile_up_while_the_engine_is_away() {
    let me = Peer {
        node: NodeId(1),
        epoch: Epoch(1),
    };
    let mut node = Node::new(me, Limits::default());
    for second in 1..3_600 {
        node.begin(second * 1_000_000);
    }
    assert!(
        node.counts().queued_bytes < 10_000,
        "{}",
        node.counts().queued_bytes
    );
    let mut batch = Vec::new();
    node.take(&mut batch);
    node.ended(batch, |_| true);
    node.begin(3_601_000_000);
    assert!(
        node.counts().queued_bytes > 0,
        "it goes on with a heartbeat"
    );
}
