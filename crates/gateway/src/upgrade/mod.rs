//! A new process takes over listeners and live connections of this one, on the same host. `host.rs` waits at a Unix socket for
//! operators and successors, `course.rs` knows what the process is doing, `standing.rs` brings it to a stand, `giver.rs` hands over, `taker.rs` takes over, `command.rs` is
//! `sockeye upgrade`, `line.rs` the way between two processes. ADR 51.

mod backends;
mod command;
mod counted;
mod course;
mod fit;
mod giver;
mod host;
mod journals;
mod line;
mod memories;
mod notify;
mod parts;
mod seat;
mod standing;
mod taker;

pub use command::{UpgradeArgs, run};
pub use host::{Door, Host};
pub use notify::{ready, stopping};
pub use parts::Parts;
pub use seat::{Heritage, Seat};
pub use taker::{Goes, Inheritance, Owner, Takeover};
