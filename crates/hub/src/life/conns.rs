//! Connections that go, and what they leave behind.

use crate::parts::Parts;
use crate::seam::effect::Effect;
use crate::tables::slot::{ConnId, SessionId};
use std::net::IpAddr;

/// The answer to a poll arrived, or nobody will ever know.
pub(crate) fn forget_answer(parts: &mut Parts, conn: ConnId) {
    if let Some(slot) = parts.line.conns.get_mut(conn)
        && std::mem::take(&mut slot.flags.answering)
    {
        parts.line.polls.confirm(conn);
    }
}

/// The client goes on as one that has the packets which were written there: how that connection ends is no matter any more.
pub(crate) fn answer_arrived(parts: &mut Parts, session: SessionId, conn: ConnId) {
    // The connection may be another's by now, and answer another session.
    let key = parts.people.sessions.key(session);
    let same = parts.line.polls.sent_on(conn).map(|sent| sent.session) == Some(key);
    let written = parts
        .line
        .conns
        .get(conn)
        .is_some_and(|slot| slot.outbox.is_empty());
    if same && written {
        forget_answer(parts, conn);
    }
}

/// Drops a connection now.
pub(crate) fn drop_conn(parts: &mut Parts, conn: ConnId) {
    forget_answer(parts, conn);
    parts.access.held.forget(conn);
    if let Some(slot) = parts.line.remove(&mut parts.clock, conn) {
        if slot.flags.counted {
            parts.access.addresses.leave(slot.peer);
        }
        forget_proxy(parts, conn);
        parts.books.counts.websockets -= u64::from(slot.flags.websocket);
        if slot.flags.inflates {
            parts.line.forget_deflate(&mut parts.books, conn);
        }
        parts.outbound.effects.push(Effect::Close { conn });
    }
}

/// Takes a connection out of the hub without closing it (it goes elsewhere with its socket).
pub(crate) fn release_conn(parts: &mut Parts, conn: ConnId) {
    forget_answer(parts, conn);
    forget_proxy(parts, conn);
    if let Some(slot) = parts.line.remove(&mut parts.clock, conn)
        && slot.flags.counted
    {
        parts.access.addresses.leave(slot.peer);
    }
}

/// No further request will come on a connection. Returns who made it, if that is not its peer.
pub(crate) fn forget_proxy(parts: &mut Parts, conn: ConnId) -> Option<IpAddr> {
    if parts.access.via.is_empty() {
        return None;
    }
    parts.access.via.remove(&conn)
}
