//! An event on its way to sockets.

use crate::dialect::speech::{Emit, Variant, Word};
use crate::recovery::pid::Offset;
use crate::recovery::stamp::Stamp;
use crate::rooms::encodings::Encodings;
use crate::rooms::target::Target;
use crate::tables::position::Position;
use std::hash::Hash;
use wire::json;
use wire::socketio::PacketType;

/// An event on its way out, with its encodings as they are made.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) event: Emit<'a>,
    pub(crate) ack: Option<u64>,
    /// The one room it is for (plain clients are told).
    pub(crate) room: Option<&'a str>,
    /// All rooms that it is for.
    pub(super) rooms: &'a [&'a str],
    /// The room that it tells one socket about.
    pub(crate) about: Option<&'a str>,
    /// Its place among the events that its rooms keep. Members that wait for their history get it there.
    pub(crate) at: Option<Position>,
    /// Its number in the order of the shard that published it, where clients come back.
    pub(crate) stamp: Option<Stamp>,
    /// It is for this instant only: a client that comes back later does not get it.
    pub(crate) passes: bool,
    /// Its place in this shard's journal. Clients that come back are told, unless they are to answer.
    pub(crate) offset: Option<Offset>,
    pub(crate) made: Encodings,
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(namespace: &'a str, event: &Emit<'a>) -> Self {
        Self {
            namespace,
            event: *event,
            ack: None,
            room: None,
            rooms: &[],
            about: None,
            at: None,
            stamp: None,
            passes: false,
            offset: None,
            made: Encodings::of(event),
        }
    }

    /// Equal for events that replace each other: those of one name, room and value of one member of the first argument. One
    /// connection may be in several namespaces, and no question replaces another one: each has an ack of its own.
    pub(super) fn conflation_key(&self, member: Option<&str>) -> impl Hash {
        let first = json::Elements::bare(self.event.args)
            .next()
            .unwrap_or_default();
        let members = member.map(|_| json::members(first)).into_iter().flatten();
        // The last of repeated members counts, as in JSON.parse.
        let named = members.filter(|(key, _)| json::unquote(key).as_deref() == member);
        let value = named.last().map(|(_, value)| value);
        let room = self.room.or(self.about);
        (self.namespace, self.event.name, room, self.ack, value)
    }

    /// What a handler sends to all sockets of a target.
    pub(crate) fn event(target: &Target<'a>, event: &Emit<'a>) -> Self {
        let mut out = Self::new(target.namespace, event);
        out.rooms = target.rooms;
        if let ([room], []) = (target.rooms, target.users) {
            out.room = Some(room);
        }
        out
    }

    /// What the room keeps, for a member that came: it has then all up to there.
    pub(crate) fn history(mut self, room: &'a &'a str, at: Option<Position>) -> Self {
        self.about = Some(room);
        self.rooms = std::slice::from_ref(room);
        self.at = at;
        self
    }

    /// Appends the message of a variant.
    pub(super) fn write(&self, message: &mut Vec<u8>, variant: Variant) {
        let mut word = self.word();
        let Some(offset) = self
            .offset
            // An event that wants an ack has no offset, as with Node's server.
            .filter(|_| variant.offsets && self.ack.is_none())
        else {
            return variant.dialect.write(message, &word);
        };
        if variant.dialect.is_plain() {
            word.offset = Some(offset.as_str());
            return variant.dialect.write(message, &word);
        }
        // Socket.IO's clients take the last argument for the offset.
        let mut args = String::with_capacity(word.data.len() + offset.as_str().len() + 3);
        args.push_str(word.data);
        if !args.is_empty() {
            args.push(',');
        }
        args.push('"');
        args.push_str(offset.as_str());
        args.push('"');
        word.data = &args;
        variant.dialect.write(message, &word);
    }

    fn word(&self) -> Word<'_> {
        Word {
            kind: PacketType::Event,
            namespace: self.namespace,
            id: self.ack,
            name: self.event.name,
            room: self.room,
            data: self.event.args,
            attachments: self.event.attachments,
            offset: None,
        }
    }
}
