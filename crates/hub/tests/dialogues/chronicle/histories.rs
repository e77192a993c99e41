//! Seeded histories of level `cluster`: hubs of several nodes, one Redis that is played, and clients that are cut and come back anywhere. Nodes are
//! killed, Redis is away, and fails over without the last that it took.
//!
//! Checked of each: all get what is said in one order, a socket that goes on has missed nothing and got nothing twice, nobody waits for ever, and
//! nothing is acked that is not stored.

mod keeper;
#[cfg(feature = "faults")]
mod known_faults;
mod people;
mod redis;

use crate::rig::net::{Client, Net};
use fastrand::Rng;
use hub::config::{Config, Offsets, Recover, Recovery};
use hub::{
    Author, Chronicle, ChronicleMail, ConnectRequest, Context, Decision, Emit, Event, Handler,
    Keeping, Keeps, Letter, Piece, Process, Reach, SocketKey, Tidings, Uplink,
};
use keeper::Keeper;
use people::{Asked, Heard, Person, ROOMS, Truth};
use redis::Redis;
use seeds::Script;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const SHARDS: usize = 2;
const WINDOW: Duration = Duration::from_secs(20);
const HISTORIES: u64 = 40;
const STEPS: usize = 900;
const NODES_MAX: usize = 3;
const PEOPLE: usize = 6;
/// Later than all that a client may wait for.
const ROUNDS_MAX: usize = 300;

/// What may go wrong.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    /// Nodes are killed.
    deaths: bool,
    /// Redis takes nothing for a while.
    outages: bool,
    /// Another Redis takes over, without the last changes.
    failovers: bool,
    /// Redis is started anew, with nothing.
    restarts: bool,
    /// The stream keeps only so many entries.
    entries_max: Option<usize>,
    /// Answers to writes get lost: they are written again.
    unheard: bool,
}

/// Does as clients say.
struct Hall;

impl Handler for Hall {
    fn connecting(&mut self, _: &mut Context<'_>, _: &ConnectRequest<'_>) -> Decision {
        Decision::Admit
    }

    fn keeping(&self) -> Arc<Keeping> {
        let keeps = Keeps {
            home: "/".to_owned(),
            ..Keeps::default()
        };
        Arc::new(Keeping::new([("/".to_owned(), Some(keeps))]))
    }

    fn event(&mut self, cx: &mut Context<'_>, socket: SocketKey, event: Event<'_>) {
        let room = event.args.split('"').nth(1).unwrap_or_default();
        match event.name {
            "say" => {
                let said = Emit {
                    author: Author::Client(socket),
                    ..Emit::new("said", event.args)
                };
                let reach = match room {
                    "" => cx.of("/").emit(&said),
                    room => cx.of("/").to(&[room]).emit(&said),
                };
                if reach == Reach::Nobody {
                    let refused = event.ack.map(|ack| cx.ack(ack, "\"refused\"", &[]));
                    return refused.unwrap_or_default();
                }
            }
            "join" => cx.socket(socket).join(room).expect("a good name"),
            "leave" => cx.socket(socket).leave(room),
            other => panic!("{other}?"),
        }
        if let Some(ack) = event.ack {
            cx.ack(ack, "", &[]);
        }
    }
}

struct Node {
    net: Net,
    keeper: Keeper,
    uplink: Arc<Uplink>,
}

#[derive(Clone, Debug, Default)]
struct Counts {
    recovered: usize,
    /// By reason.
    refused: BTreeMap<&'static str, usize>,
    renewed: usize,
    got: usize,
    misses: usize,
}

struct World<'a> {
    script: &'a Script,
    trouble: Trouble,
    dice: Rng,
    now_ms: u64,
    redis: Redis,
    /// By their numbers, from 0; a dead one's place stays empty.
    nodes: Vec<Option<Node>>,
    people: Vec<Person>,
    /// Connections that their clients gave up, and of which nodes do not know.
    ghosts: Vec<(usize, Client)>,
    /// The room of each message.
    rooms: Vec<usize>,
    acks: u64,
    away_until_ms: u64,
    counts: Counts,
}

fn config() -> Config {
    let recover = Recover {
        window: WINDOW,
        offsets: Offsets::All,
        goes_abroad: false,
        chronicle: true,
        replicas: 0,
    };
    Config {
        recovery: Recovery {
            namespaces: [("/".to_owned(), Some(recover))].into(),
        },
        ping_interval: Duration::from_secs(2),
        ping_timeout: Duration::from_secs(3),
        ..Config::default()
    }
}

impl<'a> World<'a> {
    fn new(script: &'a Script, trouble: Trouble) -> Self {
        let entries_max = trouble.entries_max.unwrap_or(usize::MAX);
        let mut world = Self {
            script,
            trouble,
            dice: script.opening(),
            now_ms: 1_000,
            redis: Redis::new(WINDOW.as_millis() as u64, entries_max),
            nodes: Vec::new(),
            people: (0..PEOPLE).map(|_| Person::default()).collect(),
            ghosts: Vec::new(),
            rooms: vec![0],
            acks: 0,
            away_until_ms: 0,
            counts: Counts::default(),
        };
        world.redis.at(world.wall_ms());
        (0..2).for_each(|_| world.start_node());
        world
    }

    /// Says what happens in a history that is played again.
    fn tell(&self, what: impl FnOnce() -> String) {
        let (now_ms, turn) = (self.now_ms, self.redis.turn);
        self.script
            .tell(|| format!("{now_ms:6} ms, turn {turn:4}: {}", what()));
    }

    fn wall_ms(&self) -> u64 {
        crate::rig::WALL_MS + self.now_ms - 1_000
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.dice.usize(..100) < percent
    }

    fn start_node(&mut self) {
        let number = self.nodes.len() as u16 + 1;
        let config = config();
        let chronicle = Arc::new(Chronicle::new(["/".to_owned()], 1 << 20));
        let mut process = Process::new(&config.rates);
        let uplink = Arc::new(Uplink::new(1 << 20, Duration::ZERO));
        uplink.reads_spots(true);
        process.uplink = Some(Arc::clone(&uplink));
        process.outlets.chronicle = Some(Arc::clone(&chronicle));
        let mut net = Net::in_cluster(SHARDS, &config, number, &process, |_| Box::new(Hall));
        net.pass(self.now_ms - 1_000);
        let mail = ChronicleMail::new(&process, SHARDS as u16);
        let (node, now_ms) = (u64::from(number), self.now_ms);
        let keeper = Keeper::begin(node, &chronicle, mail, &self.redis, now_ms);
        self.tell(|| format!("node {} begins", number - 1));
        self.nodes.push(Some(Node {
            net,
            keeper,
            uplink,
        }));
    }

    fn alive(&self) -> Vec<usize> {
        let all = self.nodes.iter().enumerate();
        let alive = all.filter(|(_, node)| node.is_some());
        alive.map(|(at, _)| at).collect()
    }

    fn node(&mut self, at: usize) -> &mut Node {
        self.nodes[at].as_mut().expect("a node that lives")
    }

    // ---- what happens -----------------------------------------------------------------------------------------------------

    fn step(&mut self, step: usize) {
        let Some(dice) = self.script.dice(step) else {
            return;
        };
        self.dice = dice;
        self.redis.moment += 1;
        let at = self.dice.usize(..PEOPLE);
        match self.dice.usize(..100) {
            0..55 => (0..1 + self.dice.usize(..16)).for_each(|_| self.pump()),
            55..70 => self.says(at),
            70..75 => self.moves(at),
            75..78 => self.is_cut(at),
            78..82 => {
                let away = (0..PEOPLE).find(|at| self.people[*at].place.is_none());
                self.comes(away.unwrap_or(at));
            }
            82..98 => {
                let ms = [1, 20, 150, 400][self.dice.usize(..4)];
                self.pass(ms);
            }
            98 => self.pass(2_500),
            _ => self.disturb(),
        }
        if self.chance(70) {
            self.hear_all();
        }
    }

    /// Something goes one step further, on any node.
    fn pump(&mut self) {
        let alive = self.alive();
        let at = alive[self.dice.usize(..alive.len())];
        let (kind, most) = (self.dice.usize(..8), 1 + self.dice.usize(..16));
        let hears = !self.trouble.unheard || self.dice.usize(..8) > 0;
        let (dice, now_ms) = (self.dice.usize(..64), self.now_ms);
        let node = self.nodes[at].as_mut().expect("it lives");
        let (keeper, redis) = (&mut node.keeper, &mut self.redis);
        keeper.sort(now_ms);
        match kind {
            0 | 1 => keeper.write(redis, most, hears),
            2 => keeper.read(redis, most, now_ms),
            3 => keeper.claim(redis, dice, most, now_ms),
            4 | 5 => {
                let full = node.keeper.letters.iter_mut();
                let mut full: Vec<_> = full.filter(|(_, queue)| !queue.is_empty()).collect();
                if !full.is_empty() {
                    let (shard, queue) = full.swap_remove(dice % full.len());
                    let letter = queue.pop_front().expect("it is not empty");
                    node.net.deliver(*shard, &letter);
                }
            }
            _ => {
                let routes = node.net.routes();
                if !routes.is_empty() {
                    node.net.carry_one(routes[dice % routes.len()]);
                }
            }
        }
        self.carry_parcels(at);
    }

    /// Other nodes are told of nothing: what must be known is in the stream.
    fn carry_parcels(&mut self, at: usize) {
        let counts = &mut self.counts.refused;
        let node = self.nodes[at].as_mut().expect("a node that lives");
        for cause in node.net.refusals() {
            *counts.entry(cause).or_default() += 1;
        }
        for parcel in node.net.parcels() {
            node.uplink.took(&parcel);
            let answers = parcel.pieces().filter_map(|piece| match piece {
                Piece::Hold { ticket, .. } => Some(Tidings::Confirmed { ticket }),
                Piece::Letter {
                    round: Some(round), ..
                } => Some(Tidings::Posted {
                    round,
                    nodes: Vec::new(),
                }),
                _ => None,
            });
            let answers: Vec<Tidings> = answers.collect();
            for answer in answers {
                node.net.deliver(parcel.shard(), &Letter::from(answer));
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        for at in self.alive() {
            self.node(at).net.pass(ms);
            self.carry_parcels(at);
        }
        self.redis.at(self.wall_ms());
        if self.now_ms >= self.away_until_ms {
            self.redis.is_away = false;
        }
    }

    fn disturb(&mut self) {
        let trouble = self.trouble;
        let alive = self.alive();
        match self.dice.usize(..5) {
            0 if alive.len() < NODES_MAX => self.start_node(),
            1 | 2 if trouble.deaths && alive.len() > 1 => {
                let victim = alive[self.dice.usize(..alive.len())];
                self.dies(victim);
            }
            3 if trouble.outages => {
                self.redis.is_away = true;
                self.away_until_ms = self.now_ms + self.dice.u64(..8_000);
                self.tell(|| "Redis is away".to_owned());
            }
            4 if trouble.failovers || trouble.restarts => self.fail_over(),
            _ => {}
        }
    }

    fn dies(&mut self, at: usize) {
        self.tell(|| format!("node {at} dies"));
        self.nodes[at] = None;
        let moment = self.redis.moment;
        for person in &mut self.people {
            if person.place.is_some_and(|(node, _)| node == at) {
                person.is_cut(moment);
            }
        }
        self.ghosts.retain(|(node, _)| *node != at);
    }

    fn fail_over(&mut self) {
        let is_empty = self.trouble.restarts && (!self.trouble.failovers || self.chance(30));
        let lacks = (!is_empty).then(|| self.dice.usize(..5));
        let behind_ms = [0, 0, 300, 3_000][self.dice.usize(..4)];
        self.redis.fail_over(lacks, behind_ms);
        self.tell(|| format!("Redis fails over without {lacks:?} changes"));
    }

    // ---- clients ------------------------------------------------------------------------------------------------------------

    fn comes(&mut self, at: usize) {
        if self.people[at].place.is_some() {
            return;
        }
        let alive = self.alive();
        let node = alive[self.dice.usize(..alive.len())];
        let shard = self.dice.usize(..SHARDS);
        let hello = self.people[at].hello(node, self.redis.moment);
        self.tell(|| format!("client {at} comes to shard {shard} of node {node}: {hello}"));
        let net = &mut self.node(node).net;
        let client = net.websocket(shard, "");
        net.say(client, &hello);
        self.people[at].place = Some((node, client));
        self.carry_parcels(node);
    }

    /// With an ack half of the time.
    fn packet(&mut self, at: usize, text: &str, asked: Option<Asked>) {
        let Some((node, client)) = self.people[at].place else {
            return;
        };
        let id = match asked {
            Some(asked) => {
                self.acks += 1;
                self.people[at].waits.insert(self.acks, asked);
                self.acks.to_string()
            }
            None => String::new(),
        };
        self.tell(|| format!("client {at} at {node}: 42{id}{text}"));
        let net = &mut self.node(node).net;
        if net.is_open(client) {
            net.say(client, &format!("42{id}{text}"));
        }
        self.carry_parcels(node);
    }

    fn says(&mut self, at: usize) {
        if !self.people[at].is_greeted {
            return;
        }
        let room = self.dice.usize(..ROOMS.len());
        let message = self.rooms.len() as u64;
        self.rooms.push(room);
        let text = format!("[\"say\",\"{}\",\"#{message}#\"]", ROOMS[room]);
        let asked = self.chance(50).then_some(Asked::Said(message));
        self.packet(at, &text, asked);
    }

    fn moves(&mut self, at: usize) {
        let room = 1 + self.dice.usize(..ROOMS.len() - 1);
        let Some((node, _)) = self.people[at].place else {
            return;
        };
        if !self.people[at].is_greeted {
            return;
        }
        if self.people[at].is_in(room) {
            let there = self.nodes[node].as_ref().expect("it lives");
            let is_quiet = there.net.routes().is_empty()
                && there.keeper.letters.values().all(|queue| queue.is_empty());
            let until = if is_quiet { there.keeper.read_turn } else { 0 };
            self.people[at].leaves(room, until);
            self.packet(at, &format!("[\"leave\",\"{}\"]", ROOMS[room]), None);
        } else {
            self.people[at].asks_for(room);
            let text = format!("[\"join\",\"{}\"]", ROOMS[room]);
            self.packet(at, &text, Some(Asked::Join(room)));
        }
    }

    fn is_cut(&mut self, at: usize) {
        let Some((node, client)) = self.people[at].place else {
            return;
        };
        let moment = self.redis.moment;
        self.people[at].is_cut(moment);
        let knows = self.chance(50);
        self.tell(|| format!("client {at} is cut from {node}, which knows it: {knows}"));
        match knows {
            true => self.breaks(node, client),
            false => self.ghosts.push((node, client)),
        }
    }

    fn breaks(&mut self, node: usize, client: Client) {
        let net = &mut self.node(node).net;
        if net.is_open(client) {
            net.break_off(client);
        }
        self.carry_parcels(node);
    }

    fn hear_all(&mut self) {
        (0..PEOPLE).for_each(|at| self.hear(at));
    }

    fn hear(&mut self, at: usize) {
        let Some((node, client)) = self.people[at].place else {
            return;
        };
        let there = self.nodes[node].as_mut().expect("it lives");
        let texts = there.net.texts_before_end(client);
        let mut is_open = !there.net.has_ended(client);
        for text in texts {
            if text != "2" {
                self.tell(|| format!("client {at} hears {text}"));
            }
            let truth = Truth {
                fates: &self.redis.fates,
                rooms: &self.rooms,
                turn: self.redis.turn,
            };
            let heard = self.people[at].hear(&text, &truth);
            match heard.unwrap_or_else(|broken| panic!("client {at} {broken}")) {
                Heard::Nothing => {}
                Heard::Ping => {
                    let net = &mut self.node(node).net;
                    if net.is_open(client) {
                        net.say(client, "3");
                    }
                }
                Heard::Recovered => self.counts.recovered += 1,
                Heard::Renewed => self.counts.renewed += 1,
                Heard::Ended => is_open = false,
            }
        }
        if !is_open {
            self.tell(|| format!("client {at} is sent away by {node}"));
            self.breaks(node, client);
            let moment = self.redis.moment;
            self.people[at].is_cut(moment);
        }
        self.carry_parcels(node);
    }

    // ---- the end ------------------------------------------------------------------------------------------------------------

    fn finish(&mut self) {
        (self.redis.is_away, self.away_until_ms) = (false, 0);
        (self.trouble, self.dice) = (Trouble::default(), self.script.opening());
        self.rest();
        // What is said now is for all.
        (0..PEOPLE).for_each(|at| self.says(at));
        self.rest();
        let truth = Truth {
            fates: &self.redis.fates,
            rooms: &self.rooms,
            turn: self.redis.turn,
        };
        for (at, person) in self.people.iter().enumerate() {
            assert!(person.is_greeted, "client {at} waits to be let in");
            // One that cannot come back is not told of what it missed.
            let checked = match person.pid {
                Some(_) => person.check_whole(&truth),
                None => person.check_order(&truth),
            };
            checked.unwrap_or_else(|broken| panic!("client {at} {broken}"));
            self.counts.got += person.life.got.len();
        }
        for (node, client) in &self.ghosts {
            let node = self.nodes[*node].as_ref().expect("it lives");
            assert!(!node.net.is_open(*client), "{client:?} is there for ever");
        }
        let nodes = self.nodes.iter().flatten();
        self.counts.misses += nodes.map(|node| node.keeper.misses).sum::<usize>();
    }

    /// Everybody comes, and all that is under way arrives.
    fn rest(&mut self) {
        for round in 0..ROUNDS_MAX {
            self.redis.moment += 1;
            (0..PEOPLE).for_each(|at| self.comes(at));
            (0..200).for_each(|_| self.pump());
            self.hear_all();
            self.pass(100);
            let is_idle =
                |node: &Node| node.keeper.is_idle(&self.redis) && node.net.routes().is_empty();
            let is_quiet = self.nodes.iter().flatten().all(is_idle);
            let all_in = self
                .people
                .iter()
                .all(|one| one.is_greeted && one.waits.is_empty());
            // By then ghosts have not answered.
            if is_quiet && all_in && round > 100 {
                return;
            }
        }
        panic!("there is no end");
    }
}

fn play(name: &str, trouble: Trouble) -> Counts {
    let all = seeds::play(name, HISTORIES, STEPS, |script| {
        let mut world = World::new(script, trouble);
        (0..STEPS).for_each(|step| world.step(step));
        world.finish();
        world.counts
    });
    let sum = |of: fn(&Counts) -> usize| all.iter().map(of).sum();
    let mut refused = BTreeMap::new();
    for (cause, count) in all.iter().flat_map(|one| &one.refused) {
        *refused.entry(*cause).or_default() += count;
    }
    let counts = Counts {
        refused,
        recovered: sum(|one| one.recovered),
        renewed: sum(|one| one.renewed),
        got: sum(|one| one.got),
        misses: sum(|one| one.misses),
    };
    println!("{name}: {counts:?}");
    let is_many = all.len() as u64 >= HISTORIES;
    assert!(!is_many || counts.recovered > 300, "{name}: {counts:?}");
    counts
}

#[test]
fn who_is_cut_comes_back_to_any_node() {
    let counts = play("cuts", Trouble::default());
    assert_eq!(counts.misses, 0);
}

#[test]
fn who_comes_back_from_a_dead_node_has_missed_nothing() {
    let counts = play(
        "deaths",
        Trouble {
            deaths: true,
            unheard: true,
            ..Trouble::default()
        },
    );
    assert_eq!(counts.misses, 0);
}

#[test]
fn who_comes_back_while_redis_is_away_is_told_nothing_wrong() {
    play(
        "outages",
        Trouble {
            deaths: true,
            outages: true,
            unheard: true,
            ..Trouble::default()
        },
    );
}

#[test]
fn who_comes_back_after_a_failover_is_told_what_is_lost() {
    play(
        "failovers",
        Trouble {
            deaths: true,
            outages: true,
            failovers: true,
            restarts: true,
            unheard: true,
            ..Trouble::default()
        },
    );
}

#[test]
fn who_comes_back_to_a_stream_that_is_too_short_is_told() {
    play(
        "a short stream",
        Trouble {
            deaths: true,
            outages: true,
            entries_max: Some(12),
            ..Trouble::default()
        },
    );
}
