//! Ends of connections.

use std::io::ErrorKind;

/// Why a connection ended that we wanted to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    EndOfStream,
    Io(ErrorKind),
    CloseFrame(Option<u16>),
    RefusedUpgrade(String),
    /// The server refused the request or the session, in its own words.
    Refused(String),
    /// The bytes do not follow the protocol.
    Unexpected(&'static str),
    /// The handshake failed, or what came is not what TLS allows.
    Tls(String),
    /// Nothing came in time.
    Timeout,
    /// The server ended the session in order.
    Farewell,
    BadFrame(wire::websocket::frame::FrameError),
    /// A frame that the shared read buffer cannot hold.
    FrameTooLarge,
    /// A message in fragments that is larger than a frame may be.
    MessageTooLarge,
}
