//! Clients, which come, speak, go and come back; and their shards.

use super::{ALONE, MET, Play};
use backend::proto;
use backend::{Down, Event, Name, Said, To, Up};
use std::collections::{BTreeMap, BTreeSet};

/// One time that an event was handled.
#[derive(Debug)]
pub(super) struct Handled {
    pub(super) number: u64,
    pub(super) marked: bool,
    /// Instance and life: a worker that was given up begins anew.
    pub(super) by: (u64, u64),
}

/// One connection of a client.
#[derive(Debug, Default)]
pub(super) struct Life {
    pub(super) admitted: Option<bool>,
    pub(super) gone: bool,
    pub(super) gone_heard: u64,
    /// Events that it sent before this one began.
    pub(super) first: u64,
    /// Lives of workers that were sent its CONNECT, and those that had nothing beside it.
    pub(super) had_by: BTreeSet<(u64, u64)>,
    pub(super) had_alone: BTreeSet<(u64, u64)>,
    /// A worker ended it: its shard hears of that at this time.
    pub(super) ends_at: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Client {
    /// Those that are over.
    pub(super) past: Vec<Life>,
    pub(super) life: Life,
    pub(super) sent: u64,
    /// Acks that it waits for, and events that it was told are refused.
    pub(super) waits: BTreeMap<u64, u64>,
    pub(super) refused: BTreeSet<u64>,
    /// Lives of workers that were sent an event, by its number.
    pub(super) had_by: BTreeMap<u64, BTreeSet<(u64, u64)>>,
    /// Those that had nothing beside it.
    pub(super) had_alone: BTreeMap<u64, BTreeSet<(u64, u64)>>,
    /// It was refused because workers ended over it.
    pub(super) deadly: BTreeSet<u64>,
    pub(super) answered: u64,
    pub(super) handled: Vec<Handled>,
}

impl Life {
    pub(super) fn is_in(&self) -> bool {
        self.admitted == Some(true) && !self.gone
    }

    /// Workers ended over its CONNECT, or so it seemed: no other got it.
    pub(super) fn is_deadly(&self) -> bool {
        self.had_alone.len() >= ALONE || self.had_by.len() >= MET
    }
}

impl Client {
    /// The same of one of its events.
    pub(super) fn is_deadly(&self, number: u64) -> bool {
        let lives = |of: &BTreeMap<u64, BTreeSet<_>>| of.get(&number).map_or(0, BTreeSet::len);
        lives(&self.had_alone) >= ALONE || lives(&self.had_by) >= MET
    }

    pub(super) fn lives(&self) -> impl Iterator<Item = (usize, &Life)> {
        self.past.iter().chain([&self.life]).enumerate()
    }

    pub(super) fn life_mut(&mut self, at: usize) -> &mut Life {
        self.past.get_mut(at).unwrap_or(&mut self.life)
    }

    /// The one in which it sent an event.
    pub(super) fn life_of(&self, number: u64) -> (usize, &Life) {
        let began = self.lives().filter(|(_, life)| life.first < number);
        began.last().expect("a life")
    }
}

impl Play<'_> {
    pub(super) fn clients_act(&mut self) {
        if self.rng.u8(..) < 12 {
            let name = format!("{:020}", self.clients.len());
            let name = Name::parse(&name).expect("a name");
            self.clients.insert(name, Client::default());
            self.connect(name);
        }
        let names: Vec<Name> = self.clients.keys().copied().collect();
        for name in names {
            match self.rng.u8(..) {
                0..40 => self.speak(name),
                40..42 => self.leave(name),
                42..100 if self.trouble.returns => self.come_back(name),
                _ => {}
            }
        }
    }

    fn connect(&mut self, name: Name) {
        let life = self.clients[&name].past.len();
        self.script
            .tell(|| format!("{} ms: {name:?} comes, life {life}", self.now));
        let connect = proto::Connect {
            socket: name.as_str().to_owned(),
            namespace: "/".to_owned(),
            auth: life.to_string().into(),
            ..proto::Connect::default()
        };
        let up = Up::Connect {
            number: life as u64,
            connect: connect.into(),
        };
        self.backend.up(self.now, up);
    }

    /// To the id that it had: only one that was let in has a name by which it can.
    fn come_back(&mut self, name: Name) {
        let client = self.clients.get_mut(&name).expect("a client");
        let known = client.lives().any(|(_, life)| life.admitted == Some(true));
        if !known || !client.life.gone {
            return;
        }
        let next = Life {
            first: client.sent,
            ..Life::default()
        };
        let over = std::mem::replace(&mut client.life, next);
        client.past.push(over);
        self.connect(name);
    }

    fn speak(&mut self, name: Name) {
        let client = self.clients.get_mut(&name).expect("a client");
        if !client.life.is_in() {
            return;
        }
        client.sent += 1;
        let number = client.sent;
        self.script
            .tell(|| format!("{} ms: {name:?} says {number}", self.now));
        let ack = if self.rng.bool() { number } else { 0 };
        if ack != 0 {
            client.waits.insert(ack, number);
        }
        let said = Said {
            event: "n",
            args: &number.to_string(),
            ack,
            ..Said::default()
        };
        self.backend
            .up(self.now, Up::Event(Event::new(name, &said)));
        // A refusal without an ack names no event: it is the one just said.
        self.carry_out();
    }

    pub(super) fn leave(&mut self, name: Name) {
        let client = self.clients.get_mut(&name).expect("a client");
        let life = &mut client.life;
        if life.admitted == Some(false) || std::mem::replace(&mut life.gone, true) {
            return;
        }
        client.waits.clear();
        let life = client.past.len();
        self.script
            .tell(|| format!("{} ms: {name:?} goes, life {life}", self.now));
        let gone = proto::Gone {
            socket: name.as_str().to_owned(),
            reason: life.to_string(),
            rooms: vec!["kitchen".to_owned()],
        };
        self.backend.up(self.now, Up::Gone(gone));
    }

    /// The shard's part.
    pub(super) fn carry_out(&mut self) {
        for out in self.backend.take_out() {
            let To::Socket(name) = out.to else { continue };
            let Some(client) = self.clients.get_mut(&name) else {
                continue;
            };
            match out.down {
                Down::Decide {
                    number, decision, ..
                } if !client.life.gone && number == client.past.len() as u64 => {
                    assert!(
                        client.life.admitted.is_none(),
                        "seed {}: decided twice",
                        self.seed
                    );
                    let unavailable = matches!(&decision, Err(refusal) if refusal.message == "service unavailable");
                    assert!(
                        !unavailable || client.life.is_deadly(),
                        "seed {}: nobody decided",
                        self.seed
                    );
                    client.life.admitted = Some(decision.is_ok());
                }
                Down::Ack(ack) if !client.life.gone => {
                    let waits = client.waits.remove(&ack.ack);
                    assert!(waits.is_some(), "seed {}: an answer to nobody", self.seed);
                    client.answered += 1;
                }
                Down::Refuse { ack, why, .. } if !client.life.gone => {
                    let number = match ack {
                        // It is not said which one: `check` knows.
                        0 if why == backend::Why::Deadly => continue,
                        0 => client.sent,
                        ack => client.waits.remove(&ack).expect("somebody waits"),
                    };
                    assert_ne!(why, backend::Why::Absent, "seed {}", self.seed);
                    if why == backend::Why::Deadly {
                        client.deadly.insert(number);
                    }
                    client.refused.insert(number);
                }
                Down::Describe { socket } if !client.life.gone => {
                    let described = Up::Described {
                        socket,
                        rooms: vec!["kitchen".to_owned()],
                        data: "{}".to_owned(),
                    };
                    self.backend.up(self.now, described);
                }
                _ => {}
            }
        }
        if !self.backend.take_out().is_empty() {
            unreachable!("descriptions make no work for shards");
        }
    }
}
