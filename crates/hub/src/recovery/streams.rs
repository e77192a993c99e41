//! What a shard knows of the streams that all nodes read, and what it has for their store.

use crate::recovery::chronicle::Chronicle;
use crate::recovery::marks::Marks;
use crate::recovery::stamp::Stamp;
use crate::tables::slot::SocketKey;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// The streams, if a namespace has one.
    pub(crate) chronicle: Option<Arc<Chronicle>>,
    /// How far this shard had come in them, by time.
    pub(crate) marks: Marks,
    /// The number of words that this shard had for them.
    words: u64,
    /// Sockets that changed in this turn, with the tickets that clients wait with until that is stored.
    dirty: Vec<(SocketKey, u64)>,
    /// How often the store lost something, by namespaces.
    eras: BTreeMap<String, u64>,
    /// Sockets of which the store lost what it had, by namespaces.
    renewals: BTreeMap<String, Vec<SocketKey>>,
}

impl Streams {
    /// The number of an event in the stream that all nodes read; 0: it is not there.
    pub(crate) fn number_of(&self, namespace: &str, stamp: Option<Stamp>) -> u64 {
        let chronicle = self.chronicle.as_ref();
        let place = chronicle.and_then(|chronicle| chronicle.place(namespace));
        let own = stamp.filter(|stamp| Some(stamp.from) == place);
        own.map_or(0, |stamp| stamp.number)
    }

    /// The number of the next word.
    pub(crate) fn next_word(&mut self) -> u64 {
        self.words += 1;
        self.words
    }

    /// What is known of a socket changed.
    pub(crate) fn touch(&mut self, socket: SocketKey, ticket: u64) {
        self.dirty.push((socket, ticket));
    }

    pub(crate) fn take_dirty(&mut self) -> Vec<(SocketKey, u64)> {
        std::mem::take(&mut self.dirty)
    }

    pub(crate) fn era_of(&self, namespace: &str) -> u64 {
        self.eras.get(namespace).copied().unwrap_or_default()
    }

    /// The store lost something; `era` counts how often.
    pub(crate) fn begin_era(&mut self, namespace: &str, era: u64) {
        self.eras.insert(namespace.to_owned(), era);
    }

    /// This socket is to be stored anew, too.
    pub(crate) fn renew(&mut self, namespace: &str, socket: SocketKey) {
        let renewals = self.renewals.entry(namespace.to_owned());
        renewals.or_default().push(socket);
    }

    /// All sockets of a namespace are to be stored anew.
    pub(crate) fn renew_all(&mut self, namespace: &str, sockets: Vec<SocketKey>) {
        self.renewals.insert(namespace.to_owned(), sockets);
    }

    pub(crate) fn has_renewals(&self) -> bool {
        !self.renewals.is_empty()
    }

    /// The next sockets to be stored anew: none while much waits for the store (ADR 62).
    pub(crate) fn next_renewals(&mut self, mut room: usize) -> Vec<SocketKey> {
        let (mut next, chronicle) = (Vec::new(), self.chronicle.as_ref());
        self.renewals.retain(|namespace, sockets| {
            if chronicle.is_some_and(|chronicle| chronicle.is_calm(namespace)) {
                // They are taken from the end, where nothing has to move.
                let from = sockets.len().saturating_sub(room);
                room -= sockets.len() - from;
                next.extend(sockets.drain(from..));
            }
            !sockets.is_empty()
        });
        next
    }
}
