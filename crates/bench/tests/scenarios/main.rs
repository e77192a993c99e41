//! Scenario runs against real servers, and what a scenario file that is wrong is told. Socket.IO
//! is npm's own server; plain WebSocket and event streams are a small server of these tests.

mod answers;
mod cli;
mod endings;
mod node;
#[path = "../processes/mod.rs"]
mod processes;
mod protocols;
mod rig;
mod secure;
mod stream_server;
mod verdicts;
#[path = "../websocket/mod.rs"]
mod websocket;
mod windows;
