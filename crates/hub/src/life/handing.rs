//! A session as a record for a process that takes over, and its silent end here: its client is told nothing, and goes on elsewhere.

use crate::access::tokens;
use crate::clients::conn::{Conn, State};
use crate::clients::people::People;
use crate::clients::session::{Polling, Protocol, RequestToken, Session};
use crate::clients::tags::{Tag, Tags};
use crate::cluster::asking;
use crate::life::keepsakes::{self, Keeping};
use crate::life::staying::{self, Crossing, Stays, carrier_fit, waiting_bytes};
use crate::life::{conns, deeds, ending, gaps};
use crate::output::backlog::{Fate, Unit};
use crate::output::compression::Deflate;
use crate::parts::Parts;
use crate::recovery::record::Lifeline;
use crate::seam::handler::Handler;
use crate::tables::slot::{ConnId, SessionId, SessionKey, SocketId};
use crate::transport::polling;
use handoff::Owed;
use handoff::backend::Stay;
use handoff::bounds::{NUMBERS_MAX, RATES_MAX, RECORD_BYTES_MAX};
use handoff::takes;
use std::collections::HashSet;
use std::net::IpAddr;
use wire::base64url::Id20;
use wire::engineio::{PacketType, Revision};

/// The sessions of a hub, one after the other, as they would be handed over. It is made anew after each turn.
#[derive(Debug)]
pub struct Handing {
    /// What the next process can go on with ([`handoff::takes`]).
    takes: u64,
    /// The page of marks that comes next. What is kept for those who come follows, then sessions, then connections.
    marks_at: usize,
    /// What is kept for those who come; `None`: the next process takes none of it.
    keeping: Option<Box<Keeping>>,
    at: u32,
    conn_at: u32,
    /// Sessions about which somebody is asked.
    asked: HashSet<SessionKey>,
    /// Sessions that wait for a room's history.
    following: HashSet<SessionId>,
    /// Sessions with an answer that waits until other nodes know of a room.
    joining: HashSet<SessionId>,
    /// Sessions that poll and whose last answer is not out.
    unanswered: HashSet<SessionKey>,
    /// Sockets of sessions that do not go.
    stays: Vec<Stay>,
}

/// The connections of a session that go with it.
#[derive(Clone, Copy, Debug, Default)]
struct Carriers {
    carrier: Option<ConnId>,
    probe: Option<ConnId>,
    post: Option<ConnId>,
}

impl Carriers {
    fn all(self) -> Vec<ConnId> {
        let all = [self.carrier, self.probe, self.post];
        all.into_iter().flatten().collect()
    }
}

/// Something that goes.
#[derive(Debug)]
pub enum Handed {
    /// What was carried out of a bus.
    Marks(Box<handoff::Marks>),
    /// A piece of what is kept for those who come.
    Keeps(Box<handoff::Keepsakes>),
    /// A session goes with these connections, in the order of [`handoff::Session::conns`].
    Goes(Vec<ConnId>, SessionId, Box<handoff::Session>),
    /// A connection without a session goes.
    Visits(ConnId, Box<handoff::Visitor>),
}

impl Handing {
    pub(crate) fn new(parts: &Parts, takes: u64) -> Self {
        let asked = parts
            .outbound
            .asks
            .iter()
            .filter_map(|(_, open)| open.session);
        let followers = parts.rooms.followers.sockets();
        let following = followers.filter_map(|index| {
            let socket = parts.people.sockets.get(index)?;
            Some(socket.session)
        });
        let away = parts.away.as_ref().map(|away| away.joins.answers());
        let saved = parts.away.as_ref().map(|away| away.saves.answers());
        let answers = away.into_iter().flatten();
        let joining = answers
            .chain(saved.into_iter().flatten())
            .filter_map(|socket| {
                let socket = parts.people.sockets.here(socket)?;
                Some(socket.session)
            });
        let unconfirmed = parts.line.polls.unconfirmed();
        let unanswered = unconfirmed.filter(|conn| {
            let slot = parts.line.conns.get(*conn);
            slot.is_some_and(|slot| !slot.outbox.is_empty())
        });
        let unanswered = unanswered.filter_map(|conn| parts.line.polls.sent_on(conn));
        Self {
            takes,
            unanswered: unanswered.collect(),
            marks_at: 0,
            keeping: None,
            at: 0,
            conn_at: 0,
            asked: asked.collect(),
            following: following.collect(),
            joining: joining.collect(),
            stays: Vec::new(),
        }
    }

    /// What is kept for those who come goes as well; the next process has the journal up to this place.
    pub fn keep_from(&mut self, copied: u64) {
        self.keeping.get_or_insert_default().note_copied(copied);
    }

    /// Sockets of sessions that were looked at and do not go, since this was asked last.
    pub fn take_stays(&mut self) -> Vec<Stay> {
        std::mem::take(&mut self.stays)
    }

    /// Sockets without a connection, and rooms with their events, that cannot go, since this was asked last.
    pub fn take_left_behind(&mut self) -> u64 {
        let keeping = self.keeping.as_mut();
        keeping.map_or(0, |keeping| keeping.take_left_behind())
    }

    /// The next that goes; `None`: there are no more.
    pub(crate) fn next(
        &mut self,
        parts: &Parts,
        is_secure: impl Fn(ConnId) -> bool,
    ) -> Option<Handed> {
        while self.marks_at < parts.rooms.repeats.len() {
            let now_ms = parts.clock.now.mono_ms;
            let marks = parts.rooms.repeats.record(self.marks_at, now_ms);
            self.marks_at += 1;
            if let Some(marks) = marks {
                return Some(Handed::Marks(Box::new(marks)));
            }
        }
        let piece = self
            .keeping
            .as_mut()
            .and_then(|keeping| keeping.next(parts));
        if let Some(piece) = piece {
            return Some(Handed::Keeps(Box::new(piece)));
        }
        while let Some(index) = parts.people.sessions.nth(self.at) {
            self.at += 1;
            let Some(session) = parts.people.sessions.get(index) else {
                continue;
            };
            if !waits(session)
                && let Ok((carriers, _)) = self.fit(parts, index, session, &is_secure)
            {
                let record = record(parts, session, carriers);
                // Rooms, data and attachments count as well; the shard may add marks of two bytes, and the handler answers that it owes.
                let bytes = record.size() + 2 * carriers.all().len() + owed_bytes(&record);
                if bytes <= RECORD_BYTES_MAX && handoff::is_taken(&record) {
                    return Some(Handed::Goes(carriers.all(), index, Box::new(record)));
                }
            }
            self.note_stay(parts, session);
        }
        while let Some(conn) = parts.line.conns.nth(self.conn_at) {
            self.conn_at += 1;
            if let Some(visitor) = visitor(parts, conn).filter(|_| !is_secure(conn)) {
                return Some(Handed::Visits(conn, Box::new(visitor)));
            }
        }
        // Only now it is known which sessions stay: their sockets go as ones without a connection (ADR 82).
        let left = self
            .keeping
            .as_mut()
            .and_then(|keeping| keeping.next_left());
        left.map(|piece| Handed::Keeps(Box::new(piece)))
    }

    fn note_stay(&mut self, parts: &Parts, session: &Session) {
        if let Some(keeping) = &mut self.keeping {
            keeping.leave(parts, session);
        }
        for index in &session.sockets {
            if let Some(socket) = parts.people.sockets.get(*index) {
                self.stays.push(Stay {
                    socket: socket.id.to_string(),
                    rooms: parts.rooms.names_of(&parts.people, *index),
                });
            }
        }
    }

    /// Tells of each session whether it would go.
    pub(crate) fn count(
        &self,
        parts: &Parts,
        is_secure: impl Fn(ConnId) -> bool,
        mut tell: impl FnMut(Result<Crossing, Stays>),
    ) {
        for (index, session) in parts.people.sessions.iter() {
            let fit = self.fit(parts, index, session, &is_secure);
            tell(fit.map(|(_, goes)| goes));
        }
    }

    /// Whether it goes: with which connections, and how.
    fn fit(
        &self,
        parts: &Parts,
        index: SessionId,
        session: &Session,
        is_secure: impl Fn(ConnId) -> bool,
    ) -> Result<(Carriers, Crossing), Stays> {
        if let Some(polling) = &session.polling {
            self.polling_fit(parts, index, session, polling)?;
            let post = staying::post_fit(&parts.line, polling, self.takes, &is_secure)?;
            let (probe, goes) =
                staying::probe_fit(&parts.line, session, polling, self.takes, &is_secure)?;
            let goes = match goes {
                Crossing::Plainly if post.is_some() => Crossing::Posting,
                goes => goes,
            };
            let carrier = None;
            return Ok((
                Carriers {
                    carrier,
                    probe,
                    post,
                },
                goes,
            ));
        }
        let streams = session.language.protocol() == Protocol::EventStream;
        if streams && self.takes & takes::STREAMS == 0 {
            return Err(Stays::EventStream);
        }
        let conn = session.conn.ok_or(Stays::Passing)?;
        let slot = parts.line.conns.get(conn).ok_or(Stays::Passing)?;
        carrier_fit(slot, is_secure(conn))?;
        let asked = self.asked.contains(&parts.people.sessions.key(index));
        if asked || slot.unread.is_asking() || session.joining.gates.len() > 0 {
            return Err(Stays::Question);
        }
        if slot.lag.is_held() || self.joining.contains(&index) {
            return Err(Stays::Joining);
        }
        let (state, goes) = match streams {
            true => (State::Stream, Crossing::Streaming),
            false => (State::WebSocket, Crossing::Plainly),
        };
        // A stream that its client was not let into yet has no head.
        let begun = !streams || session.flags.joined;
        let ends = slot.state != state || slot.unread.has_ended() || session.flags.closing;
        if ends || !begun || self.following.contains(&index) {
            return Err(Stays::Passing);
        }
        let attached = session.binary.as_ref().map_or(0, |part| part.bytes());
        // The rest of a record has bounds of its own, which are far lower.
        if waiting_bytes(slot) + attached > RECORD_BYTES_MAX / 2 {
            return Err(Stays::TooLarge);
        }
        let carriers = Carriers {
            carrier: Some(conn),
            ..Carriers::default()
        };
        Ok((carriers, goes))
    }

    fn polling_fit(
        &self,
        parts: &Parts,
        index: SessionId,
        session: &Session,
        polling: &Polling,
    ) -> Result<(), Stays> {
        let key = parts.people.sessions.key(index);
        if self.asked.contains(&key) || session.joining.gates.len() > 0 {
            return Err(Stays::Question);
        }
        if polling.secure {
            return Err(Stays::Tls);
        }
        if polling.lag.is_held() || self.joining.contains(&index) {
            return Err(Stays::Joining);
        }
        let passes = session.flags.closing || polling.overflowed;
        if passes || self.following.contains(&index) {
            return Err(Stays::Passing);
        }
        if self.unanswered.contains(&key) {
            return Err(Stays::Polling);
        }
        let attached = session.binary.as_ref().map_or(0, |part| part.bytes());
        if polling.queue.cost() + attached > RECORD_BYTES_MAX / 2 {
            return Err(Stays::TooLarge);
        }
        Ok(())
    }
}

/// What the answers that are owed to its client, and the handler's numbers, add to a record, at most.
fn owed_bytes(record: &handoff::Session) -> usize {
    const EACH: usize = 2 + 2 * 11;
    const NUMBERS: usize = 2 + NUMBERS_MAX * 10;
    let owed = record.sockets.iter().map(|socket| socket.owed as usize);
    owed.map(|owed| owed * EACH + NUMBERS).sum()
}

/// The answers that the handler owes to the client, those that it wants from it, and its numbers.
pub(crate) fn note_owed(people: &People, record: &mut handoff::Session, handler: &dyn Handler) {
    for socket in &mut record.sockets {
        let id = socket.id.as_slice().try_into().ok().map(Id20);
        let index = id.and_then(|id| people.sockets.find(&id));
        socket.numbers = index.map_or_else(Vec::new, |index| {
            handler.numbers_of(people.sockets.key(index))
        });
        socket.asked.retain_mut(|asked| {
            let query = handler.query_of(asked.query);
            asked.query = query.unwrap_or_default();
            query.is_some()
        });
        if socket.owed > 0
            && let Some(id) = id
        {
            let owed = handler.owes(id).into_iter();
            socket.acks = owed.map(|(number, id)| Owed { number, id }).collect();
        }
    }
}

/// Whether a poll came in after the others were answered: it is told of the end.
fn waits(session: &Session) -> bool {
    let polling = session.polling.as_ref();
    polling.is_some_and(|polling| polling.get.is_some())
}

/// Polls that wait get nothing, so that their clients ask again: then they find the process that serves. Over TLS they would ask here, on
/// the connection that stays: they are told of the end instead.
pub(crate) fn answer_waiting_polls(parts: &mut Parts) {
    let sessions = parts.people.sessions.iter();
    let waiting = sessions.filter(|(_, session)| {
        let polling = session.polling.as_ref();
        polling.is_some_and(|polling| {
            polling.get.is_some() && !polling.lag.is_held() && !polling.secure
        })
    });
    let waiting: Vec<SessionId> = waiting.map(|(index, _)| index).collect();
    for index in waiting {
        polling::answer_poll(parts, index, &[PacketType::Noop as u8], false);
    }
}

/// Slow clients that lost something are told now: the next process does not know of it.
pub(crate) fn tell_gaps(parts: &mut Parts) {
    if parts.recovery.is_none() {
        return;
    }
    let sessions = parts.people.sessions.iter().filter(|(_, session)| {
        let conn = session.conn.and_then(|conn| parts.line.conns.get(conn));
        let polling = session.polling.as_ref();
        conn.is_some_and(|conn| conn.lag.is_untold())
            || polling.is_some_and(|polling| polling.lag.is_untold())
    });
    let sessions: Vec<SessionId> = sessions.map(|(index, _)| index).collect();
    for session in sessions {
        gaps::tell_due(parts, session);
    }
}

/// A connection whose request has not come, or is not whole.
fn visitor(parts: &Parts, conn: ConnId) -> Option<handoff::Visitor> {
    let slot = parts.line.conns.get(conn)?;
    let waits = slot.state == State::Head && slot.session.is_none() && slot.outbox.is_empty();
    let (unread, origin) = (&slot.unread, &slot.origin);
    // A place of the reserve is for now, and whom another node relays has that node.
    let passes = origin.is_for_one_request() || origin.is_carried();
    let passes = passes || unread.has_ended() || unread.is_asking();
    if !waits || passes || unread.bytes().len() > RECORD_BYTES_MAX / 2 {
        return None;
    }
    let proxy = parts.access.proxy_of(conn);
    Some(handoff::Visitor {
        peer: bytes_of(origin.peer()),
        unix: false,
        input: unread.bytes().to_vec(),
        served: slot.exchange.has_served(),
        preface: false,
        proxy: proxy.map(bytes_of).unwrap_or_default(),
    })
}

fn bytes_of(addr: IpAddr) -> Vec<u8> {
    match addr {
        IpAddr::V4(addr) => addr.octets().to_vec(),
        IpAddr::V6(addr) => addr.octets().to_vec(),
    }
}

fn record(parts: &Parts, session: &Session, carriers: Carriers) -> handoff::Session {
    let now_ms = parts.clock.now.mono_ms;
    let rare = session.rare.as_ref();
    let (token, claims) = match session.joining.token.as_deref() {
        None => (None, None),
        Some(RequestToken::Unread(token)) => (Some(token.to_string()), None),
        Some(RequestToken::Good(claims)) => (None, Some(claims.into())),
    };
    let sockets = session.sockets.iter();
    handoff::Session {
        sid: session.sid.0.to_vec(),
        protocol: protocol(session.language.protocol()),
        revision: match session.language.revision() {
            Revision::Three => 3,
            Revision::Four => 4,
        },
        peer: bytes_of(session.client.peer()),
        base64: session.language.is_base64(),
        asks_offsets: session.language.asks_offsets(),
        heard_packet: session.language.has_parser(),
        msgpack: session.language.is_msgpack(),
        joined: session.flags.joined,
        heart: Some(session.heart.record(now_ms)),
        sockets: sockets.filter_map(|index| socket(parts, *index)).collect(),
        partial: session.binary.as_ref().map(|part| handoff::Attached {
            text: part.text.to_string(),
            wanted: part.wanted as u32,
            attachments: part.attachments.clone(),
            waited_ms: now_ms.saturating_sub(part.since_ms) as u32,
        }),
        query: rare.map(|rare| rare.query.to_string()).unwrap_or_default(),
        headers: rare.map(|rare| rare.headers.to_vec()).unwrap_or_default(),
        parted: rare.map(|rare| rare.parted().to_vec()).unwrap_or_default(),
        refusals: rare.map_or(0, |rare| u32::from(rare.refusals)),
        agent: tag(&parts.people.agents, session.client.agent()),
        claim_kinds: tag(&parts.people.claim_kinds, session.client.claims()),
        dues: dues(session),
        token,
        claims,
        conn: carriers
            .carrier
            .and_then(|carrier| parts.line.conns.get(carrier))
            .map(conn),
        polling: session
            .polling
            .as_ref()
            .map(|own| polling_record(parts, session, own, carriers)),
        reading: rare
            .and_then(|rare| rare.stream.as_ref())
            .map(|stream| stream.reading.record()),
    }
}

fn polling_record(
    parts: &Parts,
    session: &Session,
    polling: &Polling,
    carriers: Carriers,
) -> handoff::Polling {
    let now_ms = parts.clock.now.mono_ms as u32;
    let slot = |way: Option<ConnId>| way.and_then(|way| parts.line.conns.get(way));
    let probe = slot(carriers.probe).zip(polling.probe);
    let post = slot(carriers.post).and_then(|slot| match slot.state {
        State::Body { len } => Some((slot, len)),
        _ => None,
    });
    handoff::Polling {
        queue: polling.queue.units().map(unit).collect(),
        last: polling.last.said(),
        probe: probe.map(|(slot, own)| handoff::Probe {
            conn: Some(conn(slot)),
            peer: bytes_of(slot.origin.peer()),
            waited_ms: now_ms.wrapping_sub(own.at_ms),
            base64: own.b64,
            answered: session.flags.upgrading,
        }),
        post: post.map(|(slot, left)| handoff::Post {
            conn: Some(conn(slot)),
            peer: bytes_of(slot.origin.peer()),
            left,
            form: polling.post.form,
            counted: polling.post.counted,
            cors: polling
                .post
                .cors
                .as_deref()
                .map_or_else(Vec::new, Vec::from),
            keep_alive: slot.exchange.keeps_alive(),
        }),
    }
}

/// What a session has used of rates, if it has.
fn dues(session: &Session) -> Option<handoff::Dues> {
    let (dues, rare) = (&session.dues, session.rare.as_ref());
    let rates = rare.map_or(&[][..], |rare| rare.rates()).iter();
    let rates = rates.map(|(number, state_us)| handoff::Spent {
        number: *number,
        state_us: *state_us,
    });
    let told = handoff::Dues {
        state_us: dues.rate,
        rejections: dues.rejections.into(),
        unbooked: dues.unbooked.into(),
        granted: dues.granted.into(),
        rates: rates.take(RATES_MAX).collect(),
    };
    (told != handoff::Dues::default()).then_some(told)
}

fn tag(tags: &Tags, tag: Tag) -> String {
    tags.get(tag)
        .map(|text| text.to_string())
        .unwrap_or_default()
}

pub(crate) fn protocol(protocol: Protocol) -> u32 {
    match protocol {
        Protocol::SocketIo => 1,
        Protocol::EngineIo => 2,
        Protocol::PlainJson => 3,
        Protocol::PlainMsgpack => 4,
        Protocol::PlainRaw => 5,
        Protocol::EventStream => 6,
        Protocol::Raw => 7,
    }
}

fn socket(parts: &Parts, index: SocketId) -> Option<handoff::Socket> {
    let socket = parts.people.sockets.get(index)?;
    let extra = socket.extra.as_ref();
    let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    let id = socket.id.encode();
    let rooms = parts.rooms.names_of(&parts.people, index).into_iter();
    let key = parts.people.sockets.key(index);
    let (asked, rounds) = (parts.rounds.asked(key), parts.rounds.parts_of(key));
    Some(handoff::Socket {
        id: socket.id.0.to_vec(),
        namespace: parts.people.namespaces.label(socket.namespace)?.to_string(),
        // `nameless` says whether the socket is in the room of its own id.
        rooms: rooms.filter(|name| name.as_bytes() != id).collect(),
        nameless: socket.flags.nameless,
        user: parts.people.user_of(index).map(str::to_owned),
        data: extra.and_then(|extra| text(&extra.data)),
        auth: extra.and_then(|extra| text(&extra.auth)),
        grants: extra.and_then(|extra| extra.grants.as_deref().map(Into::into)),
        label: extra.and_then(|extra| text(&extra.label)),
        expires_s: socket.expires_s,
        owed: u32::from(socket.owed),
        acks: Vec::new(),
        numbers: Vec::new(),
        lifeline: extra.and_then(|extra| lifeline(extra.lifeline.as_deref()?)),
        returns: keepsakes::returns(parts, index),
        // The handler knows the number of each token.
        asked: asked
            .map(|(id, token, due_ms)| handoff::Asked {
                id,
                query: token,
                left_ms: due_ms.saturating_sub(parts.clock.now.mono_ms),
            })
            .collect(),
        rounds: rounds
            .map(|(id, round)| handoff::Round {
                id,
                node: u32::from(round.asker.node),
                shard: u32::from(round.asker.shard),
                number: round.number,
                timeout_ms: round.timeout_ms,
            })
            .collect(),
    })
}

/// The way by which its client comes back, if that is the store and not the journal.
fn lifeline(own: &Lifeline) -> Option<handoff::Lifeline> {
    let deed = own.life.deed()?;
    let mut bytes = Vec::new();
    deed.write(&mut bytes);
    Some(handoff::Lifeline {
        pid: deeds::pid_text(own.pid),
        uid: own.uid.as_deref().map(str::to_owned),
        fence: deed.fence,
        deed: bytes,
        gap: own.gap_ms.is_some(),
    })
}

fn conn(slot: &Conn) -> handoff::Conn {
    let (units, sent) = slot.outbox.waiting();
    let output = units.map(unit);
    handoff::Conn {
        // The shard fills it in.
        unix: false,
        input: slot.unread.bytes().to_vec(),
        output: output.collect(),
        sent: sent as u32,
        deflate: match slot.handshake.deflate() {
            Deflate::Off | Deflate::Own => 0,
            Deflate::Shared => 1,
            Deflate::Small => 2,
        },
        inflates: slot.handshake.inflates(),
    }
}

fn unit(unit: &Unit) -> handoff::Unit {
    handoff::Unit {
        bytes: unit.bytes().to_vec(),
        fate: fate(unit.fate),
        packets: unit.packets,
        exempt: unit.exempt,
    }
}

/// Keys of events that replace each other are hashes of this process: elsewhere the oldest event makes room, as when there are too many.
fn fate(fate: Fate) -> u32 {
    use crate::books::config::SlowConsumer::{Conflate, Disconnect, DropNewest, DropOldest};
    match fate {
        Fate::Fixed => 0,
        Fate::Event { policy, .. } => match policy {
            Disconnect => 1,
            DropOldest | Conflate => 2,
            DropNewest => 3,
        },
    }
}

/// A session with its connections, or a connection, has gone to another process: nobody here is told of an end.
pub(crate) fn forget(parts: &mut Parts, index: Option<SessionId>, conns: &[ConnId]) {
    if let Some(index) = index {
        let probe = parts.people.sessions.get(index);
        let probe = probe.and_then(Session::probe);
        if let Some(probe) = probe.filter(|probe| !conns.contains(probe)) {
            // The WebSocket could not go. Its client polls on, and finds the next process.
            ending::abort_upgrade(parts, index, probe);
        }
        let sockets = parts.people.sessions.get(index);
        let sockets = sockets.map(|slot| slot.sockets.clone());
        for socket in sockets.into_iter().flatten() {
            forget_socket(parts, socket);
        }
        parts.access.admission.session_left();
        parts.people.remove_session(&mut parts.clock, index);
    }
    for conn in conns {
        conns::forget_conn(parts, *conn);
    }
}

fn forget_socket(parts: &mut Parts, index: SocketId) {
    // Programs that wait for its answer are told that the socket is gone.
    asking::forget_acks(parts, parts.people.sockets.key(index));
    let shard = parts.ids.me.shard;
    let people: &mut People = &mut parts.people;
    let Some(slot) = people.sockets.get_mut(index) else {
        return;
    };
    slot.flags.gone = true;
    let (id, lifeline) = (slot.id, slot.extra.as_mut());
    let lifeline = lifeline.and_then(|extra| extra.lifeline.take());
    if let (Some(lifeline), Some(recovery)) = (lifeline, &mut parts.recovery) {
        recovery.live.remove(&lifeline.pid);
        people.whereabouts.went(id, shard);
    }
    tokens::forget_expiry(&mut parts.clock, people, index);
    people.part_socket(index);
    parts.rooms.leave_all(people, index, None);
    people.leave_user(index);
    people.free_socket(index);
}
