//! What happens in the steps of a history, and how it ends.

use super::due::{Due, MS, SECOND};
use super::life::Life;
use super::plan::{Plan, WINDOW};
use super::report::Report;
use super::server::CLIENT;
use super::streams::count;
use super::world::World;
use cluster::frame::Peer;
use hub::Stock;
use seeds::Script;
use std::sync::atomic::Ordering;

/// By then all nodes know each other.
const MEET_US: u64 = 3 * SECOND;
/// A node that is silent for so long is given up.
const GIVEN_UP_US: u64 = 17 * SECOND;
/// How often it is looked whether all has left.
const TRIES: usize = 50;
const PAUSE_US: u64 = 40 * MS;

/// Plays one history and checks it; a violation panics with the seed.
pub(crate) fn play(plan: Plan, script: &Script) -> Report {
    let mut world = World::new(plan, script);
    world.pass(MEET_US);
    let mut pauses = script.opening();
    for step in 0..plan.steps {
        world.step = step;
        if let Some(dice) = script.dice(step) {
            world.dice = dice;
            world.act();
        }
        world.pass(pauses.u64(..PAUSE_US));
    }
    world.dice = script.opening();
    world.finish()
}

/// After this time nothing is kept of a client that is cut off.
fn kept_us() -> u64 {
    WINDOW.as_micros() as u64 + 2 * SECOND
}

impl World {
    fn act(&mut self) {
        if self.plan.troubles && self.chance(2) {
            self.make_trouble();
        }
        if self.plan.kept && self.chance(8) {
            self.listen();
        }
        if self.plan.recovers && self.chance(8) {
            self.break_off();
        }
        match self.dice.usize(..100) {
            0..14 => self.connect(),
            14..42 => self.say(1),
            42..50 => self.work(),
            50..56 => {
                let count = 2 + self.dice.usize(..8);
                self.say(count);
            }
            56..80 => self.join_or_leave(),
            80..84 => self.ask(),
            84..88 => self.read_slowly(),
            88..90 => self.work(),
            90..92 => self.vanish(),
            92..95 => self.upgrade(),
            95..99 => self.server_acts(),
            _ => {}
        }
    }

    fn make_trouble(&mut self) {
        let number = 1 + self.dice.u16(..self.plan.nodes);
        let time_us = 10 * MS + self.dice.u64(..2 * SECOND);
        let until_us = self.now_us + time_us;
        self.report.troubles += 1;
        match self.dice.usize(..100) {
            0..15 => {
                self.tell(|| format!("the engine loses all for {time_us} us"));
                self.engine.lose(until_us);
            }
            15..30 => {
                self.tell(|| format!("the engine stands still for {time_us} us"));
                self.engine.freeze(until_us);
            }
            30..42 => {
                self.tell(|| format!("node {number} hears nothing for {time_us} us"));
                self.engine.cut(number, until_us);
            }
            42..54 => {
                self.tell(|| format!("node {number} is alone for {time_us} us"));
                self.engine.leave_alone(number, until_us);
            }
            54..60 => self.stand_still(number, time_us),
            60..66 => {
                let times = if self.chance(10) { 10 } else { 1 };
                self.freeze(number, times * time_us);
            }
            66..70 => self.kill(number, time_us),
            // What a process carries for others ends with it.
            90..96 if !self.plan.relays => self.hand_over(number),
            kind => {
                let Some(life) = self.living(number) else {
                    return;
                };
                self.tell(|| format!("a worker of node {number} is in trouble"));
                self.with_office(life, |office, around| match kind {
                    70..82 => office.cut(around),
                    82..90 => office.freeze(around),
                    _ => office.kill(around),
                });
            }
        }
    }

    pub(crate) fn living(&self, number: u16) -> Option<usize> {
        let mut lives = self.lives.iter();
        lives.position(|life| life.number() == number && !life.is_dead)
    }

    fn freeze(&mut self, number: u16, time_us: u64) {
        let Some(life) = self.living(number) else {
            return;
        };
        self.tell(|| format!("node {number} stands still for {time_us} us"));
        let until_us = self.now_us + time_us;
        self.lives[life].frozen_until = until_us;
        self.calendar.note(until_us, Due::Thaw { life });
    }

    /// One hub of it does nothing for a while.
    fn stand_still(&mut self, number: u16, time_us: u64) {
        let hub = self.dice.usize(..self.plan.hubs);
        let Some(life) = self.living(number) else {
            return;
        };
        self.tell(|| format!("hub {hub} of node {number} stands still for {time_us} us"));
        let until_us = self.now_us + time_us;
        self.lives[life].hubs[hub].still_until = until_us;
        self.calendar.note(until_us, Due::Wake { life, hub });
    }

    /// Its process ends in the middle of what it does. Another one begins some time later.
    pub(crate) fn kill(&mut self, number: u16, time_us: u64) {
        let Some(life) = self.living(number) else {
            return;
        };
        self.tell(|| format!("node {number} dies"));
        self.report.deaths += 1;
        self.books.end(life);
        self.lives[life].is_dead = true;
        self.lives[life].held.clear();
        self.lives[life].unread.clear();
        for name in 0..self.people.len() {
            if self.people[name].life == life {
                self.loses_its_node(name, time_us);
            }
        }
        self.relays_break(life, time_us);
        (0..self.streams.len()).for_each(|at| self.stream_is_cut(at, life));
        self.calendar
            .note(self.now_us + 3 * time_us, Due::Restart { number });
    }

    /// A life is told that its number had a later one. That was so.
    pub(crate) fn is_superseded(&mut self, life: usize, by: Peer) {
        self.tell(|| format!("life {life} is told of {by:?}"));
        let me = self.lives[life].me;
        let was_there = self.lives.iter().any(|other| other.me == by);
        assert!(
            was_there && by.node == me.node && by.epoch > me.epoch,
            "seed {}: {me:?} ended for {by:?}",
            self.seed
        );
        self.report.superseded += 1;
        self.kill(me.node.0, SECOND);
    }

    /// Another process takes the number of one that died.
    pub(crate) fn restart(&mut self, number: u16) {
        let lives = self.lives.iter().filter(|life| life.number() == number);
        let epochs: Vec<u64> = lives.map(|life| life.me.epoch.0).collect();
        let is_heard = |life: &Life| {
            let stands = life.is_dead || life.frozen_until > self.now_us;
            !stands && !self.engine.is_alone(life.number(), self.now_us)
        };
        let mut heard = self.lives.iter().filter(|life| is_heard(life));
        let is_told_of = heard.any(|life| life.station.tells_of(number));
        // The counter may be lost, and a clock behind.
        let epoch = match self.delays.u8(..4) {
            0 if !is_told_of => epochs.iter().min().expect("an earlier life") - 1,
            _ => epochs.iter().max().expect("an earlier life") + 1,
        };
        let others = self.lives.iter();
        let others = others.filter(|life| !life.is_dead && life.number() != number);
        let awaited = others.map(|life| life.me).collect();
        self.tell(|| format!("node {number} begins anew"));
        self.begin_life(number, epoch, awaited);
    }

    // ---- the end ----------------------------------------------------------------------------------------------------------

    /// Everything works again, arrives and is heard; then the history is judged.
    fn finish(mut self) -> Report {
        self.step = self.plan.steps;
        self.engine.heal();
        for life in 0..self.lives.len() {
            self.lives[life].frozen_until = self.now_us;
            self.lives[life].office.heal();
            self.thaw(life);
            for hub in 0..self.plan.hubs {
                self.lives[life].hubs[hub].still_until = self.now_us;
                self.wake(life, hub);
            }
        }
        self.workers_speak = false;
        self.read_all();
        let rest_us = match self.plan {
            _ if self.report.troubles > 0 => GIVEN_UP_US,
            Plan { recovers: true, .. } => kept_us(),
            _ => 3 * SECOND,
        };
        self.pass(rest_us);
        self.all_streams_come();
        self.read_all();
        self.pass(5 * SECOND);
        self.check_answers();
        self.check_members();
        self.books.check();
        let worked = self.deeds.check();
        worked.unwrap_or_else(|broken| panic!("seed {}: {broken}", self.seed));
        self.check_streams();
        if self.plan.kept {
            self.books.check_one_order(&self.users());
        }
        (self.report.due, self.report.excused) = (self.books.due, self.books.excused);
        (self.report.answered, self.report.refused) = (self.deeds.answered, self.deeds.refused);
        self.report.redelivered = self.deeds.again;
        self.report.only_here = self.books.told_only_here();
        self.report.lists = self.deeds.lists;
        self.check_departure();
        self.report
    }

    fn read_all(&mut self) {
        for link in 0..self.links.len() {
            if self.links[link].room.is_some() {
                self.read_on(link);
            }
        }
    }

    /// Nobody waits for ever.
    fn check_answers(&self) {
        for (name, person) in self.people.iter().enumerate() {
            if person.is_gone() {
                continue;
            }
            let (seed, client) = (self.seed, &person.client);
            assert!(client.joined, "seed {seed}: client {name} was not let in");
            assert!(
                person.joins.is_empty(),
                "seed {seed}: client {name} has no ack of its joins {:?}",
                person.joins
            );
            // A pong may have left just now.
            let is_late = person.posted_us + SECOND < self.now_us;
            assert!(
                !(person.is_posting && is_late),
                "seed {seed}: client {name} waits for the answer to a POST"
            );
            assert!(
                client.probe.is_none(),
                "seed {seed}: the upgrade of client {name} has no end"
            );
        }
        for (at, life) in self
            .lives
            .iter()
            .enumerate()
            .filter(|(_, life)| !life.is_dead)
        {
            let waits = life.station.what_waits();
            assert_eq!(waits, None, "seed {}: on life {at}", self.seed);
        }
    }

    /// The hubs know of the members that there are, and of no others.
    fn check_members(&self) {
        let here = self.books.members();
        let here = here.filter(|(who, room)| *who < CLIENT && *room < self.plan.rooms);
        let rooms = here.map(|(_, room)| room);
        let wanted = count(rooms.chain(self.streamed()));
        let mut there = std::collections::BTreeMap::<String, u64>::new();
        let living = self.lives.iter().filter(|life| !life.is_dead);
        for seat in living.flat_map(|life| &life.hubs) {
            for (_, room, members, _) in seat.hub.room_census() {
                *there.entry(room).or_default() += members;
            }
        }
        // A socket that moved has a room of its own where it is now.
        there.retain(|room, members| *members > 0 && room.starts_with("room-"));
        assert_eq!(there, wanted, "seed {}: members of all nodes", self.seed);
    }

    /// Everybody goes, and nothing is left of them.
    fn check_departure(&mut self) {
        for name in 0..self.people.len() {
            if !self.people[name].is_gone() {
                self.end(name);
            }
        }
        (0..self.streams.len()).for_each(|at| self.stream_breaks(at));
        self.pass(SECOND);
        for link in 0..self.links.len() {
            if self.links[link].conn.is_some() {
                self.on_the_way(link, Due::Broken { link });
            }
        }
        self.pass(match self.plan.recovers {
            true => kept_us(),
            false => 2 * SECOND,
        });
        // A heartbeat may be on its way.
        let waits = |life: &Life| !life.is_dead && life.uplink.waiting() > 0;
        for _ in 0..TRIES {
            if !self.lives.iter().any(waits) {
                break;
            }
            self.pass(7 * MS);
        }
        let lives = self.lives.iter().enumerate();
        let living = lives.filter(|(_, life)| !life.is_dead);
        living.for_each(|(at, life)| self.check_nothing_is_left(at, life));
    }

    fn check_nothing_is_left(&self, at: usize, life: &Life) {
        let of = format!("seed {}: on life {at}", self.seed);
        // A question that is lost between nodes, or an ack that the next process does not know, ends with its time, which is longer than a history.
        let ends_rounds = self.report.losses + self.report.successions == 0;
        if ends_rounds {
            let open = life.diary.lock().expect("no handler panicked").open;
            assert_eq!(open, 0, "{of} rounds have no result");
        }
        assert_eq!(life.uplink.waiting(), 0, "{of} bytes wait for other nodes");
        assert_eq!(life.process.waiting.bytes(), 0, "{of} output of nobody");
        assert_eq!(life.office.lists(), 0, "{of} workers wait for lists");
        assert_eq!(life.office.kept(), (0, 0), "{of} a backend keeps sockets");
        assert_eq!(life.unread.len(), 0, "{of} clients are not read");
        for (hub, seat) in life.hubs.iter().enumerate() {
            let loads = &life.process.loads;
            let mail = (loads.messages(hub as u16), loads.bytes(hub as u16));
            assert_eq!(mail, (0, 0), "{of} messages in an empty mailbox");
            for (what, kept, booked) in seat.hub.audit() {
                assert_eq!(kept, booked, "{of} bytes of {what} that are kept");
            }
            let acks = seat.cells.acks_outstanding.load(Ordering::Relaxed);
            assert_eq!(acks, 0, "{of} acks of the gone");
            assert_eq!(seat.hub.conns(), 0, "{of} connections of the gone");
            let windows = seat.hub.count_windows();
            assert_eq!(windows, 0, "{of} sockets wait for the gone");
            let kept = |stock: Stock| seat.cells.kept[stock as usize].load(Ordering::Relaxed);
            let mut sums = [Stock::Questions, Stock::Lists, Stock::Acks]
                .map(kept)
                .to_vec();
            sums.extend(ends_rounds.then(|| kept(Stock::Rounds)));
            let sum: u64 = sums.iter().sum();
            assert_eq!(sum, 0, "{of} bytes are kept for the gone: {sums:?}");
        }
    }
}
