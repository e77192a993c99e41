//! Owns the memory of both ends of a run on one machine: server, generator, and what is left for the kernel.

use serde::{Deserialize, Serialize};

/// Memory of server, generator and machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BothEnds {
    /// Before the first connection.
    pub before: Memory,
    /// With the most connections.
    pub most: Memory,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// All of the machine that is in use and could not be had at once.
    pub machine_bytes: u64,
    pub servers_bytes: u64,
    pub generator_bytes: u64,
}

impl Memory {
    /// The greater of each figure.
    pub fn max(self, other: Memory) -> Memory {
        self.with(other, u64::max)
    }

    fn with(self, other: Memory, of: fn(u64, u64) -> u64) -> Memory {
        Memory {
            machine_bytes: of(self.machine_bytes, other.machine_bytes),
            servers_bytes: of(self.servers_bytes, other.servers_bytes),
            generator_bytes: of(self.generator_bytes, other.generator_bytes),
        }
    }
}

impl BothEnds {
    /// By how much the machine, the servers and the generator grew.
    pub fn growth(&self) -> Memory {
        self.most.with(self.before, u64::saturating_sub)
    }
}
