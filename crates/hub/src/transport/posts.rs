//! POST bodies of polling sessions: whole or in chunks, taken in as far as the turn has room (protocol 3.3).

use crate::books::config::Config;
use crate::books::metrics::Limit;
use crate::bounds::POST_PACKETS_PER_TURN;
use crate::clients::conn::State;
use crate::hearing::message;
use crate::life::{conns, ending};
use crate::parts::Parts;
use crate::seam::event::Data;
use crate::seam::stage::Stage;
use crate::tables::slot::{ConnId, SessionId};
use crate::transport::{begin, engine, pace, stash};
use wire::engineio::{Query, RequestError, Revision, jsonp, payload, payload3};
use wire::http::{ChunkError, Head};

/// How much of a body was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    All,
    /// So many bytes; the turn is full.
    Some(usize),
    /// Not Engine.IO, or too much of it: the session ends.
    Refused,
}

/// The head of a POST: checks it and waits for the body.
pub(crate) fn post(
    stage: &mut Stage,
    conn: ConnId,
    head: &Head<'_>,
    session: SessionId,
    query: &Query<'_>,
) -> Result<(), RequestError> {
    // A client that posts on after a violation finds its session gone. Its poll still fetches what waits.
    let polling = stage.parts.people.sessions.polling(session);
    if polling.is_some_and(|polling| polling.violated) {
        return Err(RequestError::UnknownSid);
    }
    let len = head.content_length.unwrap_or(0);
    let cors = begin::extra_headers(stage, conn, head, session, false);
    let parts = &mut stage.parts;
    let form = query.jsonp.is_some();
    let bytes_max = body_bytes_max(&parts.books.config, form);
    if len > bytes_max as u64 {
        refuse_size(parts, conn, &cors);
        return Ok(());
    }
    let kind = head.header("content-type").unwrap_or_default();
    // Protocol 4 has no raw binary in polling (protocol 3.3); protocol 3 has.
    let binary =
        kind.starts_with(b"application/octet-stream") && query.revision != Some(Revision::Three);
    let secure = parts.line.is_secure(conn);
    let Some(polling) = parts.people.sessions.polling(session) else {
        return Err(RequestError::UnknownSid);
    };
    // At most one POST may be in flight (protocol 3.3).
    if polling.post.conn.is_some() || binary {
        ending::end_violated(parts, session);
        return Err(RequestError::BadRequest);
    }
    polling.last.posted(query.t.as_deref());
    polling.post.conn = Some(conn);
    polling.secure |= secure;
    polling.post.form = form;
    polling.post.counted = false;
    polling.post.cors = (!cors.is_empty()).then(|| cors.into_boxed_slice());
    polling.post.chunked = head.chunked.then(Box::default);
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return Ok(());
    };
    slot.session = Some(session);
    slot.state = match head.chunked {
        true => State::ChunkedBody,
        false => State::Body { len: len as u32 },
    };
    // No byte follows that would bring an empty body here, so it is judged at once.
    if !head.chunked && len == 0 {
        on_body(stage, conn, 0, b"");
    }
    Ok(())
}

/// The bound of a body, bytes. A form may be longer than its payload, which has the bound of other bodies.
fn body_bytes_max(config: &Config, form: bool) -> usize {
    let bytes_max = match form {
        true => jsonp::form_bytes_max(config.max_payload),
        false => config.max_payload,
    };
    // `State::Body` counts in 32 bits.
    bytes_max.min(u32::MAX as usize)
}

/// The session lives on (protocol 3.3); the body is not read.
fn refuse_size(parts: &mut Parts, conn: ConnId, extra: &[u8]) {
    parts.books.counts.hit(Limit::Payload);
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.exchange.be_last();
    }
    parts.answers().respond(conn, 413, "", extra, b"");
}

/// A POST body in chunks: decoded as it comes, taken in when it is whole.
pub(crate) fn on_chunks(stage: &mut Stage, conn: ConnId, data: &[u8]) -> usize {
    let slot = stage.parts.line.conns.get(conn);
    let Some(session) = slot.and_then(|slot| slot.session) else {
        return 0;
    };
    let post = stage.parts.people.sessions.polling(session);
    let post = post.map(|polling| (polling.post.form, polling.post.chunked.take()));
    let Some((form, Some(mut chunked))) = post else {
        conns::finish(&mut stage.parts, conn);
        return data.len();
    };
    let bytes_max = body_bytes_max(&stage.parts.books.config, form);
    match chunked.decode(data, bytes_max) {
        Ok(used) if chunked.is_done() => {
            stash::input_complete(&mut stage.parts.line, conn);
            on_unchunked(stage, conn, chunked.body);
            used
        }
        Ok(used) => {
            if let Some(polling) = stage.parts.people.sessions.polling(session) {
                polling.post.chunked = Some(chunked);
            }
            stash::watch_input(&mut stage.parts, conn);
            used
        }
        Err(error) => {
            refuse_chunks(&mut stage.parts, conn, session, error);
            data.len()
        }
    }
}

/// Takes in a body whose chunks are decoded. The rest that the turn has no room for stays in the connection's input, before the bytes that
/// follow it.
fn on_unchunked(stage: &mut Stage, conn: ConnId, mut body: Vec<u8>) {
    let taken = on_body(stage, conn, body.len(), &body);
    if taken < body.len()
        && let Some(slot) = stage.parts.line.conns.get_mut(conn)
    {
        body.drain(..taken);
        slot.unread.keep(Box::new(body));
    }
}

/// The body of a form: the payload in it is read like any other body.
fn on_form(stage: &mut Stage, conn: ConnId, session: SessionId, form: &[u8]) {
    let payload = jsonp::read_form(form);
    let bytes_max = stage.parts.books.config.max_payload;
    match payload {
        Some(payload) if payload.len() <= bytes_max => {
            on_unchunked(stage, conn, payload.into_bytes());
        }
        Some(_) => refuse_chunks(&mut stage.parts, conn, session, ChunkError::TooLarge),
        None => refuse_chunks(&mut stage.parts, conn, session, ChunkError::Malformed),
    }
}

fn refuse_chunks(parts: &mut Parts, conn: ConnId, session: SessionId, error: ChunkError) {
    let extra = parts.people.sessions.polling(session).and_then(|polling| {
        polling.post.conn = None;
        polling.post.cors.take()
    });
    let extra = extra.map_or_else(Vec::new, Vec::from);
    if error == ChunkError::TooLarge {
        return refuse_size(parts, conn, &extra);
    }
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.exchange.be_last();
    }
    ending::end_violated(parts, session);
    parts
        .answers()
        .respond(conn, 400, "text/plain", &extra, b"parse error");
}

/// The body of a POST, once it is all there.
pub(crate) fn on_body(stage: &mut Stage, conn: ConnId, len: usize, data: &[u8]) -> usize {
    if data.len() < len {
        return 0;
    }
    let slot = stage.parts.line.conns.get(conn);
    let Some(session) = slot.and_then(|slot| slot.session) else {
        return len;
    };
    let post = stage.parts.people.sessions.polling(session);
    // The mark goes: `on_form` hands the payload to this function again.
    if post.is_some_and(|polling| std::mem::take(&mut polling.post.form)) {
        on_form(stage, conn, session, &data[..len]);
        return len;
    }
    // The packets may end the session, so its request is taken off it first and answered here.
    let cors = stage
        .parts
        .people
        .sessions
        .polling(session)
        .and_then(|polling| {
            polling.post.conn = None;
            polling.post.cors.take()
        });
    let taken = take_packets(stage, session, &data[..len]);
    if let Taken::Some(bytes) = taken {
        if let Some(polling) = stage.parts.people.sessions.polling(session) {
            polling.post.conn = Some(conn);
            polling.post.cors = cors;
        }
        if let Some(slot) = stage.parts.line.conns.get_mut(conn) {
            slot.state = State::Body {
                len: (len - bytes) as u32,
            };
        }
        let limit = pace::why_yield(&stage.parts, 0);
        stash::stall(
            &mut stage.parts,
            conn,
            limit.unwrap_or(Limit::DeliveriesPerTurn),
        );
        return bytes;
    }
    let extra = cors.map_or_else(Vec::new, Vec::from);
    if taken == Taken::Refused {
        ending::end_violated(&mut stage.parts, session);
    }
    let (status, kind, text): (_, _, &[u8]) = match taken {
        Taken::Refused => (400, "text/plain", b"parse error"),
        _ => (200, "text/html", b"ok"),
    };
    let mut answers = stage.parts.answers();
    answers.respond(conn, status, kind, &extra, text);
    len
}

/// Takes in the packets of a body, or those that the turn has room for.
fn take_packets(stage: &mut Stage, session: SessionId, body: &[u8]) -> Taken {
    let slot = stage.parts.people.sessions.get(session);
    if slot.is_some_and(|slot| slot.language.is_three()) {
        return take_packets3(stage, session, body);
    }
    let separators = body
        .iter()
        .filter(|byte| **byte == payload::SEPARATOR)
        .count();
    // A body over the bound is refused whole, before its first packet has an effect.
    if separators >= stage.parts.books.config.limits.post_packets_max {
        stage.parts.books.counts.hit(Limit::PostPackets);
        return Taken::Refused;
    }
    let (mut at, mut packets) = (0, 0);
    loop {
        let rest = &body[at..];
        let end = rest.iter().position(|byte| *byte == payload::SEPARATOR);
        let packet = &rest[..end.unwrap_or(rest.len())];
        if !take_packet(stage, session, packet) {
            return Taken::Refused;
        }
        // A packet may end the session: the rest of the body is nobody's then.
        let Some(end) = end.filter(|_| stage.parts.people.sessions.is_open(session)) else {
            return Taken::All;
        };
        at += end + 1;
        packets += 1;
        // If all bytes counted as taken, the empty packet after a trailing separator would pass (protocol 3.3).
        if at < body.len()
            && (packets == POST_PACKETS_PER_TURN || pace::why_yield(&stage.parts, 0).is_some())
        {
            return Taken::Some(at);
        }
    }
}

/// Takes in the packets of a payload of protocol 3, or those that the turn has room for.
fn take_packets3(stage: &mut Stage, session: SessionId, body: &[u8]) -> Taken {
    let post = stage
        .parts
        .people
        .sessions
        .polling(session)
        .map(|polling| &mut polling.post);
    // Once for a body: counting walks all of it, and what is left of it has fewer.
    let is_counted = post.is_some_and(|post| std::mem::replace(&mut post.counted, true));
    if !is_counted && payload3::exceeds(body, stage.parts.books.config.limits.post_packets_max) {
        stage.parts.books.counts.hit(Limit::PostPackets);
        return Taken::Refused;
    }
    let (mut at, mut packets) = (0, 0);
    loop {
        let Some((packet, used)) = payload3::first(&body[at..]) else {
            return Taken::Refused;
        };
        if !take_packet3(stage, session, packet) {
            return Taken::Refused;
        }
        (at, packets) = (at + used, packets + 1);
        if at == body.len() || !stage.parts.people.sessions.is_open(session) {
            return Taken::All;
        }
        if packets == POST_PACKETS_PER_TURN || pace::why_yield(&stage.parts, 0).is_some() {
            return Taken::Some(at);
        }
    }
}

fn take_packet3(stage: &mut Stage, session: SessionId, packet: payload3::Packet<'_>) -> bool {
    match packet {
        payload3::Packet::Empty => true,
        payload3::Packet::Text(kind, data) => engine::on_engine_packet(stage, session, kind, data),
        payload3::Packet::Base64(text) => engine::take_base64(stage, session, text),
        payload3::Packet::Binary(bytes) => {
            message::on_data(stage, session, Data::Binary(bytes));
            true
        }
    }
}

/// Takes in one packet; `false` = not Engine.IO, the session ends.
fn take_packet(stage: &mut Stage, session: SessionId, packet: &[u8]) -> bool {
    match payload::split(packet).and_then(|mut packets| packets.next()) {
        Some(Ok(payload::Packet::Text(kind, data))) => {
            engine::on_engine_packet(stage, session, kind, data)
        }
        Some(Ok(payload::Packet::Base64(text))) => engine::take_base64(stage, session, text),
        _ => false,
    }
}
