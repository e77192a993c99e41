//! Looking for sessions, rooms and ends between turns, for operators. A table of a million slots takes a while to walk, so a shard walks
//! it in steps, a few thousand slots a turn, as it does to count its memory.

use crate::access::meters::UsedRate;
use crate::books::ends::Ended;
use crate::census::classes::Classes;
use crate::census::slow::{Slow, waiting_bytes};
use crate::clients::session::{Protocol, Session};
use crate::clients::socket::Socket;
use crate::hub::Hub;
use crate::parts::Parts;
use crate::rooms::room::{Room, RoomKind};
use crate::tables::id::socket_made_ms;
use crate::tables::slot::{ConnId, RoomId, SessionId, SocketId};
use std::net::IpAddr;
use std::sync::Arc;
use wire::base64url::Id20;
use wire::engineio::Revision;

/// Sockets that are shown of one session, and rooms of one socket. How many there are is shown, too.
const SOCKETS_SHOWN: usize = 8;
const ROOMS_SHOWN: usize = 50;

/// A question about what one shard has.
#[derive(Clone, Debug)]
pub enum Question {
    /// Sessions, in no order.
    Sessions(SessionsWanted),
    /// Rooms that clients can name, the largest first.
    Rooms(RoomsWanted),
    /// The busiest of these, of a sample.
    BusyRooms(RoomsWanted),
    /// The rooms for whose members most bytes wait.
    SlowRooms(RoomsWanted),
    /// Sessions that ended, the newest first.
    Ends {
        /// So many at most.
        limit: usize,
    },
    /// Sessions, by what a drain means for their clients.
    Classes,
}

/// Which sessions. Without any member: all.
#[derive(Clone, Debug, Default)]
pub struct SessionsWanted {
    /// The session, or the session of the socket, of this id.
    pub id: Option<Id20>,
    /// Clients at this address.
    pub address: Option<IpAddr>,
    /// They have a socket in this namespace.
    pub namespace: Option<String>,
    /// They have a socket of this user.
    pub user: Option<String>,
    /// They have a socket in this room of the namespace, or of `/` if none is named.
    pub room: Option<String>,
    /// So many are shown; all are counted.
    pub limit: usize,
}

/// Which rooms. Without any member: all.
#[derive(Clone, Debug, Default)]
pub struct RoomsWanted {
    /// Rooms of this namespace.
    pub namespace: Option<String>,
    /// Their names have this text in them.
    pub contains: String,
    /// So many are shown; all are counted.
    pub limit: usize,
}

/// What a shard has to show.
#[derive(Debug)]
pub enum Sight {
    /// Sessions.
    Sessions(Seen<SeenSession>),
    /// Rooms.
    Rooms(Seen<SeenRoom>),
    /// Sessions that ended.
    Ends(Vec<Ended>),
    /// How many sessions there are of each kind.
    Classes(Classes),
}

/// A part of what was found, and how much was found.
#[derive(Debug)]
pub struct Seen<T> {
    /// At most as many as were wanted.
    pub items: Vec<T>,
    /// All that fit the question.
    pub matched: u64,
}

/// A session as an operator sees it.
#[derive(Debug)]
pub struct SeenSession {
    /// Its id.
    pub id: Id20,
    /// The protocol that its client speaks.
    pub protocol: Protocol,
    /// The version of Engine.IO; none where there is no Engine.IO.
    pub engineio: Option<u8>,
    /// Its packets are MessagePack.
    pub msgpack: bool,
    /// `polling`, `websocket`, `webtransport` or `sse`, as of now.
    pub transport: &'static str,
    /// A WebSocket is about to take the place of polling.
    pub upgrading: bool,
    /// Its messages may be compressed.
    pub compressed: bool,
    /// Another node passes its connection on.
    pub relayed: bool,
    /// The client's address, as trusted proxies tell it.
    pub peer: IpAddr,
    /// The name of the client's program, from its first request; none if it gave none, or more than a thousand different ones are here.
    pub agent: Option<Arc<str>>,
    /// A line for each claim of the token that was good last: the name and the kind, with a tab between them; none without a token.
    pub claims: Option<Arc<str>>,
    /// Its connection, if one session was asked for: its shard says what the kernel knows of it.
    pub conn: Option<ConnId>,
    /// The kernel's figures of that connection.
    pub kernel: Option<Kernel>,
    /// Bytes that wait for the client.
    pub waiting_bytes: usize,
    /// Bytes that came from the client and are no whole message yet.
    pub input_bytes: usize,
    /// How long the last ping is unanswered, milliseconds; none if it was answered.
    pub silent_ms: Option<u32>,
    /// The time from its last answered ping to the answer, milliseconds, 65,535 at most. There is none before the first answer, and none of
    /// clients that ping by themselves.
    pub round_trip_ms: Option<u16>,
    /// Messages that were rejected for their rate, less those accepted since.
    pub rejections: u16,
    /// What is used of the rates that hold for its messages.
    pub rates: Vec<UsedRate>,
    /// Its sockets: the first eight.
    pub sockets: Vec<SeenSocket>,
    /// How many it has.
    pub socket_count: usize,
}

/// The kernel's figures of a TCP connection (`tcp_info` of Linux). With a proxy in front it is the proxy's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Smoothed round-trip time, microseconds.
    pub rtt_us: u32,
    /// How much it varies, microseconds.
    pub rtt_var_us: u32,
    /// Segments that were sent again since it began.
    pub retransmits: u32,
    /// Timeouts in a row, without an answer since.
    pub backoff: u8,
    /// Bytes that were sent and not acknowledged.
    pub unacked_bytes: u32,
    /// Bytes that the kernel has not sent yet.
    pub unsent_bytes: u32,
}

/// A socket as an operator sees it.
#[derive(Debug)]
pub struct SeenSocket {
    /// Its id.
    pub id: Id20,
    /// The namespace that it is in.
    pub namespace: Arc<str>,
    /// The user that it belongs to.
    pub user: Option<String>,
    /// When it joined its namespace, Unix milliseconds. A member that came back keeps the time of its first connection.
    pub since_ms: u64,
    /// When its token ends, Unix seconds; none if it has no end.
    pub expires_s: Option<u32>,
    /// The rooms that it is in, without that of its own id: the first fifty.
    pub rooms: Vec<String>,
    /// How many rooms these are.
    pub room_count: usize,
    /// Answers that its client owes to events with an ack.
    pub acks_owed: usize,
    /// Bytes of the data that a handler attached.
    pub data_bytes: usize,
    /// A client that loses this connection can come back to what it missed.
    pub recoverable: bool,
    /// Its client came back in this way.
    pub recovered: bool,
}

/// A room as an operator sees it.
#[derive(Debug)]
pub struct SeenRoom {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Members that are connected to this shard.
    pub here: u64,
    /// Members on all shards of this node.
    pub members: u64,
    /// Events to it each second, of a sample; none where the largest were wanted.
    pub events_per_s: Option<f64>,
    /// Deliveries to its members on this shard each second, in the same way.
    pub deliveries_per_s: Option<f64>,
    /// Members on this shard for whom something waits; none unless the slowest were wanted.
    pub behind: Option<u64>,
    /// Bytes that wait for these members.
    pub waiting_bytes: Option<u64>,
}

/// A look under way. Slots that come or go meanwhile may be missed.
#[derive(Debug)]
pub struct Look {
    question: Question,
    /// The next slot of the table.
    slot: u32,
    sessions: Vec<SeenSession>,
    rooms: Vec<SeenRoom>,
    matched: u64,
    classes: Classes,
    slow: Slow,
}

impl Look {
    /// Begins to look.
    pub fn new(question: Question) -> Self {
        Self {
            question,
            slot: 0,
            sessions: Vec::new(),
            rooms: Vec::new(),
            matched: 0,
            classes: Classes::default(),
            slow: Slow::default(),
        }
    }

    /// Goes on for so many slots; the sight when all were looked at.
    pub fn step(&mut self, hub: &Hub, slots: usize) -> Option<Sight> {
        let parts = &hub.stage.parts;
        // A copy, because the walk changes the look.
        match self.question.clone() {
            Question::Ends { limit } => {
                let ends = parts.books.ends.newest(limit).cloned();
                Some(Sight::Ends(ends.collect()))
            }
            Question::Sessions(wanted) => {
                let is_done = self.look_for_sessions(parts, &wanted, slots);
                is_done.then(|| {
                    Sight::Sessions(Seen {
                        items: std::mem::take(&mut self.sessions),
                        matched: self.matched,
                    })
                })
            }
            Question::Classes => {
                let is_done = self.walk(slots, |look, slot| {
                    let session = parts.people.sessions.nth(slot)?;
                    let session = parts.people.sessions.get(session);
                    if let Some(session) = session.filter(|session| !session.flags.closing) {
                        look.classes.count(parts, session);
                    }
                    Some(())
                });
                is_done.then_some(Sight::Classes(self.classes))
            }
            Question::BusyRooms(wanted) => {
                for pace in parts.rooms.busy.paces(parts.clock.now.mono_ms) {
                    if let Some(room) = self.look_at_room(parts, &wanted, pace.room) {
                        room.events_per_s = Some(pace.events_per_s);
                        room.deliveries_per_s = Some(pace.deliveries_per_s);
                    }
                }
                self.rooms.truncate(wanted.limit);
                Some(self.rooms_seen())
            }
            Question::SlowRooms(wanted) => {
                let is_done = self.walk_to_slow(parts, &wanted, slots);
                is_done.then(|| {
                    for (room, wait) in self.slow.take() {
                        if self.rooms.len() >= wanted.limit {
                            break;
                        }
                        if let Some(room) = self.look_at_room(parts, &wanted, room) {
                            room.behind = Some(wait.behind);
                            room.waiting_bytes = Some(wait.bytes);
                        }
                    }
                    self.rooms_seen()
                })
            }
            Question::Rooms(wanted) => {
                let is_done = self.walk(slots, |look, slot| {
                    look.look_at_room(parts, &wanted, parts.rooms.table.nth(slot)?);
                    // The largest are picked on the way: a table of a million rooms is not copied.
                    if look.rooms.len() >= 2 * wanted.limit.max(1) {
                        look.keep_largest(wanted.limit);
                    }
                    Some(())
                });
                is_done.then(|| {
                    self.keep_largest(wanted.limit);
                    self.rooms_seen()
                })
            }
        }
    }

    /// Walks the shortest list that has them all: one session, the members of a room, or the whole table.
    fn look_for_sessions(&mut self, parts: &Parts, wanted: &SessionsWanted, slots: usize) -> bool {
        let people = &parts.people;
        if let Some(id) = &wanted.id {
            self.look_at(parts, wanted, find(parts, id));
            return true;
        }
        let Some(name) = &wanted.room else {
            return self.walk(slots, |look, slot| {
                let index = people.sessions.nth(slot)?;
                look.look_at(parts, wanted, Some(index));
                Some(())
            });
        };
        let namespace = wanted.namespace.as_deref().unwrap_or("/");
        let namespace = people.namespaces.find(namespace);
        let room = namespace
            .and_then(|namespace| parts.rooms.table.find(namespace, RoomKind::Named, name));
        let Some(room) = parts.rooms.table.get(room) else {
            return true;
        };
        self.walk(slots, |look, slot| {
            let member = room.members().get(slot as usize)?;
            // A session has one socket in a namespace, so no room shows it twice.
            let session = people.sockets.get(*member).map(|socket| socket.session);
            look.look_at(parts, wanted, session);
            Some(())
        })
    }

    /// `true`: the end of the table was reached.
    fn walk(&mut self, slots: usize, mut visit: impl FnMut(&mut Self, u32) -> Option<()>) -> bool {
        for _ in 0..slots {
            let slot = self.slot;
            if visit(self, slot).is_none() {
                return true;
            }
            self.slot += 1;
        }
        false
    }

    fn look_at(&mut self, parts: &Parts, wanted: &SessionsWanted, index: Option<SessionId>) {
        let Some(session) = parts.people.sessions.get(index) else {
            return;
        };
        if session.flags.closing || !wanted.fits(parts, session) {
            return;
        }
        self.matched += 1;
        if self.sessions.len() < wanted.limit {
            let mut seen = seen(parts, session);
            // The kernel is asked about one connection, not about all that are shown.
            if wanted.id.is_none() {
                seen.conn = None;
            }
            self.sessions.push(seen);
        }
    }

    /// As [`Self::walk`]; a slow session counts for as many slots as it has rooms.
    fn walk_to_slow(&mut self, parts: &Parts, wanted: &RoomsWanted, slots: usize) -> bool {
        let mut left = slots;
        while left > 0 {
            let Some(index) = parts.people.sessions.nth(self.slot) else {
                return true;
            };
            self.slot += 1;
            let session = parts.people.sessions.get(index);
            let is_wanted = |room: &Room| wanted.fits(parts, room);
            let looked = session.map_or(0, |session| self.slow.note(parts, session, is_wanted));
            left = left.saturating_sub(1 + looked);
        }
        false
    }

    /// The room as it is shown, if it is one that clients can name and it is wanted.
    fn look_at_room(
        &mut self,
        parts: &Parts,
        wanted: &RoomsWanted,
        room: RoomId,
    ) -> Option<&mut SeenRoom> {
        let room = parts
            .rooms
            .table
            .get(room)
            .filter(|room| wanted.fits(parts, room))?;
        let namespace = parts.people.namespaces.label(room.namespace())?;
        self.matched += 1;
        self.rooms.push(SeenRoom {
            namespace: Arc::clone(namespace),
            name: Arc::clone(room.name()),
            here: room.members().len() as u64,
            members: room.total(),
            events_per_s: None,
            deliveries_per_s: None,
            behind: None,
            waiting_bytes: None,
        });
        self.rooms.last_mut()
    }

    fn rooms_seen(&mut self) -> Sight {
        Sight::Rooms(Seen {
            items: std::mem::take(&mut self.rooms),
            matched: self.matched,
        })
    }

    fn keep_largest(&mut self, limit: usize) {
        if self.rooms.len() > limit && limit > 0 {
            let order = |a: &SeenRoom, b: &SeenRoom| b.members.cmp(&a.members);
            self.rooms.select_nth_unstable_by(limit - 1, order);
        }
        self.rooms.truncate(limit);
    }
}

fn find(parts: &Parts, id: &Id20) -> Option<SessionId> {
    let people = &parts.people;
    let socket = || Some(people.sockets.get(people.sockets.find(id)?)?.session);
    people.sessions.find(id).or_else(socket)
}

impl RoomsWanted {
    /// A room with members that clients can name, of those that were asked for.
    fn fits(&self, parts: &Parts, room: &Room) -> bool {
        let named = self.namespace.as_deref();
        let label = || {
            parts
                .people
                .namespaces
                .label(room.namespace())
                .map(|label| &**label)
        };
        room.kind() == RoomKind::Named
            && !room.is_own()
            && !room.members().is_empty()
            && named.is_none_or(|name| label() == Some(name))
            && room.name().contains(&self.contains)
    }
}

impl SessionsWanted {
    fn fits(&self, parts: &Parts, session: &Session) -> bool {
        if self
            .address
            .is_some_and(|address| address != session.client.peer())
        {
            return false;
        }
        if self.namespace.is_none() && self.user.is_none() {
            return true;
        }
        session.sockets.iter().any(|index| {
            let socket = parts.people.sockets.get(*index);
            socket.is_some_and(|socket| self.fits_socket(parts, *index, socket))
        })
    }

    fn fits_socket(&self, parts: &Parts, index: SocketId, socket: &Socket) -> bool {
        let label = || {
            parts
                .people
                .namespaces
                .label(socket.namespace)
                .map(|label| &**label)
        };
        let (namespace, user) = (self.namespace.as_deref(), self.user.as_deref());
        namespace.is_none_or(|name| label() == Some(name))
            && user.is_none_or(|name| parts.people.user_of(index) == Some(name))
    }
}

fn seen(parts: &Parts, session: &Session) -> SeenSession {
    let conn = parts.line.conns.get(session.conn);
    let sockets = session.sockets.iter().filter_map(|index| {
        let socket = parts.people.sockets.get(*index)?;
        seen_socket(parts, *index, socket)
    });
    SeenSession {
        id: session.sid,
        protocol: session.language.protocol(),
        engineio: session.language.protocol().is_engineio().then_some(
            match session.language.revision() {
                Revision::Three => 3,
                Revision::Four => 4,
            },
        ),
        msgpack: session.language.is_msgpack()
            || session.language.protocol() == Protocol::PlainMsgpack,
        transport: session.transport(),
        upgrading: session.flags.upgrading,
        compressed: conn.is_some_and(|conn| conn.handshake.inflates()),
        relayed: conn.is_some_and(|conn| conn.origin.is_relayed()),
        peer: session.client.peer(),
        agent: parts.people.agents.get(session.client.agent()).cloned(),
        claims: parts
            .people
            .claim_kinds
            .get(session.client.claims())
            .cloned(),
        conn: session.conn.or_else(|| session.polling.as_ref()?.waiting()),
        kernel: None,
        waiting_bytes: waiting_bytes(&parts.line, session),
        input_bytes: conn.map_or(0, |conn| conn.unread.bytes().len()),
        silent_ms: session.heart.silent_ms(parts.clock.now.mono_ms),
        round_trip_ms: session.heart.round_trip_ms(),
        rejections: session.dues.rejections,
        rates: parts
            .access
            .meters
            .used_by(&parts.people, parts.clock.now_us(), session),
        sockets: sockets.take(SOCKETS_SHOWN).collect(),
        socket_count: session.sockets.len(),
    }
}

fn seen_socket(parts: &Parts, index: SocketId, socket: &Socket) -> Option<SeenSocket> {
    let (rooms, room_count) = rooms_of(parts, socket);
    let extra = socket.extra.as_ref();
    let lifeline = extra.and_then(|extra| extra.lifeline.as_ref());
    let data = extra.and_then(|extra| extra.data.as_ref());
    Some(SeenSocket {
        id: socket.id,
        namespace: Arc::clone(parts.people.namespaces.label(socket.namespace)?),
        user: parts.people.user_of(index).map(str::to_owned),
        since_ms: socket_made_ms(&socket.id),
        expires_s: Some(socket.expires_s).filter(|expires| *expires > 0),
        rooms,
        room_count,
        acks_owed: parts.rounds.owed_by(parts.people.sockets.key(index)),
        data_bytes: data.map_or(0, |data| data.len()),
        recoverable: lifeline.is_some(),
        recovered: lifeline.is_some_and(|lifeline| lifeline.recovered),
    })
}

/// Names of the first of its rooms, and how many it is in, without that of its own id.
fn rooms_of(parts: &Parts, socket: &Socket) -> (Vec<String>, usize) {
    let id = socket.id.encode();
    // A socket that moved here from another shard has its own room in the table, too.
    let is_shown = |room: &&Room| room.kind() == RoomKind::Named && room.name().as_bytes() != id;
    let rooms = socket.rooms.iter();
    let rooms = rooms.filter_map(|membership| parts.rooms.table.get(membership.room));
    let shown = rooms.clone().filter(is_shown).take(ROOMS_SHOWN);
    let names = shown.map(|room| room.name().to_string()).collect();
    (names, rooms.filter(is_shown).count())
}
