//! Names of the headers that both directions share.

pub(crate) const SOCKET: &str = "X-ID";
pub(crate) const USER: &str = "X-Uid";
pub(crate) const ROOM: &str = "X-Guid";
pub(crate) const INNER: &str = "X-Inner";
pub(crate) const MOMENT: &str = "X-Event";
pub(crate) const OPERATOR: &str = "X-Operator";
pub(crate) const AUTH: &str = "X-Auth-Type";
pub(crate) const TRACE: &str = "X-Trace-ID";
pub(crate) const NAMESPACE: &str = "X-Sockeye-Namespace";
pub(crate) const NAME: &str = "X-Sockeye-Name";
pub(crate) const SEQUENCE: &str = "X-Sockeye-Sequence";
pub(crate) const ENCODING: &str = "X-Sockeye-Encoding";
pub(crate) const ATTACHMENTS: &str = "X-Sockeye-Attachments";
/// Of a dead letter.
pub(crate) const REASON: &str = "X-Sockeye-Reason";
pub(crate) const FROM_TOPIC: &str = "X-Sockeye-From-Topic";
pub(crate) const FROM_PARTITION: &str = "X-Sockeye-From-Partition";
pub(crate) const FROM_OFFSET: &str = "X-Sockeye-From-Offset";
pub(crate) const VALUE_BYTES: &str = "X-Sockeye-Value-Bytes";

/// All of those.
pub(crate) const OF_LETTERS: [&str; 5] =
    [REASON, FROM_TOPIC, FROM_PARTITION, FROM_OFFSET, VALUE_BYTES];

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
