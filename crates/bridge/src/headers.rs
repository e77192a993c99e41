//! Names of the headers that both directions share.

/// The socket's id.
pub const SOCKET: &str = "X-ID";
/// The user.
pub const USER: &str = "X-Uid";
/// The document, or the room.
pub const ROOM: &str = "X-Guid";
/// `join`, `leave` or `disconnect`.
pub const INNER: &str = "X-Inner";
/// The kind of act.
pub const MOMENT: &str = "X-Event";
/// Whom a command is for.
pub const OPERATOR: &str = "X-Operator";
/// How the client was let in.
pub const AUTH: &str = "X-Auth-Type";
/// W3C trace id.
pub const TRACE: &str = "X-Trace-ID";
/// The namespace.
pub const NAMESPACE: &str = "X-Sockeye-Namespace";
/// The event's name.
pub const NAME: &str = "X-Sockeye-Name";
/// The number of the record among those of its socket.
pub const SEQUENCE: &str = "X-Sockeye-Sequence";
/// Of the body.
pub const ENCODING: &str = "X-Sockeye-Encoding";
/// Sizes of binary attachments.
pub const ATTACHMENTS: &str = "X-Sockeye-Attachments";
/// Of a dead letter: why it is no command.
pub const REASON: &str = "X-Sockeye-Reason";
/// Of a dead letter: the topic, or the subject, where the record stood.
pub const FROM_TOPIC: &str = "X-Sockeye-From-Topic";
/// Of a dead letter of NATS: the stream, if the message came from one.
pub const FROM_STREAM: &str = "X-Sockeye-From-Stream";
/// Its partition.
pub const FROM_PARTITION: &str = "X-Sockeye-From-Partition";
/// Its offset there, or its number in the stream.
pub const FROM_OFFSET: &str = "X-Sockeye-From-Offset";
/// The size of its value.
pub const VALUE_BYTES: &str = "X-Sockeye-Value-Bytes";

/// All of those.
pub const OF_LETTERS: [&str; 6] = [
    REASON,
    FROM_TOPIC,
    FROM_STREAM,
    FROM_PARTITION,
    FROM_OFFSET,
    VALUE_BYTES,
];

/// Whom a command is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// One socket.
    Unicast,
    /// All sockets of a user.
    User,
    /// A room.
    Room,
    /// A namespace.
    Broadcast,
    /// The gateway itself: join, leave, disconnect.
    Internal,
}

impl Operator {
    /// All of them.
    pub const ALL: [Operator; 5] = [
        Operator::Unicast,
        Operator::User,
        Operator::Room,
        Operator::Broadcast,
        Operator::Internal,
    ];

    /// As it stands in the header `X-Operator`.
    pub fn word(self) -> &'static str {
        match self {
            Operator::Unicast => "unicast",
            Operator::User => "user",
            Operator::Room => "room",
            Operator::Broadcast => "broadcast",
            Operator::Internal => "internal",
        }
    }

    /// From the header's word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operator| operator.word() == word)
    }
}
