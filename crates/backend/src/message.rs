//! The messages between shards and a backend.

use crate::event::Event;
use crate::name::Name;
use crate::proto;
use crate::proto::command::What;
use bytes::Bytes;

/// From a shard.
#[derive(Clone, Debug)]
pub enum Up {
    /// A client wants in; the shard waits for [`Down::Decide`] with the same number. No other CONNECT of a client that comes to this id has it.
    Connect {
        number: u64,
        connect: Box<proto::Connect>,
    },
    Event(Event),
    /// A request for a session, if workers want to decide about these; the shard waits for [`Down::Verdict`] or [`Down::Unavailable`].
    Opening(proto::Opening),
    /// Somebody moved a socket: `by` is what stood in [`Down::Move`], or 0.
    Moved {
        socket: Name,
        room: String,
        joined: bool,
        by: u64,
    },
    /// The session of this socket went from long-polling to this transport.
    Upgraded {
        socket: Name,
        transport: &'static str,
    },
    /// A socket ended, or its client gave up before the decision.
    Gone(proto::Gone),
    /// The answer to [`Down::Describe`].
    Described {
        socket: Name,
        rooms: Vec<String>,
        data: String,
    },
    /// Another node is gone, with its sockets.
    NodeGone(proto::NodeGone),
    Answers(proto::Answers),
    Found(proto::Found),
    Counted(proto::Counted),
    /// Another server says something; it waits for [`Down::Reply`] if `told` is not 0.
    Told(Box<proto::Told>),
}

/// Why a client's event is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No worker came in time.
    Absent,
    /// Too much waits for the workers already.
    Busy,
    /// The worker did not answer in time.
    Unanswered,
    /// Worker after worker ended over it.
    Deadly,
    /// The endpoint did not take it, or the answer to it cannot be used.
    Failed,
}

/// Why a client is not let in: CONNECT_ERROR.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub message: String,
    /// Raw JSON.
    pub data: Option<String>,
}

impl Refusal {
    pub(crate) fn too_large(bytes_max: usize) -> Self {
        Self {
            message: "payload too large".to_owned(),
            data: Some(format!(r#"{{"max_bytes":{bytes_max}}}"#)),
        }
    }

    pub(crate) fn unavailable() -> Self {
        Self {
            message: "service unavailable".to_owned(),
            data: Some(r#"{"retry_after_ms":1000}"#.to_owned()),
        }
    }
}

/// A worker's answer to an event. What a shard gets in great numbers is small: the socket's name is no text of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    pub socket: Name,
    pub ack: u64,
    /// JSON elements without brackets.
    pub args: Bytes,
    pub attachments: Vec<Bytes>,
}

impl Ack {
    pub(crate) fn new(socket: Name, ack: proto::Ack) -> Self {
        Self {
            socket,
            ack: ack.ack,
            args: ack.args,
            attachments: ack.attachments,
        }
    }
}

/// A larger command goes to its shard alone.
const SMALL_BYTES: usize = 4 << 10;

/// For a shard.
#[derive(Clone, Debug)]
pub enum Down {
    /// About the CONNECT with this number: a socket that its client left and came back to has another one.
    Decide {
        socket: Name,
        number: u64,
        decision: Result<(), Refusal>,
    },
    Ack(Ack),
    /// `ack`: number under which the client waits; 0 = it does not.
    Refuse {
        socket: Name,
        ack: u64,
        why: Why,
    },
    /// Rooms and data of this socket are wanted.
    Describe {
        socket: Name,
    },
    /// No worker came in time, and its clients are to be closed.
    Close {
        socket: Name,
    },
    /// A worker's answer to [`Up::Told`]; `None`: there is none.
    Reply {
        told: u64,
        answer: Option<proto::Answer>,
    },
    /// A worker's answer to [`Up::Opening`].
    Verdict(proto::Verdict),
    /// No worker decides about this request.
    Unavailable {
        opening: u64,
    },
    /// A request of a worker. Queries in it are numbered by the backend.
    Do(What),
    /// The same, about rooms. [`Up::Moved`] repeats `by`.
    Move {
        by: u64,
        what: What,
    },
}

impl Down {
    /// A shard may carry it out in one call with others: it is small, and changes nothing that they depend on.
    pub fn goes_with_others(&self) -> bool {
        let kind = matches!(self, Self::Ack(_) | Self::Do(What::Emit(_)));
        kind && self.bytes() <= SMALL_BYTES
    }

    /// Memory that its texts take while it waits for a shard.
    pub fn bytes(&self) -> usize {
        let attached = |parts: &[Bytes]| parts.iter().map(|part| part.len()).sum::<usize>();
        let emit = |emit: &proto::Emit| emit.args.len() + attached(&emit.attachments);
        match self {
            Self::Ack(ack) => ack.args.len() + attached(&ack.attachments),
            Self::Do(What::Emit(what)) => emit(what),
            Self::Do(What::Ask(ask)) => ask.emit.as_ref().map_or(0, emit),
            Self::Do(What::SetData(set)) => set.data.len(),
            Self::Do(What::Tell(tell)) => tell.args.len() + attached(&tell.attachments),
            _ => 0,
        }
    }
}

/// The shards that carry it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The one that has this socket.
    Socket(Name),
    /// Each, for its own sockets.
    All,
    /// This one.
    Shard(u16),
    /// One of them, for all.
    One,
}

/// The output of a backend. Outputs are carried out in their order.
#[derive(Clone, Debug)]
pub struct Out {
    pub to: To,
    pub down: Down,
}
