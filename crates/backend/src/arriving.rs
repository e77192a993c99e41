//! A backend as the process before this one knew it. Its workers have no links: they come by new ones, and both sides go on with their numbers.

use crate::bounds::{NODES_GONE_MAX, NUMBER_MAX, PAST_MAX, WORKERS_MAX};
use crate::deadlines::Deadlines;
use crate::endpoint::ENDPOINT;
use crate::entry::Entry;
use crate::home::{Bond, Home, Introduction, Phase};
use crate::items::Items;
use crate::name::Name;
use crate::parts::Parts;
use crate::past::Past;
use crate::proto;
use crate::queue::Queue;
use crate::worker::Worker;
use handoff::Unfit;
use handoff::backend::{Backend, Home as Record, Question};
use std::collections::{BTreeMap, HashSet};

/// Takes it in, at the time of the call.
///
/// # Errors
/// The record contradicts itself: these parts are of no use any more.
pub(crate) fn arrive(
    parts: &mut Parts,
    deadlines: &mut Deadlines,
    record: &Backend,
    asked: &HashSet<u64>,
) -> Result<(), Unfit> {
    let queue = &mut parts.queue;
    if let Some(endpoint) = &mut queue.endpoint {
        let none = record.workers.is_empty();
        need(none, "workers", "none: this backend is called")?;
        endpoint.go_on_with((record.failures, record.rests_ms), queue.now_ms);
    }
    take_workers(queue, record)?;
    need(
        record.lives <= NUMBER_MAX,
        "lives",
        "a number to go on from",
    )?;
    queue.homes.go_on_from(record.lives);
    for home in &record.homes {
        let name = name_of(&home.socket)?;
        need(!queue.homes.has(&name), "homes.socket", "named once")?;
        take_home(queue, name, home)?;
        find_place(queue, name, home)?;
    }
    for home in &record.later {
        let name = name_of(&home.socket)?;
        need(queue.homes.has(&name), "later.socket", "one of `homes`")?;
        take_home(queue, name, home)?;
    }
    book(queue);
    take_deadlines(queue, deadlines, record)?;
    for gone in record.nodes_gone.iter().take(NODES_GONE_MAX) {
        parts.nodes_gone.keep(proto::NodeGone {
            node: gone.node,
            life: gone.life,
        });
    }
    need(
        record.asked <= NUMBER_MAX,
        "asked",
        "a number to go on from",
    )?;
    parts.questions.go_on_from(record.asked);
    for question in &record.questions {
        take_question(parts, question, asked)?;
    }
    Ok(())
}

/// One that a client who came is to answer goes on; others end as they stand.
fn take_question(parts: &mut Parts, record: &Question, asked: &HashSet<u64>) -> Result<(), Unfit> {
    let Parts {
        queue, questions, ..
    } = parts;
    let known = queue.workers.get(record.worker).is_some();
    need(known, "questions.worker", "a worker of the record")?;
    let number = record.number;
    need(
        (1..=questions.made()).contains(&number),
        "questions.number",
        "one that was given",
    )?;
    if asked.contains(&number) {
        questions.go_on_with(number, (record.worker, record.query));
        return Ok(());
    }
    let answer = record
        .item
        .as_ref()
        .map(|item| Entry::restored(item, queue.now_ms));
    if let Some(entry) = answer.transpose()? {
        let fits = entry.about.is_none() && entry.is_answer();
        need(fits, "questions.item", "an answer to a query")?;
        queue.ledger.take(entry.bytes);
        queue.workers.enqueue(record.worker, [entry]);
    }
    Ok(())
}

fn need(holds: bool, field: &str, wanted: &'static str) -> Result<(), Unfit> {
    let field = field.to_owned();
    holds.then_some(()).ok_or(Unfit { field, wanted })
}

fn name_of(text: &str) -> Result<Name, Unfit> {
    Name::parse(text).ok_or_else(|| Unfit {
        field: format!("socket {text:?}"),
        wanted: "a socket's id",
    })
}

fn take_workers(queue: &mut Queue, record: &Backend) -> Result<(), Unfit> {
    let many = record.workers.len();
    need(many <= WORKERS_MAX, "workers", "at most 1,024")?;
    let mut all = BTreeMap::new();
    for worker in &record.workers {
        need(worker.id < record.hired, "workers.id", "below `hired`")?;
        let known = |other: &Worker| other.profile.instance == worker.instance;
        need(!all.values().any(known), "workers.instance", "named once")?;
        all.insert(worker.id, Worker::restored(worker, queue.now_ms)?);
    }
    need(all.len() == many, "workers.id", "given once")?;
    need(
        record.hired <= NUMBER_MAX,
        "hired",
        "a number to go on from",
    )?;
    let mut past = Past::default();
    for life in record.past.iter().take(PAST_MAX) {
        past.note(life.instance.clone(), life.commands);
    }
    queue.workers.restore(all, past, record.hired);
    Ok(())
}

fn take_home(queue: &mut Queue, name: Name, record: &Record) -> Result<(), Unfit> {
    need(
        record.life <= queue.homes.lives(),
        "homes.life",
        "at most `lives`",
    )?;
    need(
        record.sequence <= NUMBER_MAX,
        "homes.sequence",
        "a number to go on from",
    )?;
    let introduction = Introduction::restored(&record.introduction);
    need(introduction.is_some(), "homes.introduction", "a `Connect`")?;
    let now_ms = queue.now_ms;
    let is_called = queue.is_called();
    let entries = |items: &[handoff::backend::Item]| {
        let items = items.iter().map(|item| {
            let mut entry = queue.kept(Entry::restored(item, now_ms)?);
            entry.life = record.life;
            if is_called && entry.is_gone() {
                // Its home stays for its sake only.
                entry.bytes += Home::BYTES;
            }
            Ok(entry)
        });
        items.collect::<Result<Vec<Entry>, Unfit>>()
    };
    let (held, owed) = (entries(&record.held)?, entries(&record.owed)?);
    // A worker has as many of them as it was told of.
    let failed = held.iter().chain(&owed).any(Entry::is_failed);
    need(!failed, "homes.items", "about the socket")?;
    let phase = match record.phase {
        0 => Phase::Deciding {
            number: record.number,
        },
        1 => Phase::In,
        2 => Phase::Gone,
        _ => return need(false, "homes.phase", "0 to 2"),
    };
    let mut home = Home::new(introduction.unwrap_or_default(), phase, now_ms);
    home.since_ms = now_ms.saturating_sub(record.age_ms);
    home.bond = match record.bond {
        0 => Bond::Whole,
        1 => Bond::Ending,
        2 => Bond::Parting,
        3 => Bond::Over,
        _ => return need(false, "homes.bond", "0 to 3"),
    };
    home.admitted = record.admitted;
    home.closing = record.closing;
    home.worker = record.worker;
    home.items = Items::restored(record.life, held.into(), owed, record.sequence);
    queue.homes.insert(name, home);
    Ok(())
}

/// It has its worker, or waits for one.
fn find_place(queue: &mut Queue, name: Name, record: &Record) -> Result<(), Unfit> {
    if queue.is_called() {
        return take_turn(queue, name, record);
    }
    match record.worker {
        Some(id) => {
            let worker = queue.workers.get_mut(id);
            need(worker.is_some(), "homes.worker", "a worker of the record")?;
            if let Some(worker) = worker {
                worker.sockets.insert(name);
            }
        }
        None => {
            queue.homes.lacks_worker(name);
            queue.homes.look_by(name, queue.now_ms);
        }
    }
    Ok(())
}

/// A socket of an endpoint waits for a call, or for nothing.
fn take_turn(queue: &mut Queue, name: Name, record: &Record) -> Result<(), Unfit> {
    let fits = record.worker.is_none_or(|id| id == ENDPOINT);
    need(fits, "homes.worker", "the endpoint, or none")?;
    if let (Some(endpoint), Some(home)) = (&mut queue.endpoint, queue.homes.get_mut(&name)) {
        let pause_ms = record.pause_ms.min(endpoint.calling().retry_max_ms);
        endpoint.goes_on(name, home, record.attempts, queue.now_ms + pause_ms);
    }
    Ok(())
}

/// Each item counts for all, and for its socket, wherever it is.
fn book(queue: &mut Queue) {
    for home in queue.homes.all_mut() {
        let bytes = home.items.bytes_here();
        queue.ledger.take(bytes);
        home.items.take(bytes);
    }
    for entry in queue
        .workers
        .iter()
        .flat_map(|(_, worker)| worker.entries())
    {
        queue.ledger.take(entry.bytes);
        if let Some(home) = queue.homes.of_mut(entry) {
            home.items.take(entry.bytes);
        }
    }
}

fn take_deadlines(
    queue: &mut Queue,
    deadlines: &mut Deadlines,
    record: &Backend,
) -> Result<(), Unfit> {
    for worker in &record.workers {
        let parting = worker.parting.iter().map(|name| name_of(name));
        let parting: Vec<Name> = parting.collect::<Result<_, _>>()?;
        if let Some(restored) = queue.workers.get_mut(worker.id) {
            let own = parting
                .into_iter()
                .filter(|name| restored.sockets.contains(name));
            restored.parting = own.collect();
        }
    }
    for wait in &record.waits {
        let name = name_of(&wait.socket)?;
        if let Some(home) = queue.homes.last_mut(&name) {
            home.items.await_answer(wait.ack);
            let came_ms = queue.now_ms.saturating_sub(wait.age_ms);
            deadlines.answer_by(came_ms, name, wait.ack);
        }
    }
    for due in &record.decisions {
        let (name, left_ms) = (name_of(&due.socket)?, due.left_ms);
        let due_ms = queue.now_ms + left_ms.min(queue.settings.connect_timeout_ms);
        if let Some(home) = queue.homes.last_mut(&name)
            && let Some(number) = home.deciding()
        {
            deadlines.decide_by(due_ms, name, number);
        }
    }
    Ok(())
}

/// Its sockets that are not gone.
pub(crate) fn living(queue: &Queue) -> impl Iterator<Item = Name> {
    let names = queue.homes.iter().map(|(name, _)| *name);
    names.filter(move |name| {
        let last = queue.homes.last(name);
        last.is_some_and(|home| home.phase != Phase::Gone)
    })
}
