//! How bytes come and go: HTTP requests, WebSocket, long-polling, and the ends of connections and sessions.

mod answers;
mod door;
pub(crate) mod drain;
mod heartbeat;
pub(crate) mod http;
pub(crate) mod lifecycle;
pub(crate) mod polling;
mod posts;
mod upgrade;
pub(crate) mod websocket;

use crate::tables::slot::{ConnId, SessionId, SessionKey};
use std::collections::{HashMap, VecDeque};

/// Long-polling between the turns and at the end of one.
#[derive(Debug, Default)]
pub(crate) struct Polls {
    /// Unconfirmed poll answers: connection → (session, when it was sent). Removed once the client's next request proves it arrived.
    pub(crate) answering: HashMap<ConnId, (SessionKey, u64)>,
    /// Polling sessions with something for their waiting GET.
    pub(crate) poll_ready: VecDeque<SessionId>,
    /// Polling sessions whose queue passed its bound under the `disconnect` policy.
    pub(crate) overflowed: Vec<SessionId>,
}

/// Input that waits, and what its senders did wrong.
#[derive(Debug, Default)]
pub(crate) struct Intake {
    /// Connections that stopped in the middle of their input.
    pub(crate) stalled: Vec<ConnId>,
    /// Connections that wait for the mailbox of a shard, to which they sent, to be short again.
    pub(crate) held: Vec<(ConnId, u16)>,
    /// The shard with the long mailbox to which the input being worked on sent a message.
    pub(crate) held_by: Option<u16>,
    /// The message being worked on made up for a rejected one.
    pub(crate) forgiven: bool,
}
