//! Logic outside: the state between the shards, which hold the sockets of a namespace, and the workers, which hold its logic.
//!
//! Pure: no I/O and no clock. A shard's news go in by [`Backend::up`], a worker's frames by [`Backend::received`], time by
//! [`Backend::tick`]. What comes out is for shards ([`Out`]) or for workers ([`Backend::poll`]). The promises:
//!
//! * A socket has one worker at a time, its home. Its events reach it in order.
//! * An event is kept until its worker has handled it. A link that is cut and comes back loses nothing and repeats nothing. When
//!   a worker is lost, its sockets move. Events that it had got and not handled come again, marked as redelivered.
//! * A client that waits for an answer gets one: from a worker, or a refusal.
//! * What is kept is bounded in bytes, for one socket and for all, and in time.
#![forbid(unsafe_code)]

mod backend;
mod backlog;
mod bounds;
mod calls;
mod check;
mod commands;
mod counts;
mod deadlines;
mod done;
mod endpoint;
mod entry;
mod event;
mod flight;
mod frame;
mod home;
mod homes;
mod items;
mod ledger;
mod link;
mod links;
mod loss;
mod message;
mod name;
mod news;
mod nodes;
mod open;
mod openings;
mod order;
mod outlet;
mod parked;
mod parting;
mod parts;
mod past;
mod question;
mod questions;
mod queue;
mod scope;
mod settings;
mod settle;
mod taken;
mod weight;
mod worker;
mod workers;

pub use backend::Backend;
pub use bounds::{COMMANDS_MAX, GROWTH_MAX, NAMES_MAX};
pub use calls::{Call, News, Outcome};
pub use check::check;
pub use counts::{Counts, OpeningCounts};
pub use endpoint::Calling;
pub use event::{Event, Said};
pub use frame::Frame;
pub use link::{Denied, Link, Stray};
pub use message::{Ack, Down, Out, Refusal, To, Up, Why};
pub use name::Name;
pub use openings::opening_number;
pub use order::Sending;
pub use outlet::Deadly;
pub use scope::Scope;
pub use settings::Settings;
pub use weight::growth;

/// The messages of `proto/sockeye/worker/v1/worker.proto`.
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/sockeye.worker.v1.rs"));
}
