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

mod awaited;
mod calls;
mod choice;
mod commands;
mod done;
mod entry;
mod event;
mod frame;
mod home;
mod links;
mod loss;
mod message;
mod moves;
mod name;
mod open;
mod openings;
mod parked;
mod parting;
mod past;
mod queries;
mod rounds;
mod scope;
mod settings;
mod state;
mod weight;
mod worker;

pub use calls::{Call, Calling, News, Outcome};
pub use commands::check;
pub use event::{Event, Said};
pub use frame::Frame;
pub use links::{Denied, Link, Stray};
pub use loss::Deadly;
pub use message::{Ack, Down, Out, Refusal, To, Up, Why};
pub use name::Name;
pub use openings::{OpeningCounts, opening_number};
pub use scope::Scope;
pub use settings::Settings;
pub use state::{Backend, Counts};
pub use weight::{COMMANDS_MAX, GROWTH_MAX, NAMES_MAX, growth};

/// The messages of `proto/sockeye/worker/v1/worker.proto`.
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/sockeye.worker.v1.rs"));
}
