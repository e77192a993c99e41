//! WebSocket connections: opening them, and taking in their frames.
//!
//! HOT PATH: `on_frames` and `on_message` allocate nothing for whole text messages.

use crate::books::close::CloseReason;
use crate::books::metrics::Limit;
use crate::hub::Hub;
use crate::tables::conn::State;
use crate::tables::session::Protocol;
use crate::tables::slot::{ConnId, SessionId};
use wire::engineio::{self};
use wire::http::Head;
use wire::websocket::deflate::InflateError;
use wire::websocket::frame::{self, OpCode};
use wire::websocket::message::{Assembler, Limits, Message, Step, Violation, check_text};
use wire::websocket::{close, handshake};

/// A message of a session, whatever transport brought it.
pub(crate) use crate::seam::handler::Data;

/// Whether a read goes on behind a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    /// What is behind the frame waits for the next turn.
    Yield(Limit),
    Stop,
}

impl Next {
    #[inline]
    fn and(self, then: impl FnOnce() -> Self) -> Self {
        match self {
            Self::Continue => then(),
            other => other,
        }
    }
}

/// Where the frames of a read come from: looked up once for all of them.
#[derive(Clone, Copy, Debug)]
struct Source {
    conn: ConnId,
    session: SessionId,
    protocol: Protocol,
    /// It is not the session's transport yet.
    probes: bool,
}

impl Hub {
    /// Answers an opening handshake and starts the session on it.
    pub(crate) fn open_websocket(
        &mut self,
        conn: ConnId,
        head: &Head<'_>,
        protocol: Protocol,
        subprotocol: Option<&str>,
    ) {
        let accept = match handshake::accept(head) {
            Ok(accept) => accept,
            Err(refusal) => return self.refuse_handshake(conn, refusal),
        };
        let session = self.new_session(conn, head, protocol);
        let extra = self.extra_headers(conn, head, session, true);
        self.accept_websocket(conn, head, &accept, subprotocol, extra);
        if let Some(slot) = self.parts.people.sessions.get_mut(session) {
            slot.conn = Some(conn);
        }
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.state = State::WebSocket;
            slot.session = Some(session);
        }
        if protocol.is_engineio() {
            let mut open = std::mem::take(&mut self.parts.line.scratch);
            open.clear();
            self.write_open(session, &mut open);
            self.parts
                .reply(conn, |out| frame::write_frame(out, OpCode::Text, &open));
            self.parts.line.scratch = open;
        }
        self.start_session(session);
        if matches!(protocol, Protocol::PlainJson | Protocol::PlainMsgpack) {
            self.open_plain(session);
        }
    }

    /// Writes the 101; `extra` are header lines beside those of the handshake.
    pub(crate) fn accept_websocket(
        &mut self,
        conn: ConnId,
        head: &Head<'_>,
        accept: &[u8; 28],
        subprotocol: Option<&str>,
        mut extra: Vec<u8>,
    ) {
        if let Some(agreed) = self.parts.agree_on_deflate(conn, head) {
            agreed.write_header(&mut extra);
        }
        self.parts.reply(conn, |out| {
            handshake::write_accept(out, accept, subprotocol, &extra);
        });
        self.parts.books.counts.websockets += 1;
        self.parts.forget_proxy(conn);
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.flags.websocket = true;
        }
    }

    pub(super) fn refuse_handshake(&mut self, conn: ConnId, refusal: handshake::Refusal) {
        self.parts.books.counts.refused += 1;
        if let Some(slot) = self.parts.line.conns.get_mut(conn) {
            slot.flags.keep_alive = false;
        }
        let (kind, text) = ("text/plain; charset=utf-8", refusal.text().as_bytes());
        self.respond(conn, refusal.status(), kind, refusal.headers(), text);
    }

    /// Takes complete frames off the front of `data`; returns how many bytes that were.
    pub(crate) fn on_frames(&mut self, conn: ConnId, data: &mut [u8]) -> usize {
        let Some((mut from, mut assembler, limits)) = self.begin_frames(conn) else {
            return data.len();
        };
        let (mut at, mut complete, mut inflated) = (0, false, 0);
        while at < data.len() {
            let (consumed, next) = match assembler.step(&mut data[at..], &limits) {
                Ok(Step::NeedMore { .. }) => break,
                Ok(Step::Fragment { consumed }) => (consumed, Next::Continue),
                Ok(Step::Message {
                    consumed,
                    compressed,
                    text,
                    message,
                }) => {
                    complete |= matches!(message, Message::Text(_) | Message::Binary(_));
                    let next = match message {
                        Message::Binary(payload) if compressed => {
                            self.on_compressed(from, payload, text, &limits, &mut inflated)
                        }
                        message => self.on_message(from, message),
                    };
                    let next = next.and(|| self.after_message(&mut from, inflated));
                    (consumed, next)
                }
                Err(violation) => (0, self.violated(from, violation)),
            };
            at += consumed;
            match next {
                Next::Continue => {}
                Next::Yield(limit) if at < data.len() => {
                    self.stall(conn, limit);
                    break;
                }
                Next::Yield(_) => {}
                Next::Stop => return data.len(),
            }
        }
        self.end_frames(conn, assembler, complete);
        at
    }

    /// Looks up what all frames of a read have in common.
    fn begin_frames(&mut self, conn: ConnId) -> Option<(Source, Assembler, Limits)> {
        let slot = self.parts.line.conns.get_mut(conn)?;
        let session = slot.session?;
        let (state, deflate) = (slot.state, slot.flags.inflates);
        let assembler = std::mem::take(&mut slot.assembler);
        let protocol = self.parts.people.sessions.get(session)?.protocol;
        let from = Source {
            conn,
            session,
            protocol,
            probes: state == State::Probe,
        };
        Some((from, assembler, self.message_limits(protocol, deflate)))
    }

    /// Whether the read goes on behind a message: it may have ended the connection, upgraded it, or filled the turn.
    #[inline]
    fn after_message(&mut self, from: &mut Source, inflated: usize) -> Next {
        match self.parts.line.conns.get(from.conn).map(|slot| slot.state) {
            Some(State::Probe) => {}
            Some(State::WebSocket) => from.probes = false,
            _ => return Next::Stop,
        }
        match self.parts.why_yield(inflated) {
            Some(limit) => Next::Yield(limit),
            None => Next::Continue,
        }
    }

    /// Keeps what is incomplete until the next read, and sees to its deadline.
    fn end_frames(&mut self, conn: ConnId, assembler: Assembler, complete: bool) {
        let mid_message = assembler.is_mid_message();
        let Some(slot) = self.parts.line.conns.get_mut(conn) else {
            return;
        };
        slot.assembler = assembler;
        if complete {
            slot.since_ms = 0;
        }
        if mid_message {
            self.watch_input(conn);
        }
    }

    fn message_limits(&self, protocol: Protocol, deflate: bool) -> Limits {
        let config = &self.parts.books.config;
        let message_bytes_max = match protocol {
            Protocol::PlainJson | Protocol::PlainMsgpack | Protocol::EventStream => {
                config.plain_max_payload
            }
            // Echo service of the conformance application; the suite sends 16 MiB.
            Protocol::Raw => 64 * 1024 * 1024,
            Protocol::SocketIo | Protocol::EngineIo => config.max_payload,
        };
        Limits {
            message_bytes_max,
            fragments_max: config.limits.fragments_max,
            masked: true,
            deflate,
        }
    }

    /// Inflates a message and takes it in; `inflated` grows by its bytes.
    #[cold]
    fn on_compressed(
        &mut self,
        from: Source,
        payload: &[u8],
        text: bool,
        limits: &Limits,
        inflated: &mut usize,
    ) -> Next {
        let mut message = std::mem::take(&mut self.parts.line.codecs.inflated);
        let bytes_max = limits.message_bytes_max;
        let result = match self
            .parts
            .inflate(from.conn, payload, bytes_max, &mut message)
        {
            Ok(()) if text => check_text(&message).map(Message::Text),
            Ok(()) => Ok(Message::Binary(&message)),
            Err(InflateError::TooBig) => Err(Violation::MessageTooBig),
            Err(InflateError::Corrupt) => Err(Violation::BadDeflate),
        };
        let next = match result {
            Ok(message) => self.on_message(from, message),
            Err(violation) => self.violated(from, violation),
        };
        *inflated += message.len();
        self.parts.line.codecs.recycle_inflated(message);
        next
    }

    #[inline]
    fn on_message(&mut self, from: Source, message: Message<'_>) -> Next {
        let Source { conn, session, .. } = from;
        match message {
            Message::Text(text) if from.probes => self.on_probe(conn, session, text),
            Message::Binary(_) if from.probes => {
                self.parts.abort_upgrade(session, conn);
                return Next::Stop;
            }
            Message::Text(text) if from.protocol.is_engineio() => {
                return self.on_text(session, text);
            }
            Message::Text(text) => self.on_data(session, Data::Text(text)),
            Message::Binary(bytes) => self.on_data(session, Data::Binary(bytes)),
            Message::Ping(payload) => self.on_ping(from, payload),
            // Engine.IO has a heartbeat of its own: a pong frame is no answer to its ping.
            Message::Pong(_) if from.protocol.is_engineio() => self.heard(session),
            Message::Pong(_) => self.on_pong(session),
            Message::Close(frame) => {
                let code = frame.map(|frame| frame.code);
                self.parts.reply(conn, |out| close::write(out, code, ""));
                self.parts.finish_conn(conn);
                self.ended(from, CloseReason::TransportClose);
                return Next::Stop;
            }
        }
        Next::Continue
    }

    fn on_ping(&mut self, from: Source, payload: &[u8]) {
        self.heard(from.session);
        // One pong at a time for a peer that does not read (RFC 6455 §5.5.3 allows answering the latest only).
        let slot = self.parts.line.conns.get(from.conn);
        if slot.is_some_and(|slot| !slot.outbox.is_blocked()) {
            self.parts.reply(from.conn, |out| {
                frame::write_frame(out, OpCode::Pong, payload);
            });
        }
    }

    /// The WebSocket is over, and with it the session, unless that goes on polling.
    fn ended(&mut self, from: Source, reason: CloseReason) {
        if from.probes {
            self.parts.abort_upgrade(from.session, from.conn);
        } else {
            self.parts.close_session(from.session, reason);
        }
    }

    #[inline]
    fn on_text(&mut self, session: SessionId, text: &str) -> Next {
        let taken = match engineio::parse_text(text) {
            Some((kind, data)) => self.on_engine_packet(session, kind, data),
            None => self.on_base64(session, text),
        };
        if !taken {
            self.parts.close_session(session, CloseReason::ParseError);
            return Next::Stop;
        }
        Next::Continue
    }

    /// `b` + base64 in a text frame: binary from clients that cannot send it.
    fn on_base64(&mut self, session: SessionId, text: &str) -> bool {
        let Some(text) = text.strip_prefix('b') else {
            return false;
        };
        let mut bytes = Vec::new();
        if engineio::payload::decode_base64(text, &mut bytes).is_err() {
            return false;
        }
        self.on_data(session, Data::Binary(&bytes));
        true
    }

    fn violated(&mut self, from: Source, violation: Violation) -> Next {
        let reason = match violation {
            Violation::InvalidUtf8 => CloseReason::InvalidUtf8,
            Violation::MessageTooBig => CloseReason::MessageTooBig,
            Violation::TooManyFragments => CloseReason::LimitExceeded,
            _ => CloseReason::ProtocolError,
        };
        match violation {
            Violation::MessageTooBig => self.parts.books.counts.hit(Limit::Payload),
            Violation::TooManyFragments => self.parts.books.counts.hit(Limit::Fragments),
            _ => {}
        }
        self.parts.reply(from.conn, |out| {
            close::write(out, Some(violation.close_code()), "")
        });
        self.parts.finish_conn(from.conn);
        self.ended(from, reason);
        Next::Stop
    }
}
