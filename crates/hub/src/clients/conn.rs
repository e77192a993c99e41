//! One accepted connection as the hub sees it: what it is expecting, what it has not finished reading, what it has to write.

use crate::books::metrics::Limit;
use crate::clients::table::Named;
use crate::output::compression::Deflate;
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
    pub(crate) assembler: Assembler,
    /// Received but incomplete.
    #[expect(
        clippy::box_collection,
        reason = "a million idle connections hold eight bytes here, not 24"
    )]
    pub(crate) input: Option<Box<Vec<u8>>>,
    /// Low 32 bits of the millisecond clock when the incomplete message began, never 0; 0 = nothing is incomplete.
    pub(crate) since_ms: u32,
    /// Bytes that came after our end of the connection.
    pub(crate) ignored: u32,
    pub(crate) peer: IpAddr,
    /// How messages to it are compressed.
    pub(crate) deflate: Deflate,
    pub(crate) flags: Flags,
}

impl Named for Conn {
    fn id(&self) -> Option<&Id20> {
        None
    }
}

/// Small facts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags {
    /// In the turn's dirty list.
    pub(crate) dirty: bool,
    /// HTTP keep-alive for the request in progress.
    pub(crate) keep_alive: bool,
    /// The request in progress is HEAD: its answer has no content.
    pub(crate) head_only: bool,
    /// A `Message` timer is armed.
    pub(crate) message_timer: bool,
    /// A head was completed once (keep-alive timeouts, not handshake timeouts, apply).
    pub(crate) served: bool,
    /// Stopped in the middle of its input because the turn was full.
    pub(crate) stalled: bool,
    /// The peer closed its sending side.
    pub(crate) eof: bool,
    /// The last answer was one to a poll, and has packets that exist nowhere else any more.
    pub(crate) answering: bool,
    /// Counted as a WebSocket.
    pub(crate) websocket: bool,
    /// A `KeepAlive` timer is armed.
    pub(crate) keep_alive_timer: bool,
    /// A request came since the `KeepAlive` timer was armed.
    pub(crate) active: bool,
    /// permessage-deflate was agreed on.
    pub(crate) inflates: bool,
    /// Compressed messages of its client may refer to earlier ones.
    pub(crate) inflates_own: bool,
    /// Counted with its address.
    pub(crate) counted: bool,
    /// The bound beyond which it was accepted. Such a connection serves existing sessions and health checks, and begins no session.
    pub(crate) beyond: Option<Limit>,
    /// Another node passes it on: it serves one request, whose client that node has named.
    pub(crate) relayed: bool,
    /// It speaks TLS.
    pub(crate) secure: bool,
    /// It stands for a stream of WebTransport, and its other end is in this process or, if it is relayed, in another node's.
    pub(crate) carried: bool,
    /// Somebody is asked about its client: what the client sends waits.
    pub(crate) asking: bool,
    /// The number of its sockets that other nodes do not know of yet. What it is told waits until they do.
    pub(crate) held: u16,
    pub(crate) gap: Gap,
}

/// A gap in what a slow client gets: from the first event that was dropped until the client has taken all that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Gap {
    #[default]
    None,
    /// The client was not told of it yet.
    Fresh,
    /// The client was told of it.
    Told,
    /// The client was told of it, and more was dropped after that.
    More,
}

impl Gap {
    /// Something was dropped.
    pub(crate) fn widen(&mut self) {
        *self = match self {
            Self::None | Self::Fresh => Self::Fresh,
            Self::Told | Self::More => Self::More,
        };
    }

    /// Whether its client is to be told now. `is_over`: it has taken all that waited.
    pub(crate) fn is_due(&mut self, is_over: bool) -> bool {
        let is_due = *self == Self::Fresh || is_over && *self == Self::More;
        *self = match (is_over, *self) {
            // The client has taken all, so the next loss is a gap of its own.
            (true, _) => Self::None,
            (false, Self::Fresh) => Self::Told,
            (false, same) => same,
        };
        is_due
    }
}

impl Conn {
    pub(crate) fn new(peer: IpAddr) -> Self {
        Self {
            state: State::Head,
            session: None,
            outbox: Outbox::default(),
            assembler: Assembler::default(),
            input: None,
            since_ms: 0,
            ignored: 0,
            peer,
            deflate: Deflate::Off,
            flags: Flags::default(),
        }
    }

    /// Heap bytes of what was read. The outbox counts what is to be written.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.assembler.heap_bytes()
            + self
                .input
                .as_ref()
                .map_or(0, |input| input.capacity() + size_of::<Vec<u8>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_told_when_it_begins_and_when_more_went_behind_that() {
        let mut gap = Gap::default();
        assert!(!gap.is_due(false) && !gap.is_due(true));
        gap.widen();
        gap.widen();
        assert!(gap.is_due(false) && !gap.is_due(false));
        gap.widen();
        assert!(!gap.is_due(false), "it was told of this one");
        assert!(gap.is_due(true) && !gap.is_due(true));
        gap.widen();
        assert!(gap.is_due(true), "it begins and ends at once");
        gap.widen();
        assert!(gap.is_due(false));
        assert!(!gap.is_due(true), "nothing went since");
    }
}
