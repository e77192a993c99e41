//! Clients in the namespace of the workers: they come, say something, and come back there for the socket that they had.

use super::person::offset_of;
use super::worker::guest;
use super::world::World;
use crate::client::Transport;
use crate::names::digits;

impl World {
    /// Somebody says something to the workers, or comes to them first.
    pub(crate) fn work(&mut self) {
        let Some(name) = self.someone() else { return };
        if let Transport::Plain { .. } = self.people[name].client.transport {
            return;
        }
        match self.people[name].works {
            None => {
                let connect = self.people[name].connect_to_workers(name);
                self.people[name].works = Some(false);
                self.packet(name, &connect);
            }
            Some(false) => {}
            Some(true) => {
                self.report.joins += 1;
                let ack = self.report.joins as u64;
                let publisher = self.people[name].publisher;
                let number = self.deeds.say(publisher, ack);
                self.packet(name, &format!("42/work,{ack}[\"do\",{publisher},{number}]"));
            }
        }
    }

    /// A client as the books know it there.
    fn guest(&self, name: usize) -> usize {
        guest(name, self.people[name].work_sockets)
    }

    /// A client that is back asks for the socket that it had with the workers.
    pub(crate) fn comes_to_workers_again(&mut self, name: usize) {
        let person = &mut self.people[name];
        if person.work_pid.is_some() {
            let connect = person.connect_to_workers(name);
            person.client.owed.push(connect);
        }
    }

    /// The connection of a client breaks.
    pub(crate) fn guest_breaks(&mut self, name: usize) {
        let person = &mut self.people[name];
        self.deeds.forget(person.publisher);
        // Without a socket there it does not ask again.
        let works = person.works.map(|_| false);
        if std::mem::replace(&mut person.works, works) == Some(true) {
            self.books.breaks(self.guest(name));
        }
    }

    /// A client is gone for good.
    pub(crate) fn guest_goes(&mut self, name: usize) {
        let person = &mut self.people[name];
        self.deeds.forget(person.publisher);
        (person.works, person.work_pid) = (None, None);
        if self.books.knows(self.guest(name)) {
            self.books.leave_all(self.guest(name));
        }
    }

    /// A packet of the workers' namespace.
    pub(crate) fn on_work(&mut self, name: usize, kind: &str, rest: &str) {
        let (seed, numbers) = (self.seed, digits(rest));
        if kind == "42"
            && let Some(offset) = offset_of(rest)
        {
            self.people[name].work_offset = Some(offset.to_owned());
        }
        match kind {
            "40" => self.is_let_in_by_workers(name, rest),
            "42" if rest.starts_with("[\"sockeye:gap\"") => {
                self.report.gaps += 1;
                self.books.tell_gap(self.guest(name));
            }
            "42" => {
                self.report.news += usize::from(rest.starts_with("[\"news\""));
                self.report.told += usize::from(rest.starts_with("[\"told\""));
                self.report.notes += usize::from(rest.starts_with("[\"note\""));
                self.books.hear(self.guest(name), numbers[0]);
            }
            "43" => {
                let number = (!rest.contains("error")).then(|| numbers[1]);
                let publisher = self.people[name].publisher;
                let answered = self.deeds.answer(publisher, numbers[0], number);
                answered.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
            }
            _ => panic!("seed {seed}: client {name} got {kind}{rest}"),
        }
    }

    fn is_let_in_by_workers(&mut self, name: usize, rest: &str) {
        let field = |name: &str| {
            let (_, rest) = rest.split_once(&format!("\"{name}\":\""))?;
            rest.split('"').next().map(str::to_owned)
        };
        let (id, pid) = (field("sid").expect("an id"), field("pid"));
        let (room, before) = (self.plan.rooms, self.guest(name));
        let person = &mut self.people[name];
        let is_same = pid.is_some() && pid == person.work_pid;
        (person.works, person.work_pid) = (Some(true), pid);
        let (life, publisher) = (person.life, person.publisher);
        let who = match self.books.knows(before) {
            true if is_same => {
                self.books.comes_back(before, life, is_same);
                before
            }
            true => {
                self.books.is_over(before);
                self.people[name].work_sockets += 1;
                let who = self.guest(name);
                self.books.come(who, life);
                who
            }
            false => {
                self.books.come(before, life);
                before
            }
        };
        self.report.guests += usize::from(is_same);
        if !is_same {
            self.people[name].work_offset = None;
            self.books.join(who, room);
            let seat = self.books.seat(&id);
            self.books.join(who, seat);
        }
        if !self.may_be_ended(name) {
            self.deeds.comes(publisher, life, id);
        }
    }
}
