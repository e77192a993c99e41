//! The answers to requests: responses and what becomes of the connection after them, the errors of Engine.IO (protocol 3.2), the header
//! lines of CORS.

use crate::books::Books;
use crate::books::config::{Config, Cors};
use crate::books::metrics::Limit;
use crate::clients::conn::State;
use crate::clients::line::Line;
use crate::tables::clock::Clock;
use crate::tables::id::Ids;
use crate::tables::slot::ConnId;
use crate::tables::timer::ConnTimer;
use wire::engineio::RequestError;
use wire::http::{self, Expectation, Head, HeadError, Method};
use wire::websocket::handshake;

/// Clients that are turned away are asked to come again within this many seconds.
const RETRY_SPREAD_S: u8 = 8;
/// Methods of realtime requests.
const ALLOW: &[u8] = b"Allow: GET, POST\r\n";

/// What answering a request takes.
pub(crate) struct Answers<'a> {
    pub(crate) books: &'a mut Books,
    pub(crate) line: &'a mut Line,
    pub(crate) clock: &'a mut Clock,
    pub(crate) ids: &'a mut Ids,
}

impl Answers<'_> {
    /// Writes a response and makes the connection ready for the next request, or ends it.
    pub(crate) fn respond(
        &mut self,
        conn: ConnId,
        status: u16,
        content_type: &str,
        extra: &[u8],
        body: &[u8],
    ) {
        let Some(slot) = self.line.conns.get_mut(conn) else {
            return;
        };
        // While sessions are being closed, a client that polls learns of its end on the connection that it has: no new one is accepted.
        // Answers are the last ones after that.
        let drained = self.line.answers_are_last;
        debug_assert!(!matches!(slot.state, State::Finishing | State::Linger));
        let end = slot.exchange.end(!slot.unread.has_ended() && !drained);
        slot.session = None;
        slot.state = State::Head;
        let answer = http::Response {
            status,
            content_type,
            extra,
            body,
            date: &self.clock.date(),
            keep_alive: end.keeps_alive,
            head_only: end.head_only,
        };
        self.line.reply(conn, |out| answer.write(out));
        if !end.keeps_alive {
            self.line
                .finish(self.clock, &self.books.config.limits, conn);
        } else if end.arms {
            let timeout = self.books.config.limits.keep_alive_timeout;
            self.line
                .arm(self.clock, ConnTimer::KeepAlive, timeout, conn);
        }
    }

    pub(crate) fn respond_retry(&mut self, conn: ConnId, status: u16, seconds: u64, text: &[u8]) {
        let extra = format!("Retry-After: {seconds}\r\n");
        if let Some(slot) = self.line.conns.get_mut(conn) {
            slot.exchange.be_last();
        }
        self.respond(conn, status, "text/plain", extra.as_bytes(), text);
    }

    /// Asks for the body of a request that was accepted, if its client waits to be asked (RFC 9110 §10.1.1). Otherwise the client would
    /// wait until it loses patience.
    pub(crate) fn ask_for_body(&mut self, conn: ConnId, head: &Head<'_>) {
        let reads_on = self
            .line
            .conns
            .get(conn)
            .is_some_and(|slot| matches!(slot.state, State::Body { .. } | State::ChunkedBody));
        if reads_on && head.expectation() == Some(Expectation::Continue) {
            self.line
                .reply(conn, |out| out.extend_from_slice(http::CONTINUE));
        }
    }

    pub(crate) fn refuse_head(&mut self, conn: ConnId, error: HeadError) {
        if matches!(
            error,
            HeadError::TooLarge | HeadError::TooManyHeaders | HeadError::TargetTooLong
        ) {
            self.books.counts.hit(Limit::HeadBytes);
        }
        self.books.counts.refused += 1;
        if let Some(slot) = self.line.conns.get_mut(conn) {
            slot.exchange.be_last();
        }
        self.respond(conn, error.status(), "text/plain", &[], b"");
    }

    /// An Engine.IO error. The request's body, if any, is not read, so the connection ends.
    pub(crate) fn refuse(&mut self, conn: ConnId, head: &Head<'_>, error: RequestError) {
        self.books.counts.refused += 1;
        if let Some(slot) = self.line.conns.get_mut(conn) {
            let websocket = handshake::wants_upgrade(head);
            slot.exchange.be_last_if(head.has_body() || websocket);
        }
        let (status, content_type, body) = refusal(head, error);
        let mut extra = cors_headers(&self.books.config, head);
        if error == RequestError::BadMethod && !handshake::wants_upgrade(head) {
            extra.extend_from_slice(ALLOW);
        }
        self.respond(conn, status, content_type, &extra, &body);
    }

    /// The answer about a session that nobody knows, on a connection that ends.
    pub(crate) fn unknown_session(&mut self, head: &Head<'_>) -> Vec<u8> {
        let (status, content_type, body) = refusal(head, RequestError::UnknownSid);
        let answer = http::Response {
            status,
            content_type,
            extra: &cors_headers(&self.books.config, head),
            body: &body,
            date: &self.clock.date(),
            keep_alive: false,
            head_only: head.method == Method::Head,
        };
        let mut out = Vec::new();
        answer.write(&mut out);
        out
    }

    pub(crate) fn refuse_expectation(&mut self, conn: ConnId, head: &Head<'_>) {
        self.books.counts.refused += 1;
        let extra = cors_headers(&self.books.config, head);
        if let Some(slot) = self.line.conns.get_mut(conn) {
            let websocket = handshake::wants_upgrade(head);
            slot.exchange.be_last_if(head.has_body() || websocket);
        }
        self.respond(conn, 417, "text/plain", &extra, b"");
    }

    /// Answers a method that no request here has. A handshake by another method than GET is `BadMethod`, as clients know it.
    pub(crate) fn refuse_method(&mut self, conn: ConnId, head: &Head<'_>) {
        self.books.counts.shed += 1;
        let mut extra = cors_headers(&self.books.config, head);
        extra.extend_from_slice(ALLOW);
        if let Some(slot) = self.line.conns.get_mut(conn) {
            slot.exchange.be_last_if(head.has_body());
        }
        let body = br#"{"code":2,"message":"Bad method"}"#;
        self.respond(conn, 405, "application/json", &extra, body);
    }

    /// Answers a client that comes back before the process is gone. It is to wait until then, and not all clients are to come at once.
    pub(crate) fn refuse_draining(&mut self, conn: ConnId, delay_ms: u64) {
        self.books.counts.shed += 1;
        let seconds = delay_ms.div_ceil(1000);
        self.respond_retry(conn, 503, seconds, b"Server is shutting down");
    }

    pub(crate) fn refuse_unavailable(&mut self, conn: ConnId, text: &[u8]) {
        self.books.counts.shed += 1;
        if let Some(slot) = self.line.conns.get_mut(conn) {
            slot.exchange.be_last();
        }
        // The clients that are turned away are not to come back all at once.
        let [dice] = self.ids.random();
        let seconds = 1 + u64::from(dice % RETRY_SPREAD_S);
        self.respond_retry(conn, 503, seconds, text);
    }

    pub(crate) fn preflight(&mut self, conn: ConnId, head: &Head<'_>) {
        let mut extra = cors_headers(&self.books.config, head);
        if self.books.config.cors == Cors::Off {
            return self.refuse_method(conn, head);
        }
        extra.extend_from_slice(b"Access-Control-Allow-Methods: GET,POST\r\n");
        let max_age = self.books.config.cors_max_age.as_secs();
        if max_age > 0 {
            extra.extend_from_slice(format!("Access-Control-Max-Age: {max_age}\r\n").as_bytes());
        }
        let allowed = &self.books.config.cors_headers;
        if !allowed.is_empty() {
            extra.extend_from_slice(b"Access-Control-Allow-Headers: ");
            extra.extend_from_slice(allowed.join(",").as_bytes());
            extra.extend_from_slice(b"\r\n");
        } else if let Some(asked) = head.header("access-control-request-headers") {
            extra.extend_from_slice(b"Access-Control-Allow-Headers: ");
            extra.extend_from_slice(asked);
            // The answer repeats the request's header: a cache must not give it to other requests (RFC 9110 §12.5.5).
            extra.extend_from_slice(b"\r\nVary: Access-Control-Request-Headers\r\n");
        }
        self.respond(conn, 204, "", &extra, b"");
    }
}

/// Status, content type and content of an Engine.IO error. A refused upgrade gets the bare text (protocol 3.2).
fn refusal(head: &Head<'_>, error: RequestError) -> (u16, &'static str, Vec<u8>) {
    if handshake::wants_upgrade(head) {
        let forbidden = error == RequestError::Forbidden;
        let status = if forbidden { 403 } else { 400 };
        return (status, "text/html", error.message().as_bytes().to_vec());
    }
    let mut body = Vec::new();
    error.write_json(&mut body);
    (error.status(), "application/json", body)
}

/// Header lines for cross-origin callers; nothing unless CORS is on (and allocates nothing then).
pub(crate) fn cors_headers(config: &Config, head: &Head<'_>) -> Vec<u8> {
    match &config.cors {
        Cors::Off => Vec::new(),
        Cors::Any => b"Access-Control-Allow-Origin: *\r\n".to_vec(),
        Cors::Origins(_) => {
            // An answer without the next line depends on the origin as well (RFC 9110 §12.5.5).
            let mut extra = b"Vary: Origin\r\n".to_vec();
            let origin = head.header("origin").unwrap_or_default();
            if config.cors.names(origin) {
                extra.extend_from_slice(b"Access-Control-Allow-Origin: ");
                extra.extend_from_slice(origin);
                extra.extend_from_slice(b"\r\nAccess-Control-Allow-Credentials: true\r\n");
            }
            extra
        }
    }
}
