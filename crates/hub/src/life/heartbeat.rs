//! Heartbeats: pings, the pongs that answer them, and other signs of life (protocol 3.4).

use crate::books::close::CloseReason;
use crate::clients::people::People;
use crate::clients::session::{Protocol, Session};
use crate::life::{ending, gaps, parking, stream};
use crate::parts::Parts;
use crate::tables::slot::SessionId;
use crate::tables::timer::SessionTimer;
use wire::engineio::{PacketType, Revision};
use wire::websocket::frame::{self, OpCode};

/// Arms what a new session needs.
pub(crate) fn start_session(parts: &mut Parts, session: SessionId) {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    slot.heart.pinged_ms = parts.clock.now.mono_ms as u32;
    if slot.protocol == Protocol::SocketIo || slot.resumes() {
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
    let (config, step) = (&parts.books.config, slot.heart.step);
    let (kind, interval) = match slot.protocol.is_engineio() {
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
        slot.heart.heard = true;
    }
}

/// A pong of a plain WebSocket. A client may send pongs that nobody asked for (RFC 6455 §5.5.3). They prove nothing about what has arrived,
/// which counts where the client may come back.
pub(crate) fn on_pong_frame(parts: &mut Parts, session: SessionId, payload: &[u8]) {
    let slot = parts.people.sessions.get(session);
    let answers = |slot: &Session| !slot.resumes() || payload == slot.heart.pinged_ms.to_be_bytes();
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
    if slot.revision == Revision::Three {
        return false;
    }
    if !std::mem::replace(&mut slot.heart.awaiting_pong, false) {
        slot.heart.heard = true;
        return true;
    }
    slot.heart.heard = false;
    let waited_ms = u64::from((parts.clock.now.mono_ms as u32).wrapping_sub(slot.heart.pinged_ms));
    // An extension moved `pinged_ms` by one timeout.
    let before_ms = match slot.heart.extended {
        true => parts.books.config.ping_timeout.as_millis() as u64,
        false => 0,
    };
    slot.round_trip_ms = (before_ms + waited_ms).clamp(1, u64::from(u16::MAX)) as u16;
    if parts.recovery.is_some() {
        // `confirm` takes for known what was told: what was lost since the last notice is told first.
        gaps::tell_due(parts, session);
        parking::confirm(parts, session);
    }
    if let Some(slot) = parts.people.sessions.get_mut(session) {
        // `confirm` needs it: an extended ping has no known time.
        slot.heart.extended = false;
    }
    arm_beat(parts, session);
    true
}

/// A ping of a client: only those of protocol 3 send any. `false` = a violation.
pub(crate) fn on_ping(parts: &mut Parts, session: SessionId) -> bool {
    let now = parts.clock.now.mono_ms as u32;
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return true;
    };
    if slot.revision != Revision::Three {
        return false;
    }
    if slot.flags.closing {
        return true;
    }
    slot.heart.pinged_ms = now;
    slot.heart.heard = false;
    slot.heart.extended = false;
    parts.books.counts.heartbeats += 1;
    parts
        .speaker()
        .send_packet(session, &[PacketType::Pong as u8]);
    true
}

/// A client of protocol 3 pings by itself: it has the interval and the timeout for that. If something else comes, it has the
/// timeout once more, for a ping may be stuck behind a large upload.
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
    let mut patience_ms = config.ping_interval(slot.heart.step).as_millis() as u64 + timeout_ms;
    let silent_ms = u64::from((now_ms as u32).wrapping_sub(slot.heart.pinged_ms));
    if silent_ms >= patience_ms && slot.heart.heard {
        slot.heart.extended = true;
    }
    if slot.heart.extended {
        patience_ms += timeout_ms;
    }
    if silent_ms >= patience_ms {
        return ending::close_session(parts, session, CloseReason::PingTimeout);
    }
    let (due, key) = (
        now_ms + patience_ms - silent_ms,
        parts.people.sessions.key(session),
    );
    let timers = &mut parts.clock.timers.sessions;
    timers.arm_odd(SessionTimer::Pong, due, key);
}

pub(crate) fn ping(parts: &mut Parts, session: SessionId) {
    let now = parts.clock.now.mono_ms as u32;
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    if slot.revision == Revision::Three {
        return ping_awaited(parts, session);
    }
    // One ping is under way at a time: the timer of its pong decides.
    if slot.heart.awaiting_pong || slot.flags.closing {
        return;
    }
    slot.heart.awaiting_pong = true;
    slot.heart.heard = false;
    slot.heart.extended = false;
    slot.heart.pinged_ms = now;
    parts.books.counts.heartbeats += 1;
    let (engineio, conn) = (slot.protocol.is_engineio(), slot.conn);
    // By its payload an answer is told from a pong that nobody asked for (`on_pong_frame`).
    let payload = slot.heart.pinged_ms.to_be_bytes();
    let payload = if slot.resumes() { &payload[..] } else { b"" };
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
    let now = parts.clock.now.mono_ms as u32;
    let timeout = parts.books.config.ping_timeout;
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    if slot.revision == Revision::Three {
        return ping_awaited(parts, session);
    }
    let waited = now.wrapping_sub(slot.heart.pinged_ms);
    // The timer may be one of an earlier ping: timers are not taken back (`tables/timer.rs`).
    if !slot.heart.awaiting_pong || u128::from(waited) < timeout.as_millis() {
        return;
    }
    // A pong may be stuck behind a large upload: one extension if anything else came (as engine.io 6.6.12 does).
    if slot.heart.heard && !slot.heart.extended {
        slot.heart.extended = true;
        slot.heart.pinged_ms = now;
        let (people, clock) = (&parts.people, &mut parts.clock);
        return people
            .sessions
            .arm(clock, SessionTimer::Pong, timeout, session);
    }
    ending::close_session(parts, session, CloseReason::PingTimeout);
}

/// A plain client that talks is alive. A client that talks and does not read has to show that a pong still gets out.
pub(crate) fn plain_ping_due(parts: &mut Parts, session: SessionId) {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    let heard = std::mem::replace(&mut slot.heart.heard, false);
    if slot.protocol == Protocol::EventStream {
        // Another process may go on with the stream, and must know when the next beat is due.
        slot.heart.pinged_ms = parts.clock.now.mono_ms as u32;
        stream::beat_stream(parts, session);
        return arm_beat(parts, session);
    }
    let conn = parts.line.conns.get(slot.conn);
    if !heard || conn.is_none_or(|conn| conn.outbox.is_blocked()) {
        return ping(parts, session);
    }
    arm_beat(parts, session);
}
