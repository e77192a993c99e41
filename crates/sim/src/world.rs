//! The hubs, what is between them, and the clients around them.

use crate::check::Report;
use crate::client::Client;
use crate::handler::{Diary, Witness};
use crate::listener::Listener;
use crate::network::{Link, Mail, Move, Node, Post, Question, Spending, Wires};
use crate::plan::Plan;
use crate::settings::{config, rules};
use fastrand::Rng;
use hub::bounds::{LETTERS_PER_TURN, LOG_BYTES_PER_TURN};
use hub::config::Config;
use hub::mailbox::{mailbox, waker};
use hub::metrics::Cells;
use hub::{HandlerFactory, Hub, Identity, Moved, Now, Process, Reply, Spent, Turn};
use rules::RulesFactory;
use seeds::Script;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// What one turn may write: its share, and one answer or event on top.
const TURN_BYTES_MAX: usize = 5 * 1024 * 1024;

/// Messages to other hubs that one piece of input may bring beyond the share of its turn: a client that leaves all its rooms.
const LETTERS_BEYOND: usize = 24;

/// Plays one history and checks it; a violation panics with the seed.
pub fn run(plan: Plan, seed: u64) -> Report {
    play(plan, &Script::whole(seed))
}

/// The same of a history that may lack some steps.
pub fn play(plan: Plan, script: &Script) -> Report {
    let mut world = World::new(plan, script);
    for step in 0..plan.steps {
        world.step(step);
    }
    world.dice = script.opening();
    world.finish()
}

pub(crate) struct World {
    script: Script,
    pub(crate) config: Arc<Config>,
    pub(crate) plan: Plan,
    pub(crate) seed: u64,
    pub(crate) dice: Rng,
    /// In which order the kernel is done with the writes of a flush.
    completions: Rng,
    pub(crate) now: Now,
    pub(crate) step: u64,
    /// Step in which a client sent what is being worked on.
    pub(crate) origin: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) clients: Vec<Client>,
    pub(crate) moves: Vec<Move>,
    /// Messages on their way, by pair of hubs, with the step in which they were sent.
    pub(crate) mail: BTreeMap<(usize, usize), Mail>,
    /// Polling clients whose POST was not answered yet.
    pub(crate) posting: BTreeSet<usize>,
    /// Requests to join that were not answered: (client, ack id) and the room, unless the client has left all rooms since.
    pub(crate) asked: BTreeMap<(usize, u64), Option<usize>>,
    pub(crate) members: BTreeSet<(usize, usize)>,
    /// Questions about tokens that nobody answered.
    pub(crate) questions: Vec<Question>,
    pub(crate) diary: Arc<Mutex<Diary>>,
    pub(crate) numbers: u64,
    pub(crate) listeners: Vec<Listener>,
    /// Links on which clients poll.
    pub(crate) polls: BTreeSet<usize>,
    pub(crate) report: Report,
}

const WALL_MS: u64 = 1_750_000_000_000;

impl World {
    fn new(plan: Plan, script: &Script) -> World {
        let seed = script.seed();
        let now = Now {
            mono_ms: 1_000,
            wall_ms: WALL_MS,
        };
        let config = Arc::new(config(&plan, seed));
        let process = Process::new(&config.rates);
        let mut world = World {
            script: script.clone(),
            config,
            plan,
            seed,
            now,
            step: 0,
            origin: 0,
            nodes: Vec::new(),
            dice: script.opening(),
            completions: Rng::with_seed(!seed),
            links: Vec::new(),
            clients: Vec::new(),
            moves: Vec::new(),
            mail: BTreeMap::new(),
            posting: BTreeSet::new(),
            asked: BTreeMap::new(),
            members: BTreeSet::new(),
            questions: Vec::new(),
            diary: Arc::default(),
            numbers: 0,
            listeners: Vec::new(),
            polls: BTreeSet::new(),
            report: Report::default(),
        };
        world.nodes = world.make_hubs(&process);
        world
    }

    /// The hubs of a process.
    pub(crate) fn make_hubs(&mut self, process: &Process) -> Vec<Node> {
        let plan = self.plan;
        let rules = RulesFactory::new(&rules(&plan), &|_| Err("no schemas".to_owned()));
        let rules = rules.expect("rules without schemas");
        let nodes = (0..plan.hubs as u16).map(|shard| {
            let me = Identity {
                node: 1,
                shard,
                shards: plan.hubs as u16,
            };
            let mut entropy = Rng::with_seed(self.dice.u64(..));
            let entropy = Box::new(move |bytes: &mut [u8]| entropy.fill(bytes));
            let cells = Arc::new(Cells::default());
            let witness = Box::new(Witness {
                shard,
                rules: rules.build(shard),
                names_users: false,
                diary: Arc::clone(&self.diary),
                streams: BTreeSet::new(),
            });
            let (settings, published) = (Arc::clone(&self.config), Arc::clone(&cells));
            let hub = Hub::in_process(settings, me, witness, published, entropy, process);
            let loads = Arc::clone(&process.loads);
            let (sender, receiver) = mailbox(waker(|| {}), loads, shard);
            Node {
                hub,
                links: BTreeMap::new(),
                cells,
                sender,
                receiver,
                still_until: 0,
                unread_since: u64::MAX,
                held_since: u64::MAX,
                spending: Spending::default(),
            }
        });
        nodes.collect()
    }

    /// One thing happens.
    fn step(&mut self, step: usize) {
        self.begin_step();
        let Some(dice) = self.script.dice(step) else {
            return;
        };
        self.dice = dice;
        self.wake_up();
        if self.plan.kept && !self.plan.tokens && self.chance(8) {
            self.listen();
        }
        if self.plan.upgrades && self.dice.usize(..150) == 0 {
            self.hand_over();
        }
        match self.dice.usize(..100) {
            0..28 => self.deliver_mail(),
            28..40 => self.carry_out_move(),
            40..48 => self.connect(),
            48..64 => self.say(),
            64..69 => self.burst(),
            69..72 => self.ask(),
            72..74 => self.come_back(),
            74..84 => self.join_or_leave(),
            84..88 => self.read_slowly(),
            88..90 => self.stand_still(),
            90 => self.vanish(),
            91 => self.upgrade(),
            92..95 => self.answer_question(),
            _ => self.pass(),
        }
        self.hear();
    }

    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        self.script
            .tell(|| format!("step {:4}: {}", self.step, what()));
    }

    fn begin_step(&mut self) {
        self.step += 1;
        self.origin = self.step;
    }

    // ---- the network ------------------------------------------------------------------------------------------------------

    /// Some messages of one pair of hubs arrive.
    pub(crate) fn deliver_mail(&mut self) {
        let pairs: Vec<_> = self.mail.keys().copied().collect();
        if pairs.is_empty() {
            return;
        }
        let pair = pairs[self.dice.usize(..pairs.len())];
        for _ in 0..=self.dice.usize(..4) {
            let Some(queue) = self.mail.get_mut(&pair) else {
                return;
            };
            let Some((step, letter)) = queue.pop_front() else {
                return;
            };
            if queue.is_empty() {
                self.mail.remove(&pair);
            }
            if self.chance(self.plan.loss) {
                continue;
            }
            self.report.relays += 1;
            let node = &mut self.nodes[pair.1];
            node.unread_since = node.unread_since.min(step);
            node.sender.send(Post(step, letter));
            self.read_mail(pair.1);
        }
    }

    /// A hub works on its mailbox, unless it stands still.
    fn read_mail(&mut self, node: usize) {
        if self.stands_still(node) {
            return;
        }
        while !self.nodes[node].receiver.is_empty() {
            self.turn(node, |mut turn| {
                turn.mail(
                    |wires| wires.mailbox,
                    |turn, Post(step, letter)| {
                        turn.world().origin = step;
                        turn.letter(&letter);
                    },
                );
            });
            self.end_turn(node);
        }
        self.nodes[node].unread_since = u64::MAX;
    }

    /// Input that a hub has read and keeps for later may be as old as what it works on now.
    fn note_what_is_held(&mut self, node: usize) {
        let (origin, node) = (self.origin, &mut self.nodes[node]);
        node.held_since = match node.hub.held_back() > 0 || node.hub.has_stalled() {
            true => node.held_since.min(origin),
            false => u64::MAX,
        };
    }

    pub(crate) fn stands_still(&self, node: usize) -> bool {
        self.nodes[node].still_until > self.step
    }

    /// A hub does nothing for some steps; the others do not wait for it.
    fn stand_still(&mut self) {
        let node = self.dice.usize(..self.nodes.len());
        // One in four stops for so long that all who send to it must wait.
        let steps = if self.chance(25) { 100 } else { 12 };
        let until = self.step + 1 + self.dice.usize(..steps) as u64;
        self.tell(|| format!("hub {node} stands still until {until}"));
        self.nodes[node].still_until = until;
    }

    /// Hubs whose time to stand still is over find all that came meanwhile, in one turn.
    pub(crate) fn wake_up(&mut self) {
        for node in 0..self.nodes.len() {
            if self.nodes[node].still_until == 0 || self.stands_still(node) {
                continue;
            }
            self.nodes[node].still_until = 0;
            self.read_mail(node);
            for link in 0..self.links.len() {
                let Link { node: at, conn, .. } = self.links[link];
                if let Some(conn) = conn
                    && at == node
                {
                    let mut input = std::mem::take(&mut self.links[link].input);
                    if self.links[link].room.is_none() {
                        self.links[link].slow_since = u64::MAX;
                    }
                    // What the hub keeps of all this may be as old as the oldest of it.
                    let since = std::mem::replace(&mut self.links[link].since, u64::MAX);
                    self.origin = self.origin.min(since);
                    self.turn(node, |mut turn| {
                        turn.writable(conn);
                        turn.bytes(conn, &mut input);
                    });
                }
            }
            self.end_turn(node);
            self.origin = self.step;
        }
    }

    /// Somebody looked at a token.
    fn answer_question(&mut self) {
        if self.questions.is_empty() {
            return;
        }
        let at = self.dice.usize(..self.questions.len());
        let (node, key, step) = self.questions.swap_remove(at);
        if self.stands_still(node) {
            return self.questions.push((node, key, step));
        }
        let claims = hub::claims::Claims {
            uid: "somebody".into(),
            ..hub::claims::Claims::default()
        };
        self.turn(node, |mut turn| {
            turn.answered(key, Reply::Verified(Ok(claims)));
        });
        self.end_turn(node);
    }

    pub(crate) fn carry_out_move(&mut self) {
        if self.moves.is_empty() {
            return;
        }
        let at = self.dice.usize(..self.moves.len());
        if self.stands_still(self.moves[at].to) {
            return;
        }
        let Move {
            link,
            to,
            mut read,
            step,
        } = self.moves.swap_remove(at);
        self.origin = step;
        self.report.moves += 1;
        self.tell(|| format!("connection {link} moves to hub {to}"));
        self.turn(to, |mut turn| {
            let adopt = |wires: &mut Wires<'_>, conn| wires.adopt(link, conn);
            let moved = Moved {
                peer: [127, 0, 0, 1].into(),
                beyond: None,
                relayed: false,
                carried: false,
                new: false,
                secure: false,
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
    pub(crate) fn dial(&mut self, client: usize) -> usize {
        let node = self.dice.usize(..self.plan.hubs);
        let awake = (0..self.plan.hubs).find(|node| !self.stands_still(*node));
        let node = if self.stands_still(node) {
            awake.unwrap_or(node)
        } else {
            node
        };
        self.links.push(Link::new(client, node));
        let link = self.links.len() - 1;
        self.tell(|| format!("client {client} opens connection {link} to hub {node}"));
        self.open(link, node);
        link
    }

    pub(crate) fn send(&mut self, link: usize, mut bytes: Vec<u8>) {
        let Link { node, conn, .. } = self.links[link];
        let Some(conn) = conn else { return };
        if self.stands_still(node) {
            let (step, link) = (self.step, &mut self.links[link]);
            link.since = link.since.min(step);
            return link.input.extend(bytes);
        }
        self.turn(node, |mut turn| turn.bytes(conn, &mut bytes));
        self.end_turn(node);
    }

    /// The turn of a hub, and what it acts on.
    pub(crate) fn turn<R>(&mut self, node: usize, f: impl FnOnce(Turn<'_, Wires<'_>>) -> R) -> R {
        let Node {
            hub,
            links,
            receiver,
            held_since,
            spending,
            ..
        } = &mut self.nodes[node];
        let mut wires = Wires {
            mailbox: receiver,
            questions: &mut self.questions,
            completions: &mut self.completions,
            spending,
            polls: &self.polls,
            node,
            seed: self.seed,
            origin: self.origin.min(*held_since),
            by_conn: links,
            links: &mut self.links,
            mail: &mut self.mail,
            moves: &mut self.moves,
        };
        f(hub.turn(self.now, &mut wires))
    }

    /// Ends a hub's turn, looks whether all is well, and does what it left for the next.
    pub(crate) fn end_turn(&mut self, node: usize) {
        loop {
            self.turn(node, |turn| turn.end(false, |_| Spent::default()));
            self.check_spending(node);
            self.note_what_is_held(node);
            self.nodes[node].hub.check_invariants();
            let broken = self.diary.lock().expect("whole").broken.clone();
            assert!(broken.is_empty(), "seed {}: {broken:?}", self.seed);
            if !self.nodes[node].hub.has_stalled() {
                return;
            }
            self.turn(node, |mut turn| turn.resume());
        }
    }

    /// A turn keeps its share, but for what one piece of input brings that began within it.
    fn check_spending(&mut self, node: usize) {
        let seed = self.seed;
        let spent = std::mem::take(&mut self.nodes[node].spending);
        let written = spent.written;
        assert!(
            written <= TURN_BYTES_MAX,
            "seed {seed}: {written} bytes in one turn"
        );
        self.report.letters_max = self.report.letters_max.max(spent.letters);
        assert!(
            spent.letters <= LETTERS_PER_TURN + LETTERS_BEYOND,
            "seed {seed}: {} messages to other hubs in one turn",
            spent.letters
        );
        self.report.answers_max = self.report.answers_max.max(spent.answers_max);
        assert!(
            spent.answers_max <= LOG_BYTES_PER_TURN,
            "seed {seed}: {} bytes of answers to polls in one flush beside the longest",
            spent.answers_max
        );
    }

    fn pass(&mut self) {
        let time = 1 + self.dice.usize(..400) as u64;
        self.advance(time);
    }

    fn advance(&mut self, time_ms: u64) {
        self.now.mono_ms += time_ms;
        self.now.wall_ms += time_ms;
        for node in 0..self.nodes.len() {
            if !self.stands_still(node) {
                self.turn(node, |mut turn| turn.resume());
                self.end_turn(node);
            }
        }
    }

    // ---- what must hold ---------------------------------------------------------------------------------------------------

    /// The step in which the oldest of all that is on its way was sent.
    pub(crate) fn oldest_mail(&self) -> u64 {
        let mail = self.mail.values().flatten().map(|(step, _)| *step);
        let moves = self.moves.iter().map(|moving| moving.step);
        let links = self.links.iter().map(|link| link.since);
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|node| node.unread_since.min(node.held_since));
        let all = mail.chain(moves).chain(links).chain(nodes);
        all.min().unwrap_or(u64::MAX)
    }

    /// A client that leaves may miss messages that are still on their way.
    pub(crate) fn end_stay(&mut self, client: usize, room: usize) {
        // What a slow client has not read is lost if it goes.
        let slow = self.links[self.clients[client].main].slow_since;
        let until = self.oldest_mail().min(self.step).min(slow);
        let stays = self.report.stays.get_mut(&(client, room));
        if let Some(stay) = stays.and_then(|stays| stays.last_mut()) {
            stay.until = stay.until.min(until);
        }
    }

    /// Everything arrives and everybody hears everything; then the history is judged.
    fn finish(mut self) -> Report {
        self.nodes
            .iter_mut()
            .for_each(|node| node.still_until = node.still_until.min(self.step));
        self.all_come();
        for round in 0..1_000 {
            // Clients that poll two packets at a time need many rounds.
            let enough = if self.seed % 2 == 1 { 200 } else { 20 };
            if round > enough && self.is_quiet() {
                break;
            }
            self.begin_step();
            self.wake_up();
            for link in 0..self.links.len() {
                if self.links[link].room.is_some() {
                    self.read_on(link);
                }
            }
            while !self.questions.is_empty() {
                self.answer_question();
            }
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
            "seed {}: no ack for {:?}",
            self.seed,
            self.asked
        );
        assert!(
            self.clients.iter().all(|client| client.probe.is_none()),
            "seed {}: an upgrade without an end",
            self.seed
        );
        self.check_counts();
        self.check_rounds();
        self.report.check(self.seed);
        self.check_listening();
        self.check_departure();
        self.report
    }

    /// Nothing is on its way, and no hub keeps anything for later.
    fn is_quiet(&self) -> bool {
        self.oldest_mail() == u64::MAX && self.posting.is_empty()
    }

    /// Every hub that knows a room knows how many are in it, everywhere.
    fn check_counts(&self) {
        let mut wanted: BTreeMap<String, u64> = BTreeMap::new();
        for (_, room) in &self.members {
            *wanted.entry(format!("room-{room}")).or_default() += 1;
        }
        for room in self.streamed() {
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

    /// Every round had one result; a complete one missed nobody who was in the room all the time.
    fn check_rounds(&mut self) {
        let diary = self.diary.lock().expect("no handler panicked");
        self.report.rounds = diary.results.len();
        self.report.returns = diary.returns;
        for (round, collected) in &diary.results {
            let got = self.report.questions.iter();
            let got = got.filter(|rounds| rounds.contains(round)).count() as u64;
            let asked = collected.acked + collected.timed_out + collected.gone;
            assert!(
                got <= asked && collected.acked <= got,
                "seed {}: {got} clients were asked, {collected:?}",
                self.seed
            );
            let meant = self.report.meant(diary.rounds[*round as usize - 1]);
            for client in meant.filter(|_| collected.complete) {
                assert!(
                    self.report.questions[client].contains(round),
                    "seed {}: round {round} is complete, and client {client} was not asked",
                    self.seed
                );
            }
        }
    }

    /// Everybody goes: nothing stays behind, neither rounds nor sockets nor messages.
    fn check_departure(&mut self) {
        for name in 0..self.clients.len() {
            if !self.clients[name].gone {
                self.end(name);
            }
        }
        (0..self.listeners.len()).for_each(|at| self.break_off(at));
        for _ in 0..5 {
            self.begin_step();
            while !self.mail.is_empty() {
                self.deliver_mail();
            }
            self.advance(300);
            self.hear();
        }
        let open = self.diary.lock().expect("no handler panicked").open;
        assert_eq!(open, 0, "seed {}: rounds without a result", self.seed);
        for node in &self.nodes {
            let waiting = node.cells.acks_outstanding.load(Ordering::Relaxed);
            assert_eq!(waiting, 0, "seed {}: acks of the gone", self.seed);
        }
    }
}
