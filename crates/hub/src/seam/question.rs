//! Asking: the one way in which a hub learns what it cannot know itself, and in which a handler decides later. A question that
//! goes outside is an [`Ask`]; the answer comes through the mailbox. A client that depends on an answer waits without holding up
//! the turn. Questions are bounded in number, in bytes and in time: one that is answered late, or never, is answered `unavailable`.

use crate::books::claims::Denied;
use crate::books::close::DisconnectReason;
use crate::bounds::TOKEN_BYTES_MAX;
use crate::life::parking;
use crate::parts::Parts;
use crate::seam::ask::{Ask, Token};
use crate::seam::questions::{Asked, Pending, Waiting};
use crate::seam::told::Told;
use crate::tables::slot::{AskId, AskKey, SessionId};
use std::time::Duration;

/// Opens a question that is answered within `timeout`. `None`: too many are open, or they keep too much.
pub(crate) fn open_question(
    parts: &mut Parts,
    session: Option<SessionId>,
    asked: Asked,
    bytes: usize,
    timeout: Duration,
) -> Option<AskKey> {
    let session = session.map(|session| parts.people.sessions.key(session));
    let keeps = (bytes, parts.clock.now.mono_ms);
    let limits = &parts.books.config.limits;
    let opened = parts.outbound.asks.open(session, asked, keeps, limits);
    let key = opened.map_err(|limit| parts.books.counts.hit(limit)).ok()?;
    parts.books.counts.asks_outstanding += 1;
    let due = parts.clock.after(timeout);
    // A question that was answered has a timer still: such timers are forgotten here.
    let settled = |key| !parts.outbound.asks.is_open(key);
    parts.clock.timers.asks.forget((), settled);
    parts.clock.timers.asks.arm_any((), due, key);
    Some(key)
}

/// Lets somebody wait for an answer.
pub(crate) fn wait_for(parts: &mut Parts, key: AskKey, waiting: Waiting) {
    let Some(pending) = parts.outbound.asks.live_mut(key) else {
        return;
    };
    if waiting.is_of_newcomer()
        && let Some(session) = pending.session
        && let Some(slot) = parts.people.sessions.live_mut(session)
    {
        slot.joining.gates.open(key.id());
    }
    pending.waiting = waiting;
}

/// Takes a question off the table, unless that was done already, and opens its gate.
pub(crate) fn close_question(parts: &mut Parts, key: AskKey) -> Option<Pending> {
    let pending = parts.outbound.asks.close(key)?;
    parts.books.counts.asks_outstanding -= 1;
    if let Some(session) = pending.session
        && let Some(slot) = parts.people.sessions.live_mut(session)
    {
        slot.joining.gates.close(key.id());
    }
    Some(pending)
}

/// The same for a question that was answered, or whose time is up.
pub(crate) fn settle_question(parts: &mut Parts, key: AskKey) -> Option<Pending> {
    let pending = close_question(parts, key)?;
    if pending.asked == Asked::Verifier {
        let took_ms = pending.waited_ms(parts.clock.now.mono_ms);
        parts.books.counts.asks_answered += 1;
        parts.books.counts.ask_ms += took_ms;
        parts.access.admission.answered(took_ms);
    }
    Some(pending)
}

/// Nobody waits for this answer any more. A handler that was to decide is told, and a socket that was looked for is not kept for its client
/// any longer: that may come to another shard, or is there already.
pub(crate) fn forget_question(parts: &mut Parts, ask: AskId, reason: DisconnectReason) {
    let Some(pending) = close_question(parts, parts.outbound.asks.key(ask)) else {
        return;
    };
    match pending.asked {
        Asked::Handler => {
            if let Some(socket) = pending.waiting.socket() {
                parts.outbound.tell(Told::GaveUp { socket, reason });
            }
        }
        Asked::Shards { number } => {
            if let Some(recovery) = &mut parts.recovery {
                recovery.waiting.remove(&number);
                recovery.give_up(number);
            }
            parking::settle(parts);
        }
        Asked::Verifier | Asked::Outside { .. } => {}
    }
}

/// Nobody waits for answers about a session that ends.
pub(crate) fn forget_questions(parts: &mut Parts, session: SessionId, reason: DisconnectReason) {
    let slot = parts.people.sessions.get(session);
    let open = slot
        .map(|slot| slot.joining.gates.clone())
        .unwrap_or_default();
    for ask in open.iter() {
        forget_question(parts, ask, reason);
    }
}

/// Asks whether a token is good, unless it is too long for one or nobody can be asked now.
pub(crate) fn ask_about(
    parts: &mut Parts,
    session: SessionId,
    token: Token,
    waiting: Waiting,
) -> Result<(), Denied> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(Denied::Invalid);
    }
    // The text that a token stands in is kept with it.
    let bytes = token.kept_bytes();
    let timeout = parts.books.config.auth.timeout;
    let key = open_question(parts, Some(session), Asked::Verifier, bytes, timeout)
        .ok_or(Denied::Unavailable)?;
    wait_for(parts, key, waiting);
    parts.outbound.ask(key, Ask::Verify { token });
    Ok(())
}
