//! The sockets of a worker that is lost, and the events it had got.

use crate::entry::Entry;
use crate::home::{Bond, Home, Phase};
use crate::links::Stray;
use crate::message::{Down, Refusal, Why};
use crate::name::Name;
use crate::proto::item::What;
use crate::state::Backend;
use crate::worker::{Sole, Worker};

/// Of these, so many are told at once; all are counted.
const DEADLY_TOLD: usize = 64;

/// An event or a CONNECT that goes to no other worker, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadly {
    pub socket: Name,
    /// `None`: its CONNECT.
    pub event: Option<String>,
}

/// Which of its items may have ended a worker.
enum Blame {
    /// All that it had.
    All,
    /// The one that was alone.
    One(Sole),
    /// One was alone, and had not begun.
    None,
}

impl Blame {
    fn of(worker: &Worker) -> Self {
        match worker.culprit() {
            None => Self::All,
            Some(Ok(sole)) => Self::One(sole),
            Some(Err(())) => Self::None,
        }
    }

    fn lay(&self, entry: &mut Entry) {
        match self {
            Self::All => entry.suspicion.note(false),
            Self::One(sole) if (sole.about, sole.sequence) == (entry.about, entry.sequence) => {
                entry.suspicion.note(true);
            }
            Self::One(_) | Self::None => {}
        }
    }
}

impl Backend {
    /// Counts it, and tells the worker why.
    pub(crate) fn lose(&mut self, now_ms: u64, id: u64, why: Stray) {
        let counts = &mut self.counts;
        *match why {
            Stray::Silent => &mut counts.lost_silent,
            Stray::Stalled => &mut counts.lost_stalled,
            Stray::Expelled => &mut counts.lost_expelled,
            Stray::Failures | Stray::Garbled => &mut counts.lost_failing,
            _ => &mut counts.lost_away,
        } += 1;
        if let Some(worker) = self.workers.get(&id) {
            if let Some(commands) = worker.legacy() {
                self.past.note(worker.instance.clone(), commands);
            }
            self.ended.extend(worker.link.map(|link| (link, why)));
        }
        self.bury(now_ms, id);
    }

    /// A worker will not come back: its sockets move, with what it has not handled.
    pub(crate) fn bury(&mut self, now_ms: u64, id: u64) {
        let Some(worker) = self.workers.remove(&id) else {
            return;
        };
        if let Some(link) = worker.link {
            self.links.remove(&link);
            self.ready.remove(&link);
        }
        self.queries.retain(|_, query| query.worker != id);
        self.leave_rounds(now_ms, id);
        let (blame, leaving) = (Blame::of(&worker), worker.leaving);
        let (mut later, mut moved) = (Vec::new(), Vec::new());
        for name in &worker.sockets {
            let Some(home) = self.homes.get_mut(name) else {
                continue;
            };
            if home.phase == Phase::Gone && !home.admitted {
                self.forget(*name);
                continue;
            }
            moved.push(*name);
            home.worker = None;
            home.since_ms = now_ms;
            home.describing = false;
            home.bond = Bond::Whole;
            if worker.parting.contains(name) {
                later.push((*name, std::mem::take(&mut home.held)));
            }
            let owed = std::mem::take(&mut home.owed);
            self.homeless.insert(*name);
            owed.into_iter()
                .for_each(|entry| self.take_back_sent(entry, &blame));
        }
        let (had, queue) = worker.into_items();
        had.for_each(|entry| self.take_back_sent(entry, &blame));
        queue.into_iter().for_each(|entry| self.take_back(entry));
        // Behind what the worker had.
        for (name, mut held) in later {
            if let Some(home) = self.homes.get_mut(&name) {
                home.held.append(&mut held);
            }
        }
        for name in &moved {
            self.homes.get_mut(name).into_iter().for_each(Home::sort);
            self.look_by(*name, now_ms);
        }
        self.ask_others(now_ms, id, leaving);
        self.settle_all(now_ms);
        let is_gone = |name: &Name| {
            self.homes
                .get(name)
                .is_some_and(|home| home.phase == Phase::Gone)
        };
        moved.retain(is_gone);
        moved.into_iter().for_each(|name| self.bound_end(name));
    }

    /// Items that the lost worker had got: one of them may have ended it.
    fn take_back_sent(&mut self, mut entry: Entry, blame: &Blame) {
        entry.redelivered = true;
        blame.lay(&mut entry);
        let deadly = entry.suspicion.is_deadly() && entry.may_end_a_worker();
        match entry.about.filter(|_| deadly) {
            Some(name) => self.condemn(name, &entry),
            None => self.take_back(entry),
        }
    }

    /// It goes to no other worker.
    fn condemn(&mut self, name: Name, entry: &Entry) {
        self.release(entry);
        let wanted = self.is_wanted(entry);
        let Some(home) = self.homes.get_mut(&name) else {
            return;
        };
        if entry.is_event() {
            let ack = entry.ack().unwrap_or(0);
            home.open.remove(ack);
            // Also one of a client that is gone: the next worker would have got it.
            if !wanted {
                return;
            }
            self.refuse(name, ack, Why::Deadly);
        } else if home.phase == Phase::Deciding {
            self.counts.refused_deadly += 1;
            self.forget(name);
            let decision = Err(Refusal::unavailable());
            let socket = name;
            self.tell(name, Down::Decide { socket, decision });
        } else {
            return;
        }
        if self.deadly.len() < DEADLY_TOLD {
            let (socket, event) = (name, entry.event_name());
            self.deadly.push(Deadly { socket, event });
        }
    }

    /// Events that ended workers since the last call, for the log: 64 at most.
    pub fn take_deadly(&mut self) -> Vec<Deadly> {
        std::mem::take(&mut self.deadly)
    }

    /// Of a worker that is lost. Another one is introduced anew to a socket that was let in.
    fn take_back(&mut self, entry: Entry) {
        let node_gone = match entry.what() {
            Some(What::NodeGone(gone)) => Some(*gone),
            _ => None,
        };
        let home = entry.about.and_then(|name| self.homes.get_mut(&name));
        match home {
            // The next worker is not the one that was to part from it.
            _ if entry.parts() => self.release(&entry),
            Some(home) if home.phase == Phase::Deciding || !entry.introduces() => {
                home.held.push_back(entry);
            }
            _ => self.release(&entry),
        }
        if let Some(gone) = node_gone.filter(|_| self.workers.is_empty()) {
            self.keep_node_gone(gone);
        }
    }
}
