//! How large a history of a cluster is, and what happens in it.

use crate::settings;
use hub::config::Config;
use std::time::Duration;

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
    /// Rooms keep their events for those who join later, and there are event streams.
    pub kept: bool,
    /// Messages are long, and so much waits in each process that each client is allowed little.
    pub squeezed: bool,
    /// There is a server of Node in the cluster.
    pub server: bool,
    /// Messages between nodes are lost for a while, nodes are cut off, freeze and die.
    pub troubles: bool,
    /// Bytes that a node keeps for repair.
    pub ring_bytes: usize,
}

impl Plan {
    /// What is played of a seed.
    pub fn of_seed(seed: u64) -> Self {
        Self {
            nodes: 3,
            hubs: 2,
            people: 14,
            rooms: 3,
            steps: 400,
            polling: 25,
            kept: seed % 2 == 1,
            squeezed: seed % 8 == 5,
            server: seed % 3 == 2,
            troubles: seed % 4 > 0,
            ring_bytes: if seed % 8 == 7 { 4_000 } else { 8 << 20 },
        }
    }

    pub(crate) fn config(&self, seed: u64) -> Config {
        let mut config = settings::config(&self.of_one_process(), seed);
        // Clients of the plain protocol answer no pings.
        config.plain_ping_interval = Duration::from_secs(1_000_000);
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
            elsewhere: false,
            upgrades: false,
            loss: 0,
        }
    }
}
