//! One accepted connection as the hub sees it: what it is expecting, what it has not finished reading, what it has to write.

use crate::clients::exchange::Exchange;
use crate::clients::handshake::Handshake;
use crate::clients::lag::Lag;
use crate::clients::origin::Origin;
use crate::clients::table::Named;
use crate::clients::unread::Unread;
use crate::output::outbox::Outbox;
use crate::tables::slot::SessionId;
use std::net::IpAddr;
use wire::base64url::Id20;
use wire::websocket::message::Assembler;

/// What the next bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// A request head.
    Head,
    /// A request head about which its handler has yet to decide. Its bytes wait.
    Held,
    /// The rest of a POST body of this many bytes.
    Body { len: u32 },
    /// The rest of a POST body in chunks.
    ChunkedBody,
    /// Nothing: a poll is waiting for its answer. Pipelined bytes wait.
    Poll,
    /// Frames of the session's transport.
    WebSocket,
    /// Nothing: its answer is an event stream, and goes on.
    Stream,
    /// Frames of a WebSocket that wants to take over a polling session.
    Probe,
    /// Nothing more: close once the outbox is empty.
    Finishing,
    /// Our side is shut; waiting for the peer's end of stream.
    Linger,
}

#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) state: State,
    /// Session this connection serves now.
    pub(crate) session: Option<SessionId>,
    pub(crate) outbox: Outbox,
    /// In the turn's list of connections with output.
    pub(crate) dirty: bool,
    pub(crate) lag: Lag,
    pub(crate) assembler: Assembler,
    pub(crate) unread: Unread,
    pub(crate) origin: Origin,
    pub(crate) exchange: Exchange,
    pub(crate) handshake: Handshake,
}

// A million of them idle: this is most of what each costs.
const _: () = assert!(size_of::<Conn>() <= 96);

impl Named for Conn {
    fn id(&self) -> Option<&Id20> {
        None
    }
}

impl Conn {
    pub(crate) fn new(peer: IpAddr) -> Self {
        Self {
            state: State::Head,
            session: None,
            outbox: Outbox::default(),
            dirty: false,
            lag: Lag::default(),
            assembler: Assembler::default(),
            unread: Unread::default(),
            origin: Origin::new(peer),
            exchange: Exchange::default(),
            handshake: Handshake::default(),
        }
    }

    /// Heap bytes of what was read. The outbox counts what is to be written.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.assembler.heap_bytes() + self.unread.heap_bytes()
    }
}
