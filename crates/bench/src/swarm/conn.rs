//! Owns one connection of a swarm: its stream and how far its handshake is.

use crate::stream::Stream;
use mio::net::TcpStream;

pub use crate::stream::{Filled, Loss};

/// How far a connection is on its way to taking part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// TCP handshake under way.
    Connecting,
    /// Upgrade request sent.
    Upgrading,
    /// WebSocket open, Engine.IO or Socket.IO greeting awaited.
    Greeting,
    /// Join sent.
    Joining,
    Ready,
    Closed,
}

#[derive(Debug)]
pub struct Conn {
    pub stream: Stream,
    pub phase: Phase,
    pub begun_ns: u64,
    pub next_ack_id: u32,
    /// Echo load: messages sent so far.
    pub sent: u64,
}

impl Conn {
    pub fn new(stream: TcpStream, begun_ns: u64) -> Self {
        Conn {
            stream: Stream::new(stream),
            phase: Phase::Connecting,
            begun_ns,
            next_ack_id: 0,
            sent: 0,
        }
    }

    pub fn is_open(&self) -> bool {
        self.stream.is_open()
    }

    pub fn close(&mut self) {
        self.stream.close();
        self.phase = Phase::Closed;
    }
}
