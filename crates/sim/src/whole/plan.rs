//! How large a history of a cluster is, and what happens in it.

use super::worker;
use crate::settings;
use fastrand::Rng;
use hub::config::{Config, Offsets, Recover, Recovery};
use std::time::Duration;

/// For so long a socket whose connection broke is kept.
pub(crate) const WINDOW: Duration = Duration::from_secs(5);

/// Mailboxes of odd seeds are long with three messages. Each client may send one more, and a frame of another node that is passed on may
/// bring hundreds.
pub(crate) const LETTERS_MAX: usize = 1_000;

/// Size of a history, and its troubles.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Nodes, and hubs of each.
    pub nodes: u16,
    pub hubs: usize,
    pub people: usize,
    pub rooms: usize,
    pub steps: usize,
    /// Percent of the clients that poll.
    pub polling: usize,
    /// Rooms keep their events for those who join later, so that namespaces have homes, and there are event streams.
    pub kept: bool,
    /// Messages are long, and so much waits in each process that each client is allowed little.
    pub squeezed: bool,
    /// Clients whose connection breaks come back for their sockets, to any node (level `node`).
    pub recovers: bool,
    /// Requests of clients come to any node.
    pub relays: bool,
    /// There is a server of Node in the cluster.
    pub server: bool,
    /// Messages between nodes are lost for a while, nodes are cut off, freeze and die.
    pub troubles: bool,
    /// Bytes that a node keeps for repair.
    pub ring_bytes: usize,
    /// Lists of sockets that a worker asks for when a client comes to it.
    pub lists: usize,
    /// Bytes that may wait for other nodes before publishers are refused.
    pub queue_bytes: usize,
}

impl Plan {
    /// The settings of a seed: each has a die of its own, so that all meet.
    pub fn of_seed(seed: u64) -> Self {
        let mut dice = Rng::with_seed(seed);
        let mut one_of = |sides: u8| dice.u8(..sides) == 0;
        let kept = one_of(2);
        let troubles = !one_of(4);
        let nodes = if one_of(8) {
            4
        } else {
            3 - u16::from(one_of(8))
        };
        let hubs = if one_of(8) {
            3
        } else {
            2 - usize::from(one_of(8))
        };
        Self {
            nodes,
            hubs,
            people: 14,
            rooms: 3,
            steps: 400,
            polling: if one_of(4) { 70 } else { 25 },
            kept,
            // The books excuse streams that are slow only after troubles.
            squeezed: one_of(8) && troubles,
            // Without a home there is no recovery in the product, either.
            recovers: !one_of(4) && kept,
            relays: one_of(6),
            server: one_of(3),
            troubles,
            ring_bytes: if one_of(8) { 4_000 } else { 8 << 20 },
            lists: if one_of(8) { 12 } else { 1 },
            queue_bytes: if one_of(4) { 2_000 } else { usize::MAX },
        }
    }

    pub(crate) fn config(&self, seed: u64) -> Config {
        let mut config = settings::config(&self.of_one_process(), seed);
        // Clients of the plain protocol answer no pings.
        config.plain_ping_interval = Duration::from_secs(1_000_000);
        if self.recovers {
            let recover = Recover {
                window: WINDOW,
                offsets: Offsets::All,
                // What servers of another kind say has no place in the order of our nodes.
                goes_abroad: !self.server,
                chronicle: false,
                replicas: 0,
            };
            let all = ["/", worker::NAMESPACE];
            let namespaces = all.map(|name| (name.to_owned(), Some(recover))).into();
            config.recovery = Recovery { namespaces };
        }
        if self.squeezed {
            config.limits.waiting_bytes_max = 1;
        }
        config
    }

    /// What a message carries beside its numbers.
    pub(crate) fn padding(&self) -> String {
        "x".repeat(if self.squeezed { 700 } else { 0 })
    }

    /// How one of its processes is set up.
    pub(crate) fn of_one_process(&self) -> crate::Plan {
        crate::Plan {
            hubs: self.hubs,
            clients: self.people,
            rooms: self.rooms,
            steps: self.steps,
            polling: self.polling,
            padding: 0,
            kept: self.kept,
            tokens: false,
            upgrades: false,
            loss: 0,
        }
    }
}
