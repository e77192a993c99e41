//! What a shard keeps for those who come: events of its rooms, what was said to sockets that may come back, and what is left of those that are
//! away. It goes in pieces, which are bounded. Times are lengths, and places of a journal stay what they are.

use crate::bounds::{
    APART_MAX, EVENTS_OF_ROOM_MAX, FORMERS_MAX, NAME_BYTES_MAX, NODES_MAX, NUMBER_LIMIT, OPEN_MAX,
    ORIGINS_MAX, PLACE_LIMIT, ROOMS_MAX,
};
use crate::unfit::{Unfit, need};
use prost::Message;
use std::collections::HashSet;

/// One piece. What it has is taken in in the order of its fields.
#[derive(Clone, PartialEq, Message)]
pub struct Keepsakes {
    /// Before the rooms.
    #[prost(message, optional, tag = "1")]
    pub log: Option<Log>,
    #[prost(message, repeated, tag = "2")]
    pub rooms: Vec<Room>,
    /// Entries of the journal, the first of which stands there.
    #[prost(uint64, tag = "3")]
    pub first: u64,
    #[prost(message, repeated, tag = "4")]
    pub entries: Vec<Entry>,
    /// Ends the journal.
    #[prost(message, optional, tag = "5")]
    pub journal: Option<Journal>,
    #[prost(message, repeated, tag = "6")]
    pub parked: Vec<Parked>,
}

/// How a shard counts the events that its rooms keep.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Log {
    #[prost(fixed64, tag = "1")]
    pub name: u64,
    /// The last place that was given.
    #[prost(uint64, tag = "2")]
    pub last: u64,
    /// The place of the last event that a room without a record had and forgot.
    #[prost(uint64, tag = "3")]
    pub floor: u64,
}

/// A room that keeps events.
#[derive(Clone, PartialEq, Message)]
pub struct Room {
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(string, tag = "2")]
    pub name: String,
    /// The place of the last event that should be here and is not.
    #[prost(uint64, tag = "3")]
    pub floor: u64,
    #[prost(message, repeated, tag = "4")]
    pub events: Vec<Kept>,
}

/// An event that a room keeps.
#[derive(Clone, PartialEq, Message)]
pub struct Kept {
    #[prost(uint64, tag = "1")]
    pub place: u64,
    /// One value, as JSON.
    #[prost(string, tag = "2")]
    pub text: String,
}

/// The number that something has in the order of the shard that gave it out.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct Stamp {
    #[prost(uint32, tag = "1")]
    pub node: u32,
    #[prost(uint32, tag = "2")]
    pub shard: u32,
    #[prost(uint64, tag = "3")]
    pub number: u64,
    /// Which life of that shard it was.
    #[prost(fixed64, tag = "4")]
    pub life: u64,
}

/// A membership, or somebody whom an event names: 0 everyone, 1 a room, 2 a user, 3 one socket.
#[derive(Clone, PartialEq, Message)]
pub struct Member {
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    #[prost(string, tag = "2")]
    pub name: String,
}

/// One entry of a journal: an event, a history that was told, or a change of a membership. With none of these it only has its place.
#[derive(Clone, PartialEq, Message)]
pub struct Entry {
    #[prost(uint64, tag = "1")]
    pub age_ms: u64,
    #[prost(message, optional, tag = "2")]
    pub stamp: Option<Stamp>,
    #[prost(string, tag = "3")]
    pub namespace: String,
    /// Whom it is for, in that namespace.
    #[prost(message, repeated, tag = "4")]
    pub headings: Vec<Member>,
    #[prost(message, optional, tag = "5")]
    pub said: Option<Event>,
    /// The room whose history was told.
    #[prost(string, optional, tag = "6")]
    pub told: Option<String>,
    #[prost(message, optional, tag = "7")]
    pub changed: Option<Change>,
}

/// An event that was said.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Raw JSON elements, separated by commas.
    #[prost(string, tag = "2")]
    pub args: String,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub attachments: Vec<Vec<u8>>,
    /// The one room that it was for.
    #[prost(string, optional, tag = "4")]
    pub room: Option<String>,
    /// Members of these did not get it.
    #[prost(string, repeated, tag = "5")]
    pub except: Vec<String>,
    /// Its rooms keep it.
    #[prost(bool, tag = "6")]
    pub kept: bool,
}

/// A socket joined or left something.
#[derive(Clone, PartialEq, Message)]
pub struct Change {
    #[prost(bool, tag = "1")]
    pub joined: bool,
    #[prost(message, optional, tag = "2")]
    pub member: Option<Member>,
}

/// A journal, and what its shard knows of the order of others.
#[derive(Clone, PartialEq, Message)]
pub struct Journal {
    #[prost(uint64, tag = "1")]
    pub name: u64,
    /// The place of the last entry.
    #[prost(uint64, tag = "2")]
    pub head: u64,
    /// All behind it is there.
    #[prost(uint64, tag = "3")]
    pub floor: u64,
    /// The last place at which something is missing.
    #[prost(uint64, tag = "4")]
    pub gap: u64,
    /// All that the shard saw.
    #[prost(message, repeated, tag = "5")]
    pub seen: Vec<Stamp>,
    /// All that it gave out.
    #[prost(message, repeated, tag = "6")]
    pub given: Vec<Stamp>,
    /// The number of its own last one.
    #[prost(uint64, tag = "7")]
    pub last: u64,
    /// Claims of this shard so far.
    #[prost(uint64, tag = "8")]
    pub claims: u64,
    /// Namespaces in which somebody spoke to each node by itself, for all shards.
    #[prost(message, repeated, tag = "9")]
    pub apart: Vec<Apart>,
    /// This life of the shard, which goes on in the next process.
    #[prost(fixed64, tag = "10")]
    pub life: u64,
    /// Claims of this shard at other nodes that had no verdict: the next process gives them back.
    #[prost(message, repeated, tag = "11")]
    pub open: Vec<Open>,
}

/// A claim whose client was told nothing.
#[derive(Clone, PartialEq, Message)]
pub struct Open {
    /// The name of the client that came back.
    #[prost(string, tag = "1")]
    pub pid: String,
    #[prost(uint64, tag = "2")]
    pub number: u64,
    #[prost(string, tag = "3")]
    pub namespace: String,
    /// Those that were asked.
    #[prost(uint32, repeated, tag = "4")]
    pub nodes: Vec<u32>,
}

/// A namespace whose sockets stay at their nodes for a while.
#[derive(Clone, PartialEq, Message)]
pub struct Apart {
    /// Empty: all of them.
    #[prost(string, tag = "1")]
    pub namespace: String,
    #[prost(uint64, tag = "2")]
    pub age_ms: u64,
}

/// The places of a socket in journals: by them it is known what its client has.
#[derive(Clone, PartialEq, Message)]
pub struct Life {
    #[prost(uint64, tag = "1")]
    pub begun: u64,
    /// It began with its socket.
    #[prost(bool, tag = "2")]
    pub first: bool,
    #[prost(uint64, tag = "3")]
    pub confirmed: u64,
    /// Journals that it was in before.
    #[prost(message, repeated, tag = "4")]
    pub formers: Vec<Former>,
}

/// A journal that a socket was in before.
#[derive(Clone, PartialEq, Message)]
pub struct Former {
    #[prost(uint64, tag = "1")]
    pub journal: u64,
    #[prost(uint64, repeated, tag = "2")]
    pub places: Vec<u64>,
}

/// By which the client of a socket that is here comes back later.
#[derive(Clone, PartialEq, Message)]
pub struct Return {
    /// The client's secret.
    #[prost(string, tag = "1")]
    pub pid: String,
    /// The user of its token.
    #[prost(string, optional, tag = "2")]
    pub uid: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub life: Option<Life>,
    /// It came back with the connection that it has.
    #[prost(bool, tag = "4")]
    pub recovered: bool,
    /// Its client was told that something is missing, and has not proved that it knows.
    #[prost(bool, tag = "5")]
    pub gap: bool,
}

/// A socket without a connection.
#[derive(Clone, PartialEq, Message)]
pub struct Parked {
    /// 15 bytes.
    #[prost(bytes = "vec", tag = "1")]
    pub socket: Vec<u8>,
    #[prost(string, tag = "2")]
    pub namespace: String,
    #[prost(message, optional, tag = "3")]
    pub by: Option<Return>,
    #[prost(message, repeated, tag = "4")]
    pub members: Vec<Member>,
    #[prost(string, optional, tag = "5")]
    pub data: Option<String>,
    /// It is kept for so long.
    #[prost(uint64, tag = "6")]
    pub left_ms: u64,
}

const PID_BYTES: usize = 28;
const ID_BYTES: usize = 15;
/// Kinds of members.
const USER: u32 = 2;
const SOCKET: u32 = 3;

impl Room {
    /// Its bytes in a message.
    pub fn size(&self) -> usize {
        self.encoded_len()
    }

    /// Whether a record may have these names, of a namespace and of a room there. Whoever gives records asks before: see
    /// [`is_taken`](crate::is_taken).
    pub fn may_be(namespace: &str, name: &str) -> bool {
        check_names(namespace, name).is_ok()
    }
}

impl Entry {
    /// Its bytes in a message.
    pub fn size(&self) -> usize {
        self.encoded_len()
    }
}

impl Parked {
    /// Its bytes in a message.
    pub fn size(&self) -> usize {
        self.encoded_len()
    }
}

impl Keepsakes {
    /// `None`: these bytes are no record.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Self::decode(bytes).ok()
    }

    /// Its bytes.
    pub fn write(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    /// Its bytes in a message.
    pub fn size(&self) -> usize {
        self.encoded_len()
    }

    /// Looks at it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Unfit> {
        if let Some(log) = &self.log {
            need(
                log.floor <= log.last,
                "log.floor",
                "no more than the last place",
            )?;
            need(log.last < NUMBER_LIMIT, "log.last", "below 2^60")?;
        }
        self.rooms.iter().try_for_each(check_room)?;
        let count = self.entries.len() as u64;
        let begins = self.entries.is_empty() || self.first > 0;
        need(
            begins && self.first.saturating_add(count) < PLACE_LIMIT,
            format!("first = {}", self.first),
            "a place of a journal",
        )?;
        self.entries.iter().try_for_each(check_entry)?;
        self.journal.as_ref().map_or(Ok(()), check_journal)?;
        self.parked.iter().try_for_each(check_parked)
    }
}

fn check_names(namespace: &str, name: &str) -> Result<(), Unfit> {
    is_name("rooms.namespace", namespace)?;
    is_name("rooms.name", name)
}

fn check_room(room: &Room) -> Result<(), Unfit> {
    check_names(&room.namespace, &room.name)?;
    need(
        room.events.len() <= EVENTS_OF_ROOM_MAX,
        "rooms.events",
        "at most 1,024",
    )?;
    // An event may be missing behind some that are there.
    let mut last = 0;
    for event in &room.events {
        need(event.place > last, "rooms.events.place", "in order")?;
        last = event.place;
    }
    let full = room.events.iter().all(|event| !event.text.is_empty());
    need(full, "rooms.events.text", "not empty")
}

fn check_entry(entry: &Entry) -> Result<(), Unfit> {
    if let Some(stamp) = &entry.stamp {
        check_stamp("entries.stamp", stamp)?;
    }
    let count = [
        entry.said.is_some(),
        entry.told.is_some(),
        entry.changed.is_some(),
    ];
    let count = count.into_iter().filter(|is| *is).count();
    need(
        count <= 1 && (count == 1) != entry.headings.is_empty(),
        "entries",
        "one thing for somebody, or nothing for nobody",
    )?;
    if count == 0 {
        return Ok(());
    }
    is_name("entries.namespace", &entry.namespace)?;
    need(
        entry.headings.len() <= ROOMS_MAX,
        "entries.headings",
        "at most 65,536",
    )?;
    for heading in &entry.headings {
        check_member("entries.headings", heading, SOCKET)?;
    }
    if let Some(room) = &entry.told {
        is_name("entries.told", room)?;
    }
    if let Some(said) = &entry.said {
        need(
            said.except.len() <= ROOMS_MAX,
            "entries.said.except",
            "at most 65,536",
        )?;
    }
    match entry.changed.as_ref().map(|change| &change.member) {
        None => Ok(()),
        Some(Some(member)) => check_member("entries.changed", member, USER),
        Some(None) => need(false, "entries.changed.member", "there"),
    }
}

fn check_member(field: &'static str, member: &Member, last: u32) -> Result<(), Unfit> {
    let (kind, len) = (member.kind, member.name.len());
    need(
        kind <= last,
        format!("{field}.kind = {kind}"),
        "one that is known",
    )?;
    // Everyone has no name.
    let fits = len <= NAME_BYTES_MAX && (kind > 0 || len == 0);
    need(fits, field, "named by at most 65,536 bytes, or everyone")
}

fn check_stamp(field: &'static str, stamp: &Stamp) -> Result<(), Unfit> {
    let fits = |number: u32| u16::try_from(number).is_ok();
    need(
        fits(stamp.node) && fits(stamp.shard),
        field,
        "of a shard of a node",
    )
}

fn check_journal(journal: &Journal) -> Result<(), Unfit> {
    let places = [journal.name, journal.head];
    let near = places.into_iter().all(|place| place < PLACE_LIMIT);
    need(
        near && journal.name > 0,
        "journal.name",
        "below 2^48, with its places",
    )?;
    need(journal.life != 0, "journal.life", "drawn")?;
    let counted = [journal.last, journal.claims];
    need(
        counted.into_iter().all(|number| number < NUMBER_LIMIT),
        "journal.last",
        "below 2^60, with its claims",
    )?;
    need(
        journal.floor <= journal.head && journal.gap <= journal.head,
        "journal.head",
        "behind all its places",
    )?;
    for (field, stamps) in [
        ("journal.seen", &journal.seen),
        ("journal.given", &journal.given),
    ] {
        need(stamps.len() <= ORIGINS_MAX, field, "at most 1,048,576")?;
        stamps
            .iter()
            .try_for_each(|stamp| check_stamp(field, stamp))?;
    }
    need(
        journal.apart.len() <= APART_MAX + 1,
        "journal.apart",
        "at most 1,001",
    )?;
    need(
        journal.open.len() <= OPEN_MAX,
        "journal.open",
        "at most 1,024",
    )?;
    let mut open = journal.open.iter();
    open.try_for_each(|open| check_open(open, journal.claims))
}

fn check_open(open: &Open, claims: u64) -> Result<(), Unfit> {
    need(
        open.pid.len() == PID_BYTES,
        "journal.open.pid",
        "28 characters",
    )?;
    need(
        open.number <= claims,
        "journal.open.number",
        "one of its claims",
    )?;
    is_name("journal.open.namespace", &open.namespace)?;
    let nodes = &open.nodes;
    let fits = nodes.iter().all(|node| u16::try_from(*node).is_ok());
    need(
        fits && nodes.len() <= NODES_MAX,
        "journal.open.nodes",
        "65,536 numbers of nodes at most",
    )
}

/// Looks at the way by which a socket comes back.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check_return(by: &Return) -> Result<(), Unfit> {
    need(by.pid.len() == PID_BYTES, "pid", "28 characters")?;
    let Some(life) = &by.life else {
        return need(false, "life", "there");
    };
    let near = life.begun < PLACE_LIMIT && life.confirmed < PLACE_LIMIT;
    need(near, "life", "places below 2^48")?;
    need(
        life.formers.len() <= FORMERS_MAX,
        "life.formers",
        "at most 8",
    )?;
    let sorted = life.formers.iter().all(|former| {
        let near = former.places.iter().all(|place| *place < PLACE_LIMIT);
        near && former.journal < PLACE_LIMIT && former.places.is_sorted()
    });
    need(sorted, "life.formers.places", "in order, below 2^48")
}

impl Parked {
    /// Whether a process takes it: see [`is_taken`](crate::is_taken).
    pub fn is_taken(&self) -> bool {
        check_parked(self).is_ok()
    }
}

impl Open {
    /// The same of a claim of a shard that has made so many.
    pub fn is_taken(&self, claims: u64) -> bool {
        check_open(self, claims).is_ok()
    }
}

fn check_parked(parked: &Parked) -> Result<(), Unfit> {
    need(parked.socket.len() == ID_BYTES, "parked.socket", "15 bytes")?;
    is_name("parked.namespace", &parked.namespace)?;
    match &parked.by {
        Some(by) => check_return(by)?,
        None => need(false, "parked.by", "there")?,
    }
    let members = &parked.members;
    need(
        members.len() <= ROOMS_MAX + 2,
        "parked.members",
        "at most 65,538",
    )?;
    let mut known = HashSet::new();
    members.iter().try_for_each(|member| {
        check_member("parked.members", member, USER)?;
        let fresh = known.insert((member.kind, &*member.name));
        need(fresh, "parked.members", "named once each")
    })
}

fn is_name(field: &'static str, name: &str) -> Result<(), Unfit> {
    let fits = (1..=NAME_BYTES_MAX).contains(&name.len());
    need(fits, field, "1 to 65,536 bytes")
}
