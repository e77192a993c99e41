//! The tokio side: pages for browsers, metrics and health for operators, everything that may wait.
//! It meets the shards only through what they publish and what they hand over.

pub mod admin;
pub mod api;
mod assets;
pub mod backend;
pub mod bodies;
pub mod bridge;
mod causes;
pub mod chronicle;
pub mod cluster;
pub mod debug;
pub mod flood;
pub mod health;
pub mod history;
pub mod identity;
pub mod inside;
pub mod kafka;
pub mod listening;
pub mod live;
pub mod metrics;
pub mod moving;
pub mod nats;
pub mod owed;
pub mod page;
mod process;
pub mod recording;
pub mod relay;
mod replay;
pub mod schema;
mod seats;
pub mod traces;
pub mod upgrades;
pub mod vitals;
mod websocket;
pub mod webtransport;
