//! Questions to a store, and its answers.

use crate::event::Kept;
use crate::position::Position;

/// In which order a page is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Oldest first.
    Forward,
    /// Newest first.
    Backward,
}

/// A page that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The namespace of the room.
    pub namespace: String,
    /// The room.
    pub room: String,
    /// Only what is after it.
    pub after: Option<Position>,
    /// Only what is before it.
    pub before: Option<Position>,
    /// From which end.
    pub way: Way,
    /// 1,000 at most.
    pub events_max: usize,
    /// Bytes of a page, as [`crate::Event::bytes`] counts them. One event is given even if it has more.
    pub bytes_max: usize,
}

/// A part of what a room said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// In the order that was asked for.
    pub events: Vec<Kept>,
    /// The last of them, if there is more: the `after` of the next page, or its `before`. A page may be shorter than it could be, and
    /// may even be empty, and there is more all the same.
    pub next: Option<Position>,
}

/// What is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forget {
    /// One event.
    Event {
        /// The namespace of its room.
        namespace: String,
        /// Its room.
        room: String,
        /// Its place.
        at: Position,
    },
    /// All that a room said.
    Room {
        /// The namespace of the room.
        namespace: String,
        /// The room.
        room: String,
    },
    /// All that clients of a user said.
    User {
        /// Only in this namespace; `None`: everywhere.
        namespace: Option<String>,
        /// The user.
        user: String,
    },
}

/// What was removed because it was too old or too much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Events.
    pub events: u64,
    /// There is more to remove now.
    pub more: bool,
}

/// What a namespace has in all its rooms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Rooms that have events.
    pub rooms: u64,
    /// Bytes, as [`crate::Event::bytes`] counts them.
    pub bytes: u64,
}

/// What is to make way in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shed {
    /// The oldest events, until so many bytes are gone.
    Bytes(u64),
    /// So many rooms: those that have been silent for longest.
    Rooms(u64),
}

/// Fills a page, event by event, up to its bounds.
#[derive(Debug)]
pub(crate) struct Filling<'a> {
    ask: &'a Ask,
    page: Page,
    bytes: usize,
}

impl<'a> Filling<'a> {
    pub(crate) fn new(ask: &'a Ask) -> Self {
        Self {
            ask,
            page: Page::default(),
            bytes: 0,
        }
    }

    /// `false`: it does not fit, so there is more, and the page is done.
    pub(crate) fn push(&mut self, kept: Kept) -> bool {
        let bytes = kept.event.bytes();
        let count = self.page.events.len();
        if count > 0 && (count >= self.ask.events_max || self.bytes + bytes > self.ask.bytes_max) {
            self.page.next = self.page.events.last().map(|last| last.at);
            return false;
        }
        self.bytes += bytes;
        self.page.events.push(kept);
        true
    }

    #[cfg(feature = "redis")]
    /// How many more events are worth reading at once, at most `most`: one more than there is room for, by the mean size of those that are there.
    pub(crate) fn part(&self, most: usize) -> usize {
        let count = self.page.events.len();
        let places = self.ask.events_max.saturating_sub(count);
        let fitting = match self.bytes.checked_div(count) {
            None | Some(0) => most,
            Some(mean) => self.ask.bytes_max.saturating_sub(self.bytes) / mean,
        };
        places.min(fitting).saturating_add(1).min(most)
    }

    pub(crate) fn done(self) -> Page {
        self.page
    }
}
