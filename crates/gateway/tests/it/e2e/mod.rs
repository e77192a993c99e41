//! What the gateway promises its users, tried end to end: the real `sockeye` process (and, where a handler is needed, the
//! conformance application) with four shards, and clients over real sockets.
//!
//! Silence is never proven by waiting: after what must not arrive comes a marker that everyone gets, and whatever a client
//! saw before the marker is all there was.

mod access;
pub mod application;
mod chat;
mod contact;
mod cores;
mod crowd;
mod heartbeats;
mod hold;
mod identity;
mod ids;
mod init;
mod late;
mod leaving;
mod messaging;
mod opening;
mod operations;
mod order;
mod packed;
mod plain;
mod polling;
mod raw;
pub mod recovery;
mod refining;
pub mod resuming;
mod rules;
mod shutdown;
mod slow;
pub mod sse;
mod starting;
mod token;
mod traffic;

use ::client::full as client;
