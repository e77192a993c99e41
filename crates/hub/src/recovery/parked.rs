//! The records of a shard: of its own sockets that are away, and of those that are on their way here from another shard. Found by
//! `pid`, by what they are members of, and by the time at which they end.

mod handing;

use crate::recovery::circle::Circle;
use crate::recovery::deed::Deed;
use crate::recovery::headings::{Heading, Headings, Kind, Membership};
use crate::recovery::journal::{Action, Journal, Moment};
use crate::recovery::members::{Aim, Members};
use crate::recovery::messages::{Claim, NotRecovered};
use crate::recovery::pid::Pid;
use crate::recovery::record::Record;
use crate::recovery::repeated::Repeated;
use crate::tables::id::Place;
use crate::tables::slab::Slab;
use crate::tables::slot::{HeadingId, RecordId};
use std::collections::{BTreeSet, HashMap};
use wire::base64url::Id20;

/// The bounds of a shard's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) records_max: usize,
    pub(crate) bytes_max: usize,
    /// Rooms that one record may be in.
    pub(crate) rooms_max: usize,
    /// A claimer has this long to confirm.
    pub(crate) claim_ms: u64,
}

/// A heading has the first record here, or had the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) came: bool,
    pub(crate) namespace: Box<str>,
    pub(crate) member: Membership,
}

#[derive(Debug)]
enum State {
    Here,
    /// Kept for a claimer.
    Claimed {
        claim: Claim,
        /// All up to this place of the journal reached its client.
        has: u64,
        round: u32,
        /// The memberships that the claimer knows of.
        offered: Members,
        /// The shards that pass its fence on.
        peers: Vec<Place>,
        /// The shards that have not passed it on yet.
        missing: BTreeSet<Place>,
        /// The nodes that the claim goes around, if the claimer is on another one.
        circle: Option<Circle>,
        /// The claimer has all that was missed, and its client may have been let in: the claim ends with the record.
        handed: bool,
        /// When the record itself ends.
        kept_ms: u64,
    },
    /// The socket is on its way here, and was listed at this place of the journal.
    Coming {
        claim: Claim,
        since: u64,
    },
}

#[derive(Debug)]
struct Slot {
    record: Record,
    state: State,
    deadline_ms: u64,
    /// The headings under which it is listed: its memberships, and of a coming one all that it may be a member of.
    wants: Members,
    bytes: usize,
}

/// A record is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) pid: Pid,
    /// The user of the token that the client shows.
    pub(crate) uid: Option<&'a str>,
    pub(crate) claim: Claim,
}

/// A shard passed a fence on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    pub(crate) claim: Claim,
    pub(crate) round: u32,
    pub(crate) by: Place,
}

/// The outcome of a fence.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fenced {
    /// Others are still to come, or it is about no claim that stands.
    Waits,
    /// It joined something meanwhile that the claimer is not listed for: offer it once more.
    Again,
    /// It leaves: its client has all up to this place.
    Complete(u64),
}

#[derive(Debug)]
pub(crate) struct Parked {
    slots: Slab<RecordId, Slot, ()>,
    by_pid: HashMap<Pid, RecordId>,
    deadlines: BTreeSet<(u64, RecordId)>,
    wanted: Headings<BTreeSet<RecordId>>,
    bounds: Bounds,
    bytes: usize,
    news: Vec<News>,
    /// Sockets whose records left since they were taken note of.
    left: Vec<Id20>,
    /// Records that made way for others and were not counted yet.
    crowded: u64,
    /// How far the stream of a command's namespace has been passed on: memberships change at this number.
    pub(crate) passed: u64,
}

impl Parked {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            slots: Slab::default(),
            by_pid: HashMap::new(),
            deadlines: BTreeSet::new(),
            wanted: Headings::default(),
            bounds,
            bytes: 0,
            news: Vec::new(),
            left: Vec::new(),
            crowded: 0,
            passed: 0,
        }
    }

    // ---- coming and going ---------------------------------------------------------------------------------------------

    /// Keeps a socket that lost its transport. Beyond the bounds the records that would end first make way.
    pub(crate) fn park(&mut self, record: Record, deadline_ms: u64) {
        self.insert(record, State::Here, deadline_ms);
    }

    /// A socket is on its way here: all that may be for it is kept from this place on.
    pub(crate) fn expect(&mut self, record: Record, claim: Claim, since: u64, deadline_ms: u64) {
        self.insert(record, State::Coming { claim, since }, deadline_ms);
    }

    fn insert(&mut self, record: Record, state: State, deadline_ms: u64) {
        self.remove(record.pid);
        let pid = record.pid;
        let wants = record.members.clone();
        let bytes = size_of::<Slot>() + record.bytes() + wants.bytes();
        let slot = Slot {
            record,
            state,
            deadline_ms,
            wants,
            bytes,
        };
        self.bytes += bytes;
        let id = self.slots.insert(slot).id();
        self.by_pid.insert(pid, id);
        self.deadlines.insert((deadline_ms, id));
        let slot = self.slots.get(id);
        let list = |slot: &Slot| slot.wants.iter().cloned().collect::<Vec<_>>();
        for member in slot.map(list).into_iter().flatten() {
            self.list(id, &member);
        }
        self.make_way();
    }

    /// A record whose client is back makes way for nobody: claims have bounds of their own.
    fn make_way(&mut self) {
        while self.slots.len() > self.bounds.records_max || self.bytes > self.bounds.bytes_max {
            let waits = |id: &RecordId| {
                let slot = self.slots.get(*id);
                slot.is_some_and(|slot| matches!(slot.state, State::Here))
            };
            let mut ids = self.deadlines.iter().map(|(_, id)| *id);
            let Some(first) = ids.find(waits) else {
                return;
            };
            self.take(first);
            self.crowded += 1;
        }
    }

    /// Forgets a record.
    pub(crate) fn remove(&mut self, pid: Pid) -> Option<Record> {
        let id = self.by_pid.get(&pid).copied()?;
        self.take(id).map(|slot| slot.record)
    }

    fn take(&mut self, id: RecordId) -> Option<Slot> {
        let slot = self.slots.remove(id)?;
        self.left.push(slot.record.socket);
        self.by_pid.remove(&slot.record.pid);
        self.deadlines.remove(&(slot.deadline_ms, id));
        self.bytes -= slot.bytes;
        for member in slot.wants.iter() {
            self.unlist(id, &slot.record.namespace, member);
        }
        Some(slot)
    }

    /// Forgets records whose time is over; how many. A claimed one ends as well: no second claimer gets it (ADR 38).
    pub(crate) fn expire(&mut self, now_ms: u64) -> usize {
        let mut expired = 0;
        while let Some((deadline_ms, id)) = self.deadlines.first().copied()
            && deadline_ms <= now_ms
        {
            if !self.frees(id, now_ms) {
                self.take(id);
                expired += 1;
            }
        }
        expired
    }

    /// The time of a claim is over, and the claimer was handed nothing, so that its client was told nothing: anybody may claim the record.
    fn frees(&mut self, id: RecordId, now_ms: u64) -> bool {
        if let Some(slot) = self.slots.get_mut(id)
            && let State::Claimed {
                handed: false,
                kept_ms,
                ..
            } = slot.state
            && kept_ms > now_ms
        {
            slot.state = State::Here;
            self.set_deadline(id, kept_ms);
            return true;
        }
        false
    }

    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms)
    }

    fn set_deadline(&mut self, id: RecordId, deadline_ms: u64) {
        if let Some(slot) = self.slots.get_mut(id) {
            self.deadlines.remove(&(slot.deadline_ms, id));
            slot.deadline_ms = deadline_ms;
            self.deadlines.insert((deadline_ms, id));
        }
    }

    // ---- who wants what -----------------------------------------------------------------------------------------------

    /// Whether a heading has records.
    pub(crate) fn wants(&self, heading: Heading<'_>) -> bool {
        self.wanted.find(heading).is_some()
    }

    /// Headings that have their first record since the last call, or had their last, in that order.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// Sockets whose records left since the last call.
    pub(crate) fn take_left(&mut self) -> impl Iterator<Item = Id20> + '_ {
        self.left.drain(..)
    }

    /// Records that made way for others since the last call.
    pub(crate) fn take_crowded(&mut self) -> u64 {
        std::mem::take(&mut self.crowded)
    }

    fn list(&mut self, id: RecordId, member: &Membership) {
        let Some(namespace) = self.slots.get(id).map(|slot| &slot.record.namespace) else {
            return;
        };
        let (heading, fresh) = self.wanted.enter(member.heading(namespace));
        if let Some(records) = self.wanted.get_mut(heading) {
            records.insert(id);
        }
        if fresh {
            self.news.push(News {
                came: true,
                namespace: (**namespace).into(),
                member: member.clone(),
            });
        }
    }

    fn unlist(&mut self, id: RecordId, namespace: &str, member: &Membership) {
        let Some(heading) = self.wanted.find(member.heading(namespace)) else {
            return;
        };
        let records = self.wanted.get_mut(heading);
        if let Some(records) = records
            && records.remove(&id)
            && records.is_empty()
        {
            self.wanted.remove(heading);
            self.news.push(News {
                came: false,
                namespace: namespace.into(),
                member: member.clone(),
            });
        }
    }

    /// A record is listed under one more, or one less.
    fn relist(&mut self, id: RecordId, member: &Membership, wanted: bool) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let (kind, name) = (member.kind, &*member.name);
        let changed = match wanted {
            true => slot.wants.join(kind, name),
            false => slot.wants.leave(kind, name),
        };
        if !changed {
            return;
        }
        let bytes = 2 * member.bytes();
        if wanted {
            slot.bytes += bytes;
            self.bytes += bytes;
            self.list(id, member);
        } else {
            let bytes = bytes.min(slot.bytes);
            slot.bytes -= bytes;
            self.bytes -= bytes;
            let namespace = slot.record.namespace.clone();
            self.unlist(id, &namespace, member);
        }
    }

    // ---- commands -----------------------------------------------------------------------------------------------------

    /// Sockets that are away carry out a command. Gives the claims on records that it ended. One on its way here asks when it has come.
    pub(crate) fn command(
        &mut self,
        moment: Moment,
        aim: &Aim<'_>,
        action: &Action,
        journal: &mut Journal,
    ) -> Vec<(Claim, Option<Circle>)> {
        let mut ended = Vec::new();
        let mut coming = Vec::new();
        for id in self.named(aim) {
            let Some(slot) = self.slots.get(id) else {
                continue;
            };
            match &slot.state {
                State::Coming { .. } => coming.push(id),
                _ if !slot.record.members.are_meant(aim) => {}
                state => {
                    // A claimer that was handed all hears the command itself, and may still give the record back: it is not refused.
                    if let State::Claimed {
                        claim,
                        circle,
                        handed: false,
                        ..
                    } = state
                        && *action == Action::Disconnect
                    {
                        ended.push((*claim, circle.clone()));
                    }
                    self.carry_out(moment.now_ms, id, action, journal);
                }
            }
        }
        if !coming.is_empty() {
            journal.command(moment, aim, action, |heading| self.wants(heading));
        }
        // A socket on its way may be in these rooms by now, so their events are kept for it, too.
        if let Action::Join(rooms) = action {
            for id in coming {
                for room in rooms {
                    self.relist(id, &Membership::new(Kind::Room, room), true);
                }
            }
        }
        self.make_way();
        ended
    }

    /// Records under the headings of an aim, each once.
    fn named(&self, aim: &Aim<'_>) -> BTreeSet<RecordId> {
        let found = aim.headings().filter_map(|heading| {
            let id: HeadingId = self.wanted.find(heading)?;
            self.wanted.get(id)
        });
        found.flatten().copied().collect()
    }

    fn carry_out(&mut self, now_ms: u64, id: RecordId, action: &Action, journal: &mut Journal) {
        match action {
            Action::Join(rooms) => {
                for room in rooms {
                    self.change(now_ms, id, room, true, journal);
                }
            }
            Action::Leave(rooms) => {
                for room in rooms {
                    self.change(now_ms, id, room, false, journal);
                }
            }
            Action::Disconnect => {
                self.take(id);
            }
        }
    }

    /// A membership of a record changes, at this place of the journal.
    fn change(
        &mut self,
        now_ms: u64,
        id: RecordId,
        room: &str,
        joins: bool,
        journal: &mut Journal,
    ) {
        let rooms_max = self.bounds.rooms_max;
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        let members = &mut slot.record.members;
        let changed = match joins {
            true => members.rooms() < rooms_max && members.join(Kind::Room, room),
            false => members.leave(Kind::Room, room),
        };
        if changed {
            let member = Membership::new(Kind::Room, room);
            if let Some(deed) = slot.record.life.deed_mut() {
                deed.change(joins, &member, self.passed);
            }
            let socket = slot.record.socket.to_string();
            let namespace = &slot.record.namespace;
            journal.change(now_ms, (namespace, &socket), joins, member.clone());
            self.relist(id, &member, joins);
        }
    }

    // ---- claims -------------------------------------------------------------------------------------------------------

    fn find(&self, pid: Pid) -> Option<(RecordId, &Slot)> {
        let id = self.by_pid.get(&pid).copied()?;
        Some((id, self.slots.get(id)?))
    }

    /// The record that this client may take, unless somebody else does.
    fn free(
        &self,
        pid: Pid,
        uid: Option<&str>,
        claim: Option<Claim>,
    ) -> Result<RecordId, NotRecovered> {
        let (id, slot) = self.find(pid).ok_or(NotRecovered::Unknown)?;
        match &slot.state {
            State::Here => {}
            State::Claimed { claim: other, .. } if Some(*other) == claim => {}
            State::Claimed { .. } | State::Coming { .. } => return Err(NotRecovered::Claimed),
        }
        match slot.record.uid.as_deref() == uid {
            true => Ok(id),
            false => Err(NotRecovered::OtherUser),
        }
    }

    /// It is here, and not on its way.
    #[cfg(test)]
    pub(crate) fn keeps(&self, pid: Pid) -> bool {
        let slot = self.find(pid).map(|(_, slot)| &slot.state);
        slot.is_some_and(|state| !matches!(state, State::Coming { .. }))
    }

    /// Whether something holds for the deed of a record, which is what the store is told of it.
    pub(crate) fn deed_is(&self, pid: Pid, holds: impl FnOnce(Option<&Deed>) -> bool) -> bool {
        let found = self.find(pid);
        holds(found.and_then(|(_, slot)| slot.record.life.deed()))
    }

    /// What the store had up to a number may be lost.
    pub(crate) fn forget_chronicle(&mut self, namespace: &str, upto: u64) {
        let ids: Vec<RecordId> = self.slots.iter().map(|(id, _)| id).collect();
        for id in ids {
            let slot = self.slots.get_mut(id);
            if let Some(slot) = slot.filter(|slot| *slot.record.namespace == *namespace)
                && let Some(deed) = slot.record.life.deed_mut()
            {
                deed.forgets(upto);
            }
        }
    }

    /// Forgets records that an event was for, but that came only after it was told here.
    pub(crate) fn forget_newcomers(&mut self, again: &Repeated) {
        let slots = self.slots.iter();
        let newcomers = slots.filter(|(_, slot)| {
            let record = &slot.record;
            let mut own = record.members.iter();
            let deed = record.life.deed();
            deed.is_some_and(|deed| {
                own.any(|Membership { kind, name }| {
                    let stood = again.of(&record.namespace, *kind, name);
                    stood.is_some_and(|stood| !deed.heard(*kind, name, stood))
                })
            })
        });
        let newcomers: Vec<RecordId> = newcomers.map(|(id, _)| id).collect();
        for id in newcomers {
            self.take(id);
        }
    }

    pub(crate) fn has(&self, pid: Pid) -> bool {
        self.by_pid.contains_key(&pid)
    }

    /// The record that a client may come back to here.
    pub(crate) fn look(&self, pid: Pid, uid: Option<&str>) -> Result<&Record, NotRecovered> {
        let id = self.free(pid, uid, None)?;
        let slot = self.slots.get(id).ok_or(NotRecovered::Unknown)?;
        Ok(&slot.record)
    }

    /// A client came back to the shard that has its record.
    pub(crate) fn take_here(
        &mut self,
        pid: Pid,
        uid: Option<&str>,
    ) -> Result<Record, NotRecovered> {
        let id = self.free(pid, uid, None)?;
        let slot = self.take(id).ok_or(NotRecovered::Unknown)?;
        Ok(slot.record)
    }

    /// A client came back to another shard: the record is kept for it until all of `peers` have passed its fence on. `has`: what it has.
    pub(crate) fn claim(
        &mut self,
        Asked { pid, uid, claim }: Asked<'_>,
        (peers, circle): (Vec<Place>, Option<Circle>),
        now_ms: u64,
        has: impl FnOnce(&Record) -> u64,
    ) -> Result<(), NotRecovered> {
        let id = self.free(pid, uid, Some(claim))?;
        let until_ms = now_ms.saturating_add(self.bounds.claim_ms);
        if let Some(slot) = self.slots.get_mut(id)
            // A claim that is repeated keeps its round and the passes that came.
            && matches!(slot.state, State::Here)
        {
            slot.state = State::Claimed {
                claim,
                has: has(&slot.record),
                round: 0,
                offered: slot.record.members.clone(),
                missing: peers.iter().copied().collect(),
                peers,
                circle,
                handed: false,
                kept_ms: slot.deadline_ms,
            };
            self.set_deadline(id, until_ms);
        }
        Ok(())
    }

    /// The record of a claim that stands, the round of its offer, and the nodes that it goes around.
    pub(crate) fn claimed(
        &self,
        pid: Pid,
        claim: Claim,
    ) -> Option<(&Record, u32, Option<&Circle>)> {
        let (_, slot) = self.find(pid)?;
        match &slot.state {
            State::Claimed {
                claim: own,
                round,
                circle,
                ..
            } if *own == claim => Some((&slot.record, *round, circle.as_ref())),
            _ => None,
        }
    }

    /// A shard passed the fence on.
    pub(crate) fn fenced(&mut self, pid: Pid, pass: Pass) -> Fenced {
        let id = self.by_pid.get(&pid).copied();
        let Some((id, slot)) = id.and_then(|id| Some((id, self.slots.get_mut(id)?))) else {
            return Fenced::Waits;
        };
        let State::Claimed {
            claim,
            has,
            round,
            offered,
            peers,
            missing,
            handed: handed @ false,
            kept_ms,
            ..
        } = &mut slot.state
        else {
            return Fenced::Waits;
        };
        let stands = (*claim, *round) == (pass.claim, pass.round);
        // A pass of an earlier round, or one that came twice, counts for nothing.
        if !stands || !missing.remove(&pass.by) || !missing.is_empty() {
            return Fenced::Waits;
        }
        if offered.holds(&slot.record.members) {
            *handed = true;
            let (has, end_ms) = (*has, slot.deadline_ms.max(*kept_ms));
            self.set_deadline(id, end_ms);
            return Fenced::Complete(has);
        }
        *offered = slot.record.members.clone();
        *missing = peers.iter().copied().collect();
        *round += 1;
        Fenced::Again
    }

    /// The claimer has it.
    pub(crate) fn confirmed(&mut self, pid: Pid, claim: Claim) -> Option<Record> {
        self.claimed(pid, claim)?;
        self.remove(pid)
    }

    pub(crate) fn released(&mut self, pid: Pid, claim: Claim) {
        if self.claimed(pid, claim).is_some()
            && let Some(id) = self.by_pid.get(&pid).copied()
            && let Some(slot) = self.slots.get_mut(id)
            && let State::Claimed { kept_ms, .. } = slot.state
        {
            slot.state = State::Here;
            let end_ms = slot.deadline_ms.max(kept_ms);
            self.set_deadline(id, end_ms);
        }
    }

    /// A node is gone: nobody knows what its clients were told, so what it had claimed is nobody's.
    pub(crate) fn forget_claims_of(&mut self, node: u16) {
        let gone = self.slots.iter().filter(|(_, slot)| {
            matches!(&slot.state, State::Claimed { claim, .. } if claim.by.node == node)
        });
        let gone: Vec<RecordId> = gone.map(|(id, _)| id).collect();
        gone.into_iter().for_each(|id| drop(self.take(id)));
    }

    // ---- those on their way here --------------------------------------------------------------------------------------

    /// A later round of the offer: it may be a member of these, too.
    pub(crate) fn expect_more(&mut self, pid: Pid, claim: Claim, members: &Members) {
        let own = self.find(pid).filter(|(_, slot)| is_coming(slot, claim));
        let Some(id) = own.map(|(id, _)| id) else {
            return;
        };
        for member in members.iter() {
            self.relist(id, member, true);
        }
        self.make_way();
    }

    /// A socket has come: the place since which all that may be for it was kept, and the memberships that were listed for that.
    pub(crate) fn arrived(&mut self, pid: Pid, claim: Claim) -> Option<(u64, Members)> {
        let (id, slot) = self.find(pid)?;
        if !is_coming(slot, claim) {
            return None;
        }
        let slot = self.take(id)?;
        match slot.state {
            State::Coming { since, .. } => Some((since, slot.wants)),
            _ => None,
        }
    }

    // ---- looking at it ------------------------------------------------------------------------------------------------

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The bytes of records, which are bounded.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The same, counted anew.
    pub(crate) fn audit(&self) -> usize {
        self.slots.iter().map(|(_, slot)| slot.bytes).sum()
    }
}

fn is_coming(slot: &Slot, of: Claim) -> bool {
    matches!(slot.state, State::Coming { claim, .. } if claim == of)
}

#[cfg(test)]
#[path = "parked_tests.rs"]
mod tests;
