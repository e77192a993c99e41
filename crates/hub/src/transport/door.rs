//! The door for newcomers: whether a request may open a session now, what its handler says to that, and the session made for it.

use crate::access::addresses::holder;
use crate::access::origin;
use crate::books::close::CloseReason;
use crate::books::config::Config;
use crate::books::metrics::{Limit, Scope};
use crate::clients::conn::State;
use crate::clients::session::Protocol;
use crate::life::{answers, conns};
use crate::parts::Parts;
use crate::seam::opening::{Opening, OwnAnswer};
use crate::seam::stage::Stage;
use crate::tables::slot::ConnId;
use crate::tables::timer::ConnTimer;
use crate::transport::{accept, begin, drain};
use wire::engineio::RequestError;
use wire::http::Head;
use wire::websocket::handshake;

/// Turns a newcomer away that came beyond a bound.
pub(crate) fn refuse_beyond(parts: &mut Parts, conn: ConnId, head: &Head<'_>, bound: Limit) {
    if bound == Limit::ConnsPerAddress {
        return refuse_crowded(parts, conn, head);
    }
    parts.books.counts.hit(bound);
    parts.answers().refuse_unavailable(conn, b"Server is full");
}

/// Turns a connection away whose address has too many. A WebSocket is opened and closed with 1008: a page does not see the status of a
/// refused handshake.
fn refuse_crowded(parts: &mut Parts, conn: ConnId, head: &Head<'_>) {
    let reason = CloseReason::TooManyConnections;
    parts.books.counts.hit(Limit::ConnsPerAddress);
    parts.books.counts.shed += 1;
    parts.books.counts.close(reason);
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.exchange.be_last();
    }
    if handshake::wants_upgrade(head)
        && let Ok(accept) = handshake::accept(head)
    {
        let (subprotocol, extra) = (
            handshake::first_subprotocol(head),
            answers::cors_headers(&parts.books.config, head),
        );
        accept::accept_websocket(parts, conn, head, &accept, subprotocol, extra);
        return conns::say_goodbye(parts, conn, reason.close_code(), reason.text());
    }
    parts
        .answers()
        .respond_retry(conn, 429, 1, reason.text().as_bytes());
}

/// Books a new session with the connection's address. `false`: there were too many of late, and the client was told so.
fn admit_connect(parts: &mut Parts, conn: ConnId) -> bool {
    let now_us = parts.clock.now_us();
    let Some(slot) = parts.line.conns.get(conn) else {
        return false;
    };
    let meters = &parts.access.meters;
    let Err(exceeded) = meters.connect(holder(slot.origin.peer()), now_us) else {
        return true;
    };
    parts.books.counts.rated[Scope::Connects as usize] += 1;
    // A dry run counts what it would refuse, and refuses nothing.
    if parts.access.meters.dry_run {
        return true;
    }
    parts.books.counts.hit(Limit::Rate);
    parts.books.counts.shed += 1;
    parts.answers().respond_retry(
        conn,
        429,
        exceeded.retry_after_s(),
        b"Too many connections, try again later",
    );
    false
}

/// The door for newcomers, whatever they speak: whether this one gets in now. If not, it was told when to come again.
pub(crate) fn admits(stage: &mut Stage, conn: ConnId, head: &Head<'_>, protocol: Protocol) -> bool {
    // A drain lets nobody in, whatever was decided before.
    if stage.parts.access.drain.is_on() {
        let delay_ms = drain::delay_ms(&mut stage.parts);
        stage.parts.answers().refuse_draining(conn, delay_ms);
        return false;
    }
    let decision = stage.parts.access.held.take_decision(conn);
    // A polling session needs no connection to live: sessions have a bound of their own, which is the process's.
    let full = stage.parts.access.admission.sessions() >= stage.parts.books.config.limits.conns_max;
    let slot = stage.parts.line.conns.get(conn);
    let beyond = slot.and_then(|slot| slot.origin.beyond());
    if let Some(bound) = beyond.or(full.then_some(Limit::Conns)) {
        refuse_beyond(&mut stage.parts, conn, head, bound);
        return false;
    }
    // This request passed the checks below before its handler asked for time.
    if let Some(decision) = decision {
        return carry_out(&mut stage.parts, conn, head, decision);
    }
    if stage.parts.outbound.asks.is_empty() {
        // Without open questions the old mean would never change, and would keep newcomers out for ever.
        stage.parts.access.admission.forget_answers();
    }
    let Some(limit) = stage
        .parts
        .access
        .admission
        .closed_by(&stage.parts.books.config.admission)
    else {
        return admit_connect(&mut stage.parts, conn)
            && handler_admits(stage, conn, head, protocol);
    };
    stage.parts.books.counts.hit(limit);
    stage.parts.books.counts.admission_refused += 1;
    stage
        .parts
        .answers()
        .refuse_unavailable(conn, b"Server is busy");
    false
}

/// Asks the handler about an opening request, if it wants to be asked.
fn handler_admits(stage: &mut Stage, conn: ConnId, head: &Head<'_>, protocol: Protocol) -> bool {
    if !stage.reads_requests {
        return true;
    }
    let request = begin::request(&stage.parts.line, conn, head, protocol);
    let decision = stage.call(None, |handler, cx| handler.opening(cx, &request));
    // A handler that panicked has admitted nobody.
    let failed = || Opening::Refuse("Internal error".to_owned());
    carry_out(
        &mut stage.parts,
        conn,
        head,
        decision.unwrap_or_else(failed),
    )
}

/// Does to an opening request what the handler decided; `true` = it may go on.
fn carry_out(parts: &mut Parts, conn: ConnId, head: &Head<'_>, decision: Opening) -> bool {
    match decision {
        Opening::Accept => return true,
        Opening::Refuse(message) => refuse_opening(parts, conn, head, &message),
        Opening::Answer(answer) => answer_opening(parts, conn, head, &answer),
        Opening::Unavailable => {
            parts.answers().refuse_unavailable(conn, b"Server is busy");
        }
        Opening::Later => {
            let due_ms = parts
                .clock
                .after(parts.books.config.limits.handshake_timeout);
            let key = parts.line.conns.key(conn);
            let timers = &mut parts.clock.timers.conns;
            // In its lane this timer would be forgotten: the connection has shown a whole head already (`Line::arm`).
            timers.arm_odd(ConnTimer::Handshake, due_ms, key);
            parts.access.held.hold(conn, due_ms);
            if let Some(slot) = parts.line.conns.get_mut(conn) {
                slot.state = State::Held;
            }
        }
    }
    false
}

/// The reference server's answer where `allowRequest` says no: 403 and the application's own words.
fn refuse_opening(parts: &mut Parts, conn: ConnId, head: &Head<'_>, message: &str) {
    if handshake::wants_upgrade(head) {
        return say_no(
            parts,
            conn,
            head,
            (403, "text/html"),
            &[],
            message.as_bytes(),
        );
    }
    let mut body = Vec::new();
    RequestError::Forbidden.write_json_saying(message, &mut body);
    say_no(parts, conn, head, (403, "application/json"), &[], &body);
}

/// Gives the handler's own answer. Its content type, if there is one, is among the handler's lines.
fn answer_opening(parts: &mut Parts, conn: ConnId, head: &Head<'_>, answer: &OwnAnswer) {
    say_no(
        parts,
        conn,
        head,
        (answer.status, ""),
        &answer.lines,
        &answer.body,
    );
}

/// Answers a request that opens no session.
fn say_no(
    parts: &mut Parts,
    conn: ConnId,
    head: &Head<'_>,
    (status, content_type): (u16, &str),
    lines: &[u8],
    body: &[u8],
) {
    parts.books.counts.refused += 1;
    let mut extra = answers::cors_headers(&parts.books.config, head);
    extra.extend_from_slice(lines);
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.exchange.be_last_if(handshake::wants_upgrade(head));
    }
    parts
        .answers()
        .respond(conn, status, content_type, &extra, body);
}

/// Nobody has decided about a held request in time.
pub(crate) fn opening_due(parts: &mut Parts, conn: ConnId) {
    let now_ms = parts.clock.now.mono_ms;
    if !parts.access.held.is_due(conn, now_ms) {
        return;
    }
    parts.access.held.forget(conn);
    parts.books.counts.hit(Limit::AskTimeout);
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.unread.discard();
    }
    parts.answers().refuse_unavailable(conn, b"Server is busy");
}

/// With an allow-list, a browser's origin must be on it or be our own (requests without one do not come from pages).
pub(crate) fn origin_allowed(config: &Config, head: &Head<'_>) -> bool {
    let allowed = &config.origins;
    let host = head.values("host").next().unwrap_or_default();
    allowed.is_empty()
        || head
            .values("origin")
            .all(|origin| origin::is_listed(allowed, origin) || origin::is_own(origin, host))
}
