//! What a hub wants done. The shard carries these out; a simulator may delay or lose them.

use crate::books::close::{CloseReason, Departure};
use crate::books::metrics::Limit;
use crate::cluster::away::Parcel;
use crate::cluster::letter::Letter;
use crate::seam::ask::Ask;
use crate::tables::id::Place;
use crate::tables::slot::{AskKey, ConnId};
use std::any::Any;
use std::net::IpAddr;
use std::sync::Arc;
use wire::base64url::Id20;

/// Something that a hub wants done.
#[derive(Debug)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum Effect {
    /// Drop the connection now.
    Close { conn: ConnId },
    /// Shut the sending side; the peer's end of stream or a `Close` follows.
    Shutdown { conn: ConnId },
    /// The request in `read` belongs to another shard: give it the connection, whose peer is this, the bound beyond which it
    /// was accepted, whether another node relays it, and whether it stands for a stream of WebTransport.
    Move {
        conn: ConnId,
        shard: u16,
        read: Vec<u8>,
        peer: IpAddr,
        beyond: Option<Limit>,
        relayed: bool,
        carried: bool,
    },
    /// The request in `read` belongs to another node: pass the connection's bytes on. `peer` is the client. If that node cannot be
    /// reached, `refusal` is the answer.
    Relay {
        conn: ConnId,
        owner: Place,
        read: Vec<u8>,
        peer: IpAddr,
        refusal: Vec<u8>,
    },
    /// The request in `read` is not a realtime one: give the connection to the control plane. `peer` is the client.
    Handover {
        conn: ConnId,
        read: Vec<u8>,
        peer: IpAddr,
    },
    /// A message for the hub of another shard.
    Send { shard: u16, letter: Arc<Letter> },
    /// A word for the handler of another shard, in order with messages for its hub. `bytes`: what it costs while it waits.
    Pass {
        shard: u16,
        word: Box<dyn Any + Send>,
        bytes: usize,
    },
    /// For other nodes.
    Away(Parcel),
    /// A question for the control plane; `Hub::answered` brings the answer.
    Ask { key: AskKey, ask: Ask },
    /// Something operators want in the log.
    Log(Notice),
}

/// A line of the connection log.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "a variant says what its fields are")]
pub enum Notice {
    Connected {
        socket: Id20,
        peer: IpAddr,
        transport: &'static str,
        protocol: &'static str,
        /// The user whom its token names.
        uid: Option<Box<str>>,
    },
    Disconnected {
        socket: Id20,
        peer: IpAddr,
        how: Departure,
    },
    /// A session ended before it had a socket, or was not let into a namespace for its token.
    Refused {
        peer: IpAddr,
        reason: CloseReason,
    },
    /// A client's token grants nothing, or it has none where one is needed.
    TokenRefused {
        peer: IpAddr,
        cause: &'static str,
        why: Option<Box<str>>,
    },
    /// Someone at this address names clients as proxies do, and is none of the trusted proxies.
    DistrustedProxy {
        peer: IpAddr,
    },
    HandlerPanic {
        peer: IpAddr,
    },
    /// A client came back and is not given the socket that it had.
    NotRecovered {
        peer: IpAddr,
        cause: &'static str,
    },
    /// No rule knows an event.
    UnknownEvent {
        socket: Id20,
        namespace: Arc<str>,
        event: Brief,
    },
    /// A handler emitted an event that clients take for a broken packet; it was not sent.
    ReservedEvent {
        name: &'static str,
    },
}

/// The beginning of a name that a client chose: enough to recognise it, and no allocation, however many there are.
#[derive(Clone, Copy)]
pub struct Brief {
    bytes: [u8; 39],
    len: u8,
}

impl Brief {
    pub(crate) fn new(name: &str) -> Self {
        let mut bytes = [0; 39];
        let len = name.floor_char_boundary(bytes.len());
        bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
        Self {
            bytes,
            len: len as u8,
        }
    }

    /// The name, or its beginning if it is long.
    pub fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len));
        std::str::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
    }
}

impl std::fmt::Debug for Brief {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}
