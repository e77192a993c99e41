//! Events on their way to a store of history: taken at the home of their namespace, in the order in which members get them, and on
//! the one node that publishes them. Without a store nothing is copied.

use crate::dialect::speech::{Author, Emit};
use crate::output::copies::{Copies, Weigh};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

/// Cost of a copy beside its texts.
const OVERHEAD_BYTES: usize = 128;

/// An event that rooms keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Its namespace.
    pub namespace: String,
    /// Its rooms, without those that are named after a socket.
    pub rooms: Vec<String>,
    /// Its name.
    pub event: String,
    /// Its arguments: raw JSON elements, separated by commas.
    pub args: String,
    /// The user of the client that said it.
    pub user: Option<String>,
    /// The time when it was published, in ms since 1970.
    pub time_ms: u64,
    /// The number under which a program waits for it.
    pub receipt: Option<u64>,
}

impl Weigh for Recorded {
    fn bytes(&self) -> usize {
        let rooms = self.rooms.iter();
        let rooms: usize = rooms.map(|room| room.len() + size_of::<String>()).sum();
        let user = self.user.as_ref().map_or(0, String::len);
        let texts = self.namespace.len() + self.event.len() + self.args.len();
        texts + rooms + user + OVERHEAD_BYTES
    }
}

/// The namespaces whose events are stored, and the events that wait for the store's task.
#[derive(Debug)]
pub struct HistoryTap {
    namespaces: HashSet<String>,
    copies: Copies<Recorded>,
    /// Events with binary attachments.
    unfit: AtomicU64,
}

impl HistoryTap {
    /// Takes the kept events of these namespaces.
    pub fn new(namespaces: impl IntoIterator<Item = String>) -> Self {
        Self {
            namespaces: namespaces.into_iter().collect(),
            copies: Copies::default(),
            unfit: AtomicU64::new(0),
        }
    }

    /// Wakes the one reader for each event from now on.
    pub fn wake_for_each(&self, reader: Waker) {
        self.copies.wake_for_each(reader);
    }

    /// The next event; those of one namespace are in order.
    pub fn next(&self) -> Option<Recorded> {
        self.copies.next()
    }

    /// Events that were not taken because too many waited.
    pub fn dropped(&self) -> u64 {
        self.copies.dropped()
    }

    /// Events that were not taken because they have binary attachments.
    pub fn unfit(&self) -> u64 {
        self.unfit.load(Ordering::Relaxed)
    }

    /// Copies an event that rooms keep, at the home of their namespace.
    pub(crate) fn pass<'a>(
        &self,
        (namespace, rooms): (&str, impl Iterator<Item = &'a str>),
        event: &Emit<'_>,
        user: Option<&str>,
        time_ms: u64,
    ) {
        // The node that published an event stores it.
        if event.author == Author::Elsewhere || !self.namespaces.contains(namespace) {
            return;
        }
        let mut rooms: Vec<String> = rooms.map(str::to_owned).collect();
        // A program may name a room twice.
        rooms.sort_unstable();
        rooms.dedup();
        if rooms.is_empty() {
            return;
        }
        if !event.attachments.is_empty() {
            self.unfit.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let receipt = match event.author {
            Author::Waiting(receipt) => Some(receipt),
            _ => None,
        };
        // An event that finds no room is counted; a program that waits for it is told when its time is up.
        let _ = self.copies.push(Recorded {
            namespace: namespace.to_owned(),
            rooms,
            event: event.name.to_owned(),
            args: event.args.to_owned(),
            user: user.map(str::to_owned),
            time_ms,
            receipt,
        });
    }
}
