//! Why a message was not taken.

/// Reasons, for counting. A message that is refused changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// More bytes than a message may have.
    TooLarge,
    /// Neither JSON nor MessagePack, nested too deeply, or with more attachments than clients take.
    Garbage,
    /// python-socketio before 5.14 writes pickles. Reading one runs what it holds.
    Pickle,
    /// A field is missing or of the wrong type, or an event has a name that only the libraries may use.
    Shape,
    /// More rooms or sockets than one message may name.
    TooMany,
    /// A type of message that we do not know.
    Unknown,
    /// A channel that is none of ours, a message that names another namespace than its channel, or a long answer to another server.
    Elsewhere,
    /// Written by a Sockeye node: the nodes talk to each other in another way.
    Own,
}

impl Refused {
    /// All of them, in the order of their numbers.
    pub const ALL: [Refused; 8] = [
        Refused::TooLarge,
        Refused::Garbage,
        Refused::Pickle,
        Refused::Shape,
        Refused::TooMany,
        Refused::Unknown,
        Refused::Elsewhere,
        Refused::Own,
    ];

    /// As metrics name it.
    pub fn label(self) -> &'static str {
        match self {
            Refused::TooLarge => "too_large",
            Refused::Garbage => "garbage",
            Refused::Pickle => "pickle",
            Refused::Shape => "shape",
            Refused::TooMany => "too_many",
            Refused::Unknown => "unknown",
            Refused::Elsewhere => "elsewhere",
            Refused::Own => "own",
        }
    }
}
