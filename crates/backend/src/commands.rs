//! The commands of workers, and those in the answers of endpoints.

use crate::bounds::DATA_BYTES_MAX;
use crate::check::{self, Fault, check_ack, check_namespace, check_of_worker, is_json};
use crate::home::{Bond, Phase};
use crate::message::{Ack, Down, Refusal, To, Why};
use crate::name::Name;
use crate::order::{Awaited, Order};
use crate::parting;
use crate::parts::Parts;
use crate::proto;
use crate::proto::command::What;
use crate::proto::item;
use crate::question::Asks;
use crate::queue::Queue;
use types::Target;

const UNKNOWN: &str = "the command is empty, or of a kind that this gateway does not know";
const CROWDED: &str = "the lists of the command (rooms, users, sockets, except, without, attachments, headers) have more than 1000 members together";
const BAD_ROOM: &str = "the name of a room in join.rooms is empty, or longer than limits.room_name_bytes_max: nobody joined that room";

/// Carries out a worker's command, or tells the worker why not.
pub(crate) fn take(parts: &mut Parts, worker: u64, number: u64, order: Order) {
    let awaited = order.awaited();
    let done = match order {
        Order::Ack(ack) => answer(&mut parts.queue, worker, ack),
        Order::Crowded(_) => Err(CROWDED.into()),
        Order::Refused(why) => Err(why.into()),
        Order::Other(command) => match command.what {
            Some(what) => carry_out(parts, worker, what),
            None => Err(UNKNOWN.into()),
        },
    };
    if let Err(message) = done {
        if let Some(awaited) = awaited {
            end_wait(parts, worker, awaited);
        }
        let failed = proto::Failed {
            command: number,
            message: message.into_owned(),
        };
        let queue = &mut parts.queue;
        queue.reply(worker, item::What::Failed(failed));
        if let Some(worker) = queue.workers.get_mut(worker) {
            worker.taken.failed();
        }
    }
}

/// The same for one that can be of an endpoint.
pub(crate) fn carry_out(parts: &mut Parts, worker: u64, what: What) -> Result<(), Fault> {
    // An answer that does not fit is an end all the same, for the client that waits.
    if !matches!(what, What::Ack(_)) {
        check_of_worker(&what)?;
    }
    let Parts {
        queue,
        questions,
        openings,
        ..
    } = parts;
    match what {
        What::Decision(decision) => decide(queue, worker, decision)?,
        What::Ack(ack) => {
            let name = Name::parse(&ack.socket).ok_or("ack.socket is no socket's id")?;
            return answer(queue, worker, Ack::new(name, ack));
        }
        What::Emit(emit) => {
            let to = route(queue, emit.to.as_ref())?;
            order(queue, to, What::Emit(emit));
        }
        What::Join(join) => {
            let to = route(queue, join.of.as_ref())?;
            // The shards leave out rooms that cannot be, and say so for each socket.
            let lengths = 1..=queue.settings.room_name_bytes_max;
            let named = join.rooms.iter().all(|room| lengths.contains(&room.len()));
            shift(queue, worker, to, What::Join(join));
            return if named { Ok(()) } else { Err(BAD_ROOM.into()) };
        }
        What::Leave(leave) => {
            let to = route(queue, leave.of.as_ref())?;
            shift(queue, worker, to, What::Leave(leave));
        }
        What::Disconnect(disconnect) => {
            let to = route(queue, disconnect.of.as_ref())?;
            note_end(queue, worker, to, disconnect.of.as_ref());
            order(queue, to, What::Disconnect(disconnect));
        }
        What::SetData(set) => set_data(queue, set)?,
        What::Ask(mut ask) => {
            let to = ask.emit.as_ref().and_then(|emit| emit.to.as_ref());
            let to = route(queue, to)?;
            ask.query = questions.ask(worker, ask.query, (Asks::Answers, shards(queue, to)))?;
            order(queue, to, What::Ask(ask));
        }
        What::Fetch(mut fetch) => {
            route(queue, fetch.of.as_ref())?;
            let asked = (Asks::Sockets, shards(queue, To::All));
            fetch.query = questions.ask(worker, fetch.query, asked)?;
            order(queue, To::All, What::Fetch(fetch));
        }
        What::Ended(ended) => parting::note_over(queue, worker, &ended.socket)?,
        What::Verdict(verdict) => openings.decide(queue, worker, verdict)?,
        What::Tell(tell) => questions.tell(queue, worker, tell)?,
        What::Reply(reply) => questions.take_reply(queue, worker, reply)?,
        What::Count(mut count) => {
            check_namespace(&queue.settings.scope, &count.namespace)?;
            let asked = (Asks::Count, shards(queue, To::One));
            count.query = questions.ask(worker, count.query, asked)?;
            order(queue, To::One, What::Count(count));
        }
    }
    Ok(())
}

fn set_data(queue: &mut Queue, set: proto::SetData) -> Result<(), &'static str> {
    let name = Name::parse(&set.socket).ok_or("set_data.socket is no socket's id")?;
    if !is_json(set.data.as_bytes()) {
        return Err("set_data.data is no JSON");
    }
    if set.data.len() > DATA_BYTES_MAX {
        return Err("set_data.data has more than 16 KiB");
    }
    // One that has left is nobody's, and so is another backend's.
    if queue.homes.has(&name) {
        order(queue, To::Socket(name), What::SetData(set));
    }
    Ok(())
}

/// Whether a command is about sockets of this backend.
pub(crate) fn check_target(queue: &Queue, what: &What) -> Result<(), Fault> {
    let target = check::target(what);
    target.map_or(Ok(()), |target| Ok(route(queue, target).map(drop)?))
}

/// A target that is one socket of ours needs one shard only.
fn route(queue: &Queue, target: Option<&Target>) -> Result<To, &'static str> {
    let target = target.ok_or("the command has no target")?;
    check_namespace(&queue.settings.scope, &target.namespace)?;
    if let Some(only) = target.only()
        && let Some(name) = Name::parse(only)
        && queue.homes.has(&name)
    {
        return Ok(To::Socket(name));
    }
    Ok(To::All)
}

fn shards(queue: &Queue, to: To) -> u16 {
    match to {
        To::All => queue.settings.shards,
        To::Socket(_) | To::Shard(_) | To::One => 1,
    }
}

fn order(queue: &mut Queue, to: To, what: What) {
    queue.outlet.send(to, Down::Do(what));
}

/// The workers of the sockets hear of it, but for the one that said it.
fn shift(queue: &mut Queue, worker: u64, to: To, what: What) {
    // An endpoint has the highest number, and is nobody to spare the news.
    let by = worker.wrapping_add(1);
    queue.outlet.send(to, Down::Move { by, what });
}

/// A worker ends a socket of its own, and knows. In another namespace the id means nobody.
fn note_end(queue: &mut Queue, worker: u64, to: To, target: Option<&Target>) {
    if let (To::Socket(name), Some(target)) = (to, target)
        && let Some(home) = queue.homes.get_mut(&name)
        && home.phase == Phase::In
        && home.worker == Some(worker)
        && home.bond == Bond::Whole
        && home.introduction.open().namespace == target.namespace
    {
        home.bond = Bond::Ending;
    }
}

fn decide(queue: &mut Queue, worker: u64, decision: proto::Decision) -> Result<(), &'static str> {
    let name = Name::parse(&decision.socket).ok_or("decision.socket is no socket's id")?;
    if !decision.admit && !decision.data.is_empty() && !is_json(decision.data.as_bytes()) {
        return Err("decision.data is no JSON");
    }
    if !is_decided_by(queue, worker, &name) {
        queue.counts().late += 1;
        return Ok(());
    }
    let decision = match decision.admit {
        true => Ok(()),
        false => Err(Refusal {
            message: decision.message,
            data: (!decision.data.is_empty()).then_some(decision.data),
        }),
    };
    queue.decide(name, decision);
    Ok(())
}

/// A newcomer waits for this worker.
fn is_decided_by(queue: &Queue, worker: u64, name: &Name) -> bool {
    let home = queue.homes.get(name);
    home.is_some_and(|home| home.is_deciding() && home.worker == Some(worker))
}

/// The client gets the answer, or hears that there is none: it waits for no other one.
fn answer(queue: &mut Queue, worker: u64, ack: Ack) -> Result<(), Fault> {
    let fits = check_ack(&ack.args, ack.attachments.len());
    match settle(queue, worker, (ack.socket, ack.ack)) {
        true if fits.is_err() => queue.outlet.refuse(ack.socket, ack.ack, Why::Failed),
        true => queue.outlet.tell(ack.socket, Down::Ack(ack)),
        false => queue.counts().late += u64::from(fits.is_ok()),
    }
    fits.map_err(Fault::from)
}

/// The client of a socket of this worker does not wait for an answer any more. `false`: it did not.
fn settle(queue: &mut Queue, worker: u64, (socket, ack): (Name, u64)) -> bool {
    let home = queue.homes.last(&socket);
    let own = home.is_some_and(|home| home.worker == Some(worker));
    own && queue.settle_ack(socket, ack)
}

/// The answer of a worker cannot be used, and no other one comes: the one that waits for it hears so.
fn end_wait(parts: &mut Parts, worker: u64, awaited: Awaited) {
    let queue = &mut parts.queue;
    match awaited {
        Awaited::Ack(socket, ack) => {
            if settle(queue, worker, (socket, ack)) {
                queue.outlet.refuse(socket, ack, Why::Failed);
            }
        }
        Awaited::Decision(socket) => {
            if is_decided_by(queue, worker, &socket) {
                queue.counts().refused_failed += 1;
                queue.decide(socket, Err(Refusal::unavailable()));
            }
        }
        Awaited::Verdict(number) => parts.openings.fail(queue, worker, number),
        Awaited::Reply(number) => parts.questions.fail(queue, worker, number),
    }
}
