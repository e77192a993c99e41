//! Another process takes over, as `sockeye upgrade` does it: nobody is read until all is quiet, then each session goes as a record to hubs that are
//! made anew, or its client is told to come back.

use crate::names::sid;
use crate::world::World;
use handoff::{Keepsakes, Ledger, ShardWord};
use hub::{ConnId, Handed, Process, SessionId};
use std::collections::BTreeSet;

/// Rounds of messages after which hubs must be quiet.
const ROUNDS_MAX: usize = 1_000;

/// Something that goes: from which hub, its session and its connections there, and its record.
struct Gone {
    node: usize,
    session: Option<SessionId>,
    conns: Vec<ConnId>,
    record: Record,
}

enum Record {
    Session(Box<handoff::Session>),
    Visitor(Box<handoff::Visitor>),
}

impl World {
    pub(crate) fn hand_over(&mut self) {
        self.tell(|| "another process takes over".to_owned());
        self.come_to_rest();
        let (gone, pieces, onward) = self.records();
        let heirs = self.make_hubs(&Process::new(&self.config.rates));
        let carried = gone.iter().filter_map(|one| match &one.record {
            Record::Session(record) => Some(sid(&record.sid)),
            Record::Visitor(_) => None,
        });
        let carried: BTreeSet<String> = carried.collect();
        // The connections of what goes are none of the old hubs'.
        let links = gone.iter().map(|one| {
            let own = &mut self.nodes[one.node].links;
            let links = one.conns.iter().filter_map(|conn| own.remove(conn));
            links.collect()
        });
        let links: Vec<Vec<usize>> = links.collect();
        let moved = links.iter().flatten().copied().collect();
        self.let_go(&gone, &carried, &moved);
        self.nodes = heirs;
        for (node, piece) in &pieces {
            let left_out = self.turn(*node, |mut turn| turn.keepsakes_arrived(piece));
            assert_eq!(left_out, Ok(0), "seed {}", self.seed);
        }
        for (one, link) in gone.iter().zip(links) {
            self.arrives(one, &link);
        }
        for (node, onward) in onward.into_iter().enumerate() {
            self.turn(node, |mut turn| turn.all_arrived(onward));
        }
        (0..self.nodes.len()).for_each(|node| self.end_turn(node));
        self.report.successions += 1;
        self.report.carried += carried.len();
    }

    /// Nobody is read, and what is under way between hubs arrives.
    fn come_to_rest(&mut self) {
        for node in &mut self.nodes {
            node.still_until = node.still_until.min(self.step);
        }
        self.wake_up();
        for node in 0..self.nodes.len() {
            self.turn(node, |mut turn| turn.answer_waiting_polls());
            self.end_turn(node);
        }
        for _ in 0..ROUNDS_MAX {
            while !self.mail.is_empty() || !self.moves.is_empty() {
                self.deliver_mail();
                self.carry_out_move();
            }
            for node in 0..self.nodes.len() {
                self.turn(node, |mut turn| turn.resume());
                self.end_turn(node);
            }
            let is_held = self.nodes.iter().any(|node| node.hub.held_back() > 0);
            if !is_held && self.mail.is_empty() && self.moves.is_empty() {
                // Some have moved here since.
                for node in 0..self.nodes.len() {
                    self.turn(node, |mut turn| turn.answer_waiting_polls());
                    self.end_turn(node);
                }
                return;
            }
        }
        panic!("seed {}: hubs do not come to rest", self.seed);
    }

    fn records(&self) -> (Vec<Gone>, Vec<(usize, Keepsakes)>, Vec<ShardWord>) {
        let (mut gone, mut ledger) = (Vec::new(), Ledger::default());
        let mut pieces = Vec::new();
        for (node, own) in self.nodes.iter().enumerate() {
            let mut handing = own.hub.handing(handoff::takes::ALL);
            handing.keep_from(0);
            while let Some(handed) = own.hub.hand(&mut handing, |_| false) {
                let one = match handed {
                    // There is no bus.
                    Handed::Marks(_) => continue,
                    Handed::Keeps(piece) => {
                        let admitted = ledger.admit_keepsakes(&piece);
                        admitted.unwrap_or_else(|unfit| panic!("seed {}: {unfit:?}", self.seed));
                        pieces.push((node, *piece));
                        continue;
                    }
                    Handed::Goes(conns, session, record) => {
                        let admitted = ledger.admit(&record);
                        admitted.unwrap_or_else(|unfit| panic!("seed {}: {unfit:?}", self.seed));
                        let record = Record::Session(record);
                        (Some(session), conns, record)
                    }
                    Handed::Visits(conn, record) => {
                        let admitted = ledger.admit_visitor(&record);
                        admitted.unwrap_or_else(|unfit| panic!("seed {}: {unfit:?}", self.seed));
                        (None, vec![conn], Record::Visitor(record))
                    }
                };
                let (session, conns, record) = one;
                gone.push(Gone {
                    node,
                    session,
                    conns,
                    record,
                });
            }
        }
        let onward = self.nodes.iter().map(|node| node.hub.onward());
        (gone, pieces, onward.collect())
    }

    /// The old hubs forget what goes, and tell all others to come back.
    fn let_go(&mut self, gone: &[Gone], carried: &BTreeSet<String>, moved: &BTreeSet<usize>) {
        for node in 0..self.nodes.len() {
            self.turn(node, |mut turn| turn.all_handed_over());
        }
        for one in gone {
            self.turn(one.node, |mut turn| {
                turn.handed_over(one.session, &one.conns);
            });
        }
        for name in 0..self.clients.len() {
            if self.clients[name].gone || self.goes(name, carried, moved) {
                continue;
            }
            self.tell(|| format!("client {name} stays behind"));
            self.leave_everything(name);
            // It is closed with all that it has not read.
            let own = self.report.stays.range_mut((name, 0)..=(name, usize::MAX));
            for stay in own.filter_map(|(_, stays)| stays.last_mut()) {
                stay.until = stay.until.min(stay.from);
            }
            (self.clients[name].gone, self.clients[name].probe) = (true, None);
            self.posting.remove(&name);
        }
        for node in 0..self.nodes.len() {
            self.turn(node, |mut turn| turn.drain(0, 0, false));
            self.end_turn(node);
            // A process waits until what it has written is out.
            let own: Vec<usize> = self.nodes[node].links.values().copied().collect();
            own.into_iter().for_each(|link| self.read_on(link));
            for link in std::mem::take(&mut self.nodes[node].links).into_values() {
                self.links[link].conn = None;
            }
        }
        // Streams come back with the last place that they heard.
        for listener in &mut self.listeners {
            let link = listener.link;
            listener.link = link.filter(|link| self.links[*link].conn.is_some());
        }
        self.mail.clear();
        self.questions.clear();
        // Nobody is told what came of rounds that the old hubs began.
        self.diary.lock().expect("no handler panicked").open = 0;
    }

    /// Whether its session goes, or its connection if it has none yet.
    fn goes(&self, name: usize, carried: &BTreeSet<String>, moved: &BTreeSet<usize>) -> bool {
        let client = &self.clients[name];
        let link = &self.links[client.main];
        let unread = String::from_utf8_lossy(&link.out).into_owned();
        let unread = unread.split("\"sid\":\"").nth(1);
        let unread = unread.and_then(|rest| rest.get(..20));
        let sid = client.sid.as_deref().or(unread);
        match sid {
            Some(sid) => carried.contains(sid),
            None => link.conn.is_none() || moved.contains(&client.main),
        }
    }

    fn arrives(&mut self, one: &Gone, links: &[usize]) {
        let (seed, mut links) = (self.seed, links.iter());
        let mut next = || *links.next().expect("a link of each connection");
        let unable = self.turn(one.node, |mut turn| match &one.record {
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
        assert_eq!(unable, None, "seed {seed}");
    }
}
