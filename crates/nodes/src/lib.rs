//! This node among others: an engine (Redis or NATS) that carries bytes between nodes, the letters of hubs over it, streams that all nodes
//! read, and connections that are relayed.
#![forbid(unsafe_code)]

mod arrival;
mod budgets;
pub mod card;
pub mod channels;
pub mod chronicle;
pub mod directory;
mod driver;
pub mod engine;
pub mod feed;
pub mod foreign;
pub mod gauges;
mod joins;
pub mod lag;
pub mod ledger;
pub mod member;
pub mod memory;
#[cfg(feature = "nats")]
mod nats;
mod number;
mod office;
pub mod redis;
pub mod relay;
pub mod roster;
mod seal;
mod standing;
#[cfg(feature = "history-redis")]
pub mod store;
pub mod way;

pub use arrival::Start;
pub use budgets::Shares;
pub use driver::Ended;
pub use member::{Joining, Member, Settings};
pub use office::{Gone, Office, Order};
pub use seal::name_key;
pub use standing::{Handed, Stop, Stopped};
