//! The hubs, what is between them, and the clients around them.

use crate::check::{Report, Sent, Stay};
use crate::client::{Client, Transport};
use fastrand::Rng;
use hub::ConnId;
use hub::config::Config;
use hub::metrics::Cells;
use hub::{
    Effect, HandlerFactory, Hub, Identity, Moved, Now, Process, Relay, Sink, Spent, Turn, Written,
};
use rules::{Action, EventRule, NamespaceRules, Rules, RulesFactory};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

/// Size of a history.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub hubs: usize,
    pub clients: usize,
    pub rooms: usize,
    pub steps: usize,
    /// Percent of the messages between hubs that are lost: 0 but for proving that the checks can fail.
    pub loss: usize,
}

/// Plays one history and checks it; a violation panics with the seed.
pub fn run(plan: Plan, seed: u64) -> Report {
    let mut world = World::new(plan, seed);
    for _ in 0..plan.steps {
        world.step();
    }
    world.finish()
}

/// One client's connection, wherever it is.
#[derive(Debug)]
struct Link {
    client: usize,
    node: usize,
    /// Its slot there; `None` on its way or when it is over.
    conn: Option<ConnId>,
    out: Vec<u8>,
}

/// A connection on its way to the hub that owns its session.
#[derive(Debug)]
struct Move {
    link: usize,
    to: usize,
    read: Vec<u8>,
    /// When its client sent what was read.
    step: u64,
}

/// Messages from one hub to another that have not arrived, with the step in which their cause was sent.
type Mail = VecDeque<(u64, Arc<Relay>)>;

struct Node {
    hub: Hub,
    links: BTreeMap<ConnId, usize>,
}

/// What one hub acts on: its links, and the ways to the other hubs. The network takes everything.
struct Wires<'a> {
    node: usize,
    seed: u64,
    origin: u64,
    by_conn: &'a mut BTreeMap<ConnId, usize>,
    links: &'a mut Vec<Link>,
    mail: &'a mut BTreeMap<(usize, usize), Mail>,
    moves: &'a mut Vec<Move>,
}

impl Wires<'_> {
    fn adopt(&mut self, link: usize, conn: ConnId) -> bool {
        self.by_conn.insert(conn, link);
        self.links[link].node = self.node;
        self.links[link].conn = Some(conn);
        true
    }
}

impl Sink for Wires<'_> {
    fn write(&mut self, conn: ConnId, slices: &[IoSlice<'_>]) -> Written {
        let link = &mut self.links[self.by_conn[&conn]];
        slices
            .iter()
            .for_each(|slice| link.out.extend_from_slice(slice));
        Written::Bytes(slices.iter().map(|slice| slice.len()).sum())
    }
}

impl hub::World for Wires<'_> {
    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Close { conn } => {
                if let Some(link) = self.by_conn.remove(&conn) {
                    self.links[link].conn = None;
                }
            }
            Effect::Move {
                conn, shard, read, ..
            } => {
                let link = self.by_conn.remove(&conn);
                let link = link.expect("a connection of this hub");
                self.links[link].conn = None;
                let (to, step) = (usize::from(shard), self.origin);
                self.moves.push(Move {
                    link,
                    to,
                    read,
                    step,
                });
            }
            Effect::Send { shard, relay } => {
                let way = (self.node, usize::from(shard));
                let queue = self.mail.entry(way).or_default();
                queue.push_back((self.origin, relay));
            }
            Effect::Handover { .. } => panic!("seed {}: nobody asks for a page", self.seed),
            Effect::Ask { .. } => panic!("seed {}: nobody shows a token", self.seed),
            Effect::Shutdown { .. } | Effect::Log(_) => {}
        }
    }
}

struct World {
    plan: Plan,
    seed: u64,
    dice: Rng,
    now: Now,
    step: u64,
    /// Step in which a client sent what is being worked on.
    origin: u64,
    nodes: Vec<Node>,
    links: Vec<Link>,
    clients: Vec<Client>,
    moves: Vec<Move>,
    /// Messages on their way, by pair of hubs, with the step in which they were sent.
    mail: BTreeMap<(usize, usize), Mail>,
    /// Polling clients whose POST was not answered yet.
    posting: BTreeSet<usize>,
    /// Requests to join that were not answered: (client, ack id) and the room.
    asked: BTreeMap<(usize, u64), usize>,
    members: BTreeSet<(usize, usize)>,
    numbers: u64,
    report: Report,
}

const WALL_MS: u64 = 1_750_000_000_000;

impl World {
    fn new(plan: Plan, seed: u64) -> World {
        let rules = RulesFactory::new(&rules(plan.rooms), &|_| Err("no schemas".to_owned()));
        let rules = rules.expect("rules without schemas");
        let now = Now {
            mono_ms: 1_000,
            wall_ms: WALL_MS,
        };
        let mut dice = Rng::with_seed(seed);
        let process = Process::new(&config().rates);
        let nodes = (0..plan.hubs).map(|shard| {
            let me = Identity {
                node: 1,
                shard: shard as u16,
                shards: plan.hubs as u16,
            };
            let mut entropy = Rng::with_seed(dice.u64(..));
            let entropy = move |bytes: &mut [u8]| entropy.fill(bytes);
            let cells = Arc::new(Cells::default());
            let handler = rules.build(shard as u16);
            let (config, entropy) = (Arc::new(config()), Box::new(entropy));
            let hub = Hub::in_process(config, me, handler, cells, entropy, &process);
            Node {
                hub,
                links: BTreeMap::new(),
            }
        });
        World {
            plan,
            seed,
            now,
            step: 0,
            origin: 0,
            nodes: nodes.collect(),
            dice,
            links: Vec::new(),
            clients: Vec::new(),
            moves: Vec::new(),
            mail: BTreeMap::new(),
            posting: BTreeSet::new(),
            asked: BTreeMap::new(),
            members: BTreeSet::new(),
            numbers: 0,
            report: Report::default(),
        }
    }

    /// One thing happens.
    fn step(&mut self) {
        self.begin_step();
        match self.dice.usize(..100) {
            0..30 => self.deliver_mail(),
            30..45 => self.carry_out_move(),
            45..55 => self.connect(),
            55..80 => self.say(),
            80..90 => self.join_or_leave(),
            90..93 => self.vanish(),
            _ => self.pass(),
        }
        self.hear();
    }

    fn begin_step(&mut self) {
        self.step += 1;
        self.origin = self.step;
    }

    // ---- the network ------------------------------------------------------------------------------------------------------

    /// Some messages of one pair of hubs arrive.
    fn deliver_mail(&mut self) {
        let pairs: Vec<_> = self.mail.keys().copied().collect();
        if pairs.is_empty() {
            return;
        }
        let pair = pairs[self.dice.usize(..pairs.len())];
        for _ in 0..=self.dice.usize(..4) {
            let Some(queue) = self.mail.get_mut(&pair) else {
                return;
            };
            let Some((_, relay)) = queue.pop_front() else {
                return;
            };
            if queue.is_empty() {
                self.mail.remove(&pair);
            }
            if self.chance(self.plan.loss) {
                continue;
            }
            self.report.relays += 1;
            self.turn(pair.1, |mut turn| turn.relay(&relay));
            self.end_turn(pair.1);
        }
    }

    fn carry_out_move(&mut self) {
        if self.moves.is_empty() {
            return;
        }
        let at = self.dice.usize(..self.moves.len());
        let Move {
            link,
            to,
            mut read,
            step,
        } = self.moves.swap_remove(at);
        self.origin = step;
        self.report.moves += 1;
        self.turn(to, |mut turn| {
            let adopt = |wires: &mut Wires<'_>, conn| wires.adopt(link, conn);
            let moved = Moved {
                peer: [127, 0, 0, 1].into(),
                beyond: None,
                read: &mut read,
                ended: false,
            };
            turn.moved_here(moved, adopt);
        });
        self.end_turn(to);
        self.origin = self.step;
    }

    fn open(&mut self, link: usize, node: usize) {
        self.turn(node, |mut turn| {
            turn.opened([127, 0, 0, 1].into(), |wires, conn| wires.adopt(link, conn))
        });
    }

    /// A new connection of a client, to any hub.
    fn dial(&mut self, client: usize) -> usize {
        let node = self.dice.usize(..self.plan.hubs);
        self.links.push(Link {
            client,
            node,
            conn: None,
            out: Vec::new(),
        });
        let link = self.links.len() - 1;
        self.open(link, node);
        link
    }

    fn send(&mut self, link: usize, mut bytes: Vec<u8>) {
        let Link { node, conn, .. } = self.links[link];
        let Some(conn) = conn else { return };
        self.turn(node, |mut turn| turn.bytes(conn, &mut bytes));
        self.end_turn(node);
    }

    /// The turn of a hub, and what it acts on.
    fn turn<R>(&mut self, node: usize, f: impl FnOnce(Turn<'_, Wires<'_>>) -> R) -> R {
        let Node { hub, links } = &mut self.nodes[node];
        let mut wires = Wires {
            node,
            seed: self.seed,
            origin: self.origin,
            by_conn: links,
            links: &mut self.links,
            mail: &mut self.mail,
            moves: &mut self.moves,
        };
        f(hub.turn(self.now, &mut wires))
    }

    /// Ends a hub's turn, looks whether all is well, and does what it left for the next.
    fn end_turn(&mut self, node: usize) {
        loop {
            self.turn(node, |turn| turn.end(false, |_| Spent::default()));
            self.nodes[node].hub.check_invariants();
            if !self.nodes[node].hub.has_stalled() {
                return;
            }
            self.turn(node, |mut turn| turn.resume());
        }
    }

    fn pass(&mut self) {
        let time = 1 + self.dice.usize(..400) as u64;
        self.advance(time);
    }

    fn advance(&mut self, time_ms: u64) {
        self.now.mono_ms += time_ms;
        self.now.wall_ms += time_ms;
        for node in 0..self.nodes.len() {
            self.end_turn(node);
        }
    }

    // ---- the clients ------------------------------------------------------------------------------------------------------

    /// True in `percent` of all cases.
    fn chance(&mut self, percent: usize) -> bool {
        self.dice.usize(..100) < percent
    }

    fn connect(&mut self) {
        if self.clients.len() >= self.plan.clients {
            return;
        }
        let name = self.clients.len();
        let main = self.dial(name);
        let polls = self.chance(30);
        let client = if polls {
            Client::new(Transport::Polling, main, None)
        } else {
            Client::new(Transport::WebSocket, main, None)
        };
        let hello = client.hello();
        self.clients.push(client);
        self.report.received.push(Vec::new());
        self.send(main, hello);
    }

    /// Any client that can act now.
    fn someone(&mut self) -> Option<usize> {
        let ready = |name: &usize| {
            let client = &self.clients[*name];
            client.joined && !client.gone && !self.posting.contains(name)
        };
        let able: Vec<usize> = (0..self.clients.len()).filter(ready).collect();
        (!able.is_empty()).then(|| able[self.dice.usize(..able.len())])
    }

    fn say(&mut self) {
        let Some(publisher) = self.someone() else {
            return;
        };
        let room = self.dice.usize(..self.plan.rooms);
        self.numbers += 1;
        let number = self.numbers;
        self.report.sent.push(Sent {
            room,
            publisher,
            number,
            step: self.step,
        });
        self.packet(
            publisher,
            &format!("42[\"say-{room}\",{publisher},{number}]"),
        );
    }

    fn join_or_leave(&mut self) {
        let Some(client) = self.someone() else { return };
        let room = self.dice.usize(..self.plan.rooms);
        if self.members.remove(&(client, room)) {
            self.end_stay(client, room);
            self.packet(client, &format!("42[\"leave\",\"room-{room}\"]"));
        } else if !self
            .asked
            .iter()
            .any(|((asker, _), asked)| *asker == client && *asked == room)
        {
            self.numbers += 1;
            self.asked.insert((client, self.numbers), room);
            let id = self.numbers;
            self.packet(client, &format!("42{id}[\"join\",\"room-{room}\"]"));
        }
    }

    /// A WebSocket client goes, in one way or another.
    fn vanish(&mut self) {
        let Some(name) = self.someone() else { return };
        if self.clients[name].transport == Transport::Polling {
            return;
        }
        for room in 0..self.plan.rooms {
            if self.members.remove(&(name, room)) {
                self.end_stay(name, room);
            }
        }
        self.clients[name].gone = true;
        let Link { node, conn, .. } = self.links[self.clients[name].main];
        let Some(conn) = conn else { return };
        match self.dice.usize(..3) {
            0 => self.turn(node, |mut turn| turn.broken(conn)),
            1 => self.turn(node, |mut turn| turn.eof(conn)),
            _ => return self.packet(name, "1"),
        }
        self.end_turn(node);
    }

    /// A packet from a client: a frame, or a POST to any hub.
    fn packet(&mut self, name: usize, text: &str) {
        let bytes = self.clients[name].packet(text);
        if self.clients[name].transport == Transport::WebSocket {
            return self.send(self.clients[name].main, bytes);
        }
        self.posting.insert(name);
        let old = self.clients[name]
            .post
            .filter(|link| self.links[*link].conn.is_some());
        let link = match old {
            Some(link) if self.chance(50) => link,
            _ => self.dial(name),
        };
        self.clients[name].post = Some(link);
        self.send(link, bytes);
    }

    /// Clients take in what came, and go on polling.
    fn hear(&mut self) {
        for link in 0..self.links.len() {
            if self.links[link].out.is_empty() {
                continue;
            }
            let bytes = std::mem::take(&mut self.links[link].out);
            let name = self.links[link].client;
            if self.clients[name].main == link {
                let greeted = self.clients[name].sid.is_some();
                self.clients[name].receive(&bytes);
                self.answer(name, greeted);
            } else if String::from_utf8_lossy(&bytes).ends_with("\r\n\r\nok") {
                self.posting.remove(&name);
            } else {
                let answer = String::from_utf8_lossy(&bytes).into_owned();
                panic!("seed {}: client {name} was answered {answer:?}", self.seed);
            }
        }
    }

    /// What a client does about what it heard.
    fn answer(&mut self, name: usize, greeted: bool) {
        for packet in std::mem::take(&mut self.clients[name].packets) {
            self.on_packet(name, &packet);
        }
        if !greeted && self.clients[name].sid.is_some() {
            self.packet(name, "40");
        }
        if self.clients[name].transport == Transport::Polling && !self.clients[name].gone {
            let Some(poll) = self.clients[name].poll() else {
                return;
            };
            if self.chance(50) || self.links[self.clients[name].main].conn.is_none() {
                self.clients[name].main = self.dial(name);
            }
            self.send(self.clients[name].main, poll);
        }
    }

    fn on_packet(&mut self, name: usize, packet: &str) {
        if let Some(rest) = packet.strip_prefix("43") {
            let id = rest
                .split('[')
                .next()
                .and_then(|id| id.parse().ok())
                .expect("an ack id");
            let room = self
                .asked
                .remove(&(name, id))
                .expect("an ack that was asked for, once");
            if !self.clients[name].gone {
                self.members.insert((name, room));
                // From now on nothing may pass by: the answer says that all hubs know of the join.
                let stays = self.report.stays.entry((name, room)).or_default();
                stays.push(Stay {
                    from: self.step,
                    until: u64::MAX,
                });
            }
        } else if let Some(rest) = packet.strip_prefix("42[\"say-") {
            let numbers: Vec<u64> = rest
                .split(|c: char| !c.is_ascii_digit())
                .filter_map(|digits| digits.parse().ok())
                .collect();
            let [room, publisher, number] = numbers[..] else {
                panic!("not an event of ours: {packet}")
            };
            self.report.received[name].push((room as usize, publisher as usize, number));
        }
    }

    // ---- what must hold ---------------------------------------------------------------------------------------------------

    /// The step in which the oldest of all that is on its way was sent.
    fn oldest_mail(&self) -> u64 {
        let mail = self.mail.values().flatten().map(|(step, _)| *step);
        let moves = self.moves.iter().map(|moving| moving.step);
        mail.chain(moves).min().unwrap_or(u64::MAX)
    }

    /// Who leaves may miss what is still on its way.
    fn end_stay(&mut self, client: usize, room: usize) {
        let until = self.oldest_mail().min(self.step);
        let stays = self.report.stays.get_mut(&(client, room));
        if let Some(stay) = stays.and_then(|stays| stays.last_mut()) {
            stay.until = stay.until.min(until);
        }
    }

    /// Everything arrives and everybody hears everything; then the history is judged.
    fn finish(mut self) -> Report {
        for _ in 0..20 {
            while !self.mail.is_empty() || !self.moves.is_empty() {
                self.begin_step();
                self.deliver_mail();
                self.carry_out_move();
                self.hear();
            }
            self.begin_step();
            self.advance(300);
            self.hear();
        }
        assert!(
            self.mail.is_empty() && self.moves.is_empty(),
            "seed {}: no end of messages",
            self.seed
        );
        assert!(
            self.posting.is_empty(),
            "seed {}: POSTs without answer",
            self.seed
        );
        assert!(
            self.asked.keys().all(|(name, _)| self.clients[*name].gone),
            "seed {}: no ack",
            self.seed
        );
        self.check_counts();
        self.report.check(self.seed);
        self.report
    }

    /// Every hub that knows a room knows how many are in it, everywhere.
    fn check_counts(&self) {
        let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
        for (_, room) in &self.members {
            *wanted.entry(format!("room-{room}")).or_default() += 1;
        }
        let mut here: BTreeMap<String, u64> = BTreeMap::new();
        for node in &self.nodes {
            for (_, room, members, total) in node.hub.room_census() {
                assert_eq!(
                    Some(&total),
                    wanted.get(&room),
                    "seed {}: count of {room}",
                    self.seed
                );
                *here.entry(room).or_default() += members;
            }
        }
        assert_eq!(here, wanted, "seed {}: members of all hubs", self.seed);
    }
}

/// Times are long: this is about messages, not about deadlines.
fn config() -> Config {
    let long = Duration::from_secs(1_000_000);
    let mut config = Config {
        ping_interval: long,
        connect_timeout: long,
        ..Config::default()
    };
    config.limits.keep_alive_timeout = long;
    config
}

/// Clients join rooms; `say-0` goes to `room-0`, and so on.
fn rules(rooms: usize) -> Rules {
    let rule = EventRule::new;
    let say = |room| {
        let action = Action::Rooms {
            room: Some(format!("room-{room}")),
            echo: false,
        };
        (format!("say-{room}"), rule(action))
    };
    let main = NamespaceRules {
        chat: false,
        client_joins: true,
        auto_join: Vec::new(),
        events: (0..rooms).map(say).collect(),
        default_event: rule(Action::Drop),
    };
    Rules {
        namespaces: [("/".to_owned(), main)].into(),
    }
}
