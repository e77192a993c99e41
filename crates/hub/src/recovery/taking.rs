//! The claimer's side of taking a socket: what it waits for, and the switch from what was missed to what is live.

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
    /// The events that it missed, with the places under which it gets it.
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
    /// The shard that has it.
    owner: Option<Place>,
    /// Why others cannot give it.
    why: NotRecovered,
    /// Shards of which nothing is under way any more that the owner had seen.
    flushed: BTreeSet<Place>,
    handed: Option<Box<Handover>>,
}

impl Taking {
    pub(super) fn new(pid: Pid, asked: impl Iterator<Item = Place>, deadline_ms: u64) -> Self {
        Self {
            pid,
            deadline_ms,
            asked: asked.collect(),
            owner: None,
            why: NotRecovered::Unknown,
            flushed: BTreeSet::new(),
            handed: None,
        }
    }

    /// A shard does not give it; `Some`: nor does any other.
    pub(super) fn refused(&mut self, by: Place, why: NotRecovered) -> Option<NotRecovered> {
        self.asked.remove(&by);
        if why != NotRecovered::Unknown {
            self.why = why;
        }
        match self.owner {
            Some(owner) => (owner == by).then_some(why),
            None => self.asked.is_empty().then_some(self.why),
        }
    }

    /// A shard has it; `false`: another has it, too.
    pub(super) fn offered(&mut self, by: Place) -> bool {
        self.asked.remove(&by);
        *self.owner.get_or_insert(by) == by
    }

    pub(super) fn owner(&self) -> Option<Place> {
        self.owner
    }

    pub(super) fn flushed(&mut self, by: Place) {
        self.flushed.insert(by);
    }

    pub(super) fn handed(&mut self, handover: Box<Handover>) {
        self.handed = Some(handover);
    }

    /// The handover, when all shards of these have nothing under way any more that is in it.
    pub(super) fn complete(
        &mut self,
        mut peers: impl Iterator<Item = Place>,
    ) -> Option<Box<Handover>> {
        let (owner, flushed) = (self.owner, &self.flushed);
        let all = peers.all(|peer| Some(peer) == owner || flushed.contains(&peer));
        self.handed.take_if(|_| all)
    }
}

/// The owner's part ends where its vector says; from there on this shard has all that is for the socket since it was listed, at
/// `since`, under `wants`. Both go behind each other into this journal, for the socket alone.
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
