//! What a message says, per protocol: Socket.IO packets and the plain protocol.

pub mod notices;
pub(crate) mod speech;
