//! What a session's client says: Engine.IO packets, and the Socket.IO packets in them (protocol 4).
//!
//! HOT PATH: `on_event` allocates nothing for text.

use crate::access::claims::Claims;
use crate::books::close::{CloseReason, Departure};
use crate::books::config::Parser;
use crate::books::metrics::{Dropped, Limit};
use crate::cluster::letter::Answer;
use crate::dialect::speech::Word;
use crate::hub::Hub;
use crate::rooms::room::RoomKind;
use crate::seam::effect::{Effect, Notice};
use crate::seam::handler::{AckTo, ConnectRequest, Decision, Event, Refusal};
use crate::seam::opening::HeaderLines;
use crate::tables::session::{Partial, Protocol};
use crate::tables::slot::{SessionId, SocketKey};
use crate::tables::socket::Place;
use crate::tables::socket::{Extra, Socket};
use crate::tables::timer::SessionTimer;
use crate::transport::websocket::Data;
use smallvec::SmallVec;
use std::mem;
use wire::engineio::PacketType as EnginePacket;
use wire::json;
use wire::socketio::{self, Packet, PacketType, msgpack};
use wire::websocket::close;

impl Hub {
    /// One Engine.IO packet; `false` = a violation, the session ends with `parse error`.
    #[inline]
    pub(crate) fn on_engine_packet(
        &mut self,
        session: SessionId,
        kind: EnginePacket,
        data: &str,
    ) -> bool {
        match kind {
            EnginePacket::Message => self.on_data(session, Data::Text(data)),
            EnginePacket::Pong => self.on_pong(session),
            EnginePacket::Close => self.on_close_packet(session),
            // Pings go from server to client only (protocol 3.4).
            EnginePacket::Ping | EnginePacket::Open => return false,
            EnginePacket::Upgrade | EnginePacket::Noop => {}
        }
        true
    }

    fn on_close_packet(&mut self, session: SessionId) {
        let Some(slot) = self.parts.people.sessions.get(session) else {
            return;
        };
        let conn = slot.conn;
        if slot.polling.is_some() {
            self.client_closed_polling(session);
        } else {
            // The client said goodbye in Engine.IO's words; RFC 6455 §7.1.1 wants a close frame before the end of TCP all the same.
            self.parts.reply(conn, |out| close::write(out, None, ""));
            self.parts
                .close_session(session, CloseReason::TransportClose);
            if let Some(conn) = conn {
                self.parts.finish_conn(conn);
            }
        }
    }

    /// A message of whatever protocol the session speaks.
    #[inline]
    pub(crate) fn on_data(&mut self, session: SessionId, data: Data<'_>) {
        self.parts.books.counts.messages_in += 1;
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        if slot.flags.closing {
            // Only its last poll is waited for: nothing may join or send on its behalf.
            self.parts.books.counts.drop_message(Dropped::Invalid);
            return;
        }
        slot.flags.heard = true;
        let interrupted = slot.binary.is_some();
        match (slot.protocol, data) {
            (Protocol::SocketIo, _) if !slot.flags.heard_packet => self.on_first(session, data),
            (Protocol::SocketIo, data) if slot.flags.msgpack => self.on_msgpack(session, data),
            (Protocol::SocketIo, Data::Text(text)) => {
                self.on_packet_text(session, text, interrupted);
            }
            (Protocol::SocketIo, Data::Binary(bytes)) => self.on_attachment(session, bytes),
            (Protocol::PlainJson | Protocol::PlainMsgpack, data) => self.on_plain(session, data),
            // It cannot speak.
            (Protocol::EventStream, _) => {}
            (Protocol::EngineIo | Protocol::Raw, data) => {
                let key = self.parts.people.sessions.key(session);
                self.call(session, |handler, cx| handler.message(cx, key, data));
            }
        }
    }

    /// The first packet shows which parser the client has: text or MessagePack. Nobody changes it later.
    #[cold]
    fn on_first(&mut self, session: SessionId, data: Data<'_>) {
        let parser = match data {
            Data::Text(_) => Parser::Json,
            Data::Binary(_) => Parser::Msgpack,
        };
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        slot.flags.heard_packet = true;
        slot.flags.msgpack = parser == Parser::Msgpack;
        if !self.parts.books.config.speaks(parser) {
            return self.parse_error(session);
        }
        match data {
            Data::Text(text) => self.on_packet_text(session, text, false),
            Data::Binary(_) => self.on_msgpack(session, data),
        }
    }

    /// One packet of a client with the MessagePack parser.
    fn on_msgpack(&mut self, session: SessionId, data: Data<'_>) {
        let decoded = match data {
            Data::Binary(bytes) => msgpack::read(bytes),
            Data::Text(_) => None,
        };
        let Some(msgpack::Decoded { text, attachments }) = decoded else {
            return self.parse_error(session);
        };
        if attachments.len() > self.parts.books.config.limits.attachments_max {
            self.parts.books.counts.hit(Limit::Attachments);
            return self.parse_error(session);
        }
        match socketio::parse(&text) {
            Ok(packet) => self.on_packet(session, &packet, &attachments),
            Err(_) => self.parse_error(session),
        }
    }

    fn parse_error(&mut self, session: SessionId) {
        self.parts.books.counts.drop_message(Dropped::Invalid);
        self.parts.close_session(session, CloseReason::ParseError);
    }

    /// `interrupted`: attachments of an earlier packet are still to come.
    #[inline]
    fn on_packet_text(&mut self, session: SessionId, text: &str, interrupted: bool) {
        match socketio::parse(text) {
            // Nothing may come between a header and its attachments.
            Ok(_) if interrupted => self.parse_error(session),
            Ok(packet) if packet.attachments > 0 => self.announce_binary(session, text, &packet),
            Ok(packet) => self.on_packet(session, &packet, &[]),
            Err(socketio::ParseError::Attachments) => {
                self.parts.books.counts.hit(Limit::Attachments);
                self.parse_error(session);
            }
            // An event without any data is ignored, as the reference does.
            Err(_) if !interrupted && is_empty_event(text) => {
                self.parts.books.counts.drop_message(Dropped::Invalid)
            }
            Err(_) => self.parse_error(session),
        }
    }

    fn announce_binary(&mut self, session: SessionId, text: &str, packet: &Packet<'_>) {
        if packet.attachments > self.parts.books.config.limits.attachments_max {
            self.parts.books.counts.hit(Limit::Attachments);
            return self.parse_error(session);
        }
        let since_ms = self.parts.clock.now.mono_ms;
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
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
            let timeout = self.parts.books.config.limits.message_timeout;
            self.parts
                .arm_session(SessionTimer::Attachments, timeout, session);
        }
    }

    fn on_attachment(&mut self, session: SessionId, bytes: &[u8]) {
        let max = self.parts.books.config.max_payload;
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        let Some(partial) = slot.binary.as_mut() else {
            return self.parse_error(session);
        };
        // The text was a message within the bound; its attachments together have that bound once more, however many they are.
        if partial.attachment_bytes() + bytes.len() > max {
            self.parts.books.counts.hit(Limit::Payload);
            return self
                .parts
                .close_session(session, CloseReason::MessageTooBig);
        }
        partial.attachments.push(bytes.to_vec());
        if partial.attachments.len() < partial.wanted {
            return;
        }
        if let Some(partial) = slot.binary.take() {
            match socketio::parse(&partial.text) {
                Ok(packet) => self.on_packet(session, &packet, &partial.attachments),
                Err(_) => self.parse_error(session),
            }
        }
    }

    #[inline]
    pub(crate) fn on_packet(
        &mut self,
        session: SessionId,
        packet: &Packet<'_>,
        attachments: &[Vec<u8>],
    ) {
        let index = self.parts.socket_in(session, packet.namespace);
        let Some(index) = index else {
            return if let Some(ask) = self.gate(session, packet.namespace) {
                self.hold(session, ask, packet, attachments);
            } else if packet.kind != PacketType::Connect {
                self.on_stranger(session, packet.namespace);
            } else if self.connect_within_rates(session, packet.namespace) {
                self.on_connect(session, packet);
            };
        };
        let socket = self.parts.socket_key(index);
        let is_event = matches!(packet.kind, PacketType::Event | PacketType::BinaryEvent);
        let asked = packet.id.filter(|_| is_event);
        if packet.kind != PacketType::Disconnect && !self.within_rates(session, Some(socket), asked)
        {
            return;
        }
        match packet.kind {
            PacketType::Event | PacketType::BinaryEvent => {
                self.on_event(session, socket, packet, attachments);
            }
            PacketType::Ack | PacketType::BinaryAck => {
                if let Some(id) = packet.id {
                    self.on_ack(session, socket, id, inside(packet.data), attachments);
                }
            }
            PacketType::Disconnect => {
                self.parts.retire_socket(index, Departure::ByClient);
            }
            PacketType::Connect | PacketType::ConnectError => self.parse_error(session),
        }
    }

    /// A packet for a namespace the client is not in. Where the server removed it or did not let it in for a rate, the client may
    /// not know yet, and callbacks that hold an ack answer behind its own DISCONNECT: that is forgiven, and counts as a message.
    /// A namespace that it never was in is no such case.
    fn on_stranger(&mut self, session: SessionId, namespace: &str) {
        let slot = self.parts.people.sessions.get(session);
        let rare = slot.and_then(|slot| slot.rare.as_deref());
        if !rare.is_some_and(|rare| rare.has_parted(namespace)) {
            self.parse_error(session);
        } else if self.within_rates(session, None, None) {
            self.parts.books.counts.drop_message(Dropped::Invalid);
        }
    }

    #[inline]
    fn on_event(
        &mut self,
        session: SessionId,
        socket: SocketKey,
        packet: &Packet<'_>,
        attachments: &[Vec<u8>],
    ) {
        let event = socketio::event(packet.data);
        if self.on_refresh(session, socket, &event.name, event.args, packet.id) {
            return;
        }
        let event = Event {
            name: &event.name,
            args: event.args,
            attachments,
            room: None,
            ack: packet.id.map(|id| AckTo { socket, id }),
        };
        self.call(session, |handler, cx| handler.event(cx, socket, event));
    }

    pub(crate) fn on_ack(
        &mut self,
        session: SessionId,
        socket: SocketKey,
        id: u64,
        args: &str,
        attachments: &[Vec<u8>],
    ) {
        let answer = || Answer {
            args: args.to_owned(),
            attachments: attachments.to_vec(),
        };
        if let Some(token) = self.parts.acked(socket, id, answer) {
            self.call(session, |handler, cx| {
                handler.acked(cx, socket, token, args, attachments)
            });
        }
    }

    // ---- joining a namespace ----------------------------------------------------------------------------------------------

    fn on_connect(&mut self, session: SessionId, packet: &Packet<'_>) {
        if !self.has_room_for_socket(session) {
            return;
        }
        let slot = self.parts.people.sessions.get(session);
        let is_msgpack = slot.is_some_and(|slot| slot.flags.msgpack);
        if is_msgpack != (self.parts.books.config.parser_of(packet.namespace) == Parser::Msgpack) {
            let refusal = Refusal {
                message: "Invalid parser".to_owned(),
                data: None,
            };
            return self.refuse_namespace(session, packet.namespace, &refusal);
        }
        let auth = if packet.data.is_empty() {
            "{}"
        } else {
            packet.data
        };
        if self.parts.books.config.auth.enabled {
            self.authenticate(session, packet.namespace, auth);
        } else {
            self.join_namespace(session, packet.namespace, auth, None);
        }
    }

    /// `false`: the session has, or has asked for, as many sockets as it may, and is ended for wanting more.
    pub(crate) fn has_room_for_socket(&mut self, session: SessionId) -> bool {
        let max = self.parts.books.config.limits.sockets_per_session_max;
        let slot = self.parts.people.sessions.get(session);
        if slot.is_some_and(|slot| slot.sockets.len() + slot.gates.len() < max) {
            return true;
        }
        self.parts.books.counts.hit(Limit::SocketsPerSession);
        self.parts
            .close_session(session, CloseReason::LimitExceeded);
        false
    }

    /// Asks the handler whether the session may join.
    pub(crate) fn ask_handler(
        &mut self,
        session: SessionId,
        namespace: &str,
        auth: &str,
        claims: Option<&Claims>,
    ) -> Option<Decision> {
        let slot = self.parts.people.sessions.get_mut(session)?;
        let (protocol, peer) = (slot.protocol, slot.peer);
        let rare = slot.rare.as_mut();
        let (query, headers) = rare.map_or_else(Default::default, |rare| {
            (mem::take(&mut rare.query), mem::take(&mut rare.headers))
        });
        let request = ConnectRequest {
            namespace,
            auth,
            query: &query,
            headers: HeaderLines(&headers),
            protocol,
            peer,
            claims,
            session,
        };
        let answer = self.call(session, |handler, cx| handler.connecting(cx, &request));
        if !matches!(answer, Some(Decision::Later)) {
            // A ticket that nobody waits with.
            let ticket = self.parts.take_ticket();
            ticket.and_then(|key| self.parts.close_question(key));
        }
        let slot = self.parts.people.sessions.get_mut(session);
        if let Some(rare) = slot.and_then(|slot| slot.rare.as_mut()) {
            (rare.query, rare.headers) = (query, headers);
        }
        answer
    }

    /// Makes the socket of a session in a namespace.
    pub(crate) fn add_socket(
        &mut self,
        session: SessionId,
        namespace: &str,
        auth: &str,
        claims: Option<&Claims>,
    ) -> SocketKey {
        let namespace = self.parts.namespace(namespace);
        let room = self.parts.room(namespace, RoomKind::All, "");
        let id = self.parts.ids.socket(self.parts.clock.now.wall_ms);
        let keep = self.parts.books.config.keep_handshake && auth != "{}";
        let extra = keep.then(|| {
            Box::new(Extra {
                auth: Some(auth.into()),
                ..Extra::default()
            })
        });
        let (conn, variant) = self.parts.route(session);
        let deflate = self.parts.deflate_of(conn);
        let socket = self.parts.insert_socket(Socket {
            id,
            variant,
            deflate,
            gone: false,
            nameless: false,
            ending: false,
            conn,
            session,
            namespace,
            mark: 0,
            rooms: SmallVec::new(),
            place: Place::NOBODY,
            expires_s: 0,
            extra,
        });
        let sockets = &mut self.parts.people.sockets;
        self.parts.rooms.add_member(sockets, socket.id(), room);
        self.parts.books.counts.connects += 1;
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return socket;
        };
        slot.flags.joined = true;
        let notice = Notice::Connected {
            socket: id,
            peer: slot.peer,
            transport: slot.transport(),
            protocol: slot.protocol.name(),
            uid: claims.map(|claims| claims.uid.as_str().into()),
        };
        self.parts.outbound.effects.push(Effect::Log(notice));
        socket
    }

    /// The CONNECT reply with the socket's id.
    pub(crate) fn greet(&mut self, session: SessionId, socket: SocketKey, namespace: &str) {
        let Some(id) = self.parts.socket(socket).map(|slot| slot.id.encode()) else {
            return;
        };
        let mut data = *b"{\"sid\":\"....................\"}";
        data[8..28].copy_from_slice(&id);
        let data = std::str::from_utf8(&data).unwrap_or_default();
        let word = Word::control(PacketType::Connect, namespace, data);
        self.parts.say(session, &word);
    }

    pub(crate) fn refuse_namespace(
        &mut self,
        session: SessionId,
        namespace: &str,
        refusal: &Refusal,
    ) {
        let refusals_max = self.parts.books.config.limits.namespace_refusals_max;
        let Some(slot) = self.parts.people.sessions.get_mut(session) else {
            return;
        };
        let refusals = &mut slot.rare.get_or_insert_default().refusals;
        *refusals = refusals.saturating_add(1);
        if *refusals > refusals_max {
            self.parts.books.counts.hit(Limit::NamespaceRefusals);
            return self
                .parts
                .close_session(session, CloseReason::LimitExceeded);
        }
        self.send_refusal(session, namespace, refusal);
    }

    /// The CONNECT_ERROR reply.
    pub(crate) fn send_refusal(&mut self, session: SessionId, namespace: &str, refusal: &Refusal) {
        let mut data = b"{\"message\":".to_vec();
        json::quote(&mut data, &refusal.message);
        if let Some(more) = &refusal.data {
            data.extend_from_slice(b",\"data\":");
            data.extend_from_slice(more.as_bytes());
        }
        data.push(b'}');
        let data = String::from_utf8_lossy(&data);
        let word = Word::control(PacketType::ConnectError, namespace, &data);
        self.parts.say(session, &word);
    }
}

/// `2`, `2/lab,` or `2/lab,7`: an event packet that ends before its array.
fn is_empty_event(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('2') else {
        return false;
    };
    let rest = match rest.strip_prefix('/') {
        Some(rest) => rest.split_once(',').map_or("", |(_, rest)| rest),
        None => rest,
    };
    rest.bytes().all(|byte| byte.is_ascii_digit())
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
