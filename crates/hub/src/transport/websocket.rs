//! WebSocket connections: opening them, and taking in their frames.
//!
//! HOT PATH: `on_frames` and `on_message` allocate nothing for whole text messages.

use crate::books::close::CloseReason;
use crate::books::config::Config;
use crate::books::metrics::Limit;
use crate::bounds::ECHO_BYTES_MAX;
use crate::clients::conn::State;
use crate::clients::session::Protocol;
use crate::hearing::message;
use crate::life::{conns, ending, heartbeat};
use crate::parts::Parts;
use crate::seam::event::Data;
use crate::seam::stage::Stage;
use crate::tables::slot::{ConnId, SessionId};
use crate::transport::{engine, pace, stash, upgrade};
use wire::engineio::{self, Revision};
use wire::websocket::deflate::InflateError;
use wire::websocket::frame::{self, OpCode};
use wire::websocket::message::{Assembler, Limits, Message, Step, check_text};
use wire::websocket::violation::Violation;

/// Whether a read goes on after a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    /// What follows the frame waits for the next turn.
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
    revision: Revision,
    /// It is not the session's transport yet.
    probes: bool,
}

/// Takes complete frames off the front of `data`; returns how many bytes that were.
pub(crate) fn on_frames(stage: &mut Stage, conn: ConnId, data: &mut [u8]) -> usize {
    let Some((mut from, mut assembler, limits)) = begin_frames(&mut stage.parts, conn) else {
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
                    // Whether this is text is looked at after it is inflated.
                    Message::Binary(payload) if compressed => {
                        on_compressed(stage, from, payload, text, &limits, &mut inflated)
                    }
                    message => on_message(stage, from, message),
                };
                let next = next.and(|| after_message(&mut stage.parts, &mut from, inflated));
                (consumed, next)
            }
            Err(violation) => (0, violated(&mut stage.parts, from, violation)),
        };
        at += consumed;
        match next {
            Next::Continue => {}
            Next::Yield(limit) if at < data.len() => {
                stash::stall(&mut stage.parts, conn, limit);
                break;
            }
            // Nothing is left to put off.
            Next::Yield(_) => {}
            // The connection reads no more frames, so the assembler does not go back.
            Next::Stop => return data.len(),
        }
    }
    end_frames(&mut stage.parts, conn, assembler, complete);
    at
}

/// Looks up what all frames of a read have in common.
fn begin_frames(parts: &mut Parts, conn: ConnId) -> Option<(Source, Assembler, Limits)> {
    let slot = parts.line.conns.get_mut(conn)?;
    let session = slot.session?;
    let (state, deflate) = (slot.state, slot.handshake.inflates());
    let assembler = std::mem::take(&mut slot.assembler);
    let slot = parts.people.sessions.get(session)?;
    let (protocol, revision) = (slot.language.protocol(), slot.language.revision());
    let from = Source {
        conn,
        session,
        protocol,
        revision,
        probes: state == State::Probe,
    };
    Some((
        from,
        assembler,
        message_limits(&parts.books.config, protocol, deflate),
    ))
}

/// Whether the read goes on after a message: it may have ended the connection, upgraded it, or filled the turn.
#[inline]
fn after_message(parts: &mut Parts, from: &mut Source, inflated: usize) -> Next {
    match parts.line.conns.get(from.conn).map(|slot| slot.state) {
        Some(State::Probe) => {}
        Some(State::WebSocket) => from.probes = false,
        _ => return Next::Stop,
    }
    match pace::why_yield(parts, inflated) {
        Some(limit) => Next::Yield(limit),
        None => Next::Continue,
    }
}

/// Keeps what is incomplete until the next read, and sees to its deadline.
fn end_frames(parts: &mut Parts, conn: ConnId, assembler: Assembler, complete: bool) {
    let mid_message = assembler.is_mid_message();
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return;
    };
    slot.assembler = assembler;
    if complete {
        slot.unread.complete();
    }
    if mid_message {
        stash::watch_input(parts, conn);
    }
}

fn message_limits(config: &Config, protocol: Protocol, deflate: bool) -> Limits {
    let message_bytes_max = match protocol {
        Protocol::PlainJson
        | Protocol::PlainMsgpack
        | Protocol::PlainRaw
        | Protocol::EventStream => config.plain_max_payload,
        Protocol::Raw => ECHO_BYTES_MAX,
        Protocol::SocketIo | Protocol::EngineIo => config.max_payload,
    };
    Limits {
        message_bytes_max,
        fragments_max: config.limits.fragments_max,
        // RFC 6455 §5.1: a client that does not mask its frames is in violation.
        masked: true,
        deflate,
    }
}

/// Inflates a message and takes it in; `inflated` grows by its bytes.
#[cold]
fn on_compressed(
    stage: &mut Stage,
    from: Source,
    payload: &[u8],
    text: bool,
    limits: &Limits,
    inflated: &mut usize,
) -> Next {
    let mut message = std::mem::take(&mut stage.parts.line.codecs.inflated);
    let bytes_max = limits.message_bytes_max;
    let result = match stage.parts.line.inflate(
        &mut stage.parts.books,
        from.conn,
        payload,
        bytes_max,
        &mut message,
    ) {
        Ok(()) if text => check_text(&message).map(Message::Text),
        Ok(()) => Ok(Message::Binary(&message)),
        Err(InflateError::TooBig) => Err(Violation::MessageTooBig),
        Err(InflateError::Corrupt) => Err(Violation::BadDeflate),
    };
    let next = match result {
        Ok(message) => on_message(stage, from, message),
        Err(violation) => violated(&mut stage.parts, from, violation),
    };
    *inflated += message.len();
    stage.parts.line.codecs.recycle_inflated(message);
    next
}

#[inline]
fn on_message(stage: &mut Stage, from: Source, message: Message<'_>) -> Next {
    let Source { conn, session, .. } = from;
    match message {
        Message::Text(text) if from.probes => {
            upgrade::on_probe(&mut stage.parts, conn, session, text)
        }
        Message::Binary(_) if from.probes => {
            ending::abort_upgrade(&mut stage.parts, session, conn);
            return Next::Stop;
        }
        Message::Text(text) if from.protocol.is_engineio() => {
            return on_text(stage, session, text);
        }
        Message::Binary(bytes) if from.revision == Revision::Three => {
            return match engine::on_binary3(stage, session, bytes) {
                true => Next::Continue,
                false => not_engineio(stage, session),
            };
        }
        Message::Text(text) => message::on_data(stage, session, Data::Text(text)),
        Message::Binary(bytes) => message::on_data(stage, session, Data::Binary(bytes)),
        Message::Ping(payload) => on_ping(&mut stage.parts, from, payload),
        // Engine.IO has a heartbeat of its own: a pong frame is no answer to its ping.
        Message::Pong(_) if from.protocol.is_engineio() => {
            heartbeat::heard(&mut stage.parts.people, session)
        }
        Message::Pong(payload) => heartbeat::on_pong_frame(&mut stage.parts, session, payload),
        Message::Close(frame) => {
            let code = frame.map(|frame| frame.code);
            // RFC 6455 §5.5.1: the answer repeats the status code.
            conns::say_goodbye(&mut stage.parts, conn, code, "");
            ended(&mut stage.parts, from, CloseReason::TransportClose);
            return Next::Stop;
        }
    }
    Next::Continue
}

fn on_ping(parts: &mut Parts, from: Source, payload: &[u8]) {
    heartbeat::heard(&mut parts.people, from.session);
    // One pong at a time for a peer that does not read (RFC 6455 §5.5.3 allows answering the latest only).
    let slot = parts.line.conns.get(from.conn);
    if slot.is_some_and(|slot| !slot.outbox.is_blocked()) {
        parts.line.reply(from.conn, |out| {
            frame::write_frame(out, OpCode::Pong, payload);
        });
    }
}

/// The WebSocket is over, and with it the session, unless that goes on polling.
fn ended(parts: &mut Parts, from: Source, reason: CloseReason) {
    if from.probes {
        ending::abort_upgrade(parts, from.session, from.conn);
    } else {
        ending::close_session(parts, from.session, reason);
    }
}

#[inline]
fn on_text(stage: &mut Stage, session: SessionId, text: &str) -> Next {
    let taken = match engineio::parse_text(text) {
        Some((kind, data)) => engine::on_engine_packet(stage, session, kind, data),
        None => engine::on_base64(stage, session, text),
    };
    match taken {
        true => Next::Continue,
        false => not_engineio(stage, session),
    }
}

fn not_engineio(stage: &mut Stage, session: SessionId) -> Next {
    ending::close_session(&mut stage.parts, session, CloseReason::ParseError);
    Next::Stop
}

fn violated(parts: &mut Parts, from: Source, violation: Violation) -> Next {
    let reason = match violation {
        Violation::InvalidUtf8 => CloseReason::InvalidUtf8,
        Violation::MessageTooBig => CloseReason::MessageTooBig,
        Violation::TooManyFragments => CloseReason::LimitExceeded,
        _ => CloseReason::ProtocolError,
    };
    match violation {
        Violation::MessageTooBig => parts.books.counts.hit(Limit::Payload),
        Violation::TooManyFragments => parts.books.counts.hit(Limit::Fragments),
        _ => {}
    }
    // The close frame names the violation. The end of the session writes none after it.
    conns::say_goodbye(parts, from.conn, Some(violation.close_code()), "");
    ended(parts, from, reason);
    Next::Stop
}
