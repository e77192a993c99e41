//! Clients of Socket.IO: what they do, and what they make of what they hear.

use super::due::{Due, MS};
use super::link::{Link, Owner};
use super::person::Person;
use super::returns::AGAIN_US;
use super::world::World;
use crate::client::{Client, Transport, UNKNOWN};
use crate::names::digits;
use hub::bounds::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX};

/// A client hears this when too much waits for other nodes.
const ONLY_HERE: &str = "Other nodes cannot be reached";

impl World {
    /// A life that clients find.
    pub(crate) fn some_life(&mut self) -> Option<usize> {
        let lives = 0..self.lives.len();
        let open: Vec<usize> = lives.filter(|life| self.lives[*life].is_open()).collect();
        (!open.is_empty()).then(|| open[self.dice.usize(..open.len())])
    }

    /// A new connection to any hub of a life.
    pub(crate) fn dial(&mut self, owner: Owner, life: usize) -> usize {
        let hub = self.delays.usize(..self.plan.hubs);
        self.links.push(Link::new(owner, life, hub));
        let link = self.links.len() - 1;
        self.on_the_way(link, Due::Open { link });
        link
    }

    /// A new connection to the session of a client.
    fn dial_session(&mut self, name: usize) -> usize {
        let life = self.way_to(self.people[name].life);
        self.dial(Owner::Person(name), life)
    }

    /// Something of a client comes to its node after all that came before it by the same connection.
    pub(crate) fn on_the_way(&mut self, link: usize, due: Due) {
        let at_us = self.now_us + self.delays.u64(20..3 * MS);
        let last_us = &mut self.links[link].last_us;
        *last_us = at_us.max(*last_us);
        self.calendar.note(*last_us, due);
    }

    pub(crate) fn send(&mut self, link: usize, bytes: Vec<u8>) {
        self.on_the_way(link, Due::Input { link, bytes });
    }

    pub(crate) fn connect(&mut self) {
        let here = self.people.iter().filter(|one| !one.is_gone()).count();
        let Some(life) = self.some_life().filter(|_| here < self.plan.people) else {
            return;
        };
        let name = self.people.len();
        let main = self.dial(Owner::Person(name), life);
        let transport = match self.dice.usize(..100) {
            dice if dice < self.plan.polling => Transport::Polling,
            90.. => Transport::Plain { is_packed: true },
            80.. => Transport::Plain { is_packed: false },
            _ => Transport::WebSocket,
        };
        let client = Client::new(transport, main, None);
        let hello = client.hello();
        self.tell(|| format!("client {name} comes to life {life} by {transport:?}"));
        self.people.push(Person::new(client, name, life));
        self.books.come(name, life);
        self.send(main, hello);
    }

    /// Any client that can act now.
    pub(crate) fn someone(&mut self) -> Option<usize> {
        let names = 0..self.people.len();
        let able: Vec<usize> = names
            .filter(|name| self.people[*name].may_speak())
            .collect();
        (!able.is_empty()).then(|| able[self.dice.usize(..able.len())])
    }

    /// A packet from a client: a frame, or a POST by any hub.
    pub(crate) fn packet(&mut self, name: usize, text: &str) {
        self.tell(|| format!("client {name} sends {text}"));
        let bytes = self.people[name].client.packet(text);
        let main = self.people[name].client.main;
        if self.people[name].client.transport != Transport::Polling {
            return self.send(main, bytes);
        }
        (self.people[name].is_posting, self.people[name].posted_us) = (true, self.now_us);
        let old = self.people[name].client.post;
        let old = old.filter(|link| self.may_ask_again(*link));
        let link = match old {
            Some(link) if self.delays.bool() => link,
            _ => self.dial_session(name),
        };
        self.people[name].client.post = Some(link);
        self.send(link, bytes);
    }

    pub(crate) fn say(&mut self, count: usize) {
        let Some(name) = self.someone() else { return };
        let (life, publisher) = (self.people[name].life, self.people[name].publisher);
        let polls = self.people[name].client.transport == Transport::Polling;
        for _ in 0..if polls { 1 } else { count } {
            let room = self.dice.usize(..self.plan.rooms);
            let other = self.dice.usize(..self.plan.rooms);
            let (rooms, event) = match room == other || self.chance(60) {
                true => (vec![room], format!("say-{room}")),
                false => (vec![room, other], format!("tell-{room}-{other}")),
            };
            let number = self.books.say_as((name, publisher), rooms, life);
            let padding = self.plan.padding();
            self.packet(
                name,
                &format!("42[\"{event}\",{name},{number},\"{padding}\"]"),
            );
        }
    }

    /// Everybody in a room is asked for an ack.
    pub(crate) fn ask(&mut self) {
        if let Some(name) = self.someone() {
            let room = self.dice.usize(..self.plan.rooms);
            self.report.asks += 1;
            self.packet(name, &format!("42[\"ask-{room}\",0]"));
        }
    }

    pub(crate) fn join_or_leave(&mut self) {
        let Some(name) = self.someone() else { return };
        let room = self.dice.usize(..self.plan.rooms);
        if self.books.is_in(name, room) {
            self.books.leave(name, room);
            return self.packet(name, &format!("42[\"leave\",\"room-{room}\"]"));
        }
        if self.people[name].joins.values().any(|asked| *asked == room) {
            return;
        }
        self.report.joins += 1;
        let id = self.report.joins as u64;
        self.people[name].joins.insert(id, room);
        self.packet(name, &format!("42{id}[\"join\",\"room-{room}\"]"));
    }

    /// A client that polls goes on over a WebSocket.
    pub(crate) fn upgrade(&mut self) {
        let Some(name) = self.someone() else { return };
        let person = &self.people[name];
        if person.client.transport != Transport::Polling || person.client.probe.is_some() {
            return;
        }
        let link = self.dial_session(name);
        if let Some(hello) = self.people[name].client.begin_upgrade(link) {
            self.send(link, hello);
        }
    }

    /// A client stops reading, or reads on.
    pub(crate) fn read_slowly(&mut self) {
        let links = 0..self.links.len();
        let slow = links.filter(|link| self.links[*link].room.is_some());
        let slow: Vec<usize> = slow.collect();
        if let Some(link) = slow.first().copied()
            && self.chance(60)
        {
            return self.read_on(link);
        }
        if let Some(name) = self.someone() {
            let link = self.people[name].client.main;
            self.links[link].room = Some(self.dice.usize(..64));
            self.people[name].was_slow = true;
            self.deeds.may_leave(self.people[name].publisher);
        }
    }

    pub(crate) fn read_on(&mut self, link: usize) {
        self.links[link].room = None;
        self.on_the_way(link, Due::Writable { link });
    }

    /// A client goes, in one way or another.
    pub(crate) fn vanish(&mut self) {
        let Some(name) = self.someone() else { return };
        if self.people[name].client.transport != Transport::Polling {
            self.end(name);
        }
    }

    pub(crate) fn end(&mut self, name: usize) {
        self.tell(|| format!("client {name} goes"));
        let link = self.people[name].client.main;
        let way = match self.people[name].client.transport {
            Transport::Plain { .. } => self.dice.usize(..2),
            Transport::WebSocket => self.dice.usize(..3),
            Transport::Polling => 2,
        };
        match way {
            0 => self.on_the_way(link, Due::Broken { link }),
            1 => self.on_the_way(link, Due::End { link }),
            _ => self.packet(name, "1"),
        }
        self.is_gone(name);
    }

    pub(crate) fn is_gone(&mut self, name: usize) {
        self.books.leave_all(name);
        // What it said last may not have been read.
        self.books.end_publisher(self.people[name].publisher);
        self.guest_goes(name);
        let person = &mut self.people[name];
        person.joins.clear();
        person.is_posting = false;
        (person.client.gone, person.client.probe) = (true, None);
    }

    // ---- what they hear ---------------------------------------------------------------------------------------------------

    pub(crate) fn person_hears(&mut self, name: usize, link: usize, bytes: &[u8]) {
        if self.people[name].is_gone() {
            return;
        }
        let probe = self.people[name].client.probe.as_ref();
        if probe.is_some_and(|probe| probe.link == link) {
            if let Some(answer) = self.people[name].client.receive_probe(bytes) {
                self.send(link, answer);
            }
            if self.people[name].client.probe.is_none() {
                // Its session ends. The next poll hears of that.
                self.check_slow(name);
            }
            if self.people[name].client.is_unknown() {
                return self.is_unknown(name);
            }
            self.go_on(name);
        } else if self.people[name].client.main == link {
            self.hears_packets(name, bytes);
            let person = &self.people[name];
            // A poll that was answered may end its connection, and the next one have a connection of its own already.
            let waits = person.client.transport != Transport::Polling || person.client.polling;
            let has_moved = person.client.main != link;
            let waits = waits && (person.was_slow || !has_moved);
            let is_closed = waits && self.links[link].is_over || person.is_gone();
            if is_closed {
                self.is_closed(name, has_moved);
            }
        } else if String::from_utf8_lossy(bytes).ends_with("\r\n\r\nok") {
            self.people[name].is_posting = false;
            self.ends_relay(link);
            self.pay(name);
            self.go_on(name);
        } else if !bytes.is_empty() {
            let answer = String::from_utf8_lossy(bytes).into_owned();
            if answer.contains(UNKNOWN) {
                return self.is_unknown(name);
            }
            panic!("seed {}: client {name} was answered {answer:?}", self.seed);
        }
    }

    /// The node has closed the connection of a client.
    fn is_closed(&mut self, name: usize, has_moved: bool) {
        let person = &self.people[name];
        if person.is_away {
            return self.is_not_let_in(name, AGAIN_US);
        }
        if has_moved {
            // Its session may go on in another process.
            self.says_goodbye(name);
        }
        if self.may_be_claimed(name) {
            return self.is_claimed(name);
        }
        self.check_slow(name);
        self.deeds.may_leave(self.people[name].publisher);
        self.is_gone(name);
    }

    /// It had come to a node that was cut off, and went to another one: when that claim arrives at last, it takes the connection. Or the
    /// socket that it was promised went while workers decided about it (ADR 38).
    pub(crate) fn may_be_claimed(&self, name: usize) -> bool {
        let person = &self.people[name];
        let is_promised = person.works == Some(false) && person.work_pid.is_some();
        let has_come = !person.is_away && person.turns > 0 && person.pid.is_some();
        has_come && (self.report.troubles > 0 || is_promised)
    }

    /// That is so, and it comes back.
    pub(crate) fn is_claimed(&mut self, name: usize) {
        self.deeds.may_leave(self.people[name].publisher);
        self.people[name].client.gone = false;
        self.is_cut(name, AGAIN_US);
    }

    /// Only those are closed that read too slowly.
    fn check_slow(&self, name: usize) {
        assert!(
            self.may_be_ended(name),
            "seed {}: client {name} was closed, and did nothing",
            self.seed
        );
    }

    /// Its session may have ended already: it still reads what was said before.
    pub(crate) fn may_be_ended(&self, name: usize) -> bool {
        let person = &self.people[name];
        // One that polls reads no faster than it asks: all that comes at once after a trouble may be more than it is allowed. It may hear
        // of that by the WebSocket that it has gone over to since.
        let polled = person.client.has_polled;
        person.was_slow || polled && self.plan.squeezed && self.report.troubles > 0
    }

    fn hears_packets(&mut self, name: usize, bytes: &[u8]) {
        let client = &mut self.people[name].client;
        let (was_greeted, was_in) = (client.sid.is_some(), client.joined);
        let whole = client.receive(bytes);
        let (is_greeted, is_in) = (client.sid.is_some(), client.joined);
        let packets = std::mem::take(&mut client.packets);
        if self.people[name].client.is_unknown() {
            return self.is_unknown(name);
        }
        if is_in && !was_in {
            self.is_let_in(name);
        }
        for packet in packets {
            self.on_packet(name, &packet);
        }
        self.pay(name);
        if is_greeted && !was_greeted {
            let connect = self.people[name].connect(name);
            self.packet(name, &connect);
        }
        if whole > 0 {
            self.people[name].client.polling = false;
            if self.people[name].client.transport == Transport::Polling {
                self.ends_relay(self.people[name].client.main);
            }
            self.go_on(name);
        }
    }

    /// A client that waits for no answer polls again, or goes over to its WebSocket.
    fn go_on(&mut self, name: usize) {
        let person = &self.people[name];
        let client = &person.client;
        if client.transport != Transport::Polling || client.gone || client.polling {
            return;
        }
        if client.pauses() {
            if !person.is_posting
                && let Some(link) = self.people[name].client.end_upgrade()
            {
                self.report.upgrades += 1;
                let bytes = self.people[name].client.packet("5");
                self.send(link, bytes);
                self.pay(name);
            }
            return;
        }
        let Some(poll) = client.poll() else { return };
        if self.delays.bool() || !self.may_ask_again(self.people[name].client.main) {
            self.people[name].client.main = self.dial_session(name);
        }
        self.people[name].client.polling = true;
        self.send(self.people[name].client.main, poll);
    }

    /// Pongs and acks that a client owes: one POST at a time.
    fn pay(&mut self, name: usize) {
        let person = &mut self.people[name];
        if person.client.gone || person.client.pauses() || person.is_posting {
            return;
        }
        let owed = std::mem::take(&mut person.client.owed);
        if owed.is_empty() {
            return;
        }
        if person.client.transport == Transport::Polling {
            return self.packet(name, &owed.join("\x1e"));
        }
        let bytes = owed.iter().map(|text| person.client.packet(text));
        let bytes = bytes.collect::<Vec<_>>().concat();
        let main = person.client.main;
        self.send(main, bytes);
    }

    fn on_packet(&mut self, name: usize, packet: &str) {
        if packet == "2" {
            return self.people[name].client.owed.push("3".to_owned());
        }
        self.tell(|| format!("client {name} hears {packet}"));
        if let Some((kind, rest)) = packet.split_once("/work,") {
            return self.on_work(name, kind, rest);
        }
        if let Some((id, _)) = packet
            .strip_prefix("42")
            .and_then(|rest| rest.split_once('['))
            && let Ok(id) = id.parse::<u64>()
        {
            return self.people[name].client.owed.push(format!("43{id}[]"));
        }
        if packet.starts_with("42") {
            self.people[name].note_offset(packet);
        }
        if let Some(rest) = packet.strip_prefix("43") {
            let id = digits(rest).first().copied().expect("an ack id");
            if let Some(room) = self.people[name].joins.remove(&id) {
                self.books.join(name, room);
            }
        } else if packet.starts_with("42[\"history\"") {
            self.take_history(name, packet);
        } else if let Some(at) = place_of_number(packet) {
            self.books.hear(name, digits(packet)[at]);
        } else if packet.starts_with("42[\"error\"") && packet.contains(ONLY_HERE) {
            self.books.tell_only_here(name);
        } else if packet.starts_with("42[\"sockeye:gap\"") {
            self.report.gaps += 1;
            self.books.tell_gap(name);
        } else {
            panic!("seed {}: client {name} got {packet}", self.seed);
        }
    }

    /// The kept events of a room, for a client that joined it.
    fn take_history(&mut self, name: usize, text: &str) {
        let (head, list) = text.split_once("\"messages\"").expect("messages");
        let room = *digits(head).last().expect("a room") as usize;
        let events = list.split("\"args\":[").skip(1);
        let kept: Vec<u64> = events.map(|text| digits(text)[1]).collect();
        let is_full = kept.len() >= HISTORY_EVENTS_MAX || text.len() >= HISTORY_BYTES_MAX / 2;
        self.report.histories += 1;
        self.books.take_history(name, room, kept, is_full);
    }
}

/// Where the number is among those of an event: behind the kind of packet, the room, rooms or user, and the publisher.
fn place_of_number(packet: &str) -> Option<usize> {
    let (kind, _) = packet.strip_prefix("42[\"")?.split_once('-')?;
    match kind {
        "say" | "greet" => Some(3),
        "tell" => Some(4),
        _ => None,
    }
}
