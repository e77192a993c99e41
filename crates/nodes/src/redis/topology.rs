//! Which servers take commands now, and which of them owns a slot.

use super::settings::Addr;
use super::slot::{SLOTS, slot};
use crate::engine::Topic;
use std::ops::RangeInclusive;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Topology {
    pub(super) servers: Vec<Addr>,
    /// For each slot the index of its owner; empty = there is one server.
    slots: Vec<u16>,
}

impl Topology {
    pub(super) fn single(addr: Addr) -> Self {
        Self {
            servers: vec![addr],
            slots: Vec::new(),
        }
    }

    /// Index of the server that a slot's commands go to. A slot without owner is any server's: it says what is wrong.
    pub(super) fn owner(&self, slot: u16) -> usize {
        let owner = self.slots.get(usize::from(slot)).copied().unwrap_or(0);
        usize::from(owner).min(self.servers.len().saturating_sub(1))
    }

    /// The server where a topic is to be subscribed.
    pub(super) fn home(&self, topic: &Topic) -> Option<&Addr> {
        let (Topic::Channel(_, name) | Topic::Pattern(name)) = topic;
        self.servers.get(self.owner(slot(name)))
    }

    /// A cluster in which no slot has an owner yet.
    pub(super) fn cluster() -> Self {
        Self {
            servers: Vec::new(),
            slots: vec![u16::MAX; SLOTS],
        }
    }

    /// These slots are a server's. What is out of bounds is left out.
    pub(super) fn give(&mut self, range: RangeInclusive<usize>, addr: Addr) {
        let known = self.servers.iter().position(|server| *server == addr);
        let index = known.unwrap_or_else(|| {
            self.servers.push(addr);
            self.servers.len() - 1
        });
        if let Some(slots) = self.slots.get_mut(range)
            && let Ok(index) = u16::try_from(index)
        {
            slots.fill(index);
        }
    }
}
