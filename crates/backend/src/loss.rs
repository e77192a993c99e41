//! A worker that is lost: its sockets, and the events that it had got.

use crate::backlog::Sole;
use crate::entry::Entry;
use crate::home::Phase;
use crate::link::Stray;
use crate::message::{Refusal, Why};
use crate::name::Name;
use crate::nodes::NodesGone;
use crate::parts::Parts;
use crate::proto::item::What;
use crate::queue::Queue;
use crate::settle;
use crate::worker::Worker;

/// The items of a worker that may have ended it.
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
            Self::One(sole) if sole.is(entry) => entry.suspicion.note(true),
            Self::One(_) | Self::None => {}
        }
    }
}

/// Counts it, and tells the worker why.
pub(crate) fn lose(parts: &mut Parts, id: u64, why: Stray) {
    parts.queue.counts().lost(why);
    parts.queue.workers.dismiss(id, why);
    bury(parts, id);
}

/// Those that are lost by now.
pub(crate) fn lose_silent(parts: &mut Parts) {
    let queue = &mut parts.queue;
    queue.workers.wake_waiting();
    for (id, why) in queue.workers.lost(queue.now_ms, &queue.settings) {
        lose(parts, id, why);
    }
}

/// A worker will not come back: its sockets move, with what it has not handled.
pub(crate) fn bury(parts: &mut Parts, id: u64) {
    let Parts {
        queue,
        questions,
        openings,
        nodes_gone,
    } = parts;
    let Some(worker) = queue.workers.remove(id) else {
        return;
    };
    questions.leave(queue, id);
    let (blame, leaving) = (Blame::of(&worker), worker.is_leaving());
    let (mut later, mut moved) = (Vec::new(), Vec::new());
    for name in &worker.sockets {
        let Some(home) = queue.homes.get_mut(name) else {
            continue;
        };
        if home.phase == Phase::Gone && !home.admitted {
            queue.forget(*name);
            continue;
        }
        moved.push(*name);
        home.lose_worker(queue.now_ms);
        if worker.parting.contains(name) {
            later.push((*name, home.items.take_all()));
        }
        let owed = home.items.take_owed();
        queue.homes.lacks_worker(*name);
        for entry in owed {
            take_back_sent(queue, nodes_gone, entry, &blame);
        }
    }
    let (had, waiting) = worker.into_items();
    had.for_each(|entry| take_back_sent(queue, nodes_gone, entry, &blame));
    waiting
        .into_iter()
        .for_each(|entry| take_back(queue, nodes_gone, entry));
    // Behind what the worker had.
    for (name, held) in later {
        if let Some(home) = queue.homes.get_mut(&name) {
            home.items.hold_all(held);
        }
    }
    for name in &moved {
        if let Some(home) = queue.homes.get_mut(name) {
            home.items.sort();
        }
        queue.homes.look_by(*name, queue.now_ms);
    }
    openings.ask_others(queue, id, leaving);
    settle::all(queue);
    let is_gone = |name: &Name| {
        let home = queue.homes.get(name);
        home.is_some_and(|home| home.phase == Phase::Gone)
    };
    moved.retain(is_gone);
    moved.into_iter().for_each(|name| queue.bound_end(name));
}

/// Items that the lost worker had got: one of them may have ended it.
fn take_back_sent(queue: &mut Queue, nodes_gone: &mut NodesGone, mut entry: Entry, blame: &Blame) {
    entry.redelivered = true;
    blame.lay(&mut entry);
    let deadly = entry.suspicion.is_deadly() && entry.may_end_a_worker();
    match entry.about.filter(|_| deadly) {
        Some(name) => condemn(queue, name, &entry),
        None => take_back(queue, nodes_gone, entry),
    }
}

/// It goes to no other worker.
fn condemn(queue: &mut Queue, name: Name, entry: &Entry) {
    queue.release(entry);
    let wanted = queue.is_wanted(entry);
    let Some(home) = queue.homes.of_mut(entry) else {
        return;
    };
    if entry.is_event() {
        let ack = entry.ack().unwrap_or(0);
        home.items.end_wait(ack);
        // Also one of a client that is gone: the next worker would have got it.
        if !wanted {
            return;
        }
        queue.outlet.refuse(name, ack, Why::Deadly);
    } else if let Some(number) = home.deciding() {
        queue.counts().refused_deadly += 1;
        queue.forget(name);
        let refusal = Refusal::unavailable();
        queue.outlet.decide(name, number, Err(refusal));
    } else {
        return;
    }
    queue.outlet.log_deadly(name, entry.event_said());
}

/// Of a worker that is lost. Another one is introduced anew to a socket that was let in.
fn take_back(queue: &mut Queue, nodes_gone: &mut NodesGone, entry: Entry) {
    if let Some(What::NodeGone(gone)) = entry.what()
        && queue.workers.is_empty()
    {
        nodes_gone.keep(*gone);
    }
    let home = queue.homes.of_mut(&entry);
    match home {
        // The next worker is not the one that was to part from it.
        _ if entry.parts() => queue.release(&entry),
        Some(home) if home.is_deciding() || !entry.introduces() => {
            home.items.hold(entry);
        }
        _ => queue.release(&entry),
    }
}
