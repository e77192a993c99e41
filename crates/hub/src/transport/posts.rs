//! POST bodies of polling sessions: whole or in chunks, taken in as far as the turn has room (protocol 3.3).

use crate::books::close::CloseReason;
use crate::books::metrics::Limit;
use crate::hub::Hub;
use crate::output::backlog::Backlog;
use crate::tables::conn::State;
use crate::tables::slot::{ConnId, SessionId};
use crate::transport::websocket::Data;
use wire::engineio::{RequestError, payload};
use wire::http::{ChunkError, Head};

/// Packets of one body that are taken in before others have their turn.
const POST_PACKETS_PER_TURN: usize = 1_024;

impl Hub {
    /// A body of which nothing has come yet has its deadline too.
    pub(crate) fn watch_body(&mut self, conn: ConnId) {
        let slot = self.parts.line.conns.get(conn);
        if slot.is_some_and(|slot| matches!(slot.state, State::Body { .. } | State::ChunkedBody)) {
            self.watch_input(conn);
        }
    }

    /// The head of a POST: checks it and waits for the body.
    pub(crate) fn post(&mut self, conn: ConnId, head: &Head<'_>, session: SessionId) {
        // To those who post on after a violation the session is gone at once; a poll still fetches what waits.
        let polling = self.polling(session);
        if polling.is_some_and(|polling| polling.violated) {
            return self.refuse(conn, head, RequestError::UnknownSid);
        }
        let len = head.content_length.unwrap_or(0);
        if len > self.parts.books.config.max_payload as u64 {
            let cors = self.extra_headers(conn, head, session, false);
            return self.refuse_size(conn, &cors);
        }
        let binary = head
            .header("content-type")
            .is_some_and(|value| value.starts_with(b"application/octet-stream"));
        let cors = self.extra_headers(conn, head, session, false);
        let Some(polling) = self.polling(session) else {
            return;
        };
        if polling.post.is_some() || binary {
            self.end_violated(session);
            self.refuse(conn, head, RequestError::BadRequest);
            return;
        }
        polling.post = Some(conn);
        polling.post_cors = (!cors.is_empty()).then(|| cors.into_boxed_slice());
        let Some(slot) = self.parts.line.conns.get_mut(conn) else {
            return;
        };
        slot.session = Some(session);
        if head.chunked {
            slot.state = State::ChunkedBody;
            if let Some(polling) = self.polling(session) {
                polling.chunked = Some(Box::default());
            }
            return;
        }
        slot.state = State::Body { len: len as u32 };
        if len == 0 {
            self.on_body(conn, 0, b"");
        }
    }

    /// The session lives on (protocol 3.3); the body is not read.
    fn refuse_size(&mut self, conn: ConnId, extra: &[u8]) {
        self.parts.books.counts.hit(Limit::Payload);
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.flags.keep_alive = false;
        }
        self.respond(conn, 413, "", extra, b"");
    }

    /// A POST body in chunks: decoded as it comes, taken in when it is whole.
    pub(crate) fn on_chunks(&mut self, conn: ConnId, data: &[u8]) -> usize {
        let slot = self.parts.line.conns.get(conn);
        let Some(session) = slot.and_then(|slot| slot.session) else {
            return 0;
        };
        let bytes_max = self.parts.books.config.max_payload;
        let Some(mut chunked) = self
            .polling(session)
            .and_then(|polling| polling.chunked.take())
        else {
            self.parts.finish_conn(conn);
            return data.len();
        };
        match chunked.decode(data, bytes_max) {
            Ok(used) if chunked.is_done() => {
                self.input_complete(conn);
                self.on_unchunked(conn, chunked.body);
                used
            }
            Ok(used) => {
                if let Some(polling) = self.polling(session) {
                    polling.chunked = Some(chunked);
                }
                self.watch_input(conn);
                used
            }
            Err(error) => {
                self.refuse_chunks(conn, session, error);
                data.len()
            }
        }
    }

    /// A body whose chunks are decoded. What the turn has no room for is the connection's input, before what came behind it.
    fn on_unchunked(&mut self, conn: ConnId, mut body: Vec<u8>) {
        let taken = self.on_body(conn, body.len(), &body);
        if taken < body.len()
            && let Some(slot) = self.parts.line.conns.get_mut(conn)
        {
            body.drain(..taken);
            slot.input = Some(Box::new(body));
        }
    }

    fn refuse_chunks(&mut self, conn: ConnId, session: SessionId, error: ChunkError) {
        let extra = self.polling(session).and_then(|polling| {
            polling.post = None;
            polling.post_cors.take()
        });
        let extra = extra.map_or_else(Vec::new, Vec::from);
        if error == ChunkError::TooLarge {
            return self.refuse_size(conn, &extra);
        }
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.flags.keep_alive = false;
        }
        self.end_violated(session);
        self.respond(conn, 400, "text/plain", &extra, b"parse error");
    }

    /// The body of a POST, once it is all there.
    pub(crate) fn on_body(&mut self, conn: ConnId, len: usize, data: &[u8]) -> usize {
        if data.len() < len {
            return 0;
        }
        let slot = self.parts.line.conns.get(conn);
        let Some(session) = slot.and_then(|slot| slot.session) else {
            return len;
        };
        // Whatever the packets do to the session: this request is answered here.
        let cors = self.polling(session).and_then(|polling| {
            polling.post = None;
            polling.post_cors.take()
        });
        let taken = self.take_packets(session, &data[..len]);
        if let Taken::Some(bytes) = taken {
            if let Some(polling) = self.polling(session) {
                polling.post = Some(conn);
                polling.post_cors = cors;
            }
            if let Some(slot) = self.parts.line.conns.get_mut(conn) {
                slot.state = State::Body {
                    len: (len - bytes) as u32,
                };
            }
            let limit = self.parts.why_yield(0);
            self.stall(conn, limit.unwrap_or(Limit::DeliveriesPerTurn));
            return bytes;
        }
        let extra = cors.map_or_else(Vec::new, Vec::from);
        if taken == Taken::All {
            self.respond(conn, 200, "text/html", &extra, b"ok");
        } else {
            self.end_violated(session);
            self.respond(conn, 400, "text/plain", &extra, b"parse error");
        }
        len
    }

    /// The client broke Engine.IO's own rules, and its session is gone: a poll that waits is told so, and from then on nobody
    /// knows the sid, as with Node's server (protocol 3.3). A broken Socket.IO packet ends a session in the orderly way instead.
    pub(super) fn end_violated(&mut self, session: SessionId) {
        let Some(polling) = self.polling(session) else {
            return;
        };
        // Nothing is left to say but the close packet.
        polling.queue = Backlog::default();
        let waits = polling.get.is_some();
        self.parts.close_session(session, CloseReason::ParseError);
        if !waits {
            self.parts.remove_session(session);
        }
    }

    /// Takes in the packets of a body, or those that the turn has room for.
    fn take_packets(&mut self, session: SessionId, body: &[u8]) -> Taken {
        let separators = body
            .iter()
            .filter(|byte| **byte == payload::SEPARATOR)
            .count();
        if separators >= self.parts.books.config.limits.post_packets_max {
            self.parts.books.counts.hit(Limit::PostPackets);
            return Taken::Refused;
        }
        let (mut at, mut packets) = (0, 0);
        loop {
            let rest = &body[at..];
            let end = rest.iter().position(|byte| *byte == payload::SEPARATOR);
            let packet = &rest[..end.unwrap_or(rest.len())];
            if !self.take_packet(session, packet) {
                return Taken::Refused;
            }
            let Some(end) = end.filter(|_| self.parts.is_open(session)) else {
                return Taken::All;
            };
            at += end + 1;
            packets += 1;
            if at < body.len()
                && (packets == POST_PACKETS_PER_TURN || self.parts.why_yield(0).is_some())
            {
                return Taken::Some(at);
            }
        }
    }

    /// Takes in one packet; `false` = not Engine.IO, the session ends.
    fn take_packet(&mut self, session: SessionId, packet: &[u8]) -> bool {
        match payload::split(packet).and_then(|mut packets| packets.next()) {
            Some(Ok(payload::Packet::Text(kind, data))) => {
                self.on_engine_packet(session, kind, data)
            }
            Some(Ok(payload::Packet::Base64(text))) => {
                let mut bytes = Vec::new();
                if payload::decode_base64(text, &mut bytes).is_err() {
                    return false;
                }
                self.on_data(session, Data::Binary(&bytes));
                true
            }
            _ => false,
        }
    }
}

/// How much of a body was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    All,
    /// So many bytes; the turn is full.
    Some(usize),
    /// Not Engine.IO, or too much of it: the session ends.
    Refused,
}
