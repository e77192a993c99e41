//! A session that comes from the process before this one, with its connection. Its client is told nothing.

use crate::access::tokens;
use crate::books::claims::{Claims, Grants};
use crate::books::config::SlowConsumer;
use crate::clients::client::Client;
use crate::clients::conn::State;
use crate::clients::exchange::Exchange;
use crate::clients::handshake::Handshake;
use crate::clients::heart::Heart;
use crate::clients::language::Language;
use crate::clients::line::Line;
use crate::clients::repeats::LastPoll;
use crate::clients::route::Route;
use crate::clients::session::{
    Dues, Partial, Polling, Post, Probe, Protocol, RequestToken, Session, Stream,
};
use crate::clients::socket::{Extra, Flags, Place, Socket};
use crate::cluster::asking;
use crate::cluster::letter::RoundId;
use crate::life::keepsakes::{self, Unable};
use crate::life::{handing, memberships, parking};
use crate::output::backlog::{Backlog, Fate, Unit};
use crate::output::compression::Deflate;
use crate::parts::Parts;
use crate::recovery::deed::Deed;
use crate::recovery::pid::Pid;
use crate::recovery::record::{Life, Lifeline};
use crate::rooms::room::RoomKind;
use crate::seam::event::AckTo;
use crate::seam::stage::Stage;
use crate::tables::bytes::Reader;
use crate::tables::id;
use crate::tables::slot::{ConnId, SessionId, SocketId, SocketKey};
use crate::tables::timer::{ConnTimer, SessionTimer};
use smallvec::SmallVec;
use std::net::IpAddr;
use wire::base64url::Id20;
use wire::engineio::Revision;

/// Makes the session of a record, and gives its connections in the order of [`handoff::Session::conns`]: their streams come next.
pub(crate) fn arrive(parts: &mut Parts, record: &handoff::Session) -> Result<Vec<ConnId>, Unable> {
    let known = all_protocols().find(|one| handing::protocol(*one) == record.protocol);
    let protocol = known.ok_or_else(|| Unable(format!("protocol {}", record.protocol)))?;
    let (Some(sid), Some(peer)) = (id_of(&record.sid), address(&record.peer)) else {
        return Err(Unable("its id or its address".to_owned()));
    };
    if parts.people.sessions.find(&sid).is_some() {
        return Err(Unable("its id is another session's".to_owned()));
    }
    let carried = record.conn.as_ref();
    let state = match protocol {
        Protocol::EventStream => State::Stream,
        _ => State::WebSocket,
    };
    let conn = carried.map(|carried| open_conn(parts, carried, peer, state));
    let agent = parts.people.agents.take(&record.agent);
    let claims = parts.people.claim_kinds.take(&record.claim_kinds);
    let client = Client::new(peer, agent, claims);
    let mut session = session(parts, record, (sid, protocol, client));
    session.conn = conn;
    let session = parts.people.insert_session(session);
    parts.access.admission.session_came();
    if let Some(conn) = conn
        && let Some(slot) = parts.line.conns.get_mut(conn)
    {
        slot.session = Some(session);
    }
    let mut conns: Vec<ConnId> = conn.into_iter().collect();
    if let Some(polling) = &record.polling {
        go_on_polling(parts, session, polling, &mut conns)?;
    }
    // The transport is known before the sockets: how they are told things depends on it.
    for socket in &record.sockets {
        open_socket(parts, session, socket)?;
    }
    arm(parts, session, record);
    Ok(conns)
}

/// What waits for its polls, the WebSocket by which it is on its way up, and the POST that it brings.
fn go_on_polling(
    parts: &mut Parts,
    session: SessionId,
    record: &handoff::Polling,
    conns: &mut Vec<ConnId>,
) -> Result<(), Unable> {
    let mut polling = Polling {
        queue: Backlog::restored(units(&parts.line, &record.queue), 0),
        last: LastPoll::heard(record.last),
        ..Polling::default()
    };
    let mut answered = false;
    if let Some(probe) = &record.probe {
        let own = open_probe(parts, probe)?;
        conns.push(own.conn);
        (polling.probe, answered) = (Some(own), probe.answered);
    }
    if let Some(post) = &record.post {
        polling.post = open_post(parts, post)?;
        conns.extend(polling.post.conn);
    }
    for conn in conns {
        if let Some(slot) = parts.line.conns.get_mut(*conn) {
            slot.session = Some(session);
        }
    }
    if let Some(slot) = parts.people.sessions.get_mut(session) {
        slot.polling = Some(Box::new(polling));
        slot.flags.upgrading = answered;
    }
    Ok(())
}

fn open_probe(parts: &mut Parts, record: &handoff::Probe) -> Result<Probe, Unable> {
    let (Some(carried), Some(peer)) = (&record.conn, address(&record.peer)) else {
        return Err(Unable("the WebSocket by which it goes up".to_owned()));
    };
    Ok(Probe {
        conn: open_conn(parts, carried, peer, State::Probe),
        at_ms: (parts.clock.now.mono_ms as u32).wrapping_sub(record.waited_ms),
        b64: record.base64,
    })
}

/// Makes the connection of a POST whose body is half there. The rest of the body has its time anew.
fn open_post(parts: &mut Parts, record: &handoff::Post) -> Result<Post, Unable> {
    let (Some(carried), Some(peer)) = (&record.conn, address(&record.peer)) else {
        return Err(Unable("the POST that it brings".to_owned()));
    };
    let state = State::Body { len: record.left };
    let conn = open_conn(parts, carried, peer, state);
    let now_ms = parts.clock.now.mono_ms;
    if let Some(slot) = parts.line.conns.get_mut(conn) {
        slot.exchange = Exchange::under_way(record.keep_alive);
        slot.unread.watch(now_ms);
    }
    let timeout = parts.books.config.limits.message_timeout;
    let (line, clock) = (&parts.line, &mut parts.clock);
    line.arm(clock, ConnTimer::Message, timeout, conn);
    Ok(Post {
        conn: Some(conn),
        form: record.form,
        counted: record.counted,
        chunked: None,
        cors: (!record.cors.is_empty()).then(|| record.cors.as_slice().into()),
    })
}

/// The handler hears of its sockets.
pub(crate) fn tell(stage: &mut Stage, record: &handoff::Session) {
    for socket in &record.sockets {
        let index = id_of(&socket.id).and_then(|id| stage.parts.people.sockets.find(&id));
        let Some(index) = index else {
            continue;
        };
        let key = stage.parts.people.sockets.key(index);
        let owed = socket.acks.iter().map(|owed| {
            let to = AckTo {
                socket: key,
                id: owed.id,
            };
            (owed.number, to)
        });
        let owed = owed.collect();
        stage.call(None, |handler, cx| handler.arrived(cx, key, owed));
        if !socket.numbers.is_empty() {
            stage.call(None, |handler, _| {
                handler.goes_on_with_numbers(key, &socket.numbers);
            });
        }
        let Some(id) = id_of(&socket.id) else {
            continue;
        };
        for round in &socket.rounds {
            asking::go_on_in(&mut stage.parts, round.id, round_of(round), key);
        }
        for asked in &socket.asked {
            let token = stage.call(None, |handler, _| handler.goes_on_with(id, asked.query));
            let Some(token) = token.flatten() else {
                continue;
            };
            let waits = asking::go_on_with(&mut stage.parts, asked.id, (key, token), asked.left_ms);
            // Too many answers are waited for here, or somebody else owes one under this id: the question ends as one without an answer.
            if !waits {
                stage.call(None, |handler, cx| handler.ack_timed_out(cx, key, token));
            }
        }
    }
}

fn round_of(record: &handoff::Round) -> RoundId {
    let number = |number: u32| u16::try_from(number).unwrap_or(u16::MAX);
    RoundId {
        asker: id::Place {
            node: number(record.node),
            shard: number(record.shard),
        },
        number: record.number,
        ack: record.id,
        timeout_ms: record.timeout_ms,
        parts: 0,
        pages: false,
    }
}

fn all_protocols() -> impl Iterator<Item = Protocol> {
    let all = [
        Protocol::SocketIo,
        Protocol::EngineIo,
        Protocol::PlainJson,
        Protocol::PlainMsgpack,
        Protocol::PlainRaw,
        Protocol::EventStream,
        Protocol::Raw,
    ];
    all.into_iter()
}

fn id_of(bytes: &[u8]) -> Option<Id20> {
    Some(Id20(bytes.try_into().ok()?))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    let sixteen = <[u8; 16]>::try_from(bytes).map(IpAddr::from);
    four.or(sixteen).ok()
}

fn open_conn(parts: &mut Parts, carried: &handoff::Conn, peer: IpAddr, state: State) -> ConnId {
    let limits = &parts.books.config.limits;
    let conn = parts.line.open(&mut parts.clock, limits, peer);
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return conn;
    };
    // It counts with its address, but is not refused for that: the process before has let it in.
    parts.access.count(&parts.books.config, slot, peer);
    slot.state = state;
    slot.exchange = Exchange::under_way(false);
    let is_websocket = matches!(state, State::WebSocket | State::Probe);
    let deflate = match carried.deflate {
        1 => Deflate::Shared,
        2 => Deflate::Small,
        _ => Deflate::Off,
    };
    slot.handshake = Handshake::made_elsewhere(is_websocket, deflate, carried.inflates);
    parts.books.counts.websockets += u64::from(is_websocket);
    parts.books.counts.deflate_websockets += u64::from(carried.inflates);
    if !carried.input.is_empty() {
        slot.unread.keep(Box::new(carried.input.clone()));
        // The input may be whole: the process before did not come to it.
        parts.line.intake.go_on(conn, slot);
    }
    let units = units(&parts.line, &carried.output);
    if let Some(slot) = parts.line.conns.get_mut(conn)
        && !units.is_empty()
    {
        slot.outbox.restore(units, carried.sent as usize);
    }
    conn
}

fn units(line: &Line, units: &[handoff::Unit]) -> Vec<Unit> {
    let units = units.iter().map(|unit| Unit {
        packets: unit.packets,
        exempt: unit.exempt,
        ..Unit::of(line.piece(&unit.bytes), fate(unit.fate))
    });
    units.collect()
}

/// A connection whose request is still to come.
pub(crate) fn visit(parts: &mut Parts, record: &handoff::Visitor) -> Result<ConnId, Unable> {
    let peer = address(&record.peer);
    let peer = peer.ok_or_else(|| Unable("the address of a connection".to_owned()))?;
    let limits = &parts.books.config.limits;
    let conn = parts.line.open(&mut parts.clock, limits, peer);
    let Some(slot) = parts.line.conns.get_mut(conn) else {
        return Ok(conn);
    };
    parts.access.count(&parts.books.config, slot, peer);
    slot.exchange = Exchange::between(record.served);
    if !record.input.is_empty() {
        slot.unread.keep(Box::new(record.input.clone()));
        parts.line.intake.go_on(conn, slot);
    }
    if let Some(proxy) = address(&record.proxy) {
        parts.access.note_proxy(conn, proxy);
    }
    if record.served {
        let timeout = parts.books.config.limits.keep_alive_timeout;
        let (line, clock) = (&parts.line, &mut parts.clock);
        line.arm(clock, ConnTimer::KeepAlive, timeout, conn);
    }
    Ok(conn)
}

fn fate(number: u32) -> Fate {
    let policy = match number {
        1 => SlowConsumer::Disconnect,
        2 => SlowConsumer::DropOldest,
        3 => SlowConsumer::DropNewest,
        _ => return Fate::Fixed,
    };
    // Keys of events are hashes of the process before (`handing::fate`).
    Fate::Event { policy, key: 0 }
}

fn session(
    parts: &Parts,
    record: &handoff::Session,
    (sid, protocol, client): (Id20, Protocol, Client),
) -> Session {
    let revision = match record.revision {
        3 => Revision::Three,
        _ => Revision::Four,
    };
    let now_ms = parts.clock.now.mono_ms;
    let language = Language::new(protocol, revision);
    let mut language = language.asking(record.base64, record.asks_offsets);
    if record.heard_packet {
        language.settle_parser(record.msgpack);
    }
    let mut session = Session::new(sid, language, client);
    session.flags.joined = record.joined;
    session.heart = Heart::restored(&record.heart.unwrap_or_default(), now_ms);
    session.binary = record.partial.as_ref().map(|part| {
        Box::new(Partial {
            text: part.text.as_str().into(),
            wanted: part.wanted as usize,
            attachments: part.attachments.clone(),
            since_ms: now_ms.saturating_sub(u64::from(part.waited_ms)),
        })
    });
    let has_rare = !record.query.is_empty()
        || !record.headers.is_empty()
        || !record.parted.is_empty()
        || record.refusals > 0;
    if has_rare {
        let rare = session.rare.get_or_insert_default();
        rare.query = record.query.as_str().into();
        rare.headers = record.headers.as_slice().into();
        rare.set_parted(&record.parted);
        rare.refusals = u8::try_from(record.refusals).unwrap_or(u8::MAX);
    }
    if let Some(reading) = &record.reading {
        let rare = session.rare.get_or_insert_default();
        rare.stream = Some(Box::new(Stream::restored(reading)));
    }
    let unread = record
        .token
        .as_deref()
        .map(|token| RequestToken::Unread(token.into()));
    if let Some(dues) = &record.dues {
        set_dues(parts, &mut session, dues);
    }
    let good = record
        .claims
        .as_ref()
        .map(|claims| RequestToken::Good(claims.into()));
    session.joining.token = good.or(unread).map(Box::new);
    session
}

/// What a session has used of its rates in the process before counts here, too (ADR 83).
fn set_dues(parts: &Parts, session: &mut Session, dues: &handoff::Dues) {
    let (meters, now_us) = (&parts.access.meters, parts.clock.now_us());
    let own = meters.session.as_ref();
    let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    session.dues = Dues {
        rate: own.map_or(0, |meter| meter.gcra.believed(dues.state_us, now_us)),
        rejections: u16::try_from(dues.rejections).unwrap_or(u16::MAX),
        unbooked: small(dues.unbooked),
        // Without such a rate it is granted nothing.
        granted: if meters.are_shared() {
            small(dues.granted)
        } else {
            0
        },
    };
    if !dues.rates.is_empty() {
        let rates = dues.rates.iter();
        let rates = rates.map(|spent| (spent.number, spent.state_us));
        session.rare.get_or_insert_default().set_rates(rates);
    }
}

fn open_socket(
    parts: &mut Parts,
    session: SessionId,
    record: &handoff::Socket,
) -> Result<(), Unable> {
    let id = id_of(&record.id).ok_or_else(|| Unable("the id of its socket".to_owned()))?;
    if parts.people.sockets.find(&id).is_some() {
        return Err(Unable("the id of its socket is another's".to_owned()));
    }
    let namespace = parts.people.namespaces.find_or_make(&record.namespace);
    let room = parts
        .rooms
        .find_or_make(&mut parts.people, namespace, RoomKind::All, "");
    let socket = parts.people.insert_socket(session, |slot| Socket {
        id,
        route: Route::new(slot.conn, slot.variant(), parts.line.deflate_of(slot.conn)),
        flags: Flags::default(),
        session,
        namespace,
        mark: 0,
        rooms: SmallVec::new(),
        place: Place::NOBODY,
        expires_s: record.expires_s,
        owed: u16::try_from(record.owed).unwrap_or(u16::MAX),
        extra: extra(record),
    });
    let index = socket.map(SocketKey::id);
    let index = index.ok_or_else(|| Unable("the session of a socket".to_owned()))?;
    let sockets = &mut parts.people.sockets;
    parts.rooms.add_member(sockets, index, room);
    let people = &mut parts.people;
    people.note_member(index, RoomKind::All.subject(), "");
    if let Some(user) = &record.user {
        memberships::set_user(parts, index, user);
    }
    for name in &record.rooms {
        let joined = memberships::join(parts, index, name);
        joined.map_err(|why| Unable(format!("its room \"{name}\" ({why:?})")))?;
    }
    if let Some(slot) = parts.people.sockets.get_mut(index) {
        slot.flags.nameless = record.nameless;
    }
    if id::socket_owner(&id) != parts.ids.me.place() {
        // Its id says that it began on another shard.
        parts.people.whereabouts.came(id, parts.ids.me.shard);
        if !record.nameless {
            let name = id.to_string();
            parts.rooms.own_room(&mut parts.people, index, &name);
        }
    }
    // The lifeline comes after the rooms: the journal has these joins already, and writes down those of a socket with a lifeline.
    if let Some(lifeline) = &record.lifeline {
        tie(parts, index, lifeline)?;
    }
    if let Some(returns) = &record.returns {
        keepsakes::tie(parts, index, returns);
    }
    let (config, clock) = (&parts.books.config, &mut parts.clock);
    tokens::look_at_token(config, clock, &mut parts.people, index);
    Ok(())
}

/// The client of a socket comes back by the store, as before.
fn tie(parts: &mut Parts, index: SocketId, record: &handoff::Lifeline) -> Result<(), Unable> {
    let deed = Deed::read(&mut Reader(&record.deed), record.fence);
    let Some((pid, deed)) = Pid::read(&record.pid).zip(deed) else {
        return Err(Unable(
            "by what the client of a socket comes back".to_owned(),
        ));
    };
    let now_ms = parts.clock.now.mono_ms;
    let lifeline = Lifeline {
        pid,
        life: Life::of_deed(deed),
        uid: record.uid.as_deref().map(Into::into),
        // A pong to a ping of the process before proves nothing about what that one said after the ping.
        since_ms: now_ms,
        recovered: false,
        is_heir: true,
        gap_ms: record.gap.then_some(now_ms),
    };
    parking::attach(parts, parts.people.sockets.key(index), lifeline);
    Ok(())
}

fn extra(record: &handoff::Socket) -> Option<Box<Extra>> {
    let text = |text: &Option<String>| text.as_deref().map(Box::from);
    let extra = Extra {
        data: text(&record.data),
        auth: text(&record.auth),
        grants: record.grants.as_ref().map(|grants| Box::new(grants.into())),
        label: text(&record.label),
        lifeline: None,
    };
    let texts = [&extra.data, &extra.auth, &extra.label];
    let any = texts.into_iter().any(Option::is_some) || extra.grants.is_some();
    any.then(|| Box::new(extra))
}

/// The deadlines go on from where they were, as far as the record tells: a ping may come early, never late.
fn arm(parts: &mut Parts, session: SessionId, record: &handoff::Session) {
    let Some(slot) = parts.people.sessions.get(session) else {
        return;
    };
    let (config, now_ms) = (&parts.books.config, parts.clock.now.mono_ms);
    let (heart, engineio) = (slot.heart, slot.language.protocol().is_engineio());
    let silent_ms = u64::from(record.heart.unwrap_or_default().silent_ms);
    let interval = match engineio {
        true => config.ping_interval(heart.step()),
        false => config.plain_ping_interval(heart.step()),
    };
    let interval_ms = (interval.as_millis() as u64).max(1);
    let (kind, left_ms) = match (heart.awaits_pong(), engineio) {
        (true, _) => {
            let timeout_ms = config.ping_timeout.as_millis() as u64;
            (SessionTimer::Pong, timeout_ms.saturating_sub(silent_ms))
        }
        (false, true) => {
            let left_ms = interval_ms.saturating_sub(silent_ms);
            (SessionTimer::Ping(heart.step()), left_ms)
        }
        // The record says how long ago the last beat was.
        (false, false) if slot.language.protocol() == Protocol::EventStream => {
            let left_ms = interval_ms.saturating_sub(silent_ms);
            (SessionTimer::PlainPing(heart.step()), left_ms)
        }
        // A client that talks is not pinged, and nothing says when its last beat was: the beat goes on from the last ping.
        (false, false) => {
            let left_ms = interval_ms - silent_ms % interval_ms;
            (SessionTimer::PlainPing(heart.step()), left_ms)
        }
    };
    let key = parts.people.sessions.key(session);
    let asks = slot.language.protocol() == Protocol::SocketIo || slot.language.resumes();
    let joins = asks && !slot.flags.joined;
    let has_partial = slot.binary.is_some();
    let connect_ms = config.connect_timeout.as_millis() as u64;
    let message_ms = config.limits.message_timeout.as_millis() as u64;
    let upgrade_ms = config.upgrade_timeout.as_millis() as u64;
    let timers = &mut parts.clock.timers.sessions;
    timers.arm_odd(kind, now_ms + left_ms, key);
    // The record does not say how long the client has been without a namespace: its time begins anew.
    if joins {
        timers.arm_odd(SessionTimer::Connect, now_ms + connect_ms, key);
    }
    if let Some(probe) = record.polling.as_ref().and_then(|own| own.probe.as_ref()) {
        let left_ms = upgrade_ms.saturating_sub(u64::from(probe.waited_ms));
        timers.arm_odd(SessionTimer::Upgrade, now_ms + left_ms, key);
    }
    if has_partial {
        timers.arm_odd(SessionTimer::Attachments, now_ms + message_ms, key);
        if let Some(slot) = parts.people.sessions.get_mut(session) {
            slot.flags.attachments_timer = true;
        }
    }
}

impl From<&Grants> for handoff::Grants {
    fn from(grants: &Grants) -> Self {
        Self {
            join: grants.join.clone(),
            publish: grants.publish.clone(),
        }
    }
}

impl From<&handoff::Grants> for Grants {
    fn from(grants: &handoff::Grants) -> Self {
        Self {
            join: grants.join.clone(),
            publish: grants.publish.clone(),
        }
    }
}

impl From<&Claims> for handoff::Claims {
    fn from(claims: &Claims) -> Self {
        Self {
            uid: claims.uid.clone(),
            expires_s: claims.expires_s,
            rooms: claims.rooms.clone(),
            grants: claims.grants.as_ref().map(Into::into),
            label: claims.label.clone(),
            kinds: claims.kinds.as_deref().map(str::to_owned),
        }
    }
}

impl From<&handoff::Claims> for Claims {
    fn from(claims: &handoff::Claims) -> Self {
        Self {
            uid: claims.uid.clone(),
            expires_s: claims.expires_s,
            rooms: claims.rooms.clone(),
            grants: claims.grants.as_ref().map(Into::into),
            label: claims.label.clone(),
            kinds: claims.kinds.as_deref().map(Into::into),
        }
    }
}
