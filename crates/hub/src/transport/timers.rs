//! Deadlines of sessions and connections, when they are due.

use crate::access::tokens;
use crate::books::close::CloseReason;
use crate::books::metrics::Limit;
use crate::bounds::BEHIND_GRACE_MS;
use crate::clients::conn::State;
use crate::clients::unread::Lateness;
use crate::hearing::decisions;
use crate::life::{ending, heartbeat};
use crate::parts::Parts;
use crate::seam::effect::Notice;
use crate::seam::stage::Stage;
use crate::tables::slot::{ConnId, SessionId};
use crate::tables::timer::{ConnTimer, Due, SessionTimer};
use crate::transport::{door, upgrade};

pub(crate) fn on_timer(stage: &mut Stage, due: Due) {
    let spares = stage.parts.clock.behind && blames_the_peer(due);
    let (people, timers) = (&stage.parts.people, &mut stage.parts.clock.timers);
    let later = stage.parts.clock.now.mono_ms + BEHIND_GRACE_MS;
    match due {
        Due::Session(kind, key) if spares => timers.sessions.arm_odd(kind, later, key),
        Due::Conn(kind, key) if spares => timers.conns.arm_odd(kind, later, key),
        Due::Session(kind, key) if people.sessions.live(key).is_some() => {
            on_session_timer(&mut stage.parts, kind, key.id());
        }
        Due::Conn(kind, key) if stage.parts.line.conns.live(key).is_some() => {
            on_conn_timer(&mut stage.parts, kind, key.id());
        }
        Due::Ask(key) => decisions::ask_due(stage, key),
        Due::Session(..) | Due::Conn(..) => {}
    }
}

fn on_session_timer(parts: &mut Parts, kind: SessionTimer, session: SessionId) {
    if matches!(kind, SessionTimer::Ping(_) | SessionTimer::PlainPing(_)) {
        tokens::look_at_tokens(
            &parts.books.config,
            &mut parts.clock,
            &mut parts.people,
            session,
        );
    }
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    match kind {
        SessionTimer::Ping(_) => heartbeat::ping(parts, session),
        SessionTimer::Pong => heartbeat::pong_due(parts, session),
        SessionTimer::PlainPing(_) => heartbeat::plain_ping_due(parts, session),
        SessionTimer::Connect if !slot.flags.joined => {
            parts.books.counts.hit(Limit::ConnectTimeout);
            ending::close_session(parts, session, CloseReason::ConnectTimeout);
        }
        SessionTimer::Upgrade => upgrade::upgrade_due(parts, session),
        SessionTimer::Attachments => attachments_due(parts, session),
        SessionTimer::PollClose if slot.flags.closing => {
            ending::remove_session(parts, session);
        }
        _ => {}
    }
}

fn on_conn_timer(parts: &mut Parts, kind: ConnTimer, conn: ConnId) {
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return;
    };
    match kind {
        ConnTimer::Handshake if slot.state == State::Held => door::opening_due(parts, conn),
        ConnTimer::Handshake if !slot.exchange.has_served() => {
            parts.books.counts.hit(Limit::HandshakeTimeout);
            cut(parts, conn, CloseReason::HandshakeTimeout);
        }
        ConnTimer::Message => message_due(parts, conn),
        ConnTimer::KeepAlive => {
            let active = slot.exchange.look();
            let timeout = parts.books.config.limits.keep_alive_timeout;
            match slot.state {
                State::Head if !active => ending::lost(parts, conn, CloseReason::TransportClose),
                // A connection that served a request meanwhile, or serves one now, is not idle.
                State::Head | State::Poll | State::Body { .. } | State::ChunkedBody => {
                    slot.exchange.wait_on();
                    parts
                        .line
                        .arm(&mut parts.clock, ConnTimer::KeepAlive, timeout, conn);
                }
                _ => {}
            }
        }
        ConnTimer::Linger if matches!(slot.state, State::Finishing | State::Linger) => {
            ending::lost(parts, conn, CloseReason::TransportClose);
        }
        _ => {}
    }
}

/// Something incomplete was seen a message timeout ago: is it that same message still?
fn message_due(parts: &mut Parts, conn: ConnId) {
    let timeout_ms = parts.books.config.limits.message_timeout.as_millis() as u64;
    let now = parts.clock.now.mono_ms;
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return;
    };
    // What came after a poll waits for us, not for the peer.
    let waits_for_us = matches!(slot.state, State::Poll | State::Held);
    match slot.unread.look(now, timeout_ms, waits_for_us) {
        Lateness::None => {}
        Lateness::TooLate => {
            parts.books.counts.hit(Limit::MessageTimeout);
            cut(parts, conn, CloseReason::MessageTimeout);
        }
        Lateness::Later(left_ms) => {
            let key = parts.line.conns.key(conn);
            let timers = &mut parts.clock.timers.conns;
            timers.arm_odd(ConnTimer::Message, now + left_ms, key);
        }
    }
}

/// Attachments were announced a message timeout ago: are they still missing?
fn attachments_due(parts: &mut Parts, session: SessionId) {
    let timeout_ms = parts.books.config.limits.message_timeout.as_millis() as u64;
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    slot.flags.attachments_timer = false;
    let Some(due) = slot.binary.as_ref().map(|part| part.since_ms + timeout_ms) else {
        return;
    };
    if parts.clock.now.mono_ms >= due {
        parts.books.counts.hit(Limit::MessageTimeout);
        return ending::close_session(parts, session, CloseReason::MessageTimeout);
    }
    slot.flags.attachments_timer = true;
    let key = parts.people.sessions.key(session);
    let timers = &mut parts.clock.timers.sessions;
    timers.arm_odd(SessionTimer::Attachments, due, key);
}

/// Ends a connection that took too long, with its session.
fn cut(parts: &mut Parts, conn: ConnId, reason: CloseReason) {
    let Some(slot) = parts.line.conns.get(conn) else {
        return;
    };
    let (state, session, peer) = (slot.state, slot.session, slot.origin.peer());
    match state {
        State::WebSocket => {
            if let Some(session) = session {
                ending::close_session(parts, session, reason);
            }
        }
        State::Probe => {
            if let Some(session) = session {
                ending::abort_upgrade(parts, session, conn);
            }
        }
        State::Head => {
            parts.books.counts.close(reason);
            parts.outbound.log(Notice::Refused { peer, reason });
            if let Some(slot) = parts.line.conns.get_mut(conn) {
                slot.exchange.be_last();
            }
            // RFC 9110 §15.5.9.
            parts.answers().respond(conn, 408, "text/plain", &[], b"");
        }
        _ => ending::lost(parts, conn, reason),
    }
}

/// Whether this deadline ends a connection for what its peer did not send: that may be waiting unread.
fn blames_the_peer(due: Due) -> bool {
    match due {
        Due::Session(kind, _) => !matches!(kind, SessionTimer::Ping(_) | SessionTimer::PollClose),
        Due::Conn(kind, _) => kind != ConnTimer::Linger,
        Due::Ask(_) => false,
    }
}
