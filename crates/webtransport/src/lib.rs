//! Engine.IO by WebTransport: each session has a stream of QUIC, and a socket pair whose other end a shard has as a connection.
//!
//! To the shard it is a WebSocket, with the limits, queues and words of one (ADR 61): [`bridge`] translates headers of frames and passes
//! the rest on. [`door`] lets clients in, [`quic`] has what QUIC may take, [`openings`] the bounds of those who have not opened a session.
#![forbid(unsafe_code)]

mod answer;
mod bridge;
mod carrier;
mod door;
mod figures;
mod house;
mod openings;
mod quic;
mod request;
mod session;

pub use carrier::Carrier;
pub use figures::Figures;

use std::any::Any;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Takes the end of a socket pair that stands for a client's stream; what it gives back is held until the other end is closed. `None`: there is
/// no room.
pub type Bring = Box<dyn Fn(UnixStream, IpAddr) -> Option<Box<dyn Any + Send>> + Send + Sync>;

/// How the carrier serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// UDP addresses.
    pub listen: Vec<SocketAddr>,
    /// Another process has these ports, and will let them go.
    pub takes_over: bool,
    /// Prefixes of the paths that sessions are opened at.
    pub paths: Vec<String>,
    /// A client has so long from its first packet to the one that opens a session.
    pub opening_timeout: Duration,
    /// A connection from which nothing comes is over.
    pub idle_timeout: Duration,
    /// A client that is told of the end has so long to confirm what came before, and a shard to take what came last.
    pub close_timeout: Duration,
    pub threads: usize,
}
