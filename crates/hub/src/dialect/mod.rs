//! What a message says, per protocol: Socket.IO packets and the plain protocol.

pub(crate) mod speech;
