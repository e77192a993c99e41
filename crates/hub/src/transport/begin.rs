//! How a session begins, whatever carries it: the session made for a request, the header lines of the answer, the open packet.

use crate::access::tokens::request_token;
use crate::books::config::Config;
use crate::books::heartbeat::Step;
use crate::clients::client::Client;
use crate::clients::heart::Heart;
use crate::clients::language::Language;
use crate::clients::line::Line;
use crate::clients::people::People;
use crate::clients::session::{Protocol, RequestToken, Session};
use crate::clients::tags::Tag;
use crate::life::answers;
use crate::parts::Parts;
use crate::seam::opening::{AnswerHeaders, HeaderLines, Request};
use crate::seam::stage::Stage;
use crate::tables::id;
use crate::tables::slot::{ConnId, SessionId};
use wire::engineio::{self, Query, Revision};
use wire::http::{self, Head};

/// A request as a handler sees it.
pub(crate) fn request<'a>(
    line: &Line,
    conn: ConnId,
    head: &'a Head<'a>,
    protocol: Protocol,
) -> Request<'a> {
    let slot = line.conns.get(conn);
    Request {
        head,
        conn: line.conns.key(conn),
        protocol,
        peer: slot.map_or([0, 0, 0, 0].into(), |slot| slot.origin.peer()),
    }
}

/// Makes a session for a request; the caller attaches its transport.
pub(crate) fn new_session(
    stage: &mut Stage,
    conn: ConnId,
    head: &Head<'_>,
    protocol: Protocol,
) -> SessionId {
    let random = stage.parts.ids.random();
    let sid = id::session_id(stage.parts.ids.me, random);
    let peer = stage
        .parts
        .line
        .conns
        .get(conn)
        .map_or([0, 0, 0, 0].into(), |slot| slot.origin.peer());
    // `EIO` and `b64` mean nothing in requests of other protocols.
    let query = Query::parse(match protocol.is_engineio() {
        true => head.query,
        false => "",
    });
    let revision = query.revision.unwrap_or(Revision::Four);
    let asks = http::query_param(head.query, "recovery");
    let asks = asks.is_some_and(|asks| !asks.is_empty() && asks != "0");
    let asks = query.recovery || asks && protocol.is_plain_websocket();
    let language = Language::new(protocol, revision).asking(query.base64, asks);
    let agent = String::from_utf8_lossy(head.header("user-agent").unwrap_or_default());
    let agent = stage.parts.people.agents.take(&agent);
    let mut session = Session::new(sid, language, Client::new(peer, agent, Tag::default()));
    // Most configurations keep nothing of a request, and pay for no box.
    if stage.parts.books.config.keep_handshake || stage.reads_requests {
        let rare = session.rare.get_or_insert_default();
        if stage.parts.books.config.keep_handshake {
            rare.query = head.query.into();
        }
        if stage.reads_requests {
            rare.headers = HeaderLines::of(head);
        }
    }
    if stage.parts.books.config.auth.enabled {
        let token = request_token(head, &stage.parts.books.config.auth.query_parameter);
        // The token is looked at when a namespace is to be joined, and not before.
        session.joining.token = token.map(|token| Box::new(RequestToken::Unread(token)));
    }
    stage.parts.access.admission.session_came();
    session.heart = Heart::beating(step(&stage.parts, protocol));
    stage.parts.people.insert_session(session)
}

/// The length of a newcomer's interval, by the number of sessions of the process.
fn step(parts: &Parts, protocol: Protocol) -> Step {
    let config = &parts.books.config;
    let base = match protocol.is_engineio() {
        true => config.ping_interval,
        false => config.plain_ping_interval,
    };
    let sessions = parts.access.admission.sessions();
    config.stretch.step(base, sessions)
}

/// Header lines beyond the usual ones for the answer to a session's request: CORS, and what the handler adds.
pub(crate) fn extra_headers(
    stage: &mut Stage,
    conn: ConnId,
    head: &Head<'_>,
    session: SessionId,
    opens: bool,
) -> Vec<u8> {
    let mut extra = answers::cors_headers(&stage.parts.books.config, head);
    let slot = stage.parts.people.sessions.get(session);
    let Some(slot) = slot.filter(|_| stage.reads_requests) else {
        return extra;
    };
    let (protocol, sid) = (slot.language.protocol(), slot.sid.encode());
    // Only the first answer names the session: a handler sets its cookie there (protocol 3.1).
    let sid = std::str::from_utf8(&sid).ok().filter(|_| opens);
    let request = request(&stage.parts.line, conn, head, protocol);
    let mut headers = AnswerHeaders::default();
    stage.call_now(None, |handler, _| {
        handler.answering(&request, sid, &mut headers)
    });
    extra.append(&mut headers.lines);
    extra
}

/// Appends the open packet of a session.
pub(crate) fn write_open(config: &Config, people: &People, session: SessionId, out: &mut Vec<u8>) {
    let Some(slot) = people.sessions.get(session) else {
        return;
    };
    let (websocket, webtransport) = (config.transports.websocket, config.transports.webtransport);
    let upgrades: &[&str] = match (websocket, webtransport) {
        // A WebSocket has nothing to upgrade to (protocol 3.1).
        _ if slot.polling.is_none() => &[],
        (true, true) => &["websocket", "webtransport"],
        (true, false) => &["websocket"],
        (false, true) => &["webtransport"],
        (false, false) => &[],
    };
    let sid = slot.sid.encode();
    engineio::Open {
        sid: std::str::from_utf8(&sid).unwrap_or_default(),
        upgrades,
        ping_interval_ms: config.ping_interval(slot.heart.step()).as_millis() as u64,
        ping_timeout_ms: config.ping_timeout.as_millis() as u64,
        max_payload: config.max_payload as u64,
    }
    .write(out);
}
