//! All that a shard said in namespaces with recovery, and all joins and leaves, in one order: one copy of each event without framing,
//! for a window or until the bound. An index finds what was for one socket, so that reading it costs about what it missed.
//!
//! A place in it is an offset; offsets count up by one. What is not in it any more is below its floor.

pub(crate) mod handing;

use crate::dialect::speech::Emit;
use crate::recovery::headings::{Heading, Headings, Kind, Membership};
use crate::recovery::members::{Aim, Members};
use crate::recovery::pid::{self, OFFSET_LIMIT, Offset};
pub(crate) use crate::recovery::said::Said;
use crate::recovery::spans::{Change, Spans};
use crate::recovery::stamp::{Stamp, Vector};
use crate::tables::id::Ids;
use crate::tables::position::Position;
use crate::tables::slot::HeadingId;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// The bounds of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) window_ms: u64,
    /// Bytes of entries and index.
    pub(crate) bytes_max: usize,
}

/// The order to sockets that are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Join(Vec<Box<str>>),
    Leave(Vec<Box<str>>),
    /// Their membership in the namespace ends.
    Disconnect,
}

impl Action {
    fn bytes(&self) -> usize {
        match self {
            Self::Join(rooms) | Self::Leave(rooms) => name_bytes(rooms),
            Self::Disconnect => 0,
        }
    }
}

/// A command of the API, a worker or another shard, as it was given. Whether it meant a socket that is on its way here is found out when
/// that is here.
#[derive(Debug)]
pub(crate) struct Command {
    rooms: Box<[Box<str>]>,
    users: Box<[Box<str>]>,
    except: Box<[Box<str>]>,
    pub(super) action: Action,
}

impl Command {
    fn new(aim: &Aim<'_>, action: &Action) -> Self {
        Self {
            rooms: owned(aim.rooms),
            users: owned(aim.users),
            except: owned(aim.except),
            action: action.clone(),
        }
    }

    pub(super) fn means(&self, namespace: &str, members: &Members) -> bool {
        let lists = [&self.rooms, &self.users, &self.except];
        let [rooms, users, except] = lists.map(|names| borrowed(names));
        members.are_meant(&Aim {
            namespace,
            rooms: &rooms,
            users: &users,
            except: &except,
        })
    }

    fn bytes(&self) -> usize {
        let lists = [&self.rooms, &self.users, &self.except];
        let names: usize = lists.into_iter().map(|names| name_bytes(names)).sum();
        size_of::<Self>() + names + self.action.bytes()
    }
}

fn owned(names: &[&str]) -> Box<[Box<str>]> {
    names.iter().map(|name| Box::from(*name)).collect()
}

fn borrowed(names: &[Box<str>]) -> Vec<&str> {
    names.iter().map(|name| &**name).collect()
}

fn name_bytes(names: &[Box<str>]) -> usize {
    let names = names.iter();
    names.map(|name| size_of::<Box<str>>() + name.len()).sum()
}

#[derive(Debug)]
enum What {
    Said {
        said: Arc<Said>,
        except: Box<[Box<str>]>,
        /// Its rooms keep it, so members get no such event while they wait for the history.
        kept: bool,
    },
    /// The history of a room was told here.
    Told(Box<str>),
    Changed {
        joined: bool,
        member: Membership,
    },
    Commanded(Box<Command>),
    /// Nobody knows what was said here.
    Gap,
}

impl What {
    fn bytes(&self) -> usize {
        match self {
            Self::Said { said, except, .. } => said.bytes() + name_bytes(except),
            Self::Told(room) => room.len(),
            Self::Changed { member, .. } => member.name.len(),
            Self::Commanded(command) => command.bytes(),
            Self::Gap => 0,
        }
    }
}

#[derive(Debug)]
struct Entry {
    at_ms: u64,
    stamp: Option<Stamp>,
    what: What,
    headings: SmallVec<[HeadingId; 2]>,
}

impl Entry {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.what.bytes() + self.headings.len() * size_of::<u64>()
    }
}

/// The content of an entry that came in the meantime.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read<'a> {
    Said {
        said: &'a Arc<Said>,
        except: &'a [Box<str>],
    },
    Commanded(&'a Command),
}

/// The time at which something is written, and the stamp of its publisher.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) now_ms: u64,
    pub(crate) stamp: Option<Stamp>,
    /// Its rooms keep it.
    pub(crate) kept: bool,
    /// Its number in the stream that all nodes read; 0: it is not there.
    pub(crate) number: u64,
}

impl Moment {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self {
            now_ms,
            stamp: None,
            kept: false,
            number: 0,
        }
    }
}

/// The socket whose part of a journal is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub(crate) namespace: &'a str,
    /// The text of its socket's id.
    pub(crate) socket: &'a str,
    /// Its memberships at the head.
    pub(crate) members: &'a Members,
}

impl<'a> Reader<'a> {
    fn own(self) -> Heading<'a> {
        Heading {
            namespace: self.namespace,
            kind: Kind::Socket,
            name: self.socket,
        }
    }
}

/// The events that a socket missed.
#[derive(Debug, Default)]
pub(crate) struct Missed {
    /// The events, with their places.
    pub(crate) events: Vec<(u64, Arc<Said>)>,
    /// Entries that were read for it.
    pub(crate) read: usize,
}

impl Missed {
    pub(crate) fn bytes(&self) -> usize {
        self.events.iter().map(|(_, said)| said.bytes()).sum()
    }
}

#[derive(Debug)]
pub(crate) struct Journal {
    /// A random name: a place in another journal means nothing here.
    name: u64,
    bounds: Bounds,
    entries: VecDeque<Entry>,
    /// Offset of the first entry, or of the next one.
    first: u64,
    bytes: usize,
    /// Places by heading.
    index: Headings<VecDeque<u64>>,
    /// All that this shard saw, also what it did not keep.
    pub(crate) seen: Vector,
    /// The last place at which something is missing: what another node said was lost.
    gap: u64,
    /// Another process goes on with it: a place that was given here now would name something else there.
    is_over: bool,
}

impl Journal {
    pub(crate) fn new(ids: &mut Ids, bounds: Bounds) -> Self {
        let mut name = 0;
        // 0 is no journal's name: a socket that comes from the store was in none (`cluster/adoption.rs`).
        while name == 0 {
            name = u64::from_be_bytes(ids.random()) % OFFSET_LIMIT;
        }
        Self {
            name,
            bounds,
            entries: VecDeque::new(),
            // Places begin at 1: 0 stands for none, as in `gap`.
            first: 1,
            bytes: 0,
            index: Headings::default(),
            seen: Vector::default(),
            gap: 0,
            is_over: false,
        }
    }

    // ---- places -------------------------------------------------------------------------------------------------------

    /// Offset of the last entry.
    pub(crate) fn head(&self) -> u64 {
        self.first + self.entries.len() as u64 - 1
    }

    /// The last place that is not kept any more: all after it is there.
    pub(crate) fn floor(&self) -> u64 {
        self.first - 1
    }

    /// Something that another node said is lost. A client that has nothing after this place may have missed it.
    pub(crate) fn breaks(&mut self, now_ms: u64) {
        if self.is_over {
            return;
        }
        // Each loss has a place of its own: a client may have confirmed the place of the one before.
        let gap = Entry {
            at_ms: now_ms,
            stamp: None,
            what: What::Gap,
            headings: SmallVec::new(),
        };
        self.bytes += gap.bytes();
        self.entries.push_back(gap);
        self.gap = self.head();
    }

    /// Whether something stands under a heading after a place.
    pub(crate) fn has_behind(&self, heading: Heading<'_>, after: u64) -> bool {
        let places = self.places(heading, (after, self.head()));
        { places }.next().is_some()
    }

    /// Whether a socket was told something alone after a place, and what it has left since.
    pub(crate) fn own_behind(&self, own: Heading<'_>, after: u64) -> (bool, Vec<Membership>) {
        let (mut is_told, mut left) = (false, Vec::new());
        for at in self.places(own, (after, self.head())) {
            match self.entry(at).map(|entry| &entry.what) {
                Some(What::Said { .. }) => is_told = true,
                // What it has joined is among its memberships, so only what it left is told.
                Some(What::Changed {
                    joined: false,
                    member,
                }) => left.push(member.clone()),
                _ => {}
            }
        }
        (is_told, left)
    }

    /// Whether all after a place is there.
    pub(crate) fn is_whole_behind(&self, place: u64) -> bool {
        place >= self.floor() && place >= self.gap
    }

    /// The place of an offset, as clients have it.
    pub(crate) fn position(&self, offset: u64) -> Position {
        Position {
            log: self.name,
            offset,
        }
    }

    /// The same as text. `number`: the place in the stream that all nodes read, if there is one.
    pub(crate) fn offset_text(&self, offset: u64, number: Option<u64>) -> Offset {
        pid::offset(self.position(offset), number)
    }

    /// The offset of a place in this journal.
    pub(crate) fn offset(&self, at: Position) -> Option<u64> {
        (at.log == self.name).then_some(at.offset)
    }

    /// The last offset that was written before that time: a client that answers a ping of that time has it. What is below the floor counts
    /// as the floor.
    pub(crate) fn before(&self, ms: u64) -> u64 {
        // An entry of the same millisecond may have come after the ping.
        let earlier = self.entries.partition_point(|entry| entry.at_ms < ms);
        self.floor() + earlier as u64
    }

    /// Something came that is for this instant only and is not written. Its clients have all up to the offset that is given.
    pub(crate) fn pass(&mut self, moment: Moment) -> u64 {
        if let Some(stamp) = moment.stamp {
            self.seen.see(stamp);
        }
        self.head()
    }

    // ---- writing ------------------------------------------------------------------------------------------------------

    /// Writes an event for all who are meant, and gives its offset. Where no heading has somebody here (`wants`), nothing is kept, and the
    /// offset is the last one.
    pub(crate) fn say(
        &mut self,
        moment: Moment,
        aim: &Aim<'_>,
        event: &Emit<'_>,
        wants: impl Fn(Heading<'_>) -> bool,
    ) -> u64 {
        let what = || What::Said {
            said: Arc::new(
                Said::new(event)
                    .for_room(aim.one_room())
                    .numbered(moment.number),
            ),
            except: owned(aim.except),
            kept: moment.kept,
        };
        let wanted = aim.headings().filter(|heading| wants(*heading));
        self.write(moment, wanted, what)
    }

    /// An event for one socket of this shard.
    pub(crate) fn tell(
        &mut self,
        now_ms: u64,
        namespace: &str,
        socket: &str,
        said: &Arc<Said>,
    ) -> u64 {
        let own = Heading {
            namespace,
            kind: Kind::Socket,
            name: socket,
        };
        let what = || What::Said {
            said: Arc::clone(said),
            except: Box::default(),
            kept: false,
        };
        self.write(Moment::new(now_ms), [own].into_iter(), what)
    }

    /// A socket joined or left something.
    pub(crate) fn change(
        &mut self,
        now_ms: u64,
        (namespace, socket): (&str, &str),
        joined: bool,
        member: Membership,
    ) -> u64 {
        let own = Heading {
            namespace,
            kind: Kind::Socket,
            name: socket,
        };
        let what = || What::Changed { joined, member };
        self.write(Moment::new(now_ms), [own].into_iter(), what)
    }

    /// A socket is told the history of a room that it joined, next: all that the room keeps is in it.
    pub(crate) fn tells_history(
        &mut self,
        now_ms: u64,
        (namespace, socket): (&str, &str),
        room: &str,
    ) {
        let own = Heading {
            namespace,
            kind: Kind::Socket,
            name: socket,
        };
        self.write(Moment::new(now_ms), [own].into_iter(), || {
            What::Told(room.into())
        });
    }

    /// A command that sockets on their way here may have to carry out.
    pub(crate) fn command(
        &mut self,
        moment: Moment,
        aim: &Aim<'_>,
        action: &Action,
        wants: impl Fn(Heading<'_>) -> bool,
    ) -> u64 {
        let what = || What::Commanded(Box::new(Command::new(aim, action)));
        let wanted = aim.headings().filter(|heading| wants(*heading));
        self.write(moment, wanted, what)
    }

    fn write<'a>(
        &mut self,
        moment: Moment,
        headings: impl Iterator<Item = Heading<'a>>,
        what: impl FnOnce() -> What,
    ) -> u64 {
        let Moment { now_ms, stamp, .. } = moment;
        if let Some(stamp) = stamp {
            // The stamp counts also where nothing is kept: a fence asks what came here.
            self.seen.see(stamp);
        }
        if self.is_over {
            return self.head();
        }
        let at = self.head() + 1;
        let mut ids = SmallVec::<[HeadingId; 2]>::new();
        for heading in headings {
            let (id, fresh) = self.index.enter(heading);
            if fresh {
                self.bytes += index_cost(heading);
            }
            // `drop_first` takes one place from each heading, so none may stand twice under one.
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        if ids.is_empty() {
            return self.head();
        }
        for id in &ids {
            if let Some(places) = self.index.get_mut(*id) {
                places.push_back(at);
            }
        }
        let entry = Entry {
            at_ms: now_ms,
            stamp,
            what: what(),
            headings: ids,
        };
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        self.trim(now_ms);
        at
    }

    /// Drops entries that are too old or too many.
    pub(crate) fn trim(&mut self, now_ms: u64) {
        let old_ms = now_ms.saturating_sub(self.bounds.window_ms);
        while let Some(first) = self.entries.front()
            && (first.at_ms < old_ms || self.bytes > self.bounds.bytes_max)
        {
            self.drop_first();
        }
        if self.entries.len() < self.entries.capacity() / 4 {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }

    fn drop_first(&mut self) {
        let Some(entry) = self.entries.pop_front() else {
            return;
        };
        self.bytes -= entry.bytes();
        for id in entry.headings {
            let Some(places) = self.index.get_mut(id) else {
                continue;
            };
            let first = places.pop_front();
            debug_assert_eq!(first, Some(self.first), "the index is behind");
            if !places.is_empty() {
                if places.len() < places.capacity() / 4 {
                    places.shrink_to(2 * places.len());
                }
                continue;
            }
            self.bytes -= self.index.heading(id).map_or(0, index_cost);
            self.index.remove(id);
        }
        self.first += 1;
    }

    // ---- reading ------------------------------------------------------------------------------------------------------

    fn entry(&self, at: u64) -> Option<&Entry> {
        let index = at.checked_sub(self.first)?;
        self.entries.get(usize::try_from(index).ok()?)
    }

    /// Places under a heading, after one place and up to another.
    fn places(
        &self,
        heading: Heading<'_>,
        (after, upto): (u64, u64),
    ) -> impl DoubleEndedIterator<Item = u64> {
        let id = self.index.find(heading);
        let places = id.and_then(|id| self.index.get(id));
        places.into_iter().flat_map(move |places| {
            let from = places.partition_point(|at| *at <= after);
            let to = places.partition_point(|at| *at <= upto);
            places.range(from..to.max(from)).copied()
        })
    }

    /// The events that a socket missed, if it has all up to `after`; `None`: some are not here any more, or that place has not come.
    pub(crate) fn missed(&self, reader: Reader<'_>, after: u64) -> Option<Missed> {
        let head = self.head();
        if !self.is_whole_behind(after) || after > head {
            return None;
        }
        let own: Vec<u64> = self.places(reader.own(), (after, head)).collect();
        let changes = own.iter().rev().filter_map(|at| {
            let What::Changed { joined, member } = &self.entry(*at)?.what else {
                return None;
            };
            Some(Change {
                at: *at,
                joined: *joined,
                member,
            })
        });
        let spans = Spans::read(reader.members.iter(), changes, (after, head));
        // What was said to the socket alone stands under its own heading.
        let mut read = own.clone();
        for span in spans.iter() {
            let heading = span.member.heading(reader.namespace);
            let told = self.told(&own, span.member, (span.after, span.upto));
            let places = self.places(heading, (span.after, span.upto));
            // A history that was told in this span holds what the room had kept by then.
            read.extend(places.filter(|at| *at > told || !self.is_kept(*at)));
        }
        read.sort_unstable();
        read.dedup();
        let events = read.iter().filter_map(|at| {
            let What::Said { said, except, .. } = &self.entry(*at)?.what else {
                return None;
            };
            let left_out = except.iter();
            // What counts is what the socket was a member of at that place, and not now.
            let left_out = { left_out }.any(|name| spans.hold(Kind::Room, name, *at));
            (!left_out).then(|| (*at, Arc::clone(said)))
        });
        Some(Missed {
            events: events.collect(),
            read: read.len(),
        })
    }

    /// The last place in a span at which a socket was told the history of the room; 0: it was not. `own`: places under its own heading.
    fn told(&self, own: &[u64], member: &Membership, (after, upto): (u64, u64)) -> u64 {
        let told = own
            .iter()
            .rev()
            .filter(|at| (after + 1..=upto).contains(*at));
        let mut told = told.filter(|at| {
            let what = self.entry(**at).map(|entry| &entry.what);
            matches!(what, Some(What::Told(room)) if member.kind == Kind::Room && *room == member.name)
        });
        told.next().copied().unwrap_or_default()
    }

    fn is_kept(&self, at: u64) -> bool {
        let what = self.entry(at).map(|entry| &entry.what);
        matches!(what, Some(What::Said { kept: true, .. }))
    }

    /// Places after `after` under any of these memberships, in order; `None`: not all of them are here any more.
    pub(super) fn under(&self, namespace: &str, members: &Members, after: u64) -> Option<Vec<u64>> {
        if !self.is_whole_behind(after) {
            return None;
        }
        let upto = self.head();
        let headings = members.iter().map(|member| member.heading(namespace));
        let mut places: Vec<u64> = headings
            .flat_map(|heading| self.places(heading, (after, upto)))
            .collect();
        places.sort_unstable();
        places.dedup();
        Some(places)
    }

    /// The content of an entry, unless a vector covers it.
    pub(super) fn read(&self, at: u64, covered: &Vector) -> Option<Read<'_>> {
        let entry = self.entry(at)?;
        if entry.stamp.is_some_and(|stamp| covered.covers(stamp)) {
            return None;
        }
        match &entry.what {
            What::Said { said, except, .. } => Some(Read::Said { said, except }),
            What::Commanded(command) => Some(Read::Commanded(command)),
            What::Told(_) | What::Changed { .. } | What::Gap => None,
        }
    }

    /// Whether an event there is for any of these memberships.
    pub(super) fn is_for(&self, at: u64, namespace: &str, members: &Members) -> bool {
        let ids = self.entry(at).map(|entry| &entry.headings);
        let mut headings = ids
            .into_iter()
            .flatten()
            .filter_map(|id| self.index.heading(*id));
        headings.any(|heading| {
            heading.namespace == namespace && members.has(heading.kind, heading.name)
        })
    }

    // ---- looking at it ------------------------------------------------------------------------------------------------

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of entries and index, which are bounded.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same, counted anew.
    pub(crate) fn audit(&self) -> usize {
        let entries = self.entries.iter().map(Entry::bytes);
        entries.chain(self.index.iter().map(index_cost)).sum()
    }
}

fn index_cost(heading: Heading<'_>) -> usize {
    Headings::<VecDeque<u64>>::cost(heading)
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
