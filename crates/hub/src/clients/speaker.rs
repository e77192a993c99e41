//! Saying something to one client: in its dialect, by what carries its session now.

use crate::books::Books;
use crate::books::faults::{self, Fault};
use crate::books::metrics::Limit;
use crate::bounds::HISTORY_BYTES_MAX;
use crate::clients::line::Line;
use crate::clients::people::People;
use crate::clients::session::Session;
use crate::clients::traces::Traces;
use crate::dialect::speech::{self, Dialect, Framing, Variant, Word};
use crate::output::backlog::{Bound, Fate, Losses, Overflow, Unit};
use crate::output::outbox::has_gap;
use crate::tables::slot::{ConnId, SessionId, SocketKey};
use wire::plain;
use wire::socketio::PacketType;
use wire::websocket::frame::{self, OpCode};

/// The answer that stands in the place of one with an empty attachment.
const NO_FRAME: &str = "{\"error\":\"WebTransport has no frame for an empty attachment\"}";

/// What it takes to say something to a client.
#[derive(Debug)]
pub(crate) struct Speaker<'a> {
    pub(crate) books: &'a mut Books,
    pub(crate) line: &'a mut Line,
    pub(crate) people: &'a mut People,
    pub(crate) traces: &'a mut Traces,
}

/// How words reach a session: its connection, and the form of its words. Its slot and those of its sockets have the same.
pub(crate) type Way = (SessionId, Option<ConnId>, Variant);

/// A word in the client's dialect.
struct Said<'a> {
    message: &'a [u8],
    attachments: &'a [Vec<u8>],
    /// Never compressed.
    exempt: bool,
}

impl Speaker<'_> {
    /// Says something to one client. HOT PATH: no allocation for text.
    pub(crate) fn say(&mut self, session: SessionId, word: &Word<'_>) {
        if let Some(slot) = self.people.sessions.get(session) {
            self.say_by((session, slot.conn, slot.variant()), word);
        }
    }

    /// Says something in the way that the slot of a socket knows: its session is not looked up.
    pub(crate) fn say_by(&mut self, (session, conn, variant): Way, word: &Word<'_>) {
        let mut message = self.line.buffer();
        variant.dialect.write(&mut message, word);
        let compression = &self.books.config.compression;
        let exempt = compression.exempt.holds(word.namespace, &[]);
        let said = Said {
            message: &message,
            attachments: word.attachments,
            // Of frames only acks are worth compressing; a polling payload is compressed whole.
            exempt: exempt || word.kind != PacketType::Ack && variant.framing != Framing::Polling,
        };
        self.carry(session, conn, variant, said);
        self.line.recycle(message);
    }

    /// Answers an event of a socket. All that the answer needs is in the socket's slot: its session is not looked up. HOT PATH.
    pub(crate) fn say_ack(&mut self, to: SocketKey, id: u64, args: &str, attachments: &[Vec<u8>]) {
        if self.traces.is_on() {
            self.traces.answer(self.people, to, id, args, attachments);
        }
        let socket = self.people.sockets.live_mut(to);
        // The slot of a socket that left stays until its handler has been told.
        let Some(socket) = socket.filter(|socket| !socket.flags.gone) else {
            return;
        };
        socket.owed = socket.owed.saturating_sub(1);
        let (session, conn, variant) =
            (socket.session, socket.route.conn(), socket.route.variant());
        let namespace = socket.namespace;
        let (args, attachments) = match speech::has_empty(attachments) {
            true => self.answer_that_fits(session, args, attachments),
            false => (args, attachments),
        };
        let Some(namespace) = self.people.namespaces.label(namespace) else {
            return;
        };
        let namespace = &**namespace;
        let mut message = self.line.buffer();
        let word = Word::ack(namespace, id, args, attachments);
        variant.dialect.write(&mut message, &word);
        let said = Said {
            message: &message,
            attachments,
            exempt: self.books.config.compression.exempt.holds(namespace, &[]),
        };
        self.carry(session, conn, variant, said);
        self.line.recycle(message);
    }

    /// An answer that has no frame in a client's transport would end its session: it is told so instead.
    #[cold]
    fn answer_that_fits<'a>(
        &mut self,
        session: SessionId,
        args: &'a str,
        attachments: &'a [Vec<u8>],
    ) -> (&'a str, &'a [Vec<u8>]) {
        let slot = self.people.sessions.get(session);
        if slot.is_none_or(Session::takes_empty) {
            return (args, attachments);
        }
        self.books.counts.dropped_unfit += 1;
        (NO_FRAME, &[])
    }

    /// Tells a client of the plain protocol what is wrong; `false`: it speaks another protocol.
    pub(crate) fn say_error(&mut self, session: SessionId, error: &plain::Error<'_>) -> bool {
        let Some(slot) = self.people.sessions.get(session) else {
            return true;
        };
        let (conn, variant, mut text) = (slot.conn, slot.variant(), Vec::new());
        match variant.dialect {
            Dialect::PlainJson => plain::write_error_json(&mut text, error),
            Dialect::PlainMsgpack => plain::write_error_msgpack(&mut text, error),
            // Such a client would take an error for the word of another one. It is told no more than the close code.
            Dialect::PlainRaw => return true,
            Dialect::SocketIo | Dialect::SocketIo3 | Dialect::SocketIoMsgpack => return false,
        }
        self.line.reply(conn, |out| variant.wrap(out, &text, &[]));
        true
    }

    fn carry(
        &mut self,
        session: SessionId,
        conn: Option<ConnId>,
        variant: Variant,
        said: Said<'_>,
    ) {
        let Said {
            message,
            attachments,
            exempt,
        } = said;
        if variant.dialect == Dialect::PlainRaw {
            // A client without a protocol asks for no answers, and hears only events.
            return;
        }
        if variant.framing == Framing::Polling {
            let mut packets = Vec::with_capacity(message.len());
            variant.wrap(&mut packets, message, attachments);
            let count = variant.packets(attachments.len());
            self.queue_packets(session, &packets, count, exempt);
        } else {
            self.line
                .reply_message(self.books, conn, exempt, Fate::Fixed, |out| {
                    variant.wrap(out, message, attachments);
                });
        }
    }

    /// Sends one Engine.IO text packet by whatever transport the session has now.
    pub(crate) fn send_packet(&mut self, session: SessionId, text: &[u8]) {
        let Some(slot) = self.people.sessions.get(session) else {
            return;
        };
        if slot.polling.is_some() {
            self.queue_packets(session, text, 1, false);
        } else {
            self.line
                .reply(slot.conn, |out| frame::write_frame(out, OpCode::Text, text));
        }
    }

    /// Queues payload-ready packets that are no event on a polling session.
    pub(crate) fn queue_packets(
        &mut self,
        session: SessionId,
        text: &[u8],
        packets: usize,
        exempt: bool,
    ) {
        let unit = Unit {
            packets: packets as u32,
            exempt,
            ..Unit::of(self.line.piece(text), Fate::Fixed)
        };
        self.queue_unit(session, unit);
    }

    /// Queues packets on a polling session, keeping its bound: an outbox's, and what base64 adds to binary.
    pub(crate) fn queue_unit(&mut self, session: SessionId, unit: Unit) {
        let (bytes_max, squeezed) = self.line.outbox_bytes_max(&self.books.config.limits);
        let Some(slot) = self.people.sessions.get_mut(session) else {
            return;
        };
        let Some(polling) = slot.polling.as_mut() else {
            return;
        };
        // The stream has a hole already: the session ends with the turn.
        if polling.overflowed {
            return;
        }
        // A newcomer gets a room's history before it can poll, and is not slow while it waits for other nodes.
        let bytes_max = match polling.lag.is_held() {
            _ if faults::is_back(Fault::NewcomerSlow) => bytes_max,
            false => {
                bytes_max.max(HISTORY_BYTES_MAX.min(self.books.config.limits.outbox_bytes_max))
            }
            true => self.books.config.limits.outbox_bytes_max,
        };
        let bytes_max = bytes_max + bytes_max / 2;
        let bound = match squeezed && !polling.lag.is_held() {
            true => Bound::strict(bytes_max),
            false => Bound::beside_one(bytes_max),
        };
        let mut dropped = Losses::default();
        let kept = polling.queue.push(unit, bound, &mut dropped);
        polling.overflowed = kept == Err(Overflow);
        self.line.polls.note_ready(session, &mut slot.flags);
        if kept == Err(Overflow) {
            self.line.polls.note_overflow(session);
        } else if dropped == Losses::default() {
            return;
        } else if has_gap(&dropped) {
            self.line.polls.note_gap(session, &mut polling.lag);
        }
        self.books.counts.hit(match squeezed {
            true => Limit::WaitingBytes,
            false => Limit::OutboxBytes,
        });
        self.books.counts.lose(&dropped);
    }
}
