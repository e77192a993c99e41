//! The other node speaks to each client as soon as that was told that it is in, and to rooms.

use crate::check::Sent;
use crate::other_node::Saying;
use crate::world::World;
use std::sync::Arc;

impl World {
    /// Something between the nodes arrives.
    pub(crate) fn carry_between_nodes(&mut self) {
        let hub = self.dice.usize(..=self.nodes.len());
        let Some(elsewhere) = &mut self.elsewhere else {
            return;
        };
        if hub < self.nodes.len() {
            let step = elsewhere.told[hub].front().map_or(self.step, |told| told.0);
            for answer in elsewhere.hears(hub) {
                let answer = Arc::new(answer);
                let queue = self.mail.entry((self.nodes.len(), hub)).or_default();
                queue.push_back((step, answer));
            }
        } else if let Some((step, bytes)) = elsewhere.said.pop_front() {
            let read = elsewhere.inbox.read(2, &bytes).expect("a letter");
            for shard in read.shards() {
                let way = (self.nodes.len(), usize::from(shard));
                let queue = self.mail.entry(way).or_default();
                queue.push_back((step, Arc::clone(&read.letter)));
            }
        }
    }

    /// A client was told that it is in: the other node says something to it at once.
    pub(crate) fn welcome_from_elsewhere(&mut self, client: usize) {
        let (now, step) = (self.now, self.step);
        if let Some(elsewhere) = &mut self.elsewhere {
            self.numbers += 1;
            let number = self.numbers;
            self.report.welcomes.insert(client, number);
            elsewhere.say(now, step, Saying::Welcome { client, number });
        }
    }

    /// The same to a room.
    pub(crate) fn say_from_elsewhere(&mut self) {
        let (now, step) = (self.now, self.step);
        let room = self.dice.usize(..self.plan.rooms);
        // Nobody's number.
        let publisher = self.plan.clients;
        if let Some(elsewhere) = &mut self.elsewhere {
            self.numbers += 1;
            let number = self.numbers;
            let sent = Sent {
                rooms: vec![room],
                publisher,
                number,
                step,
            };
            self.report.sent.push(sent);
            let args = format!("{publisher},{number}");
            elsewhere.say(now, step, Saying::Room { args, room });
        }
    }
}
