//! Nodes of a cluster without machines: each has several hubs with the built-in rules, and the real plane of letters between nodes. Messages of
//! the engine come late, twice, or not at all; nodes freeze, are cut off, die and begin anew. One seed is one history.

mod acts;
mod books;
mod bridge;
mod calendar;
mod congestion;
mod deeds;
mod due;
mod engine;
mod guests;
mod life;
mod link;
mod office;
mod people;
mod person;
mod plan;
mod relays;
mod report;
mod returns;
mod server;
mod servers;
mod station;
mod stream;
mod streams;
mod succession;
mod wires;
mod worker;
mod world;

pub use plan::Plan;
pub use report::Report;
use seeds::Script;

/// Plays one history and checks it; a violation panics with the seed.
pub fn play(plan: Plan, script: &Script) -> Report {
    acts::play(plan, script)
}
