//! How bytes come and go: HTTP requests, WebSocket, long-polling, and the ends of connections and sessions.

mod answers;
mod door;
pub(crate) mod drain;
mod heartbeat;
pub(crate) mod http;
pub(crate) mod intake;
pub(crate) mod lifecycle;
pub(crate) mod polling;
mod posts;
pub(crate) mod sse;
mod upgrade;
pub(crate) mod websocket;

pub(crate) use crate::tables::polls::{self, Polls};
pub(crate) use intake::Intake;
