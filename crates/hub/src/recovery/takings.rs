//! The claims of this shard that wait: for another shard that has the socket, or for the store.

use crate::recovery::circle::Circle;
use crate::recovery::messages::NotRecovered;
use crate::recovery::pid::Pid;
use crate::recovery::taking::Taking;
use crate::tables::id::Place;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A client whose socket the store may have.
#[derive(Debug)]
pub(crate) struct Adopting {
    pub(crate) pid: Pid,
    pub(crate) uid: Option<Box<str>>,
    pub(crate) namespace: Arc<str>,
    /// The client's place in the stream.
    pub(crate) shown: Option<u64>,
    pub(crate) deadline_ms: u64,
    /// The other shards do not have it.
    pub(crate) is_asked: bool,
}

/// The claims by number. A claim may wait for both, the store last: it keeps its number.
#[derive(Debug)]
pub(crate) struct Takings {
    all: BTreeMap<u64, Taking>,
    adoptions: BTreeMap<u64, Adopting>,
    /// The number of the last claim.
    last: u64,
    /// Other nodes know what is wanted here up to this ticket.
    pub(super) known: u64,
    /// The client of one more claim gets a new socket.
    max: usize,
}

impl Takings {
    pub(super) fn new(max: usize) -> Self {
        Self {
            all: BTreeMap::new(),
            adoptions: BTreeMap::new(),
            last: 0,
            known: 0,
            max,
        }
    }

    /// The number of the next claim; `None`: too many wait.
    pub(super) fn next(&mut self) -> Option<u64> {
        if self.all.len() >= self.max {
            return None;
        }
        self.last += 1;
        Some(self.last)
    }

    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The process before gave out numbers up to this.
    pub(super) fn go_on_from(&mut self, last: u64) {
        // Other nodes tell claims by their numbers: none may come twice (ADR 82).
        self.last = self.last.max(last);
    }

    /// Claims that other nodes know of.
    pub(super) fn abroad(&self) -> impl Iterator<Item = (u64, Pid, &Circle)> {
        let all = self.all.iter();
        all.filter_map(|(number, taking)| Some((*number, taking.pid, taking.circle()?)))
    }

    pub(super) fn insert(&mut self, number: u64, taking: Taking) {
        self.all.insert(number, taking);
    }

    pub(super) fn get(&self, number: u64) -> Option<&Taking> {
        self.all.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Taking> {
        self.all.get_mut(&number)
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Taking> {
        self.all.remove(&number)
    }

    // ---- the store ----------------------------------------------------------------------------------------------------

    /// If no shard has the socket, the store is asked under this number, or a new one. `None`: too many wait.
    pub(crate) fn remember(&mut self, number: Option<u64>, adopting: Adopting) -> Option<u64> {
        let number = match number {
            Some(number) => number,
            None if self.adoptions.len() >= self.max => return None,
            None => {
                self.last += 1;
                self.last
            }
        };
        self.adoptions.insert(number, adopting);
        Some(number)
    }

    pub(crate) fn adopting(&self, number: u64) -> Option<&Adopting> {
        self.adoptions.get(&number)
    }

    pub(crate) fn adopting_mut(&mut self, number: u64) -> Option<&mut Adopting> {
        self.adoptions.get_mut(&number)
    }

    pub(crate) fn end_adopting(&mut self, number: u64) -> Option<Adopting> {
        self.adoptions.remove(&number)
    }

    // ---- fences -------------------------------------------------------------------------------------------------------

    /// All that is wanted here has this ticket at most.
    pub(super) fn listed(&mut self, ticket: u64) {
        for taking in self.all.values_mut() {
            taking.listed(ticket);
        }
    }

    /// Whether a fence waits for what is wanted here.
    pub(crate) fn waits_for_ticket(&self) -> bool {
        self.all.values().any(Taking::waits_for_ticket)
    }

    /// Other nodes know what is wanted here up to this ticket, if not to a later one: the fences that may go around now, by number of
    /// their claim, with their round and the owner.
    pub(super) fn confirmed(&mut self, ticket: u64) -> Vec<(u64, u32, Place, Circle)> {
        self.known = self.known.max(ticket);
        let known = self.known;
        let fences = self.all.iter_mut().filter_map(|(number, taking)| {
            let round = taking.confirmed(known)?;
            Some((*number, round, taking.owner()?, taking.circle()?.clone()))
        });
        fences.collect()
    }

    // ---- ends ---------------------------------------------------------------------------------------------------------

    /// The claims that have no chance any more because of what happened to a node.
    pub(super) fn broken(&mut self, node: u16) -> Vec<(u64, NotRecovered)> {
        let broken = self.all.iter_mut().filter_map(|(number, taking)| {
            let why = taking.broken(node)?;
            Some((*number, why))
        });
        broken.collect()
    }

    /// The claims that nobody answered in time.
    pub(super) fn late(&self, now_ms: u64) -> BTreeSet<u64> {
        let late = self.deadlines().filter(|(_, due_ms)| *due_ms <= now_ms);
        late.map(|(number, _)| number).collect()
    }

    pub(super) fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines().map(|(_, due_ms)| due_ms).min()
    }

    fn deadlines(&self) -> impl Iterator<Item = (u64, u64)> {
        let all = self.all.iter();
        let all = all.map(|(number, taking)| (*number, taking.deadline_ms));
        let adoptions = self.adoptions.iter();
        all.chain(adoptions.map(|(number, adopting)| (*number, adopting.deadline_ms)))
    }
}
