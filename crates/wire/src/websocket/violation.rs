//! How a peer can break RFC 6455, and the code of the close frame that says so.

use super::frame::FrameError;

/// A peer's violation; [`Violation::close_code`] goes into the close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The header itself is wrong, or RSV1 is set without deflate.
    Frame(FrameError),
    /// Unmasked frame from a client, masked frame from a server (RFC 6455 §5.1).
    Mask,
    /// Continuation frame without a message to continue (RFC 6455 §5.4).
    UnexpectedContinuation,
    /// New data frame before the last message was finished (RFC 6455 §5.4).
    InterruptedMessage,
    /// Text, or the reason of a close frame, is not UTF-8 (RFC 6455 §8.1).
    InvalidUtf8,
    /// The message is longer than `Limits::message_bytes_max`.
    MessageTooBig,
    /// The message has more frames than `Limits::fragments_max`.
    TooManyFragments,
    /// Close frame of one byte, or with a code nobody may send (RFC 6455 §7.4).
    BadClose,
    /// A compressed message is no deflate data (RFC 7692 §7.2.2); whoever inflates says so.
    BadDeflate,
}

impl Violation {
    /// Code for the close frame: 1002, 1007, 1008 or 1009 (RFC 6455 §7.4.1).
    pub fn close_code(self) -> u16 {
        match self {
            Self::Frame(_)
            | Self::Mask
            | Self::UnexpectedContinuation
            | Self::InterruptedMessage
            | Self::BadClose => 1002,
            Self::InvalidUtf8 | Self::BadDeflate => 1007,
            Self::TooManyFragments => 1008,
            Self::MessageTooBig => 1009,
        }
    }
}
