//! Heartbeats: pings, the pongs that answer them, and other signs of life (protocol 3.4).

use crate::books::close::CloseReason;
use crate::clients::heart::Overdue;
use crate::clients::people::People;
use crate::clients::session::{Protocol, Session};
use crate::life::{ending, gaps, parking, stream};
use crate::parts::Parts;
use crate::tables::slot::SessionId;
use crate::tables::timer::SessionTimer;
use wire::engineio::PacketType;
use wire::websocket::frame::{self, OpCode};

/// Arms what a new session needs.
pub(crate) fn start_session(parts: &mut Parts, session: SessionId) {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    slot.heart.beat(parts.clock.now.mono_ms);
    if slot.language.protocol() == Protocol::SocketIo || slot.language.resumes() {
        let timeout = parts.books.config.connect_timeout;
        let (people, clock) = (&parts.people, &mut parts.clock);
        people
            .sessions
            .arm(clock, SessionTimer::Connect, timeout, session);
    }
    arm_beat(parts, session);
}

/// The next heartbeat is due after the interval that the session was announced.
pub(crate) fn arm_beat(parts: &mut Parts, session: SessionId) {
    let Some(slot) = parts.people.sessions.get(session) else {
        return;
    };
    let (config, step) = (&parts.books.config, slot.heart.step());
    let (kind, interval) = match slot.language.protocol().is_engineio() {
        true => (SessionTimer::Ping(step), config.ping_interval(step)),
        false => (
            SessionTimer::PlainPing(step),
            config.plain_ping_interval(step),
        ),
    };
    parts
        .people
        .sessions
        .arm(&mut parts.clock, kind, interval, session);
}

/// A sign of life that is not a pong.
#[inline]
pub(crate) fn heard(people: &mut People, session: SessionId) {
    if let Some(slot) = people.sessions.get_mut(session) {
        slot.heart.hear();
    }
}

/// A pong of a plain WebSocket. A client may send pongs that nobody asked for (RFC 6455 §5.5.3). They prove nothing about what has arrived,
/// which counts where the client may come back.
pub(crate) fn on_pong_frame(parts: &mut Parts, session: SessionId, payload: &[u8]) {
    let slot = parts.people.sessions.get(session);
    let answers = |slot: &Session| !slot.language.resumes() || payload == slot.heart.word();
    if slot.is_some_and(answers) {
        on_pong(parts, session);
    } else {
        heard(&mut parts.people, session);
    }
}

/// A pong; unsolicited ones are harmless. The next ping is due an interval after it (protocol 3.4). `false` = a violation:
/// clients of protocol 3 are not pinged.
pub(crate) fn on_pong(parts: &mut Parts, session: SessionId) -> bool {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return true;
    };
    if slot.language.is_three() {
        return false;
    }
    let timeout_ms = parts.books.config.ping_timeout.as_millis() as u64;
    if !slot.heart.answer(parts.clock.now.mono_ms, timeout_ms) {
        return true;
    }
    if parts.recovery.is_some() {
        // `confirm` takes for known what was told: what was lost since the last notice is told first.
        gaps::tell_due(parts, session);
        parking::confirm(parts, session);
    }
    if let Some(slot) = parts.people.sessions.get_mut(session) {
        slot.heart.rest();
    }
    arm_beat(parts, session);
    true
}

/// A ping of a client: only those of protocol 3 send any. `false` = a violation.
pub(crate) fn on_ping(parts: &mut Parts, session: SessionId) -> bool {
    let now_ms = parts.clock.now.mono_ms;
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return true;
    };
    if !slot.language.is_three() {
        return false;
    }
    if slot.flags.closing {
        return true;
    }
    slot.heart.pinged(now_ms);
    parts.books.counts.heartbeats += 1;
    parts
        .speaker()
        .send_packet(session, &[PacketType::Pong as u8]);
    true
}

/// A client of protocol 3 pings by itself.
fn ping_awaited(parts: &mut Parts, session: SessionId) {
    let now_ms = parts.clock.now.mono_ms;
    let config = &parts.books.config;
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    if slot.flags.closing {
        return;
    }
    let timeout_ms = config.ping_timeout.as_millis() as u64;
    let interval_ms = config.ping_interval(slot.heart.step()).as_millis() as u64;
    let Some(left_ms) = slot.heart.patience_ms(now_ms, interval_ms, timeout_ms) else {
        return ending::close_session(parts, session, CloseReason::PingTimeout);
    };
    let key = parts.people.sessions.key(session);
    let timers = &mut parts.clock.timers.sessions;
    timers.arm_odd(SessionTimer::Pong, now_ms + left_ms, key);
}

pub(crate) fn ping(parts: &mut Parts, session: SessionId) {
    let now_ms = parts.clock.now.mono_ms;
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    if slot.language.is_three() {
        return ping_awaited(parts, session);
    }
    // One ping is under way at a time: the timer of its pong decides.
    if slot.heart.awaits_pong() || slot.flags.closing {
        return;
    }
    slot.heart.ping(now_ms);
    parts.books.counts.heartbeats += 1;
    let (engineio, conn) = (slot.language.protocol().is_engineio(), slot.conn);
    let payload = slot.heart.word();
    let payload = if slot.language.resumes() {
        &payload[..]
    } else {
        b""
    };
    if engineio {
        parts
            .speaker()
            .send_packet(session, &[PacketType::Ping as u8]);
    } else {
        parts
            .line
            .reply(conn, |out| frame::write_frame(out, OpCode::Ping, payload));
    }
    let timeout = parts.books.config.ping_timeout;
    let (people, clock) = (&parts.people, &mut parts.clock);
    people
        .sessions
        .arm(clock, SessionTimer::Pong, timeout, session);
}

pub(crate) fn pong_due(parts: &mut Parts, session: SessionId) {
    let now_ms = parts.clock.now.mono_ms;
    let timeout = parts.books.config.ping_timeout;
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    if slot.language.is_three() {
        return ping_awaited(parts, session);
    }
    match slot.heart.look(now_ms, timeout.as_millis() as u64) {
        Overdue::No => {}
        Overdue::Extended => {
            let (people, clock) = (&parts.people, &mut parts.clock);
            people
                .sessions
                .arm(clock, SessionTimer::Pong, timeout, session);
        }
        Overdue::Gone => ending::close_session(parts, session, CloseReason::PingTimeout),
    }
}

/// A plain client that talks is alive. A client that talks and does not read has to show that a pong still gets out.
pub(crate) fn plain_ping_due(parts: &mut Parts, session: SessionId) {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    let heard = slot.heart.take_heard();
    if slot.language.protocol() == Protocol::EventStream {
        // Another process may go on with the stream, and must know when the next beat is due.
        slot.heart.beat(parts.clock.now.mono_ms);
        stream::beat_stream(parts, session);
        return arm_beat(parts, session);
    }
    let conn = parts.line.conns.get(slot.conn);
    if !heard || conn.is_none_or(|conn| conn.outbox.is_blocked()) {
        return ping(parts, session);
    }
    arm_beat(parts, session);
}
