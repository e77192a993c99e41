//! The clients around the hubs: what they do, and what they make of what they hear.

use crate::check::{Event, Sent, Stay};
use crate::client::{Client, Transport};
use crate::listener::STREAMS;
use crate::names::digits;
use crate::network::Link;
use crate::world::World;
use hub::bounds::{HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX};
use std::collections::{BTreeMap, BTreeSet};

/// The CONNECT packet of a client: its name, and a token for hubs that want one.
fn hello(name: usize) -> String {
    format!("40{{\"name\":{name},\"token\":\"t\"}}")
}

/// One of the events in a room's `history`, from its arguments on.
fn history_event(room: usize, text: &str) -> Event {
    let numbers = digits(text);
    let [publisher, number, ..] = numbers[..] else {
        panic!("not an event of ours: {text}")
    };
    (room, publisher as usize, number)
}

impl World {
    /// True in `percent` of all cases.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.dice.usize(..100) < percent
    }

    pub(crate) fn connect(&mut self) {
        if self.clients.len() >= self.plan.clients {
            return;
        }
        let name = self.clients.len();
        let main = self.dial(name);
        let polls = self.chance(self.plan.polling);
        let client = if polls {
            self.polls.insert(main);
            Client::new(Transport::Polling, main, None)
        } else {
            Client::new(Transport::WebSocket, main, None)
        };
        let hello = client.hello();
        self.clients.push(client);
        self.report.received.push(Vec::new());
        self.report.questions.push(BTreeSet::new());
        self.send(main, hello);
    }

    /// Any client that can act now.
    pub(crate) fn someone(&mut self) -> Option<usize> {
        let ready = |name: &usize| {
            let client = &self.clients[*name];
            client.joined && !client.gone && !client.pauses() && !self.posting.contains(name)
        };
        let able: Vec<usize> = (0..self.clients.len()).filter(ready).collect();
        (!able.is_empty()).then(|| able[self.dice.usize(..able.len())])
    }

    pub(crate) fn say(&mut self) {
        let Some(publisher) = self.someone() else {
            return;
        };
        let room = self.dice.usize(..self.plan.rooms);
        let other = self.dice.usize(..self.plan.rooms);
        let (rooms, event) = match room == other || self.chance(50) {
            true => (vec![room], format!("say-{room}")),
            false => (vec![room, other], format!("tell-{room}-{other}")),
        };
        self.numbers += 1;
        let number = self.numbers;
        self.report.sent.push(Sent {
            rooms,
            publisher,
            number,
            step: self.step,
        });
        let padding = "x".repeat(self.plan.padding);
        self.packet(
            publisher,
            &format!("42[\"{event}\",{publisher},{number},\"{padding}\"]"),
        );
    }

    /// Many messages in one read.
    pub(crate) fn burst(&mut self) {
        let Some(publisher) = self.someone() else {
            return;
        };
        if self.clients[publisher].transport == Transport::Polling {
            return;
        }
        let room = self.dice.usize(..self.plan.rooms);
        let mut bytes = Vec::new();
        // Some bring more than the share of a turn.
        let most = if self.chance(10) { 60 } else { 8 };
        for _ in 0..1 + self.dice.usize(..most) {
            self.numbers += 1;
            let number = self.numbers;
            self.report.sent.push(Sent {
                rooms: vec![room],
                publisher,
                number,
                step: self.step,
            });
            let text = format!("42[\"say-{room}\",{publisher},{number}]");
            bytes.extend(self.clients[publisher].packet(&text));
        }
        self.send(self.clients[publisher].main, bytes);
    }

    /// Everybody in a room is asked for an ack.
    pub(crate) fn ask(&mut self) {
        if let Some(name) = self.someone() {
            let room = self.dice.usize(..self.plan.rooms);
            let number = self.report.asks.len();
            self.report.asks.push((room, self.step));
            self.packet(name, &format!("42[\"ask-{room}\",{number}]"));
        }
    }

    /// A client leaves the namespace, comes back and speaks, all in one read.
    pub(crate) fn come_back(&mut self) {
        let Some(name) = self.someone() else { return };
        if self.clients[name].transport == Transport::Polling {
            return;
        }
        self.leave_everything(name);
        self.clients[name].joined = false;
        let packets = ["41", &hello(name), "42[\"nothing\"]"];
        let bytes = packets.map(|text| self.clients[name].packet(text));
        self.send(self.clients[name].main, bytes.concat());
    }

    /// A client that polls goes on over a WebSocket.
    pub(crate) fn upgrade(&mut self) {
        let Some(name) = self.someone() else { return };
        let client = &self.clients[name];
        if client.transport == Transport::WebSocket || client.probe.is_some() {
            return;
        }
        let link = self.dial(name);
        if let Some(hello) = self.clients[name].begin_upgrade(link) {
            self.send(link, hello);
        }
    }

    /// An answered probe takes over once the last poll and the last POST have their answers.
    fn take_over(&mut self, name: usize) {
        let Some(link) = self.clients[name].end_upgrade() else {
            return;
        };
        self.report.upgrades += 1;
        let bytes = self.clients[name].packet("5");
        self.send(link, bytes);
        self.answer_what_was_asked(name);
    }

    pub(crate) fn leave_everything(&mut self, name: usize) {
        let asked = self.asked.range_mut((name, 0)..=(name, u64::MAX));
        asked.for_each(|(_, room)| *room = None);
        for room in 0..self.plan.rooms {
            self.report.forget((name, room));
            if self.members.remove(&(name, room)) {
                self.end_stay(name, room);
            }
        }
    }

    /// A client stops reading, or reads on.
    pub(crate) fn read_slowly(&mut self) {
        let slow: Vec<usize> = (0..self.links.len())
            .filter(|link| self.links[*link].room.is_some())
            .collect();
        if let Some(link) = slow.first().copied()
            && self.chance(60)
        {
            return self.read_on(link);
        }
        if let Some(name) = self.someone() {
            let room = self.dice.usize(..64);
            let link = self.clients[name].main;
            self.links[link].room = Some(room);
            let since = self.links[link].slow_since.min(self.step);
            self.links[link].slow_since = since.min(self.oldest_mail());
        }
    }

    /// The kernel takes all bytes again.
    pub(crate) fn read_on(&mut self, link: usize) {
        self.links[link].room = None;
        let Link { node, conn, .. } = self.links[link];
        if let Some(conn) = conn
            && !self.stands_still(node)
        {
            self.links[link].slow_since = u64::MAX;
            self.turn(node, |mut turn| turn.writable(conn));
            self.end_turn(node);
        }
    }

    pub(crate) fn join_or_leave(&mut self) {
        let Some(client) = self.someone() else { return };
        let room = self.dice.usize(..self.plan.rooms);
        if self.members.remove(&(client, room)) {
            self.end_stay(client, room);
            self.report.forget((client, room));
            self.packet(client, &format!("42[\"leave\",\"room-{room}\"]"));
        } else if !self
            .asked
            .iter()
            .any(|((asker, _), asked)| *asker == client && *asked == Some(room))
        {
            self.numbers += 1;
            self.asked.insert((client, self.numbers), Some(room));
            let id = self.numbers;
            self.packet(client, &format!("42{id}[\"join\",\"room-{room}\"]"));
        }
    }

    /// A WebSocket client goes, in one way or another.
    pub(crate) fn vanish(&mut self) {
        let Some(name) = self.someone() else { return };
        if self.clients[name].transport == Transport::Polling {
            return;
        }
        self.end(name);
    }

    pub(crate) fn end(&mut self, name: usize) {
        self.tell(|| format!("client {name} goes"));
        self.leave_everything(name);
        self.clients[name].gone = true;
        let Link { node, conn, .. } = self.links[self.clients[name].main];
        let Some(conn) = conn else { return };
        if self.stands_still(node) {
            return self.packet(name, "1");
        }
        // A connection that breaks takes along what its hub has read of it and not worked on.
        let kind = match self.nodes[node].hub.is_stalled(conn) {
            true => 1,
            false => self.dice.usize(..3),
        };
        match kind {
            0 => self.turn(node, |mut turn| turn.broken(conn)),
            1 => self.turn(node, |mut turn| turn.eof(conn)),
            _ => return self.packet(name, "1"),
        }
        self.end_turn(node);
    }

    /// A packet from a client: a frame, or a POST to any hub.
    pub(crate) fn packet(&mut self, name: usize, text: &str) {
        self.tell(|| format!("client {name} sends {text}"));
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
    pub(crate) fn hear(&mut self) {
        for link in 0..self.links.len() {
            if self.links[link].out.is_empty() {
                continue;
            }
            let bytes = std::mem::take(&mut self.links[link].out);
            let name = self.links[link].client;
            self.tell(|| {
                format!(
                    "client {name} gets {} bytes by connection {link}",
                    bytes.len()
                )
            });
            if name >= STREAMS {
                self.hear_stream(name - STREAMS, link, &bytes);
                continue;
            }
            let probe = self.clients[name].probe.as_ref();
            if probe.is_some_and(|probe| probe.link == link) {
                if let Some(answer) = self.clients[name].receive_probe(&bytes) {
                    self.send(link, answer);
                }
                assert!(
                    self.clients[name].probe.is_some(),
                    "the probe of client {name} was closed"
                );
                self.go_on(name);
            } else if self.clients[name].main == link {
                let greeted = self.clients[name].sid.is_some();
                let whole = self.clients[name].receive(&bytes);
                self.answer(name, greeted, whole > 0);
            } else if String::from_utf8_lossy(&bytes).ends_with("\r\n\r\nok") {
                self.posting.remove(&name);
                self.answer_what_was_asked(name);
                self.go_on(name);
            } else if !self.clients[name].gone {
                let answer = String::from_utf8_lossy(&bytes).into_owned();
                panic!("seed {}: client {name} was answered {answer:?}", self.seed);
            }
        }
    }

    /// What a client does about what it heard.
    pub(crate) fn answer(&mut self, name: usize, greeted: bool, whole: bool) {
        for packet in std::mem::take(&mut self.clients[name].packets) {
            self.on_packet(name, &packet);
        }
        self.answer_what_was_asked(name);
        if !greeted && self.clients[name].sid.is_some() {
            self.packet(name, &hello(name));
        }
        if whole {
            self.clients[name].polling = false;
            self.go_on(name);
        }
    }

    /// A client that waits for no answer polls again, or goes over to its WebSocket.
    fn go_on(&mut self, name: usize) {
        let client = &self.clients[name];
        if client.transport != Transport::Polling || client.gone || client.polling {
            return;
        }
        if client.pauses() {
            if !self.posting.contains(&name) {
                self.take_over(name);
            }
            return;
        }
        let Some(poll) = client.poll() else { return };
        if self.chance(50) || self.links[self.clients[name].main].conn.is_none() {
            self.clients[name].main = self.dial(name);
            self.polls.insert(self.clients[name].main);
        }
        self.clients[name].polling = true;
        self.send(self.clients[name].main, poll);
    }

    /// Pongs and acks that a client owes: one POST at a time.
    fn answer_what_was_asked(&mut self, name: usize) {
        if self.clients[name].gone || self.clients[name].pauses() || self.posting.contains(&name) {
            return;
        }
        let owed = std::mem::take(&mut self.clients[name].owed);
        if owed.is_empty() {
            return;
        }
        if self.clients[name].transport == Transport::Polling {
            return self.packet(name, &owed.join("\x1e"));
        }
        let bytes = owed.iter().map(|text| self.clients[name].packet(text));
        let bytes = bytes.collect::<Vec<_>>().concat();
        self.send(self.clients[name].main, bytes);
    }

    /// `alone`: it was for this room only.
    fn take_event(&mut self, name: usize, event: Event, alone: bool) {
        let (room, publisher, _) = event;
        if alone && self.members.contains(&(name, room)) {
            self.report.caught_up.insert((name, room));
        }
        // By another room it may come before the room's history, which has it, too.
        let follows = self.report.caught_up.contains(&(name, room));
        if self.plan.kept && publisher != name && follows {
            self.report.follow(self.seed, name, event);
        } else if self.plan.kept
            && publisher != name
            && let Some(stream) = self.report.streams.get_mut(&(name, room))
        {
            stream.insert(publisher, event.2);
        }
        self.report.received[name].push(event);
    }

    /// The kept events of a room, for a client that joined it: what comes from now on follows it.
    fn take_history(&mut self, name: usize, text: &str) {
        let (head, list) = text.split_once("\"messages\"").expect("messages");
        let room = *digits(head).last().expect("a room") as usize;
        let events = list.split("\"args\":[").skip(1);
        let events: Vec<Event> = events.map(|text| history_event(room, text)).collect();
        self.report.histories += 1;
        self.report.streams.insert((name, room), BTreeMap::new());
        if self.members.contains(&(name, room)) {
            self.report.caught_up.insert((name, room));
        }
        // A full history has forgotten what came first, perhaps since the client joined: its stay counts from here.
        let full = events.len() >= HISTORY_EVENTS_MAX || text.len() >= HISTORY_BYTES_MAX / 2;
        let stays = self.report.stays.get_mut(&(name, room)).filter(|_| full);
        if let Some(stay) = stays.and_then(|stays| stays.last_mut()) {
            stay.from = self.step;
        }
        for event in events {
            self.report.follow(self.seed, name, event);
            self.report.got_before.push((name, event));
        }
    }

    pub(crate) fn on_packet(&mut self, name: usize, packet: &str) {
        if packet != "2" {
            self.tell(|| format!("client {name} hears {packet}"));
        }
        if packet == "2" {
            return self.clients[name].owed.push("3".to_owned());
        }
        if let Some((id, rest)) = packet
            .strip_prefix("42")
            .and_then(|rest| rest.split_once('['))
            && let Ok(id) = id.parse::<u64>()
        {
            let numbers = digits(rest);
            self.report.questions[name].insert(numbers[1]);
            return self.clients[name].owed.push(format!("43{id}[]"));
        }
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
            if let Some(room) = room
                && !self.clients[name].gone
            {
                self.report.begin((name, room));
                self.members.insert((name, room));
                // From now on nothing may pass by: the answer says that all hubs know of the join.
                let stays = self.report.stays.entry((name, room)).or_default();
                stays.push(Stay {
                    from: self.step,
                    until: u64::MAX,
                });
            }
        } else if packet.starts_with("42[\"history\"") {
            self.take_history(name, packet);
        } else if let Some(rest) = packet.strip_prefix("42[\"say-") {
            let numbers = digits(rest);
            let [room, publisher, number] = numbers[..] else {
                panic!("not an event of ours: {packet}")
            };
            self.take_event(name, (room as usize, publisher as usize, number), true);
        } else if let Some(rest) = packet.strip_prefix("42[\"tell-") {
            let numbers = digits(rest);
            let [first, second, publisher, number] = numbers[..] else {
                panic!("not an event of ours: {packet}")
            };
            for room in [first, second] {
                self.take_event(name, (room as usize, publisher as usize, number), false);
            }
        }
    }
}
