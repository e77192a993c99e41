//! A socket loses its transport and is kept for its client: what is left of it, what commands do to it meanwhile, and the rooms that
//! stay listed for it. ADR 38.

use crate::books::close::Departure;
use crate::books::config::Offsets;
use crate::clients::lag::Lag;
use crate::clients::session::Protocol;
use crate::cluster::letter::{Return, Target};
use crate::cluster::send;
use crate::dialect::speech::Emit;
use crate::life::deeds;
use crate::parts::Parts;
use crate::recovery::circle::{Post, To};
use crate::recovery::exchange::Recovery;
use crate::recovery::headings::{Kind, Membership};
use crate::recovery::journal::{Action, Moment, Said};
use crate::recovery::members::Members;
use crate::recovery::parked::News;
use crate::recovery::pid::{Offset, Pid};
use crate::recovery::record::{Life, Lifeline, Record};
use crate::rooms::room::RoomKind;
use crate::tables::id::{self, Identity};
use crate::tables::interest::{Change, Subject};
use crate::tables::slot::{SessionId, SocketId, SocketKey};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::base64url::Id20;

/// A socket begins: where its client can come back, it gets a name by which it does.
pub(crate) fn begin(parts: &mut Parts, session: SessionId, socket: SocketKey, uid: Option<&str>) {
    if parts.recovery.is_none() {
        return;
    }
    let Some(slot) = parts.people.sockets.here(socket) else {
        return;
    };
    let namespace = parts.people.namespaces.label(slot.namespace);
    let recover = namespace.and_then(|name| parts.books.config.recovery.of(name));
    let carrier = parts.people.sessions.get(session);
    let (Some(recover), Some(carrier)) = (recover, carrier) else {
        return;
    };
    let language = &carrier.language;
    let gets_offsets = recover.offsets == Offsets::All || language.asks_offsets();
    let is_stock = language.protocol() == Protocol::SocketIo && !language.is_three();
    let comes_back = is_stock && gets_offsets || language.resumes();
    let name = parts
        .people
        .namespaces
        .label(slot.namespace)
        .map(Arc::clone);
    let name = name.unwrap_or_default();
    if !comes_back || !deeds::is_open(parts, &name) {
        return;
    }
    let Some(recovery) = &parts.recovery else {
        return;
    };
    let lifeline = Lifeline {
        pid: Pid::draw(&mut parts.ids),
        life: Life::new(recovery.journal.head()),
        uid: uid.map(Into::into),
        since_ms: parts.clock.now.mono_ms,
        recovered: false,
        is_heir: false,
        gap_ms: None,
    };
    attach(parts, socket, lifeline);
    if let Some(members) = members(parts, socket.id()) {
        deeds::begin(parts, socket, &name, members.into_iter());
    }
}

/// A socket can come back from now on.
pub(crate) fn attach(parts: &mut Parts, socket: SocketKey, lifeline: Lifeline) {
    if let Some(slot) = parts.people.sockets.live_mut(socket)
        && let Some(recovery) = &mut parts.recovery
    {
        recovery.live.insert(lifeline.pid, socket);
        slot.route.say_offsets();
        slot.extra.get_or_insert_default().lifeline = Some(Box::new(lifeline));
    }
}

/// Writes down what one socket is told, if it may come back, and gives the place. What is for this instant only is not written: its place
/// is the last one before it.
pub(crate) fn tell(parts: &mut Parts, socket: SocketKey, event: &Emit<'_>) -> Option<Offset> {
    let recovery = parts.recovery.as_mut()?;
    let slot = parts.people.sockets.here(socket)?;
    slot.extra.as_ref()?.lifeline.as_ref()?;
    let namespace = parts.people.namespaces.label(slot.namespace)?;
    let at = match event.volatile {
        true => recovery.journal.head(),
        false => {
            let (now_ms, id) = (parts.clock.now.mono_ms, slot.id.to_string());
            // When this is the first that a client gets after it came back, it learns its place in the stream from it.
            let number = recovery.number_at_head(namespace).unwrap_or_default();
            let said = Arc::new(Said::new(event).numbered(number));
            recovery.journal.tell(now_ms, namespace, &id, &said)
        }
    };
    Some(recovery.offset(namespace, at))
}

/// A socket is told the history of a room next.
pub(crate) fn tells_history(parts: &mut Parts, socket: SocketKey, room: &str) {
    let Some(slot) = parts.people.sockets.here(socket) else {
        return;
    };
    let extra = slot.extra.as_ref();
    if extra.is_some_and(|extra| extra.lifeline.is_some())
        && let Some(namespace) = parts.people.namespaces.label(slot.namespace)
        && let Some(recovery) = &mut parts.recovery
    {
        let (now_ms, id) = (parts.clock.now.mono_ms, slot.id.to_string());
        let journal = &mut recovery.journal;
        journal.tells_history(now_ms, (namespace, &id), room);
    }
}

/// A pong says that all has arrived that was sent before its ping.
pub(crate) fn confirm(parts: &mut Parts, session: SessionId) {
    let (Some(recovery), Some(slot)) = (&parts.recovery, parts.people.sessions.get(session)) else {
        return;
    };
    let Some(pinged_ms) = slot.heart.pinged_at(parts.clock.now.mono_ms) else {
        return;
    };
    let at = recovery.journal.before(pinged_ms);
    let own = slot.sockets.clone();
    for index in own {
        let key = parts.people.sockets.key(index);
        deeds::confirm(parts, key, pinged_ms);
        let socket = parts.people.sockets.get_mut(index);
        let extra = socket.and_then(|socket| socket.extra.as_mut());
        // A client that got the ping before its socket began may lack what the socket got since.
        if let Some(lifeline) = extra.and_then(|extra| extra.lifeline.as_mut())
            && pinged_ms > lifeline.since_ms
        {
            lifeline.life.confirm(at);
            // All that the process before had said has arrived, and what came since is in the journal.
            lifeline.is_heir = false;
            lifeline.gap_ms = lifeline.gap_ms.filter(|told_ms| *told_ms >= pinged_ms);
            // A client that is behind may lose more.
            if lifeline.gap_ms.is_none() && !lags(parts, index, |lag| !lag.is_whole()) {
                deeds::doubt(parts, key, false);
            }
        }
    }
}

/// A socket leaves. If it may come back, its memberships are written down before it leaves them, or the store has them. Gives whether it is
/// kept.
pub(crate) fn park(parts: &mut Parts, index: SocketId, how: Departure) -> bool {
    let Some(recovery) = &mut parts.recovery else {
        return false;
    };
    let Some(socket) = parts.people.sockets.get_mut(index) else {
        return false;
    };
    let (id, extra) = (socket.id, socket.extra.as_mut());
    let lifeline = extra.and_then(|extra| extra.lifeline.take());
    // A socket without a lifeline is noted there, too, if it came from another shard or process.
    parts.people.whereabouts.went(id, parts.ids.me.shard);
    let Some(lifeline) = lifeline else {
        return false;
    };
    recovery.live.remove(&lifeline.pid);
    // A socket that waits for a room's history lacks what only that history has, and nobody makes up for it. Nor does anybody for what a
    // slow client lost, and the client may not know of that.
    let misses = lifeline.gap_ms.is_some() || lags(parts, index, Lag::is_untold);
    if !how.may_return() || misses || parts.rooms.follows(&parts.people, index) {
        let label = parts.people.label_of(parts.people.sockets.key(index));
        let namespace = label.as_deref().unwrap_or_default();
        deeds::ended(parts, namespace, lifeline.pid, lifeline.life.deed());
        return false;
    }
    // It comes back by the store alone: this journal lacks the last words of the process before (ADR 68).
    if lifeline.is_heir {
        return true;
    }
    let Some(record) = record(parts, index, &lifeline) else {
        return false;
    };
    keep(parts, record);
    settle(parts);
    true
}

/// Whether something holds for what the client of a socket still has to get.
pub(crate) fn lags(parts: &Parts, index: SocketId, is_so: fn(&Lag) -> bool) -> bool {
    let Some(socket) = parts.people.sockets.get(index) else {
        return false;
    };
    let conn = parts.line.conns.get(socket.route.conn());
    let session = parts.people.sessions.get(socket.session);
    let polling = session.and_then(|session| session.polling.as_ref());
    conn.is_some_and(|conn| is_so(&conn.lag)) || polling.is_some_and(|polling| is_so(&polling.lag))
}

/// Keeps a record for the window of its namespace.
pub(crate) fn keep(parts: &mut Parts, record: Record) {
    keep_for(parts, record, u64::MAX);
}

/// The same, but no longer than this. `false`: clients do not come back there.
pub(crate) fn keep_for(parts: &mut Parts, record: Record, left_ms: u64) -> bool {
    let recover = parts.books.config.recovery.of(&record.namespace);
    if let Some(recover) = recover
        && let Some(recovery) = &mut parts.recovery
    {
        let window_ms = recover.window.as_millis() as u64;
        let deadline_ms = parts.clock.now.mono_ms + window_ms.min(left_ms);
        let (socket, shard) = (record.socket, parts.ids.me.shard);
        recovery.parked.park(record, deadline_ms);
        // `park` may have replaced a record of the same socket: the word that this one left must not come after the word that it came.
        note_left(parts);
        parts.people.whereabouts.came(socket, shard);
        return true;
    }
    false
}

/// What a socket is a member of now.
pub(crate) fn members(parts: &Parts, index: SocketId) -> Option<Vec<Membership>> {
    parts.people.sockets.get(index)?;
    let rooms = parts.rooms.names_of(&parts.people, index);
    let rooms = rooms.iter().map(|name| Membership::new(Kind::Room, name));
    let user = parts.people.user_of(index);
    let user = user.map(|name| Membership::new(Kind::User, name));
    let everyone = Membership::new(Kind::Everyone, "");
    Some(rooms.chain(user).chain([everyone]).collect())
}

/// What is left of a socket.
pub(crate) fn record(parts: &Parts, index: SocketId, lifeline: &Lifeline) -> Option<Record> {
    let socket = parts.people.sockets.get(index)?;
    let namespace = parts.people.namespaces.label(socket.namespace)?;
    let members: Members = members(parts, index)?.into_iter().collect();
    let extra = socket.extra.as_ref();
    Some(Record {
        pid: lifeline.pid,
        socket: socket.id,
        namespace: Arc::clone(namespace),
        members,
        uid: lifeline.uid.clone(),
        data: extra.and_then(|extra| extra.data.clone()),
        life: lifeline.life.clone(),
    })
}

/// Sockets without a transport carry out a command like those that have one.
pub(crate) fn command(parts: &mut Parts, of: &Target<'_>, action: impl FnOnce() -> Action) {
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    if parts.books.config.recovery.of(of.namespace).is_none() {
        return;
    }
    let now_ms = parts.clock.now.mono_ms;
    if let Some(chronicle) = &recovery.streams.chronicle {
        recovery.parked.passed = chronicle.passed(of.namespace);
    }
    recovery.command(Moment::new(now_ms), &of.aim(), &action());
    settle(parts);
}

/// Notes that sockets whose records left are not here, until they come anew.
pub(crate) fn note_left(parts: &mut Parts) {
    let (whereabouts, shard) = (&parts.people.whereabouts, parts.ids.me.shard);
    if let Some(recovery) = &mut parts.recovery {
        let left = recovery.parked.take_left();
        left.for_each(|id| whereabouts.went(id, shard));
    }
}

/// What is wanted here is listed **before** messages leave that say so. What goes and comes in one step stays listed throughout. A
/// publisher on another thread may read a card at any time.
pub(crate) fn settle(parts: &mut Parts) {
    note_left(parts);
    let Some(recovery) = &mut parts.recovery else {
        return;
    };
    let (news, posts) = (recovery.parked.take_news(), recovery.ways.take_posts());
    let mut changes: BTreeMap<(Box<str>, Membership), (bool, bool)> = BTreeMap::new();
    for News {
        came,
        namespace,
        member,
    } in news
    {
        let change = changes.entry((namespace, member)).or_insert((!came, came));
        change.1 = came;
    }
    let changed = changes.into_iter();
    let changed = changed.filter(|(_, (before, after))| before != after);
    let (came, went): (Vec<_>, Vec<_>) = changed.partition(|(_, (_, after))| *after);
    for ((namespace, member), _) in came {
        list(parts, &namespace, &member, true);
    }
    // Users before rooms, and everyone last: with its last room a namespace is forgotten.
    for ((namespace, member), _) in went.into_iter().rev() {
        list(parts, &namespace, &member, false);
    }
    posts.into_iter().for_each(|post| leave(parts, post));
    // What is wanted here now gets a ticket: fences wait until other nodes know it.
    let waits = |recovery: &Recovery| recovery.takings.waits_for_ticket();
    if parts.recovery.as_deref().is_some_and(waits) {
        send::note_interest(parts);
        let ticket = parts.away.as_ref().map_or(0, |away| away.last_ticket());
        if let Some(recovery) = &mut parts.recovery {
            recovery.listed(ticket);
            let fences = recovery.ways.take_posts();
            fences.into_iter().for_each(|post| leave(parts, post));
        }
    }
}

/// A message about a claim leaves.
fn leave(parts: &mut Parts, post: Post) {
    let Identity { shards, .. } = parts.ids.me;
    let step = Return {
        from: parts.ids.me.place(),
        parts: shards,
        namespace: post.namespace,
        message: post.message,
    };
    match post.to {
        To::Shard(shard) => send::send_to(parts, shard, step),
        To::Node(node, door) => send::step_away(parts, node, door, &step),
    }
}

fn list(parts: &mut Parts, namespace: &str, member: &Membership, came: bool) {
    // An event for the id of a socket that began here comes here anyway.
    let id = Id20::decode(member.name.as_bytes());
    let here = |id: &Id20| {
        let (me, now_ms) = (parts.ids.me.place(), parts.clock.now.wall_ms);
        id::may_be_socket(id, now_ms) && id::socket_owner(id) == me
    };
    if came && member.kind == Kind::Room && id.as_ref().is_some_and(here) {
        return;
    }
    let (people, name) = (&mut parts.people, &*member.name);
    let namespace = match came {
        true => people.namespaces.find_or_make(namespace),
        false => match people.namespaces.find(namespace) {
            Some(namespace) => namespace,
            None => return,
        },
    };
    let kind = match member.kind {
        Kind::Everyone => RoomKind::All,
        Kind::Room => RoomKind::Named,
        Kind::User => {
            let change = if came { Change::Came } else { Change::Went };
            return people.note_interest(namespace, Subject::User, name, change);
        }
        Kind::Socket => return,
    };
    parts.rooms.want(people, namespace, (kind, name), came);
}
