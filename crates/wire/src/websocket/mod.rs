//! RFC 6455: opening handshake, frames, messages, close codes; RFC 7692: compressed messages.
//! Whose compressor and window a message gets is the caller's to decide.

pub mod close;
pub mod deflate;
pub mod extension;
pub mod frame;
pub mod handshake;
pub mod message;
pub mod violation;
