//! Long-polling between the turns and at the end of one. A mark in a slot and the place in a list are set together here.

use crate::clients::conn::Gap;
use crate::clients::session;
use crate::tables::slot::{ConnId, SessionId, SessionKey};
use std::collections::{HashMap, VecDeque};

#[derive(Debug, Default)]
pub(crate) struct Polls {
    /// Sessions whose poll was answered, by connection, with packets that exist nowhere else any more. Removed once the client's
    /// next request proves that the answer arrived.
    unconfirmed: HashMap<ConnId, SessionKey>,
    /// Sessions with something for their waiting GET.
    ready: VecDeque<SessionId>,
    /// Sessions whose queue passed its bound under the `disconnect` policy.
    overflowed: Vec<SessionId>,
    /// Sessions of whose queue something was dropped.
    gapped: Vec<SessionId>,
}

impl Polls {
    /// There is something for the session's waiting GET, or for the next one.
    pub(crate) fn note_ready(&mut self, session: SessionId, flags: &mut session::Flags) {
        if !std::mem::replace(&mut flags.poll_ready, true) {
            self.ready.push_back(session);
        }
    }

    /// The next session to be answered; the caller takes its mark away.
    pub(crate) fn next_ready(&mut self) -> Option<SessionId> {
        self.ready.pop_front()
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    pub(crate) fn note_overflow(&mut self, session: SessionId) {
        self.overflowed.push(session);
    }

    /// Something of its queue was dropped.
    pub(crate) fn note_gap(&mut self, session: SessionId, gap: &mut Gap) {
        // The client is told once of a gap, however much is dropped in it.
        if *gap == Gap::None {
            self.gapped.push(session);
        }
        gap.widen();
    }

    pub(crate) fn take_gapped(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.gapped)
    }

    pub(crate) fn take_overflowed(&mut self) -> Vec<SessionId> {
        std::mem::take(&mut self.overflowed)
    }

    pub(crate) fn note_sent(&mut self, conn: ConnId, session: SessionKey) {
        self.unconfirmed.insert(conn, session);
    }

    /// The session whose answer was sent on a connection and may not have arrived.
    pub(crate) fn sent_on(&self, conn: ConnId) -> Option<SessionKey> {
        self.unconfirmed.get(&conn).copied()
    }

    /// The answer arrived, or nobody will ever know.
    pub(crate) fn confirm(&mut self, conn: ConnId) {
        let sent = self.unconfirmed.remove(&conn);
        debug_assert!(
            sent.is_some(),
            "the mark said that an answer was sent on {conn}"
        );
    }

    /// Connections with an answer that may not have arrived.
    pub(crate) fn unconfirmed(&self) -> impl Iterator<Item = ConnId> {
        self.unconfirmed.keys().copied()
    }

    /// For checks: whether the session will be looked at.
    pub(crate) fn lists(&self, session: SessionId) -> bool {
        self.ready.contains(&session)
    }
}
