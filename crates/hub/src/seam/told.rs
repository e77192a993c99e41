//! What a handler is told once it is not running, in the order in which it happened.

use crate::books::close::DisconnectReason;
use crate::books::ledger::Booked;
use crate::cluster::letter::{Answer, Broadcast, Found};
use crate::seam::event::ServerAck;
use crate::tables::slot::SocketKey;
use wire::base64url::Id20;

/// What a handler must be told once it is not running.
#[derive(Debug)]
pub(crate) enum Told {
    Answered {
        token: u64,
        answer: Option<Box<[u8]>>,
    },
    Disconnected {
        socket: SocketKey,
        reason: DisconnectReason,
        /// Whether its member may be there again: its user, or the socket itself, which is kept for its client.
        may_return: bool,
    },
    GaveUp {
        socket: Id20,
        reason: DisconnectReason,
    },
    Upgraded {
        socket: Id20,
        transport: &'static str,
    },
    Moved {
        socket: SocketKey,
        room: Box<str>,
        joined: bool,
        by: u64,
    },
    AckTimedOut {
        socket: SocketKey,
        token: u64,
    },
    Collected {
        token: u64,
        collected: Collected,
    },
    Found {
        token: u64,
        found: Found,
        /// Its bytes, if they are in the books already.
        kept: Option<Booked>,
    },
    Server {
        what: Box<Broadcast>,
        ack: Option<ServerAck>,
    },
}

/// What a broadcast with ack brought. Each socket that was meant is in one of the four counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collected {
    /// Fewer than `acked` if not all could be kept.
    pub answers: Vec<Answer>,
    /// Sockets that answered.
    pub acked: u64,
    /// Sockets that got the event and did not answer in time.
    pub timed_out: u64,
    /// Sockets that got the event and left before they answered.
    pub gone: u64,
    /// Sockets that did not get the event, because a shard waits for too many answers already.
    pub undelivered: u64,
    /// Everyone who was meant got the event and answered, and all answers are here.
    pub complete: bool,
}
