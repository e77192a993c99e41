//! All that a shard has for recovery, and what it says to other shards when a socket comes back to one of them. ADR 38 has the order of
//! these messages.
//!
//! A step ends with messages to post and news of what is wanted here. The caller lists the shard on the cards of rooms by the news
//! **before** the messages leave: what a fence promises is true then.

mod handing;

use crate::books::faults::{self, Fault};
use crate::dialect::speech::Emit;
use crate::recovery::circle::{Circle, Sender};
use crate::recovery::headings::Heading;
use crate::recovery::journal::{self, Action, Journal, Moment, Said};
use crate::recovery::members::Aim;
use crate::recovery::messages::{Claim, Handover, Message, NotRecovered};
use crate::recovery::parked::{self, Asked, Fenced, Parked, Pass};
use crate::recovery::pid::{Offset, Pid};
use crate::recovery::record::Record;
use crate::recovery::stamp::{ShardLife, Stamps, Vector};
use crate::recovery::streams::Streams;
use crate::recovery::taking::{self, Back, Taking};
use crate::recovery::takings::Takings;
use crate::recovery::ways::{Abroad, Ways};
use crate::tables::id::{Ids, Place};
use crate::tables::position::Position;
use crate::tables::slot::{AskKey, SessionKey, SocketKey};
use std::collections::HashMap;
use std::sync::Arc;
use wire::base64url::Id20;

/// Bounds of a shard's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) journal: journal::Bounds,
    pub(crate) parked: parked::Bounds,
    /// Claims that may wait. The client of one more gets a new socket.
    pub(crate) takings_max: usize,
    /// So many bytes of what a client missed may go to another node.
    pub(crate) handover_bytes_max: usize,
}

/// The `pid` and offset that a client shows, and the user of its token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comer<'a> {
    pub(crate) pid: Pid,
    pub(crate) offset: Option<Position>,
    /// The client's place in the stream that all nodes read, if its offset names one.
    pub(crate) number: Option<u64>,
    pub(crate) uid: Option<&'a str>,
}

/// A claim of this shard is over.
#[derive(Debug)]
pub(crate) struct Verdict {
    pub(crate) number: u64,
    pub(crate) result: Result<Box<Back>, NotRecovered>,
}

#[derive(Debug)]
pub(crate) struct Recovery {
    pub(crate) ways: Ways,
    pub(crate) journal: Journal,
    /// The journal is that of the process before.
    pub(crate) is_heir: bool,
    pub(crate) parked: Parked,
    pub(crate) stamps: Stamps,
    pub(crate) takings: Takings,
    /// A claim of this shard that has no verdict after this time is over.
    claim_ms: u64,
    pub(crate) streams: Streams,
    /// Sockets with a transport that can come back.
    pub(crate) live: HashMap<Pid, SocketKey>,
    /// Sessions that were promised a socket and wait for their handler.
    pub(crate) promised: HashMap<Pid, SessionKey>,
    /// Questions that wait for verdicts, by their numbers.
    pub(crate) waiting: HashMap<u64, AskKey>,
}

impl Recovery {
    pub(crate) fn new(ids: &mut Ids, bounds: Bounds) -> Self {
        Self {
            ways: Ways::new(ids.me, bounds.handover_bytes_max),
            journal: Journal::new(ids, bounds.journal),
            is_heir: false,
            parked: Parked::new(bounds.parked),
            stamps: Stamps::new(ids.me.place(), ShardLife::draw(ids)),
            takings: Takings::new(bounds.takings_max),
            claim_ms: bounds.parked.claim_ms,
            streams: Streams::default(),
            live: HashMap::new(),
            promised: HashMap::new(),
            waiting: HashMap::new(),
        }
    }

    // ---- what is published --------------------------------------------------------------------------------------------

    /// Writes an event down that came to this shard or was published here, and gives the offset under which its clients get it. `has`:
    /// whether a heading has sockets here.
    pub(crate) fn say(
        &mut self,
        moment: Moment,
        aim: &Aim<'_>,
        event: &Emit<'_>,
        has: impl Fn(Heading<'_>) -> bool,
    ) -> u64 {
        let parked = &self.parked;
        // A record is a listener like a socket that is here (ADR 38).
        let wants = |heading: Heading<'_>| has(heading) || parked.wants(heading);
        self.journal.say(moment, aim, event, wants)
    }

    /// The same for a command. Sockets that are here carry it out besides.
    pub(crate) fn command(&mut self, moment: Moment, aim: &Aim<'_>, action: &Action) {
        if let Some(stamp) = moment.stamp {
            self.journal.seen.see(stamp);
        }
        let ended = self.parked.command(moment, aim, action, &mut self.journal);
        for (claim, circle) in ended {
            let why = NotRecovered::Disconnected;
            self.ways.refuse(claim, circle.as_ref(), why);
        }
    }

    /// The offset of a place of the journal, for a client that has all that came here.
    pub(crate) fn offset(&self, namespace: &str, at: u64) -> Offset {
        let number = self.number_at_head(namespace);
        self.journal.offset_text(at, number)
    }

    /// How far this shard is in the stream of a namespace, if it has one.
    pub(crate) fn number_at_head(&self, namespace: &str) -> Option<u64> {
        let place = self.streams.chronicle.as_ref()?.place(namespace)?;
        Some(self.journal.seen.last_of(place).unwrap_or_default())
    }

    // ---- the client's side --------------------------------------------------------------------------------------------

    /// The socket that a client comes back to, if it is kept here with all that it missed. That may be so many bytes. A socket that its
    /// client cannot get is not kept any longer.
    pub(crate) fn look(
        &mut self,
        comer: Comer<'_>,
        bytes_max: usize,
    ) -> Result<Id20, NotRecovered> {
        let record = self.parked.look(comer.pid, comer.uid)?;
        let is_ahead = self.is_ahead(&record.namespace, comer.number);
        // This journal does not know the place that it shows, but the store knows its number.
        let is_foreign = comer.number.is_some() && !record.knows(&self.journal, comer.offset);
        let has = record.has(&self.journal, comer.offset);
        let missed = record.missed(&self.journal, has);
        let why = match missed {
            _ if is_ahead => NotRecovered::Unknown,
            Some(missed) if missed.bytes() <= bytes_max => return Ok(record.socket),
            _ if is_foreign => NotRecovered::Unknown,
            Some(_) => NotRecovered::TooMuch,
            None => NotRecovered::Trimmed,
        };
        self.parked.remove(comer.pid);
        Err(why)
    }

    /// Takes a socket that is kept here; nobody else is asked.
    pub(crate) fn take(&mut self, comer: Comer<'_>) -> Result<Box<Back>, NotRecovered> {
        let record = self.parked.take_here(comer.pid, comer.uid)?;
        self.resume(record, comer)
    }

    /// A client had its socket elsewhere meanwhile, and has more of the stream than came to this shard: here it would get that once more.
    pub(crate) fn is_ahead(&self, namespace: &str, number: Option<u64>) -> bool {
        let head = self.number_at_head(namespace);
        let heeded = !faults::is_back(Fault::NumberUnheeded);
        heeded && number.zip(head).is_some_and(|(number, head)| number > head)
    }

    /// Asks the other shards for a socket that cannot be taken here: a verdict with this number follows. They are asked also where the
    /// record is here and another shard has a claim on it: the socket may live at that shard before its confirmation arrives. `circle`: the
    /// other nodes that are asked, too.
    pub(crate) fn ask(
        &mut self,
        comer: Comer<'_>,
        circle: Option<Circle>,
        now_ms: u64,
    ) -> Result<u64, NotRecovered> {
        let nowhere = match self.ways.abroad {
            Abroad::Nobody => NotRecovered::Unknown,
            Abroad::Unable | Abroad::Nodes(_) => NotRecovered::Nodes,
        };
        if self.ways.peers.is_empty() && circle.is_none() {
            return Err(nowhere);
        }
        let number = self.takings.next().ok_or(NotRecovered::Late)?;
        let deadline_ms = now_ms.saturating_add(self.claim_ms);
        let message = Message::Claim {
            pid: comer.pid,
            claim: self.ways.own(number),
            shown: comer.offset,
            uid: comer.uid.map(Into::into),
            nodes: circle.as_ref().map(|circle| Arc::clone(&circle.nodes)),
        };
        self.ways.tell_all(circle.as_ref(), &message);
        // If no shard has the socket, this is told as the reason: other nodes may have it where they could not be asked.
        let why = match circle {
            Some(_) => NotRecovered::Unknown,
            None => nowhere,
        };
        let peers = self.ways.peers.iter().copied();
        let taking = Taking::new(
            comer.pid,
            (peers, self.ways.me.node, circle),
            why,
            deadline_ms,
        );
        self.takings.insert(number, taking);
        Ok(number)
    }

    /// It came back to the shard that it left: its places stay what they were.
    fn resume(&mut self, record: Record, comer: Comer<'_>) -> Result<Box<Back>, NotRecovered> {
        let has = record.has(&self.journal, comer.offset);
        let missed = record.missed(&self.journal, has);
        let mut missed = missed.ok_or(NotRecovered::Trimmed)?;
        // A place in a journal of another node says nothing here, but its number does.
        if !faults::is_back(Fault::NumberUnheeded)
            && let Some(number) = comer.number
            && !record.knows(&self.journal, comer.offset)
        {
            let is_new = |said: &Said| said.number().is_none_or(|own| own > number);
            missed.events.retain(|(_, said)| is_new(said));
        }
        Ok(Box::new(Back {
            record,
            missed: missed.events,
            read: missed.read,
        }))
    }

    /// The store has the socket that a claim is for: from now on what is said to it is kept here. `false`: nobody waits for it.
    pub(crate) fn expect_adopted(&mut self, number: u64, record: &Record) -> bool {
        let Some(adopting) = self.takings.adopting(number) else {
            return false;
        };
        // `expect` would replace the record that is here.
        if adopting.pid != record.pid || self.parked.has(record.pid) {
            return false;
        }
        let (claim, deadline_ms) = (self.ways.own(number), adopting.deadline_ms);
        let since = self.journal.head();
        self.parked
            .expect(record.clone(), claim, since, deadline_ms);
        true
    }

    /// A socket came from the store: it goes on here.
    pub(crate) fn adopt(
        &mut self,
        number: u64,
        handover: Handover,
        now_ms: u64,
    ) -> Result<Box<Back>, NotRecovered> {
        let pid = handover.record.pid;
        let adopting = self.takings.end_adopting(number);
        adopting.ok_or(NotRecovered::Late)?;
        let came = self.parked.arrived(pid, self.ways.own(number));
        let (since, wants) = came.ok_or(NotRecovered::Claimed)?;
        let back = taking::switch_over(&mut self.journal, now_ms, handover, (since, &wants))?;
        Ok(Box::new(back))
    }

    /// The client that waits for this verdict is gone.
    pub(crate) fn give_up(&mut self, number: u64) {
        if let Some(adopting) = self.takings.end_adopting(number) {
            // What was kept for a socket on its way here is not needed any more.
            self.parked.arrived(adopting.pid, self.ways.own(number));
        }
        let Some(taking) = self.takings.remove(number) else {
            return;
        };
        let (pid, claim) = (taking.pid, self.ways.own(number));
        self.parked.arrived(pid, claim);
        self.ways
            .tell_all(taking.circle(), &Message::Released { pid, claim });
    }

    // ---- between shards -----------------------------------------------------------------------------------------------

    /// Hears another shard. Before a claim is heard, the caller parks the socket that has this `pid`, if it is here: its
    /// transport is given up.
    pub(crate) fn hear(
        &mut self,
        by: Sender<'_>,
        message: Message,
        now_ms: u64,
    ) -> Option<Verdict> {
        let from = by.place;
        match message {
            Message::Claim {
                pid,
                claim,
                shown,
                uid,
                nodes,
            } => {
                let asked = Asked {
                    pid,
                    uid: uid.as_deref(),
                    claim,
                };
                // Shards of the claimer's node answer for themselves, whatever nodes the claim goes around.
                match nodes.filter(|_| claim.by.node != self.ways.me.node) {
                    None => self.claimed(asked, shown, None, now_ms),
                    Some(nodes) => self.claimed_abroad(by, asked, shown, nodes, now_ms),
                }
            }
            Message::Fence {
                pid,
                claim,
                round,
                owner,
                last,
            } => self.fence_heard(by, pid, (claim, round), (owner, &last)),
            Message::Fenced {
                pid,
                claim,
                round,
                last,
            } => self.fenced(by, pid, (claim, round), &last),
            Message::Flush { claim } => return self.pass_flush(by, claim, now_ms),
            Message::Confirmed { pid, claim } => {
                self.parked.confirmed(pid, claim);
            }
            Message::Released { pid, claim } => self.parked.released(pid, claim),
            Message::Refused { claim, why } => return self.refused(by, claim.number, why),
            Message::Offer {
                claim,
                round,
                record,
            } => self.offered(by, claim, round, *record),
            Message::Handed { claim, handover } => {
                let taking = self.takings.get_mut(claim.number)?;
                taking.handed(from, handover);
                return self.complete(claim, now_ms);
            }
            Message::Flushed { claim } => {
                self.takings.get_mut(claim.number)?.flushed(from);
                return self.complete(claim, now_ms);
            }
        }
        None
    }

    fn fence_heard(
        &mut self,
        by: Sender<'_>,
        pid: Pid,
        (claim, round): (Claim, u32),
        (owner, last): (Place, &Vector),
    ) {
        // Between nodes only homes pass fences on, each with a vector of its own.
        if claim.by.node != owner.node {
            return self.pass_fence(by, pid, (claim, round), owner);
        }
        // The claimer is one of those that pass the fence on: its fence is its pass.
        if owner == self.ways.me {
            return self.fenced(by, pid, (claim, round), last);
        }
        let fenced = Message::Fenced {
            pid,
            claim,
            round,
            last: self.stamps.given().clone(),
        };
        self.ways.post(owner, fenced);
    }

    // ---- the owner's side ---------------------------------------------------------------------------------------------

    pub(super) fn claimed(
        &mut self,
        asked: Asked<'_>,
        shown: Option<Position>,
        circle: Option<Circle>,
        now_ms: u64,
    ) {
        let journal = &self.journal;
        let has = |record: &Record| record.has(journal, shown);
        let peers = match &circle {
            Some(circle) => circle.homes(),
            None => self.ways.peers.clone(),
        };
        let around = (peers, circle.clone());
        match self.parked.claim(asked, around, now_ms, has) {
            Ok(()) => self.offer(asked.pid, asked.claim),
            Err(why) => self.ways.refuse(asked.claim, circle.as_ref(), why),
        }
    }

    fn offer(&mut self, pid: Pid, claim: Claim) {
        if let Some((record, round, circle)) = self.parked.claimed(pid, claim) {
            let (record, circle) = (Box::new(record.clone()), circle.cloned());
            let offer = Message::Offer {
                claim,
                round,
                record,
            };
            self.ways.answer(claim, circle.as_ref(), offer);
        }
    }

    /// Nothing is kept for this claim: the record stayed with the process before. A refusal spares the claimer the wait for its deadline.
    fn disown(&mut self, by: Sender<'_>, claim: Claim) {
        let way = Ways::way(by);
        // A shard of this node does not name the namespace of another node's claim, so no answer would find its way. The fence by that
        // node's own home names it.
        if claim.by.node == self.ways.me.node || way.is_some() {
            self.ways.refuse(claim, way.as_ref(), NotRecovered::Unknown);
        }
    }

    pub(super) fn fenced(
        &mut self,
        by: Sender<'_>,
        pid: Pid,
        (claim, round): (Claim, u32),
        last: &Vector,
    ) {
        // All that the sender published for this record is here by now: the fence came after it. The rest of `last` was for other shards
        // only.
        self.journal.seen.see_all(last);
        if self.parked.claimed(pid, claim).is_none() {
            return self.disown(by, claim);
        }
        // Between nodes a home answers for its whole node, and its shard's number may differ from node to node.
        let by = match claim.by.node == self.ways.me.node {
            true => by.place,
            false => Place::home_of(by.place.node),
        };
        match self.parked.fenced(pid, Pass { claim, round, by }) {
            Fenced::Waits => {}
            Fenced::Again => self.offer(pid, claim),
            Fenced::Complete(has) => self.hand_over(pid, claim, has),
        }
    }

    fn hand_over(&mut self, pid: Pid, claim: Claim, has: u64) {
        let Some((record, _, circle)) = self.parked.claimed(pid, claim) else {
            return;
        };
        let (record, circle) = (record.clone(), circle.cloned());
        let missed = record.missed(&self.journal, has);
        let missed = missed.ok_or(NotRecovered::Trimmed);
        let missed = missed.and_then(|missed| match &circle {
            None => Ok(missed),
            Some(circle) => self.ways.may_leave(circle, missed),
        });
        let missed = match missed {
            Ok(missed) => missed,
            Err(why) => {
                self.parked.remove(pid);
                return self.ways.refuse(claim, circle.as_ref(), why);
            }
        };
        let handover = Box::new(Handover {
            record,
            missed: missed.events,
            log: self.journal.position(has).log,
            seen: self.journal.seen.clone(),
        });
        self.ways
            .answer(claim, circle.as_ref(), Message::Handed { claim, handover });
        if let Some(circle) = &circle {
            return self.flush_all(claim, circle);
        }
        for peer in self.ways.peers.clone() {
            // What the claimer published itself is not under way to it.
            if peer != claim.by {
                self.ways.post(peer, Message::Flush { claim });
            }
        }
    }

    // ---- the claimer's side -------------------------------------------------------------------------------------------

    fn refused(&mut self, by: Sender<'_>, number: u64, why: NotRecovered) -> Option<Verdict> {
        let why = self.takings.get_mut(number)?.refused(by, why)?;
        let owner = self.takings.get(number)?.owner();
        // One node's refusal ends the claim, and another one may still keep the record for it.
        let ends_early = why == NotRecovered::Nodes && owner.is_none();
        if ends_early || owner.is_some_and(|owner| owner != by.place) {
            self.give_up(number);
        } else {
            // Nobody keeps a record for this claim, so nobody is told of its end.
            let taking = self.takings.remove(number)?;
            self.parked.arrived(taking.pid, self.ways.own(number));
        }
        let result = Err(why);
        Some(Verdict { number, result })
    }

    fn offered(&mut self, by: Sender<'_>, claim: Claim, round: u32, record: Record) {
        let (from, pid) = (by.place, record.pid);
        let taking = self.takings.get_mut(claim.number);
        let Some(taking) = taking.filter(|taking| taking.pid == pid) else {
            return;
        };
        if !taking.offered(by) {
            // A second shard has such a socket as well: it gets its record back.
            let circle = taking.circle();
            return self
                .ways
                .post_to(from, circle, Message::Released { pid, claim });
        }
        let (since, deadline_ms) = (self.journal.head(), taking.deadline_ms);
        if round == 0 {
            self.parked.expect(record, claim, since, deadline_ms);
        } else {
            self.parked.expect_more(pid, claim, &record.members);
        }
        if from.node != self.ways.me.node {
            // Other nodes must know first what is wanted here, or an event could go to neither node.
            return taking.fence_later(round);
        }
        for peer in self.ways.peers.clone() {
            let fence = Message::Fence {
                pid,
                claim,
                round,
                owner: from,
                last: self.stamps.given().clone(),
            };
            self.ways.post(peer, fence);
        }
    }

    /// The owner's part is here, and nothing that is in it is still under way: the socket goes on here.
    pub(super) fn complete(&mut self, claim: Claim, now_ms: u64) -> Option<Verdict> {
        let number = claim.number;
        let peers = self.ways.peers.iter().copied();
        let handover = self.takings.get_mut(number)?.complete(peers)?;
        let taking = self.takings.remove(number)?;
        let owner = taking.owner()?;
        let pid = taking.pid;
        let came = self.parked.arrived(pid, claim);
        // The owner's record ends also where this fails: the client gets a new socket.
        let result = came.ok_or(NotRecovered::Late).and_then(|(since, wants)| {
            self.is_unchanged(&taking)?;
            let journal = &mut self.journal;
            taking::switch_over(journal, now_ms, *handover, (since, &wants)).map(Box::new)
        });
        self.ways
            .post_to(owner, taking.circle(), Message::Confirmed { pid, claim });
        Some(Verdict { number, result })
    }

    // ---- time ---------------------------------------------------------------------------------------------------------

    /// Ends claims that nobody answered, and drops records and entries whose time is over.
    pub(crate) fn tick(&mut self, now_ms: u64) -> Vec<Verdict> {
        self.journal.trim(now_ms);
        // This is called in each turn, and few turns end something.
        if self.next_deadline_ms().is_none_or(|due_ms| due_ms > now_ms) {
            return Vec::new();
        }
        let late = self.takings.late(now_ms);
        for number in &late {
            self.give_up(*number);
        }
        self.parked.expire(now_ms);
        let verdicts = late.into_iter().map(|number| Verdict {
            number,
            result: Err(NotRecovered::Late),
        });
        verdicts.collect()
    }

    /// When the next record or claim ends.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        let claims = self.takings.next_deadline_ms().into_iter();
        claims.chain(self.parked.next_deadline_ms()).min()
    }
}
