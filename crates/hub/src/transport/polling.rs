//! HTTP long-polling: one GET waits for packets, POSTs bring them (protocol 3.3, 3.6).

use crate::books::close::CloseReason;
use crate::books::faults::{self, Fault};
use crate::bounds::LOG_BYTES_PER_TURN;
use crate::clients::conn::State;
use crate::clients::get::Get;
use crate::clients::repeats::LastPoll;
use crate::clients::session::{Polling, Protocol};
use crate::hearing::socketio;
use crate::life::{ending, heartbeat};
use crate::parts::Parts;
use crate::seam::stage::Stage;
use crate::tables::slot::{ConnId, SessionId};
use crate::transport::begin;
use std::borrow::Cow;
use wire::engineio::jsonp::Callback;
use wire::engineio::{PacketType, Query, RequestError, Revision, payload, payload3};
use wire::http::Head;

const TEXT: &str = "text/plain; charset=UTF-8";
const BINARY: &str = "application/octet-stream";
const SCRIPT: &str = "text/javascript; charset=UTF-8";

/// Takes packets off the queue: at most `packets_max`, but never less than one whole unit. Returns the body, and whether any of it
/// must not be compressed.
fn take_payload(polling: &mut Polling, packets_max: usize) -> (Vec<u8>, bool) {
    let (mut body, mut exempt) = (Vec::new(), false);
    let mut packets = 0;
    while let Some(unit) = polling.queue.front() {
        let more = unit.packets as usize;
        if packets > 0 && packets + more > packets_max {
            break;
        }
        packets += more;
        exempt |= unit.exempt;
        if let Some(unit) = polling.queue.pop() {
            if !body.is_empty() {
                body.push(payload::SEPARATOR);
            }
            body.extend_from_slice(unit.bytes());
        }
    }
    if polling.queue.is_empty() {
        // What went after the notice is told with the next pong.
        polling.lag.close_if_told();
    }
    (body, exempt)
}

/// A handshake over polling: the open packet is the answer.
pub(crate) fn open_polling(
    stage: &mut Stage,
    conn: ConnId,
    head: &Head<'_>,
    protocol: Protocol,
    query: &Query<'_>,
) {
    let session = begin::new_session(stage, conn, head, protocol);
    let secure = stage.parts.line.is_secure(conn);
    if let Some(slot) = stage.parts.people.sessions.get_mut(session) {
        let polling = slot.polling.insert(Box::default());
        polling.secure = secure;
        polling.last = LastPoll::opened(query.t.as_deref());
    }
    let parts = &mut stage.parts;
    heartbeat::start_session(parts, session);
    let mut body = Vec::new();
    begin::write_open(&parts.books.config, &parts.people, session, &mut body);
    let mut extra = begin::extra_headers(stage, conn, head, session, true);
    extra.extend_from_slice(b"cache-control: no-store\r\n");
    let slot = stage.parts.people.sessions.get(session);
    let payload = match slot.map(|slot| slot.language.revision()) {
        Some(Revision::Three) => Payload::of_3(&body, false, query.jsonp),
        _ => Payload::of_4(&body),
    };
    payload.announce(&mut extra);
    let mut answers = stage.parts.answers();
    answers.respond(conn, 200, payload.content_type, &extra, &payload.body);
    // A client of protocol 3 joins `/` here. What it is told waits for its first poll.
    socketio::begin_session(stage, session);
}

/// The body of an answer to a poll.
struct Payload<'a> {
    body: Cow<'a, [u8]>,
    content_type: &'static str,
}

impl<'a> Payload<'a> {
    /// Packets wait in this form.
    fn of_4(packets: &'a [u8]) -> Self {
        Self {
            body: Cow::Borrowed(packets),
            content_type: TEXT,
        }
    }

    fn of_3(packets: &[u8], takes_binary: bool, script: Option<Callback>) -> Self {
        let mut body = Vec::with_capacity(packets.len() + 16);
        let form = payload3::write(&mut body, packets, takes_binary && script.is_none());
        let content_type = match (script, form) {
            (Some(_), _) => SCRIPT,
            (None, payload3::Form::Text) => TEXT,
            (None, payload3::Form::Binary) => BINARY,
        };
        if let Some(callback) = script {
            let text = String::from_utf8_lossy(&body);
            let mut called = Vec::with_capacity(text.len() + 32);
            callback.write(&mut called, &text);
            body = called;
        }
        Self {
            body: Cow::Owned(body),
            content_type,
        }
    }

    /// The body is what its type says: a browser must not take binary content for a script.
    fn announce(&self, extra: &mut Vec<u8>) {
        if self.content_type != TEXT {
            extra.extend_from_slice(b"X-Content-Type-Options: nosniff\r\n");
        }
    }
}

/// A GET for packets. A second one while the first waits ends the session. So does one that was answered already: a proxy repeats
/// it because the answer was lost, and the packets in it.
pub(crate) fn poll(
    stage: &mut Stage,
    conn: ConnId,
    head: &Head<'_>,
    session: SessionId,
    query: &Query<'_>,
) -> Result<(), RequestError> {
    let cors = begin::extra_headers(stage, conn, head, session, false);
    let parts = &mut stage.parts;
    let secure = parts.line.is_secure(conn);
    let slot = parts.people.sessions.get(session);
    let closing = slot.is_some_and(|slot| slot.flags.closing);
    let Some(polling) = parts.people.sessions.polling(session) else {
        return Err(RequestError::UnknownSid);
    };
    if polling.get.is_some() {
        ending::end_violated(parts, session);
        return Err(RequestError::BadRequest);
    }
    if polling.last.polled(query.t.as_deref()) {
        ending::close_session(parts, session, CloseReason::AnswerLost);
        return Err(RequestError::UnknownSid);
    }
    polling.get = Some(Get::new(conn, head, query, cors, closing));
    polling.secure |= secure;
    let waiting = !polling.queue.is_empty();
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.state = State::Poll;
        slot.session = Some(session);
    }
    if let Some(slot) = parts.people.sessions.get_mut(session)
        // During an upgrade each poll is ended at once (protocol 3.5).
        && (waiting || slot.flags.upgrading || slot.flags.closing)
    {
        parts.line.polls.note_ready(session, &mut slot.flags);
    }
    Ok(())
}

/// Ends waiting polls that have something to bring; packets of a turn travel together. Answers that the turn's log has no
/// room for come with the next turn.
pub(crate) fn answer_polls(parts: &mut Parts) {
    let log_bytes_max = match faults::is_back(Fault::PollsUnbounded) {
        true => usize::MAX,
        false => LOG_BYTES_PER_TURN,
    };
    while parts.line.log_bytes() < log_bytes_max
        && let Some(session) = parts.line.polls.next_ready()
    {
        let packets_max = parts.books.config.limits.poll_packets_max;
        let Some(slot) = parts.people.sessions.get_mut(session) else {
            continue;
        };
        slot.flags.poll_ready = false;
        let (upgrading, closing) = (slot.flags.upgrading, slot.flags.closing);
        let Some(polling) = slot.polling.as_deref_mut() else {
            continue;
        };
        let Some(get) = polling.get.as_ref().filter(|_| !polling.lag.is_held()) else {
            continue;
        };
        let (packets_max, is_late) = (get.packets_max(packets_max), get.is_late());
        let (mut body, exempt) = take_payload(polling, packets_max);
        // The close packet travels alone: clients carry it out before what is in the same payload (protocol 3.6).
        let close = closing && body.is_empty();
        if close {
            // Node's server wakes its own poll with a noop before it closes one that comes late.
            if is_late {
                body.extend([PacketType::Noop as u8, payload::SEPARATOR]);
            }
            body.push(PacketType::Close as u8);
        } else if body.is_empty() && upgrading {
            body.push(PacketType::Noop as u8);
        }
        if body.is_empty() {
            continue;
        }
        answer_poll(parts, session, &body, exempt);
        if close {
            ending::remove_session(parts, session);
        }
    }
}

/// Ends the waiting poll, if there is one, with this payload.
pub(crate) fn answer_poll(parts: &mut Parts, session: SessionId, body: &[u8], exempt: bool) {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    let (revision, takes_binary) = (slot.language.revision(), !slot.language.is_base64());
    let Some(polling) = slot.polling.as_deref_mut() else {
        return;
    };
    let Some(get) = polling.get.take() else {
        return;
    };
    let (conn, script) = (get.conn(), get.script());
    let encoding = get.encoding().filter(|_| !exempt);
    let mut extra = get.into_headers();
    extra.extend_from_slice(b"cache-control: no-store\r\n");
    let payload = match revision {
        Revision::Three => Payload::of_3(body, takes_binary, script),
        Revision::Four => Payload::of_4(body),
    };
    payload.announce(&mut extra);
    let (codecs, books) = (&mut parts.line.codecs, &mut parts.books);
    let coded = codecs.encode_body(books, encoding, &payload.body, &mut extra);
    parts
        .answers()
        .respond(conn, 200, payload.content_type, &extra, &coded);
    // A lost noop or close packet is no loss, and for a lost ping there is the pong timeout.
    if body.len() > 1
        && let Some(slot) = parts.line.conns.get_mut(conn)
    {
        slot.exchange.await_proof();
        let key = parts.people.sessions.key(session);
        parts.line.polls.note_sent(conn, key);
    }
    // Requests that the client sent after its poll may be read now.
    parts.line.intake.revive(&mut parts.line.conns, conn);
}
