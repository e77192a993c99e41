//! Namespaces whose events stand in one stream that all nodes read. What is said goes there first. What is known of sockets is stored there
//! before their clients are told. A client whose node died gets its socket from there. ADR 62.

use crate::books::close::CloseReason;
use crate::books::faults::{self, Fault};
use crate::bounds::RENEWED_PER_TURN_MAX;
use crate::cluster::adoption;
use crate::cluster::letter::ChronicleNews;
use crate::cluster::waiting;
use crate::cluster::waitlist::{Carrier, Waits};
use crate::life::deeds::{deed, ended, of, pid_text, touch};
use crate::life::{ending, gaps, parking, returning};
use crate::parts::Parts;
use crate::recovery::chronicle::{ChronicleQuestion, ChronicleWord, Saving};
use crate::recovery::deed::Deed;
use crate::recovery::messages::Handover;
use crate::recovery::pid::Pid;
use crate::recovery::record::Record;
use crate::tables::slot::{SessionId, SocketKey};

// ---- what is known of sockets -------------------------------------------------------------------------------------------------

/// What changed leaves for the store, at the end of a turn. Gaps come first, because they change what is stored.
pub(crate) fn save(parts: &mut Parts) {
    let again = parts
        .away
        .as_mut()
        .map(|away| std::mem::take(&mut away.again));
    if let Some(again) = again.filter(|again| !again.is_empty()) {
        gaps::tell_newcomers(parts, &again);
    }
    renew(parts);
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    let dirty = recovery.streams.take_dirty();
    for (socket, ticket) in dirty {
        let Some(saving) = saving(parts, socket, ticket) else {
            // Nothing of the socket is stored, so no word of the store would let go what waits for this ticket.
            withdraw(parts, ticket);
            continue;
        };
        if let Some(recovery) = &parts.recovery
            && let Some(chronicle) = &recovery.streams.chronicle
            && !chronicle.push(ChronicleWord::Saving(saving))
        {
            abandon(parts, socket);
            withdraw(parts, ticket);
        }
    }
    if let Some(away) = &mut parts.away {
        let surplus = away.saves.take_surplus();
        end(parts, surplus);
    }
}

/// Sockets that the store lost are stored anew as fast as it takes them: all at once would find no room.
fn renew(parts: &mut Parts) {
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    let next = recovery.streams.next_renewals(RENEWED_PER_TURN_MAX);
    next.into_iter().for_each(|socket| touch(parts, socket));
}

fn saving(parts: &mut Parts, socket: SocketKey, ticket: u64) -> Option<Saving> {
    deed(&mut parts.people, socket)?.is_dirty = false;
    let slot = parts.people.sockets.here(socket)?;
    let namespace = parts.people.namespaces.label(slot.namespace)?.to_string();
    let extra = slot.extra.as_ref()?;
    let lifeline = extra.lifeline.as_ref()?;
    let deed = lifeline.life.deed()?;
    let recovery = parts.recovery.as_ref();
    let era = recovery.map(|recovery| recovery.streams.era_of(&namespace));
    let mut body = Vec::new();
    adoption::write_body(&mut body, &slot.id, extra.data.as_deref(), deed);
    Some(Saving {
        namespace,
        pid: pid_text(lifeline.pid),
        uid: lifeline.uid.as_deref().map(str::to_owned),
        fence: deed.fence,
        body,
        era: era.unwrap_or_default(),
        shard: parts.ids.me.shard,
        ticket,
    })
}

/// A change cannot be stored, so the socket cannot come back. Its session ends, so that the client knows.
fn abandon(parts: &mut Parts, socket: SocketKey) {
    let Some(slot) = parts.people.sockets.live_mut(socket) else {
        return;
    };
    let session = slot.session;
    // Without its lifeline the end of the session keeps nothing of it.
    let lifeline = slot.extra.as_mut().and_then(|extra| extra.lifeline.take());
    if let Some(lifeline) = lifeline {
        let label = parts.people.label_of(socket);
        ended(
            parts,
            label.as_deref().unwrap_or_default(),
            lifeline.pid,
            lifeline.life.deed(),
        );
        if let Some(recovery) = &mut parts.recovery {
            recovery.live.remove(&lifeline.pid);
        }
    }
    // A stock client comes back by itself after a lost transport, and not after a DISCONNECT.
    ending::close_session(parts, session, CloseReason::TransportClose);
}

// ---- a client comes back ------------------------------------------------------------------------------------------------------

/// News of the store.
pub(crate) fn heard(parts: &mut Parts, news: &ChronicleNews) {
    match news {
        ChronicleNews::Passed { namespace, number } => passed(parts, namespace, *number),
        ChronicleNews::Taken {
            namespace,
            pid,
            fence,
        } => taken(parts, namespace, *pid, *fence),
        ChronicleNews::Lost {
            namespace,
            upto,
            era,
        } => lost(parts, namespace, *upto, *era),
        ChronicleNews::Missed { namespace, upto } => missed(parts, namespace, *upto),
        ChronicleNews::Saved { namespace, ticket } => saved(parts, namespace, *ticket),
        ChronicleNews::Refused { number, why } => returning::decided(parts, *number, Err(*why)),
        ChronicleNews::Offered { number, record } => offered(parts, *number, record),
        ChronicleNews::Adopted { number, handover } => adopted(parts, *number, handover),
    }
    parking::settle(parts);
}

fn passed(parts: &mut Parts, namespace: &str, number: u64) {
    let now_ms = parts.clock.now.mono_ms;
    let stamp = of(parts, namespace).and_then(|chronicle| chronicle.stamp(namespace, number));
    if let (Some(stamp), Some(recovery)) = (stamp, &mut parts.recovery) {
        recovery.journal.seen.see(stamp);
        recovery.streams.marks.note(now_ms, stamp);
    }
}

fn taken(parts: &mut Parts, namespace: &str, pid: Pid, fence: u64) {
    if faults::is_back(Fault::TakenTwice) {
        return;
    }
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    // The claim raised the fence: a socket that came back here by that claim or a later one has no smaller number.
    let is_older = |deed: Option<&Deed>| deed.is_some_and(|deed| deed.fence < fence);
    if recovery.parked.deed_is(pid, is_older) {
        recovery.parked.remove(pid);
    }
    let Some(socket) = recovery.live.get(&pid).copied() else {
        return;
    };
    if parts.people.label_of(socket).as_deref() != Some(namespace) {
        return;
    }
    if is_older(deed(&mut parts.people, socket).map(|deed| &*deed)) {
        if let Some(recovery) = &mut parts.recovery {
            recovery.live.remove(&pid);
        }
        if let Some(slot) = parts.people.sockets.live_mut(socket) {
            let session = slot.session;
            // Nothing is kept of the socket here: another node has it.
            slot.extra.as_mut().and_then(|extra| extra.lifeline.take());
            ending::close_session(parts, session, CloseReason::TransportClose);
        }
    }
}

/// What the store had up to a number may be lost. It is stored anew from what is here, and until then nobody believes the store.
fn lost(parts: &mut Parts, namespace: &str, upto: u64, era: u64) {
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    // Records that leave from now on are of the new generation: an older one is not believed (ADR 62).
    recovery.streams.begin_era(namespace, era);
    // Other nodes may have been sent what this one was not.
    recovery.journal.breaks(parts.clock.now.mono_ms);
    recovery.parked.forget_chronicle(namespace, upto);
    let mut live: Vec<SocketKey> = recovery.live.values().copied().collect();
    live.retain(|socket| parts.people.label_of(*socket).as_deref() == Some(namespace));
    for socket in &live {
        if !faults::is_back(Fault::LossUnknown)
            && let Some(deed) = deed(&mut parts.people, *socket)
        {
            deed.forgets(upto);
        }
    }
    if let Some(recovery) = &mut parts.recovery {
        recovery.streams.renew_all(namespace, live);
    }
}

/// Events for sockets of the namespace did not come here. All their clients are to know, also those that cannot come back.
fn missed(parts: &mut Parts, namespace: &str, upto: u64) {
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    recovery.journal.breaks(parts.clock.now.mono_ms);
    recovery.parked.forget_chronicle(namespace, upto);
    let Some(namespace) = parts.people.namespaces.find(namespace) else {
        return;
    };
    let sockets = parts.people.sockets.iter();
    let own = sockets.filter(|(_, slot)| slot.namespace == namespace);
    let own: Vec<SocketKey> = own
        .map(|(index, _)| parts.people.sockets.key(index))
        .collect();
    own.into_iter().for_each(|socket| abandon(parts, socket));
}

fn offered(parts: &mut Parts, number: u64, record: &Record) {
    let shard = parts.ids.me.shard;
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    if !recovery.expect_adopted(number, record) {
        return;
    }
    // This shard is listed for the record's rooms before the stream is read on.
    parking::settle(parts);
    if let Some(chronicle) = parts
        .recovery
        .as_ref()
        .and_then(|all| all.streams.chronicle.as_ref())
    {
        // If the word finds no room, the claim ends by its deadline.
        let _ = chronicle.ask(ChronicleQuestion::Listed { shard, number });
    }
}

fn adopted(parts: &mut Parts, number: u64, handover: &Handover) {
    let now_ms = parts.clock.now.mono_ms;
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    let result = recovery.adopt(number, handover.clone(), now_ms);
    returning::decided(parts, number, result);
}

// ---- what waits until it is stored --------------------------------------------------------------------------------------------

fn saved(parts: &mut Parts, namespace: &str, ticket: u64) {
    if let Some(away) = &mut parts.away {
        let ready = away.saves.stored(namespace, ticket);
        waiting::release_saved(parts, ready);
    }
}

fn withdraw(parts: &mut Parts, ticket: u64) {
    if let Some(away) = &mut parts.away {
        let ready = away.saves.withdrawn(ticket);
        waiting::release_saved(parts, ready);
    }
}

/// The store has not taken it in time: the client is told nothing that might not hold, and its session ends.
pub(crate) fn end_late(parts: &mut Parts) {
    let now_ms = parts.clock.now.mono_ms;
    if let Some(away) = &mut parts.away {
        let late = away.saves.overdue(now_ms);
        end(parts, late);
    }
}

fn end(parts: &mut Parts, all: Vec<Waits>) {
    for waits in all {
        match waits {
            Waits::Ack { to, .. } => abandon(parts, to.socket),
            Waits::Output(carrier) => {
                let session = match carrier {
                    Carrier::Conn(key) => {
                        let conn = parts.line.conns.live(key);
                        conn.and_then(|conn| conn.session)
                    }
                    Carrier::Polls(key) => {
                        let sessions = &parts.people.sessions;
                        sessions.live(key).map(|_| key.id())
                    }
                };
                // A client that hears that it is in says what it had kept for that moment, and the end of its session would take that along.
                if let Some(slot) = session.and_then(|at| parts.people.sessions.get_mut(at)) {
                    parts.line.discard_unsent(slot);
                }
                waiting::release_saved(parts, [Waits::Output(carrier)]);
                if let Some(session) = session {
                    abandon_session(parts, session);
                }
            }
        }
    }
}

fn abandon_session(parts: &mut Parts, session: SessionId) {
    let sockets = parts.people.sessions.get(session);
    let sockets = sockets.map(|slot| slot.sockets.clone());
    let own = sockets.into_iter().flatten();
    let keys: Vec<SocketKey> = own.map(|index| parts.people.sockets.key(index)).collect();
    keys.into_iter().for_each(|socket| abandon(parts, socket));
}
