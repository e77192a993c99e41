//! The plain protocol in Server-Sent Events (WHATWG HTML §9.2): a client asks for rooms and hears what is said there. This file owns its
//! request and the beginning of its session, and not what it is told.

use crate::clients::conn::State;
use crate::clients::session::{Protocol, Stream};
use crate::hearing::plain_joining;
use crate::life::answers;
use crate::life::{conns, heartbeat, stream};
use crate::parts::Parts;
use crate::seam::stage::Stage;
use crate::tables::slot::ConnId;
use crate::transport::{begin, door};
use wire::engineio::RequestError;
use wire::http::{self, Head, Method};

const ALLOW: &[u8] = b"Allow: GET, HEAD, OPTIONS\r\n";

/// Without `Accept` a client takes anything (RFC 9110 §12.5.1).
fn takes_events(head: &Head<'_>) -> bool {
    let mut lines = head.values("accept").peekable();
    let is_taken = |range: &[u8]| {
        let kind = range.split(|byte| *byte == b';').next().unwrap_or_default();
        let kind = kind.trim_ascii();
        let taken: [&[u8]; 3] = [b"text/event-stream", b"text/*", b"*/*"];
        taken.iter().any(|one| kind.eq_ignore_ascii_case(one))
    };
    lines.peek().is_none() || lines.any(|line| line.split(|byte| *byte == b',').any(is_taken))
}

pub(crate) fn stream_request(stage: &mut Stage, conn: ConnId, head: &Head<'_>) {
    if !door::origin_allowed(&stage.parts.books.config, head) {
        return stage
            .parts
            .answers()
            .refuse(conn, head, RequestError::Forbidden);
    }
    match head.method {
        Method::Options => return stage.parts.answers().preflight(conn, head),
        Method::Get | Method::Head => {}
        _ => return refuse_stream_request(&mut stage.parts, conn, head, 405, ALLOW, "use GET"),
    }
    if !takes_events(head) {
        let text = "Accept must allow text/event-stream";
        return refuse_stream_request(&mut stage.parts, conn, head, 406, b"", text);
    }
    // Two rooms whose names are no text would be one room.
    if let Some(name) = http::undecodable_param(head.query) {
        let text = format!("the parameter {name:?} is no UTF-8");
        return refuse_stream_request(&mut stage.parts, conn, head, 400, b"", &text);
    }
    // RFC 9110 §9.3.2: HEAD gets the header lines of a GET, and no content.
    if head.method == Method::Head {
        let headers = answers::cors_headers(&stage.parts.books.config, head);
        stream::write_stream_head(&mut stage.parts, conn, &headers);
        return conns::finish(&mut stage.parts, conn);
    }
    if door::admits(stage, conn, head, Protocol::EventStream) {
        open_stream(stage, conn, head);
    }
}

fn refuse_stream_request(
    parts: &mut Parts,
    conn: ConnId,
    head: &Head<'_>,
    status: u16,
    more: &[u8],
    why: &str,
) {
    parts.books.counts.refused += 1;
    let mut extra = answers::cors_headers(&parts.books.config, head);
    extra.extend_from_slice(more);
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.exchange.be_last_if(head.has_body());
    }
    let text = format!("{} is an event stream: {why}", head.path);
    parts
        .answers()
        .respond(conn, status, "text/plain", &extra, text.as_bytes());
}

/// Begins the session. Its answer begins when the client is let in (`stream::begin_stream`).
fn open_stream(stage: &mut Stage, conn: ConnId, head: &Head<'_>) {
    let session = begin::new_session(stage, conn, head, Protocol::EventStream);
    let headers = begin::extra_headers(stage, conn, head, session, true);
    // A stream ends with its connection (RFC 9112 §6.3), so no other request follows.
    stage.parts.access.forget_proxy(conn);
    if let Some(slot) = stage.parts.people.sessions.get_mut(session) {
        slot.conn = Some(conn);
        let stream = Stream::asked(head, headers);
        slot.rare.get_or_insert_default().stream = Some(Box::new(stream));
    }
    if let Some(slot) = stage.parts.line.conns.get_mut(conn) {
        slot.state = State::Stream;
        slot.session = Some(session);
    }
    heartbeat::start_session(&mut stage.parts, session);
    plain_joining::open_plain(stage, session);
}
