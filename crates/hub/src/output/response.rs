//! A response of HTTP on a connection, and what becomes of the connection behind it.

use crate::parts::Parts;
use crate::tables::conn::State;
use crate::tables::slot::ConnId;
use crate::tables::timer::ConnTimer;
use wire::http;

/// Writes a response and makes the connection ready for the next request, or ends it.
pub(crate) fn respond(
    parts: &mut Parts,
    conn: ConnId,
    status: u16,
    content_type: &str,
    extra: &[u8],
    body: &[u8],
) {
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return;
    };
    // While sessions are being closed, one that polls asks for its end on the connection it has: no new one is accepted.
    let drained = parts.access.drain.is_done();
    debug_assert!(!matches!(slot.state, State::Finishing | State::Linger));
    let keep_alive = slot.flags.keep_alive && !slot.flags.eof && !drained;
    slot.session = None;
    slot.state = State::Head;
    let arm = keep_alive && !std::mem::replace(&mut slot.flags.keep_alive_timer, true);
    let answer = http::Response {
        status,
        content_type,
        extra,
        body,
        date: &parts.clock.date(),
        keep_alive,
        head_only: slot.flags.head_only,
    };
    parts.line.reply(conn, |out| answer.write(out));
    if !keep_alive {
        parts
            .line
            .finish(&mut parts.clock, &parts.books.config.limits, conn);
    } else if arm {
        let timeout = parts.books.config.limits.keep_alive_timeout;
        parts
            .line
            .arm(&mut parts.clock, ConnTimer::KeepAlive, timeout, conn);
    }
}

pub(crate) fn respond_retry(
    parts: &mut Parts,
    conn: ConnId,
    status: u16,
    seconds: u64,
    text: &[u8],
) {
    let extra = format!("Retry-After: {seconds}\r\n");
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.flags.keep_alive = false;
    }
    respond(parts, conn, status, "text/plain", extra.as_bytes(), text);
}
