//! Ends: of memberships, of sessions, of connections that are lost. The tables agree with each other before and after each of these calls.

use crate::access::tokens;
use crate::books::close::{CloseReason, Departure, DisconnectReason};
use crate::books::ends::Ended;
use crate::clients::conn::State;
use crate::clients::people::People;
use crate::clients::session::Session;
use crate::cluster::asking;
use crate::cluster::letter::Target;
use crate::dialect::speech::Word;
use crate::life::{conns, parking};
use crate::output::backlog::Backlog;
use crate::parts::Parts;
use crate::recovery::journal::Action;
use crate::rooms::room::Rooms;
use crate::seam::effect::Notice;
use crate::seam::question;
use crate::seam::told::Told;
use crate::tables::slot::{ConnId, SessionId, SessionKey, SocketId};
use crate::tables::timer::SessionTimer;
use std::net::IpAddr;
use std::sync::Arc;
use wire::socketio::PacketType;
use wire::websocket::close;

pub(crate) fn remove_session(parts: &mut Parts, index: SessionId) -> Option<Session> {
    let now_us = parts.clock.now_us();
    let meters = &parts.access.meters;
    meters.book_rest(&mut parts.people, now_us, index, None);
    // `release_polling` takes the place where the probe stands.
    let probe = parts.people.sessions.get(index)?.probe();
    question::forget_questions(parts, index, DisconnectReason::TransportClose);
    // Nothing that is still under way for this session may reach the next owner of its slot.
    release_polling(parts, index);
    if let Some(probe) = probe {
        abort_upgrade(parts, index, probe);
    }
    parts.access.admission.session_left();
    let session = parts.people.remove_session(&mut parts.clock, index)?;
    Some(session)
}

/// Takes a socket out of its session and leaves word for its handler. It gets nothing any more; its rooms are left, and the
/// slot is freed, when the handler has been told.
pub(crate) fn retire_socket(parts: &mut Parts, index: SocketId, how: Departure) {
    let Some(socket) = parts.people.sockets.get_mut(index) else {
        return;
    };
    if std::mem::replace(&mut socket.flags.gone, true) {
        return;
    }
    let (id, session, namespace) = (socket.id, socket.session, socket.namespace);
    if !matches!(how, Departure::Session(_)) {
        if parts.traces.is_on() {
            parts.traces.disconnect(&parts.people, index, how.name());
        }
        parts.people.note_parted(session, namespace);
        parts.people.note_left(index);
    }
    // Its rooms are written down before anything is taken from it.
    let is_kept = parking::park(parts, index, how);
    // Presence shows a lost user as here for a while, also where no socket is kept (ADR 44).
    let may_return = is_kept || how.may_return() && parts.people.user_of(index).is_some();
    let now_us = parts.clock.now_us();
    let meters = &parts.access.meters;
    meters.book_rest(&mut parts.people, now_us, session, Some(index));
    tokens::forget_expiry(&mut parts.clock, &parts.people, index);
    asking::forget_acks(parts, parts.people.sockets.key(index));
    parts.people.part_socket(index);
    let peer = parts
        .people
        .sessions
        .get(session)
        .map(|slot| slot.client.peer());
    let peer = peer.unwrap_or(IpAddr::from([0, 0, 0, 0]));
    parts.books.counts.disconnects += 1;
    let notice = Notice::Disconnected {
        socket: id,
        peer,
        how,
    };
    parts.outbound.log(notice);
    let (socket, reason) = (parts.people.sockets.key(index), how.disconnect_reason());
    let told = Told::Disconnected {
        socket,
        reason,
        may_return,
    };
    parts.outbound.tell(told);
}

/// Takes from a retired socket what it kept until its handler was told: its rooms and its user.
pub(crate) fn part_socket(
    rooms: &mut Rooms,
    people: &mut People,
    index: SocketId,
    lost_ms: Option<u64>,
) {
    rooms.leave_all(people, index, lost_ms);
    people.leave_user(index);
}

/// A connection is gone; so is the session that needed it.
pub(crate) fn lost(parts: &mut Parts, conn: ConnId, reason: CloseReason) {
    let Some(slot) = parts.line.conns.get(conn) else {
        return;
    };
    let (state, session, waiting) = (slot.state, slot.session, slot.outbox.waiting_bytes());
    // An answer that the kernel did not take whole is lost with its packets, and so is the session (protocol 3.3). An answer that it took
    // counts as delivered, because proxies end idle connections by a reset. A node that relays resets only what it could not deliver.
    let undelivered = slot.origin.is_relayed() && reason == CloseReason::TransportError;
    let lost = undelivered || !slot.outbox.is_empty();
    let answered = parts.line.polls.sent_on(conn);
    conns::drop_conn(parts, conn);
    if lost {
        answer_lost(parts, answered, reason);
    }
    let Some(session) = session else { return };
    match state {
        State::WebSocket | State::Stream => {
            let is_open = parts.people.sessions.is_open(session);
            close_session(parts, session, reason);
            // The end was noted when the connection was gone already, so what waited on it is added.
            if is_open {
                parts.books.ends.had_waiting(waiting);
            }
        }
        // A session whose poll or POST is cut is gone, as with Node's server (protocol 3.3).
        State::Poll | State::Body { .. } | State::ChunkedBody => {
            forget_request(&mut parts.people, session, conn);
            close_session(parts, session, reason);
        }
        State::Probe => abort_upgrade(parts, session, conn),
        State::Head | State::Held | State::Finishing | State::Linger => {}
    }
}

/// A connection broke while the kernel was to take its output.
pub(crate) fn lost_in_writing(parts: &mut Parts, conn: ConnId) {
    let answered = parts.line.polls.sent_on(conn);
    lost(parts, conn, CloseReason::TransportError);
    // A write that failed has emptied the outbox, so `lost` took the answer for delivered.
    answer_lost(parts, answered, CloseReason::TransportError);
}

/// The answer to a poll did not leave whole: its session ends, if it is still there.
fn answer_lost(parts: &mut Parts, answered: Option<SessionKey>, reason: CloseReason) {
    if let Some(session) = answered
        && parts.people.sessions.live(session).is_some()
    {
        close_session(parts, session.id(), reason);
    }
}

pub(crate) fn disconnect_selected(parts: &mut Parts, of: &Target<'_>, close: bool) {
    parking::command(parts, of, || Action::Disconnect);
    for index in parts.rooms.select(&mut parts.people, of) {
        disconnect_socket(parts, index, close, None);
    }
}

/// The server ends a membership: it sends a DISCONNECT packet, and with `close` it ends the transport after it.
pub(crate) fn disconnect_socket(
    parts: &mut Parts,
    index: SocketId,
    close: bool,
    why: Option<CloseReason>,
) {
    let Some(socket) = parts.people.sockets.get(index) else {
        return;
    };
    let session = socket.session;
    let Some(slot) = parts.people.sessions.get(session) else {
        return;
    };
    let engineio = slot.language.protocol().is_engineio();
    // A plain session has one socket, and no word that ends it alone.
    let close = close || !engineio;
    let why = why.or(close.then_some(CloseReason::ServerClose));
    let indices = if close {
        slot.sockets.clone()
    } else {
        [index].into_iter().collect()
    };
    for index in indices {
        if engineio {
            // The packet comes first: a retired socket gets nothing any more.
            send_disconnect(parts, index);
        }
        retire_socket(parts, index, Departure::ByServer(why));
    }
    if close {
        close_session(parts, session, CloseReason::ServerClose);
    }
}

fn send_disconnect(parts: &mut Parts, index: SocketId) {
    let Some(socket) = parts.people.sockets.get(index) else {
        return;
    };
    let session = socket.session;
    let Some(namespace) = parts.people.namespaces.label(socket.namespace) else {
        return;
    };
    let namespace = Arc::clone(namespace);
    let word = Word::control(PacketType::Disconnect, &namespace, "");
    parts.speaker().say(session, &word);
}

/// The connection of a request of this session is gone: its slot may soon belong to another one.
fn forget_request(people: &mut People, session: SessionId, conn: ConnId) {
    let Some(polling) = people.sessions.polling(session) else {
        return;
    };
    polling.get.take_if(|get| get.conn() == conn);
    polling.post.conn.take_if(|post| *post == conn);
}

/// Ends a polling session's transport: the waiting poll is told, or the next one within thirty seconds.
fn close_polling(parts: &mut Parts, session: SessionId) {
    const POLL_CLOSE: std::time::Duration = std::time::Duration::from_secs(30);
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    slot.flags.closing = true;
    parts.line.polls.note_ready(session, &mut slot.flags);
    parts.people.sessions.arm(
        &mut parts.clock,
        SessionTimer::PollClose,
        POLL_CLOSE,
        session,
    );
}

/// The client broke Engine.IO's own rules, so its session is gone. A poll that waits is told so, and from then on nobody knows the sid, as
/// with Node's server (protocol 3.3). A broken Socket.IO packet ends a session in the orderly way instead.
pub(crate) fn end_violated(parts: &mut Parts, session: SessionId) {
    let Some(polling) = parts.people.sessions.polling(session) else {
        return;
    };
    // Nothing is left to say but the close packet.
    polling.queue = Backlog::default();
    let waits = polling.get.is_some();
    close_session(parts, session, CloseReason::ParseError);
    if !waits {
        remove_session(parts, session);
    }
}

/// Ends a session: its sockets leave, its transport is closed in an orderly way.
pub(crate) fn close_session(parts: &mut Parts, session: SessionId, reason: CloseReason) {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    if slot.flags.closing {
        // Second end of a polling session that waited for its last poll.
        if reason == CloseReason::TransportClose {
            remove_session(parts, session);
        }
        return;
    }
    slot.flags.closing = true;
    if let Some(polling) = &mut slot.polling {
        polling.violated = reason == CloseReason::ParseError;
    }
    let (conn, probe, upgrading) = (slot.conn, slot.probe(), slot.flags.upgrading);
    let (polls, joined) = (slot.polling.is_some(), slot.flags.joined);
    let polling = slot.polling.as_ref();
    let waiting = polling.is_some_and(|polling| polling.get.is_some());
    parts.books.counts.close(reason);
    // The portrait needs the sockets, which leave below.
    let ended = portrait(parts, session, reason);
    if parts.traces.is_on() {
        let waiting = ended.as_ref().map_or(0, |ended| ended.waiting_bytes);
        parts
            .traces
            .end(&parts.people, session, reason.name(), waiting);
    }
    parts.books.ends.note(ended);
    log_refusal(parts, session, reason);
    let slot = parts.people.sessions.get(session);
    for socket in slot.map(|slot| slot.sockets.clone()).into_iter().flatten() {
        retire_socket(parts, socket, Departure::Session(reason));
    }
    question::forget_questions(parts, session, reason.disconnect_reason());
    if let Some(conn) = conn {
        close_transport(parts, conn, joined, reason);
    }
    // A client whose poll waits can still be told.
    let gone = !waiting && is_gone(reason);
    // Between `3probe` and `5` the client polls no more: what is queued, and the close, reach it by the new WebSocket.
    if let Some(probe) = probe
        && (gone || !upgrading)
    {
        abort_upgrade(parts, session, probe);
    }
    if polls && !gone {
        close_polling(parts, session);
    } else {
        remove_session(parts, session);
    }
}

/// A session's end as operators are told of it later; to be taken while it has its sockets.
fn portrait(parts: &Parts, session: SessionId, reason: CloseReason) -> Option<Ended> {
    let slot = parts.people.sessions.get(session)?;
    let here = slot.sockets.first().and_then(|index| {
        let socket = parts.people.sockets.get(*index)?;
        let namespace = parts.people.namespaces.label(socket.namespace)?;
        let user = parts.people.user_of(*index).map(Box::from);
        Some(((socket.id, Arc::clone(namespace)), user))
    });
    // Most clients leave their namespace before they go.
    let left = || {
        let left = slot.rare.as_ref()?.last.as_ref()?;
        let named = (left.socket, Arc::clone(&left.namespace));
        Some((named, left.user.clone()))
    };
    let (socket, user) = here.or_else(left).unzip();
    let conn = parts.line.conns.get(slot.conn);
    let queue = slot.polling.as_ref().map(|polling| &polling.queue);
    Some(Ended {
        at_ms: parts.clock.now.wall_ms,
        session: slot.sid,
        reason,
        peer: slot.client.peer(),
        protocol: slot.language.protocol().name(),
        transport: slot.transport(),
        socket,
        user: user.flatten(),
        waiting_bytes: conn.map_or(0, |conn| conn.outbox.waiting_bytes())
            + queue.map_or(0, |queue| queue.cost()),
        silent_ms: slot.heart.silent_ms(parts.clock.now.mono_ms),
        rejections: slot.dues.rejections,
    })
}

fn log_refusal(parts: &mut Parts, session: SessionId, reason: CloseReason) {
    // A client that was let in has a line of its own when it leaves.
    let joined = parts
        .people
        .sessions
        .get(session)
        .map(|slot| slot.flags.joined);
    if joined == Some(false) && reason != CloseReason::TransportClose {
        log_refused(parts, session, reason);
    }
}

/// A line of the connection log: this client is not let in.
pub(crate) fn log_refused(parts: &mut Parts, session: SessionId, reason: CloseReason) {
    if let Some(slot) = parts.people.sessions.get(session) {
        let peer = slot.client.peer();
        parts.outbound.log(Notice::Refused { peer, reason });
    }
}

fn close_transport(parts: &mut Parts, conn: ConnId, joined: bool, reason: CloseReason) {
    let state = parts.line.conns.get(conn).map(|slot| slot.state);
    let lost = matches!(
        reason,
        CloseReason::TransportClose | CloseReason::TransportError
    );
    match state {
        Some(State::WebSocket) if !lost => parts.line.reply(conn, |out| {
            close::write(out, reason.close_code(), reason.text())
        }),
        // A comment of the stream: programs do not get it, people who look see it. Before the client was let in there is no stream.
        Some(State::Stream) if joined && !lost => parts.line.reply(conn, |out| {
            out.extend_from_slice(format!(": {}\n\n", reason.text()).as_bytes());
        }),
        Some(State::WebSocket | State::Stream) => {}
        _ => return,
    }
    conns::finish(parts, conn);
}

/// The requests of a polling session that is gone need no session any more.
fn release_polling(parts: &mut Parts, session: SessionId) {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    let Some(polling) = slot.polling.take() else {
        return;
    };
    for conn in [polling.waiting(), polling.post.conn].into_iter().flatten() {
        // The slot may serve another request by now.
        let serves = parts.line.conns.get(conn).is_some_and(|slot| {
            let asks = matches!(
                slot.state,
                State::Poll | State::Body { .. } | State::ChunkedBody
            );
            asks && slot.session == Some(session)
        });
        if serves {
            conns::finish(parts, conn);
        }
    }
}

/// Drops a probing WebSocket; the session stays with polling.
pub(crate) fn abort_upgrade(parts: &mut Parts, session: SessionId, conn: ConnId) {
    if let Some(slot) = parts.people.sessions.get_mut(session)
        && slot.probe() == Some(conn)
        && let Some(polling) = &mut slot.polling
    {
        polling.probe = None;
        slot.flags.upgrading = false;
    }
    if parts
        .line
        .conns
        .get(conn)
        .is_some_and(|slot| slot.state == State::Probe)
    {
        conns::say_goodbye(parts, conn, None, "");
    }
}

/// The client will not come for a close packet, unless its poll is waiting.
fn is_gone(reason: CloseReason) -> bool {
    matches!(
        reason,
        CloseReason::TransportClose
            | CloseReason::TransportError
            | CloseReason::PingTimeout
            | CloseReason::ConnectTimeout
            | CloseReason::AnswerLost
    )
}
