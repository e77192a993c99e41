//! The tools of a handler. Everything is queued: nothing a handler does calls a handler.
//!
//! There are three views. The [`Context`] is what Socket.IO calls the server; [`Context::socket`] shows one socket, and
//! [`Context::of`] those that an event is for.

use crate::books::metrics::Dropped;
use crate::cluster::waiting;
use crate::dialect::speech::Emit;
use crate::output::backlog::Fate;
use crate::parts::Parts;
use crate::rooms::directory::Expected;
use crate::rooms::membership::is_room_name;
use crate::rooms::presence::{Presence, Unwatched};
use crate::rooms::room::RoomKind;
use crate::seam::effect::{Effect, Notice};
use crate::seam::event::{AckTo, Data};
use crate::seam::inside::Inside;
use crate::seam::outbound::Outbound;
use crate::tables::clock::Now;
use crate::tables::slot::SessionKey;
use std::any::Any;
use std::time::Duration;
use wire::base64url::Id20;
use wire::engineio::payload;
use wire::websocket::frame::{self, OpCode};
use wire::{json, socketio};

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

    /// Whether a room may have that name.
    pub fn is_room_name(&self, name: &str) -> bool {
        let _inside = Inside::enter();
        is_room_name(&self.parts.books.config.limits, name)
    }

    /// Whether the name is, or was, the id of a socket. What is sent to that room is meant for that socket alone, so clients have no
    /// business in it. A name that people make up does not hold a node of ours, a shard of it and a time gone by.
    pub fn is_socket_id(&self, name: &str) -> bool {
        let _inside = Inside::enter();
        let id = Id20::decode(name.as_bytes());
        let wall_ms = self.parts.clock.now.wall_ms;
        let away = self.parts.away.as_ref();
        id.is_some_and(|id| {
            let elsewhere = away.is_some_and(|away| away.is_socket(&id, wall_ms));
            elsewhere || self.parts.ids.is_socket(&id, wall_ms)
        })
    }

    /// The members of a room on all nodes, as this shard knows them, for one of them that hears
    /// [`presence_changed`](crate::Handler::presence_changed) from then on. `None`: this shard does not know the room, or members of
    /// such rooms are not told of each other.
    pub fn present(&mut self, namespace: &str, room: &str) -> Option<Presence> {
        let _inside = Inside::enter();
        let Parts {
            rooms,
            people,
            clock,
            ..
        } = &mut *self.parts;
        let namespace = people.namespaces.find(namespace)?;
        let room = rooms.table.find(namespace, RoomKind::Named, room)?;
        rooms.rolls.answer(room, people, clock.now)
    }

    /// The same for a program, which is in no room: where nobody of this shard is, it hears of the room for a minute from now on.
    ///
    /// # Errors
    /// It is not told of that room.
    pub fn watch(&mut self, namespace: &str, room: &str) -> Result<Presence, Unwatched> {
        let _inside = Inside::enter();
        let Parts {
            rooms,
            people,
            clock,
            ..
        } = &mut *self.parts;
        rooms.watch(people, (namespace, room), clock.now)
    }

    /// Answers an event. HOT PATH: no allocation for text.
    pub fn ack(&mut self, to: AckTo, args: &str, attachments: &[Vec<u8>]) {
        let _inside = Inside::enter();
        waiting::ack(self.parts, to, args, attachments);
    }

    /// Answers an event by something that other nodes need not know of: the answer keeps its order with the events that follow, and does
    /// not wait for what its client joined.
    pub fn ack_now(&mut self, to: AckTo, args: &str, attachments: &[Vec<u8>]) {
        let _inside = Inside::enter();
        let mut speaker = self.parts.speaker();
        speaker.say_ack(to.socket, to.id, args, attachments);
    }

    /// Answers an event by `{"error": message}`.
    pub fn ack_error(&mut self, to: AckTo, message: &str) {
        let _inside = Inside::enter();
        let mut args = b"{\"error\":".to_vec();
        json::quote(&mut args, message);
        args.push(b'}');
        self.ack(to, &String::from_utf8_lossy(&args), &[]);
    }

    /// Books an event that is dropped on purpose.
    pub fn drop_event(&mut self) {
        let _inside = Inside::enter();
        self.parts.books.counts.drop_message(Dropped::Rule);
    }

    /// Says that a word which is passed on lets sockets join these rooms. Until all that this returns is dropped, what is published to the
    /// rooms goes to every shard: an event right after the word would else miss the shard that has it still to do.
    pub fn expect(&self, namespace: &str, rooms: &[&str]) -> Vec<Expected> {
        let _inside = Inside::enter();
        self.parts.rooms.table.expect(namespace, rooms)
    }

    /// Passes a word from outside on to the handler of another shard, after all that this shard has sent there. `bytes`: what it
    /// costs while it waits.
    pub fn pass(&mut self, shard: u16, word: Box<dyn Any + Send>, bytes: usize) {
        let _inside = Inside::enter();
        self.parts.line.budget.post(bytes);
        self.parts
            .outbound
            .push(Effect::Pass { shard, word, bytes });
    }

    /// Sends a message to a bare Engine.IO or raw WebSocket session.
    pub fn send(&mut self, to: SessionKey, data: Data<'_>) {
        let _inside = Inside::enter();
        let Some(session) = self.parts.people.sessions.live(to) else {
            return;
        };
        let (conn, engineio) = (session.conn, session.language.protocol().is_engineio());
        let base64 = session.language.is_base64();
        if session.polling.is_some() {
            let mut text = Vec::new();
            match data {
                Data::Text(data) => {
                    // 4 is Engine.IO's packet `message`.
                    text.push(b'4');
                    text.extend_from_slice(data.as_bytes());
                }
                Data::Binary(data) => payload::write_binary(&mut text, data),
            }
            self.parts.speaker().queue_packets(to.id(), &text, 1, false);
            return;
        }
        let (line, books) = (&mut self.parts.line, &mut self.parts.books);
        line.reply_message(books, conn, false, Fate::Fixed, |out| match data {
            Data::Text(data) if engineio => {
                frame::write_header(out, OpCode::Text, false, data.len() + 1);
                out.push(b'4');
                out.extend_from_slice(data.as_bytes());
            }
            Data::Text(data) => frame::write_frame(out, OpCode::Text, data.as_bytes()),
            // The client asked for text in place of binary frames (`b64=1`, Engine.IO).
            Data::Binary(data) if engineio && base64 => {
                let mut text = Vec::new();
                payload::write_binary(&mut text, data);
                frame::write_frame(out, OpCode::Text, &text);
            }
            Data::Binary(data) => frame::write_frame(out, OpCode::Binary, data),
        });
    }
}

/// Whether an event may be sent. A name that only the libraries may emit would end the sessions of all receivers: such an event is not
/// sent, and operators are told.
#[inline]
pub(crate) fn may_emit(outbound: &mut Outbound, event: &Emit<'_>) -> bool {
    let reserved = socketio::reserved(event.name);
    if let Some(name) = reserved {
        outbound.log(Notice::ReservedEvent { name });
    }
    reserved.is_none()
}

/// Milliseconds of a timeout; the longest timeouts get the largest number.
pub(crate) fn millis(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)
}
