//! RFC 6455: opening handshake, frames, messages, close codes.
//! Compression (RFC 7692) is only recognised here; inflating is the caller's.

pub mod close;
pub mod frame;
pub mod handshake;
pub mod message;
