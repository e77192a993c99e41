//! A backend between clients and workers that are played, on a clock that is played.

mod check;
mod client;
mod process;
mod upgrade;

use backend::proto::command::What as Order;
use backend::proto::item::What;
use backend::proto::{self, FromWorker, ToWorker};
use backend::{Backend, Frame, Link, Name, Settings};
use client::{Client, Handled};
use fastrand::Rng;
use process::Process;
use prost::Message;
use seeds::Script;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What may go wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct Trouble {
    pub cuts: bool,
    pub deaths: bool,
    pub stalls: bool,
    pub leaves: bool,
    /// Some events end their workers.
    pub poison: bool,
    /// Another process goes on with what this one knows.
    pub upgrades: bool,
    /// Clients come back to the ids that they had.
    pub returns: bool,
}

pub struct Play<'a> {
    script: &'a Script,
    seed: u64,
    rng: Rng,
    now: u64,
    ticked: u64,
    trouble: Trouble,
    backend: Backend,
    clients: BTreeMap<Name, Client>,
    processes: Vec<Process>,
    links: u64,
    instances: u64,
    settings: Settings,
    /// Counted by backends of before.
    events: u64,
}

/// Steps that may be left out of a history that fails.
pub const STEPS: usize = 1_000;
const TROUBLE_UNTIL: u64 = 8_000;
/// Where nothing is under way, time passes in larger steps.
const QUIET_TICK: u64 = 250;
/// Ends that an event is there at, alone and in all, before it is refused.
const ALONE: usize = 2;
const MET: usize = 16;
/// The number of each client's event that ends its worker, where there is poison.
const POISON: u64 = 7;

/// As the gateway reads it from the stream.
fn read(message: &FromWorker) -> Frame {
    Frame::decode(message.encode_to_vec().into()).expect("a message")
}

fn number_of(event: &proto::Event) -> u64 {
    let number = std::str::from_utf8(&event.args).expect("text");
    number.parse().expect("a number")
}

/// The connection of its client that asks.
fn life_in(connect: &proto::Connect) -> usize {
    let life = std::str::from_utf8(&connect.auth).expect("text");
    life.parse().expect("a number")
}

fn client_of<'a>(clients: &'a mut BTreeMap<Name, Client>, socket: &str) -> &'a mut Client {
    let name = Name::parse(socket).expect("a name");
    clients.get_mut(&name).expect("a client")
}

impl<'a> Play<'a> {
    pub fn new(script: &'a Script, trouble: Trouble) -> Self {
        let (seed, mut rng) = (script.seed(), script.opening());
        let settings = Settings {
            window_bytes: [600, 4_000, 1 << 20][rng.usize(..3)],
            silent_after_ms: 1_000,
            stalled_after_ms: 1_500,
            answer_timeout_ms: 3_000,
            socket_bytes_max: [2_000, 64 << 10][rng.usize(..2)],
            ..Settings::default()
        };
        let mut play = Self {
            script,
            seed,
            now: 1_000,
            ticked: 0,
            trouble,
            backend: Backend::new(settings.clone()),
            clients: BTreeMap::new(),
            processes: Vec::new(),
            links: 0,
            instances: 0,
            settings,
            rng,
            events: 0,
        };
        for _ in 0..play.rng.usize(1..4) {
            play.start_process();
        }
        play
    }

    fn start_process(&mut self) {
        self.instances += 1;
        let process = Process {
            instance: self.instances,
            life: 0,
            link: None,
            welcomed: false,
            down: VecDeque::new(),
            up: VecDeque::new(),
            received: 0,
            begun: 0,
            open: BTreeSet::new(),
            rows: Vec::new(),
            told: 0,
            announces: self.rng.bool(),
            announced: 0,
            inbox: VecDeque::new(),
            commands: 0,
            kept: VecDeque::new(),
            owes: Vec::new(),
            decides: Vec::new(),
            sockets: BTreeMap::new(),
            stalled_until: 0,
            deaf_until: 0,
            back_at: self.now,
            leaving: false,
        };
        self.processes.push(process);
    }

    /// Its shard ends what workers ended.
    fn end_clients(&mut self) {
        let due = |client: &Client| client.life.ends_at.is_some_and(|at| at <= self.now);
        let due = self.clients.iter().filter(|(_, client)| due(client));
        let due: Vec<Name> = due.map(|(name, _)| *name).collect();
        due.into_iter().for_each(|name| self.leave(name));
    }

    /// The handlers of one of its sockets hear of its end before the gateway does: another socket of its session ended, or they ended it themselves.
    fn end_one(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let at = self.rng.usize(..process.sockets.len().max(1));
        let Some((socket, life)) = process.sockets.iter().nth(at) else {
            return;
        };
        let (socket, life) = (socket.clone(), *life);
        let name = Name::parse(&socket).expect("a name");
        let client = self.clients.get_mut(&name).expect("a client");
        if client.life.admitted != Some(true) || client.past.len() != life {
            return;
        }
        process.sockets.remove(&socket);
        client.life.gone_heard += 1;
        client.life.ends_at = Some(self.now + self.rng.u64(..30));
    }

    pub fn run(&mut self) {
        for step in 0.. {
            if self.now >= TROUBLE_UNTIL {
                break;
            }
            if let Some(dice) = self.script.dice(step) {
                self.rng = dice;
                self.clients_act();
                self.make_trouble();
            }
            self.step();
        }
        self.rng = self.script.opening();
        if self.processes.iter().all(|process| process.leaving) {
            self.start_process();
        }
        for process in &mut self.processes {
            process.stalled_until = 0;
            process.deaf_until = 0;
        }
        // All that is under way comes to its end, then everybody goes.
        (0..900).for_each(|_| self.step());
        let names: Vec<Name> = self.clients.keys().copied().collect();
        names.into_iter().for_each(|name| self.leave(name));
        (0..300).for_each(|_| self.step());
    }

    fn step(&mut self) {
        self.now += self.rng.u64(1..20);
        if !self.backend.is_quiet() || self.now >= self.ticked + QUIET_TICK {
            self.ticked = self.now;
            self.backend.tick(self.now);
        }
        for at in 0..self.processes.len() {
            self.attach(at);
            self.talk(at);
        }
        self.carry_out();
        self.end_clients();
        self.end_links();
    }

    // ---- workers ------------------------------------------------------------------------------------------------------------

    fn make_trouble(&mut self) {
        let Trouble {
            cuts,
            deaths,
            stalls,
            leaves,
            poison: _,
            upgrades,
            returns: _,
        } = self.trouble;
        if upgrades && self.rng.u16(..1_000) < 5 {
            self.upgrade();
        }
        if self.processes.len() < 4 && self.rng.u8(..) < 4 {
            self.start_process();
        }
        if self.processes.is_empty() {
            return;
        }
        let at = self.rng.usize(..self.processes.len());
        let dice = self.rng.u16(..1_000);
        match dice {
            0..15 if cuts => self.cut(at),
            15..20 if deaths => {
                self.cut(at);
                self.processes.remove(at);
            }
            20..25 if stalls => {
                self.processes[at].stalled_until = self.now + self.rng.u64(100..2_500);
            }
            25..30 if stalls => {
                self.processes[at].deaf_until = self.now + self.rng.u64(100..4_000);
            }
            30..35 if leaves => self.processes[at].leaving = true,
            35..55 if leaves => self.end_one(at),
            _ => {}
        }
    }

    /// What is under way in either direction is lost from some point on.
    fn cut(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Some(link) = process.link.take() else {
            return;
        };
        let (down, up) = (process.down.len(), process.up.len());
        process.down.truncate(self.rng.usize(..=down));
        let arrives = self.rng.usize(..=up);
        let frames: Vec<_> = process.up.drain(..).take(arrives).collect();
        // Some of it arrives before the end is known.
        while let Some((_, message)) = self.processes[at].down.pop_front() {
            self.get(at, message);
        }
        for (_, frame) in frames {
            let _ = self.backend.received(self.now, link, read(&frame));
        }
        self.backend.detached(self.now, link);
        self.processes[at].back_at = self.now + self.rng.u64(..900);
    }

    fn attach(&mut self, at: usize) {
        let process = &mut self.processes[at];
        if process.link.is_some() || self.now < process.back_at.max(process.stalled_until) {
            return;
        }
        self.links += 1;
        let link = Link(self.links);
        let hello = proto::Hello {
            backend: "kitchen".to_owned(),
            instance: process.instance.to_string(),
            received: process.received,
            resumes: process.welcomed,
            announces: process.announces,
            ..proto::Hello::default()
        };
        let welcome = self
            .backend
            .attach(self.now, link, &hello)
            .expect("welcome");
        let process = &mut self.processes[at];
        process.link = Some(link);
        process.down.clear();
        process.up.clear();
        if process.welcomed && !welcome.resumed {
            process.life += 1;
            process.received = 0;
            process.begun = 0;
            process.open.clear();
            process.told = 0;
            process.announced = 0;
            process.commands = 0;
            process.kept.clear();
            process.inbox.clear();
            process.owes.clear();
            process.decides.clear();
            process.sockets.clear();
        }
        process.welcomed = true;
        // Some repeat more than they need.
        if self.rng.bool() {
            process
                .kept
                .retain(|(number, _)| *number > welcome.commands);
        }
        process.tell_all();
        let (handled, beside) = process.done();
        let frame = FromWorker {
            first: process.kept.front().map_or(0, |(number, _)| *number),
            commands: process.kept.iter().map(|kept| kept.1.clone()).collect(),
            handled,
            beside,
            begun: process.begun.max(process.announced),
            ..FromWorker::default()
        };
        process.up.push_back((self.now, frame));
    }

    fn talk(&mut self, at: usize) {
        let Some(link) = self.processes[at].link else {
            return;
        };
        while let Some(message) = self.backend.poll(self.now, link) {
            let due = self.now + self.rng.u64(..5);
            let message = ToWorker::decode(message).expect("a message");
            self.note_sent(at, &message);
            self.processes[at].down.push_back((due, message));
        }
        let now = self.now;
        while let Some((_, frame)) = self.processes[at].up.pop_front_if(|up| up.0 <= now) {
            if self.backend.received(now, link, read(&frame)).is_err() {
                assert!(
                    self.trouble.stalls || self.trouble.leaves,
                    "seed {}: a worker in order was sent away",
                    self.seed
                );
            }
        }
        if self.now < self.processes[at].stalled_until {
            return;
        }
        while let Some((_, message)) = self.processes[at].down.pop_front_if(|down| down.0 <= now) {
            self.get(at, message);
        }
        self.work(at);
    }

    fn note_sent(&mut self, at: usize, message: &ToWorker) {
        let process = &self.processes[at];
        let life = (process.instance, process.life);
        let clients = &mut self.clients;
        for item in &message.items {
            let (had_by, had_alone) = match item.what.as_ref().expect("an item") {
                What::Connect(connect) => {
                    let client = client_of(clients, &connect.socket);
                    let life = client.life_mut(life_in(connect));
                    (&mut life.had_by, &mut life.had_alone)
                }
                What::Event(event) => {
                    let client = client_of(clients, &event.socket);
                    let number = number_of(event);
                    let had_by = client.had_by.entry(number).or_default();
                    (had_by, client.had_alone.entry(number).or_default())
                }
                _ => continue,
            };
            had_by.insert(life);
            if item.alone {
                had_alone.insert(life);
            }
        }
    }

    fn get(&mut self, at: usize, message: ToWorker) {
        let process = &mut self.processes[at];
        process
            .kept
            .retain(|(number, _)| *number > message.commands);
        for (item, number) in message.items.into_iter().zip(message.first..) {
            assert_eq!(number, process.received + 1, "seed {}: a gap", self.seed);
            process.received = number;
            process.inbox.push_back(item);
        }
    }

    /// Handles some of what it has, and says so.
    fn work(&mut self, at: usize) {
        let deaf = self.now < self.processes[at].deaf_until;
        let take = if deaf { 0 } else { self.rng.usize(..6) };
        let mut commands = Vec::new();
        for _ in 0..take {
            let process = &mut self.processes[at];
            let next = process.inbox.front();
            if next.is_some_and(|item| item.alone) && process.announces {
                let fresh = process.announced <= process.begun;
                process.announced = process.begun + 1;
                if fresh {
                    break;
                }
            }
            let Some(item) = process.inbox.pop_front() else {
                break;
            };
            process.begun += 1;
            // Some take longer than those behind them.
            if !item.alone && self.rng.u8(..) < 60 {
                process.open.insert(process.begun);
            }
            if self.is_poison(&item) {
                self.cut(at);
                self.processes.remove(at);
                self.start_process();
                return;
            }
            self.handle(at, item, &mut commands);
        }
        self.finish_some(at, deaf);
        let process = &mut self.processes[at];
        if !deaf && self.rng.bool() {
            commands.append(&mut process.decides);
            let owes = process.owes.drain(..);
            commands.extend(owes.map(|(socket, ack)| {
                Order::Ack(proto::Ack {
                    socket,
                    ack,
                    ..proto::Ack::default()
                })
            }));
        }
        let first = process.commands + 1;
        for what in commands {
            process.commands += 1;
            let command = proto::Command {
                what: Some(what),
                ..proto::Command::default()
            };
            process.kept.push_back((process.commands, command));
        }
        let (handled, beside) = process.done();
        let fresh = process.kept.iter().filter(|(number, _)| *number >= first);
        let frame = FromWorker {
            handled,
            beside,
            begun: process.begun.max(process.announced),
            first,
            commands: fresh.map(|kept| kept.1.clone()).collect(),
            leaving: process.leaving,
            ..FromWorker::default()
        };
        let due = self.now + self.rng.u64(..5);
        process.up.push_back((due, frame));
    }

    fn finish_some(&mut self, at: usize, deaf: bool) {
        let process = &mut self.processes[at];
        let all: Vec<u64> = process.open.iter().copied().collect();
        for number in all {
            if deaf || self.rng.u8(..) < 200 {
                continue;
            }
            process.open.remove(&number);
            if number <= process.told {
                Process::row(&mut process.rows, number);
            }
        }
    }

    fn is_poison(&self, item: &proto::Item) -> bool {
        let number = match &item.what {
            Some(What::Event(event)) => number_of(event),
            _ => 0,
        };
        self.trouble.poison && number == POISON
    }

    fn handle(&mut self, at: usize, item: proto::Item, commands: &mut Vec<Order>) {
        let process = &mut self.processes[at];
        let marked = item.redelivered;
        match item.what.expect("an item") {
            What::Connect(connect) => {
                let admit = self.rng.u8(..) > 20;
                let life = life_in(&connect);
                if admit {
                    let before = process.sockets.insert(connect.socket.clone(), life);
                    assert_eq!(before, None, "seed {}: the life before goes on", self.seed);
                }
                let decision = Order::Decision(proto::Decision {
                    socket: connect.socket,
                    admit,
                    ..proto::Decision::default()
                });
                // Some have to ask somebody first.
                if self.rng.bool() {
                    commands.push(decision);
                } else {
                    process.decides.push(decision);
                }
            }
            What::Resume(resume) => {
                let connect = resume.connect.expect("what the client said");
                let life = life_in(&connect);
                assert_eq!(process.sockets.insert(connect.socket, life), None);
            }
            What::Event(event) => {
                let name = Name::parse(&event.socket).expect("a name");
                let (at, life) = self.clients[&name].life_of(number_of(&event));
                let known = process.sockets.get(&event.socket);
                assert!(
                    known.map_or(life.ends_at.is_some(), |known| *known == at),
                    "seed {}: an event of a socket that this worker does not know: life {at}, not {known:?}",
                    self.seed
                );
                let handled = Handled {
                    number: number_of(&event),
                    marked,
                    by: (process.instance, process.life),
                };
                let client = self.clients.get_mut(&name).expect("a client");
                client.handled.push(handled);
                if event.ack != 0 && self.rng.u8(..) > 10 {
                    process.owes.push((event.socket, event.ack));
                }
            }
            What::Gone(gone) => self.hear_end(at, &gone),
            What::Part(proto::Part { socket }) => {
                if process.sockets.remove(&socket).is_none() {
                    commands.push(Order::Ended(proto::Ended { socket }));
                }
            }
            What::Answers(_)
            | What::Found(_)
            | What::Failed(_)
            | What::Told(_)
            | What::Counted(_)
            | What::Upgraded(_)
            | What::Opening(_)
            | What::Moved(_)
            | What::NodeGone(_) => {}
        }
    }

    fn hear_end(&mut self, at: usize, gone: &proto::Gone) {
        let process = &mut self.processes[at];
        let is_of = |order: &Order| matches!(order, Order::Decision(decision) if decision.socket == gone.socket);
        process.decides.retain(|order| !is_of(order));
        if let Some(life) = process.sockets.remove(&gone.socket) {
            assert_eq!(gone.reason, life.to_string(), "seed {}", self.seed);
            let client = client_of(&mut self.clients, &gone.socket);
            client.life_mut(life).gone_heard += 1;
        }
    }

    fn end_links(&mut self) {
        for (link, _) in self.backend.take_ended() {
            for process in &mut self.processes {
                if process.link == Some(link) {
                    process.link = None;
                    process.back_at = self.now + 50;
                }
            }
        }
        for link in self.backend.take_farewells() {
            self.processes.retain(|process| process.link != Some(link));
        }
    }
}
