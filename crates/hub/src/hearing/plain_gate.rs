//! What the ways of a plain session to its one socket share: its namespace, what it waits for, and how it is kept out.

use crate::access::tokens;
use crate::books::claims::Denied;
use crate::books::close::CloseReason;
use crate::clients::people::People;
use crate::clients::session::Protocol;
use crate::life::{conns, ending, stream};
use crate::parts::Parts;
use crate::seam::event::Refusal;
use crate::seam::stage::Stage;
use crate::tables::slot::{ConnId, SessionId};

/// Whether its socket waits until the client says if it comes back.
pub(crate) fn waits_for_resume(people: &People, session: SessionId) -> bool {
    let slot = people.sessions.get(session);
    slot.is_some_and(|slot| slot.language.resumes() && !slot.flags.joined)
}

/// The namespace that a plain session is in.
pub(crate) fn namespace_of(parts: &Parts, session: SessionId) -> Option<String> {
    let slot = parts.people.sessions.get(session)?;
    let protocol = slot.language.protocol();
    let config = &parts.books.config;
    match (&config.plain_raw, protocol) {
        (Some(raw), Protocol::PlainRaw) => Some(raw.namespace.clone()),
        _ => Some(config.plain_namespace.clone()),
    }
}

pub(crate) fn deny_plain(parts: &mut Parts, session: SessionId, denied: Denied) {
    let status = match denied {
        Denied::Unavailable => 503,
        _ => 401,
    };
    if !stream::refuse_stream(parts, session, status, denied.message()) {
        tokens::say_denied(parts, session, denied);
    }
    ending::close_session(parts, session, denied.close_reason());
}

/// Frames of a plain client wait while somebody is asked about it. Returns its connection.
pub(crate) fn set_asking(parts: &mut Parts, session: SessionId, asking: bool) -> Option<ConnId> {
    let slot = parts.people.sessions.get(session)?;
    let conn = slot.conn?;
    let slot = parts.line.conns.get_mut(conn)?;
    slot.unread.set_asking(asking);
    Some(conn)
}

/// The client of a plain session need not wait any longer: what it said meanwhile is read.
pub(crate) fn go_on(stage: &mut Stage, session: SessionId) {
    if let Some(conn) = set_asking(&mut stage.parts, session, false) {
        stage
            .parts
            .line
            .intake
            .revive(&mut stage.parts.line.conns, conn);
    }
}

pub(crate) fn keep_out_plain(parts: &mut Parts, session: SessionId, refusal: &Refusal) {
    if stream::refuse_stream(parts, session, 403, &refusal.message) {
        return ending::close_session(parts, session, CloseReason::ServerClose);
    }
    let slot = parts.people.sessions.get(session);
    let Some(conn) = slot.and_then(|slot| slot.conn) else {
        return;
    };
    // The close frame has the handler's words (RFC 6455 §7.4.1). The end of the session writes none after it.
    conns::say_goodbye(parts, conn, Some(1008), &refusal.message);
    ending::close_session(parts, session, CloseReason::ServerClose);
}
