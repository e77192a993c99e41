//! The process, as all its parts see it: whether it lives and is ready, what operators want of its sessions, the places that its listeners
//! have, the connections that its shards gave away, the files that it reads, its log.
#![forbid(unsafe_code)]

mod causes;
pub mod durations;
pub mod files;
pub mod flood;
pub mod health;
pub mod log;
pub mod moving;
pub mod owed;
pub mod seats;
pub mod stream;
pub mod upgrades;
pub mod usage;
pub mod vitals;

pub use causes::causes;
