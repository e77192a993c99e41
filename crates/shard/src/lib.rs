//! The data plane: threads that own sockets. Each runs one hub in a readiness loop; every syscall of the hot path is here.

mod accept;
mod arriving;
mod clock;
mod cores;
mod effects;
mod entropy;
mod guests;
mod handing;
pub mod heap;
mod kernel;
mod limiting;
mod mail;
mod onset;
mod passing;
mod pause;
mod preface;
mod reactor;
mod read;
mod secure;
mod shards;
mod streams;
pub mod tls;
mod turn;
mod walks;

pub use arriving::Takers;
pub use guests::{Guest, Stay};
pub use handing::{Frozen, Givers, Paused};
pub use limiting::Limiting;
pub use mail::{Answerer, Handover, Outside, Relay};
pub use onset::Onset;
pub use passing::{Census, Listening, Sessions, Unquiet};
pub use reactor::Readiness;
pub use reactor::listener::can_listen;
pub use reactor::stream::Detached;
pub use shards::{Inspector, Settings, ShardDied, Shards, Tls, ToHandlers, start};
pub use walks::ShardMemory;
