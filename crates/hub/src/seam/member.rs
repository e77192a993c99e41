//! One socket, as a handler acts on it. Its readable state is in `reading.rs`, rates are in `limiter.rs`.

use crate::books::close::CloseReason;
use crate::books::metrics::{Dropped, Limit};
use crate::clients::socket::Socket;
use crate::cluster::asking;
use crate::cluster::letter::Target;
use crate::dialect::notices;
use crate::dialect::speech::Emit;
use crate::life::{deeds, ending, memberships, parking};
use crate::parts::Parts;
use crate::rooms::membership::JoinError;
use crate::rooms::outgoing::Outgoing;
use crate::seam::context::{Context, may_emit, millis};
use crate::seam::effect::{Brief, Notice};
use crate::seam::event::AckTo;
use crate::seam::inside::Inside;
use crate::tables::position::Position;
use crate::tables::slot::SocketKey;
use std::sync::Arc;
use std::time::Duration;
use wire::{json, plain};

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
    pub(crate) fn message(self) -> &'a str {
        match self {
            Self::RateLimited { message, .. } | Self::Refused { message, .. } => message,
        }
    }

    /// Its identity for programs.
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

/// One socket of this shard: a client's membership in a namespace. When it is gone, calls do nothing.
#[derive(Debug)]
pub struct Member<'a> {
    pub(crate) parts: &'a mut Parts,
    key: SocketKey,
}

impl<'a> Context<'a> {
    /// One socket of this shard. A key that names nothing any more is no fault: calls do nothing then.
    pub fn socket(&mut self, key: SocketKey) -> Member<'_> {
        Member::new(self.parts, key)
    }
}

impl<'a> Member<'a> {
    pub(crate) fn new(parts: &'a mut Parts, key: SocketKey) -> Self {
        Self { parts, key }
    }

    /// The name by which the handler can keep it.
    pub fn key(&self) -> SocketKey {
        self.key
    }

    /// The calls that are not about this socket alone.
    pub fn cx(&mut self) -> Context<'_> {
        Context { parts: self.parts }
    }

    /// The socket, while it is connected.
    pub(crate) fn live(&self) -> Option<&Socket> {
        self.parts.people.sockets.here(self.key)
    }

    /// The event that has this ack, if it has one, is not carried out.
    pub(crate) fn reject_event(&mut self, ack: Option<AckTo>, rejection: Rejection<'_>) {
        let about = About {
            id: ack.as_ref().map(AckTo::id),
            field: None,
        };
        self.reject(rejection, about);
        if let Some(ack) = ack {
            self.cx().ack_error(ack, rejection.message());
        }
    }

    /// Tells the socket what a room keeps. It has all of that up to `at` then, if it is to know the place.
    pub(crate) fn emit_history(&mut self, history: &Emit<'_>, room: &str, at: Option<Position>) {
        self.deliver(history, None, Some((&room, at)));
    }

    /// Whether an event for one socket goes by the stream: what is said to a socket that may come back from the store stands there like all
    /// else.
    fn goes_by_chronicle(socket: &Socket, event: &Emit<'_>) -> bool {
        // The stream reaches the socket by the room of its id, which it may have left.
        let extra = socket.extra.as_ref().filter(|_| !socket.flags.nameless);
        let lifeline = extra.and_then(|extra| extra.lifeline.as_ref());
        let has_deed = lifeline.is_some_and(|lifeline| lifeline.life.deed().is_some());
        has_deed && !event.volatile && !notices::is_notice(event.name)
    }

    fn deliver(
        &mut self,
        event: &Emit<'_>,
        ack: Option<u64>,
        history: Option<(&&str, Option<Position>)>,
    ) {
        let Some(socket) = self.live() else {
            return;
        };
        let Some(namespace) = self.parts.people.namespaces.label(socket.namespace) else {
            return;
        };
        // The name is short and borrowed for the call only; `deliver` needs the tables for itself.
        let namespace = Arc::clone(namespace);
        if ack.is_none() && history.is_none() && Self::goes_by_chronicle(socket, event) {
            let id = socket.id.to_string();
            let to = Target {
                namespace: &namespace,
                rooms: &[&id],
                ..Target::default()
            };
            // An event that finds no room is counted.
            let _ = deeds::say(self.parts, &to, event);
            return;
        }
        let mut out = Outgoing::new(&namespace, event);
        out.ack = ack;
        if let Some((room, at)) = history {
            out = out.history(room, at);
        }
        if ack.is_none() {
            out.offset = parking::tell(self.parts, self.key, event);
        }
        let exempt = &self.parts.books.config.compression.exempt;
        let is_exempt = exempt.holds(&namespace, out.about.as_slice());
        out.made.exempt_if(is_exempt);
        self.parts.speaker().deliver(self.key.id(), &mut out);
        if self.parts.traces.is_on() {
            let Parts { traces, people, .. } = &mut *self.parts;
            traces.emit(people, self.key, event, ack);
        }
    }
}

impl Member<'_> {
    /// Sends it an event.
    pub fn emit(&mut self, event: &Emit<'_>) {
        let _inside = Inside::enter();
        if may_emit(&mut self.parts.outbound, event) {
            self.deliver(event, None, None);
        }
    }

    /// Sends it an event that wants an ack; `Handler::acked` or `ack_timed_out` follows. `false`: too many are outstanding, or
    /// the name is reserved.
    pub fn ask(&mut self, event: &Emit<'_>, timeout: Duration, token: u64) -> bool {
        let _inside = Inside::enter();
        if !may_emit(&mut self.parts.outbound, event) {
            return false;
        }
        let id = asking::ask_one(self.parts, self.key, token, millis(timeout));
        if id.is_some() {
            self.deliver(event, id, None);
        }
        id.is_some()
    }

    /// Tells its client that an event was not carried out, in its protocol's words.
    pub fn reject(&mut self, rejection: Rejection<'_>, about: About<'_>) {
        let _inside = Inside::enter();
        let counts = &mut self.parts.books.counts;
        let retry_after_s = match rejection {
            Rejection::RateLimited { retry_after_s, .. } => {
                counts.drop_message(Dropped::Rate);
                counts.hit(Limit::Rate);
                Some(retry_after_s)
            }
            Rejection::Refused { .. } => {
                counts.drop_message(Dropped::Refused);
                None
            }
        };
        let message = rejection.message();
        let Some(session) = self.live().map(|slot| slot.session) else {
            return;
        };
        if self.parts.traces.is_on() {
            let Parts { traces, people, .. } = &mut *self.parts;
            traces.refusal(people, self.key, rejection.code(), message);
        }
        let error = plain::Error {
            code: rejection.code(),
            message,
            field: about.field,
            id: about.id,
            timestamp_ms: self.parts.clock.now.wall_ms,
            retry_after_s,
        };
        // Plain clients have a word for it; others get an event of the gateway.
        if self.parts.speaker().say_error(session, &error) {
            return;
        }
        let mut text = b"{\"message\":".to_vec();
        json::quote(&mut text, message);
        text.push(b'}');
        let args = String::from_utf8_lossy(&text);
        self.emit(&Emit::new(notices::ERROR, &args));
    }

    /// Refuses an event: its client is told, in the answer that it waits for, too.
    pub fn refuse(&mut self, ack: Option<AckTo>, message: &str, code: &str) {
        let _inside = Inside::enter();
        self.reject_event(ack, Rejection::Refused { message, code });
    }

    /// Books an event that nothing is known to be done with; operators find its name in the log (level `debug`).
    pub fn unknown_event(&mut self, event: &str) {
        let _inside = Inside::enter();
        self.parts.books.counts.drop_message(Dropped::Unknown);
        let Some(slot) = self.live() else {
            return;
        };
        if let Some(namespace) = self.parts.people.namespaces.label(slot.namespace) {
            let notice = Notice::UnknownEvent {
                socket: slot.id,
                namespace: Arc::clone(namespace),
                event: Brief::new(event),
            };
            self.parts.outbound.log(notice);
        }
    }

    /// Joins a room. Joining twice is joining once; a socket is always in the room of its own id.
    pub fn join(&mut self, room: &str) -> Result<(), JoinError> {
        let _inside = Inside::enter();
        self.live().ok_or(JoinError::Gone)?;
        memberships::join(self.parts, self.key.id(), room)
    }

    /// The same for a client that asked for it. NUL, which ends a name wherever C reads it, is for handlers only: two rooms here
    /// could be one there.
    pub fn join_as_client(&mut self, room: &str) -> Result<(), JoinError> {
        let _inside = Inside::enter();
        if room.contains('\0') {
            self.parts.books.counts.hit(Limit::RoomName);
            return Err(JoinError::BadName);
        }
        self.join(room)
    }

    /// Leaves a room; one that it is not in costs nothing.
    pub fn leave(&mut self, room: &str) {
        let _inside = Inside::enter();
        if self.live().is_some() {
            memberships::leave(self.parts, self.key.id(), room);
        }
    }

    /// Makes it one of a user's.
    pub fn set_user(&mut self, user: &str) -> Result<(), JoinError> {
        let _inside = Inside::enter();
        self.live().ok_or(JoinError::Gone)?;
        memberships::set_user(self.parts, self.key.id(), user);
        Ok(())
    }

    /// Attaches raw JSON to it; `fetch` reports it.
    pub fn set_data(&mut self, data: &str) {
        let _inside = Inside::enter();
        if self.live().is_some()
            && let Some(slot) = self.parts.people.sockets.live_mut(self.key)
        {
            slot.extra.get_or_insert_default().data = Some(data.into());
            // The record in the store has the data, too.
            deeds::touch(self.parts, self.key);
        }
    }

    /// Ends its membership in its namespace; with `close` the whole session.
    pub fn disconnect(&mut self, close: bool) {
        let _inside = Inside::enter();
        if self.live().is_some() {
            ending::disconnect_socket(self.parts, self.key.id(), close, None);
        }
    }

    /// Closes the transport without a DISCONNECT packet, as a lost connection would (clients reconnect).
    pub fn drop_transport(&mut self) {
        let _inside = Inside::enter();
        self.end_session(CloseReason::ServerClose);
    }

    /// The same, for a reason that plain WebSocket clients and operators see.
    pub fn end_session(&mut self, reason: CloseReason) {
        let _inside = Inside::enter();
        if let Some(session) = self.live().map(|slot| slot.session) {
            ending::close_session(self.parts, session, reason);
        }
    }
}
