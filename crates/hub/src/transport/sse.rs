//! The plain protocol in Server-Sent Events (WHATWG HTML §9.2): a client that asks for rooms and hears what is said there. What it is
//! told, and in which words, is no matter of this file; here are its request, the beginning of its answer, and its heartbeat.

use crate::dialect::speech::Framing;
use crate::hub::Hub;
use crate::parts::Parts;
use crate::rooms::log::{Kept, Position};
use crate::tables::conn::State;
use crate::tables::session::{Protocol, Stream};
use crate::tables::slot::{ConnId, SessionId, SocketKey};
use crate::tables::timer::SessionTimer;
use std::io::Write;
use wire::engineio::RequestError;
use wire::http::{self, Head, Method};

/// Without a drain a client comes back after so many milliseconds, and up to as many more: clients of one node not all at once.
const RETRY_MS: u64 = 1_000;
const RETRY_SPREAD_MS: u64 = 2_000;
const ALLOW: &[u8] = b"Allow: GET, HEAD, OPTIONS\r\n";

/// Appends how long the client waits until it comes back.
pub(crate) fn write_retry(out: &mut Vec<u8>, retry_ms: u64) {
    // Writing to a vector does not fail.
    let _ = writeln!(out, "retry: {retry_ms}");
}

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

impl Stream {
    /// A browser that comes back says what it had last by a header; a page that opens a new stream can only put it into the query.
    fn asked(head: &Head<'_>, headers: Vec<u8>) -> Self {
        let rooms = http::query_pairs(head.query)
            .filter(|(name, _)| name == "room")
            .map(|(_, room)| room.into());
        let rooms: Vec<Box<str>> = rooms.collect();
        let last = head.header("last-event-id").map(String::from_utf8_lossy);
        let last = last.or_else(|| http::query_param(head.query, "lastEventId"));
        Self {
            headers,
            last: last.filter(|last| !last.is_empty()).map(Into::into),
            // With several rooms, an id of one says nothing about the others.
            knows: rooms.len() == 1,
            rooms,
        }
    }

    /// Where the client stopped; one that nobody can tell is before everything.
    fn position(&self) -> Option<Position> {
        let last = self.last.as_deref()?;
        let known = Position::parse(last).filter(|_| self.knows);
        Some(known.unwrap_or_default())
    }
}

impl Hub {
    pub(super) fn stream_request(&mut self, conn: ConnId, head: &Head<'_>) {
        if !self.origin_allowed(head) {
            return self.refuse(conn, head, RequestError::Forbidden);
        }
        match head.method {
            Method::Options => return self.preflight(conn, head),
            Method::Get | Method::Head => {}
            _ => return self.refuse_stream_request(conn, head, 405, ALLOW, "use GET"),
        }
        if !takes_events(head) {
            let text = "Accept must allow text/event-stream";
            return self.refuse_stream_request(conn, head, 406, b"", text);
        }
        if head.method == Method::Head {
            let headers = self.cors_headers(head);
            self.write_stream_head(conn, &headers);
            return self.parts.finish_conn(conn);
        }
        if self.admits(conn, head, Protocol::EventStream) {
            self.open_stream(conn, head);
        }
    }

    fn refuse_stream_request(
        &mut self,
        conn: ConnId,
        head: &Head<'_>,
        status: u16,
        more: &[u8],
        why: &str,
    ) {
        self.parts.books.counts.refused += 1;
        let mut extra = self.cors_headers(head);
        extra.extend_from_slice(more);
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.flags.keep_alive &= !head.has_body();
        }
        let text = format!("{} is an event stream: {why}", head.path);
        self.respond(conn, status, "text/plain", &extra, text.as_bytes());
    }

    /// The session begins; the answer does when the client is let in ([`Hub::begin_stream`]).
    fn open_stream(&mut self, conn: ConnId, head: &Head<'_>) {
        let session = self.new_session(conn, head, Protocol::EventStream);
        let headers = self.extra_headers(conn, head, session, true);
        self.parts.forget_proxy(conn);
        if let Some(slot) = self.parts.people.sessions.get_mut(session) {
            slot.conn = Some(conn);
            let stream = Stream::asked(head, headers);
            slot.rare.get_or_insert_default().stream = Some(Box::new(stream));
        }
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.state = State::Stream;
            slot.session = Some(session);
        }
        self.start_session(session);
        self.open_plain(session);
    }

    /// A body without a length ends with its connection (RFC 9112 §6.3).
    fn write_stream_head(&mut self, conn: ConnId, headers: &[u8]) {
        let date = self.parts.clock.date();
        self.parts.reply(conn, |out| {
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\nDate: ");
            out.extend_from_slice(date.as_bytes());
            // Without the third line nginx keeps events back until it has many.
            out.extend_from_slice(
                b"\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n",
            );
            out.extend_from_slice(headers);
            out.extend_from_slice(b"Connection: close\r\n\r\n");
        });
    }

    /// The client is let in: the beginning of its answer. Returns the rooms it asked for; `None` = it has no event stream.
    pub(crate) fn begin_stream(&mut self, session: SessionId) -> Option<Vec<Box<str>>> {
        let slot = self.parts.people.sessions.get_mut(session)?;
        let stream = slot.rare.as_mut()?.stream.as_mut()?;
        let (headers, rooms) = (std::mem::take(&mut stream.headers), stream.rooms.clone());
        let conn = slot.conn?;
        self.write_stream_head(conn, &headers);
        let dice = u64::from(u16::from_be_bytes(self.parts.random()));
        let retry_ms = RETRY_MS + RETRY_SPREAD_MS * dice / u64::from(u16::MAX);
        self.parts.reply(conn, |out| {
            write_retry(out, retry_ms);
            out.push(b'\n');
        });
        Some(rooms)
    }

    /// Joins as a client of the plain protocol does by its own word. A client that said what it has, and was told of a room by nobody
    /// what it missed there, is told that nobody knows.
    pub(crate) fn join_stream(
        &mut self,
        session: SessionId,
        socket: SocketKey,
        rooms: &[Box<str>],
    ) {
        for room in rooms {
            if !self.parts.is_open(session) || !self.within_rates(session, Some(socket), None) {
                break;
            }
            self.on_room_request(session, socket, "join", room, None);
        }
        let slot = self.parts.people.sessions.get_mut(session);
        let stream = slot.and_then(|slot| slot.rare.as_mut()?.stream.take());
        let Some(stream) = stream.filter(|stream| stream.last.is_some()) else {
            return;
        };
        let unknown = Kept {
            resumed: Some(false),
            ..Kept::default()
        };
        for room in &stream.rooms {
            self.parts.tell_history(socket, room, &unknown);
        }
    }

    /// The answer to a client that is not let in; `false` = it has no event stream. What `EventSource` gets beside 200 keeps it from
    /// coming back by itself.
    pub(crate) fn refuse_stream(&mut self, session: SessionId, status: u16, text: &str) -> bool {
        let slot = self.parts.people.sessions.get_mut(session);
        let Some(slot) = slot.filter(|slot| slot.protocol == Protocol::EventStream) else {
            return false;
        };
        let stream = slot.rare.as_mut().and_then(|rare| rare.stream.take());
        if let (Some(conn), Some(stream)) = (slot.conn, stream) {
            self.respond(
                conn,
                status,
                "text/plain; charset=utf-8",
                &stream.headers,
                text.as_bytes(),
            );
        }
        true
    }

    /// A comment shows proxies, and a client that watches, that the stream lives. A client that has bytes to read needs none.
    pub(super) fn beat_stream(&mut self, session: SessionId) {
        let slot = self.parts.people.sessions.get(session);
        // Before the client is let in there is no stream yet.
        let conn = slot
            .filter(|slot| slot.flags.joined)
            .and_then(|slot| slot.conn);
        let reads = self.parts.line.conns.get(conn);
        if reads.is_some_and(|conn| !conn.outbox.is_blocked()) {
            self.parts
                .reply(conn, |out| out.extend_from_slice(b":\n\n"));
        }
        let interval = self.parts.books.config.plain_ping_interval;
        self.parts
            .arm_session(SessionTimer::PlainPing, interval, session);
    }
}

impl Parts {
    /// Where in a room an event stream goes on that has just joined it.
    pub(crate) fn resumes(&mut self, session: SessionId, room: &str) -> Option<Position> {
        let slot = self.people.sessions.get_mut(session)?;
        let stream = slot.rare.as_mut()?.stream.as_mut()?;
        let after = stream.position()?;
        let at = stream.rooms.iter().position(|asked| **asked == *room)?;
        stream.rooms.remove(at);
        Some(after)
    }

    /// An event stream has all that its room keeps up to here: an id without data is no event, and remembered all the same.
    pub(crate) fn note_position(&mut self, socket: SocketKey, at: Position) {
        let Some(slot) = self.people.sockets.get(socket.id()) else {
            return;
        };
        if slot.variant.framing == Framing::EventStream {
            self.reply(slot.conn, |out| {
                at.write_id(out);
                out.push(b'\n');
            });
        }
    }
}
