//! What a hub acts on in a turn: connections take bytes, the rest is kept for after the turn.

use super::link::Link;
use hub::mailbox::{Receiver, Weigh};
use hub::{ConnId, Effect, Letter, Sink, Slices, Writes, Written};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::IoSlice;
use std::sync::Arc;

/// What comes into the mailbox of a hub.
pub(crate) enum Mail {
    Letter(Arc<Letter>),
    /// For its handler, and what it costs.
    Word(Box<dyn Any + Send>, usize),
}

impl Weigh for Mail {
    fn bytes(&self) -> usize {
        match self {
            Self::Letter(letter) => letter.bytes(),
            Self::Word(_, bytes) => *bytes,
        }
    }
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Letter(letter) => letter.fmt(f),
            Self::Word(..) => f.write_str("a word"),
        }
    }
}

pub(crate) struct Wires<'a> {
    pub(crate) hub: usize,
    pub(crate) conns: &'a mut BTreeMap<ConnId, usize>,
    pub(crate) links: &'a mut Vec<Link>,
    /// Links with something to read, or at their end.
    pub(crate) fresh: &'a mut BTreeSet<usize>,
    pub(crate) mailbox: &'a Receiver<Mail>,
    /// In their order; of a move to another hub or node, the link that moves.
    pub(crate) effects: Vec<(Option<usize>, Effect)>,
}

impl Wires<'_> {
    pub(crate) fn adopt(&mut self, link: usize, conn: ConnId) -> bool {
        self.conns.insert(conn, link);
        (self.links[link].hub, self.links[link].conn) = (self.hub, Some(conn));
        true
    }

    fn take(&mut self, conn: ConnId, slices: &[IoSlice<'_>]) -> Written {
        let at = self.conns[&conn];
        let link = &mut self.links[at];
        let before = link.out.len();
        for slice in slices {
            let room = link.room.unwrap_or(usize::MAX);
            let taken = slice.len().min(room);
            link.out.extend_from_slice(&slice[..taken]);
            link.room = link.room.map(|room| room - taken);
        }
        match link.out.len() - before {
            0 => Written::WouldBlock,
            taken => {
                self.fresh.insert(at);
                Written::Bytes(taken)
            }
        }
    }
}

impl Sink for Wires<'_> {
    fn write(&mut self, writes: Writes<'_>) {
        let mut room: Slices<'_> = std::array::from_fn(|_| IoSlice::new(&[]));
        for write in writes {
            let written = self.take(write.conn(), write.slices(&mut room));
            write.done(written);
        }
    }
}

impl hub::World for Wires<'_> {
    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Close { conn } => {
                if let Some(link) = self.conns.remove(&conn) {
                    self.links[link].end();
                    self.fresh.insert(link);
                }
            }
            Effect::Move { conn, .. } | Effect::Relay { conn, .. } => {
                let link = self.conns.remove(&conn).expect("a connection of this hub");
                self.links[link].conn = None;
                self.effects.push((Some(link), effect));
            }
            effect => self.effects.push((None, effect)),
        }
    }
}
