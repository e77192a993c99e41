//! How bytes come and go: HTTP requests, WebSocket, long-polling, and the ends of connections and sessions.

pub(crate) mod drain;
pub(crate) mod http;
pub(crate) mod lifecycle;
pub(crate) mod polling;
pub(crate) mod websocket;

use crate::tables::slot::{ConnId, SessionId, SessionKey};
use std::collections::HashMap;

/// Long-polling between the turns and at the end of one.
#[derive(Debug, Default)]
pub(crate) struct Polls {
    /// Unconfirmed poll answers: connection → (session, when it was sent). Removed once the client's next request proves it arrived.
    pub(crate) answering: HashMap<ConnId, (SessionKey, u64)>,
    /// Polling sessions with something for their waiting GET.
    pub(crate) poll_ready: Vec<SessionId>,
    /// Polling sessions whose queue passed its bound under the `disconnect` policy.
    pub(crate) overflowed: Vec<SessionId>,
}

/// Input that waits, and what its senders did wrong.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    /// Connections that stopped in the middle of their input.
    pub(crate) stalled: Vec<ConnId>,
    /// Messages rejected of the connection whose input is being worked on.
    pub(crate) rejected: u32,
    /// The message being worked on made up for a rejected one.
    pub(crate) forgiven: bool,
    /// Messages rejected in this turn.
    pub(crate) turn_rejected: u32,
}
