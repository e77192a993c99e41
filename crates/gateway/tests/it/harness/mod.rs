//! The real `sockeye` binary under test, and clients that send exact bytes.
//!
//! Nothing of the gateway is linked: a gateway is a child process on a port of its own, and what it
//! did is read from its answers, its log, its metrics and its memory.

mod alone;
mod crowd;
mod flood;
pub mod gateway;
mod generator;
mod stop;
mod stuck;
pub mod token;

pub use ::client::brief as client;
pub use ::client::conn as raw;
pub use ::client::{Ended, PATIENCE, RawConn, Response, eventually};
pub use alone::{Alone, Beside};
pub use client::{Plain, Poller, SocketIo};
pub use flood::all_come;
pub use gateway::Gateway;
pub use generator::generator;
pub use stop::Stop;
