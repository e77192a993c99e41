//! A process of many hubs without a process: messages between hubs wait as long as the dice say (in order between each pair),
//! connections come to any hub and move to their owner, and after every step all invariants are checked. One seed is one history.

mod check;
mod client;
mod handler;
mod network;
mod people;
mod settings;
mod world;

pub use check::Report;
pub use world::{Plan, run};
