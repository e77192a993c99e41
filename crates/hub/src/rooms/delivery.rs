//! One event to one socket: encoded once per variant, lazily, then noted on the socket's outbox.
//!
//! HOT PATH: `deliver` allocates nothing once warm; no lock, no dyn.

use crate::books::config::SlowConsumer;
use crate::clients::speaker::Speaker;
use crate::dialect::notices;
use crate::dialect::speech::{Dialect, Framing, Variant};
use crate::output::backlog::{Fate, Unit};
use crate::output::compression::Deflate;
use crate::output::log::Range;
use crate::rooms::outgoing::Outgoing;
use crate::tables::slot::{ConnId, SessionId, SocketId};

impl Speaker<'_> {
    /// Queues an event for one socket. `false` if it was dropped (volatile) or the socket is gone.
    #[inline]
    pub(crate) fn deliver(&mut self, index: SocketId, out: &mut Outgoing<'_>) -> bool {
        if out.made.has_empty() && self.leaves_out(index, out) {
            return false;
        }
        let Some(socket) = self.people.sockets.get(index) else {
            return false;
        };
        let (route, session) = (socket.route, socket.session);
        let variant = route.variant();
        if variant.dialect == Dialect::PlainRaw && notices::is_notice(out.event.name) {
            // Frames of a raw client have no names: it would take the gateway's own word for that of another client (ADR 32).
            return false;
        }
        let deflate = out.made.form(route.deflate());
        let Some(conn) = route.conn() else {
            debug_assert_eq!(
                variant.framing,
                Framing::Polling,
                "{index} has no WebSocket"
            );
            let is_queued = self.deliver_polling(session, variant, out);
            if !is_queued {
                self.traces.miss(index);
            }
            return is_queued;
        };
        // If the stream asked for one of the rooms, the event carries an id that is this stream's own.
        if out.at.is_some() && variant.framing == Framing::EventStream {
            let range = self.encode_with_id(session, variant, out);
            self.delivered(conn, variant, range);
            return true;
        }
        // A volatile event goes only to a client that can take it at once.
        if out.event.volatile
            && !self
                .line
                .conns
                .get(conn)
                .is_some_and(|conn| conn.outbox.is_empty())
        {
            self.books.counts.dropped_volatile += 1;
            self.traces.miss(index);
            return false;
        }
        let range = match out.made.frames(variant, deflate) {
            Some(range) => range,
            None if deflate == Deflate::Off => self.encode(variant, out),
            None => self.encode_deflated(conn, variant, deflate, out),
        };
        self.delivered(conn, variant, range);
        true
    }

    /// An empty attachment has no frame in WebTransport: its client would end. A client that may come back is told of the gap.
    #[cold]
    fn leaves_out(&mut self, index: SocketId, out: &Outgoing<'_>) -> bool {
        let socket = self.people.sockets.get(index);
        let Some(session) = socket.map(|socket| socket.session) else {
            return false;
        };
        let slot = self.people.sessions.get(session);
        let Some(slot) = slot.filter(|slot| !slot.takes_empty()) else {
            return false;
        };
        // Nobody is promised an event that wants an answer, or one that is for this instant only.
        if out.ack.is_none()
            && !out.event.volatile
            && let Some(conn) = slot.conn
            && let Some(conn) = self.line.conns.get_mut(conn)
        {
            self.line.polls.note_gap(session, &mut conn.lag);
        }
        self.books.counts.dropped_unfit += 1;
        self.traces.miss(index);
        true
    }

    #[inline]
    fn delivered(&mut self, conn: ConnId, variant: Variant, range: Range) {
        self.line.budget.deliver();
        self.books.counts.delivered[variant.metric()] += 1;
        self.line.push(conn, range);
    }

    /// An event that a room keeps, for an event stream. If the stream asked for one of its rooms, the event and the id that names
    /// it are one block of its own, and are not dropped: a later id would hide that. A stream that is too slow ends, and comes
    /// back with its last id.
    #[cold]
    fn encode_with_id(
        &mut self,
        session: SessionId,
        variant: Variant,
        out: &mut Outgoing<'_>,
    ) -> Range {
        let slot = self.people.sessions.get_mut(session);
        let stream = slot.and_then(|slot| slot.rare.as_mut()?.stream.as_mut());
        let reading = stream.zip(out.at).and_then(|(stream, at)| {
            let reading = &mut stream.reading;
            reading.advance(out.rooms, at).then_some(&*reading)
        });
        let Some(reading) = reading else {
            let made = out.made.frames(variant, Deflate::Off);
            return made.unwrap_or_else(|| self.encode(variant, out));
        };
        self.line.append(false, Fate::Fixed, |frames, scratch| {
            reading.write_id(frames);
            write_event(frames, scratch, variant, out);
        })
    }

    fn deliver_polling(
        &mut self,
        session: SessionId,
        variant: Variant,
        out: &mut Outgoing<'_>,
    ) -> bool {
        let Some(polling) = self
            .people
            .sessions
            .get_mut(session)
            .and_then(|s| s.polling.as_mut())
        else {
            return false;
        };
        // Nothing can leave before the next poll.
        if out.event.volatile && (polling.get.is_none() || !polling.queue.is_empty()) {
            self.books.counts.dropped_volatile += 1;
            return false;
        }
        let made = out.made.take_polled(variant);
        let piece = made.unwrap_or_else(|| {
            let (mut message, mut packets) = (Vec::new(), Vec::new());
            out.write(&mut message, variant);
            variant.wrap(&mut packets, &message, out.event.attachments);
            self.line.piece(&packets)
        });
        self.line.budget.deliver();
        self.books.counts.delivered[variant.metric()] += 1;
        let unit = Unit {
            packets: variant.packets(out.event.attachments.len()) as u32,
            exempt: out.made.is_exempt(),
            ..Unit::of(piece.clone(), self.fate_of(out))
        };
        self.queue_unit(session, unit);
        out.made.keep_polled(variant, piece);
        true
    }

    /// What happens to an event that a slow client has no room for.
    #[inline]
    fn fate_of(&self, out: &mut Outgoing<'_>) -> Fate {
        if let Some(fate) = out.made.fate() {
            return fate;
        }
        let (policy, member) = self.books.config.slow_events(out.namespace);
        let key = match policy {
            SlowConsumer::Conflate => self.line.key_of(out.conflation_key(member)),
            _ => 0,
        };
        out.made.settle(Fate::Event { policy, key })
    }

    fn encode(&mut self, variant: Variant, out: &mut Outgoing<'_>) -> Range {
        let fate = self.fate_of(out);
        let range = self
            .line
            .append(out.made.is_shared(), fate, |log, scratch| {
                write_event(log, scratch, variant, out);
            });
        out.made.keep_frames(variant, Deflate::Off, range);
        range
    }

    /// The form for members that agreed on compression: made once for all that share it, and the plain one where that is
    /// better.
    #[cold]
    fn encode_deflated(
        &mut self,
        conn: ConnId,
        variant: Variant,
        deflate: Deflate,
        out: &mut Outgoing<'_>,
    ) -> Range {
        let own = deflate == Deflate::Own;
        let mut plain = out.made.frames(variant, Deflate::Off);
        if own && plain.is_none() {
            // Other members with a window of their own may need the plain form as well.
            plain = Some(self.encode(variant, out));
        }
        let kind = (out.made.is_shared() && !own, self.fate_of(out));
        let made = self.line.append_deflated(
            self.books,
            (conn, deflate),
            kind,
            plain,
            |frames, scratch| {
                write_event(frames, scratch, variant, out);
            },
        );
        let range = made.or(plain).unwrap_or_else(|| self.encode(variant, out));
        out.made.keep_frames(variant, deflate, range);
        range
    }
}

/// Appends the event as WebSocket frames. `message` is a buffer to work in.
fn write_event(frames: &mut Vec<u8>, message: &mut Vec<u8>, variant: Variant, out: &Outgoing<'_>) {
    message.clear();
    out.write(message, variant);
    variant.wrap(frames, message, out.event.attachments);
}
