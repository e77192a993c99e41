//! What clients of Socket.IO say: packets, and the attachments that follow them (protocol 4).
//!
//! HOT PATH: `on_packet` allocates nothing for text.

use crate::books::close::{CloseReason, Departure};
use crate::books::config::Parser;
use crate::books::metrics::{Dropped, Limit};
use crate::clients::session::Partial;
use crate::hearing::{booking, event, joining};
use crate::life::{ending, opening};
use crate::parts::Parts;
use crate::recovery::shown;
use crate::seam::event::{Caller, Data, Event, Refusal};
use crate::seam::gate;
use crate::seam::join::Held;
use crate::seam::stage::Stage;
use crate::tables::slot::SessionId;
use crate::tables::timer::SessionTimer;
use std::mem;
use wire::socketio::{self, Packet, PacketType, msgpack};
use wire::{http, json};

/// A session of protocol 3 is in `/` without asking for it: its CONNECT is said in its place. Its parser is the one for text.
pub(crate) fn begin_session(stage: &mut Stage, session: SessionId) {
    let slot = stage.parts.people.sessions.get_mut(session);
    let Some(slot) = slot.filter(|slot| slot.language.is_three()) else {
        return;
    };
    slot.language.settle_parser(false);
    let packet = Packet {
        kind: PacketType::Connect,
        attachments: 0,
        namespace: "/",
        id: None,
        data: "",
    };
    outside(stage, session, &packet, &[]);
}

/// The first packet has shown which parser the client has: text or MessagePack. Nobody changes it later.
#[cold]
pub(crate) fn on_first(stage: &mut Stage, session: SessionId, data: Data<'_>) {
    let parser = match data {
        Data::Text(_) => Parser::Json,
        Data::Binary(_) => Parser::Msgpack,
    };
    if !stage.parts.books.config.speaks(parser) {
        return parse_error(&mut stage.parts, session);
    }
    match data {
        Data::Text(text) => on_packet_text(stage, session, text, false),
        Data::Binary(_) => on_msgpack(stage, session, data),
    }
}

/// One packet of a client with the MessagePack parser.
pub(crate) fn on_msgpack(stage: &mut Stage, session: SessionId, data: Data<'_>) {
    let decoded = match data {
        Data::Binary(bytes) => msgpack::read(bytes),
        Data::Text(_) => None,
    };
    let Some(msgpack::Decoded { text, attachments }) = decoded else {
        return parse_error(&mut stage.parts, session);
    };
    if attachments.len() > stage.parts.books.config.limits.attachments_max {
        stage.parts.books.counts.hit(Limit::Attachments);
        return parse_error(&mut stage.parts, session);
    }
    match socketio::parse(&text) {
        Ok(packet) => on_packet(stage, session, &packet, &attachments),
        Err(_) => parse_error(&mut stage.parts, session),
    }
}

/// A message that is no packet ends the session. A session that waits for its handler's decision gets the decision first.
#[cold]
fn on_broken(parts: &mut Parts, session: SessionId, text: &str) {
    let slot = parts.people.sessions.get(session);
    match slot.and_then(|slot| gate::decided_by_handler(&parts.outbound.asks, slot)) {
        Some(ask) => gate::keep(parts, session, ask, Held::broken(text)),
        None => parse_error(parts, session),
    }
}

pub(crate) fn parse_error(parts: &mut Parts, session: SessionId) {
    parts.books.counts.drop_message(Dropped::Invalid);
    ending::close_session(parts, session, CloseReason::ParseError);
}

/// `interrupted`: attachments of an earlier packet are still to come.
#[inline]
pub(crate) fn on_packet_text(stage: &mut Stage, session: SessionId, text: &str, interrupted: bool) {
    match socketio::parse(text) {
        // Nothing may come between a header and its attachments.
        Ok(_) if interrupted => parse_error(&mut stage.parts, session),
        Ok(packet) if packet.attachments > 0 => {
            announce_binary(&mut stage.parts, session, text, &packet)
        }
        Ok(packet) => on_packet(stage, session, &packet, &[]),
        Err(socketio::ParseError::Attachments) => {
            stage.parts.books.counts.hit(Limit::Attachments);
            parse_error(&mut stage.parts, session);
        }
        // An event without any data is ignored, as the reference does.
        Err(socketio::ParseError::Empty) if !interrupted => {
            stage.parts.books.counts.drop_message(Dropped::Invalid)
        }
        Err(_) if interrupted => parse_error(&mut stage.parts, session),
        Err(_) => on_broken(&mut stage.parts, session, text),
    }
}

fn announce_binary(parts: &mut Parts, session: SessionId, text: &str, packet: &Packet<'_>) {
    if packet.attachments > parts.books.config.limits.attachments_max {
        parts.books.counts.hit(Limit::Attachments);
        return parse_error(parts, session);
    }
    let since_ms = parts.clock.now.mono_ms;
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    slot.binary = Some(Box::new(Partial {
        text: text.into(),
        wanted: packet.attachments,
        attachments: Vec::new(),
        since_ms,
    }));
    // One timer per session, however many packets: a peer must not fill the lane.
    if !mem::replace(&mut slot.flags.attachments_timer, true) {
        let timeout = parts.books.config.limits.message_timeout;
        parts.people.sessions.arm(
            &mut parts.clock,
            SessionTimer::Attachments,
            timeout,
            session,
        );
    }
}

pub(crate) fn on_attachment(stage: &mut Stage, session: SessionId, bytes: &[u8]) {
    let max = stage.parts.books.config.max_payload;
    let Some(slot) = stage.parts.people.sessions.get_mut(session) else {
        return;
    };
    let Some(partial) = slot.binary.as_mut() else {
        return parse_error(&mut stage.parts, session);
    };
    // The text was a message within the bound; its attachments together have that bound once more, however many they are.
    if partial.attachment_bytes() + bytes.len() > max {
        stage.parts.books.counts.hit(Limit::Payload);
        return ending::close_session(&mut stage.parts, session, CloseReason::MessageTooBig);
    }
    partial.attachments.push(bytes.to_vec());
    if partial.attachments.len() < partial.wanted {
        return;
    }
    if let Some(partial) = slot.binary.take() {
        // A packet borrows its text, so the text was kept and is parsed again.
        match socketio::parse(&partial.text) {
            Ok(packet) => on_packet(stage, session, &packet, &partial.attachments),
            Err(_) => parse_error(&mut stage.parts, session),
        }
    }
}

#[inline]
pub(crate) fn on_packet(
    stage: &mut Stage,
    session: SessionId,
    packet: &Packet<'_>,
    attachments: &[Vec<u8>],
) {
    let Some(socket) = stage.parts.people.socket_in(session, packet.namespace) else {
        return outside(stage, session, packet, attachments);
    };
    let from = Caller { session, socket };
    let is_event = matches!(packet.kind, PacketType::Event | PacketType::BinaryEvent);
    let asked = packet.id.filter(|_| is_event);
    // A client over its rate may leave all the same.
    if packet.kind != PacketType::Disconnect
        && !booking::within_rates(&mut stage.parts, from, asked)
    {
        return refuse(stage, from, packet);
    }
    match packet.kind {
        PacketType::Event | PacketType::BinaryEvent => {
            let said = socketio::event(packet.data);
            let said = Event {
                name: &said.name,
                args: said.args,
                attachments,
                room: None,
                ack: from.ack(asked),
            };
            event::on_event(stage, from, said);
        }
        PacketType::Ack | PacketType::BinaryAck => match packet.id {
            Some(id) => event::on_ack(stage, from, id, inside(packet.data), attachments),
            // Nobody asked for it: it is ignored, as the reference does.
            None => stage.parts.books.counts.drop_message(Dropped::Invalid),
        },
        PacketType::Disconnect => {
            ending::retire_socket(&mut stage.parts, socket.id(), Departure::ByClient);
        }
        // A second CONNECT to a namespace closes the transport, as with Node's server.
        PacketType::Connect | PacketType::ConnectError => parse_error(&mut stage.parts, session),
    }
}

/// A packet is over a rate, and its sender was told.
#[cold]
fn refuse(stage: &mut Stage, from: Caller, packet: &Packet<'_>) {
    let is_ack = matches!(packet.kind, PacketType::Ack | PacketType::BinaryAck);
    if let Some(id) = packet.id.filter(|_| is_ack) {
        event::refuse_ack(stage, from, id, booking::OVER_RATE);
    }
}

/// A packet for a namespace that the client is not in, or not yet.
#[cold]
fn outside(stage: &mut Stage, session: SessionId, packet: &Packet<'_>, attachments: &[Vec<u8>]) {
    let parts = &mut stage.parts;
    let Some(slot) = parts.people.sessions.get(session) else {
        return;
    };
    if slot.language.is_three()
        && packet.kind == PacketType::Connect
        && let Some((namespace, query)) = packet.namespace.split_once('?')
    {
        let data = &auth_of(query);
        // Escaping makes it longer than the message that it came in, which was within the bound.
        if data.len() > parts.books.config.max_payload {
            parts.books.counts.hit(Limit::Payload);
            return ending::close_session(parts, session, CloseReason::MessageTooBig);
        }
        let packet = Packet {
            namespace,
            data,
            ..*packet
        };
        return on_packet(stage, session, &packet, attachments);
    }
    let namespace = packet.namespace;
    if let Some(ask) = gate::gate(&parts.outbound.asks, slot, namespace) {
        gate::hold(parts, session, ask, packet, attachments);
    } else if packet.kind != PacketType::Connect {
        let rare = slot.rare.as_deref();
        let was_in = rare.is_some_and(|rare| rare.has_parted(namespace));
        on_stranger(parts, session, was_in);
    } else if booking::connect_within_rates(parts, session, namespace) {
        on_connect(stage, session, packet);
    }
}

/// The query of a namespace, which clients of protocol 3 send, as the payload of a CONNECT: its parameters as an object of strings.
/// Of a name that comes twice the last value counts, as in `JSON.parse`.
fn auth_of(query: &str) -> String {
    let mut auth = b"{".to_vec();
    for (name, value) in http::query_pairs(query) {
        if auth.len() > 1 {
            auth.push(b',');
        }
        json::quote(&mut auth, &name);
        auth.push(b':');
        json::quote(&mut auth, &value);
    }
    auth.push(b'}');
    String::from_utf8_lossy(&auth).into_owned()
}

/// A packet for a namespace that the client is not in. One for a namespace that it left counts as a message: the client may not know yet
/// that the server removed it or did not let it in for a rate, and its callbacks may answer after its own DISCONNECT. One for any other
/// namespace is an error.
fn on_stranger(parts: &mut Parts, session: SessionId, was_in: bool) {
    if !was_in {
        parse_error(parts, session);
    } else if booking::stranger_within_rates(parts, session) {
        parts.books.counts.drop_message(Dropped::Invalid);
    }
}

fn on_connect(stage: &mut Stage, session: SessionId, packet: &Packet<'_>) {
    let parts = &mut stage.parts;
    let (config, slot) = (&parts.books.config, parts.people.sessions.get(session));
    let Some(slot) = slot.filter(|slot| slot.may_join(config.limits.sockets_per_session_max))
    else {
        return joining::wants_too_many(parts, session);
    };
    let recovers = config.recovery.of(packet.namespace);
    let recovers = recovers.is_some() && !slot.language.is_three();
    if slot.language.is_msgpack() != (config.parser_of(packet.namespace) == Parser::Msgpack) {
        let refusal = Refusal {
            message: "Invalid parser".to_owned(),
            data: None,
        };
        return opening::refuse_namespace(parts, session, packet.namespace, &refusal);
    }
    let auth = if packet.data.is_empty() {
        "{}"
    } else {
        packet.data
    };
    let (auth, shown) = match recovers {
        // The name of its socket is a secret: nobody else sees it.
        true => shown::take_out(auth),
        false => (auth.into(), None),
    };
    if parts.books.config.auth.enabled {
        joining::authenticate(stage, session, packet.namespace, &auth, shown);
    } else {
        joining::join_namespace(stage, session, packet.namespace, &auth, None, shown);
    }
}

/// The elements of an array's text, without its brackets.
fn inside(array: &str) -> &str {
    let array = array.trim();
    array
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or("")
        .trim()
}
