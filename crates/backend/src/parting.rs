//! A worker that leaves. Its sockets move a few at a time, as fast as others take them: no client waits until all have moved.

use crate::bounds::{MOVING, QUESTIONS_MS, SHARE};
use crate::entry::Entry;
use crate::home::{Bond, Home, Phase};
use crate::loss;
use crate::name::Name;
use crate::parts::Parts;
use crate::proto;
use crate::proto::item::What;
use crate::queue::Queue;
use crate::settle;
use crate::worker::Worker;

/// Sockets leave with their workers, and workers without sockets may go.
pub(crate) fn let_go(parts: &mut Parts) {
    let leaves = |worker: &Worker| worker.is_leaving() && worker.link.is_some();
    for id in parts.queue.workers.with(leaves) {
        move_out(&mut parts.queue, id);
        choose_next(&mut parts.queue, id);
        // Where nothing is under way, nothing has to be waited for.
        move_out(&mut parts.queue, id);
        say_goodbye(parts, id);
    }
}

/// Those of which the worker has nothing left to handle or to answer. What came since then waits for the next worker.
fn move_out(queue: &mut Queue, id: u64) {
    let Some(worker) = queue.workers.get(id) else {
        return;
    };
    let holds =
        |home: &Home| matches!(home.bond, Bond::Ending | Bond::Over) || home.items.owe_any();
    let owes = |name: &Name| queue.homes.get(name).is_some_and(holds);
    let done = |name: &&Name| !worker.is_busy_with(name) && !owes(name);
    let done: Vec<Name> = worker.parting.iter().filter(done).copied().collect();
    for name in done {
        match queue.homes.get(&name).map(|home| home.bond) {
            Some(Bond::Parting) => move_one(queue, name),
            _ => tell_to_part(queue, id, name),
        }
    }
}

/// Only the worker knows whether its handlers have heard of the socket's end: it is asked, and the socket moves when it has handled that.
fn tell_to_part(queue: &mut Queue, id: u64, name: Name) {
    let Some(home) = queue.homes.get_mut(&name) else {
        return;
    };
    home.bond = Bond::Parting;
    let socket = name.as_str().to_owned();
    let mut entry = Entry::new(Some(name), What::Part(proto::Part { socket }), queue.now_ms);
    home.items.book_beside(&mut entry);
    queue.ledger.take(entry.bytes);
    queue.workers.enqueue(id, [entry]);
}

/// The worker's handlers have heard of the end of a socket from which it is to part.
pub(crate) fn note_over(queue: &mut Queue, id: u64, socket: &str) -> Result<(), &'static str> {
    let name = Name::parse(socket).ok_or("ended.socket is no socket's id")?;
    let home = queue.homes.get_mut(&name);
    let parts = |home: &&mut Home| home.worker == Some(id) && home.bond == Bond::Parting;
    let Some(home) = home.filter(parts) else {
        queue.counts().late += 1;
        return Ok(());
    };
    home.bond = Bond::Over;
    if home.phase == Phase::Gone {
        queue.forget(name);
    }
    Ok(())
}

fn move_one(queue: &mut Queue, name: Name) {
    let Some(home) = queue.homes.get_mut(&name) else {
        return;
    };
    if let Some(id) = home.worker {
        queue.workers.part(id, &name);
    }
    home.lose_worker(queue.now_ms);
    queue.homes.lacks_worker(name);
    queue.homes.look_by(name, queue.now_ms);
    settle::one(queue, name);
}

fn choose_next(queue: &mut Queue, id: u64) {
    let takers = queue.workers.iter().map(|(_, worker)| worker);
    let mut takers = takers.filter(|worker| worker.takes_sockets()).peekable();
    let anybody = takers.peek().is_some();
    let coming: usize = takers.map(Worker::newcomers).sum();
    let between = queue.homes.homeless().len() + coming;
    let Some(worker) = queue.workers.get_mut(id) else {
        return;
    };
    let most = MOVING + worker.sockets.len() / SHARE;
    let room = match anybody {
        true => most.saturating_sub(between + worker.parting.len()),
        false => worker.sockets.len(),
    };
    let next = worker.sockets.difference(&worker.parting).take(room);
    let next: Vec<Name> = next.copied().collect();
    worker.parting.extend(next);
}

fn say_goodbye(parts: &mut Parts, id: u64) {
    let workers = &mut parts.queue.workers;
    let Some(worker) = workers.get_mut(id) else {
        return;
    };
    let Some(since_ms) = worker.free_to_go(parts.queue.now_ms) else {
        return;
    };
    let waits = !worker.backlog.is_empty() || parts.questions.are_of(id);
    if !waits || parts.queue.now_ms >= since_ms + QUESTIONS_MS {
        workers.say_farewell(id);
        loss::bury(parts, id);
    }
}
