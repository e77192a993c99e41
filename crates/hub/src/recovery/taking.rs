//! The claimer's side of taking a socket: what it waits for, and the switch from what was missed to what is live.

use crate::bounds::SHARDS_MAX;
use crate::recovery::circle::{Circle, Sender};
use crate::recovery::headings::Kind;
use crate::recovery::journal::{Action, Command, Journal, Read, Said};
use crate::recovery::members::Members;
use crate::recovery::messages::{Handover, NotRecovered};
use crate::recovery::pid::Pid;
use crate::recovery::record::Record;
use crate::tables::id::Place;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A socket that came back, at the head of the journal. The caller lets it live in the same step.
#[derive(Debug)]
pub(crate) struct Back {
    pub(crate) record: Record,
    /// The events that it missed, with the places under which it gets them.
    pub(crate) missed: Vec<(u64, Arc<Said>)>,
    /// Entries that were read for it.
    pub(crate) read: usize,
}

impl Back {
    /// Bytes of what it missed.
    pub(crate) fn bytes(&self) -> usize {
        self.missed.iter().map(|(_, said)| said.bytes()).sum()
    }
}

/// A claim of this shard.
#[derive(Debug)]
pub(super) struct Taking {
    pub(super) pid: Pid,
    pub(super) deadline_ms: u64,
    /// Shards that have not said whether they have it.
    asked: BTreeSet<Place>,
    /// Nodes of which no shard has said anything. How many shards they have is not known.
    silent: BTreeSet<u16>,
    /// The nodes that are asked, if others are.
    circle: Option<Circle>,
    here: u16,
    /// The shard that has it.
    owner: Option<Place>,
    /// Only a shard of this node can still give it.
    alone: bool,
    /// Why others cannot give it.
    why: NotRecovered,
    /// The round of a fence that waits, and the ticket that it waits for once that is known.
    fence: Option<(u32, Option<u64>)>,
    /// Shards whose events that the owner had seen have all arrived here.
    flushed: BTreeSet<Place>,
    handed: Option<Box<Handover>>,
}

impl Taking {
    pub(super) fn new(
        pid: Pid,
        (peers, here, circle): (impl Iterator<Item = Place>, u16, Option<Circle>),
        why: NotRecovered,
        deadline_ms: u64,
    ) -> Self {
        let nodes = circle.iter().flat_map(|circle| circle.nodes.iter());
        Self {
            pid,
            deadline_ms,
            asked: peers.collect(),
            silent: nodes.copied().filter(|node| *node != here).collect(),
            circle,
            here,
            owner: None,
            alone: false,
            why,
            fence: None,
            flushed: BTreeSet::new(),
            handed: None,
        }
    }

    /// A shard says something, and how many shards its node has.
    fn heard(&mut self, by: Sender<'_>) {
        let Place { node, .. } = by.place;
        if self.silent.remove(&node) {
            // The number comes from another node, and is not believed beyond the bound.
            let shards = 0..by.parts.min(SHARDS_MAX as u16);
            self.asked.extend(shards.map(|shard| Place { node, shard }));
        }
        self.asked.remove(&by.place);
    }

    /// A shard does not give it; `Some`: nor does any other.
    pub(super) fn refused(&mut self, by: Sender<'_>, why: NotRecovered) -> Option<NotRecovered> {
        self.heard(by);
        // One node that cannot take part ends the way over nodes for all (ADR 38).
        if why == NotRecovered::Nodes {
            return self.stay_alone();
        }
        // `Unknown` says least, so any other reason stays.
        if why != NotRecovered::Unknown && !self.alone {
            self.why = why;
        }
        match self.owner {
            Some(owner) => (owner == by.place).then_some(why),
            None => self.is_answered().then_some(self.why),
        }
    }

    /// The nodes of the circle are not what they were, so only a shard of this node can still give it. `Some`: none does.
    pub(super) fn stay_alone(&mut self) -> Option<NotRecovered> {
        let here = self.here;
        (self.alone, self.why) = (true, NotRecovered::Nodes);
        self.silent.clear();
        self.asked.retain(|place| place.node == here);
        match self.owner {
            Some(owner) => (owner.node != here).then_some(self.why),
            None => self.is_answered().then_some(self.why),
        }
    }

    fn is_answered(&self) -> bool {
        self.asked.is_empty() && self.silent.is_empty()
    }

    /// A shard has it; `false`: another has it, too.
    pub(super) fn offered(&mut self, by: Sender<'_>) -> bool {
        self.heard(by);
        if self.alone && by.place.node != self.here {
            return false;
        }
        *self.owner.get_or_insert(by.place) == by.place
    }

    pub(super) fn owner(&self) -> Option<Place> {
        self.owner
    }

    /// The nodes that were asked.
    pub(super) fn circle(&self) -> Option<&Circle> {
        self.circle.as_ref()
    }

    /// The nodes that it goes around, if its owner is on another.
    pub(super) fn around(&self) -> Option<&Circle> {
        let abroad = self.owner.is_some_and(|owner| owner.node != self.here);
        self.circle.as_ref().filter(|_| abroad)
    }

    /// A node went, or something that it said was lost. `Some`: the claim has no chance any more.
    pub(super) fn broken(&mut self, node: u16) -> Option<NotRecovered> {
        let concerned = self.circle.as_ref().is_some_and(|all| all.has(node));
        if concerned { self.stay_alone() } else { None }
    }

    /// A fence goes around as soon as other nodes know what is wanted here.
    pub(super) fn fence_later(&mut self, round: u32) {
        self.fence = Some((round, None));
    }

    pub(super) fn waits_for_ticket(&self) -> bool {
        matches!(self.fence, Some((_, None)))
    }

    /// All that it waits for has this ticket at most.
    pub(super) fn listed(&mut self, ticket: u64) {
        if let Some((_, waits @ None)) = &mut self.fence {
            *waits = Some(ticket);
        }
    }

    /// The round of the fence that may go around now.
    pub(super) fn confirmed(&mut self, known: u64) -> Option<u32> {
        let is_known = |fence: &mut (u32, Option<u64>)| fence.1.is_some_and(|at| at <= known);
        self.fence.take_if(is_known).map(|(round, _)| round)
    }

    pub(super) fn flushed(&mut self, by: Place) {
        let abroad = self.around().is_some();
        let by = if abroad { Place::home_of(by.node) } else { by };
        self.flushed.insert(by);
    }

    pub(super) fn handed(&mut self, by: Place, handover: Box<Handover>) {
        if self.owner == Some(by) {
            self.handed = Some(handover);
        }
    }

    /// The handover, when all shards of these have nothing under way any more that is in it.
    pub(super) fn complete(
        &mut self,
        mut peers: impl Iterator<Item = Place>,
    ) -> Option<Box<Handover>> {
        let (owner, flushed) = (self.owner, &self.flushed);
        let all = match self.around() {
            Some(circle) => circle.homes().iter().all(|home| flushed.contains(home)),
            // The owner's handover comes after all that it published: it needs no flush.
            None => peers.all(|peer| Some(peer) == owner || flushed.contains(&peer)),
        };
        self.handed.take_if(|_| all)
    }
}

/// Joins what the owner handed over and what came here. The owner's part ends where its vector says. This shard has all later events for
/// the socket, because it listed the socket at `since` under `wants`. Both parts go into this journal one after the other, for the socket
/// alone.
pub(super) fn switch_over(
    journal: &mut Journal,
    now_ms: u64,
    handover: Handover,
    (since, wants): (u64, &Members),
) -> Result<Back, NotRecovered> {
    let Handover {
        mut record,
        missed,
        log,
        seen,
    } = handover;
    // Of the streams, nothing that the owner saw is on its way here any more.
    journal.seen.see_streams(&seen);
    let (places, mut missed): (Vec<u64>, Vec<Arc<Said>>) = missed.into_iter().unzip();
    let mut read = missed.len();
    let later = journal.under(&record.namespace, wants, since);
    for at in later.ok_or(NotRecovered::Trimmed)? {
        read += 1;
        match journal.read(at, &seen) {
            Some(Read::Commanded(command)) => {
                let meant = command.means(&record.namespace, &record.members);
                if meant && !carry_out(&mut record.members, command) {
                    return Err(NotRecovered::Disconnected);
                }
            }
            Some(Read::Said { said, except }) => {
                let members = &record.members;
                let left_out = except.iter().any(|name| members.has(Kind::Room, name));
                if !left_out && journal.is_for(at, &record.namespace, members) {
                    missed.push(Arc::clone(said));
                }
            }
            None => {}
        }
    }
    // The life begins before what is told now: the first of it stands at `begun + 1`, as `Former` counts.
    let life = record.life.go_on(journal.head(), log, &places);
    record.life = life.ok_or(NotRecovered::Trimmed)?;
    let socket = record.socket.to_string();
    let places = missed.into_iter().map(|said| {
        let at = journal.tell(now_ms, &record.namespace, &socket, &said);
        (at, said)
    });
    let missed = places.collect();
    Ok(Back {
        record,
        missed,
        read,
    })
}

/// `false`: it was disconnected.
fn carry_out(members: &mut Members, command: &Command) -> bool {
    match &command.action {
        Action::Join(rooms) => rooms.iter().for_each(|room| {
            members.join(Kind::Room, room);
        }),
        Action::Leave(rooms) => rooms.iter().for_each(|room| {
            members.leave(Kind::Room, room);
        }),
        Action::Disconnect => return false,
    }
    true
}
