//! Bytes ↔ frames ↔ packets. Pure functions and small parsers: no I/O, clock, threads or
//! randomness.
//!
//! Input is a peer's and may be anything: nothing here panics, allocates more than a small multiple
//! of the bytes it was given, or takes more than linear time.
#![warn(missing_docs)]

pub mod base64url;
mod bounds;
pub mod calendar;
pub mod engineio;
pub mod growth;
pub mod http;
pub mod json;
pub mod plain;
pub mod proxy;
pub mod socketio;
pub mod websocket;
