//! Opening requests that wait for their handler's decision.

use crate::tables::slot::ConnId;
use std::collections::HashMap;

/// What a handler says to an opening request, as Socket.IO's `allowRequest` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opening {
    /// It may open its session.
    Accept,
    /// 403 with this message, code 4 of Engine.IO.
    Refuse(String),
    /// It opens no session, and is answered with this.
    Answer(Box<OwnAnswer>),
    /// 503: nobody can decide now.
    Unavailable,
    /// The request waits for [`Context::decide_opening`](crate::Context::decide_opening), for as long as a request head may take to
    /// come (`limits.handshake_timeout`). After that it is answered 503.
    Later,
}

/// An answer of the handler's own to a request that opens no session: `OwnAnswer::new` makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAnswer {
    pub(crate) status: u16,
    /// Header lines, each with its CRLF.
    pub(crate) lines: Vec<u8>,
    pub(crate) body: Vec<u8>,
}

/// Requests whose handler said [`Opening::Later`].
#[derive(Debug, Default)]
pub(crate) struct Held(HashMap<ConnId, Stage>);

#[derive(Debug)]
enum Stage {
    /// Nobody has decided. At this time the request is answered without a decision.
    Waiting {
        due_ms: u64,
    },
    Decided(Opening),
}

impl Held {
    pub(crate) fn hold(&mut self, conn: ConnId, due_ms: u64) {
        self.0.insert(conn, Stage::Waiting { due_ms });
    }

    pub(crate) fn decide(&mut self, conn: ConnId, decision: Opening) {
        self.0.insert(conn, Stage::Decided(decision));
    }

    /// The decision about a request that is being read again.
    pub(crate) fn take_decision(&mut self, conn: ConnId) -> Option<Opening> {
        if self.0.is_empty() {
            return None;
        }
        match self.0.remove(&conn)? {
            Stage::Decided(opening) => Some(opening),
            Stage::Waiting { .. } => None,
        }
    }

    pub(crate) fn is_due(&self, conn: ConnId, now_ms: u64) -> bool {
        matches!(self.0.get(&conn), Some(Stage::Waiting { due_ms }) if *due_ms <= now_ms)
    }

    pub(crate) fn forget(&mut self, conn: ConnId) {
        if !self.0.is_empty() {
            self.0.remove(&conn);
        }
    }
}
