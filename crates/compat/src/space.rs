//! One namespace, as the plane knows it.

use crate::bounds::{COUNT_BUSY_MS, COUNT_IDLE_MS, TAIL_BYTES_MAX};
use crate::dialect::{Counted, Dialect, Settings, Topic};
use crate::names::Names;
use crate::presence::{Presence, Tail};
use crate::question::Round;
use crate::verb::{Letter, Verb};
use std::collections::HashMap;
use std::sync::Arc;

/// A question of ours that waits until servers are counted.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) round: Round,
    /// Its request has no name yet.
    pub(crate) verb: Verb,
    pub(crate) deadline_ms: u64,
}

/// The servers of one dialect.
#[derive(Debug)]
pub(crate) struct Side {
    pub(crate) presence: Presence,
    pub(crate) tail: Tail<Arc<Letter>>,
    /// How many they were when they were counted last.
    pub(crate) others: u64,
    /// It was there when we looked last.
    pub(crate) was_there: bool,
}

#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) sides: [Side; 3],
    pub(crate) pending: Vec<Pending>,
    counted_ms: Option<u64>,
    is_counting: bool,
    /// We take part in the streams adapter's questions: only while there is one, because they count us.
    pub(crate) is_in_streams: bool,
    /// Rooms that hubs of ours have members of, and how many hubs.
    pub(crate) rooms: HashMap<Box<str>, u32>,
}

impl Space {
    pub(crate) fn new() -> Self {
        Self {
            sides: Dialect::ALL.map(|_| Side {
                presence: Presence::default(),
                tail: Tail::new(TAIL_BYTES_MAX),
                others: 0,
                was_there: false,
            }),
            pending: Vec::new(),
            counted_ms: None,
            is_counting: false,
            is_in_streams: false,
            rooms: HashMap::new(),
        }
    }

    pub(crate) fn side(&mut self, dialect: Dialect) -> &mut Side {
        &mut self.sides[dialect as usize]
    }

    /// A classic server that hears a question of the streams adapter ends its process.
    pub(crate) fn may_ask(&self, dialect: Dialect) -> bool {
        let there = |dialect: Dialect| &self.sides[dialect as usize];
        let streams = there(Dialect::Streams).others > 0;
        !(dialect == Dialect::Streams && streams && there(Dialect::Classic).was_there)
    }

    /// Whether the room came for the first hub, or went for the last.
    pub(crate) fn note_room(&mut self, room: &str, came: bool) -> bool {
        let hubs = self.rooms.get_mut(room);
        match (hubs, came) {
            (Some(hubs), true) => {
                *hubs += 1;
                false
            }
            (Some(1), false) => {
                self.rooms.remove(room);
                true
            }
            (Some(hubs), false) => {
                *hubs -= 1;
                false
            }
            (None, true) => {
                self.rooms.insert(room.into(), 1);
                true
            }
            (None, false) => false,
        }
    }

    /// Whether servers are to be counted now; if so, they are being counted from now on.
    pub(crate) fn count(&mut self, busy: bool, now_ms: u64) -> bool {
        let every = if busy { COUNT_BUSY_MS } else { COUNT_IDLE_MS };
        let since = self.counted_ms.map(|at| now_ms.saturating_sub(at));
        if self.is_counting || since.is_some_and(|since| since < every) {
            return false;
        }
        self.is_counting = true;
        true
    }

    pub(crate) fn is_counting(&self) -> bool {
        self.is_counting
    }

    /// A count ended.
    pub(crate) fn was_counted(&mut self, now_ms: u64) {
        self.is_counting = false;
        self.counted_ms = Some(now_ms);
    }

    pub(crate) fn note(&mut self, counted: &Counted, now_ms: u64) {
        for (side, [all, own]) in self.sides.iter_mut().zip(counted.0) {
            side.others = side.presence.counted(all, own, now_ms);
        }
    }
}

/// What is always listened to: an emitter may speak at any time.
pub(crate) fn topics(names: &Names, settings: &Settings, namespace: &str) -> Vec<Topic> {
    let mut topics = Vec::new();
    if settings.hears(Dialect::Classic) {
        topics.push(Topic::Pattern(names.pattern(namespace)));
        let requests = names.requests(namespace);
        let marker = names.marker("classic", &requests);
        topics.extend(answers(names, settings, namespace, Dialect::Classic));
        topics.extend([requests, marker].map(Topic::Channel));
    }
    if settings.hears(Dialect::Sharded) {
        let (inbox, main) = (names.room(namespace, &settings.uid), names.main(namespace));
        let marker = names.marker("sharded", &main);
        topics.extend([inbox, main, marker].map(Topic::Sharded));
    }
    topics
}

/// Where answers to our questions come. A classic server answers in one of two channels (`publishOnSpecificResponseChannel`), and nobody knows in
/// which.
pub(crate) fn answers(
    names: &Names,
    settings: &Settings,
    namespace: &str,
    dialect: Dialect,
) -> Vec<Topic> {
    let inbox = || names.room(namespace, &settings.uid);
    match dialect {
        Dialect::Classic => {
            let own = names.responses_to(namespace, &settings.uid);
            [names.responses(namespace), own].map(Topic::Channel).into()
        }
        Dialect::Sharded => vec![Topic::Sharded(inbox())],
        Dialect::Streams => vec![Topic::Channel(inbox())],
    }
}

/// What is listened to while there are servers with the streams adapter.
pub(crate) fn streams_topics(names: &Names, settings: &Settings, namespace: &str) -> Vec<Topic> {
    let (inbox, main) = (names.room(namespace, &settings.uid), names.main(namespace));
    let marker = names.marker("streams", &main);
    [inbox, main, marker].map(Topic::Channel).into()
}
