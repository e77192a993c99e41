//! The plain protocol's side of a session: JSON or MessagePack messages become the same events as Socket.IO packets.

use crate::access::claims::Claims;
use crate::books::close::CloseReason;
use crate::hub::Hub;
use crate::seam::context::{About, Rejection};
use crate::seam::handler::{AckTo, Decision, Event, Refusal};
use crate::seam::question::Waiting;
use crate::tables::session::Protocol;
use crate::tables::slot::{ConnId, SessionId, SocketKey};
use crate::transport::websocket::Data;
use wire::json;
use wire::plain::{self, Incoming, Invalid};
use wire::websocket::close;

impl Hub {
    /// A plain session has one socket from the start, or from when its token was found good.
    pub(crate) fn open_plain(&mut self, session: SessionId) {
        if self.parts.books.config.auth.enabled {
            self.authenticate_plain(session);
        } else {
            self.begin_plain(session, None);
        }
    }

    pub(crate) fn begin_plain(&mut self, session: SessionId, claims: Option<&Claims>) {
        let namespace = self.parts.books.config.plain_namespace.clone();
        match self.ask_handler(session, &namespace, "{}", claims) {
            Some(Decision::Admit) => self.enter_plain(session, claims),
            Some(Decision::Refuse(refusal)) => self.keep_out_plain(session, &refusal),
            Some(Decision::Later) => match self.parts.take_ticket() {
                Some(key) => {
                    let claims = claims.cloned().map(Box::new);
                    self.parts.wait_for(key, Waiting::Begin(claims));
                    self.set_asking(session, true);
                }
                None => self.keep_out_plain(session, &Refusal::unavailable()),
            },
            None => {}
        }
    }

    /// Frames of a plain client wait while somebody is asked about it. Returns its connection.
    pub(crate) fn set_asking(&mut self, session: SessionId, asking: bool) -> Option<ConnId> {
        let slot = self.parts.people.sessions.get(session)?;
        let conn = slot.conn?;
        self.parts.line.conns.get_mut(conn)?.flags.asking = asking;
        Some(conn)
    }

    /// The handler decided about a plain session that waited.
    pub(crate) fn on_beginning_decided(
        &mut self,
        session: SessionId,
        claims: Option<Box<Claims>>,
        decision: Result<(), Refusal>,
    ) {
        let conn = self.set_asking(session, false);
        match decision {
            Ok(()) => self.enter_plain(session, claims.as_deref()),
            Err(refusal) => self.keep_out_plain(session, &refusal),
        }
        if let Some(conn) = conn {
            self.revive(conn);
        }
    }

    fn enter_plain(&mut self, session: SessionId, claims: Option<&Claims>) {
        if !self.parts.is_open(session) {
            return;
        }
        let namespace = self.parts.books.config.plain_namespace.clone();
        let socket = self.add_socket(session, &namespace, "{}", claims);
        if let Some(claims) = claims {
            self.parts.grant(socket, claims);
        }
        let stream = self.begin_stream(session);
        self.call(session, |handler, cx| handler.connected(cx, socket, "{}"));
        if let Some(rooms) = stream {
            self.join_stream(session, socket, &rooms);
        }
    }

    fn keep_out_plain(&mut self, session: SessionId, refusal: &Refusal) {
        if self.refuse_stream(session, 403, &refusal.message) {
            return self.parts.close_session(session, CloseReason::ServerClose);
        }
        let slot = self.parts.people.sessions.get(session);
        let Some(conn) = slot.and_then(|slot| slot.conn) else {
            return;
        };
        self.parts
            .reply(conn, |out| close::write(out, Some(1008), &refusal.message));
        self.parts.finish_conn(conn);
        self.parts.close_session(session, CloseReason::ServerClose);
    }

    pub(crate) fn on_plain(&mut self, session: SessionId, data: Data<'_>) {
        let Some(slot) = self.parts.people.sessions.get(session) else {
            return;
        };
        let Some(socket) = slot
            .sockets
            .first()
            .map(|index| self.parts.socket_key(*index))
        else {
            return;
        };
        let incoming = match (slot.protocol, data) {
            (Protocol::PlainMsgpack, Data::Binary(bytes)) => plain::parse_msgpack(bytes),
            (_, Data::Text(text)) => plain::parse_json(text),
            _ => Err(Invalid::default()),
        };
        let asked = match &incoming {
            Ok(
                Incoming::Join { id, .. } | Incoming::Leave { id, .. } | Incoming::Event { id, .. },
            ) => *id,
            Ok(Incoming::Ack { .. }) => None,
            Err(invalid) => invalid.id,
        };
        if !self.within_rates(session, Some(socket), asked) {
            return;
        }
        match incoming {
            Ok(incoming) => self.on_incoming(session, socket, incoming),
            Err(invalid) => {
                self.parts.books.counts.invalid_messages += 1;
                let rejection = Rejection::Refused {
                    message: invalid.message(),
                    code: "INVALID_MESSAGE_FORMAT",
                };
                let about = About {
                    id: invalid.id,
                    field: invalid.field,
                };
                self.call(session, |_, cx| cx.reject_message(socket, rejection, about));
            }
        }
    }

    fn on_incoming(&mut self, session: SessionId, socket: SocketKey, incoming: Incoming<'_>) {
        match incoming {
            Incoming::Join { room, id } => self.on_room_request(session, socket, "join", &room, id),
            Incoming::Leave { room, id } => {
                self.on_room_request(session, socket, "leave", &room, id);
            }
            Incoming::Event {
                name,
                room,
                args,
                attachments,
                id,
            } => {
                if self.on_refresh(session, socket, &name, &args, id) {
                    return;
                }
                let event = Event {
                    name: &name,
                    args: &args,
                    attachments: &attachments,
                    room: room.as_deref(),
                    ack: id.map(|id| AckTo { socket, id }),
                };
                self.call(session, |handler, cx| handler.event(cx, socket, event));
            }
            Incoming::Ack {
                id,
                args,
                attachments,
            } => {
                self.on_ack(session, socket, id, &args, &attachments);
            }
        }
    }

    /// `join` and `leave` are events with the room's name as argument, as stock Socket.IO clients emit them.
    pub(crate) fn on_room_request(
        &mut self,
        session: SessionId,
        socket: SocketKey,
        name: &str,
        room: &str,
        id: Option<u64>,
    ) {
        let mut args = Vec::new();
        json::quote(&mut args, room);
        let args = String::from_utf8_lossy(&args);
        let event = Event {
            name,
            args: &args,
            attachments: &[],
            room: None,
            ack: id.map(|id| AckTo { socket, id }),
        };
        self.call(session, |handler, cx| handler.event(cx, socket, event));
    }
}
