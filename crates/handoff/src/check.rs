//! A record is believed when it was looked at: its sizes, its ids, and that it comes once.

use crate::bounds::{
    ATTACHMENTS_MAX, CALLERS_MAX, CALLS_MAX, COUNTERS_MAX, DEFLATE_MAX, FATE_MAX, NAME_BYTES_MAX,
    NUMBER_MAX, NUMBERS_MAX, OWED_MAX, PARTED_MAX, PROTOCOL_MAX, RECORD_BYTES_MAX, ROOMS_MAX,
    SHARES_MAX, SOCKETS_MAX, TOLD_MAX,
};
use crate::calls::{Called, Caller};
use crate::counting::{Counter, Limiters, Rest, Share};
use crate::keepsakes::{Keepsakes, check_return};
use crate::record::{Claims, Conn, Polling, Post, Probe, Reading, Session, Socket, Unit, Visitor};
use crate::unfit::{Unfit, need};
use std::collections::HashSet;

/// Bytes of an id.
const ID_BYTES: usize = 15;
/// That of event streams.
const EVENT_STREAM: u32 = 6;
/// Those of Engine.IO, which alone changes its transport.
const ENGINE: [u32; 2] = [1, 2];

/// The ids that came, so that none comes twice.
#[derive(Debug, Default)]
pub struct Ledger {
    sessions: HashSet<Vec<u8>>,
    sockets: HashSet<Vec<u8>>,
    /// Sockets without a connection.
    parked: HashSet<Vec<u8>>,
    /// The secrets by which clients come back.
    pids: HashSet<String>,
    /// Questions that came with them, by namespace.
    asked: Vec<(String, u64)>,
    /// Pages of the table of limiters.
    pages: HashSet<u32>,
    /// Counters by name and label.
    counters: HashSet<(String, String)>,
    /// Users and addresses with a share, by kind.
    shares: HashSet<(u32, u64)>,
    rests: HashSet<u32>,
    /// Calls by caller, namespace and key.
    calls: HashSet<[String; 3]>,
    callers: HashSet<String>,
}

impl Ledger {
    /// Sessions that were admitted.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Questions of backends that clients who came have not answered, by namespace.
    pub fn asked(&self) -> &[(String, u64)] {
        &self.asked
    }

    /// Whether a socket with this id came.
    pub fn has_socket(&self, id: &[u8]) -> bool {
        self.sockets.contains(id)
    }

    /// Sockets without a connection that were admitted.
    pub fn parked(&self) -> usize {
        self.parked.len()
    }

    /// Looks at what a shard keeps. What is refused leaves traces: nothing more is taken from whoever sent it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn admit_keepsakes(&mut self, keepsakes: &Keepsakes) -> Result<(), Unfit> {
        keepsakes.check()?;
        for parked in &keepsakes.parked {
            let id = &parked.socket;
            let fresh = !self.sockets.contains(id) && self.parked.insert(id.clone());
            need(fresh, "parked.socket", "one that no other socket has")?;
            let pid = parked.by.as_ref().map(|by| by.pid.clone());
            let fresh = pid.is_none_or(|pid| self.pids.insert(pid));
            need(fresh, "parked.by.pid", "one that no other socket has")?;
        }
        Ok(())
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Looks at the record of a connection without a session.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn admit_visitor(&self, visitor: &Visitor) -> Result<(), Unfit> {
        let is_address = |bytes: &[u8]| matches!(bytes.len(), 4 | 16);
        need(is_address(&visitor.peer), "visitor.peer", "4 or 16 bytes")?;
        let proxy = &visitor.proxy;
        need(
            proxy.is_empty() || is_address(proxy),
            "visitor.proxy",
            "4 or 16 bytes, or none",
        )
    }

    /// Looks at a page of the table of limiters.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn admit_limiters(&mut self, page: &Limiters) -> Result<(), Unfit> {
        page.check()?;
        let is_new = self.pages.insert(page.page);
        need(
            is_new,
            format!("limiters.page = {}", page.page),
            "one that did not come",
        )
    }

    /// Looks at a share of a limit.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn admit_share(&mut self, share: &Share) -> Result<(), Unfit> {
        share.check()?;
        let key = (share.kind, share.holder);
        let is_new = self.shares.len() < SHARES_MAX && self.shares.insert(key);
        need(is_new, "shares.holder", "at most 16,384, each once")
    }

    /// Looks at what is left for those without a share.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn admit_rest(&mut self, rest: &Rest) -> Result<(), Unfit> {
        let field = format!("rests.kind = {}", rest.kind);
        let fits = rest.kind <= u32::from(u8::MAX) && self.rests.insert(rest.kind);
        need(fits, field, "at most 255, each once")
    }

    /// Looks at a counter of metrics.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn admit_counter(&mut self, counter: &Counter) -> Result<(), Unfit> {
        counter.check()?;
        let key = (counter.name.clone(), counter.label.clone());
        let is_new = self.counters.len() < COUNTERS_MAX && self.counters.insert(key);
        need(
            is_new,
            format!("counters = {} {}", counter.name, counter.label),
            "at most 16,384, each once",
        )
    }

    /// Looks at a call of the server API.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn admit_call(&mut self, call: &Called) -> Result<(), Unfit> {
        call.check()?;
        let name = [&call.caller, &call.namespace, &call.key].map(String::clone);
        let is_new = self.calls.len() < CALLS_MAX && self.calls.insert(name);
        need(is_new, "calls.key", "at most 100,000, each once")
    }

    /// Looks at what a caller has used of its rate.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn admit_caller(&mut self, caller: &Caller) -> Result<(), Unfit> {
        caller.check()?;
        let is_new = self.callers.len() < CALLERS_MAX && self.callers.insert(caller.name.clone());
        need(is_new, "callers.name", "at most 65,536, each once")
    }

    /// Looks at a record. One that is refused leaves no trace.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn admit(&mut self, session: &Session) -> Result<(), Unfit> {
        check_session(session)?;
        let known = self.sessions.contains(&session.sid);
        need(!known, "sid", "one that no other session has")?;
        let mut own = HashSet::new();
        for socket in &session.sockets {
            let fresh = !self.sockets.contains(&socket.id) && own.insert(socket.id.clone());
            let fresh = fresh && !self.parked.contains(&socket.id);
            need(fresh, "sockets.id", "one that no other socket has")?;
        }
        let returns = session.sockets.iter();
        let returns = returns.filter_map(|socket| socket.returns.as_ref());
        let mut pids = HashSet::new();
        for by in returns {
            let fresh = !self.pids.contains(&by.pid) && pids.insert(by.pid.clone());
            need(fresh, "sockets.returns.pid", "one that no other socket has")?;
        }
        self.pids.extend(pids);
        self.sessions.insert(session.sid.clone());
        self.sockets.extend(own);
        for socket in &session.sockets {
            let asked = socket.asked.iter().map(|asked| asked.query);
            let asked = asked.map(|query| (socket.namespace.clone(), query));
            self.asked.extend(asked);
        }
        Ok(())
    }
}

/// Whether a process can take a record, by what stands in it alone. The giver asks as well: a record that is refused ends the whole handoff, and
/// some bounds of records are lower than what a configuration allows its clients.
pub fn is_taken(session: &Session) -> bool {
    check_session(session).is_ok()
}

fn check_session(session: &Session) -> Result<(), Unfit> {
    need(session.sid.len() == ID_BYTES, "sid", "15 bytes")?;
    let (protocol, revision) = (session.protocol, session.revision);
    need(
        (1..=PROTOCOL_MAX).contains(&protocol),
        format!("protocol = {protocol}"),
        "1 to 7",
    )?;
    need(
        matches!(revision, 3 | 4),
        format!("revision = {revision}"),
        "3 or 4",
    )?;
    need(
        matches!(session.peer.len(), 4 | 16),
        "peer",
        "4 or 16 bytes",
    )?;
    need(session.heart.is_some(), "heart", "there")?;
    need(
        session.sockets.len() <= SOCKETS_MAX,
        "sockets",
        "at most 4,096",
    )?;
    need(session.parted.len() <= PARTED_MAX, "parted", "at most 64")?;
    need(session.refusals <= 255, "refusals", "at most 255")?;
    if let Some(partial) = &session.partial {
        let (wanted, has) = (partial.wanted as usize, partial.attachments.len());
        need(
            (1..=ATTACHMENTS_MAX).contains(&wanted) && has < wanted,
            "partial",
            "a packet that waits for an attachment",
        )?;
    }
    let mut namespaces = HashSet::new();
    for socket in &session.sockets {
        check_socket(socket)?;
        need(
            namespaces.insert(&socket.namespace),
            "sockets.namespace",
            "one that no other socket of the session is in",
        )?;
    }
    session.claims.as_ref().map_or(Ok(()), check_claims)?;
    need(
        session.reading.is_some() == (protocol == EVENT_STREAM),
        "reading",
        "there for event streams, and for nobody else",
    )?;
    session.reading.as_ref().map_or(Ok(()), check_reading)?;
    session.dues.as_ref().map_or(Ok(()), |dues| dues.check())?;
    match (&session.conn, &session.polling) {
        (Some(conn), None) => check_conn("conn", conn),
        (None, Some(polling)) => check_polling(protocol, polling),
        _ => need(false, "conn", "there, or `polling` in its place"),
    }
}

fn check_polling(protocol: u32, polling: &Polling) -> Result<(), Unfit> {
    need(
        ENGINE.contains(&protocol),
        format!("polling of protocol {protocol}"),
        "of Engine.IO",
    )?;
    check_units("polling.queue", &polling.queue)?;
    polling.probe.as_ref().map_or(Ok(()), check_probe)?;
    polling.post.as_ref().map_or(Ok(()), check_post)
}

fn check_probe(probe: &Probe) -> Result<(), Unfit> {
    let peer = probe.peer.len();
    need(matches!(peer, 4 | 16), "probe.peer", "4 or 16 bytes")?;
    need(probe.conn.is_some(), "probe.conn", "there")?;
    probe
        .conn
        .as_ref()
        .map_or(Ok(()), |conn| check_conn("probe.conn", conn))
}

fn check_post(post: &Post) -> Result<(), Unfit> {
    let (peer, left) = (post.peer.len(), post.left);
    need(matches!(peer, 4 | 16), "post.peer", "4 or 16 bytes")?;
    need(
        left as usize <= RECORD_BYTES_MAX,
        format!("post.left = {left}"),
        "at most 16 MiB",
    )?;
    need(
        post.cors.len() <= NAME_BYTES_MAX,
        "post.cors",
        "at most 65,536 bytes",
    )?;
    need(post.conn.is_some(), "post.conn", "there")?;
    post.conn
        .as_ref()
        .map_or(Ok(()), |conn| check_conn("post.conn", conn))
}

fn check_reading(reading: &Reading) -> Result<(), Unfit> {
    need(
        reading.rooms.len() <= ROOMS_MAX,
        "reading.rooms",
        "at most 65,536",
    )?;
    let mut rooms = HashSet::new();
    for place in &reading.rooms {
        let (room, told) = (&place.room, place.told);
        need(
            room.len() <= NAME_BYTES_MAX,
            "reading.rooms",
            "at most 65,536 bytes each",
        )?;
        need(rooms.insert(room), "reading.rooms", "named once each")?;
        need(
            told <= TOLD_MAX,
            format!("reading.rooms.told = {told}"),
            "0 to 2",
        )?;
    }
    Ok(())
}

fn check_units(field: &'static str, units: &[Unit]) -> Result<(), Unfit> {
    let fate = units.iter().map(|unit| unit.fate).max().unwrap_or(0);
    need(fate <= FATE_MAX, format!("{field}.fate = {fate}"), "0 to 3")?;
    let full = units.iter().all(|unit| !unit.bytes.is_empty());
    need(full, format!("{field}.bytes"), "not empty")
}

fn check_socket(socket: &Socket) -> Result<(), Unfit> {
    need(socket.id.len() == ID_BYTES, "sockets.id", "15 bytes")?;
    is_name("sockets.namespace", &socket.namespace)?;
    need(
        socket.rooms.len() <= ROOMS_MAX,
        "sockets.rooms",
        "at most 65,536",
    )?;
    let mut rooms = HashSet::new();
    for room in &socket.rooms {
        is_name("sockets.rooms", room)?;
        need(rooms.insert(room), "sockets.rooms", "named once each")?;
    }
    let mut numbers = HashSet::new();
    let once = socket.acks.iter().all(|ack| numbers.insert(ack.number));
    need(
        once && socket.acks.len() <= OWED_MAX,
        "sockets.acks",
        "at most 65,536, each once",
    )?;
    let mut ids = HashSet::new();
    let once = socket.asked.iter().all(|asked| ids.insert(asked.id));
    need(
        once && socket.asked.len() <= OWED_MAX,
        "sockets.asked",
        "at most 65,536, each once",
    )?;
    let once = socket.rounds.iter().all(|round| ids.insert(round.id));
    need(
        once && socket.rounds.len() <= OWED_MAX,
        "sockets.rounds",
        "at most 65,536, each id once",
    )?;
    let numbers = &socket.numbers;
    need(
        numbers.len() <= NUMBERS_MAX && numbers.iter().all(|number| *number <= NUMBER_MAX),
        "sockets.numbers",
        "at most 8 to go on from",
    )?;
    if let Some(by) = &socket.returns {
        need(
            socket.lifeline.is_none(),
            "sockets.returns",
            "the only way back",
        )?;
        check_return(by)?;
    }
    let user = socket.user.as_ref();
    user.map_or(Ok(()), |user| is_name("sockets.user", user))
}

fn check_claims(claims: &Claims) -> Result<(), Unfit> {
    is_name("claims.uid", &claims.uid)?;
    need(
        claims.rooms.len() <= ROOMS_MAX,
        "claims.rooms",
        "at most 65,536",
    )
}

fn check_conn(field: &'static str, conn: &Conn) -> Result<(), Unfit> {
    let deflate = conn.deflate;
    check_units(field, &conn.output)?;
    need(
        deflate <= DEFLATE_MAX,
        format!("{field}.deflate = {deflate}"),
        "0 to 2",
    )?;
    need(
        conn.inflates || deflate == 0,
        format!("{field}.deflate"),
        "0 where nothing was agreed on",
    )?;
    let first = conn.output.first().map_or(0, |unit| unit.bytes.len());
    need(
        conn.sent == 0 || (conn.sent as usize) < first,
        format!("{field}.sent = {}", conn.sent),
        "less than the first unit has",
    )
}

fn is_name(field: &'static str, name: &str) -> Result<(), Unfit> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    need(fits, field, "1 to 65,536 bytes")
}
