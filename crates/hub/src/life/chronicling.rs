//! Where a namespace's events stand in one stream that all nodes read: what is said goes there first, what is known of sockets is stored there
//! before their clients are told, and a client whose node died gets its socket from there. ADR 62.

use crate::books::close::CloseReason;
use crate::cluster::joins::{Carrier, Waits};
use crate::cluster::letter::{ChronicleNews, Target};
use crate::cluster::send::Reach;
use crate::cluster::wire::{self, Ask};
use crate::dialect::speech::{Author, Emit};
use crate::life::{ending, parking, returning};
use crate::parts::Parts;
use crate::recovery::adoption;
use crate::recovery::chronicle::{self, Chronicle, ChronicleWord, Claiming, Saving};
use crate::recovery::deed::Deed;
use crate::recovery::exchange::{Adopting, Comer, Recovery};
use crate::recovery::headings::Membership;
use crate::recovery::messages::Handover;
use crate::recovery::pid::Pid;
use crate::recovery::record::Record;
use crate::tables::slot::{SessionId, SocketKey};
use std::sync::Arc;
use std::time::Duration;

/// The chronicle of a namespace, if it has one.
fn of<'a>(parts: &'a Parts, namespace: &str) -> Option<&'a Arc<Chronicle>> {
    chronicle::of(&parts.recovery.as_ref()?.chronicle, namespace)
}

// ---- what is said -------------------------------------------------------------------------------------------------------------

/// Takes an event that is to stand in the stream; it comes back from there. `None`: it is none.
pub(crate) fn say(parts: &mut Parts, to: &Target<'_>, event: &Emit<'_>) -> Option<Reach> {
    let chronicle = of(parts, to.namespace).filter(|_| !event.volatile)?;
    Some(
        push(chronicle, to, Ask::Event(event), false).unwrap_or_else(|| {
            parts.books.counts.away_refused += 1;
            Reach::Nobody
        }),
    )
}

/// An order to sockets: those that are nowhere now carry it out when they come back.
pub(crate) fn order(parts: &Parts, to: &Target<'_>, ask: Ask<'_>) -> Reach {
    let Some(chronicle) = of(parts, to.namespace) else {
        return Reach::Everyone;
    };
    push(chronicle, to, ask, true).unwrap_or(Reach::ThisNode)
}

fn push(chronicle: &Chronicle, to: &Target<'_>, ask: Ask<'_>, is_order: bool) -> Option<Reach> {
    if !chronicle.is_open(to.namespace) {
        return None;
    }
    let mut letter = Vec::new();
    wire::write(&mut letter, to, ask);
    let word = ChronicleWord::Said {
        namespace: to.namespace.to_owned(),
        letter,
        is_order,
        receipt: match ask {
            Ask::Event(event) => match event.author {
                Author::Waiting(receipt) => Some(receipt),
                _ => None,
            },
            _ => None,
        },
    };
    chronicle.push(word).then_some(Reach::Everyone)
}

// ---- what is known of sockets -------------------------------------------------------------------------------------------------

/// A socket begins, with what it is a member of.
pub(crate) fn begin(
    parts: &mut Parts,
    socket: SocketKey,
    namespace: &str,
    members: impl Iterator<Item = Membership>,
) {
    let begun = of(parts, namespace).map(|chronicle| chronicle.passed(namespace));
    if let Some(begun) = begun {
        let deed = Deed::new(begun, members);
        let slot = parts.people.sockets.live_mut(socket);
        let extra = slot.and_then(|slot| slot.extra.as_mut());
        if let Some(lifeline) = extra.and_then(|extra| extra.lifeline.as_mut()) {
            lifeline.life.set_deed(deed);
        }
        touch(parts, socket);
    }
}

/// Whether a new socket of the namespace could come back.
pub(crate) fn is_open(parts: &Parts, namespace: &str) -> bool {
    of(parts, namespace).is_none_or(|chronicle| chronicle.is_open(namespace))
}

/// A membership of a socket that may come back changed.
pub(crate) fn change(parts: &mut Parts, socket: SocketKey, joined: bool, member: &Membership) {
    let Some(slot) = parts.people.socket(socket) else {
        return;
    };
    let label = parts.people.label(slot.namespace).map(Arc::clone);
    let Some(namespace) = label else {
        return;
    };
    let passed = of(parts, &namespace).map(|chronicle| chronicle.passed(&namespace));
    if let Some(passed) = passed {
        if let Some(deed) = deed(parts, socket) {
            deed.change(joined, member, passed);
        }
        touch(parts, socket);
    }
}

fn deed(parts: &mut Parts, socket: SocketKey) -> Option<&mut Deed> {
    let slot = parts.people.sockets.live_mut(socket)?;
    slot.extra.as_mut()?.lifeline.as_mut()?.life.deed_mut()
}

/// Something of a socket is to be stored before its client is told more.
pub(crate) fn touch(parts: &mut Parts, socket: SocketKey) {
    let Some(deed) = deed(parts, socket) else {
        return;
    };
    if std::mem::replace(&mut deed.is_dirty, true) {
        return;
    }
    if let Some(recovery) = &mut parts.recovery {
        let key = recovery.saves.given() + 1;
        recovery.saves.hold(key);
        recovery.saves.joined(socket, key);
        recovery.dirty.push(socket);
    }
}

/// A socket came back: the store is told that it is here.
pub(crate) fn resume(parts: &mut Parts, socket: SocketKey) {
    if let Some(deed) = deed(parts, socket) {
        deed.is_dirty = false;
    }
    touch(parts, socket);
}

/// At the end of a turn: what changed leaves for the store.
pub(crate) fn save(parts: &mut Parts) {
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    if recovery.dirty.is_empty() {
        return;
    }
    let (dirty, ticket) = (std::mem::take(&mut recovery.dirty), recovery.saves.given());
    for socket in dirty {
        if let Some(saving) = saving(parts, socket, ticket)
            && let Some(recovery) = &parts.recovery
            && let Some(chronicle) = &recovery.chronicle
            && !chronicle.push(ChronicleWord::Saving(saving))
        {
            abandon(parts, socket);
        }
    }
}

fn saving(parts: &mut Parts, socket: SocketKey, ticket: u64) -> Option<Saving> {
    deed(parts, socket)?.is_dirty = false;
    let slot = parts.people.socket(socket)?;
    let namespace = parts.people.label(slot.namespace)?.to_string();
    let extra = slot.extra.as_ref()?;
    let lifeline = extra.lifeline.as_ref()?;
    let deed = lifeline.life.deed()?;
    let mut body = Vec::new();
    adoption::write_body(&mut body, &slot.id, extra.data.as_deref(), deed);
    Some(Saving {
        namespace,
        pid: pid_text(lifeline.pid),
        uid: lifeline.uid.as_deref().map(str::to_owned),
        fence: deed.fence,
        body,
        shard: parts.ids.me.shard,
        ticket,
    })
}

fn pid_text(pid: Pid) -> String {
    String::from_utf8_lossy(&pid.text()).into_owned()
}

/// What changed cannot be stored: the socket cannot come back, and its session ends, so that its client knows.
fn abandon(parts: &mut Parts, socket: SocketKey) {
    let Some(slot) = parts.people.sockets.live_mut(socket) else {
        return;
    };
    let session = slot.session;
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
    ending::close_session(parts, session, CloseReason::TransportClose);
}

/// A client will not come back to its socket.
pub(crate) fn ended(parts: &Parts, namespace: &str, pid: Pid, deed: Option<&Deed>) {
    if let (Some(chronicle), Some(deed)) = (of(parts, namespace), deed) {
        // What finds no room ends by itself some time later.
        let _ = chronicle.push(ChronicleWord::Ended {
            namespace: namespace.to_owned(),
            pid: pid_text(pid),
            fence: deed.fence,
        });
    }
}

/// A client answered a ping: it has all that was known here before.
pub(crate) fn confirm(parts: &mut Parts, socket: SocketKey, pinged_ms: u64) {
    let now_ms = parts.clock.now.mono_ms;
    let label = parts.people.label_of(socket);
    let Some(namespace) = label else {
        return;
    };
    let recover = parts.books.config.recovery.of(&namespace);
    let every_ms = recover.map_or(u64::MAX, |recover| recover.window.as_millis() as u64 / 4);
    let Some(chronicle) = of(parts, &namespace).map(Arc::clone) else {
        return;
    };
    let number = parts.recovery.as_ref().and_then(|recovery| {
        let place = chronicle.place(&namespace)?;
        recovery.marks.before(place, pinged_ms)
    });
    let extra = parts.people.sockets.live_mut(socket);
    let extra = extra.and_then(|slot| slot.extra.as_mut());
    let lifeline = extra.and_then(|extra| extra.lifeline.as_mut());
    if let (Some(lifeline), Some(number)) = (lifeline, number)
        && let pid = lifeline.pid
        && let Some(deed) = lifeline.life.deed_mut()
        && now_ms.saturating_sub(deed.told_ms) >= every_ms
    {
        deed.told_ms = now_ms;
        // It is told again with a later pong.
        let _ = chronicle.push(ChronicleWord::Arrived {
            namespace: namespace.to_string(),
            pid: pid_text(pid),
            fence: deed.fence,
            number,
        });
    }
}

// ---- a client comes back ------------------------------------------------------------------------------------------------------

/// If this node does not have its socket, the store is asked under this number.
pub(crate) fn remember(
    parts: &mut Parts,
    number: Option<u64>,
    namespace: &str,
    comer: Comer<'_>,
    shown: Option<u64>,
) -> Option<u64> {
    of(parts, namespace)?;
    const TIMEOUT: Duration = Duration::from_secs(5);
    let deadline_ms = parts.clock.now.mono_ms + TIMEOUT.as_millis() as u64;
    let recovery = parts.recovery.as_mut()?;
    let adopting = Adopting {
        pid: comer.pid,
        uid: comer.uid.map(Into::into),
        namespace: namespace.into(),
        shown,
        deadline_ms,
        is_asked: false,
    };
    recovery.remember(number, adopting)
}

/// No shard of this node has it: the store is asked. `false`: it cannot be.
pub(crate) fn ask(parts: &mut Parts, number: u64) -> bool {
    let bytes_max = returning::replay_bytes_max(parts);
    let (shard, now_ms) = (parts.ids.me.shard, parts.clock.now.mono_ms);
    let Some(recovery) = &mut parts.recovery else {
        return false;
    };
    let Some(adopting) = recovery.adoptions.get_mut(&number) else {
        return false;
    };
    let chronicle = chronicle::of(&recovery.chronicle, &adopting.namespace);
    let is_asked = chronicle.is_some_and(|chronicle| {
        chronicle.is_open(&adopting.namespace)
            && !adopting.is_asked
            && chronicle.push(ChronicleWord::Claiming(Claiming {
                namespace: adopting.namespace.to_string(),
                pid: pid_text(adopting.pid),
                uid: adopting.uid.as_deref().map(str::to_owned),
                shown: adopting.shown,
                bytes_max,
                shard,
                number,
            }))
    });
    adopting.is_asked = is_asked;
    adopting.deadline_ms = now_ms + 5_000;
    if !is_asked {
        recovery.adoptions.remove(&number);
    }
    is_asked
}

/// News of the store.
pub(crate) fn heard(parts: &mut Parts, news: &ChronicleNews) {
    match news {
        ChronicleNews::Passed { namespace, number } => passed(parts, namespace, *number),
        ChronicleNews::Taken {
            namespace,
            pid,
            fence,
        } => taken(parts, namespace, *pid, *fence),
        ChronicleNews::Lost { namespace, upto } => lost(parts, namespace, *upto),
        ChronicleNews::Saved { ticket } => saved(parts, *ticket),
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
        recovery.journal.see(stamp);
        recovery.marks.note(now_ms, stamp);
    }
}

fn taken(parts: &mut Parts, namespace: &str, pid: Pid, fence: u64) {
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
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
    if is_older(deed(parts, socket).map(|deed| &*deed)) {
        if let Some(recovery) = &mut parts.recovery {
            recovery.live.remove(&pid);
        }
        if let Some(slot) = parts.people.sockets.live_mut(socket) {
            let session = slot.session;
            // Nothing is kept of it here.
            slot.extra.as_mut().and_then(|extra| extra.lifeline.take());
            ending::close_session(parts, session, CloseReason::TransportClose);
        }
    }
}

/// What the store had up to a number may be lost, and is stored anew from what is here.
fn lost(parts: &mut Parts, namespace: &str, upto: u64) {
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    // Other nodes may have been sent what this one was not.
    recovery.journal.breaks(parts.clock.now.mono_ms);
    recovery.parked.forget_chronicle(namespace, upto);
    let live: Vec<SocketKey> = recovery.live.values().copied().collect();
    for socket in live {
        if parts.people.label_of(socket).as_deref() == Some(namespace) {
            if let Some(deed) = deed(parts, socket) {
                deed.forgets(upto);
            }
            touch(parts, socket);
        }
    }
}

fn offered(parts: &mut Parts, number: u64, record: &Record) {
    let shard = parts.ids.me.shard;
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    if !recovery.expect_adopted(number, record) {
        return;
    }
    // This shard is listed for its rooms before anybody reads on.
    parking::settle(parts);
    if let Some(chronicle) = parts
        .recovery
        .as_ref()
        .and_then(|all| all.chronicle.as_ref())
    {
        // Without room for it the claim ends by its time.
        let _ = chronicle.push(ChronicleWord::Listed { shard, number });
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

/// The ticket of what a socket waits for.
pub(crate) fn ticket_of(parts: &Parts, socket: SocketKey) -> Option<u64> {
    parts.recovery.as_ref()?.saves.ticket_of(socket)
}

fn saved(parts: &mut Parts, ticket: u64) {
    if let Some(recovery) = &mut parts.recovery {
        let ready = recovery.saves.confirmed(ticket);
        crate::cluster::waiting::release_saved(parts, ready);
    }
}

/// The store has not taken it in time: the client is told nothing that might not hold, and its session ends.
pub(crate) fn end_late(parts: &mut Parts) {
    let now_ms = parts.clock.now.mono_ms;
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    for waits in recovery.saves.due(now_ms) {
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
                crate::cluster::waiting::release_saved(parts, [Waits::Output(carrier)]);
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
    let keys: Vec<SocketKey> = own.map(|index| parts.people.socket_key(index)).collect();
    keys.into_iter().for_each(|socket| abandon(parts, socket));
}

pub(crate) fn next_due_ms(parts: &Parts) -> Option<u64> {
    parts.recovery.as_ref()?.saves.next_due_ms()
}

impl Recovery {
    fn remember(&mut self, number: Option<u64>, adopting: Adopting) -> Option<u64> {
        let number = match number {
            Some(number) => number,
            None if self.adoptions.len() >= self.takings_max() => return None,
            None => self.next_claim(),
        };
        self.adoptions.insert(number, adopting);
        Some(number)
    }

    fn expect_adopted(&mut self, number: u64, record: &Record) -> bool {
        let Some(adopting) = self.adoptions.get(&number) else {
            return false;
        };
        if adopting.pid != record.pid || self.parked.has(record.pid) {
            return false;
        }
        let (claim, deadline_ms) = (self.own(number), adopting.deadline_ms);
        let since = self.journal.head();
        self.parked
            .expect(record.clone(), claim, since, deadline_ms);
        true
    }
}
