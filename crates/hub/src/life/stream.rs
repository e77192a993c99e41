//! The answer that an event stream is: its beginning, its heartbeat, its position in a room.

use crate::bounds::{STREAM_RETRY_MS, STREAM_RETRY_SPREAD_MS};
use crate::clients::people::People;
use crate::clients::session::{Protocol, Stream};
use crate::dialect::speech::Framing;
use crate::parts::Parts;
use crate::tables::position::{Position, Reading};
use crate::tables::slot::{ConnId, SessionId, SocketKey};
use std::io::Write;
use wire::http::{self, Head};

/// A body without a length ends with its connection (RFC 9112 §6.3).
pub(crate) fn write_stream_head(parts: &mut Parts, conn: ConnId, headers: &[u8]) {
    let date = parts.clock.date();
    parts.line.reply(conn, |out| {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\nDate: ");
        out.extend_from_slice(date.as_bytes());
        // Without `X-Accel-Buffering` nginx keeps events back until it has many.
        out.extend_from_slice(
            b"\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\nX-Accel-Buffering: no\r\n",
        );
        out.extend_from_slice(headers);
        out.extend_from_slice(b"Connection: close\r\n\r\n");
    });
}

/// The client is let in: the beginning of its answer. Returns the rooms it asked for; `None` = it has no event stream.
pub(crate) fn begin_stream(parts: &mut Parts, session: SessionId) -> Option<Vec<Box<str>>> {
    let slot = parts.people.sessions.get_mut(session)?;
    let stream = slot.rare.as_mut()?.stream.as_mut()?;
    let (headers, rooms) = (std::mem::take(&mut stream.headers), stream.reading.rooms());
    let conn = slot.conn?;
    write_stream_head(parts, conn, &headers);
    let dice = u64::from(u16::from_be_bytes(parts.ids.random()));
    let retry_ms = STREAM_RETRY_MS + STREAM_RETRY_SPREAD_MS * dice / u64::from(u16::MAX);
    parts.line.reply(conn, |out| {
        write_retry(out, retry_ms);
        out.push(b'\n');
    });
    Some(rooms)
}

/// The answer to a client that is not let in; `false` = it has no event stream. An `EventSource` that gets another status than 200 does not
/// come back by itself.
pub(crate) fn refuse_stream(
    parts: &mut Parts,
    session: SessionId,
    status: u16,
    text: &str,
) -> bool {
    let slot = parts.people.sessions.get_mut(session);
    let Some(slot) = slot.filter(|slot| slot.language.protocol() == Protocol::EventStream) else {
        return false;
    };
    // Once a stream has begun there is no place for an answer.
    let rare = slot.rare.as_mut().filter(|_| !slot.flags.joined);
    let stream = rare.and_then(|rare| rare.stream.take());
    if let (Some(conn), Some(stream)) = (slot.conn, stream) {
        parts.answers().respond(
            conn,
            status,
            "text/plain; charset=utf-8",
            &stream.headers,
            text.as_bytes(),
        );
    }
    true
}

/// Writes a comment, which shows proxies and a client that watches that the stream lives. A client that has bytes to read needs none.
pub(crate) fn beat_stream(parts: &mut Parts, session: SessionId) {
    let slot = parts.people.sessions.get(session);
    // Before the client is let in there is no stream yet.
    let conn = slot
        .filter(|slot| slot.flags.joined)
        .and_then(|slot| slot.conn);
    let reads = parts.line.conns.get(conn);
    if reads.is_some_and(|conn| !conn.outbox.is_blocked()) {
        parts.books.counts.heartbeats += 1;
        parts
            .line
            .reply(conn, |out| out.extend_from_slice(b":\n\n"));
    }
}

/// How far the event stream of a session has come; `None` = it has none.
fn reading(people: &mut People, session: SessionId) -> Option<&mut Reading> {
    let slot = people.sessions.get_mut(session)?;
    Some(&mut slot.rare.as_mut()?.stream.as_mut()?.reading)
}

/// The place at which an event stream goes on in a room that it has just joined.
pub(crate) fn resumes(people: &mut People, session: SessionId, room: &str) -> Option<Position> {
    reading(people, session)?.begin(room)
}

/// Rooms of a stream that came back in which nobody can tell what it missed.
pub(crate) fn unknown_rooms(people: &mut People, session: SessionId) -> Vec<Box<str>> {
    reading(people, session).map_or_else(Vec::new, |reading| reading.unknown())
}

/// An event stream is told what a room keeps up to here; `false`: it did not ask for the room, or is none.
pub(crate) fn is_told(people: &mut People, socket: SocketKey, room: &str, at: Position) -> bool {
    let slot = people.sockets.get(socket.id());
    let session = slot.filter(|slot| slot.route.variant().framing == Framing::EventStream);
    let Some(session) = session.map(|slot| slot.session) else {
        return false;
    };
    reading(people, session).is_some_and(|reading| reading.told(room, at))
}

/// Sends the position as an id without data, which is no event: `EventSource` remembers it all the same.
pub(crate) fn say_position(parts: &mut Parts, socket: SocketKey) {
    let Some(slot) = parts.people.sockets.get(socket.id()) else {
        return;
    };
    let (conn, session) = (slot.route.conn(), slot.session);
    if let Some(reading) = reading(&mut parts.people, session) {
        parts.line.reply(conn, |out| {
            reading.write_id(out);
            out.push(b'\n');
        });
    }
}

/// Appends how long the client waits until it comes back.
pub(crate) fn write_retry(out: &mut Vec<u8>, retry_ms: u64) {
    // Writing to a vector does not fail.
    let _ = writeln!(out, "retry: {retry_ms}");
}

impl Stream {
    /// A stream that began in another process.
    pub(crate) fn restored(record: &handoff::Reading) -> Self {
        Self {
            headers: Vec::new(),
            reading: Reading::restored(record),
        }
    }

    /// A browser that comes back says what it had last by a header; a page that opens a new stream can only put it into the query.
    pub(crate) fn asked(head: &Head<'_>, headers: Vec<u8>) -> Self {
        let rooms = http::query_pairs(head.query)
            .filter(|(name, _)| name == "room")
            .map(|(_, room)| room.into());
        let last = head.header("last-event-id").map(String::from_utf8_lossy);
        let last = last.or_else(|| http::query_param(head.query, "lastEventId"));
        let last = last.filter(|last| !last.is_empty());
        Self {
            headers,
            reading: Reading::new(rooms, last.as_deref()),
        }
    }
}
