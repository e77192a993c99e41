//! Rates of what clients send: a message over one is dropped, and its sender told; a sender that goes on and on is closed.

use crate::access::gcra::Exceeded;
use crate::books::close::CloseReason;
use crate::books::metrics::{Dropped, Limit, Scope};
use crate::life::{ending, opening};
use crate::parts::Parts;
use crate::seam::event::{AckTo, Caller, Refusal};
use crate::seam::member::{Member, Rejection};
use crate::tables::slot::{SessionId, SocketKey};

/// Why an answer was refused, for whoever asked.
pub(crate) const OVER_RATE: &str = "it was over a rate";

/// Books a message of a socket. `false` says that it is over a rate: the caller drops it. Its sender was told already, also in the answer
/// that it waits for. HOT PATH.
#[inline]
pub(crate) fn within_rates(parts: &mut Parts, from: Caller, asked: Option<u64>) -> bool {
    if !parts.access.meters.any {
        return true;
    }
    match book_message(parts, from.session, Some(from.socket)) {
        Ok(()) => true,
        Err(refused) => over_rate(parts, from, asked, refused),
    }
}

/// Books a message to a namespace that its sender is not in. `false` says that it is over a rate: the caller drops it.
pub(crate) fn stranger_within_rates(parts: &mut Parts, session: SessionId) -> bool {
    if !parts.access.meters.any {
        return true;
    }
    match book_message(parts, session, None) {
        Ok(()) => true,
        Err(refused) => nobody_over_rate(parts, session, refused.0),
    }
}

/// Books a CONNECT. `false`: it is over a rate. Its sender is told so in the answer that it waits for, and is forgiven what it sends to
/// that namespace without having waited.
pub(crate) fn connect_within_rates(parts: &mut Parts, session: SessionId, namespace: &str) -> bool {
    if !parts.access.meters.any {
        return true;
    }
    let Err(refused) = book_message(parts, session, None) else {
        return true;
    };
    let meters = &parts.access.meters;
    let meter = meters.of(refused.0).filter(|_| !meters.dry_run);
    if let Some(message) = meter.map(|meter| meter.message.to_string()) {
        if let Some(slot) = parts.people.sessions.get_mut(session) {
            // What it sends there without having waited is taken for a packet to a namespace that it left.
            slot.rare.get_or_insert_default().part(namespace);
        }
        let refusal = Refusal {
            message,
            data: None,
        };
        opening::send_refusal(parts, session, namespace, &refusal);
    }
    nobody_over_rate(parts, session, refused.0)
}

#[inline]
fn book_message(
    parts: &mut Parts,
    session: SessionId,
    socket: Option<SocketKey>,
) -> Result<(), (Scope, Exceeded)> {
    let (people, now_us) = (&mut parts.people, parts.clock.now_us());
    let booked = parts
        .access
        .meters
        .book_message(people, now_us, session, socket);
    parts.line.intake.set_forgiven(booked == Ok(true));
    booked.map(drop)
}

/// `true` in a dry run: the message passes all the same.
#[cold]
fn over_rate(
    parts: &mut Parts,
    from: Caller,
    asked: Option<u64>,
    (scope, exceeded): (Scope, Exceeded),
) -> bool {
    let Some(meter) = parts.access.meters.of(scope).cloned() else {
        return nobody_over_rate(parts, from.session, scope);
    };
    let mut ack = from.ack(asked);
    // The refusal is an answer, and each answer lowers what is owed.
    if ack.is_some() {
        parts.people.sockets.owe_answer(from.socket);
    }
    let mut socket = Member::new(parts, from.socket);
    reject(&mut socket, &mut ack, (scope, &meter.message), exceeded)
}

/// Counts a message over a rate where there is no socket that could be told.
#[cold]
fn nobody_over_rate(parts: &mut Parts, session: SessionId, scope: Scope) -> bool {
    parts.books.counts.rated[scope as usize] += 1;
    if !parts.access.meters.dry_run {
        parts.books.counts.hit(Limit::Rate);
        parts.books.counts.drop_message(Dropped::Rate);
        count_rejection(parts, session);
    }
    parts.access.meters.dry_run
}

/// Books a rejected message; a session that goes on and on is closed.
fn count_rejection(parts: &mut Parts, session: SessionId) {
    let max = parts.books.config.limits.flood_rejections_max;
    parts.line.budget.reject();
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    // A message within the session's rate and over its event's rate makes up for nothing.
    let more = 1 + u16::from(parts.line.intake.take_forgiven());
    slot.dues.rejections = slot.dues.rejections.saturating_add(more);
    if slot.dues.rejections <= max {
        return;
    }
    let conn = slot.conn;
    parts.books.counts.hit(Limit::Flood);
    ending::close_session(parts, session, CloseReason::Flood);
    // What still comes is no accident: its allowance is used up.
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.unread.ignore_no_more();
    }
}

/// An event was within its own rate: that makes up for one that was not, unless the message did already.
pub(crate) fn forgive(socket: &mut Member<'_>) {
    if !socket.parts.access.meters.any
        && let Some(session) = socket.live().map(|slot| slot.session)
        && let Some(slot) = socket.parts.people.sessions.get_mut(session)
    {
        slot.dues.forgive();
    }
}

/// A socket's event is over a rate: it is told, unless in a dry run (`true`).
pub(crate) fn reject(
    socket: &mut Member<'_>,
    ack: &mut Option<AckTo>,
    (scope, message): (Scope, &str),
    exceeded: Exceeded,
) -> bool {
    socket.parts.books.counts.rated[scope as usize] += 1;
    if socket.parts.access.meters.dry_run {
        return true;
    }
    let rejection = Rejection::RateLimited {
        message,
        retry_after_s: exceeded.retry_after_s(),
    };
    socket.reject_event(ack.take(), rejection);
    if let Some(session) = socket.live().map(|slot| slot.session) {
        count_rejection(socket.parts, session);
    }
    false
}
