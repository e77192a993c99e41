//! How bytes come and go: HTTP requests, WebSocket, long-polling, event streams, and the deadlines of all of them.

pub(crate) mod accept;
pub(crate) mod begin;
pub(crate) mod door;
pub(crate) mod drain;
pub(crate) mod engine;
pub(crate) mod flush;
pub(crate) mod http;
pub(crate) mod input;
pub(crate) mod pace;
pub(crate) mod polling;
pub(crate) mod posts;
pub(crate) mod sse;
pub(crate) mod stash;
pub(crate) mod tick;
pub(crate) mod timers;
pub(crate) mod upgrade;
pub(crate) mod websocket;
