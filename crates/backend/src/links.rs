//! Links to workers: attaching, what goes down them, what comes up.

use crate::bounds::{BATCH_BYTES, INSTANCE_BYTES_MAX};
use crate::commands;
use crate::done::Done;
use crate::frame::Frame;
use crate::link::{Denied, Link, Stray};
use crate::loss;
use crate::openings::Openings;
use crate::order::Order;
use crate::parting;
use crate::parts::Parts;
use crate::proto;
use crate::queue::Queue;
use crate::settle;
use prost::Message;

/// The version of the messages that both sides name: `Hello.version`, `Welcome.version`.
const VERSION: u32 = 1;
/// Number of the field `ToWorker.items`.
const ITEMS: u32 = 3;

/// A worker came by this link.
pub(crate) fn attach(
    parts: &mut Parts,
    link: Link,
    hello: &proto::Hello,
) -> Result<proto::Welcome, Denied> {
    if !(1..=INSTANCE_BYTES_MAX).contains(&hello.instance.len()) {
        return Err(Denied::Instance);
    }
    let workers = &mut parts.queue.workers;
    let goes_on = hello.resumes || hello.received > 0;
    let known = workers.named(&hello.instance);
    let id = match known {
        Some(id) => id,
        None => workers
            .hire(parts.queue.now_ms, hello, goes_on)
            .ok_or(Denied::Crowd)?,
    };
    let worker = workers.get_mut(id).ok_or(Denied::Instance)?;
    // Its numbers may be those of the life before: there is nothing that it could resume by them.
    let begins = !goes_on || worker.taken.is_in_doubt();
    if known.is_some() && (begins || !worker.flight.rewind(hello.received)) {
        if !begins {
            return Err(Denied::Received);
        }
        // The process begins anew under its old name. Its sockets and events of before are lost to it.
        loss::lose(parts, id, Stray::Replaced);
        return attach(parts, link, hello);
    }
    worker.attach(parts.queue.now_ms, hello);
    let settings = &parts.queue.settings;
    let welcome = proto::Welcome {
        resumed: known.is_some(),
        commands: worker.taken.tell(),
        kept_ms: settings.rehome_after_ms,
        silent_ms: settings.silent_after_ms,
        version: VERSION,
        taken: worker.taken.before().filter(|_| known.is_none()),
        ..proto::Welcome::default()
    };
    workers.connect(id, link);
    if known.is_none() {
        parts.nodes_gone.tell(&mut parts.queue, id);
    }
    settle::all(&mut parts.queue);
    // It may be back after a cut: then it does not say anew what it wants.
    parts.openings.review(&mut parts.queue);
    Ok(welcome)
}

/// Writes the next message for a link: an encoded `ToWorker`. `false`: there is nothing to say.
pub(crate) fn write(
    queue: &mut Queue,
    openings: &Openings,
    link: Link,
    frame: &mut Vec<u8>,
) -> bool {
    let Some(id) = queue.workers.of_link(link) else {
        return false;
    };
    let first = queue.workers.get(id).map(|worker| worker.flight.next());
    while frame.len() < BATCH_BYTES && write_item(queue, openings, id, frame) {}
    let (Some(first), Some(worker)) = (first, queue.workers.get_mut(id)) else {
        return false;
    };
    let sure = worker.profile.take_asks();
    let sends = !frame.is_empty() || sure != 0;
    let commands = worker.taken.news(queue.now_ms, sends);
    let head = proto::ToWorker {
        first,
        commands: commands.unwrap_or_default(),
        sure,
        ..proto::ToWorker::default()
    };
    if frame.is_empty() && head.commands == 0 && head.sure == 0 {
        return false;
    }
    // Encoded parts of a message, one behind the other, are the message.
    head.encode_raw(frame);
    true
}

/// The next item to send: first those that the link lost, then those that wait, as far as the window goes.
fn write_item(queue: &mut Queue, openings: &Openings, id: u64, frame: &mut Vec<u8>) -> bool {
    let window_bytes = queue.settings.window_bytes;
    loop {
        let Some(worker) = queue.workers.get_mut(id) else {
            return false;
        };
        if let Some(entry) = worker.flight.again() {
            entry.write(ITEMS, frame);
            return true;
        }
        if !worker.flight.has_room(window_bytes) {
            return false;
        }
        let homes = &queue.homes;
        worker.review_sole(queue.now_ms, |sole| {
            let home = sole.about.and_then(|name| homes.get(&name));
            home.is_some_and(|home| {
                home.items.life() == sole.life && home.items.owes(sole.sequence)
            })
        });
        let Some(entry) = worker.pop_waiting(queue.now_ms) else {
            return false;
        };
        let wanted = match entry.about {
            Some(_) => queue.is_wanted(&entry),
            None => openings.await_verdict(&entry),
        };
        if !wanted {
            queue.release(&entry);
            continue;
        }
        let counts = queue.counts();
        counts.redelivered += u64::from(entry.redelivered && entry.is_event());
        counts.alone += u64::from(entry.alone);
        entry.write(ITEMS, frame);
        if let Some(worker) = queue.workers.get_mut(id) {
            worker.send(entry, queue.now_ms);
        }
        return true;
    }
}

/// A worker said something.
pub(crate) fn received(parts: &mut Parts, link: Link, frame: Frame) -> Result<(), Stray> {
    let Frame { said, orders } = frame;
    let Parts {
        queue, openings, ..
    } = parts;
    let id = queue.workers.of_link(link).ok_or(Stray::Unknown)?;
    let worker = queue.workers.get_mut(id).ok_or(Stray::Unknown)?;
    if said.hello.is_some() {
        return Err(Stray::Hello);
    }
    worker.heard(queue.now_ms);
    worker.taken.end_doubt();
    let done = Done::of(&said, worker.flight.last()).ok_or(Stray::Handled)?;
    let overdue = worker.profile.hear(&said);
    queue.counts().overdue = queue.counts().overdue.saturating_add(overdue);
    openings.note_wish(queue, id, said.openings);
    if handled(queue, id, done) {
        queue.workers.wake(link);
    }
    take_commands(parts, id, said.first, orders)?;
    if let Some(worker) = parts.queue.workers.get_mut(id) {
        let leaves = said.leaving && !worker.is_leaving();
        if leaves {
            worker.leave();
        }
        parts.queue.workers.wake(link);
        if leaves {
            parts.openings.review(&mut parts.queue);
        }
    }
    parting::let_go(parts);
    Ok(())
}

fn take_commands(parts: &mut Parts, id: u64, first: u64, orders: Vec<Order>) -> Result<(), Stray> {
    if orders.is_empty() {
        return Ok(());
    }
    let worker = parts.queue.workers.get(id).ok_or(Stray::Unknown)?;
    // Those that it has are not taken twice.
    let known = worker.taken.known(first)?;
    for mut order in orders.into_iter().skip(known) {
        let queue = &mut parts.queue;
        let full = queue.ledger.is_full();
        let worker = queue.workers.get_mut(id).ok_or(Stray::Unknown)?;
        if !worker.profile.says_all {
            order.mean_everybody();
        }
        let Some(number) = worker.taken.next(full) else {
            loss::lose(parts, id, Stray::Failures);
            return Err(Stray::Failures);
        };
        commands::take(parts, id, number, order);
    }
    Ok(())
}

/// Returns whether anything was handled.
fn handled(queue: &mut Queue, id: u64, mut done: Done<'_>) -> bool {
    let mut any = false;
    while let Some(worker) = queue.workers.get_mut(id)
        && let Some(entry) = worker.pop_handled(&mut done, queue.now_ms)
    {
        any = true;
        if entry.is_failed() {
            worker.taken.forgive();
        }
        queue.handled(entry);
    }
    any
}
