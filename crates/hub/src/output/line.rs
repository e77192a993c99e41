//! The connections of a shard and what is on its way to them.

use crate::output::backlog::Backlog;
use crate::output::budget::Budget;
use crate::output::compression::Codecs;
use crate::output::log::TurnLog;
use crate::output::piece::Pool;
use crate::tables::conn::Conn;
use crate::tables::session::Session;
use crate::tables::slab::Slab;
use crate::tables::slot::ConnId;
use std::hash::RandomState;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) conns: Slab<ConnId, Conn>,
    pub(crate) log: TurnLog,
    /// What waits beyond the turn.
    pub(crate) pool: Arc<Pool>,
    /// Keys of events that replace each other. Clients choose what is hashed.
    pub(crate) hasher: RandomState,
    pub(crate) codecs: Codecs,
    /// Reused while encoding.
    pub(crate) scratch: Vec<u8>,
    pub(crate) budget: Budget,
}

impl Line {
    pub(crate) fn new(pool: Arc<Pool>) -> Self {
        Self {
            conns: Slab::default(),
            log: TurnLog::new(Arc::clone(&pool)),
            pool,
            hasher: RandomState::new(),
            codecs: Codecs::default(),
            scratch: Vec::new(),
            budget: Budget::default(),
        }
    }

    /// Output that waits for the client of a session, in whatever way it is fetched.
    pub(crate) fn unsent_bytes(&self, session: &Session) -> usize {
        let conn = self.conns.get(session.conn);
        let polling = session.polling.as_ref();
        conn.map_or(0, |conn| conn.outbox.waiting_bytes())
            + polling.map_or(0, |polling| polling.queue.cost())
    }

    /// Drops that output, but for what has begun to leave.
    pub(crate) fn discard_unsent(&mut self, session: &mut Session) {
        if let Some(polling) = &mut session.polling {
            polling.queue = Backlog::default();
        }
        if let Some(conn) = self.conns.get_mut(session.conn) {
            conn.outbox.discard_unstarted();
        }
    }
}
