//! An act of a client, with the headers of its record.

use crate::headers::{self, Operator};

/// Of a record, for its header `X-Event`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A socket joined a namespace.
    Connect,
    /// A client sent an event.
    Message,
    /// A socket left a namespace.
    Disconnect,
}

impl Moment {
    /// As it stands in the header.
    pub fn word(self) -> &'static str {
        match self {
            Moment::Connect => "Connect",
            Moment::Message => "Message",
            Moment::Disconnect => "Disconnect",
        }
    }
}

/// Of a body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// A JSON array: the event's name and its arguments.
    #[default]
    Json,
    /// The same in MessagePack.
    Msgpack,
}

impl Encoding {
    /// As it stands in the header.
    pub fn word(self) -> &'static str {
        match self {
            Encoding::Json => "json",
            Encoding::Msgpack => "msgpack",
        }
    }
}

/// Records with the same key stay in the order in which they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// By socket.
    Socket,
    /// By user; by socket where there is none.
    User,
    /// By room; by socket where there is none.
    Room,
    /// By a claim of the token, with its value here.
    Claim(&'a str),
}

/// An event of a client. Each field but the body becomes a header, in the order of the fields.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The act.
    pub moment: Moment,
    /// The socket's id.
    pub socket: &'a str,
    /// Its user.
    pub user: Option<&'a str>,
    /// The document: the room that the configured pattern matches.
    pub room: Option<&'a str>,
    /// `join` or `leave`, if the event does one of them.
    pub inner: Option<&'a str>,
    /// What programs shall answer with.
    pub operator: Option<Operator>,
    /// How the client was let in.
    pub auth: Option<&'a str>,
    /// W3C trace id.
    pub trace: Option<&'a str>,
    /// The namespace.
    pub namespace: &'a str,
    /// The event's name.
    pub name: Option<&'a str>,
    /// The number of the event in its session.
    pub sequence: Option<u64>,
    /// Of the body.
    pub encoding: Encoding,
    /// Sizes of the attachments that stand behind the JSON in the body, in bytes, separated by commas.
    pub attachments: Option<&'a str>,
    /// Events with the same key keep their order.
    pub key: Key<'a>,
    /// As the client sent it.
    pub body: &'a [u8],
}

impl<'a> Event<'a> {
    /// Events with the same key keep their order.
    pub fn key(&self) -> &'a str {
        match self.key {
            Key::Socket => self.socket,
            Key::User => self.user.unwrap_or(self.socket),
            Key::Room => self.room.unwrap_or(self.socket),
            Key::Claim(value) => value,
        }
    }

    /// Name and value of each header that it has.
    pub fn each_header(&self, mut tell: impl FnMut(&'static str, &str)) {
        let sequence = self.sequence.map(|number| number.to_string());
        let all = [
            (headers::SOCKET, Some(self.socket)),
            (headers::USER, self.user),
            (headers::ROOM, self.room),
            (headers::INNER, self.inner),
            (headers::MOMENT, Some(self.moment.word())),
            (headers::OPERATOR, self.operator.map(Operator::word)),
            (headers::AUTH, self.auth),
            (headers::TRACE, self.trace),
            (headers::NAMESPACE, Some(self.namespace)),
            (headers::NAME, self.name),
            (headers::SEQUENCE, sequence.as_deref()),
            (headers::ENCODING, Some(self.encoding.word())),
            (headers::ATTACHMENTS, self.attachments),
        ];
        for (name, value) in all {
            if let Some(value) = value {
                tell(name, value);
            }
        }
    }
}
