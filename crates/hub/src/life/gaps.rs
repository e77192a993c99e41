//! A client that may come back counts on having all. It is told when something is missing although it stayed. ADR 67.

use crate::bounds::GAP_ROOMS_MAX;
use crate::cluster::letter::Address;
use crate::dialect::notices;
use crate::dialect::speech::Word;
use crate::life::{deeds, parking};
use crate::parts::Parts;
use crate::recovery::deed::Deed;
use crate::recovery::headings::{Heading, Kind};
use crate::recovery::repeated::{Repeated, Stood};
use crate::rooms::target::Target;
use crate::tables::slot::{SessionId, SocketKey};
use std::collections::{BTreeMap, BTreeSet};
use wire::json;
use wire::socketio::PacketType;

/// Events were dropped that a slow session should have got. Its sockets are told which rooms these may have been for.
pub(crate) fn tell(parts: &mut Parts, session: SessionId) {
    if parts.recovery.is_none() {
        return;
    }
    let slot = parts.people.sessions.get(session);
    let sockets = slot.map(|slot| slot.sockets.clone()).unwrap_or_default();
    for index in sockets {
        let socket = parts.people.sockets.key(index);
        match rooms(parts, socket) {
            Missing::Nothing => {}
            Missing::Rooms(rooms) => say(parts, socket, Some(&rooms)),
            Missing::Anything => say(parts, socket, None),
        }
    }
}

/// The same for gaps that were not told yet. It is called with a pong, before that moves what the client is known to have, and when polls
/// lose their first event.
pub(crate) fn tell_due(parts: &mut Parts, session: SessionId) {
    let Some(slot) = parts.people.sessions.get_mut(session) else {
        return;
    };
    let conn = parts.line.conns.get_mut(slot.conn);
    let conn = conn.map(|conn| &mut conn.lag);
    let polling = slot.polling.as_mut().map(|polling| &mut polling.lag);
    let mut is_due = false;
    for lag in conn.into_iter().chain(polling) {
        is_due |= lag.tell();
    }
    if is_due {
        tell(parts, session);
    }
}

/// Letters of other nodes were lost. Nobody knows what was in them.
pub(crate) fn tell_all(parts: &mut Parts) {
    let live = parts.recovery.iter().flat_map(|all| all.live.values());
    let live: Vec<SocketKey> = live.copied().collect();
    for socket in live {
        let namespace = parts.people.label_of(socket).unwrap_or_default();
        let recover = parts.books.config.recovery.of(&namespace);
        // Events of level `cluster` come from the stream, and not by letters.
        if recover.is_some_and(|recover| !recover.chronicle) {
            say(parts, socket, None);
        }
    }
}

/// Events came from a stream again, and had been told here where they stood before. Sockets that came since then did not get them, while
/// others may have.
pub(crate) fn tell_newcomers(parts: &mut Parts, again: &BTreeMap<Address, Stood>) {
    let mut repeated = Repeated::default();
    for (of, stood) in again {
        of.with(|to| {
            repeated.add(&to.aim(), *stood);
            tell_live_newcomers(parts, to, *stood);
        });
    }
    if let Some(recovery) = &mut parts.recovery {
        // Their clients come back by the store, which has the events.
        recovery.parked.forget_newcomers(&repeated);
    }
}

fn tell_live_newcomers(parts: &mut Parts, to: &Target<'_>, stood: Stood) {
    let aim = to.aim();
    for index in parts.rooms.select(&mut parts.people, to) {
        let socket = parts.people.sockets.key(index);
        let now_ms = parts.clock.now.mono_ms;
        let slot = parts.people.sockets.here(socket);
        let lifeline = slot.and_then(|slot| slot.extra.as_ref()?.lifeline.as_ref());
        // One notice in a turn is enough.
        let is_told = lifeline.is_some_and(|lifeline| lifeline.gap_ms == Some(now_ms));
        let deed = deeds::deed(&mut parts.people, socket).filter(|_| !is_told);
        let heard = |deed: &Deed| {
            let mut named = aim.headings();
            named.any(|heading| deed.heard(heading.kind, heading.name, stood))
        };
        if deed.is_some_and(|deed| !heard(deed)) {
            say(parts, socket, None);
        }
    }
}

/// The rooms in which something may be missing.
enum Missing {
    Nothing,
    Rooms(BTreeSet<Box<str>>),
    Anything,
}

/// The rooms of all that was said to a socket since its client proved that it has all.
fn rooms(parts: &Parts, socket: SocketKey) -> Missing {
    let Some(slot) = parts.people.sockets.here(socket) else {
        return Missing::Nothing;
    };
    let extra = slot.extra.as_ref();
    let lifeline = extra.and_then(|extra| extra.lifeline.as_ref());
    let (Some(lifeline), Some(recovery)) = (lifeline, &parts.recovery) else {
        return Missing::Nothing;
    };
    let members = parking::members(parts, socket.id());
    let (Some(members), Some(namespace)) = (members, parts.people.namespaces.label(slot.namespace))
    else {
        return Missing::Nothing;
    };
    let id = slot.id.to_string();
    let (_, confirmed, _) = lifeline.life.parts();
    if !recovery.journal.is_whole_behind(confirmed) {
        return Missing::Anything;
    }
    let own = Heading {
        namespace,
        kind: Kind::Socket,
        name: &id,
    };
    let has = |heading: Heading<'_>| recovery.journal.has_behind(heading, confirmed);
    let (is_told, left) = recovery.journal.own_behind(own, confirmed);
    if is_told {
        return Missing::Anything;
    }
    let mut rooms = BTreeSet::new();
    for member in members.iter().chain(&left) {
        if has(member.heading(namespace)) {
            match member.kind {
                Kind::Room if *member.name != *id && rooms.len() < GAP_ROOMS_MAX => {
                    rooms.insert(member.name.clone());
                }
                _ => return Missing::Anything,
            }
        }
    }
    match rooms.is_empty() {
        true => Missing::Nothing,
        false => Missing::Rooms(rooms),
    }
}

/// Tells a socket of a gap. `rooms` is `None`: in all of its rooms, and in what was for everybody.
fn say(parts: &mut Parts, socket: SocketKey, rooms: Option<&BTreeSet<Box<str>>>) {
    let Some(slot) = parts.people.sockets.here(socket) else {
        return;
    };
    let (session, namespace) = (slot.session, slot.namespace);
    let Some(namespace) = parts
        .people
        .namespaces
        .label(namespace)
        .map(std::sync::Arc::clone)
    else {
        return;
    };
    let mut data = b"{\"rooms\":".to_vec();
    match rooms {
        None => data.extend_from_slice(b"null"),
        Some(rooms) => {
            data.push(b'[');
            for (n, room) in rooms.iter().enumerate() {
                if n > 0 {
                    data.push(b',');
                }
                json::quote(&mut data, room);
            }
            data.push(b']');
        }
    }
    data.push(b'}');
    let data = String::from_utf8_lossy(&data);
    let extra = parts.people.sockets.live_mut(socket);
    let extra = extra.and_then(|slot| slot.extra.as_mut());
    if let Some(lifeline) = extra.and_then(|extra| extra.lifeline.as_mut()) {
        lifeline.gap_ms = Some(parts.clock.now.mono_ms);
    }
    deeds::doubt(parts, socket, true);
    let word = Word {
        name: notices::GAP,
        ..Word::control(PacketType::Event, &namespace, &data)
    };
    parts.books.counts.gaps_told += 1;
    parts.speaker().say(session, &word);
}
