//! What is checked at the end of a history: nobody got a message twice or out of order, and who stayed in a room missed nothing.

use std::collections::{BTreeMap, BTreeSet};

/// A client's membership: from which step to which. Joining and leaving take time (messages between hubs are on their way), so a
/// message counts as due only when it was sent after the joining was settled and was settled before the leaving.
#[derive(Clone, Copy, Debug)]
pub struct Stay {
    pub from: u64,
    pub until: u64,
}

/// A message somebody sent.
#[derive(Clone, Debug)]
pub struct Sent {
    pub rooms: Vec<usize>,
    pub publisher: usize,
    pub number: u64,
    pub step: u64,
}

/// Room, publisher, number.
pub(crate) type Event = (usize, usize, u64);

/// Everything that is known about a history.
#[derive(Debug, Default)]
pub struct Report {
    pub sent: Vec<Sent>,
    /// (client, room) and its stays.
    pub(crate) stays: BTreeMap<(usize, usize), Vec<Stay>>,
    /// What each client received: (room, publisher, number).
    pub(crate) received: Vec<Vec<Event>>,
    /// The history that clients were told of the time before they joined.
    pub(crate) got_before: Vec<(usize, Event)>,
    /// For each member of a room that keeps its events: the last message of each publisher since it came.
    pub(crate) streams: BTreeMap<(usize, usize), BTreeMap<usize, u64>>,
    /// Members that heard something of their room that is behind its history.
    pub(crate) caught_up: BTreeSet<(usize, usize)>,
    /// Rooms that were asked, and the step in which.
    pub(crate) asks: Vec<(usize, u64)>,
    /// Rounds whose question each client received.
    pub(crate) questions: Vec<BTreeSet<u64>>,
    /// Rounds that had a result, and sockets whose end a handler heard of.
    pub rounds: usize,
    pub returns: usize,
    /// Messages that a client had to receive, and did.
    pub due: usize,
    /// Connections that were moved to the hub that owns their session.
    pub moves: usize,
    /// Processes that took over, and sessions that went to them.
    pub successions: usize,
    pub carried: usize,
    /// Clients that went on over a WebSocket.
    pub upgrades: usize,
    /// Histories of rooms that clients got.
    pub histories: usize,
    /// The most that a turn sent to other hubs, and that a flush answered polls with before the last of them.
    pub letters_max: usize,
    pub answers_max: usize,
    pub relays: usize,
}

impl Report {
    /// Clients that were in a room all the time while it was asked.
    pub(crate) fn meant(&self, ask: usize) -> impl Iterator<Item = usize> {
        let (room, step) = self.asks[ask];
        let here = move |stay: &Stay| stay.from < step && step < stay.until;
        let stays = self.stays.iter();
        stays.filter_map(move |((client, at), stays)| {
            (*at == room && stays.iter().any(here)).then_some(*client)
        })
    }

    /// A client is told that it is in a room; its history may have been faster.
    pub(crate) fn begin(&mut self, stay: (usize, usize)) {
        self.streams.entry(stay).or_default();
        // That was of an earlier stay.
        self.caught_up.remove(&stay);
    }

    /// A client leaves a room.
    pub(crate) fn forget(&mut self, stay: (usize, usize)) {
        self.streams.remove(&stay);
        self.caught_up.remove(&stay);
    }

    /// A history and what comes behind it are one stream: of each publisher, nothing is missing from it and nothing comes twice.
    pub(crate) fn follow(&mut self, seed: u64, client: usize, (room, publisher, number): Event) {
        let Some(stream) = self.streams.get_mut(&(client, room)) else {
            return;
        };
        let Some(before) = stream.insert(publisher, number) else {
            return;
        };
        assert!(
            before < number,
            "seed {seed}: client {client} got {number} of {publisher} in kept room {room} after {before}"
        );
        let between = |sent: &&Sent| {
            let here = sent.rooms.contains(&room) && sent.publisher == publisher;
            here && before < sent.number && sent.number < number
        };
        let missed = self.sent.iter().find(between);
        assert!(
            missed.is_none(),
            "seed {seed}: client {client} missed {missed:?} between {before} and {number}"
        );
    }

    /// Where rooms keep events, all who hear two of them hear them in one order.
    pub(crate) fn check_order<'a>(&'a self, seed: u64, streams: impl Iterator<Item = &'a [u64]>) {
        let clients = self.received.iter();
        let clients = clients.map(|got| got.iter().map(|(.., number)| *number).collect());
        let mut all: Vec<Vec<u64>> = clients.chain(streams.map(<[u64]>::to_vec)).collect();
        all.iter_mut().for_each(Vec::dedup);
        for (one, order) in all.iter().enumerate() {
            let places: BTreeMap<u64, usize> = order.iter().copied().zip(0..).collect();
            for (other, heard) in all.iter().enumerate().skip(one + 1) {
                let common = heard
                    .iter()
                    .filter_map(|number| Some((places.get(number)?, number)));
                let common: Vec<_> = common.collect();
                let crossed = common.windows(2).find(|two| two[0].0 > two[1].0);
                assert!(
                    crossed.is_none(),
                    "seed {seed}: {one} and {other} heard {crossed:?} in another order"
                );
            }
        }
    }

    /// Panics with the seed if the history is not what users were promised.
    pub(crate) fn check(&mut self, seed: u64) {
        for (client, got) in self.received.iter().enumerate() {
            let mut last = BTreeMap::new();
            for (room, publisher, number) in got {
                let before = last.insert((room, publisher), number);
                assert!(
                    before.is_none_or(|before| before < number),
                    "seed {seed}: client {client} got {number} of {publisher} in room {room} after {before:?}"
                );
            }
        }
        let mut got: Vec<BTreeSet<_>> = self
            .received
            .iter()
            .map(|got| got.iter().copied().collect())
            .collect();
        for (client, event) in &self.got_before {
            got[*client].insert(*event);
        }
        for ((client, room), stays) in &self.stays {
            for message in self
                .sent
                .iter()
                .filter(|sent| sent.rooms.contains(room) && sent.publisher != *client)
            {
                let due = stays
                    .iter()
                    .any(|stay| stay.from < message.step && message.step < stay.until);
                if !due {
                    continue;
                }
                self.due += 1;
                let mut keys = message.rooms.iter();
                assert!(
                    keys.any(|room| {
                        let key = (*room, message.publisher, message.number);
                        got[*client].contains(&key)
                    }),
                    "seed {seed}: client {client} missed {message:?}, {stays:?}"
                );
            }
        }
    }
}
