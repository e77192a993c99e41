//! The way of a polling session to a WebSocket, or to what stands for one: probe, upgrade, and what is carried over (protocol 3.5).

use crate::books::close::CloseReason;
use crate::clients::conn::State;
use crate::clients::route::Route;
use crate::clients::session::Polling;
use crate::clients::session::{Probe, Session};
use crate::cluster::waiting;
use crate::dialect::speech::{self, Dialect, Framing, Variant};
use crate::life::{conns, ending, heartbeat};
use crate::output::backlog::Fate;
use crate::parts::Parts;
use crate::seam::questions::Waiting;
use crate::seam::stage::Stage;
use crate::seam::told::Told;
use crate::tables::slot::{ConnId, SessionId};
use crate::tables::timer::SessionTimer;
use crate::transport::{accept, begin, polling};
use wire::engineio::{self, PacketType, RequestError};
use wire::http::Head;
use wire::websocket::frame::{self, OpCode};
use wire::websocket::handshake;

/// Polling packets as WebSocket frames.
fn write_unit(out: &mut Vec<u8>, text: &[u8], to: Variant) {
    let (three, base64) = (
        to.dialect == Dialect::SocketIo3,
        to.framing == Framing::Base64,
    );
    for packet in text.split(|byte| *byte == engineio::payload::SEPARATOR) {
        match packet {
            [b'b', encoded @ ..] if three || !base64 => {
                let encoded = std::str::from_utf8(encoded).unwrap_or_default();
                let mut bytes = Vec::new();
                let decoded = engineio::payload::decode_base64(encoded, &mut bytes);
                if decoded.is_ok() && three {
                    speech::write_binary3(out, &bytes, base64);
                } else if decoded.is_ok() {
                    frame::write_frame(out, OpCode::Binary, &bytes);
                }
            }
            _ => frame::write_frame(out, OpCode::Text, packet),
        }
    }
}

/// Whether a unit has an attachment without a byte.
fn has_empty(text: &[u8]) -> bool {
    let mut packets = text.split(|byte| *byte == engineio::payload::SEPARATOR);
    packets.any(|packet| packet == b"b")
}

/// Opens a WebSocket for a polling session: it probes. If the session has a WebSocket or is getting one, this one is closed at once.
pub(crate) fn open_probe(
    stage: &mut Stage,
    conn: ConnId,
    head: &Head<'_>,
    session: SessionId,
    b64: bool,
) -> Result<(), RequestError> {
    let accept = handshake::accept(head).map_err(|_| RequestError::BadRequest)?;
    let extra = begin::extra_headers(stage, conn, head, session, false);
    let subprotocol = handshake::first_subprotocol(head);
    let parts = &mut stage.parts;
    // The handshake of a second WebSocket succeeds, too: it is closed after it (protocol 3.5).
    accept::accept_websocket(parts, conn, head, &accept, subprotocol, extra);
    let slot = parts.people.sessions.get_mut(session);
    let slot = slot.filter(|slot| !slot.flags.closing);
    let polling = slot.and_then(|slot| slot.polling.as_deref_mut());
    let Some(polling) = polling.filter(|polling| polling.probe.is_none()) else {
        conns::say_goodbye(parts, conn, None, "");
        return Ok(());
    };
    polling.probe = Some(Probe {
        conn,
        at_ms: parts.clock.now.mono_ms as u32,
        b64,
    });
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.state = State::Probe;
        slot.session = Some(session);
    }
    let timeout = parts.books.config.upgrade_timeout;
    let (people, clock) = (&mut parts.people, &mut parts.clock);
    people
        .sessions
        .arm(clock, SessionTimer::Upgrade, timeout, session);
    Ok(())
}

/// What a probing WebSocket says: `2probe`, then `5`. Anything else ends the probe, and polling goes on unharmed.
pub(crate) fn on_probe(parts: &mut Parts, conn: ConnId, session: SessionId, text: &str) {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    match text {
        "2probe" if !slot.flags.upgrading => {
            slot.flags.upgrading = true;
            // The waiting poll has to end, or the client never says `5` (protocol 3.5).
            parts.line.polls.note_ready(session, &mut slot.flags);
            parts
                .line
                .reply(conn, |out| frame::write_frame(out, OpCode::Text, b"3probe"));
        }
        "5" if slot.flags.upgrading => upgrade(parts, conn, session),
        _ => ending::abort_upgrade(parts, session, conn),
    }
}

/// The WebSocket takes over: everything queued goes to it, in order.
fn upgrade(parts: &mut Parts, conn: ConnId, session: SessionId) {
    if parts.people.sessions.overflows(session) {
        // Packets over the bound were not kept: there is no whole stream to carry over. The client polls no more, so it hears of the end here.
        ending::close_session(parts, session, CloseReason::SlowConsumer);
        ending::remove_session(parts, session);
        return;
    }
    polling::answer_poll(parts, session, &[PacketType::Noop as u8], false);
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    slot.conn = Some(conn);
    slot.flags.upgrading = false;
    // The pong timer is cleared, the ping timer goes on (protocol 3.5).
    if slot.heart.excuse() {
        heartbeat::arm_beat(parts, session);
    }
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    let polling = slot.polling.take();
    if let Some(probe) = polling.as_ref().and_then(|polling| polling.probe) {
        slot.language.change_transport(probe.b64);
    }
    let variant = slot.variant();
    if let Some(conn) = parts.line.conns.get_mut(conn) {
        conn.state = State::WebSocket;
        slot.flags.carried = conn.origin.is_carried();
    }
    // Holds move before the packets do: what waited for other nodes goes on waiting.
    if polling
        .as_ref()
        .is_some_and(|polling| polling.lag.is_held())
    {
        waiting::carry_over(parts, session, conn);
    }
    let route = Route::new(Some(conn), variant, parts.line.deflate_of(Some(conn)));
    parts.people.change_route(session, route);
    if let Some(polling) = polling {
        carry_over(parts, (session, conn), *polling, variant);
    }
    tell_handler(parts, session);
    close_upgraded(parts, conn, session);
}

/// Tells the handler of the new transport, for each socket of the session and each that is still to be decided about.
fn tell_handler(parts: &mut Parts, session: SessionId) {
    let Some(slot) = parts.people.sessions.get(session) else {
        return;
    };
    let transport = slot.transport();
    let sockets = slot.sockets.iter();
    let sockets = sockets.filter_map(|socket| Some(parts.people.sockets.get(*socket)?.id));
    let gates = slot.joining.gates.iter();
    let coming = gates.filter_map(|ask| match &parts.outbound.asks.get(ask)?.waiting {
        Waiting::Join(join) => join.socket,
        _ => None,
    });
    let told = sockets
        .chain(coming)
        .map(|socket| Told::Upgraded { socket, transport });
    let told: Vec<Told> = told.collect();
    parts.outbound.tell_all(told);
}

/// What waited for polls goes out on the WebSocket, and the requests of the old transport end.
fn carry_over(
    parts: &mut Parts,
    (session, conn): (SessionId, ConnId),
    mut polling: Polling,
    variant: Variant,
) {
    let slot = parts.people.sessions.get(session);
    let takes_empty = slot.is_none_or(Session::takes_empty);
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        // What polls lost and the client was not told is told here.
        slot.lag.take_over(&polling.lag);
    }
    while let Some(unit) = polling.queue.pop() {
        // WebTransport has no frame for an empty attachment: such an event is dropped. An answer cannot be, and ends the session.
        if !takes_empty && matches!(unit.fate, Fate::Event { .. }) && has_empty(unit.bytes()) {
            parts.books.counts.dropped_unfit += 1;
            if let Some(slot) = parts.line.conns.get_mut(conn) {
                parts.line.polls.note_gap(session, &mut slot.lag);
            }
            continue;
        }
        parts
            .line
            .reply_message(&mut parts.books, conn, unit.exempt, unit.fate, |out| {
                write_unit(out, unit.bytes(), variant);
            });
    }
    // The old transport is discarded, an unfinished POST with it (protocol 3.5).
    if let Some(post) = polling.post.conn {
        conns::finish(parts, post);
    }
}

/// The client has had its time to say `5`.
pub(crate) fn upgrade_due(parts: &mut Parts, session: SessionId) {
    let now_ms = parts.clock.now.mono_ms as u32;
    let timeout_ms = parts.books.config.upgrade_timeout.as_millis();
    let polling = parts.people.sessions.polling(session);
    // The timer may be that of an earlier probe, which was given up.
    if let Some(probe) = polling.and_then(|polling| polling.probe)
        && u128::from(now_ms.wrapping_sub(probe.at_ms)) >= timeout_ms
    {
        ending::abort_upgrade(parts, session, probe.conn);
    }
}

/// The session ended while its client was upgrading: it has its packets now, and hears of the end.
fn close_upgraded(parts: &mut Parts, conn: ConnId, session: SessionId) {
    if parts
        .people
        .sessions
        .get(session)
        .is_some_and(|slot| slot.flags.closing)
    {
        conns::say_goodbye(parts, conn, None, "");
        ending::remove_session(parts, session);
    }
}
