//! What goes between the nodes and the server of Node: channels that lose nothing, for servers of that kind repair nothing.

use super::bridge::Outcome;
use super::due::{Due, MS};
use super::server::CLIENT;
use super::wires::Mail;
use super::world::World;
use compat::classic::Publish;

/// As often as the gateway's task.
const TICK_US: u64 = 100 * MS;

impl World {
    /// The server says something to one room or two, or asks a room.
    pub(crate) fn server_acts(&mut self) {
        if !self.plan.server {
            return;
        }
        let room = self.dice.usize(..self.plan.rooms);
        if self.chance(20) {
            self.tell(|| format!("the server of Node asks room {room}"));
            let ask = self.server.ask(room);
            return self.broadcast(ask);
        }
        let other = (room + 1) % self.plan.rooms;
        let rooms = if self.chance(70) {
            vec![room]
        } else {
            vec![room, other]
        };
        let number = self.books.say(CLIENT, rooms.clone(), usize::MAX);
        self.tell(|| format!("the server of Node says {number} to {rooms:?}"));
        let say = self.server.say(&rooms, number);
        self.broadcast(say);
    }

    /// A message comes to all bridges and to the server, in the order of all messages.
    fn broadcast(&mut self, publish: Publish) {
        let Publish { channel, body } = publish;
        let at_us = self.now_us + self.delays.u64(50..2 * MS);
        self.channels_us = at_us.max(self.channels_us);
        let at_us = self.channels_us;
        for life in 0..self.lives.len() {
            if !self.lives[life].is_dead {
                let (channel, body) = (channel.clone(), body.clone());
                let heard = Due::Heard {
                    life,
                    channel,
                    body,
                };
                self.calendar.note(at_us, heard);
            }
        }
        self.calendar.note(at_us, Due::Server { channel, body });
    }

    pub(crate) fn server_hears(&mut self, channel: &str, body: &[u8]) {
        let (number, answers) = self.server.hear(channel, body);
        if let Some(number) = number {
            self.tell(|| format!("the server of Node hears {number}"));
            self.books.hear(CLIENT, number);
            self.report.crossed += 1;
        }
        answers
            .into_iter()
            .for_each(|answer| self.broadcast(answer));
    }

    pub(crate) fn bridge_hears(&mut self, life: usize, channel: &str, body: &[u8]) {
        let now_ms = self.now_us / MS;
        self.lives[life].bridge.heard(channel, body, now_ms);
        self.step_bridge(life);
    }

    pub(crate) fn bridge_ticks(&mut self, life: usize) {
        let now_ms = self.now_us / MS;
        self.lives[life].bridge.tick(now_ms);
        self.step_bridge(life);
        self.calendar
            .note(self.now_us + TICK_US, Due::Bridge { life });
    }

    pub(crate) fn bridge_overhears(&mut self, life: usize, overheard: Vec<(u16, Box<[u8]>)>) {
        let now_ms = self.now_us / MS;
        for (shard, letter) in overheard {
            self.lives[life].bridge.overheard(shard, &letter, now_ms);
        }
        self.step_bridge(life);
    }

    fn step_bridge(&mut self, life: usize) {
        let now_ms = self.now_us / MS;
        loop {
            let here = &mut self.lives[life];
            let Outcome {
                letters,
                published,
                topics,
                counts,
            } = here.bridge.take(here.station.inbox());
            for (shard, letter) in letters {
                let from = self.plan.hubs + 2;
                self.post(life, from, usize::from(shard), Mail::Letter(letter));
            }
            published
                .into_iter()
                .for_each(|publish| self.broadcast(publish));
            if topics.is_empty() && !counts {
                return;
            }
            let nodes = self.lives.iter().filter(|life| !life.is_dead).count() as u64;
            let bridge = &mut self.lives[life].bridge;
            bridge.listens(topics, now_ms);
            if counts {
                bridge.counted(1, nodes, now_ms);
            }
        }
    }
}
