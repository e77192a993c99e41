//! A journal as records for the process that comes next, and back: places stay what they are, so what clients show means the same there.

use super::{Entry, Journal, What, index_cost};
use crate::recovery::headings::{Heading, Kind, Membership};
use crate::recovery::said::Said;
use crate::recovery::stamp::{ShardLife, Stamp, Vector};
use crate::tables::id::Place;
use crate::tables::slot::HeadingId;
use handoff::bounds::{NAME_BYTES_MAX, RECORD_BYTES_MAX, ROOMS_MAX};
use handoff::keepsakes as record;
use smallvec::SmallVec;
use std::sync::Arc;

const KINDS: [Kind; 4] = [Kind::Everyone, Kind::Room, Kind::User, Kind::Socket];

/// A membership or a heading as a record.
pub(crate) fn member_record(kind: Kind, name: &str) -> record::Member {
    record::Member {
        kind: kind as u32,
        name: name.to_owned(),
    }
}

/// `None`: the kind is none of this build.
pub(crate) fn member_of(record: &record::Member) -> Option<Membership> {
    let kind = KINDS.get(usize::try_from(record.kind).ok()?)?;
    Some(Membership::new(*kind, &record.name))
}

/// All that a vector has, as records.
pub(crate) fn stamps(vector: &Vector) -> Vec<record::Stamp> {
    vector.iter().map(stamp_record).collect()
}

/// The vector of records.
pub(crate) fn vector_of(stamps: &[record::Stamp]) -> Vector {
    stamps.iter().filter_map(stamp_of).collect()
}

fn stamp_record(stamp: Stamp) -> record::Stamp {
    record::Stamp {
        node: u32::from(stamp.from.node),
        shard: u32::from(stamp.from.shard),
        number: stamp.number,
        life: stamp.life.0,
    }
}

fn stamp_of(record: &record::Stamp) -> Option<Stamp> {
    let from = Place {
        node: u16::try_from(record.node).ok()?,
        shard: u16::try_from(record.shard).ok()?,
    };
    Some(Stamp {
        from,
        life: ShardLife(record.life),
        number: record.number,
    })
}

/// The names of so many headings fit into a record, however long they are.
const FEW: usize = RECORD_BYTES_MAX / 4 / NAME_BYTES_MAX;

/// Whether no record has the name of the room or user that it is about.
fn is_unnamed(what: &What) -> bool {
    match what {
        What::Told(room) => room.len() > NAME_BYTES_MAX,
        What::Changed { member, .. } => member.name.len() > NAME_BYTES_MAX,
        What::Said { .. } | What::Commanded(_) | What::Gap => false,
    }
}

/// A socket left something that no record names, so that it may go. What it missed there does not go.
fn loses(what: &What) -> bool {
    is_unnamed(what) && matches!(what, What::Changed { joined: false, .. })
}

impl Journal {
    /// Some bytes of the entries after a place, or after those that are gone, and the place of the first.
    pub(crate) fn records(
        &self,
        after: u64,
        bytes_max: usize,
        now_ms: u64,
    ) -> (u64, Vec<record::Entry>) {
        let first = self.first.max(after + 1);
        let skipped = usize::try_from(first - self.first).unwrap_or(usize::MAX);
        let (mut records, mut bytes) = (Vec::new(), 0);
        for entry in self.entries.iter().skip(skipped) {
            let record = self.entry_record(entry, now_ms);
            bytes += record.size();
            records.push(record);
            if bytes >= bytes_max {
                break;
            }
        }
        (first, records)
    }

    fn entry_record(&self, entry: &Entry, now_ms: u64) -> record::Entry {
        let mut record = record::Entry {
            age_ms: now_ms.saturating_sub(entry.at_ms),
            stamp: entry.stamp.map(stamp_record),
            ..record::Entry::default()
        };
        let mut headings = self.named(entry).peekable();
        if headings.peek().is_none() || is_unnamed(&entry.what) || self.is_too_large(entry) {
            return record;
        }
        match &entry.what {
            // A command was kept for sockets on their way here, and none of these goes over.
            What::Gap | What::Commanded(_) => return record,
            What::Said { said, except, kept } => {
                let event = said.event();
                record.said = Some(record::Event {
                    name: event.name.to_owned(),
                    args: event.args.to_owned(),
                    attachments: event.attachments.to_vec(),
                    room: said.room().map(str::to_owned),
                    except: except.iter().map(|name| name.to_string()).collect(),
                    kept: *kept,
                });
            }
            What::Told(room) => record.told = Some(room.to_string()),
            What::Changed { joined, member } => {
                record.changed = Some(record::Change {
                    joined: *joined,
                    member: Some(member_record(member.kind, &member.name)),
                });
            }
        }
        for heading in headings {
            heading.namespace.clone_into(&mut record.namespace);
            let member = member_record(heading.kind, heading.name);
            record.headings.push(member);
        }
        record
    }

    /// Headings of an entry that a record may have. No socket goes that is under one of the others.
    fn named(&self, entry: &Entry) -> impl Iterator<Item = Heading<'_>> {
        let headings = entry.headings.iter();
        let headings = headings.filter_map(move |id| self.index.heading(*id));
        headings.filter(|heading| {
            let longest = heading.namespace.len().max(heading.name.len());
            longest <= NAME_BYTES_MAX
        })
    }

    /// Such an entry goes over empty: a client that missed it is a new one.
    fn is_too_large(&self, entry: &Entry) -> bool {
        let mut bytes = entry.what.bytes();
        if entry.headings.len() > FEW {
            let headings = entry.headings.iter();
            let names = headings.filter_map(|id| Some(self.index.heading(*id)?.name.len()));
            bytes += names.sum::<usize>();
        }
        let excepted = match &entry.what {
            What::Said { except, .. } => except.len(),
            _ => 0,
        };
        bytes > RECORD_BYTES_MAX / 2 || entry.headings.len().max(excepted) > ROOMS_MAX
    }

    /// What the next process must know beside the entries.
    pub(crate) fn word(&self) -> record::Journal {
        // An entry that no record holds is a gap for the next process (ADR 82).
        let lost = self
            .entries
            .iter()
            .rposition(|entry| self.is_too_large(entry) || loses(&entry.what));
        let lost = lost.map_or(0, |index| self.first + index as u64);
        record::Journal {
            name: self.name,
            head: self.head(),
            floor: self.floor(),
            gap: self.gap.max(lost),
            seen: stamps(&self.seen),
            ..record::Journal::default()
        }
    }

    /// Another process has the journal from now on. A socket that is told something here gets the last place that is known there.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// Takes in entries that the process before had from this place on. `false`: they do not follow what came before.
    pub(crate) fn take_in(&mut self, first: u64, records: &[record::Entry], now_ms: u64) -> bool {
        if records.is_empty() {
            return true;
        }
        if first <= self.head() {
            return false;
        }
        // The process before still served between two pieces, and trimmed what stood between them.
        if first > self.head() + 1 {
            self.skip_to(first);
        }
        for record in records {
            self.restore(record, now_ms);
        }
        self.trim(now_ms);
        true
    }

    /// The process before dropped all that is here: its places begin later.
    fn skip_to(&mut self, first: u64) {
        while !self.entries.is_empty() {
            self.drop_first();
        }
        self.first = first.max(self.first);
    }

    fn restore(&mut self, record: &record::Entry, now_ms: u64) {
        let at = self.head() + 1;
        let mut headings = SmallVec::<[HeadingId; 2]>::new();
        for member in record.headings.iter().filter_map(member_of) {
            let heading = member.heading(&record.namespace);
            let id = self.enter(heading);
            if !headings.contains(&id) {
                headings.push(id);
            }
        }
        for id in &headings {
            if let Some(places) = self.index.get_mut(*id) {
                places.push_back(at);
            }
        }
        // Times must not go down: `before` searches by them.
        let last_ms = self.entries.back().map_or(0, |last| last.at_ms);
        let entry = Entry {
            at_ms: now_ms.saturating_sub(record.age_ms).max(last_ms),
            stamp: record.stamp.as_ref().and_then(stamp_of),
            what: what_of(record),
            headings,
        };
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
    }

    fn enter(&mut self, heading: Heading<'_>) -> HeadingId {
        let (id, fresh) = self.index.enter(heading);
        if fresh {
            self.bytes += index_cost(heading);
        }
        id
    }

    /// All entries have come. `false`: not all of them, or others.
    pub(crate) fn go_on_as(&mut self, word: &record::Journal, now_ms: u64) -> bool {
        if self.entries.is_empty() {
            self.first = self.first.max(word.floor + 1);
        }
        if self.head() != word.head {
            return false;
        }
        // The process before trimmed these after it had sent them.
        while self.floor() < word.floor && !self.entries.is_empty() {
            self.drop_first();
        }
        self.name = word.name;
        self.gap = word.gap;
        self.seen = vector_of(&word.seen);
        self.trim(now_ms);
        true
    }
}

fn what_of(record: &record::Entry) -> What {
    if let Some(said) = &record.said {
        let event = Said::from_parts(
            said.name.clone(),
            said.args.clone(),
            said.attachments.clone(),
        );
        return What::Said {
            said: Arc::new(event.for_room(said.room.as_deref())),
            except: said
                .except
                .iter()
                .map(|name| name.as_str().into())
                .collect(),
            kept: said.kept,
        };
    }
    if let Some(room) = &record.told {
        return What::Told(room.as_str().into());
    }
    let changed = record.changed.as_ref();
    let changed = changed.and_then(|change| {
        let member = member_of(change.member.as_ref()?)?;
        let joined = change.joined;
        Some(What::Changed { joined, member })
    });
    changed.unwrap_or(What::Gap)
}
