//! What requests are answered: responses, the errors of Engine.IO (protocol 3.2), and the header lines of CORS.

use crate::access::origin;
use crate::books::config::Cors;
use crate::books::metrics::Limit;
use crate::output::response;
use crate::parts::Parts;
use crate::tables::conn::State;
use crate::tables::slot::ConnId;
use crate::transport::drain;
use wire::engineio::RequestError;
use wire::http::{self, Expectation, Head, HeadError};
use wire::websocket::handshake;

/// Who is turned away is asked to come again within this many seconds.
const RETRY_SPREAD_S: u8 = 8;
/// Methods of realtime requests.
const ALLOW: &[u8] = b"Allow: GET, POST\r\n";

/// The request was accepted and its body is still to come: a client that waits to be asked for it need not do so until
/// it loses patience (RFC 9110 §10.1.1).
pub(crate) fn ask_for_body(parts: &mut Parts, conn: ConnId, head: &Head<'_>) {
    let reads_on = parts
        .line
        .conns
        .get(conn)
        .is_some_and(|slot| matches!(slot.state, State::Body { .. } | State::ChunkedBody));
    if reads_on && head.expectation() == Some(Expectation::Continue) {
        parts
            .line
            .reply(conn, |out| out.extend_from_slice(http::CONTINUE));
    }
}

pub(crate) fn refuse_head(parts: &mut Parts, conn: ConnId, error: HeadError) {
    if matches!(
        error,
        HeadError::TooLarge | HeadError::TooManyHeaders | HeadError::TargetTooLong
    ) {
        parts.books.counts.hit(Limit::HeadBytes);
    }
    parts.books.counts.refused += 1;
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.flags.keep_alive = false;
    }
    response::respond(parts, conn, error.status(), "text/plain", &[], b"");
}

/// An Engine.IO error. The request's body, if any, is not read, so the connection ends.
pub(crate) fn refuse(parts: &mut Parts, conn: ConnId, head: &Head<'_>, error: RequestError) {
    parts.books.counts.refused += 1;
    let mut extra = cors_headers(parts, head);
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        let websocket = handshake::wants_upgrade(head);
        slot.flags.keep_alive &= !head.has_body() && !websocket;
    }
    // A refused upgrade gets the bare text (protocol 3.2).
    if handshake::wants_upgrade(head) {
        let status = if error == RequestError::Forbidden {
            403
        } else {
            400
        };
        return response::respond(
            parts,
            conn,
            status,
            "text/html",
            &extra,
            error.message().as_bytes(),
        );
    }
    let mut body = Vec::new();
    error.write_json(&mut body);
    if error == RequestError::BadMethod {
        extra.extend_from_slice(ALLOW);
    }
    response::respond(
        parts,
        conn,
        error.status(),
        "application/json",
        &extra,
        &body,
    );
}

pub(crate) fn refuse_expectation(parts: &mut Parts, conn: ConnId, head: &Head<'_>) {
    parts.books.counts.refused += 1;
    let extra = cors_headers(parts, head);
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.flags.keep_alive &= !head.has_body() && !handshake::wants_upgrade(head);
    }
    response::respond(parts, conn, 417, "text/plain", &extra, b"");
}

/// A method that no request here has. A handshake by another one than GET is `BadMethod`, as clients know it.
pub(crate) fn refuse_method(parts: &mut Parts, conn: ConnId, head: &Head<'_>) {
    parts.books.counts.shed += 1;
    let mut extra = cors_headers(parts, head);
    extra.extend_from_slice(ALLOW);
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.flags.keep_alive &= !head.has_body();
    }
    let body = br#"{"code":2,"message":"Bad method"}"#;
    response::respond(parts, conn, 405, "application/json", &extra, body);
}

/// For those who come back before the process is gone: not until then, and not all at once.
pub(crate) fn refuse_draining(parts: &mut Parts, conn: ConnId) {
    parts.books.counts.shed += 1;
    let seconds = drain::delay_ms(parts).div_ceil(1000);
    response::respond_retry(parts, conn, 503, seconds, b"Server is shutting down");
}

pub(crate) fn refuse_unavailable(parts: &mut Parts, conn: ConnId, text: &[u8]) {
    parts.books.counts.shed += 1;
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.flags.keep_alive = false;
    }
    // Not all at once.
    let [dice] = parts.ids.random();
    let seconds = 1 + u64::from(dice % RETRY_SPREAD_S);
    response::respond_retry(parts, conn, 503, seconds, text);
}

pub(crate) fn preflight(parts: &mut Parts, conn: ConnId, head: &Head<'_>) {
    let mut extra = cors_headers(parts, head);
    if parts.books.config.cors == Cors::Off {
        return refuse_method(parts, conn, head);
    }
    extra.extend_from_slice(b"Access-Control-Allow-Methods: GET,POST\r\n");
    let max_age = parts.books.config.cors_max_age.as_secs();
    if max_age > 0 {
        extra.extend_from_slice(format!("Access-Control-Max-Age: {max_age}\r\n").as_bytes());
    }
    if let Some(asked) = head.header("access-control-request-headers") {
        extra.extend_from_slice(b"Access-Control-Allow-Headers: ");
        extra.extend_from_slice(asked);
        extra.extend_from_slice(b"\r\nVary: Access-Control-Request-Headers\r\n");
    }
    response::respond(parts, conn, 204, "", &extra, b"");
}

/// Header lines for cross-origin callers; nothing unless CORS is on (and allocates nothing then).
pub(crate) fn cors_headers(parts: &Parts, head: &Head<'_>) -> Vec<u8> {
    match &parts.books.config.cors {
        Cors::Off => Vec::new(),
        Cors::Any => b"Access-Control-Allow-Origin: *\r\n".to_vec(),
        Cors::Origins(allowed) => {
            let mut extra = b"Vary: Origin\r\n".to_vec();
            let origin = head.header("origin").unwrap_or_default();
            if origin::is_listed(allowed, origin) {
                extra.extend_from_slice(b"Access-Control-Allow-Origin: ");
                extra.extend_from_slice(origin);
                extra.extend_from_slice(b"\r\nAccess-Control-Allow-Credentials: true\r\n");
            }
            extra
        }
    }
}
