//! What a handler can do. Everything is queued: nothing a handler does calls a handler.

use crate::books::close::CloseReason;
use crate::books::metrics::{Dropped, Limit};
use crate::clients::socket::Extra;
use crate::cluster::letter::Target;
use crate::cluster::{asking, send};
use std::sync::Arc;

pub use crate::dialect::speech::Emit;
use crate::life::ending;
use crate::output::backlog::Fate;
use crate::parts::Parts;
use crate::rooms::membership::JoinError;
use crate::rooms::outgoing::Outgoing;
use crate::seam::effect::Brief;
use crate::seam::effect::Notice;
use crate::seam::event::{AckTo, Data};
use crate::seam::inside::Inside;
use crate::seam::{notices, orders};
use crate::tables::clock::Now;
use crate::tables::slot::{SessionKey, SocketKey};
use std::time::Duration;
use wire::engineio::payload;
use wire::websocket::frame::{self, OpCode};
use wire::{json, plain, socketio};

/// Why a client's event was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection<'a> {
    /// `message` is for people: `Rate limit exceeded: 10 messages/second`.
    RateLimited {
        /// For people.
        message: &'a str,
        /// When the next one may pass.
        retry_after_s: u64,
    },
    /// Everything else; `code` is what plain clients see.
    Refused {
        /// For people.
        message: &'a str,
        /// For programs.
        code: &'a str,
    },
}

impl<'a> Rejection<'a> {
    /// What programs tell it by.
    pub fn code(self) -> &'a str {
        match self {
            Self::RateLimited { .. } => "RATE_LIMIT_EXCEEDED",
            Self::Refused { code, .. } => code,
        }
    }
}

/// Which message of a client a rejection is about. Plain clients are told.
#[derive(Clone, Copy, Debug, Default)]
pub struct About<'a> {
    /// The id by which the client asked for an ack.
    pub id: Option<u64>,
    /// The member of the message that is at fault.
    pub field: Option<&'a str>,
}

/// What a handler acts with, for the time of one call.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) parts: &'a mut Parts,
}

impl Context<'_> {
    /// The time of the turn.
    pub fn now(&self) -> Now {
        let _inside = Inside::enter();
        self.parts.clock.now
    }

    /// A unique, increasing number for messages.
    pub fn message_id(&mut self) -> u64 {
        let _inside = Inside::enter();
        self.parts.ids.message(self.parts.clock.now.wall_ms)
    }

    // ---- one socket ---------------------------------------------------------------------------------------------------

    /// Sends an event to one socket of this shard.
    pub fn emit(&mut self, to: SocketKey, emit: &Emit<'_>) {
        let _inside = Inside::enter();
        if self.may_emit(emit) {
            self.emit_with(to, emit, None, None);
        }
    }

    /// Names that only the libraries may emit would end the sessions of all receivers: such an event is not sent, and
    /// operators are told.
    #[inline]
    pub(crate) fn may_emit(&mut self, emit: &Emit<'_>) -> bool {
        let reserved = socketio::reserved(emit.name);
        if let Some(name) = reserved {
            let notice = Notice::ReservedEvent { name };
            self.parts.outbound.log(notice);
        }
        reserved.is_none()
    }

    /// `about`: the room that the socket is told about.
    pub(crate) fn emit_with(
        &mut self,
        to: SocketKey,
        emit: &Emit<'_>,
        ack: Option<u64>,
        about: Option<&str>,
    ) {
        let Some(socket) = self.parts.people.socket(to) else {
            return;
        };
        let Some(namespace) = self.parts.people.label(socket.namespace) else {
            return;
        };
        // The name is short and borrowed for the call only; `deliver` needs the tables for itself.
        let namespace = Arc::clone(namespace);
        let mut out = Outgoing::new(&namespace, emit);
        out.ack = ack;
        out.about = about;
        let exempt = &self.parts.books.config.compression.exempt;
        out.exempt = exempt.holds(&namespace, about.as_slice());
        self.parts.speaker().deliver(to.id(), &mut out);
    }

    /// Sends an event that wants an ack; `Handler::acked` or `ack_timed_out` follows. `false`: too many are outstanding, or
    /// the name is reserved.
    pub fn ask(&mut self, to: SocketKey, emit: &Emit<'_>, timeout: Duration, token: u64) -> bool {
        let _inside = Inside::enter();
        if !self.may_emit(emit) {
            return false;
        }
        match asking::ask_one(self.parts, to, token, millis(timeout)) {
            Some(id) => {
                self.emit_with(to, emit, Some(id), None);
                true
            }
            None => false,
        }
    }

    /// Answers an event by `{"error": message}`.
    pub fn ack_error(&mut self, to: AckTo, message: &str) {
        let _inside = Inside::enter();
        let mut args = b"{\"error\":".to_vec();
        json::quote(&mut args, message);
        args.push(b'}');
        self.ack(to, &String::from_utf8_lossy(&args), &[]);
    }

    /// Answers an event. HOT PATH: no allocation for text.
    pub fn ack(&mut self, to: AckTo, args: &str, attachments: &[Vec<u8>]) {
        let _inside = Inside::enter();
        send::ack(self.parts, to, args, attachments);
    }

    /// Tells a client that its event was not carried out, in its protocol's words.
    pub fn reject(&mut self, socket: SocketKey, rejection: Rejection<'_>) {
        let _inside = Inside::enter();
        self.reject_message(socket, rejection, About::default());
    }

    /// The same, and which message it is about.
    pub fn reject_message(
        &mut self,
        socket: SocketKey,
        rejection: Rejection<'_>,
        about: About<'_>,
    ) {
        let _inside = Inside::enter();
        match rejection {
            Rejection::RateLimited { .. } => {
                self.parts.books.counts.drop_message(Dropped::Rate);
                self.parts.books.counts.hit(Limit::Rate);
            }
            Rejection::Refused { .. } => self.parts.books.counts.drop_message(Dropped::Refused),
        }
        let Some(slot) = self.parts.people.socket(socket) else {
            return;
        };
        let session = slot.session;
        let (message, code, retry_after_s) = match rejection {
            Rejection::RateLimited {
                message,
                retry_after_s,
            } => (message, rejection.code(), Some(retry_after_s)),
            Rejection::Refused { message, code } => (message, code, None),
        };
        let error = plain::Error {
            code,
            message,
            field: about.field,
            id: about.id,
            timestamp_ms: self.parts.clock.now.wall_ms,
            retry_after_s,
        };
        if self.parts.speaker().say_error(session, &error) {
            return;
        }
        let mut text = b"{\"message\":".to_vec();
        json::quote(&mut text, message);
        text.push(b'}');
        let args = String::from_utf8_lossy(&text);
        self.emit(
            socket,
            &Emit {
                name: notices::ERROR,
                args: &args,
                ..Emit::default()
            },
        );
    }

    /// Books an event that is dropped on purpose.
    pub fn drop_event(&mut self) {
        let _inside = Inside::enter();
        self.parts.books.counts.drop_message(Dropped::Rule);
    }

    /// Books an event that nothing is known to be done with; operators find its name in the log (level `debug`).
    pub fn unknown_event(&mut self, socket: SocketKey, event: &str) {
        let _inside = Inside::enter();
        self.parts.books.counts.drop_message(Dropped::Unknown);
        let Some(slot) = self.parts.people.socket(socket) else {
            return;
        };
        if let Some(namespace) = self.parts.people.label(slot.namespace) {
            let notice = Notice::UnknownEvent {
                socket: slot.id,
                namespace: Arc::clone(namespace),
                event: Brief::new(event),
            };
            self.parts.outbound.log(notice);
        }
    }

    /// Joins a room. Joining twice is joining once; a socket is always in the room of its own id.
    pub fn join(&mut self, socket: SocketKey, room: &str) -> Result<(), JoinError> {
        let _inside = Inside::enter();
        self.parts.people.socket(socket).ok_or(JoinError::Gone)?;
        self.parts.rooms.join(
            &mut self.parts.people,
            &mut self.parts.books,
            socket.id(),
            room,
        )
    }

    /// The same for a client that asked for it. NUL, which ends a name wherever C reads it, is for handlers only: two rooms here
    /// could be one there.
    pub fn join_as_client(&mut self, socket: SocketKey, room: &str) -> Result<(), JoinError> {
        let _inside = Inside::enter();
        if room.contains('\0') {
            self.parts.books.counts.hit(Limit::RoomName);
            return Err(JoinError::BadName);
        }
        self.join(socket, room)
    }

    /// Leaves a room; one that it is not in costs nothing.
    pub fn leave(&mut self, socket: SocketKey, room: &str) {
        let _inside = Inside::enter();
        if self.parts.people.socket(socket).is_some() {
            self.parts
                .rooms
                .leave(&mut self.parts.people, socket.id(), room);
        }
    }

    /// Makes the socket one of a user's.
    pub fn set_user(&mut self, socket: SocketKey, user: &str) -> Result<(), JoinError> {
        let _inside = Inside::enter();
        self.parts.people.socket(socket).ok_or(JoinError::Gone)?;
        let now_us = self.parts.clock.now_us();
        let meters = &self.parts.access.meters;
        meters.set_user(&mut self.parts.people, now_us, socket.id(), user);
        Ok(())
    }

    /// Attaches raw JSON to a socket; `fetch` reports it.
    pub fn set_data(&mut self, socket: SocketKey, data: &str) {
        let _inside = Inside::enter();
        self.extra(socket, |extra| extra.data = Some(data.into()));
    }

    /// Lets `change` at what few sockets have.
    pub(crate) fn extra<R>(
        &mut self,
        socket: SocketKey,
        change: impl FnOnce(&mut Extra) -> R,
    ) -> Option<R> {
        self.parts.people.socket(socket)?;
        let slot = self.parts.people.sockets.live_mut(socket)?;
        Some(change(slot.extra.get_or_insert_default()))
    }

    /// Ends the socket's membership in its namespace; with `close` the whole session.
    pub fn disconnect(&mut self, socket: SocketKey, close: bool) {
        let _inside = Inside::enter();
        if self.parts.people.socket(socket).is_some() {
            ending::disconnect_socket(self.parts, socket.id(), close, None);
        }
    }

    /// Closes the transport without a DISCONNECT packet, as a lost connection would (clients reconnect).
    pub fn drop_transport(&mut self, socket: SocketKey) {
        let _inside = Inside::enter();
        if let Some(slot) = self.parts.people.socket(socket) {
            ending::close_session(self.parts, slot.session, CloseReason::ServerClose);
        }
    }

    /// Puts this shard's sockets of a target into rooms.
    pub fn join_here(&mut self, of: &Target<'_>, rooms: &[&str]) {
        let _inside = Inside::enter();
        orders::join_selected(self.parts, of, rooms);
    }

    /// Takes this shard's sockets of a target out of rooms.
    pub fn leave_here(&mut self, of: &Target<'_>, rooms: &[&str]) {
        let _inside = Inside::enter();
        orders::leave_selected(self.parts, of, rooms);
    }

    /// Ends this shard's sockets of a target; with `close` their sessions, too.
    pub fn disconnect_here(&mut self, of: &Target<'_>, close: bool) {
        let _inside = Inside::enter();
        ending::disconnect_selected(self.parts, of, close);
    }

    // ---- sessions without sockets ---------------------------------------------------------------------------------------

    /// Sends a message to a bare Engine.IO or raw WebSocket session.
    pub fn send(&mut self, to: SessionKey, data: Data<'_>) {
        let _inside = Inside::enter();
        let Some(session) = self.parts.people.sessions.live(to) else {
            return;
        };
        let (conn, engineio) = (session.conn, session.protocol.is_engineio());
        let base64 = session.flags.b64;
        if session.polling.is_some() {
            let mut text = Vec::new();
            match data {
                Data::Text(data) => {
                    text.push(b'4');
                    text.extend_from_slice(data.as_bytes());
                }
                Data::Binary(data) => payload::write_binary(&mut text, data),
            }
            self.parts.speaker().queue_packets(to.id(), &text, 1, false);
            return;
        }
        self.parts
            .line
            .reply_message(
                &mut self.parts.books,
                conn,
                false,
                Fate::Fixed,
                |out| match data {
                    Data::Text(data) if engineio => {
                        frame::write_header(out, OpCode::Text, false, data.len() + 1);
                        out.push(b'4');
                        out.extend_from_slice(data.as_bytes());
                    }
                    Data::Text(data) => frame::write_frame(out, OpCode::Text, data.as_bytes()),
                    Data::Binary(data) if engineio && base64 => {
                        let mut text = Vec::new();
                        payload::write_binary(&mut text, data);
                        frame::write_frame(out, OpCode::Text, &text);
                    }
                    Data::Binary(data) => frame::write_frame(out, OpCode::Binary, data),
                },
            );
    }
}

/// Milliseconds of a timeout; those of the longest are no number.
pub(crate) fn millis(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)
}
