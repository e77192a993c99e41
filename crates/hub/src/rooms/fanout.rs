//! One event to many sockets: encoded once per variant, lazily, then noted on each member's outbox.
//!
//! HOT PATH: `fan_out` and `deliver` allocate nothing once warm; no lock, no dyn.

use crate::books::config::SlowConsumer;
use crate::books::metrics::Limit;
use crate::cluster::letter::Target;
use crate::dialect::speech::{Framing, Variant, Word};
use crate::output::backlog::{Fate, Losses, Overflow, Unit};
use crate::output::compression::{Deflate, SHARED_FORMS};
use crate::output::log::Range;
use crate::output::piece::Piece;
use crate::parts::Parts;
use crate::rooms::log::Position;
use crate::rooms::room::RoomKind;
use crate::seam::context::Emit;
use crate::tables::slot::{ConnId, NamespaceId, SessionId, SocketId};
use std::hash::{BuildHasher, Hash};
use wire::base64url::Id20;
use wire::json;
use wire::socketio::PacketType;

/// An event on its way out, with its encodings as they are made.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// Raw JSON elements behind the name.
    pub(crate) args: &'a str,
    pub(crate) attachments: &'a [Vec<u8>],
    pub(crate) ack: Option<u64>,
    /// The one room it is for (plain clients are told).
    pub(crate) room: Option<&'a str>,
    /// The room that it tells one socket about.
    pub(crate) about: Option<&'a str>,
    pub(crate) volatile: bool,
    /// For more than one receiver: encodings go to the shared log.
    pub(crate) shared: bool,
    /// Never compressed (`config::Exempt`).
    pub(crate) exempt: bool,
    /// What happens to it where a client is slow; known once it is delivered.
    fate: Option<Fate>,
    /// Its place among the events that its room keeps. Members that wait for their history get it there.
    pub(crate) at: Option<Position>,
    /// By variant, and by form within.
    frames: [Option<Range>; Variant::FRAMED * SHARED_FORMS],
    /// For polling, by dialect of Socket.IO.
    polling: [Option<Piece>; 2],
}

impl<'a> Outgoing<'a> {
    pub(crate) fn new(namespace: &'a str, name: &'a str, args: &'a str) -> Self {
        Self {
            namespace,
            name,
            args,
            attachments: &[],
            ack: None,
            room: None,
            about: None,
            volatile: false,
            shared: false,
            exempt: false,
            fate: None,
            at: None,
            frames: [None; Variant::FRAMED * SHARED_FORMS],
            polling: [None, None],
        }
    }

    /// An event for all sockets of a target.
    pub(crate) fn to(target: &Target<'a>, name: &'a str, args: &'a str) -> Self {
        let mut out = Self::new(target.namespace, name, args);
        if let ([room], []) = (target.rooms, target.users) {
            out.room = Some(room);
        }
        out
    }

    /// Equal for events that replace each other: those of one name, room and value of one member of the first argument. One
    /// connection may be in several namespaces, and no question replaces another one: each has an ack of its own.
    fn conflation_key(&self, member: Option<&str>) -> impl Hash {
        let first = json::Elements::bare(self.args).next().unwrap_or_default();
        let members = member.map(|_| json::members(first)).into_iter().flatten();
        // Of repeated members the last counts, as in JSON.parse.
        let named = members.filter(|(key, _)| json::unquote(key).as_deref() == member);
        let value = named.last().map(|(_, value)| value);
        let room = self.room.or(self.about);
        (self.namespace, self.name, room, self.ack, value)
    }

    /// What a handler sends to all sockets of a target.
    pub(crate) fn event(target: &Target<'a>, emit: &Emit<'a>) -> Self {
        let mut out = Self::to(target, emit.name, emit.args);
        out.attachments = emit.attachments;
        out.volatile = emit.volatile;
        out
    }

    fn word(&self) -> Word<'a> {
        Word {
            kind: PacketType::Event,
            namespace: self.namespace,
            id: self.ack,
            name: self.name,
            room: self.room,
            data: self.args,
            attachments: self.attachments,
        }
    }
}

impl Parts {
    /// What every fan-out begins with.
    pub(crate) fn prepare(&mut self, target: &Target<'_>, out: &mut Outgoing<'_>) {
        self.books.counts.broadcasts += 1;
        self.line.budget.broadcast();
        out.shared = true;
        let exempt = &self.books.config.compression.exempt;
        out.exempt |= exempt.holds(target.namespace, target.rooms);
    }

    /// Delivers to every local socket the target means.
    pub(crate) fn fan_out(&mut self, target: &Target<'_>, out: &mut Outgoing<'_>) {
        let Some(namespace) = self.find_namespace(target.namespace) else {
            return;
        };
        self.prepare(target, out);
        let mark = self.next_mark();
        for name in target.except {
            self.mark_members(namespace, name, mark);
        }
        if target.rooms.is_empty() && target.users.is_empty() {
            self.deliver_room(namespace, RoomKind::All, "", mark, out);
        }
        for name in target.rooms {
            self.deliver_room(namespace, RoomKind::Named, name, mark, out);
            if let Some(index) = self.socket_named(namespace, name) {
                self.deliver_member(index, mark, out);
            }
        }
        for user in target.users {
            let mut at = self.first_of_user(namespace, user);
            while let Some(index) = at {
                at = self.next_of_user(index);
                self.deliver_member(index, mark, out);
            }
        }
    }

    fn deliver_room(
        &mut self,
        namespace: NamespaceId,
        kind: RoomKind,
        name: &str,
        mark: u32,
        out: &mut Outgoing<'_>,
    ) {
        let Some(room) = self.rooms.find(namespace, kind, name) else {
            return;
        };
        let (members, live) = self.rooms.take_members(room);
        let receivers = match out.at {
            Some(_) => &members[..live],
            None => &members[..],
        };
        for index in receivers {
            self.deliver_member(*index, mark, out);
        }
        self.rooms.put_back(room, members);
    }

    #[inline]
    fn deliver_member(&mut self, index: SocketId, mark: u32, out: &mut Outgoing<'_>) {
        if let Some(socket) = self.people.sockets.get_mut(index)
            && socket.mark != mark
            && !socket.gone
        {
            socket.mark = mark;
            self.deliver(index, out);
        }
    }

    /// A number no socket is marked with.
    pub(crate) fn next_mark(&mut self) -> u32 {
        self.rooms.mark = self.rooms.mark.wrapping_add(1);
        if self.rooms.mark == 0 {
            let all: Vec<SocketId> = self.people.sockets.iter().map(|(index, _)| index).collect();
            for index in all {
                if let Some(socket) = self.people.sockets.get_mut(index) {
                    socket.mark = 0;
                }
            }
            self.rooms.mark = 1;
        }
        self.rooms.mark
    }

    /// Marks the members of a room (or the socket of that id).
    pub(crate) fn mark_members(&mut self, namespace: NamespaceId, name: &str, mark: u32) {
        if let Some(index) = self.socket_named(namespace, name)
            && let Some(socket) = self.people.sockets.get_mut(index)
        {
            socket.mark = mark;
        }
        let room = self.rooms.find(namespace, RoomKind::Named, name);
        for index in room
            .and_then(|room| self.rooms.get(room))
            .into_iter()
            .flat_map(|room| room.members())
        {
            if let Some(socket) = self.people.sockets.get_mut(*index) {
                socket.mark = mark;
            }
        }
    }

    /// The socket whose id (and so whose own room) this is.
    pub(crate) fn socket_named(&self, namespace: NamespaceId, name: &str) -> Option<SocketId> {
        let index = self.find_socket(&Id20::decode(name.as_bytes())?)?;
        let socket = self.people.sockets.get(index)?;
        (socket.namespace == namespace && !socket.nameless).then_some(index)
    }

    /// Queues an event for one socket. `false` if it was dropped (volatile) or the socket is gone.
    #[inline]
    pub(crate) fn deliver(&mut self, index: SocketId, out: &mut Outgoing<'_>) -> bool {
        let Some(socket) = self.people.sockets.get(index) else {
            return false;
        };
        let (variant, session) = (socket.variant, socket.session);
        let deflate = if out.exempt {
            Deflate::Off
        } else {
            socket.deflate
        };
        let Some(conn) = socket.conn else {
            debug_assert_eq!(
                variant.framing,
                Framing::Polling,
                "{index} has no WebSocket"
            );
            return self.deliver_polling(session, variant, out);
        };
        if out.volatile
            && !self
                .line
                .conns
                .get(conn)
                .is_some_and(|conn| conn.outbox.is_empty())
        {
            self.books.counts.dropped_volatile += 1;
            return false;
        }
        let made = out.frames.get(frame_slot(variant, deflate));
        let range = match made.copied().flatten() {
            Some(range) => range,
            None if deflate == Deflate::Off => self.encode(variant, out),
            None => self.encode_deflated(conn, variant, deflate, out),
        };
        self.line.budget.deliver();
        self.books.counts.delivered[variant.metric()] += 1;
        self.push(conn, range);
        true
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
        if out.volatile && (polling.get.is_none() || !polling.queue.is_empty()) {
            self.books.counts.dropped_volatile += 1;
            return false;
        }
        let made = out.polling[variant.dialect as usize].take();
        let piece = made.unwrap_or_else(|| {
            let (mut message, mut packets) = (Vec::new(), Vec::new());
            variant.dialect.write(&mut message, &out.word());
            variant.wrap(&mut packets, &message, out.attachments);
            Piece::new(&packets, &self.line.pool)
        });
        self.line.budget.deliver();
        self.books.counts.delivered[variant.metric()] += 1;
        let unit = Unit {
            piece: piece.clone(),
            fate: self.fate_of(out),
            packets: variant.packets(out.attachments.len()) as u32,
            exempt: out.exempt,
        };
        self.queue_unit(session, unit);
        out.polling[variant.dialect as usize] = Some(piece);
        true
    }

    /// What happens to an event that a slow client has no room for.
    #[inline]
    fn fate_of(&self, out: &mut Outgoing<'_>) -> Fate {
        if let Some(fate) = out.fate {
            return fate;
        }
        let (policy, member) = self.books.config.slow_events(out.namespace);
        let key = match policy {
            SlowConsumer::Conflate => self.line.hasher.hash_one(out.conflation_key(member)),
            _ => 0,
        };
        *out.fate.insert(Fate::Event { policy, key })
    }

    /// Queues payload-ready packets that are no event on a polling session.
    pub(crate) fn queue_packets(
        &mut self,
        session: SessionId,
        text: &[u8],
        packets: usize,
        exempt: bool,
    ) {
        let unit = Unit {
            piece: Piece::new(text, &self.line.pool),
            fate: Fate::Fixed,
            packets: packets as u32,
            exempt,
        };
        self.queue_unit(session, unit);
    }

    /// Queues packets on a polling session, keeping its bound: an outbox's, and what base64 adds to binary.
    fn queue_unit(&mut self, session: SessionId, unit: Unit) {
        let (bytes_max, squeezed) = self.outbox_bytes_max();
        let Some(slot) = self.people.sessions.get_mut(session) else {
            return;
        };
        let Some(polling) = slot.polling.as_mut() else {
            return;
        };
        if polling.overflowed {
            return;
        }
        let mut dropped = Losses::default();
        let kept = polling
            .queue
            .push(unit, bytes_max + bytes_max / 2, &mut dropped);
        polling.overflowed = kept == Err(Overflow);
        self.polls.note_ready(session, &mut slot.flags);
        if kept == Err(Overflow) {
            self.polls.note_overflow(session);
        } else if dropped == Losses::default() {
            return;
        }
        self.books.counts.hit(match squeezed {
            true => Limit::WaitingBytes,
            false => Limit::OutboxBytes,
        });
        self.count_losses(&dropped);
    }

    fn encode(&mut self, variant: Variant, out: &mut Outgoing<'_>) -> Range {
        let fate = self.fate_of(out);
        let log = self.line.log.bytes_mut(out.shared);
        let start = log.len();
        write_event(log, &mut self.line.scratch, variant, out);
        let range = self.line.log.close(out.shared, start, fate);
        out.frames[frame_slot(variant, Deflate::Off)] = Some(range);
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
        let mut plain = out.frames[frame_slot(variant, Deflate::Off)];
        if own && plain.is_none() {
            // There may be more like this one.
            plain = Some(self.encode(variant, out));
        }
        let mut frames = std::mem::take(&mut self.line.codecs.frames);
        match plain {
            Some(range) => frames.extend_from_slice(self.line.log.bytes(range)),
            None => write_event(&mut frames, &mut self.line.scratch, variant, out),
        }
        let shared = out.shared && !own;
        let fate = self.fate_of(out);
        let range = match self.deflated_range(conn, deflate, &frames, (shared, fate)) {
            Some(range) => range,
            None => plain.unwrap_or_else(|| self.encode(variant, out)),
        };
        self.line.codecs.recycle_frames(frames);
        if let Some(made) = out.frames.get_mut(frame_slot(variant, deflate)) {
            *made = Some(range);
        }
        range
    }
}

/// Appends the event as WebSocket frames. `message` is a buffer to work in.
fn write_event(frames: &mut Vec<u8>, message: &mut Vec<u8>, variant: Variant, out: &Outgoing<'_>) {
    message.clear();
    variant.dialect.write(message, &out.word());
    if variant.framing == Framing::EventStream
        && let Some(at) = out.at
    {
        at.write_id(frames);
    }
    variant.wrap(frames, message, out.attachments);
}

/// Place of a form of a variant; beyond the last one for what nobody shares.
fn frame_slot(variant: Variant, deflate: Deflate) -> usize {
    variant.number() + Variant::FRAMED * deflate as usize
}
