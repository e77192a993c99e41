//! Opening handshakes of WebSockets: what is agreed on, and the session that begins.

use crate::clients::conn::State;
use crate::clients::session::Protocol;
use crate::hearing::{plain_joining, socketio};
use crate::life::heartbeat;
use crate::parts::Parts;
use crate::seam::stage::Stage;
use crate::tables::slot::ConnId;
use crate::transport::begin;
use wire::http::Head;
use wire::websocket::frame::{self, OpCode};
use wire::websocket::handshake;

/// Answers an opening handshake and starts the session on it.
pub(crate) fn open_websocket(
    stage: &mut Stage,
    conn: ConnId,
    head: &Head<'_>,
    protocol: Protocol,
    subprotocol: Option<&str>,
) {
    let accept = match handshake::accept(head) {
        Ok(accept) => accept,
        Err(refusal) => return refuse_handshake(&mut stage.parts, conn, refusal),
    };
    // The session is made only now: a refused handshake leaves none.
    let session = begin::new_session(stage, conn, head, protocol);
    let extra = begin::extra_headers(stage, conn, head, session, true);
    accept_websocket(&mut stage.parts, conn, head, &accept, subprotocol, extra);
    if let Some(slot) = stage.parts.line.conns.get_mut(conn) {
        slot.state = State::WebSocket;
        slot.session = Some(session);
        let carried = slot.origin.is_carried();
        if let Some(slot) = stage.parts.people.sessions.get_mut(session) {
            slot.conn = Some(conn);
            slot.flags.carried = carried;
        }
    }
    // The open packet is the first frame (protocol 3.1). `begin_session` lets a handler speak to clients of protocol 3.
    if protocol.is_engineio() {
        let mut open = stage.parts.line.buffer();
        begin::write_open(
            &stage.parts.books.config,
            &stage.parts.people,
            session,
            &mut open,
        );
        stage
            .parts
            .line
            .reply(conn, |out| frame::write_frame(out, OpCode::Text, &open));
        stage.parts.line.recycle(open);
    }
    heartbeat::start_session(&mut stage.parts, session);
    socketio::begin_session(stage, session);
    if protocol.is_plain_websocket() {
        plain_joining::open_plain(stage, session);
    }
}

/// Writes the 101; `extra` are header lines beside those of the handshake.
pub(crate) fn accept_websocket(
    parts: &mut Parts,
    conn: ConnId,
    head: &Head<'_>,
    accept: &[u8; 28],
    subprotocol: Option<&str>,
    mut extra: Vec<u8>,
) {
    if let Some(agreed) = parts.line.agree_on_deflate(&mut parts.books, conn, head) {
        agreed.write_header(&mut extra);
    }
    parts.line.reply(conn, |out| {
        handshake::write_accept(out, accept, subprotocol, &extra);
    });
    // No request follows a handshake, so none of another client of the proxy does.
    parts.access.forget_proxy(conn);
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.handshake.finish();
        parts.books.counts.websockets += u64::from(!slot.origin.is_carried());
        parts.books.counts.webtransports += u64::from(slot.origin.is_carried());
    }
}

fn refuse_handshake(parts: &mut Parts, conn: ConnId, refusal: handshake::Refusal) {
    parts.books.counts.refused += 1;
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.exchange.be_last();
    }
    let (kind, text) = ("text/plain; charset=utf-8", refusal.text().as_bytes());
    parts
        .answers()
        .respond(conn, refusal.status(), kind, refusal.headers(), text);
}
