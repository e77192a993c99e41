//! Which other nodes are there, and what all of them can do. The control plane says so; hubs read it at any time.

use crate::bounds::NODES_MAX;
use crate::recovery::ways::Abroad;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A set of node numbers.
#[derive(Debug)]
struct Numbers([AtomicU64; NODES_MAX / 64]);

impl Numbers {
    fn none() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    fn set(&self, node: u16, is_in: bool) {
        let Some(word) = self.0.get(usize::from(node) / 64) else {
            return;
        };
        let bit = 1 << (node % 64);
        match is_in {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    fn all(&self) -> impl Iterator<Item = u16> + '_ {
        (0..NODES_MAX as u16).filter(|node| self.has(*node))
    }

    fn has(&self, node: u16) -> bool {
        let word = self.0.get(usize::from(node) / 64);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & (1 << (node % 64)) != 0)
    }
}

/// The servers beside this node.
#[derive(Debug)]
pub(super) struct Neighbours {
    /// A bit for each node that was ever met.
    met: Numbers,
    /// A bit for each node that requests can be relayed to.
    relays: Numbers,
    /// A bit for each other node that is there.
    here: Numbers,
    /// Nodes that are there, without this one.
    nodes: AtomicU64,
    /// Servers of other kinds, by namespace.
    foreign: papaya::HashMap<Box<str>, u64>,
}

impl Neighbours {
    pub(super) fn none() -> Self {
        Self {
            met: Numbers::none(),
            relays: Numbers::none(),
            here: Numbers::none(),
            nodes: AtomicU64::new(0),
            foreign: papaya::HashMap::new(),
        }
    }

    /// A node is there: ids may be those of its sockets, also after it went.
    pub(super) fn meet(&self, node: u16) {
        self.met.set(node, true);
    }

    pub(super) fn was_met(&self, node: u16) -> bool {
        self.met.has(node)
    }

    /// Whether requests for sessions of a node can be relayed to it from now on.
    pub(super) fn set_relays(&self, node: u16, can: bool) {
        self.relays.set(node, can);
    }

    pub(super) fn relays_to(&self, node: u16) -> bool {
        self.relays.has(node)
    }

    /// A node is there, or not any more.
    pub(super) fn set_here(&self, node: u16, here: bool) {
        self.here.set(node, here);
    }

    /// So many nodes are there now.
    pub(super) fn count_nodes(&self, nodes: u64) {
        self.nodes.store(nodes, Ordering::Relaxed);
    }

    /// So many servers of other kinds are in a namespace now.
    pub(super) fn count_foreign(&self, namespace: &str, servers: u64) {
        let foreign = self.foreign.pin();
        match servers {
            0 => drop(foreign.remove(namespace)),
            _ => drop(foreign.insert(namespace.into(), servers)),
        }
    }

    /// Servers of all kinds that serve a namespace.
    pub(super) fn servers(&self, namespace: &str) -> u64 {
        let foreign = self.foreign.pin().get(namespace).copied();
        self.nodes.load(Ordering::Relaxed) + foreign.unwrap_or(0)
    }

    /// The nodes that a socket may be on, this one among them, if they can be asked.
    pub(super) fn abroad(&self, me: u16, abilities: &Abilities) -> Abroad {
        if self.here.all().next().is_none() {
            return Abroad::Nobody;
        }
        match abilities.find_sockets() {
            false => Abroad::Unable,
            true => {
                let mut nodes: Vec<u16> = self.here.all().chain([me]).collect();
                nodes.sort_unstable();
                nodes.dedup();
                Abroad::Nodes(nodes.into())
            }
        }
    }
}

/// What every node that is there can do. An older one among them takes it from all.
#[derive(Debug, Default)]
pub(super) struct Abilities {
    /// They read events with stamps.
    stamps: AtomicBool,
    /// Sockets go from one to another.
    returns: AtomicBool,
    /// They read events with their spots.
    spots: AtomicBool,
    /// One of them says nothing.
    silence: AtomicBool,
}

impl Abilities {
    /// Whether they read stamps, and whether sockets go from one to another.
    pub(super) fn set_recovery(&self, stamps: bool, returns: bool) {
        self.stamps.store(stamps, Ordering::Relaxed);
        self.returns.store(returns, Ordering::Relaxed);
    }

    /// What was said last of these.
    pub(super) fn recovery(&self) -> (bool, bool) {
        let read = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        (read(&self.stamps), read(&self.returns))
    }

    pub(super) fn set_spots(&self, all: bool) {
        self.spots.store(all, Ordering::Relaxed);
    }

    /// They read where an event stands on a bus.
    pub(super) fn read_spots(&self) -> bool {
        self.spots.load(Ordering::Relaxed)
    }

    /// Whether each of them is heard.
    pub(super) fn set_heard(&self, all: bool) {
        self.silence.store(!all, Ordering::Relaxed);
    }

    /// A socket can be looked for on all of them: a node that says nothing may have it.
    fn find_sockets(&self) -> bool {
        let (_, returns) = self.recovery();
        returns && !self.silence.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_looked_for_where_every_node_can_answer() {
        let (nodes, can) = (Neighbours::none(), Abilities::default());
        assert_eq!(nodes.abroad(3, &can), Abroad::Nobody);
        nodes.set_here(700, true);
        assert_eq!(nodes.abroad(3, &can), Abroad::Unable);
        can.set_recovery(true, true);
        assert_eq!(nodes.abroad(3, &can), Abroad::Nodes([3, 700].into()));
        can.set_heard(false);
        assert_eq!(nodes.abroad(3, &can), Abroad::Unable);
        nodes.set_here(700, false);
        assert_eq!(nodes.abroad(3, &can), Abroad::Nobody);
    }
}
