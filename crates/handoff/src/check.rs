//! A record is believed when it was looked at: its sizes, its ids, and that it comes once.

use crate::bounds::{
    ATTACHMENTS_MAX, NAME_BYTES_MAX, NUMBER_MAX, NUMBERS_MAX, OWED_MAX, PARTED_MAX, ROOMS_MAX,
    SOCKETS_MAX,
};
use crate::keepsakes::{Keepsakes, check_return};
use crate::record::{Claims, Conn, Session, Socket, Unit, Visitor};
use std::collections::HashSet;

/// Bytes of an id.
const ID_BYTES: usize = 15;
/// Numbers of protocols are 1 to this.
const PROTOCOL_MAX: u32 = 7;
const FATE_MAX: u32 = 3;
const DEFLATE_MAX: u32 = 2;

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    /// The field, with its value if that tells something.
    pub field: String,
    /// What it should be.
    pub wanted: &'static str,
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: it must be {}", self.field, self.wanted)
    }
}

impl std::error::Error for Unfit {}

pub(crate) fn need(
    holds: bool,
    field: impl Into<String>,
    wanted: &'static str,
) -> Result<(), Unfit> {
    let field = field.into();
    holds.then_some(()).ok_or(Unfit { field, wanted })
}

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
    match (&session.conn, &session.polling) {
        (Some(conn), None) => check_conn(conn),
        (None, Some(polling)) => check_units("polling.queue", &polling.queue),
        _ => need(false, "conn", "there, or `polling` in its place"),
    }
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

fn check_conn(conn: &Conn) -> Result<(), Unfit> {
    let deflate = conn.deflate;
    check_units("conn.output", &conn.output)?;
    need(
        deflate <= DEFLATE_MAX,
        format!("conn.deflate = {deflate}"),
        "0 to 2",
    )?;
    need(
        conn.inflates || deflate == 0,
        "conn.deflate",
        "0 where nothing was agreed on",
    )?;
    let first = conn.output.first().map_or(0, |unit| unit.bytes.len());
    need(
        conn.sent == 0 || (conn.sent as usize) < first,
        format!("conn.sent = {}", conn.sent),
        "less than the first unit has",
    )
}

fn is_name(field: &'static str, name: &str) -> Result<(), Unfit> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    need(fits, field, "1 to 65,536 bytes")
}
