//! What a shard keeps for those who come, on its way to the process that comes next: the events of its rooms, the journal, and sockets
//! without a connection. Most of the journal goes while the shard serves its clients; the rest goes when it stands still.

use crate::clients::lag::Lag;
use crate::clients::session::Session;
use crate::life::parking;
use crate::parts::Parts;
use crate::recovery::journal::handing::{member_of, member_record};
use crate::recovery::pid::Pid;
use crate::recovery::record::{Life, Lifeline, Record};
use crate::tables::slot::SocketId;
use handoff::Keepsakes;
use handoff::bounds::{PIECE_BYTES, THING_BYTES_MAX};
use handoff::keepsakes as record;
use wire::base64url::Id20;

/// A record that was checked and that this process cannot carry out: the whole handoff is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unable(pub String);

/// How far a shard that stands still has come with what it keeps.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    step: Step,
    /// The next process has the journal up to here.
    copied: u64,
    /// Rooms that are still to come.
    rooms: Vec<(String, String)>,
    parked_at: u32,
    /// Sockets whose sessions do not go: their clients find the next process.
    left: Vec<record::Parked>,
    /// Sockets without a connection, and rooms with their events, that no record can have, and that nobody was told of.
    left_behind: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Log,
    Rooms,
    Journal,
    Parked,
    Done,
}

impl Keeping {
    /// The next process has the journal up to this place.
    pub(crate) fn note_copied(&mut self, copied: u64) {
        self.copied = self.copied.max(copied);
    }

    /// The next piece; `None`: these were all.
    pub(crate) fn next(&mut self, parts: &Parts) -> Option<Keepsakes> {
        while self.step != Step::Done {
            let mut piece = Keepsakes::default();
            self.fill(parts, &mut piece);
            if piece != Keepsakes::default() {
                return Some(piece);
            }
        }
        None
    }

    fn fill(&mut self, parts: &Parts, piece: &mut Keepsakes) {
        match self.step {
            Step::Log => {
                piece.log = parts.rooms.kept.record();
                self.rooms = parts.rooms.kept.names();
                self.left_behind += parts.rooms.kept.left_behind();
                self.step = Step::Rooms;
            }
            Step::Rooms => self.fill_rooms(parts, piece),
            Step::Journal => self.fill_journal(parts, piece),
            Step::Parked => self.fill_parked(parts, piece),
            Step::Done => {}
        }
    }

    fn fill_rooms(&mut self, parts: &Parts, piece: &mut Keepsakes) {
        let mut bytes = 0;
        while bytes < PIECE_BYTES
            && let Some(key) = self.rooms.pop()
        {
            if let Some(room) = parts.rooms.kept.room(&key) {
                bytes += room.size();
                piece.rooms.push(room);
            }
        }
        if self.rooms.is_empty() {
            self.step = Step::Journal;
        }
    }

    fn fill_journal(&mut self, parts: &Parts, piece: &mut Keepsakes) {
        let now_ms = parts.clock.now.mono_ms;
        let recovery = parts.recovery.as_ref();
        // With level `cluster` the store has all by which clients come back (ADR 68).
        let Some(recovery) = recovery.filter(|recovery| recovery.streams.chronicle.is_none())
        else {
            self.step = Step::Done;
            return;
        };
        let journal = &recovery.journal;
        let (first, entries) = journal.records(self.copied, PIECE_BYTES, now_ms);
        if entries.is_empty() {
            piece.journal = Some(recovery.word(now_ms));
            self.step = Step::Parked;
            return;
        }
        self.copied = first + entries.len() as u64 - 1;
        (piece.first, piece.entries) = (first, entries);
    }

    fn fill_parked(&mut self, parts: &Parts, piece: &mut Keepsakes) {
        let now_ms = parts.clock.now.mono_ms;
        let parked = parts.recovery.as_ref().map(|recovery| &recovery.parked);
        let mut bytes = 0;
        while bytes < PIECE_BYTES {
            let next = parked.and_then(|parked| parked.from(self.parked_at, now_ms));
            let Some((at, own, left_ms)) = next else {
                self.step = Step::Done;
                return;
            };
            self.parked_at = at + 1;
            if let Some(record) = self.fitting(parked_record(own, left_ms)) {
                bytes += record.size();
                piece.parked.push(record);
            }
        }
    }

    /// The record, if it fits. `None`: its client comes back as a new one.
    fn fitting(&mut self, record: record::Parked) -> Option<record::Parked> {
        let fits = record.size() <= THING_BYTES_MAX && record.is_taken();
        self.left_behind += u64::from(!fits);
        fits.then_some(record)
    }

    /// How many sockets and rooms are left behind that nobody was told of.
    pub(crate) fn take_left_behind(&mut self) -> u64 {
        std::mem::take(&mut self.left_behind)
    }

    /// Notes the sockets of a session that does not go: it ends here, and its client comes back to the next process.
    pub(crate) fn leave(&mut self, parts: &Parts, session: &Session) {
        let recovery = parts.recovery.as_ref();
        if recovery.is_none_or(|recovery| recovery.streams.chronicle.is_some()) {
            return;
        }
        for index in &session.sockets {
            let left = left(parts, *index).and_then(|left| self.fitting(left));
            self.left.extend(left);
        }
    }

    /// The next of the noted sockets; `None`: there are no more.
    pub(crate) fn next_left(&mut self) -> Option<Keepsakes> {
        let mut piece = Keepsakes::default();
        let mut bytes = 0;
        while bytes < PIECE_BYTES
            && let Some(parked) = self.left.pop()
        {
            bytes += parked.size();
            piece.parked.push(parked);
        }
        (!piece.parked.is_empty()).then_some(piece)
    }
}

/// Some of the journal after a place, while the shard serves its clients; `None`: the next process has all of it.
pub(crate) fn ahead(parts: &Parts, after: u64) -> Option<Keepsakes> {
    let recovery = parts.recovery.as_ref();
    let recovery = recovery.filter(|recovery| recovery.streams.chronicle.is_none())?;
    let now_ms = parts.clock.now.mono_ms;
    let (first, entries) = recovery.journal.records(after, PIECE_BYTES, now_ms);
    (!entries.is_empty()).then(|| Keepsakes {
        first,
        entries,
        ..Keepsakes::default()
    })
}

/// The way back of a socket that goes. A socket that was not told yet of what it lost has none, because the next process knows nothing of
/// the loss.
pub(crate) fn returns(parts: &Parts, index: SocketId) -> Option<record::Return> {
    let extra = parts.people.sockets.get(index)?.extra.as_ref()?;
    let own = extra.lifeline.as_deref()?;
    let goes = own.life.deed().is_none() && !has_lost(parts, index);
    goes.then(|| record::Return {
        recovered: own.recovered,
        gap: own.gap_ms.is_some(),
        ..return_record(own.pid, own.uid.as_deref(), &own.life)
    })
}

fn has_lost(parts: &Parts, index: SocketId) -> bool {
    parking::lags(parts, index, Lag::is_untold)
}

fn return_record(pid: Pid, uid: Option<&str>, life: &Life) -> record::Return {
    record::Return {
        pid: String::from_utf8_lossy(&pid.text()).into_owned(),
        uid: uid.map(str::to_owned),
        life: Some(life.record()),
        ..record::Return::default()
    }
}

fn parked_record(own: &Record, left_ms: u64) -> record::Parked {
    let members = own.members.iter();
    record::Parked {
        socket: own.socket.0.to_vec(),
        namespace: own.namespace.to_string(),
        by: Some(return_record(own.pid, own.uid.as_deref(), &own.life)),
        members: members
            .map(|member| member_record(member.kind, &member.name))
            .collect(),
        data: own.data.as_deref().map(str::to_owned),
        left_ms,
    }
}

/// A socket as it will be when its connection has ended, if its client may come back to it.
fn left(parts: &Parts, index: SocketId) -> Option<record::Parked> {
    let socket = parts.people.sockets.get(index)?;
    let lifeline = socket.extra.as_ref()?.lifeline.as_ref()?;
    let misses = lifeline.gap_ms.is_some() || has_lost(parts, index);
    let session = parts.people.sessions.get(socket.session)?;
    // `parking::park` would not keep these sockets either.
    if misses || session.flags.closing || parts.rooms.follows(&parts.people, index) {
        return None;
    }
    let namespace = parts.people.namespaces.label(socket.namespace)?;
    let window = parts.books.config.recovery.of(namespace)?.window;
    let own = parking::record(parts, index, lifeline)?;
    Some(parked_record(&own, window.as_millis() as u64))
}

// ---- coming ---------------------------------------------------------------------------------------------------------------------

/// Takes in a piece of what the process before kept; how much of it has no place here.
pub(crate) fn arrive(parts: &mut Parts, piece: &Keepsakes) -> Result<u64, Unable> {
    let now_ms = parts.clock.now.mono_ms;
    let mut left_out = 0;
    if let Some(log) = piece.log {
        parts.rooms.kept.go_on_as(log);
    }
    let me = parts.ids.me;
    for room in &piece.rooms {
        let home = parts.rooms.kept.keeping.home_of(&room.namespace, me.shards);
        // The configuration may have changed since: then another shard is home to the room, or none is.
        let taken = home == Some(me.shard) && parts.rooms.kept.take_in(room);
        left_out += u64::from(!taken);
    }
    let Some(recovery) = &mut parts.recovery else {
        return Ok(left_out + piece.parked.len() as u64);
    };
    if recovery.streams.chronicle.is_some() {
        return Ok(left_out + piece.parked.len() as u64);
    }
    if !recovery
        .journal
        .take_in(piece.first, &piece.entries, now_ms)
    {
        let first = piece.first;
        return Err(Unable(format!(
            "place {first} of a journal follows no other"
        )));
    }
    if let Some(word) = &piece.journal
        && !recovery.go_on_as(word, now_ms)
    {
        return Err(Unable("a journal is not whole".to_owned()));
    }
    for parked in &piece.parked {
        left_out += u64::from(!keep(parts, parked)?);
    }
    parking::settle(parts);
    Ok(left_out)
}

/// Keeps a socket without a connection. `false`: clients do not come back to its namespace any more.
fn keep(parts: &mut Parts, parked: &record::Parked) -> Result<bool, Unable> {
    let unable = || Unable("a socket without a connection".to_owned());
    let by = parked.by.as_ref().ok_or_else(unable)?;
    let pid = Pid::read(&by.pid).ok_or_else(unable)?;
    let socket: [u8; 15] = parked.socket.as_slice().try_into().map_err(|_| unable())?;
    let life = by.life.as_ref().ok_or_else(unable)?;
    if parts.people.sockets.find(&Id20(socket)).is_some() {
        return Err(unable());
    }
    let record = Record {
        pid,
        socket: Id20(socket),
        namespace: parked.namespace.as_str().into(),
        members: parked.members.iter().filter_map(member_of).collect(),
        uid: by.uid.as_deref().map(Into::into),
        data: parked.data.as_deref().map(Into::into),
        life: Life::of_record(life),
    };
    let recovery = parts.recovery.as_ref();
    // Its places mean something only in the journal of the process before.
    let fits = recovery.is_some_and(|recovery| recovery.is_heir && !recovery.parked.has(pid));
    let rooms_max = parts.books.config.limits.rooms_per_socket_max;
    // The room by its own id is one more.
    let fits = fits && record.members.rooms() <= rooms_max.saturating_add(1);
    Ok(fits && parking::keep_for(parts, record, parked.left_ms))
}

/// A socket that came can come back later as it could before. `false`: its client has a new beginning.
pub(crate) fn tie(parts: &mut Parts, index: SocketId, record: &record::Return) -> Option<()> {
    let now_ms = parts.clock.now.mono_ms;
    let namespace = parts.people.sockets.get(index)?.namespace;
    let namespace = parts.people.namespaces.label(namespace)?;
    parts.books.config.recovery.of(namespace)?;
    let recovery = parts.recovery.as_ref()?;
    if !recovery.is_heir || recovery.streams.chronicle.is_some() {
        return None;
    }
    let lifeline = Lifeline {
        pid: Pid::read(&record.pid)?,
        life: Life::of_record(record.life.as_ref()?),
        uid: record.uid.as_deref().map(Into::into),
        // A pong to a ping of the process before proves nothing about what that one said after the ping.
        since_ms: now_ms,
        recovered: record.recovered,
        is_heir: false,
        gap_ms: record.gap.then_some(now_ms),
    };
    parking::attach(parts, parts.people.sockets.key(index), lifeline);
    Some(())
}
