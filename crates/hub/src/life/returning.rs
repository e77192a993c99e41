//! A client comes back: its socket is found on whichever shard has it, taken, and goes on where it stopped. ADR 38.

use crate::books::Books;
use crate::books::close::CloseReason;
use crate::books::metrics::Returned;
use crate::cluster::letter::{Return, Tidings};
use crate::cluster::send;
use crate::life::{deeds, ending, gaps, parking};
use crate::parts::Parts;
use crate::recovery::circle::{Circle, Door, Sender};
use crate::recovery::exchange::{Comer, Verdict};
use crate::recovery::headings::Kind;
use crate::recovery::messages::{Message, NotRecovered};
use crate::recovery::pid::Pid;
use crate::recovery::record::Lifeline;
use crate::recovery::taking::Back;
use crate::recovery::ways::Abroad;
use crate::rooms::outgoing::Outgoing;
use crate::seam::effect::Notice;
use crate::seam::event::Returns;
use crate::tables::id;
use crate::tables::slot::{SessionId, SocketKey};
use std::sync::Arc;
use wire::base64url::Id20;

/// The place of the socket, for a client that shows a `pid`.
pub(crate) enum Found {
    /// Kept on this shard, under this id.
    Here(Id20),
    /// Nowhere that it could come back to.
    Nowhere(NotRecovered),
    /// Other shards are asked: a verdict with this number follows.
    Asked(u64),
}

/// Looks for the socket of a client that comes back to a namespace.
pub(crate) fn find(
    parts: &mut Parts,
    session: SessionId,
    namespace: &str,
    comer: Comer<'_>,
) -> Found {
    // The old transport may still be open: its end parks the socket that is looked for.
    give_up_transport(parts, Some((session, namespace)), comer.pid, comer.uid);
    let now_ms = parts.clock.now.mono_ms;
    let bytes_max = replay_bytes_max(&parts.books);
    let Some(recovery) = &mut parts.recovery else {
        return Found::Nowhere(NotRecovered::Unknown);
    };
    let kept = recovery.parked.look(comer.pid, comer.uid);
    if kept.is_ok_and(|record| *record.namespace != *namespace) {
        return Found::Nowhere(NotRecovered::Unknown);
    }
    let why = match recovery.look(comer, bytes_max) {
        Ok(id) => {
            promise(parts, session, comer.pid);
            return Found::Here(id);
        }
        Err(NotRecovered::Unknown | NotRecovered::Claimed) => {
            let circle = circle(parts, namespace);
            let recovery = parts.recovery.as_mut();
            let asked = recovery.map(|recovery| recovery.ask(comer, circle, now_ms));
            match asked.unwrap_or(Err(NotRecovered::Unknown)) {
                Ok(number) => {
                    deeds::remember(parts, Some(number), namespace, comer);
                    parking::settle(parts);
                    return Found::Asked(number);
                }
                Err(why) => {
                    let number = deeds::remember(parts, None, namespace, comer);
                    if let Some(number) = number.filter(|number| deeds::ask(parts, *number)) {
                        parking::settle(parts);
                        return Found::Asked(number);
                    }
                    why
                }
            }
        }
        Err(why) => why,
    };
    parking::settle(parts);
    Found::Nowhere(why)
}

/// The nodes that are asked for a socket of this namespace, if others are.
fn circle(parts: &mut Parts, namespace: &str) -> Option<Circle> {
    let recover = parts.books.config.recovery.of(namespace)?;
    let (goes, has_room) = (recover.goes_abroad, send::has_room(parts));
    let abroad = parts.away.as_ref().filter(|_| goes);
    // While too much waits for other nodes, no claim goes there: its steps would leave all the same.
    let abroad = abroad.map_or(Abroad::Nobody, |away| match has_room {
        true => away.abroad(),
        false => Abroad::Unable,
    });
    let home = home_of(parts, namespace)?;
    let recovery = parts.recovery.as_mut()?;
    recovery.ways.abroad = abroad;
    recovery.ways.now_ms = parts.clock.now.mono_ms;
    recovery.ways.circle(&Arc::from(namespace), home)
}

/// The shard that gives the events of a namespace their order.
fn home_of(parts: &Parts, namespace: &str) -> Option<u16> {
    let keeping = &parts.rooms.kept.keeping;
    keeping.home_of(namespace, parts.ids.me.shards)
}

/// The nodes that are there now.
fn note_nodes(parts: &mut Parts) {
    let away = parts.away.as_ref();
    let abroad = away.map_or(Abroad::Nobody, |away| away.abroad());
    // Handovers leave as much of the way to what clients publish as lists do.
    let room = away.map_or(usize::MAX, |away| away.room_for_lists());
    if let Some(recovery) = &mut parts.recovery {
        (recovery.ways.abroad, recovery.ways.room) = (abroad, room);
        recovery.ways.now_ms = parts.clock.now.mono_ms;
    }
}

/// A client that comes back is sent at most half of what may wait for it: the other half is for what is said next.
pub(crate) fn replay_bytes_max(books: &Books) -> usize {
    books.config.limits.outbox_bytes_max / 2
}

/// The state of the socket that a client comes back to, as far as it is kept here.
pub(crate) fn state(parts: &Parts, comer: Comer<'_>) -> Returns {
    let recovery = parts.recovery.as_ref();
    let record = recovery.and_then(|recovery| recovery.parked.look(comer.pid, comer.uid).ok());
    record.map_or_else(Returns::default, |record| {
        let members = record.members.iter();
        let rooms = members.filter(|member| member.kind == Kind::Room);
        let data = record.data.as_deref().unwrap_or("{}");
        Returns {
            rooms: rooms.map(|room| room.name.to_string()).collect(),
            data: data.to_owned(),
        }
    })
}

/// A client is promised a socket that is kept here, until its handler lets it in.
pub(crate) fn promise(parts: &mut Parts, session: SessionId, pid: Pid) {
    const SPARE: usize = 64;
    let key = parts.people.sessions.key(session);
    if let Some(recovery) = &mut parts.recovery {
        let (promised, parked) = (&mut recovery.promised, &recovery.parked);
        // A record may end before its promise: a sweep now and then costs less than one look for each end.
        if promised.len() > 2 * parked.len() + SPARE {
            promised.retain(|pid, _| parked.has(*pid));
        }
        promised.insert(pid, key);
    }
}

/// The handler does not let a client in: its session may live on, and no socket is promised to it any more.
pub(crate) fn take_back_promise(parts: &mut Parts, pid: Pid) {
    if let Some(recovery) = &mut parts.recovery {
        recovery.promised.remove(&pid);
    }
}

/// The old transport of a socket is silent or gone: from now on nothing more is read from it. The same holds for a session that was
/// promised the socket and waits for its handler. `for_whom`: the session that asks, and the namespace; `None`: another shard asks.
fn give_up_transport(
    parts: &mut Parts,
    for_whom: Option<(SessionId, &str)>,
    pid: Pid,
    uid: Option<&str>,
) {
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    let waits = match recovery.parked.look(pid, uid) {
        Ok(_) => recovery.promised.remove(&pid),
        Err(_) => None,
    };
    if let Some(key) = waits
        && for_whom.is_none_or(|(session, _)| session != key.id())
        && parts.people.sessions.live(key).is_some()
    {
        ending::close_session(parts, key.id(), CloseReason::TransportClose);
    }
    let live = parts.recovery.as_ref();
    let Some(key) = live.and_then(|recovery| recovery.live.get(&pid)).copied() else {
        return;
    };
    let Some(slot) = parts.people.sockets.here(key) else {
        return;
    };
    let label = parts.people.namespaces.label(slot.namespace);
    if for_whom.is_some_and(|(_, name)| label.is_none_or(|label| **label != *name)) {
        return;
    }
    let lifeline = slot
        .extra
        .as_ref()
        .and_then(|extra| extra.lifeline.as_ref());
    // A `pid` in the hands of somebody else must not end the owner's session.
    if lifeline.is_some_and(|lifeline| lifeline.uid.as_deref() == uid) {
        ending::close_session(parts, slot.session, CloseReason::TransportClose);
    }
}

/// A client is not given its socket back, and is told so by a new `pid`.
pub(crate) fn note_lost(parts: &mut Parts, session: SessionId, why: NotRecovered) {
    let outcome = why.outcome() as usize;
    parts.books.counts.returned[outcome] += 1;
    if let Some(peer) = parts
        .people
        .sessions
        .get(session)
        .map(|slot| slot.client.peer())
    {
        let cause = Returned::NAMES[outcome];
        parts.outbound.log(Notice::NotRecovered { peer, cause });
    }
}

/// Nobody waits for this verdict any more.
pub(crate) fn give_up(parts: &mut Parts, number: u64) {
    if let Some(recovery) = &mut parts.recovery {
        recovery.give_up(number);
    }
    parking::settle(parts);
}

/// Takes the socket that a client was promised. The caller lets it live and settles in the same step: its rooms stay listed.
///
/// # Errors
/// It went meanwhile, or its client missed too much.
pub(crate) fn take(parts: &mut Parts, comer: Comer<'_>) -> Result<Box<Back>, NotRecovered> {
    let bytes_max = replay_bytes_max(&parts.books);
    let recovery = parts.recovery.as_mut().ok_or(NotRecovered::Unknown)?;
    recovery.promised.remove(&comer.pid);
    let back = recovery.take(comer);
    // The socket left its record, and is here again as soon as it lives (`restore`).
    parking::note_left(parts);
    let back = back?;
    match back.bytes() > bytes_max {
        true => Err(NotRecovered::TooMuch),
        false => Ok(back),
    }
}

/// A new socket of a session is the one that was away: its rooms, its user and its data are what they were.
pub(crate) fn restore(parts: &mut Parts, socket: SocketKey, back: &Back) {
    let (index, record) = (socket.id(), &back.record);
    let name = record.socket.to_string();
    for member in record.members.iter() {
        match member.kind {
            Kind::Room if *member.name != *name => {
                // The socket was a member before, so the bounds hold. The journal has no place for these joins: they are no changes.
                let (people, books) = (&mut parts.people, &mut parts.books);
                let _ = parts.rooms.join(people, books, index, &member.name);
                let now_ms = parts.clock.now.wall_ms;
                parts
                    .rooms
                    .note_arrival(&parts.people, index, &member.name, now_ms);
            }
            Kind::User => {
                let now_us = parts.clock.now_us();
                let meters = &parts.access.meters;
                meters.set_user(&mut parts.people, now_us, index, &member.name);
                parts.rooms.renamed(&parts.people, index);
            }
            Kind::Room | Kind::Everyone | Kind::Socket => {}
        }
    }
    let moved = id::socket_owner(&record.socket) != parts.ids.me.place();
    if moved && record.members.has(Kind::Room, &name) {
        parts.rooms.own_room(&mut parts.people, index, &name);
    }
    let shard = parts.ids.me.shard;
    parts.people.whereabouts.came(record.socket, shard);
    if let Some(slot) = parts.people.sockets.live_mut(socket) {
        slot.flags.nameless = !record.members.has(Kind::Room, &name);
        if record.data.is_some() {
            slot.extra.get_or_insert_default().data = record.data.clone();
        }
    }
    let lifeline = Lifeline {
        pid: record.pid,
        life: record.life.clone(),
        uid: record.uid.clone(),
        since_ms: parts.clock.now.mono_ms,
        recovered: true,
        is_heir: false,
        gap_ms: None,
    };
    parking::attach(parts, socket, lifeline);
    deeds::resume(parts, socket);
}

/// Sends a client what it missed, after the answer to its CONNECT.
pub(crate) fn replay(parts: &mut Parts, socket: SocketKey, back: &Back) {
    let namespace = Arc::clone(&back.record.namespace);
    // The client's place in the stream that all nodes read, after the events so far, if it is known.
    let mut number = None;
    for (at, said) in &back.missed {
        let event = said.event();
        let mut out = Outgoing::new(&namespace, &event);
        let recovery = parts.recovery.as_ref();
        number = said.number().or(number);
        out.room = said.room();
        out.offset = recovery.map(|recovery| recovery.journal.offset_text(*at, number));
        let exempt = &parts.books.config.compression.exempt;
        out.made.exempt_if(exempt.holds(&namespace, &[]));
        parts.speaker().deliver(socket.id(), &mut out);
    }
    let counts = &mut parts.books.counts;
    counts.returned[Returned::Recovered as usize] += 1;
    counts.replayed += back.missed.len() as u64;
    counts.replay_reads += back.read as u64;
}

/// A step of another shard.
pub(crate) fn heard(parts: &mut Parts, step: &Return) {
    let message = step.message.clone();
    let namespace = step.namespace.as_ref();
    let home = namespace.and_then(|name| home_of(parts, name));
    if let Some(namespace) = namespace {
        let recover = parts.books.config.recovery.of(namespace);
        if recover.is_none_or(|recover| !recover.goes_abroad) || home.is_none() {
            return refuse(parts, step);
        }
    }
    note_nodes(parts);
    if let Message::Claim { pid, uid, .. } = &message {
        // The socket may be live here: it is parked, so that it can be claimed.
        give_up_transport(parts, None, *pid, uid.as_deref());
    }
    let by = Sender {
        place: step.from,
        parts: step.parts,
        namespace,
        home: home.unwrap_or_default(),
    };
    let now_ms = parts.clock.now.mono_ms;
    let recovery = parts.recovery.as_mut();
    let verdict = recovery.and_then(|recovery| recovery.hear(by, message, now_ms));
    if let Some(verdict) = verdict {
        decide(parts, verdict);
    }
    parking::settle(parts);
}

/// This node has no recovery in the namespace, or none that goes to other nodes. The claimer is told so at once.
fn refuse(parts: &mut Parts, step: &Return) {
    let (Message::Claim { claim, .. } | Message::Fence { claim, .. }) = &step.message else {
        return;
    };
    let me = parts.ids.me;
    let (why, claim) = (NotRecovered::Nodes, *claim);
    let refused = Return {
        from: me.place(),
        parts: me.shards,
        namespace: step.namespace.clone(),
        message: Message::Refused { claim, why },
    };
    let door = Door::Shard(claim.by.shard);
    if claim.by.node != me.node {
        send::step_away(parts, claim.by.node, door, &refused);
    }
}

/// Other nodes know what is wanted here, or are gone.
pub(crate) fn on_tidings(parts: &mut Parts, tidings: &Tidings) {
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    let broken = match tidings {
        Tidings::Confirmed { ticket } => {
            recovery.confirmed(*ticket);
            Vec::new()
        }
        Tidings::Down { node } => {
            // The node's stamps are remembered: what it published may still be on its way from shard to shard.
            recovery.parked.forget_claims_of(*node);
            recovery.break_claims(*node)
        }
        Tidings::Missed { node, lost: true } => {
            recovery.journal.breaks(parts.clock.now.mono_ms);
            let broken = recovery.break_claims(*node);
            gaps::tell_all(parts);
            broken
        }
        // No letter was lost. The node is asked for its members anew, and claims that it takes part in began when it was there.
        Tidings::Missed { .. } => return,
        Tidings::Posted { .. } | Tidings::Refused { .. } => return,
    };
    broken
        .into_iter()
        .for_each(|verdict| decide(parts, verdict));
    parking::settle(parts);
}

/// What is due: records and claims that end.
pub(crate) fn tick(parts: &mut Parts) {
    let now_ms = parts.clock.now.mono_ms;
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    for verdict in recovery.tick(now_ms) {
        decide(parts, verdict);
    }
    parking::settle(parts);
}

/// The store decided about a claim.
pub(crate) fn decided(parts: &mut Parts, number: u64, result: Result<Box<Back>, NotRecovered>) {
    if let Some(recovery) = &mut parts.recovery {
        recovery.give_up(number);
    }
    decide(parts, Verdict { number, result });
}

/// A socket that was taken from another shard is kept here until its client is let in.
fn decide(parts: &mut Parts, verdict: Verdict) {
    let Verdict { number, mut result } = verdict;
    if let (Ok(back), Some(recovery)) = (&result, &parts.recovery)
        && let Some(adopting) = recovery.takings.adopting(number)
        && recovery.is_ahead(&back.record.namespace, adopting.shown)
    {
        // The shard that had it is behind the client in the stream: the store knows more.
        result = Err(NotRecovered::Unknown);
    }
    // No shard has it, but the store may.
    if matches!(result, Err(NotRecovered::Unknown)) && deeds::ask(parts, number) {
        return;
    }
    if let Some(recovery) = &mut parts.recovery {
        recovery.takings.end_adopting(number);
    }
    let recovery = parts.recovery.as_mut();
    let key = recovery.and_then(|recovery| recovery.waiting.remove(&number));
    let bytes_max = replay_bytes_max(&parts.books);
    let found = match result {
        Ok(back) if back.bytes() > bytes_max => Err(NotRecovered::TooMuch),
        Ok(back) => {
            let (id, namespace) = (back.record.socket, Arc::clone(&back.record.namespace));
            parking::keep(parts, back.record);
            Ok((id, namespace))
        }
        Err(why) => Err(why),
    };
    if let Some(key) = key {
        parts.outbound.found(key, found);
    }
}

/// Ends the session of a client whose promised socket went meanwhile: the client comes again, and is a new one.
pub(crate) fn break_promise(parts: &mut Parts, session: SessionId) {
    ending::close_session(parts, session, CloseReason::ServerClose);
}
