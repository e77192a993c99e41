//! What a handler is told and answers: requests to join, events, decisions.

use crate::books::claims::Claims;
use crate::clients::session::Protocol;
use crate::cluster::letter::RoundId;
use crate::seam::opening::HeaderLines;
use crate::tables::slot::{SessionId, SocketKey};
use std::net::IpAddr;
use wire::base64url::Id20;

/// A client asks to join a namespace.
#[derive(Clone, Copy, Debug)]
pub struct ConnectRequest<'a> {
    /// Id of its socket, if it is let in.
    pub socket: Id20,
    /// It had this socket before and comes back to it; `None`: it is a new one.
    pub returns: Option<&'a Returns>,
    /// Id of its session. It is a secret of the client's: it lets its bearer speak for the session.
    pub sid: Id20,
    /// The namespace that it wants to join.
    pub namespace: &'a str,
    /// Raw JSON of the CONNECT payload; `{}` when there was none.
    pub auth: &'a str,
    /// Query string of the opening request; empty unless handshakes are kept.
    pub query: &'a str,
    /// Its header lines; none unless the handler [reads requests](crate::Handler::reads_requests).
    pub headers: HeaderLines<'a>,
    /// The protocol that it speaks.
    pub protocol: Protocol,
    /// `polling` or `websocket`, as of now.
    pub transport: &'static str,
    /// The client's address, as trusted proxies tell it.
    pub peer: IpAddr,
    /// What its token says; `None` = it showed none, and none is needed.
    pub claims: Option<&'a Claims>,
    pub(crate) session: SessionId,
}

/// The state of a socket whose client comes back.
#[derive(Clone, Debug, Default)]
pub struct Returns {
    /// The rooms that it is in, its own id among them.
    pub rooms: Vec<String>,
    /// Raw JSON that a handler attached; `{}` when there is none.
    pub data: String,
}

/// Why a namespace was not joined: CONNECT_ERROR's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// For people.
    pub message: String,
    /// Raw JSON.
    pub data: Option<String>,
}

/// What becomes of a client that wants to join a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It joins.
    Admit,
    /// It is told why not.
    Refuse(Refusal),
    /// The handler took a ticket ([`Context::postpone`](crate::Context::postpone)) and decides with it later
    /// ([`Context::decide`](crate::Context::decide)).
    Later,
}

impl From<Result<(), Refusal>> for Decision {
    fn from(decision: Result<(), Refusal>) -> Self {
        match decision {
            Ok(()) => Self::Admit,
            Err(refusal) => Self::Refuse(refusal),
        }
    }
}

impl Refusal {
    /// Nobody can decide now; the client may try again in a moment.
    pub fn unavailable() -> Self {
        Self {
            message: "service unavailable".into(),
            data: Some(r#"{"retry_after_ms":1000}"#.into()),
        }
    }

    /// There is no such namespace.
    pub fn invalid_namespace() -> Self {
        Self {
            message: "Invalid namespace".into(),
            data: None,
        }
    }
}

/// The sender of a message: found once, when the message is heard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller {
    pub(crate) session: SessionId,
    pub(crate) socket: SocketKey,
}

impl Caller {
    /// The right to answer it, if its client asked for an answer.
    pub(crate) fn ack(self, id: Option<u64>) -> Option<AckTo> {
        let socket = self.socket;
        id.map(|id| AckTo { socket, id })
    }
}

/// An event from a client.
#[derive(Debug)]
pub struct Event<'a> {
    /// Its name.
    pub name: &'a str,
    /// Raw JSON elements after the name, separated by commas; empty when there are none. Attachments stand in it as
    /// Socket.IO placeholders.
    pub args: &'a str,
    /// The attachments that placeholders in the arguments stand for.
    pub attachments: &'a [Vec<u8>],
    /// Room named by a plain client.
    pub room: Option<&'a str>,
    /// Present when the client wants an ack. Can be used once.
    pub ack: Option<AckTo>,
}

/// The right to answer one event.
#[derive(Debug)]
pub struct AckTo {
    pub(crate) socket: SocketKey,
    pub(crate) id: u64,
}

impl AckTo {
    /// The id by which the client asked.
    pub fn id(&self) -> u64 {
        self.id
    }
}

/// A message of a session without sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// UTF-8.
    Text(&'a str),
    /// Bytes.
    Binary(&'a [u8]),
}

/// An event from another server of the cluster, for this one and not for its clients.
#[derive(Debug)]
pub struct ServerEvent<'a> {
    /// The namespace in which it was said.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Raw JSON elements, separated by commas, as in [`Event`].
    pub args: &'a str,
    /// The attachments that placeholders in the arguments stand for.
    pub attachments: &'a [Vec<u8>],
    /// Present when the other server waits for an answer. Can be used once.
    pub ack: Option<ServerAck>,
}

/// The right to answer another server, now or later.
#[derive(Debug)]
pub struct ServerAck {
    pub(crate) round: RoundId,
}
