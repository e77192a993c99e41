//! The nodes, what is between them, and how time passes: what happens next, and what follows from it.

use super::books::Books;
use super::calendar::Calendar;
use super::deeds::Deeds;
use super::due::{Due, MS, SECOND};
use super::engine::{Engine, Subscriber};
use super::life::{Life, Make};
use super::link::{Link, Owner};
use super::office::{self, Around};
use super::person::Person;
use super::plan::{LETTERS_MAX, Plan};
use super::report::Report;
use super::server::{self, Server};
use super::station::{Station, peer};
use super::stream::Stream;
use super::wires::{Mail, Wires};
use super::worker;
use crate::settings;
use cluster::frame::Peer;
use cluster::node::Limits;
use fastrand::Rng;
use hub::bounds::LIST_BYTES_PER_TURN;
use hub::config::Config;
use hub::{Effect, Moved, Notice, Now, Spent, Turn};
use rules::{Action, EventRule, NamespaceRules, Rules, Word};
use seeds::Script;
use std::collections::BTreeSet;
use std::sync::Arc;

const WALL_MS: u64 = 1_750_000_000_000;
const FIRST_EPOCH: u64 = 1_000;
/// Clocks of backends begin with this.
const WORKERS_MS: u64 = 24 * 60 * 60 * 1_000;
/// Hubs look so often for what is due.
const TICK_US: u64 = 50 * MS;
/// Of so many turns of a hub, one ends with a look at all its tables, which costs more than the turn.
const TURNS_CHECKED: usize = 4;
/// Workers and their node look for what is new so often while they have something to say, and at the end.
const OFFICE_US: [u64; 2] = [20 * MS, 80 * MS];

pub(crate) struct World {
    pub(crate) script: Script,
    pub(crate) seed: u64,
    pub(crate) plan: Plan,
    pub(crate) dice: Rng,
    /// How long things are under way, and by which way.
    pub(crate) delays: Rng,
    pub(crate) now_us: u64,
    pub(crate) step: usize,
    pub(crate) lives: Vec<Life>,
    pub(crate) engine: Engine,
    pub(crate) calendar: Calendar<Due>,
    pub(crate) links: Vec<Link>,
    pub(crate) fresh: BTreeSet<usize>,
    pub(crate) people: Vec<Person>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) books: Books,
    pub(crate) deeds: Deeds,
    /// Workers have news; they are quiet at the end.
    pub(crate) workers_speak: bool,
    /// A server of Node, and when its channels deliver the last message so far.
    pub(crate) server: Server,
    pub(crate) channels_us: u64,
    pub(crate) report: Report,
    pub(crate) config: Arc<Config>,
    rules: Rules,
}

impl World {
    pub(crate) fn new(plan: Plan, script: &Script) -> Self {
        let seed = script.seed();
        let alone = plan.of_one_process();
        let mut rules = settings::rules(&alone);
        let rule = EventRule {
            history: plan.kept,
            ..EventRule::new(Action::Backend)
        };
        let work = NamespaceRules {
            backend: Some(worker::BACKEND.to_owned()),
            recovers: plan.recovers,
            ..NamespaceRules::new(rule)
        };
        rules.namespaces.insert(worker::NAMESPACE.to_owned(), work);
        let mut world = Self {
            script: script.clone(),
            seed,
            plan,
            dice: script.opening(),
            delays: Rng::with_seed(seed.rotate_left(32)),
            now_us: SECOND,
            step: 0,
            lives: Vec::new(),
            engine: Engine::new(seed),
            calendar: Calendar::new(),
            links: Vec::new(),
            fresh: BTreeSet::new(),
            people: Vec::new(),
            streams: Vec::new(),
            books: Books::new(seed, plan.queue_bytes < usize::MAX),
            deeds: Deeds::default(),
            workers_speak: true,
            server: Server::new(),
            channels_us: 0,
            report: Report::default(),
            config: Arc::new(plan.config(seed)),
            rules,
        };
        if plan.server {
            world.books.come(server::CLIENT, usize::MAX);
            (0..plan.rooms).for_each(|room| world.books.join(server::CLIENT, room));
        }
        for number in 1..=plan.nodes {
            world.begin_life(number, FIRST_EPOCH, Vec::new());
        }
        world
    }

    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        let (step, ms) = (self.step, self.now_us / MS);
        self.script
            .tell(|| format!("step {step:4} {ms:6} ms: {}", what()));
    }

    /// True in `percent` of all cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.dice.usize(..100) < percent
    }

    /// The same of what is no step.
    pub(crate) fn chance_of(&mut self, percent: usize) -> bool {
        self.delays.usize(..100) < percent
    }

    fn now(&self) -> Now {
        Now {
            mono_ms: self.now_us / MS,
            wall_ms: WALL_MS + self.now_us / MS,
        }
    }

    /// A process begins. `awaited`: those that hold a number.
    pub(crate) fn begin_life(&mut self, number: u16, epoch: u64, awaited: Vec<Peer>) {
        let mut life = self.make_life(peer(number, epoch), awaited);
        life.station.has_ear = self.plan.server;
        if self.plan.server {
            life.bridge.begin(self.now_us / MS);
        }
        self.lives.push(life);
        let life = self.lives.len() - 1;
        self.lives[life].called_us = self.now_us;
        self.calendar.note(self.now_us, Due::Station { life });
        self.calendar.note(self.now_us, Due::Tick { life });
        self.calendar.note(self.now_us, Due::Office { life });
        if self.plan.server {
            self.calendar.note(self.now_us, Due::Bridge { life });
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.outlet.ring_bytes = self.plan.ring_bytes;
        limits
    }

    pub(crate) fn make_life(&mut self, me: Peer, awaited: Vec<Peer>) -> Life {
        let make = Make {
            config: &self.config,
            rules: &self.rules,
            hubs: self.plan.hubs,
            limits: self.limits(),
            lists: self.plan.lists,
            queue_bytes: self.plan.queue_bytes,
        };
        let mut dice = Rng::with_seed(self.delays.u64(..));
        Life::new(&make, me, awaited, &mut dice)
    }

    // ---- time -------------------------------------------------------------------------------------------------------------

    pub(crate) fn pass(&mut self, time_us: u64) {
        let until_us = self.now_us + time_us;
        while let Some((at_us, due)) = self.calendar.next(until_us) {
            self.now_us = self.now_us.max(at_us);
            self.happen(due);
            self.hear();
        }
        self.now_us = until_us;
    }

    pub(crate) fn note_soon(&mut self, most_us: u64, due: Due) {
        let at_us = self.now_us + self.delays.u64(..most_us);
        self.calendar.note(at_us, due);
    }

    pub(crate) fn life_of(&self, due: &Due) -> Option<usize> {
        match due {
            Due::Frame { life, .. }
            | Due::Answer { life, .. }
            | Due::Parcel { life, .. }
            | Due::Mail { life, .. }
            | Due::Turn { life, .. }
            | Due::Feed { life }
            | Due::Read { life }
            | Due::Wake { life, .. }
            | Due::Station { life }
            | Due::Office { life }
            | Due::Heard { life, .. }
            | Due::Bridge { life }
            | Due::Move { life, .. }
            | Due::Relayed { life, .. }
            | Due::Tick { life } => Some(*life),
            Due::Open { link }
            | Due::Input { link, .. }
            | Due::Writable { link }
            | Due::Broken { link }
            | Due::End { link } => Some(self.links[*link].life),
            Due::Server { .. } | Due::Thaw { .. } | Due::Restart { .. } | Due::Back { .. } => None,
        }
    }

    /// The hub by whose turn it happens.
    fn hub_of(&self, due: &Due) -> Option<usize> {
        match due {
            Due::Turn { hub, .. } | Due::Move { hub, .. } | Due::Relayed { hub, .. } => Some(*hub),
            Due::Open { link }
            | Due::Input { link, .. }
            | Due::Writable { link }
            | Due::Broken { link }
            | Due::End { link } => Some(self.links[*link].hub),
            _ => None,
        }
    }

    pub(crate) fn happen(&mut self, due: Due) {
        if let Some(life) = self.life_of(&due) {
            let life = &mut self.lives[life];
            if life.is_dead {
                return;
            }
            if life.frozen_until > self.now_us {
                return life.held.push(due);
            }
        }
        if let Some(due) = self.waits_to_be_read(due) {
            self.happen_at(due);
        }
    }

    /// As the hub finds it that needs a turn for it.
    pub(crate) fn happen_at(&mut self, due: Due) {
        let (life, hub) = (self.life_of(&due), self.hub_of(&due));
        if let Some(life) = life {
            let life = &mut self.lives[life];
            if let Some(seat) = hub.map(|hub| &mut life.hubs[hub])
                && (seat.still_until > self.now_us || !seat.held.is_empty())
            {
                return seat.held.push(due);
            }
        }
        self.happen_now(due);
    }

    pub(crate) fn happen_now(&mut self, due: Due) {
        match due {
            Due::Frame { life, .. } | Due::Heard { life, .. } => {
                self.lives[life].feed.push_back(due);
                self.feed(life);
            }
            Due::Feed { life } => self.feed(life),
            Due::Read { life } => self.read_on_all(life),
            Due::Wake { life, hub } => self.wake(life, hub),
            Due::Answer {
                life,
                batch,
                is_taken,
            } => {
                self.at_station(life).ended(batch, is_taken);
                self.step_station(life);
            }
            Due::Parcel { life, parcel } => {
                self.at_station(life).take(parcel);
                self.step_station(life);
            }
            // Not the one that another one, for an earlier time, took the place of.
            Due::Station { life } if self.lives[life].called_us <= self.now_us => {
                self.lives[life].called_us = u64::MAX;
                self.at_station(life);
                self.step_station(life);
            }
            Due::Station { .. } => {}
            Due::Mail {
                life,
                from,
                hub,
                mail,
            } => self.put_mail(life, from, hub, mail),
            Due::Turn { life, hub } => self.read_mail(life, hub),
            Due::Tick { life } => {
                for hub in 0..self.plan.hubs {
                    if self.lives[life].hubs[hub].still_until <= self.now_us {
                        self.turn(life, hub, |turn| turn.resume());
                    }
                }
                self.calendar
                    .note(self.now_us + TICK_US, Due::Tick { life });
            }
            Due::Office { life } => self.step_office(life),
            Due::Server { channel, body } => self.server_hears(&channel, &body),
            Due::Bridge { life } => self.bridge_ticks(life),
            Due::Move {
                hub, link, read, ..
            } => self.move_here(hub, link, read),
            Due::Relayed {
                hub, link, read, ..
            } => self.relayed_here(hub, link, read),
            Due::Open { link } => self.open(link),
            Due::Input { link, mut bytes } => {
                self.with_conn(link, |turn, conn| turn.bytes(conn, &mut bytes));
            }
            Due::Writable { link } => self.with_conn(link, |turn, conn| turn.writable(conn)),
            Due::Broken { link } => self.with_conn(link, |turn, conn| turn.broken(conn)),
            Due::End { link } => self.with_conn(link, |turn, conn| turn.eof(conn)),
            Due::Thaw { life } => self.thaw(life),
            Due::Restart { number } => self.restart(number),
            Due::Back { name } => self.come_back(name),
        }
    }

    /// Messages from outside are taken in while no mailbox is long.
    fn feed(&mut self, life: usize) {
        while !self.lives[life].is_behind(&self.config) {
            match self.lives[life].feed.pop_front() {
                Some(Due::Frame { frame, .. }) => {
                    self.at_station(life).arrived(frame.to_vec());
                    self.step_station(life);
                }
                Some(Due::Heard { channel, body, .. }) => {
                    self.bridge_hears(life, &channel, &body);
                }
                _ => return,
            }
        }
        self.calendar.note(self.now_us + MS, Due::Feed { life });
    }

    /// A hub that stood still finds all that came meanwhile.
    pub(crate) fn wake(&mut self, life: usize, hub: usize) {
        if self.lives[life].hubs[hub].still_until > self.now_us {
            return;
        }
        let held = std::mem::take(&mut self.lives[life].hubs[hub].held);
        self.read_what_was_held(life, held);
    }

    /// A life that was frozen finds all that came meanwhile.
    pub(crate) fn thaw(&mut self, life: usize) {
        if self.lives[life].frozen_until > self.now_us {
            return;
        }
        for due in std::mem::take(&mut self.lives[life].held) {
            self.happen(due);
        }
    }

    // ---- the way to other nodes -------------------------------------------------------------------------------------------

    fn at_station(&mut self, life: usize) -> &mut Station {
        let station = &mut self.lives[life].station;
        station.begin(self.now_us);
        station
    }

    fn step_station(&mut self, life: usize) {
        let outcome = self.lives[life].station.step();
        for (shard, letter) in outcome.letters {
            self.post(
                life,
                self.plan.hubs,
                usize::from(shard),
                Mail::Letter(letter),
            );
        }
        if self.plan.server {
            self.bridge_overhears(life, outcome.overheard);
        }
        for peer in outcome.lost {
            let of = self.lives.iter().position(|life| life.me == peer);
            let of = of.expect("a life that there was");
            self.tell(|| format!("life {life} has lost something of life {of}"));
            self.report.losses += 1;
            self.books.lose(life, of);
        }
        if !outcome.batch.is_empty() {
            let number = self.lives[life].number();
            let there = self.lives.iter().enumerate();
            let there = there.filter(|(_, one)| !one.is_dead);
            let all: Vec<Subscriber> = there
                .map(|(life, one)| Subscriber {
                    life,
                    number: one.number(),
                })
                .collect();
            let fate = self
                .engine
                .publish(self.now_us, number, &outcome.batch, &all);
            for (at_us, life, frame) in fate.arrivals {
                self.calendar.note(at_us, Due::Frame { life, frame });
            }
            let answer = Due::Answer {
                life,
                batch: outcome.batch,
                is_taken: fate.is_taken,
            };
            self.calendar.note(fate.answered_us, answer);
        }
        if let Some(by) = outcome.superseded {
            self.is_superseded(life, by);
        }
        let due_us = self.lives[life].station.due_us(self.now_us);
        let due_us = due_us.max(self.now_us + 20);
        if due_us < self.lives[life].called_us {
            self.lives[life].called_us = due_us;
            self.calendar.note(due_us, Due::Station { life });
        }
    }

    // ---- workers ----------------------------------------------------------------------------------------------------------

    pub(crate) fn with_office<R>(
        &mut self,
        life: usize,
        act: impl FnOnce(&mut office::Office, &mut Around<'_>) -> R,
    ) -> R {
        self.deeds.life = life;
        let mut around = Around {
            now_ms: WORKERS_MS + self.now_us / MS,
            dice: &mut self.delays,
            books: &mut self.books,
            deeds: &mut self.deeds,
            life,
            room: self.plan.rooms,
            speaks: self.workers_speak,
        };
        act(&mut self.lives[life].office, &mut around)
    }

    fn step_office(&mut self, life: usize) {
        let [busy, quiet] = OFFICE_US;
        let most_us = if self.workers_speak { busy } else { quiet };
        self.note_soon(most_us, Due::Office { life });
        if self.lives[life].is_behind(&self.config) {
            return;
        }
        let words = self.with_office(life, |office, around| office.step(around));
        self.post_words(life, words);
        self.check_lists();
    }

    /// A list that is said to be whole has all who were there all the time, but those of a node of which something was lost.
    fn check_lists(&mut self) {
        for (by, of, name) in std::mem::take(&mut self.deeds.unlisted) {
            assert!(
                self.books.have_lost(by, of),
                "seed {}: a list of life {by} is said to be whole, and lacks client {name} of life {of}",
                self.seed
            );
        }
    }

    pub(crate) fn post_words(&mut self, life: usize, words: Vec<(usize, Word)>) {
        for (hub, word) in words {
            let bytes = word.bytes();
            // It is numbered after the hubs and the station.
            self.post(
                life,
                self.plan.hubs + 1,
                hub,
                Mail::Word(Box::new(word), bytes),
            );
        }
    }

    // ---- hubs -------------------------------------------------------------------------------------------------------------

    /// Mail for a hub, from another one, or from the station (numbered after the hubs).
    pub(crate) fn post(&mut self, life: usize, from: usize, hub: usize, mail: Mail) {
        let at_us = self.now_us + self.delays.u64(5..600);
        let at_us = self.lives[life].arrival((from, hub), at_us);
        self.lives[life].hubs[hub].coming += 1;
        let mail = Due::Mail {
            life,
            from,
            hub,
            mail,
        };
        self.calendar.note(at_us, mail);
    }

    fn put_mail(&mut self, life: usize, from: usize, hub: usize, mail: Mail) {
        self.report.letters += 1;
        let seat = &mut self.lives[life].hubs[hub];
        seat.coming -= 1;
        seat.sender.put(mail);
        seat.from_hubs.push_back(from < self.plan.hubs);
        let waiting = seat
            .from_hubs
            .iter()
            .filter(|is_from_hub| **is_from_hub)
            .count();
        self.report.mailbox_max = self.report.mailbox_max.max(waiting);
        assert!(
            waiting <= LETTERS_MAX,
            "seed {}: {waiting} messages of other hubs wait for hub {hub} of life {life}",
            self.seed
        );
        self.call(life, hub);
    }

    /// A turn of the hub comes soon.
    fn call(&mut self, life: usize, hub: usize) {
        let seat = &mut self.lives[life].hubs[hub];
        if !std::mem::replace(&mut seat.is_called, true) {
            self.note_soon(200, Due::Turn { life, hub });
        }
    }

    fn read_mail(&mut self, life: usize, hub: usize) {
        self.lives[life].hubs[hub].is_called = false;
        let queue = self.lives[life].office.queue();
        if self.lives[life].hubs[hub].receiver.is_empty() {
            self.turn(life, hub, |turn| turn.resume());
        }
        while !self.lives[life].hubs[hub].receiver.is_empty() {
            self.turn(life, hub, |turn| {
                turn.mail(
                    |wires| wires.mailbox,
                    |turn, mail| match mail {
                        Mail::Letter(letter) => {
                            queue.begin_letter();
                            turn.letter(&letter);
                            queue.end_letter();
                        }
                        Mail::Word(word, _) => turn.outside(word),
                    },
                );
            });
        }
        self.lives[life].hubs[hub].from_hubs.clear();
    }

    fn open(&mut self, link: usize) {
        let Link { life, hub, .. } = self.links[link];
        let peer = [127, 0, 0, 1].into();
        self.turn(life, hub, |turn| {
            turn.opened(peer, |wires, conn| wires.adopt(link, conn));
        });
    }

    fn move_here(&mut self, hub: usize, link: usize, mut read: Vec<u8>) {
        self.report.moves += 1;
        let life = self.links[link].life;
        self.turn(life, hub, |turn| {
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
            turn.moved_here(moved, |wires, conn| wires.adopt(link, conn));
        });
    }

    fn with_conn(&mut self, link: usize, act: impl FnOnce(&mut Turn<'_, Wires<'_>>, hub::ConnId)) {
        let Link {
            life, hub, conn, ..
        } = self.links[link];
        if let Some(conn) = conn {
            self.turn(life, hub, |turn| act(turn, conn));
        }
    }

    /// A whole turn of a hub, and what follows from it.
    pub(crate) fn turn<R>(
        &mut self,
        life: usize,
        hub: usize,
        act: impl FnOnce(&mut Turn<'_, Wires<'_>>) -> R,
    ) -> R {
        let result = self.turn_once(life, hub, act);
        while self.lives[life].hubs[hub].hub.has_stalled() {
            self.turn_once(life, hub, |turn| turn.resume());
        }
        result
    }

    fn turn_once<R>(
        &mut self,
        life: usize,
        hub: usize,
        act: impl FnOnce(&mut Turn<'_, Wires<'_>>) -> R,
    ) -> R {
        let now = self.now();
        let seat = &mut self.lives[life].hubs[hub];
        let mut wires = Wires {
            hub,
            conns: &mut seat.conns,
            links: &mut self.links,
            fresh: &mut self.fresh,
            mailbox: &seat.receiver,
            effects: Vec::new(),
        };
        let mut turn = seat.hub.turn(now, &mut wires);
        let result = act(&mut turn);
        turn.end(false, |_| Spent::default());
        let effects = wires.effects;
        let due_ms = seat.hub.next_deadline();
        seat.turns += 1;
        if seat.turns.is_multiple_of(TURNS_CHECKED) {
            seat.hub.check_invariants();
        }
        let lists = self.lives[life].office.queue().end_turn();
        assert!(
            lists < LIST_BYTES_PER_TURN,
            "seed {}: {lists} bytes of lists of sockets in one turn before the last",
            self.seed
        );
        let broken = self.lives[life].diary.lock().expect("whole").broken.clone();
        assert!(broken.is_empty(), "seed {}: {broken:?}", self.seed);
        for (link, effect) in effects {
            self.carry_out((life, hub), link, effect);
        }
        // Timers may be late, as they are on a busy machine. Work that goes on is done at once.
        if due_ms.is_some_and(|due_ms| due_ms <= now.mono_ms) {
            self.call(life, hub);
        }
        result
    }

    fn carry_out(&mut self, (life, hub): (usize, usize), link: Option<usize>, effect: Effect) {
        match effect {
            Effect::Send { shard, letter } => {
                self.post(life, hub, usize::from(shard), Mail::Letter(letter));
            }
            Effect::Pass { shard, word, bytes } => {
                self.post(life, hub, usize::from(shard), Mail::Word(word, bytes));
            }
            Effect::Move { shard, read, .. } => {
                let (to, link) = (usize::from(shard), link.expect("what moves"));
                let at_us = self.now_us + self.delays.u64(5..2_000);
                let at_us = self.lives[life].arrival((hub, to), at_us);
                let moves = Due::Move {
                    life,
                    hub: to,
                    link,
                    read,
                };
                self.calendar.note(at_us, moves);
            }
            Effect::Away(parcel) => {
                let at_us = self.now_us + self.delays.u64(5..300);
                let at_us = self.lives[life].arrival((hub, self.plan.hubs), at_us);
                self.calendar.note(at_us, Due::Parcel { life, parcel });
            }
            Effect::Relay { owner, read, .. } => {
                self.relay(life, link.expect("what is relayed"), owner, read);
            }
            Effect::Handover { .. } => panic!("seed {}: nobody asks for a page", self.seed),
            Effect::Ask { ask, .. } => panic!("seed {}: nobody can answer {ask:?}", self.seed),
            Effect::Log(line) => {
                self.tell(|| format!("hub {hub} of life {life} logs {line:?}"));
                if let Notice::Disconnected { socket, .. } = line {
                    // Its client may hear of that later.
                    self.deeds.has_ended(&socket.to_string());
                }
            }
            Effect::Close { .. } | Effect::Shutdown { .. } => {}
        }
    }

    /// Clients take in what came.
    pub(crate) fn hear(&mut self) {
        while let Some(link) = self.fresh.pop_first() {
            let bytes = std::mem::take(&mut self.links[link].out);
            match self.links[link].owner {
                Owner::Person(name) => self.person_hears(name, link, &bytes),
                Owner::Stream(at) => self.stream_hears(at, link, &bytes),
                Owner::Nobody => {}
            }
        }
    }
}
