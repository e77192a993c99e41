//! Event streams: they ask for two rooms, break off, come back to any node with their last id, and are told that nothing is missing only
//! by the node that gave it.

use super::due::Due;
use super::link::Owner;
use super::stream::Stream;
use super::world::World;
use crate::listener::{Heard, Listener};
use std::collections::{BTreeMap, BTreeSet};

const STREAMS_MAX: usize = 4;

impl World {
    /// One of the streams begins, breaks off, reads slowly or comes back.
    pub(crate) fn listen(&mut self) {
        let at = self.dice.usize(..STREAMS_MAX);
        if at >= self.streams.len() {
            let first = self.dice.usize(..self.plan.rooms);
            let second = (first + 1) % self.plan.rooms;
            let rooms = [first, second].map(|room| (room, Heard::default()));
            let listener = Listener {
                rooms: rooms.into(),
                link: None,
                begun: false,
                input: Vec::new(),
                last_id: String::new(),
                live: Vec::new(),
            };
            self.streams.push(Stream {
                listener,
                life: 0,
                was_slow: false,
                id_by: None,
                since: None,
            });
            return self.stream_comes(self.streams.len() - 1);
        }
        let link = self.streams[at].listener.link;
        match link {
            None => self.stream_comes(at),
            Some(link) if self.chance(40) => {
                self.links[link].room = Some(self.dice.usize(..700));
                self.streams[at].was_slow = true;
            }
            Some(_) => self.stream_breaks(at),
        }
    }

    pub(crate) fn stream_comes(&mut self, at: usize) {
        if self.streams[at].listener.link.is_some() {
            return;
        }
        let Some(life) = self.some_life() else { return };
        let link = self.dial(Owner::Stream(at), life);
        self.tell(|| format!("event stream {at} comes to life {life} by connection {link}"));
        let stream = &mut self.streams[at];
        if stream.id_by != Some(stream.life) {
            // Its books are not of the node that gave its id: it begins anew. A node that lags may tell once more what another one told,
            // and has no history of a room of which it has not heard yet.
            stream.listener.last_id.clear();
            let rooms = stream.listener.rooms.values_mut();
            rooms.for_each(|heard| *heard = Heard::default());
            stream.id_by = None;
        }
        (stream.life, stream.since, stream.was_slow) = (life, None, false);
        let listener = &mut stream.listener;
        (listener.link, listener.begun) = (Some(link), false);
        listener.input.clear();
        let rooms = listener.rooms.iter_mut();
        let rooms = rooms.map(|(room, heard)| {
            heard.told = false;
            format!("room=room-{room}")
        });
        let query = rooms.collect::<Vec<_>>().join("&");
        let last = match &*listener.last_id {
            "" => String::new(),
            last => format!("Last-Event-ID: {last}\r\n"),
        };
        let request = format!("GET /sse?{query} HTTP/1.1\r\nHost: x\r\n{last}\r\n");
        self.send(link, request.into_bytes());
    }

    pub(crate) fn all_streams_come(&mut self) {
        (0..self.streams.len()).for_each(|at| self.stream_comes(at));
    }

    pub(crate) fn stream_breaks(&mut self, at: usize) {
        if let Some(link) = self.streams[at].listener.link.take() {
            self.tell(|| format!("event stream {at} breaks off"));
            self.on_the_way(link, Due::Broken { link });
        }
    }

    /// Its node died.
    pub(crate) fn stream_is_cut(&mut self, at: usize, life: usize) {
        if self.streams[at].life == life {
            self.streams[at].listener.link = None;
        }
    }

    pub(crate) fn stream_hears(&mut self, at: usize, link: usize, bytes: &[u8]) {
        let (seed, number) = (self.seed, self.books.last());
        if self.streams[at].listener.link != Some(link) {
            return;
        }
        if self.links[link].is_over {
            self.tell(|| format!("event stream {at} is ended"));
            assert!(
                self.streams[at].was_slow,
                "seed {seed}: event stream {at} was ended, and read all"
            );
            self.streams[at].listener.link = None;
        }
        let listener = &mut self.streams[at].listener;
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
        loop {
            let input = &mut self.streams[at].listener.input;
            let end = input.windows(2).position(|two| two == b"\n\n");
            let Some(end) = end else { return };
            let block: Vec<u8> = input.drain(..end + 2).collect();
            let block = String::from_utf8_lossy(&block).into_owned();
            self.tell(|| format!("event stream {at} hears {block:?}"));
            self.streams[at].take(&block, number, (seed, at));
        }
    }

    /// How often each room has a stream.
    pub(crate) fn streamed(&self) -> impl Iterator<Item = usize> + '_ {
        let there = self.streams.iter().map(|stream| &stream.listener);
        let there = there.filter(|listener| listener.link.is_some());
        there.flat_map(|listener| listener.rooms.keys().copied())
    }

    pub(crate) fn check_streams(&self) {
        let mut only_here = BTreeSet::new();
        for (at, stream) in self.streams.iter().enumerate() {
            for (room, heard) in &stream.listener.rooms {
                let has =
                    |number: &u64| heard.sure.contains(number) || heard.perhaps.contains(number);
                let here = heard.since.unwrap_or(u64::MAX);
                let there = stream.since.unwrap_or(u64::MAX);
                let missed = self.books.find(|number, said_by, rooms| {
                    let since = if said_by == stream.life { here } else { there };
                    let is_due = rooms.contains(room) && number > since && !has(&number);
                    let is_missed = is_due && !self.books.may_be_lost(number, stream.life);
                    let stays = is_missed && self.books.may_stay_there(number, stream.life);
                    only_here.extend(stays.then_some(number));
                    is_missed && !stays
                });
                assert_eq!(
                    missed, None,
                    "seed {}: event stream {at} missed one of room {room}, in since {here} and {there}",
                    self.seed
                );
            }
        }
        self.books.check_only_here(&only_here);
    }
}

/// Rooms that are kept, by how many streams and clients are in them.
pub(crate) fn count(rooms: impl Iterator<Item = usize>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for room in rooms {
        *counts.entry(format!("room-{room}")).or_default() += 1;
    }
    counts
}
