//! Another process goes on as a life of a node, as `sockeye upgrade` does it: sessions, the place among the nodes and what is known of workers
//! go as records. One that cannot write its place down goes on itself.

use super::due::Due;
use super::life::Life;
use super::returns::AGAIN_US;
use super::world::World;
use crate::names::sid;
use handoff::{Keepsakes, Ledger, ShardWord};
use hub::{ConnId, Handed, SessionId};
use std::collections::BTreeSet;

/// Rounds of mail after which hubs must be quiet.
const ROUNDS_MAX: usize = 1_000;

enum Record {
    Session(Box<handoff::Session>),
    Visitor(Box<handoff::Visitor>),
}

/// Something that goes: from which hub, its session and its connections there, the links of these, and its record.
struct Gone {
    hub: usize,
    session: Option<SessionId>,
    conns: Vec<ConnId>,
    links: Vec<usize>,
    record: Record,
}

/// Whether it is within a process, or about to come back to it.
fn is_inside(due: &Due, of: usize) -> bool {
    match due {
        Due::Answer { life, .. }
        | Due::Parcel { life, .. }
        | Due::Mail { life, .. }
        | Due::Move { life, .. }
        | Due::Turn { life, .. } => *life == of,
        _ => false,
    }
}

impl World {
    pub(crate) fn hand_over(&mut self, number: u16) {
        let Some(life) = self.living(number) else {
            return;
        };
        if !self.lives[life].is_open() || self.lives[life].frozen_until > self.now_us {
            return;
        }
        self.lives[life].station.stand(true);
        self.with_office(life, |office, around| office.cut_all(around));
        self.come_to_rest(life);
        let Some(place) = self.lives[life].station.record() else {
            self.tell(|| format!("node {number} does not hand over"));
            return self.lives[life].station.stand(false);
        };
        self.tell(|| format!("another process goes on as node {number}"));
        let (gone, pieces, onward) = self.records(life);
        self.let_go(life, &gone);
        let mut heir = self.heir(life, &place);
        let old = &mut self.lives[life];
        let now_ms = self.now_us / super::due::MS;
        std::mem::swap(&mut heir.feed, &mut old.feed);
        std::mem::swap(&mut heir.unread, &mut old.unread);
        heir.called_us = old.called_us;
        {
            let (mut new, mut old) = (
                heir.diary.lock().expect("whole"),
                old.diary.lock().expect("whole"),
            );
            std::mem::swap(&mut *new, &mut *old);
            // Nobody is told what came of rounds that the old hubs began.
            new.open = 0;
        }
        self.with_office(life, |old, around| old.bequeath(&mut heir.office, around));
        self.lives[life] = heir;
        self.report.successions += 1;
        self.report.carried += gone.len();
        for (hub, piece) in &pieces {
            let left_out = self.turn(life, *hub, |turn| turn.keepsakes_arrived(piece));
            assert_eq!(left_out, Ok(0), "seed {}", self.seed);
        }
        for one in gone {
            self.arrives(life, &one);
        }
        for (hub, onward) in onward.into_iter().enumerate() {
            self.turn(life, hub, |turn| turn.all_arrived(onward));
        }
        // Others are told of all members before anything else is said.
        self.come_to_rest(life);
        self.lives[life].station.go_on();
        if self.plan.server {
            self.lives[life].bridge.begin(now_ms);
        }
    }

    /// Nobody is read, and what is under way within the process arrives.
    fn come_to_rest(&mut self, life: usize) {
        for hub in 0..self.plan.hubs {
            self.lives[life].hubs[hub].still_until = self.now_us;
            self.wake(life, hub);
            self.turn(life, hub, |turn| turn.answer_waiting_polls());
        }
        for _ in 0..ROUNDS_MAX {
            let words = self.with_office(life, |office, around| office.come_to_rest(around));
            self.post_words(life, words);
            let inside = self.calendar.take(|due| is_inside(due, life));
            let hubs = &self.lives[life].hubs;
            if inside.is_empty() && hubs.iter().all(|seat| seat.hub.held_back() == 0) {
                // Some have moved here since.
                (0..self.plan.hubs).for_each(|hub| {
                    self.turn(life, hub, |turn| turn.answer_waiting_polls());
                });
                return self.hear();
            }
            for due in inside {
                self.happen(due);
            }
            (0..self.plan.hubs).for_each(|hub| self.turn(life, hub, |turn| turn.resume()));
        }
        panic!("seed {}: life {life} does not come to rest", self.seed);
    }

    fn records(&self, life: usize) -> (Vec<Gone>, Vec<(usize, Keepsakes)>, Vec<ShardWord>) {
        let (mut gone, mut pieces, mut ledger) = (Vec::new(), Vec::new(), Ledger::default());
        let seats = &self.lives[life].hubs;
        for (hub, seat) in seats.iter().enumerate() {
            let mut handing = seat.hub.handing(handoff::takes::ALL);
            handing.keep_from(0);
            while let Some(handed) = seat.hub.hand(&mut handing, |_| false) {
                let (session, conns, record) = match handed {
                    // There is no bus.
                    Handed::Marks(_) => continue,
                    Handed::Keeps(piece) => {
                        let admitted = ledger.admit_keepsakes(&piece);
                        admitted.expect("a piece that fits");
                        pieces.push((hub, *piece));
                        continue;
                    }
                    Handed::Goes(conns, session, record) => {
                        ledger.admit(&record).expect("a record that fits");
                        (Some(session), conns, Record::Session(record))
                    }
                    Handed::Visits(conn, record) => {
                        ledger.admit_visitor(&record).expect("a record that fits");
                        (None, vec![conn], Record::Visitor(record))
                    }
                };
                let links = conns.iter().filter_map(|conn| seat.conns.get(conn));
                gone.push(Gone {
                    hub,
                    session,
                    links: links.copied().collect(),
                    conns,
                    record,
                });
            }
        }
        let onward = seats.iter().map(|seat| seat.hub.onward());
        (gone, pieces, onward.collect())
    }

    /// The old hubs forget what goes, and tell all others to come back.
    fn let_go(&mut self, life: usize, gone: &[Gone]) {
        for hub in 0..self.plan.hubs {
            self.turn(life, hub, |turn| turn.all_handed_over());
        }
        for one in gone {
            for conn in &one.conns {
                self.lives[life].hubs[one.hub].conns.remove(conn);
            }
            self.turn(life, one.hub, |turn| {
                turn.handed_over(one.session, &one.conns)
            });
        }
        let carried = gone.iter().filter_map(|one| match &one.record {
            Record::Session(record) => Some(sid(&record.sid)),
            Record::Visitor(_) => None,
        });
        let carried: BTreeSet<String> = carried.collect();
        let moved: BTreeSet<usize> = gone.iter().flat_map(|one| one.links.clone()).collect();
        for name in 0..self.people.len() {
            let person = &self.people[name];
            if person.is_gone() || person.life != life {
                continue;
            }
            let (client, link) = (&person.client, &self.links[person.client.main]);
            let goes = match &client.sid {
                Some(sid) => carried.contains(sid),
                None => moved.contains(&client.main) || link.conn.is_none(),
            };
            if !goes {
                self.tell(|| format!("client {name} stays behind"));
                self.loses_its_node(name, AGAIN_US);
            }
        }
        for hub in 0..self.plan.hubs {
            self.turn(life, hub, |turn| turn.drain(0, 0, false));
            // A process waits until what it has written is out.
            for (conn, link) in self.lives[life].hubs[hub].conns.clone() {
                self.links[link].room = None;
                self.turn(life, hub, |turn| turn.writable(conn));
            }
            let seat = &mut self.lives[life].hubs[hub];
            for link in std::mem::take(&mut seat.conns).into_values() {
                self.links[link].end();
            }
        }
        for stream in self.streams.iter_mut().map(|stream| &mut stream.listener) {
            stream.link = stream.link.filter(|link| !self.links[*link].is_over);
        }
        // What they said last is about those who went.
        self.calendar.take(|due| is_inside(due, life));
    }

    fn arrives(&mut self, life: usize, one: &Gone) {
        let mut links = one.links.iter();
        let mut next = || *links.next().expect("a link of each connection");
        let unable = self.turn(life, one.hub, |turn| match &one.record {
            Record::Session(record) => {
                let arrived = turn.arrived(record, |wires, conn| {
                    wires.adopt(next(), conn);
                });
                arrived.err()
            }
            Record::Visitor(record) => {
                let arrived = turn.visitor_arrived(record, |wires, conn| {
                    wires.adopt(next(), conn);
                });
                arrived.err()
            }
        });
        assert_eq!(unable, None, "seed {}", self.seed);
    }

    fn heir(&mut self, life: usize, place: &[u8]) -> Life {
        let me = self.lives[life].me;
        let mut heir = self.make_life(me, Vec::new());
        let limits = self.limits();
        heir.station.restore(me, limits, place);
        heir.station.has_ear = self.plan.server;
        heir.station.stand(true);
        heir
    }
}
