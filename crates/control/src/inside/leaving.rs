//! A drain as operators see it: the plan before it begins, and how far it is.

use hub::Classes;
use process::moving::{Begun, Pace};
use serde::Serialize;
use utoipa::ToSchema;

/// Sessions by what a drain means for their clients.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SessionClasses {
    all: u64,
    /// Socket.IO by WebSocket.
    websocket: u64,
    /// Socket.IO by WebTransport.
    webtransport: u64,
    /// Socket.IO by long-polling.
    polling: u64,
    /// The plain protocol by WebSocket, and WebSockets without one.
    plain: u64,
    event_streams: u64,
    /// Of all: their messages may be compressed.
    compressed: u64,
    /// Of all: their clients can come back to what they missed.
    recoverable: u64,
    /// Of all: another node passes their connection on.
    relayed: u64,
    /// Connections that speak TLS.
    tls_connections: u64,
}

impl SessionClasses {
    pub(crate) fn of(classes: Classes, tls_connections: u64) -> Self {
        Self {
            all: classes.all,
            websocket: classes.websocket,
            webtransport: classes.webtransport,
            polling: classes.polling,
            plain: classes.plain,
            event_streams: classes.streams,
            compressed: classes.compressed,
            recoverable: classes.recoverable,
            relayed: classes.relayed,
            tls_connections,
        }
    }
}

/// How the node drains, or would.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DrainPlan {
    /// `server.drain_window`: sessions are closed over so long.
    window_ms: u64,
    /// A client that never pauses has so long from its time on.
    patience_ms: u64,
    /// `server.drain_grace`: behind the window, until the process ends whatever is left.
    grace_ms: u64,
    /// So many sessions are closed in a second.
    per_second: u64,
}

impl DrainPlan {
    pub(crate) fn new(pace: Pace, sessions: u64) -> Self {
        let window_ms = pace.window.as_millis() as u64;
        Self {
            window_ms,
            patience_ms: pace.patience().as_millis() as u64,
            grace_ms: pace.grace.as_millis() as u64,
            per_second: (sessions * 1_000).div_ceil(window_ms.max(1)),
        }
    }
}

/// A drain under way.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DrainProgress {
    /// Unix time of its beginning, milliseconds.
    began_ms: u64,
    /// Unix time by which it is over, milliseconds.
    ends_ms: u64,
    /// Sessions at its beginning.
    sessions: u64,
}

impl From<Begun> for DrainProgress {
    fn from(begun: Begun) -> Self {
        let pace = begun.pace;
        let ends = pace.window + pace.grace;
        Self {
            began_ms: begun.at_ms,
            ends_ms: begun.at_ms + ends.as_millis() as u64,
            sessions: begun.sessions,
        }
    }
}

/// The plan of a drain, and how far it is.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DrainView {
    /// The node that answers.
    pub(crate) node: u16,
    /// A word, such as `ready`, `draining` or `drained`.
    pub(crate) state: String,
    pub(crate) plan: DrainPlan,
    /// `null`: none has begun.
    pub(crate) progress: Option<DrainProgress>,
    /// Those that are here now.
    pub(crate) sessions: SessionClasses,
    /// Since the start of the process: sessions that were closed in a pause of their client, also by a rebalance.
    pub(crate) closed_in_a_pause: u64,
    /// The same of clients that never paused: what they said last may have no answer.
    pub(crate) closed_while_busy: u64,
    /// All shards have answered; else there are more sessions than these.
    pub(crate) complete: bool,
}
