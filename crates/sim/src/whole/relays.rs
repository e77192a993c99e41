//! Nodes before which nobody keeps clients at their node: a request for a session of another node is carried there and back.

use super::due::{Due, MS};
use super::link::Owner;
use super::world::World;
use crate::client::Transport;
use hub::{Moved, Place};

/// Percent of the connections of a polling client that come to any node.
const STRAYING: usize = 30;

impl World {
    /// The node by which a client comes to its session.
    pub(crate) fn way_to(&mut self, life: usize) -> usize {
        match self.plan.relays && self.chance_of(STRAYING) {
            true => self.some_life().unwrap_or(life),
            false => life,
        }
    }

    /// A node carries a connection to the owner of its session.
    pub(crate) fn relay(&mut self, life: usize, link: usize, owner: Place, read: Vec<u8>) {
        let of = self.living(owner.node);
        let Some(to) = of.filter(|_| self.plan.relays) else {
            // Its clients are gone with it.
            return self.links[link].end();
        };
        self.tell(|| format!("connection {link} is relayed from life {life} to life {to}"));
        self.links[link].via = Some(life);
        self.links[link].life = to;
        let hub = usize::from(owner.shard);
        self.links[link].hub = hub;
        let relayed = Due::Relayed {
            life: to,
            hub,
            link,
            read,
        };
        self.note_soon(2 * MS, relayed);
    }

    pub(crate) fn relayed_here(&mut self, hub: usize, link: usize, mut read: Vec<u8>) {
        self.report.relays += 1;
        let life = self.links[link].life;
        self.turn(life, hub, |turn| {
            let moved = Moved {
                peer: [127, 0, 0, 1].into(),
                beyond: None,
                relayed: true,
                carried: false,
                new: true,
                secure: false,
                read: &mut read,
                ended: false,
            };
            turn.moved_here(moved, |wires, conn| wires.adopt(link, conn));
        });
    }

    /// The next request of a client may go by this connection. A relayed one brings a single request.
    pub(crate) fn may_ask_again(&self, link: usize) -> bool {
        self.links[link].conn.is_some() && self.links[link].via.is_none()
    }

    /// The request of a connection was answered. If it is relayed, its client ends it.
    pub(crate) fn ends_relay(&mut self, link: usize) {
        if self.links[link].via.is_some() && !self.links[link].is_over {
            self.links[link].owner = Owner::Nobody;
            self.on_the_way(link, Due::End { link });
        }
    }

    /// What a dead node carried breaks on both sides, and what came to it for other nodes is lost.
    pub(crate) fn relays_break(&mut self, dead: usize, time_us: u64) {
        for link in 0..self.links.len() {
            let (via, life) = (self.links[link].via, self.links[link].life);
            let Owner::Person(name) = self.links[link].owner else {
                continue;
            };
            let is_before = life == dead && self.people[name].life != dead;
            if via != Some(dead) && !is_before || self.links[link].is_over {
                continue;
            }
            self.on_the_way(link, Due::Broken { link });
            let client = &self.people[name].client;
            let is_its_own = client.main == link && client.transport != Transport::Polling;
            match is_its_own {
                true => self.loses_its_node(name, time_us),
                false => self.loses_a_request(name, link),
            }
        }
    }

    /// No answer will come to a request of a client that polls: its session is over for it, and it says so to its node.
    pub(crate) fn loses_a_request(&mut self, name: usize, link: usize) {
        let person = &self.people[name];
        let client = &person.client;
        let waits = client.polling && client.main == link
            || person.is_posting && client.post == Some(link)
            || client
                .probe
                .as_ref()
                .is_some_and(|probe| probe.link == link);
        if !waits || person.is_gone() {
            return;
        }
        match person.is_away {
            true => self.is_not_let_in(name, MS),
            false => self.gives_up(name),
        }
    }

    fn gives_up(&mut self, name: usize) {
        self.tell(|| format!("client {name} gives its session up"));
        self.says_goodbye(name);
        self.is_gone(name);
    }

    /// A client ends its session. An answer is for nobody.
    pub(crate) fn says_goodbye(&mut self, name: usize) {
        let client = &self.people[name].client;
        if client.transport != Transport::Polling {
            self.packet(name, "1");
        } else if client.sid.is_some() {
            let end = client.end();
            let link = self.dial(Owner::Nobody, self.people[name].life);
            self.send(link, end);
        }
    }

    /// A client is told that nobody knows its session: it was claimed, or a node before it takes the one of the session for dead.
    pub(crate) fn is_unknown(&mut self, name: usize) {
        if !self.plan.relays && self.may_be_claimed(name) {
            return self.is_claimed(name);
        }
        assert!(
            self.plan.relays,
            "seed {}: nobody knows the session of client {name}",
            self.seed
        );
        self.report.unknown += 1;
        self.gives_up(name);
    }
}
