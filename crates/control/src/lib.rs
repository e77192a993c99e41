//! The tokio side: pages for browsers, metrics and health for operators, everything that may wait.
//! It meets the shards only through what they publish and what they hand over.

pub mod admin;
pub mod api;
mod assets;
pub mod bodies;
pub mod bridge;
#[cfg(test)]
mod callers;
pub mod debug;
pub mod history;
pub mod inside;
pub mod kafka;
pub mod listening;
pub mod live;
pub mod metrics;
pub mod nats;
pub mod page;
pub mod recording;
mod replay;
pub mod schema;
pub mod traces;
mod websocket;
pub mod webtransport;
