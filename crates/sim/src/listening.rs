//! Event streams: they ask for two rooms, break off in the middle of something, come back with their last id, and hear of each
//! room everything once, or are told that nobody knows.

use crate::listener::{Heard, Listener, STREAMS};
use crate::names::digits;
use crate::network::Link;
use crate::world::World;

const STREAMS_MAX: usize = 4;

impl World {
    /// One of the streams begins, breaks off, reads slowly or comes back.
    pub(crate) fn listen(&mut self) {
        let at = self.dice.usize(..STREAMS_MAX);
        if at >= self.listeners.len() {
            let first = self.dice.usize(..self.plan.rooms);
            let second = (first + 1) % self.plan.rooms;
            let rooms = [first, second].map(|room| (room, Heard::default()));
            self.listeners.push(Listener {
                rooms: rooms.into(),
                link: None,
                begun: false,
                input: Vec::new(),
                last_id: String::new(),
                live: Vec::new(),
            });
            return self.come(self.listeners.len() - 1);
        }
        let link = self.listeners[at].link;
        match link {
            None => self.come(at),
            Some(link) if self.chance(50) => {
                let room = self.dice.usize(..700);
                self.links[link].room = Some(room);
            }
            Some(_) => self.break_off(at),
        }
    }

    fn come(&mut self, at: usize) {
        let listener = &mut self.listeners[at];
        if listener.link.is_some() {
            return;
        }
        (listener.begun, listener.input) = (false, Vec::new());
        listener
            .rooms
            .values_mut()
            .for_each(|heard| heard.told = false);
        let rooms = listener
            .rooms
            .keys()
            .map(|room| format!("room=room-{room}"));
        let query = rooms.collect::<Vec<_>>().join("&");
        let last = match &*listener.last_id {
            "" => String::new(),
            last => format!("Last-Event-ID: {last}\r\n"),
        };
        let link = self.dial(STREAMS + at);
        self.listeners[at].link = Some(link);
        let request = format!("GET /sse?{query} HTTP/1.1\r\nHost: x\r\n{last}\r\n");
        self.send(link, request.into_bytes());
    }

    pub(crate) fn all_come(&mut self) {
        (0..self.listeners.len()).for_each(|at| self.come(at));
    }

    /// What its hub has not written to it is lost.
    pub(crate) fn break_off(&mut self, at: usize) {
        let Some(link) = self.listeners[at].link else {
            return;
        };
        let Link { node, conn, .. } = self.links[link];
        if self.stands_still(node) {
            return;
        }
        self.listeners[at].link = None;
        self.links[link].room = None;
        if let Some(conn) = conn {
            self.turn(node, |mut turn| turn.broken(conn));
            self.end_turn(node);
        }
    }

    pub(crate) fn hear_stream(&mut self, at: usize, link: usize, bytes: &[u8]) {
        if self.listeners[at].link != Some(link) {
            return;
        }
        let (seed, step) = (self.seed, self.step);
        let listener = &mut self.listeners[at];
        listener.input.extend_from_slice(bytes);
        if !listener.begun {
            let text = String::from_utf8_lossy(&listener.input);
            let Some(end) = text.find("\r\n\r\n") else {
                return;
            };
            assert!(text.starts_with("HTTP/1.1 200"), "seed {seed}: {text}");
            listener.input.drain(..end + 4);
            listener.begun = true;
        }
        while let Some(end) = listener.input.windows(2).position(|two| two == b"\n\n") {
            let block: Vec<u8> = listener.input.drain(..end + 2).collect();
            let block = String::from_utf8_lossy(&block);
            let field = |name| block.lines().find_map(|line| line.strip_prefix(name));
            if let Some(data) = field("data: ") {
                let told = listener.take(data, step);
                if let Err(broken) = told {
                    panic!("seed {seed}: event stream {at} {broken}");
                }
            }
            if let Some(id) = field("id: ") {
                id.clone_into(&mut listener.last_id);
                if id.matches('=').count() == listener.rooms.len() {
                    for heard in listener.rooms.values_mut() {
                        heard.since = heard.since.or(Some(step));
                    }
                }
            }
        }
    }

    /// All who listen heard one order, and who was in all the time has heard everything.
    pub(crate) fn check_listening(&self) {
        if !self.plan.kept {
            return;
        }
        let streams = self.listeners.iter().map(|listener| &*listener.live);
        self.report.check_order(self.seed, streams);
        for (at, listener) in self.listeners.iter().enumerate() {
            for (room, heard) in &listener.rooms {
                let since = heard.since.unwrap_or(u64::MAX);
                let sent = self.report.sent.iter();
                let due = sent.filter(|sent| sent.rooms.contains(room) && sent.step > since);
                for message in due {
                    let number = &message.number;
                    assert!(
                        heard.sure.contains(number) || heard.perhaps.contains(number),
                        "seed {}: event stream {at} missed {message:?} of room {room} since {since}",
                        self.seed
                    );
                }
            }
        }
    }

    /// Rooms of streams, as often as a stream is in them.
    pub(crate) fn streamed(&self) -> impl Iterator<Item = usize> {
        let there = self.listeners.iter();
        let there = there.filter(|listener| listener.link.is_some());
        there.flat_map(|listener| listener.rooms.keys().copied())
    }
}

impl Listener {
    pub(crate) fn take(&mut self, data: &str, step: u64) -> Result<(), String> {
        match data.strip_prefix("{\"type\":\"history\"") {
            Some(history) => self.take_history(history, step),
            None => self.take_live(data),
        }
    }

    fn take_history(&mut self, history: &str, step: u64) -> Result<(), String> {
        let (head, list) = history.split_once("\"messages\"").expect("messages");
        let room = *digits(head).last().expect("a room") as usize;
        let heard = self.rooms.get_mut(&room).expect("a room of its own");
        if !list.contains("\"resumed\":true") {
            *heard = Heard {
                since: Some(step),
                ..Heard::default()
            };
        }
        heard.told = true;
        for text in list.split("\"args\":[").skip(1) {
            let number = digits(text)[1];
            if !heard.sure.insert(number) {
                return Err(format!(
                    "got {number} in room {room} twice, at last by its history"
                ));
            }
        }
        Ok(())
    }

    fn take_live(&mut self, data: &str) -> Result<(), String> {
        // It answers no question.
        if data.starts_with("{\"type\":\"question\"") {
            return Ok(());
        }
        let (head, payload) = data.split_once("\"payload\":").expect("a payload");
        let number = digits(payload)[1];
        self.live.push(number);
        let single = head.starts_with("{\"type\":\"say-");
        let rooms = digits(head).into_iter().take(if single { 1 } else { 2 });
        for room in rooms {
            let Some(heard) = self.rooms.get_mut(&(room as usize)) else {
                continue;
            };
            // By this room it came behind the history.
            heard.told |= single;
            let first = match heard.told {
                true => heard.sure.insert(number),
                false => heard.perhaps.insert(number),
            };
            if !first {
                return Err(format!("got {number} in room {room} twice"));
            }
        }
        Ok(())
    }
}
