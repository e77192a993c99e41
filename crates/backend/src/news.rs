//! Changes of sockets, as their shards tell them.

use crate::bounds::AUTH_BYTES_MAX;
use crate::deadlines::Deadlines;
use crate::entry::Entry;
use crate::event::Event;
use crate::home::{Bond, Home, Introduction, Phase};
use crate::message::{Refusal, Why};
use crate::name::Name;
use crate::openings::Openings;
use crate::proto;
use crate::proto::item::What;
use crate::queue::Queue;
use crate::settle;

pub(crate) fn on_connect(
    queue: &mut Queue,
    openings: &mut Openings,
    deadlines: &mut Deadlines,
    (number, connect): (u64, Box<proto::Connect>),
) {
    let Some(name) = Name::parse(&connect.socket) else {
        return;
    };
    // It is kept for as long as the socket lives: another worker may need it.
    let bytes_max = queue.settings.socket_bytes_max.min(AUTH_BYTES_MAX);
    if connect.auth.len() > bytes_max {
        let refusal = Refusal::too_large(bytes_max);
        return queue.outlet.decide(name, number, Err(refusal));
    }
    end_before(queue, name);
    let opening = connect.opening;
    let due_ms = queue.now_ms + queue.settings.connect_timeout_ms;
    let deciding = Phase::Deciding { number };
    let mut home = Home::new(Introduction::of(&connect), deciding, queue.now_ms);
    let entry = queue.entry(name, What::Connect(connect));
    if let Some(endpoint) = &queue.endpoint
        && !endpoint.calling().decides
    {
        // The endpoint only hears of newcomers. One that is not well keeps nobody out.
        home.admit();
        queue.homes.begin(name, home);
        queue.outlet.decide(name, number, Ok(()));
        return queue.push_news(name, entry);
    }
    let full = !queue.ledger.has_room(entry.bytes);
    if full || queue.is_cut_off() || !queue.workers.admit_newcomers(queue.now_ms) {
        queue.counts().refused_busy += 1;
        let refusal = Refusal::unavailable();
        return queue.outlet.decide(name, number, Err(refusal));
    }
    home.opener = openings.forget(queue, opening);
    queue.homes.begin(name, home);
    if !queue.is_called() {
        queue.homes.lacks_worker(name);
    }
    deadlines.decide_by(due_ms, name, number);
    queue.push(name, entry);
    settle::one(queue, name);
}

/// A client came to the id of a socket whose end nobody has told: it has ended.
fn end_before(queue: &mut Queue, name: Name) {
    if queue.homes.last(&name).is_some() {
        on_gone(queue, end_of(name, "transport close"));
    }
    // The pause of the endpoint grew while nobody waited. Items of the life before do not wait for its end.
    if let (Some(endpoint), Some(home)) = (&mut queue.endpoint, queue.homes.get_mut(&name)) {
        endpoint.hurry(name, home, queue.now_ms);
    }
}

fn end_of(name: Name, reason: &str) -> proto::Gone {
    proto::Gone {
        socket: name.as_str().to_owned(),
        reason: reason.to_owned(),
        rooms: Vec::new(),
    }
}

pub(crate) fn on_event(queue: &mut Queue, deadlines: &mut Deadlines, event: Event) {
    let (name, ack) = (event.socket, event.ack);
    let entry = queue.kept(Entry::event(event, queue.now_ms));
    let cut_off = ack != 0 && queue.is_cut_off();
    let Some(home) = queue.homes.last_mut(&name).filter(|_| !cut_off) else {
        return queue.outlet.refuse(name, ack, Why::Absent);
    };
    // A single event may be larger than what many small ones may take.
    let kept = home.items.bytes();
    let fits = kept == 0 || kept + entry.bytes <= queue.settings.socket_bytes_max;
    if !fits || !queue.ledger.has_room(entry.bytes) {
        return queue.outlet.refuse(name, ack, Why::Busy);
    }
    queue.outlet.counts.events += 1;
    if ack != 0 {
        home.items.await_answer(ack);
        deadlines.answer_by(queue.now_ms, name, ack);
    }
    queue.push(name, entry);
}

pub(crate) fn on_gone(queue: &mut Queue, gone: proto::Gone) {
    let Some(name) = Name::parse(&gone.socket) else {
        return;
    };
    let Some(home) = queue.homes.last_mut(&name) else {
        return;
    };
    if home.phase == Phase::Gone {
        return;
    }
    queue.ledger.release(home.items.end_waits());
    let known = home.phase == Phase::In || home.worker.is_some();
    home.phase = Phase::Gone;
    home.describing = false;
    if !known || home.bond == Bond::Over {
        // No worker has heard of it, or one has heard of its end already.
        return queue.forget_last(name);
    }
    // It stays for this entry only, which may wait for an hour.
    let stays = match queue.endpoint {
        Some(_) => {
            home.strip();
            Home::BYTES
        }
        None if home.worker.is_none() => home.kept_bytes(),
        None => 0,
    };
    keep_to_the_end(queue, name);
    let mut entry = queue.entry(name, What::Gone(gone));
    entry.bytes += stays;
    queue.push_news(name, entry);
    settle::one(queue, name);
}

/// A socket that ends while it is to move has its worker to the end, unless that was told to part from it: that one knows it, and no other needs to.
fn keep_to_the_end(queue: &mut Queue, name: Name) {
    let home = queue.homes.get_mut(&name);
    let Some(home) = home.filter(|home| home.bond != Bond::Parting) else {
        return;
    };
    if let Some(worker) = home.worker.and_then(|id| queue.workers.get_mut(id))
        && worker.parting.remove(&name)
    {
        let held = home.items.take_all();
        held.into_iter().for_each(|entry| worker.enqueue(entry));
    }
}

/// Nobody has let a newcomer in until now.
pub(crate) fn decision_due(queue: &mut Queue, (name, number): (Name, u64)) {
    if !queue.homes.waits_for_decision(&name, number) {
        return;
    }
    queue.counts().refused_absent += 1;
    let refusal = Refusal::unavailable();
    queue.outlet.decide(name, number, Err(refusal));
    on_gone(queue, end_of(name, "connect timeout"));
}

/// Somebody moved a socket. The worker that did it knows, and an endpoint is not told. The next worker of a socket hears of its rooms by
/// `Resume`. One that has too much to do already hears of them at the end.
pub(crate) fn on_moved(queue: &mut Queue, name: Name, room: String, joined: bool, by: u64) {
    let Some(home) = queue.homes.last(&name) else {
        return;
    };
    let own = by != 0 && home.worker == Some(by - 1);
    if own || home.worker.is_none() || home.phase == Phase::Gone || queue.is_called() {
        return;
    }
    let (joined, left) = match joined {
        true => (vec![room], Vec::new()),
        false => (Vec::new(), vec![room]),
    };
    let what = What::Moved(proto::Moved {
        socket: name.as_str().to_owned(),
        joined,
        left,
    });
    let entry = Entry::new(Some(name), what, queue.now_ms);
    match queue.ledger.has_room(entry.bytes) {
        true => queue.push(name, entry),
        false => queue.counts().refused_busy += 1,
    }
}

/// A session went up from long-polling. An endpoint is not told.
pub(crate) fn on_upgraded(queue: &mut Queue, name: Name, transport: &'static str) {
    let home = queue.homes.last_mut(&name);
    let Some(home) = home.filter(|home| home.phase != Phase::Gone) else {
        return;
    };
    let mut connect = home.introduction.open();
    transport.clone_into(&mut connect.transport);
    home.introduction = Introduction::of(&connect);
    if !queue.is_called() {
        let what = What::Upgraded(proto::Upgraded {
            socket: name.as_str().to_owned(),
            transport: transport.to_owned(),
        });
        queue.push(name, Entry::new(Some(name), what, queue.now_ms));
    }
}
