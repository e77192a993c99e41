//! Clients whose connection breaks, and who come back to any node for their socket and what they missed.

use super::due::{Due, MS, SECOND};
use super::link::Owner;
use super::person::RETURNED;
use super::plan::WINDOW;
use super::world::World;
use crate::client::{Client, Transport};
use std::ops::Range;

/// A client that finds no node tries again after this time.
pub(crate) const AGAIN_US: u64 = 100 * MS;
/// Others notice so late that a connection broke.
const NOTICED_US: u64 = 6 * SECOND;
const AWAY_US: u64 = 4 * SECOND;

impl World {
    /// The connection of a client breaks.
    pub(crate) fn break_off(&mut self) {
        let Some(name) = self.someone() else { return };
        if self.may_return(name) {
            let time_us = match self.dice.u8(..10) {
                0 => WINDOW.as_micros() as u64 + self.dice.u64(..AWAY_US),
                1..4 => self.dice.u64(..50 * MS),
                _ => self.dice.u64(..AWAY_US),
            };
            self.is_cut(name, time_us);
        }
    }

    pub(crate) fn may_return(&self, name: usize) -> bool {
        let client = &self.people[name].client;
        self.people[name].pid.is_some() && client.transport == Transport::WebSocket
    }

    /// A client hears nothing more by its connection, and comes back after this time.
    pub(crate) fn is_cut(&mut self, name: usize, time_us: u64) {
        self.tell(|| format!("client {name} is cut off for {time_us} us"));
        self.guest_breaks(name);
        let person = &mut self.people[name];
        person.is_away = true;
        person.joins.clear();
        person.client.owed.clear();
        person.client.joined = false;
        let (link, publisher) = (person.client.main, person.publisher);
        let probe = person.client.probe.as_ref().map(|probe| probe.link);
        for way in [Some(link), person.client.post, probe]
            .into_iter()
            .flatten()
        {
            self.links[way].owner = Owner::Nobody;
        }
        self.books.breaks(name);
        // What it said last may not have been read.
        self.books.end_publisher(publisher);
        let noticed_us = match self.dice.u8(..3) {
            0 => 0,
            1 => self.dice.u64(..50 * MS),
            _ => self.dice.u64(..NOTICED_US),
        };
        let at_us = self.links[link].last_us.max(self.now_us + noticed_us);
        self.links[link].last_us = at_us;
        self.calendar.note(at_us, Due::Broken { link });
        self.calendar
            .note(self.now_us + time_us, Due::Back { name });
    }

    /// The node of a client died. After this time it looks for another, if it ever comes back.
    pub(crate) fn loses_its_node(&mut self, name: usize, time_us: u64) {
        let person = &self.people[name];
        match person.is_away {
            _ if person.is_gone() => {}
            true => self.is_not_let_in(name, time_us),
            false if self.may_return(name) => self.is_cut(name, time_us),
            false => self.is_gone(name),
        }
    }

    /// A client that came back lost its connection before it was let in: it tries again after this time.
    pub(crate) fn is_not_let_in(&mut self, name: usize, time_us: u64) {
        let link = self.people[name].client.main;
        if self.links[link].owner == Owner::Nobody {
            // It has not come yet.
            return;
        }
        self.tell(|| format!("client {name} is not let in"));
        self.links[link].owner = Owner::Nobody;
        self.people[name].client.gone = false;
        self.calendar
            .note(self.now_us + time_us, Due::Back { name });
    }

    pub(crate) fn come_back(&mut self, name: usize) {
        let Some(life) = self.some_life() else {
            return self
                .calendar
                .note(self.now_us + AGAIN_US, Due::Back { name });
        };
        let main = self.dial(Owner::Person(name), life);
        let transport = match self.dice.usize(..100) < self.plan.polling {
            true => Transport::Polling,
            false => Transport::WebSocket,
        };
        self.tell(|| format!("client {name} comes back to life {life} by {transport:?}"));
        let client = Client::new(transport, main, None);
        let hello = client.hello();
        let publisher = self.books.newcomer(RETURNED);
        let person = &mut self.people[name];
        person.turns += 1;
        (person.client, person.life, person.publisher) = (client, life, publisher);
        (person.was_slow, person.is_posting) = (false, false);
        self.send(main, hello);
    }

    /// A client was let in, with a name by which it can come back, or without one.
    pub(crate) fn is_let_in(&mut self, name: usize) {
        let person = &mut self.people[name];
        let pid = person.client.pid.clone();
        let was_away = std::mem::replace(&mut person.is_away, false);
        let is_same = pid.is_some() && pid == person.pid;
        let life = person.life;
        let is_user = person.client.sid.is_some();
        person.pid = pid;
        if was_away {
            self.is_back(name, life, is_same);
            self.comes_to_workers_again(name);
        }
        if is_user && !is_same {
            self.is_greeted(name);
        }
    }

    /// Rooms in the books of what is said to users.
    pub(crate) fn users(&self) -> Range<usize> {
        let first = self.plan.rooms + 1;
        first..first + self.people.len()
    }

    /// Whoever speaks to a user that was let in reaches it, on whichever node.
    fn is_greeted(&mut self, name: usize) {
        let room = self.users().start + name;
        self.books.join(name, room);
        let life = self.people[name].life;
        let people = self.people.iter().enumerate();
        let others = people.filter(|(_, one)| one.may_speak() && one.life != life);
        let others: Vec<usize> = others.map(|(other, _)| other).collect();
        if others.is_empty() {
            return;
        }
        let other = others[self.delays.usize(..others.len())];
        let speaker = &self.people[other];
        let as_whom = (other, speaker.publisher);
        let number = self.books.say_as(as_whom, vec![room], speaker.life);
        let padding = self.plan.padding();
        let greeting = format!("42[\"greet-{name}\",{other},{number},\"{padding}\"]");
        self.packet(other, &greeting);
    }

    fn is_back(&mut self, name: usize, life: usize, is_same: bool) {
        self.tell(|| format!("client {name} is back, as the same socket: {is_same}"));
        self.books.comes_back(name, life, is_same);
        if !is_same {
            self.report.strangers += 1;
            return self.people[name].offset = None;
        }
        self.report.returns += 1;
        // Whether it had joined or left a room when its connection broke, it does not know.
        for room in 0..self.plan.rooms {
            if !self.books.is_in(name, room) {
                let leave = format!("42[\"leave\",\"room-{room}\"]");
                self.people[name].client.owed.push(leave);
            }
        }
    }
}
