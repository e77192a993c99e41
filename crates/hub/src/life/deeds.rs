//! Where all nodes read one stream: what is said there and what is known of sockets, on the way to the store. ADR 62.

use crate::books::faults::{self, Fault};
use crate::bounds::{CLAIM_MS, RENEW_PAUSE_MS, UNTOLD_MS};
use crate::clients::people::People;
use crate::cluster::letter::Target;
use crate::cluster::send::Reach;
use crate::cluster::wire::{self, Ask};
use crate::dialect::speech::{Author, Emit};
use crate::parts::Parts;
use crate::recovery::chronicle::{self, Chronicle, ChronicleQuestion, ChronicleWord, Claiming};
use crate::recovery::deed::Deed;
use crate::recovery::exchange::Comer;
use crate::recovery::headings::Membership;
use crate::recovery::pid::Pid;
use crate::recovery::takings::Adopting;
use crate::rooms::target::Scope;
use crate::tables::repeats::Spot;
use crate::tables::slot::SocketKey;
use std::sync::Arc;

/// The chronicle of a namespace, if it has one.
pub(crate) fn of<'a>(parts: &'a Parts, namespace: &str) -> Option<&'a Arc<Chronicle>> {
    chronicle::of(&parts.recovery.as_ref()?.streams.chronicle, namespace)
}

/// Takes an event that is to stand in the stream, from where it comes back. `None`: the event does not go there.
pub(crate) fn say(parts: &mut Parts, to: &Target<'_>, event: &Emit<'_>) -> Option<Reach> {
    // A volatile event is for this moment only and is not kept (ADR 62).
    of(parts, to.namespace).filter(|_| !event.volatile)?;
    if to.scope == Scope::Node {
        // All nodes would read it there.
        parts.books.counts.away_refused += 1;
        return Some(Reach::Nobody);
    }
    let word = word(parts, to.namespace);
    let said = Emit {
        spot: word.as_ref(),
        ..*event
    };
    let chronicle = of(parts, to.namespace)?;
    let Some(reach) = push(chronicle, to, Ask::Event(&said), false) else {
        parts.books.counts.away_refused += 1;
        return Some(Reach::Nobody);
    };
    if let Author::Client(socket) = event.author
        && let Some(deed) = deed(&mut parts.people, socket)
    {
        deed.has_said = true;
    }
    Some(reach)
}

/// The spot of the next word for the stream: a word whose answer is lost is written once more, and readers know it by the spot. It replaces
/// the event's spot on a bus, so a command that two nodes carry out stands in the stream twice. `None`: not all nodes can read spots.
fn word(parts: &mut Parts, namespace: &str) -> Option<Spot> {
    let reads = parts.away.as_ref().is_some_and(|away| away.reads_spots());
    let recovery = parts.recovery.as_mut().filter(|_| reads)?;
    // The random name of the journal stands for this life of the shard, in which words are counted from 1.
    let shard = recovery.journal.position(0).log;
    Some(Spot::of_word(
        shard,
        namespace,
        recovery.streams.next_word(),
    ))
}

/// An ack says that the client's event is stored. The client's record is written after the event, so the ack waits for the record. HOT
/// PATH: one test where nobody comes back.
#[inline]
pub(crate) fn before_ack(parts: &mut Parts, socket: SocketKey) {
    if parts.recovery.is_none() || faults::is_back(Fault::AckEarly) {
        return;
    }
    let deed = deed(&mut parts.people, socket);
    if deed.is_some_and(|deed| std::mem::take(&mut deed.has_said)) {
        touch(parts, socket);
    }
}

/// Puts an order to sockets into the stream: a socket that is nowhere now carries it out when it comes back. An order to sockets of this
/// node alone does not go there.
pub(crate) fn order(parts: &Parts, to: &Target<'_>, ask: Ask<'_>) -> Reach {
    let everywhere = to.scope == Scope::Everywhere;
    let Some(chronicle) = of(parts, to.namespace).filter(|_| everywhere) else {
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

/// A socket begins, with what it is a member of.
pub(crate) fn begin(
    parts: &mut Parts,
    socket: SocketKey,
    namespace: &str,
    members: impl Iterator<Item = Membership>,
) {
    // The socket is listed by now: each event after this number is sent to this shard (ADR 62).
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
    let Some(slot) = parts.people.sockets.here(socket) else {
        return;
    };
    let label = parts
        .people
        .namespaces
        .label(slot.namespace)
        .map(Arc::clone);
    let Some(namespace) = label else {
        return;
    };
    let passed = of(parts, &namespace).map(|chronicle| chronicle.passed(&namespace));
    if let Some(passed) = passed {
        if let Some(deed) = deed(&mut parts.people, socket) {
            deed.change(joined, member, passed);
        }
        touch(parts, socket);
    }
}

pub(crate) fn deed(people: &mut People, socket: SocketKey) -> Option<&mut Deed> {
    let slot = people.sockets.live_mut(socket)?;
    slot.extra.as_mut()?.lifeline.as_mut()?.life.deed_mut()
}

/// Something of a socket is to be stored before its client is told more.
pub(crate) fn touch(parts: &mut Parts, socket: SocketKey) {
    let Some(away) = &mut parts.away else {
        return;
    };
    // Each word has a ticket of its own: words of other sockets may be stored earlier.
    let ticket = away.saves.ticket();
    let Some(deed) = deed(&mut parts.people, socket) else {
        return;
    };
    if std::mem::replace(&mut deed.is_dirty, true) {
        return;
    }
    deed.ticket = ticket;
    if let Some(recovery) = &mut parts.recovery {
        recovery.streams.touch(socket, ticket);
    }
}

/// Notes whether a client may lack something that it does not know of. If so, nobody is to take its socket from the store.
pub(crate) fn doubt(parts: &mut Parts, socket: SocketKey, is_doubted: bool) {
    let namespace = parts.people.label_of(socket).unwrap_or_default();
    let passed = of(parts, &namespace).map(|chronicle| chronicle.passed(&namespace));
    let Some((passed, deed)) = passed.zip(deed(&mut parts.people, socket)) else {
        return;
    };
    if std::mem::replace(&mut deed.is_doubted, is_doubted) == is_doubted {
        return;
    }
    if !is_doubted {
        // A doubted deed that came from the process before has lost its floor on the way (`Deed::write`).
        deed.forgets(passed);
    }
    // A whole room may lose something at once: its sockets are stored as fast as the store takes them.
    if let Some(recovery) = &mut parts.recovery {
        recovery.streams.renew(&namespace, socket);
    }
}

/// A socket came back: the store is told that it is here.
pub(crate) fn resume(parts: &mut Parts, socket: SocketKey) {
    if let Some(deed) = deed(&mut parts.people, socket) {
        // `touch` skips a deed that is dirty, and this one is to be stored in any case.
        (deed.is_dirty, deed.is_doubted) = (false, false);
    }
    touch(parts, socket);
}

/// A client will not come back to its socket.
pub(crate) fn ended(parts: &Parts, namespace: &str, pid: Pid, deed: Option<&Deed>) {
    if let (Some(chronicle), Some(deed)) = (of(parts, namespace), deed) {
        // If the word finds no room, the record ends by itself some time later.
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
    let chronicle = of(parts, &namespace).map(Arc::clone);
    // While the store takes nothing, it is told nothing.
    let Some(chronicle) = chronicle.filter(|all| all.is_open(&namespace)) else {
        return;
    };
    let number = parts.recovery.as_ref().and_then(|recovery| {
        let place = chronicle.place(&namespace)?;
        let before = recovery.streams.marks.before(place, pinged_ms);
        // Where nothing was ever said there are no marks, but a record that the store hears nothing of ends.
        before.or((chronicle.passed(&namespace) == 0).then_some(0))
    });
    let extra = parts.people.sockets.live_mut(socket);
    let extra = extra.and_then(|slot| slot.extra.as_mut());
    let lifeline = extra.and_then(|extra| extra.lifeline.as_mut());
    // A ping from before the socket came back proves nothing about what it was told then.
    if let (Some(lifeline), Some(number)) = (lifeline, number)
        && let (pid, since_ms) = (lifeline.pid, lifeline.since_ms)
        && pinged_ms > since_ms
        && let Some(deed) = lifeline.life.deed_mut()
        && now_ms.saturating_sub(deed.told_ms) >= every_ms
    {
        let silent_ms = now_ms.saturating_sub(deed.told_ms.max(since_ms));
        let is_old = silent_ms > every_ms.saturating_mul(4).saturating_add(UNTOLD_MS);
        if is_old && !std::mem::replace(&mut deed.is_renewed, true) {
            // The store may have forgotten the record meanwhile: it is stored anew, and the place is told with the next pong.
            return touch(parts, socket);
        }
        deed.is_renewed = false;
        deed.told_ms = now_ms;
        // A word that finds no room is said again with a later pong.
        let _ = chronicle.push(ChronicleWord::Arrived {
            namespace: namespace.to_string(),
            pid: pid_text(pid),
            fence: deed.fence,
            number,
        });
    }
}

/// Notes that the store is asked under this number if this node does not have the client's socket.
pub(crate) fn remember(
    parts: &mut Parts,
    number: Option<u64>,
    namespace: &str,
    comer: Comer<'_>,
) -> Option<u64> {
    of(parts, namespace)?;
    let deadline_ms = parts.clock.now.mono_ms + CLAIM_MS;
    let recovery = parts.recovery.as_mut()?;
    let adopting = Adopting {
        pid: comer.pid,
        uid: comer.uid.map(Into::into),
        namespace: namespace.into(),
        shown: comer.number,
        deadline_ms,
        is_asked: false,
    };
    recovery.takings.remember(number, adopting)
}

/// Asks the store for a socket that no shard of this node has. `false`: it cannot be asked.
pub(crate) fn ask(parts: &mut Parts, number: u64) -> bool {
    let bytes_max = parts.books.config.limits.outbox_bytes_max / 2;
    let (shard, now_ms) = (parts.ids.me.shard, parts.clock.now.mono_ms);
    let Some(recovery) = &mut parts.recovery else {
        return false;
    };
    let Some(adopting) = recovery.takings.adopting_mut(number) else {
        return false;
    };
    let chronicle = chronicle::of(&recovery.streams.chronicle, &adopting.namespace);
    let is_asked = chronicle.is_some_and(|chronicle| {
        chronicle.is_open(&adopting.namespace)
            && !adopting.is_asked
            && chronicle.ask(ChronicleQuestion::Claiming(Claiming {
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
    // The store has its whole time, whatever the shards took of theirs.
    adopting.deadline_ms = now_ms + CLAIM_MS;
    if !is_asked {
        recovery.takings.end_adopting(number);
    }
    is_asked
}

/// The ticket of what a socket waits for, and its namespace. HOT PATH: one test where nobody comes back.
#[inline]
pub(crate) fn ticket_of(parts: &Parts, socket: SocketKey) -> Option<(Arc<str>, u64)> {
    parts.recovery.as_ref()?.streams.chronicle.as_ref()?;
    let slot = parts.people.sockets.here(socket)?;
    let ticket = slot.extra.as_ref()?.lifeline.as_ref()?.life.deed()?.ticket;
    let namespace = parts.people.namespaces.label(slot.namespace)?;
    let saves = &parts.away.as_ref()?.saves;
    let is_open = saves.is_open(namespace, ticket);
    is_open.then(|| (Arc::clone(namespace), ticket))
}

pub(crate) fn next_due_ms(parts: &Parts) -> Option<u64> {
    let away = parts.away.as_ref()?;
    let recovery = parts.recovery.as_deref();
    let renews = recovery.is_some_and(|recovery| recovery.streams.has_renewals());
    let renews = renews.then(|| parts.clock.now.mono_ms + RENEW_PAUSE_MS);
    renews.into_iter().chain(away.saves.next_due_ms()).min()
}

pub(crate) fn pid_text(pid: Pid) -> String {
    String::from_utf8_lossy(&pid.text()).into_owned()
}
