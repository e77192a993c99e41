//! The data plane: threads that own sockets. Each runs one hub in a readiness loop; every syscall of the hot path is here.

mod clock;
mod entropy;
mod listener;
mod memory;
mod shards;
mod sockets;
mod stream;
pub mod tls;
mod turn;

pub use memory::{Inspector, ShardMemory};
pub use shards::{Answerer, Handover, Outside, Settings, ShardDied, Shards, Tls, start};
pub use stream::Detached;
