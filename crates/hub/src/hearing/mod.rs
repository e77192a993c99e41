//! What clients say: packets and messages become events of the handler, and memberships.

pub(crate) mod booking;
pub(crate) mod decisions;
pub(crate) mod event;
pub(crate) mod expiry;
pub(crate) mod joining;
pub(crate) mod message;
pub(crate) mod plain;
pub(crate) mod plain_gate;
pub(crate) mod plain_joining;
pub(crate) mod plain_resuming;
pub(crate) mod socketio;
mod traced;
