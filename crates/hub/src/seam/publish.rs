//! The one door by which events are published, whoever speaks: a client by a rule, a worker, a program, another server.
//!
//! A namespace whose rooms keep events has a home, one shard that is the same for all. All its events go there first: the home keeps
//! what is to be kept, gives it its position and sends each event on as one letter with all its rooms. So all shards have one order,
//! and each reads once who is a member. A shard asks the home for the history of a socket that joined, and sends that socket no kept
//! events of the room until the answer is there. What the home sends to one shard arrives in order, so the history ends exactly where
//! the live stream begins.

use crate::books::faults::{self, Fault};
use crate::cluster::letter::{Address, Broadcast, Order, RoomNews, Scope, Target, owned};
use crate::cluster::send::{self, Reach};
use crate::cluster::wire::Ask;
use crate::dialect::notices;
use crate::dialect::speech::Emit;
use crate::life::{deeds, parking, stream};
use crate::parts::Parts;
use crate::recovery::repeated::Stood;
use crate::recovery::stamp::Stamp;
use crate::rooms::keeping::Record;
use crate::rooms::log::Kept;
use crate::rooms::membership::NewCount;
use crate::rooms::outgoing::Outgoing;
use crate::rooms::presence::Word;
use crate::rooms::room::RoomKind;
use crate::seam::inside::Inside;
use crate::seam::member::Member;
use crate::tables::id::{self, Place};
use crate::tables::position::Position;
use crate::tables::repeats::Spot;
use crate::tables::slot::SocketKey;
use std::sync::Arc;
use wire::base64url::Id20;
use wire::json;

impl Member<'_> {
    /// To be called when it has just joined a room: it gets what is kept of the room as the event `history` `{room, messages}`, and then
    /// what is published.
    pub fn replay(&mut self, room: &str) {
        let _inside = Inside::enter();
        if self.live().is_some() {
            catch_up(self.parts, self.key(), room);
        }
    }
}

/// Sends an event to everyone the target means, and keeps it for clients that join its rooms later, if its namespace does.
/// HOT PATH.
pub(crate) fn publish(parts: &mut Parts, to: &Target<'_>, event: &Emit<'_>) -> Reach {
    if let Some(tap) = &parts.rooms.tap {
        tap.pass(to, event);
    }
    if let Some(reach) = deeds::say(parts, to, event) {
        return reach;
    }
    let reach = send::reach(parts, to);
    // Nothing is refused after this question (ADR 19): the scope says what its answer was.
    let to = &Target {
        scope: match reach {
            Reach::Everyone => to.scope,
            Reach::ThisNode | Reach::Nobody => Scope::Node,
        },
        ..*to
    };
    match home_of(parts, to.namespace) {
        None => spread(parts, to, event, None, None),
        Some(_) if faults::is_back(Fault::RoomByRoom) && to.rooms.len() > 1 => {
            for (n, room) in to.rooms.iter().enumerate() {
                let except = [to.except, &to.rooms[..n]].concat();
                let (rooms, except) = (&[*room][..], &except[..]);
                let one = Target {
                    rooms,
                    except,
                    ..*to
                };
                bring(parts, &one, event);
            }
        }
        Some(_) => bring(parts, to, event),
    }
    reach
}

/// Tells the other shards of counts that changed; what the handler is to be told, and whether nothing is left for the next turn.
pub(crate) fn announce_changes(parts: &mut Parts) -> (Vec<NewCount>, bool) {
    let now = parts.clock.now;
    let tells_nodes = parts.rooms.tells_nodes();
    if tells_nodes {
        let (take, rooms) = (send::has_room(parts), &mut parts.rooms);
        rooms.changes.nodes_take_counts(&mut rooms.table, take);
    }
    let (mut counts, is_done) = parts.rooms.new_counts(&mut parts.people, now);
    // Nodes come before shards, which take the words out of the counts.
    if tells_nodes {
        counts.iter().for_each(|count| tell_nodes(parts, count));
    }
    let from = parts.ids.me.place();
    for count in &mut counts {
        if count.announce.is_empty() {
            continue;
        }
        let (namespace, room) = (Arc::clone(&count.namespace), Arc::clone(&count.room));
        let news = match count.word.take() {
            Some(word) => RoomNews::Present {
                to: Address::from(&of_room(&namespace, &[&room])),
                from,
                word,
            },
            None => RoomNews::Changed { namespace, room },
        };
        send::send_all(parts, count.announce, news);
    }
    (counts, is_done)
}

fn tell_nodes(parts: &mut Parts, count: &NewCount) {
    let Some((members, asks)) = count.away else {
        return;
    };
    let rooms = [&*count.room];
    let to = of_room(&count.namespace, &rooms);
    let shard = parts.ids.me.shard;
    // Rooms whose news find no room wait: [`Changes::nodes_take_counts`](crate::rooms::changes::Changes::nodes_take_counts).
    if parts.rooms.elsewhere.is_wanted() {
        let ask = Ask::Count {
            shard,
            members,
            asks,
        };
        send::let_in(parts, &to, ask);
    }
    if let Some(word) = &count.word {
        send::let_in(parts, &to, Ask::Present { shard, word });
    }
}

/// Another shard tells the members of a room there. One that asks is told those here at once.
pub(crate) fn present_elsewhere(parts: &mut Parts, to: &Target<'_>, from: Place, word: &Word) {
    for name in to.rooms {
        let (rooms, people) = (&mut parts.rooms, &parts.people);
        let heard = rooms.present_elsewhere(people, (to.namespace, name), from, word);
        let Some((room, word)) = heard else {
            continue;
        };
        let (me, to) = (
            parts.ids.me.place(),
            of_room(to.namespace, std::slice::from_ref(name)),
        );
        if from.node == me.node {
            let to = Address::from(&to);
            let from_me = RoomNews::Present { to, from: me, word };
            send::send_to(parts, from.shard, from_me);
            continue;
        }
        let answer = Ask::Present {
            shard: me.shard,
            word: &word,
        };
        let arrives = send::tell_node(parts, from.node, &to, answer);
        parts.rooms.rolls.answered_node(room, arrives);
        if !arrives {
            let rooms = &mut parts.rooms;
            rooms.changes.mark(&mut rooms.table, room);
        }
    }
}

fn of_room<'a>(namespace: &'a str, rooms: &'a [&'a str]) -> Target<'a> {
    Target {
        namespace,
        rooms,
        ..Target::default()
    }
}

/// Sends an event to all shards and nodes with receivers, this shard included. `at`: its place among those that its rooms keep. `first`:
/// its stamp, if another node published it.
fn spread(
    parts: &mut Parts,
    to: &Target<'_>,
    event: &Emit<'_>,
    at: Option<Position>,
    first: Option<Stamp>,
) {
    if let (Some(first), Some(recovery)) = (first, &parts.recovery)
        && let Some(chronicle) = &recovery.streams.chronicle
    {
        // The number must stand there before the cards are read below.
        chronicle.passes(to.namespace, first);
    }
    let is_repeat = is_repeat(parts, to, event.spot, first);
    let shards = send::shards_of(parts, to);
    let recover = parts.books.config.recovery.of(to.namespace);
    let goes_abroad = recover.is_some_and(|recover| recover.goes_abroad);
    let recovers = recover.is_some();
    let recovery = parts.recovery.as_mut().filter(|_| recovers);
    let stamp = recovery.map(|recovery| recovery.stamps.give(first));
    if !shards.is_empty() {
        let mut copy = Broadcast::new(to, event);
        copy.at = at;
        copy.stamp = stamp;
        send::send_all(parts, shards, Order::Broadcast(copy, None));
    }
    let away = parts.away.as_ref();
    // Nodes of an earlier build know neither kind of letter (ADR 80).
    let reads_stamps = goes_abroad && away.is_some_and(|away| away.stamps());
    let abroad = Emit {
        spot: event
            .spot
            .filter(|_| away.is_some_and(|away| away.reads_spots())),
        ..*event
    };
    let ask = match stamp.filter(|_| reads_stamps) {
        Some(stamp) => Ask::Stamped(&abroad, stamp),
        None => Ask::Event(&abroad),
    };
    send::let_in(parts, to, ask);
    // Other shards and nodes may lack it, so it was sent on all the same (ADR 69).
    if is_repeat {
        return;
    }
    let mut out = Outgoing::event(to, event);
    out.at = at;
    out.stamp = stamp;
    parts.audience().fan_out(to, &mut out);
}

/// Whether this shard has carried an event out before. For a word of a stream it is noted where that stood, so that sockets that came since
/// are told of a gap.
pub(crate) fn is_repeat(
    parts: &mut Parts,
    to: &Target<'_>,
    spot: Option<&Spot>,
    stamp: Option<Stamp>,
) -> bool {
    let now_ms = parts.clock.now.mono_ms;
    let is_repeat = match spot {
        None => false,
        Some(spot) if spot.is_word() => {
            let at = stamp.map_or(0, |stamp| stamp.number);
            let stood = parts.rooms.repeats.take_word(spot, at, now_ms);
            if let (Some(stood), Some(away)) = (stood, &mut parts.away) {
                let stood = Stood::at(stood);
                let all = away.again.entry(Address::from(to)).or_insert(stood);
                all.add(stood);
            }
            stood.is_some()
        }
        Some(spot) => !parts.rooms.repeats.take(spot, now_ms),
    };
    parts.books.counts.repeats += u64::from(is_repeat);
    is_repeat
}

/// The same for a command that each shard is told by itself. Each does its part, and the one that leads does that of other nodes. Events of
/// a namespace that keeps some have one way only.
pub(crate) fn publish_apart(parts: &mut Parts, to: &Target<'_>, event: &Emit<'_>, leads: bool) {
    if home_of(parts, to.namespace).is_some() {
        if leads {
            publish(parts, to, event);
        }
        return;
    }
    if leads {
        if let Some(tap) = &parts.rooms.tap {
            tap.pass(to, event);
        }
        // An event that finds no room is counted; nobody waits to be told. It goes without its spot, because some nodes may not read spots.
        let plain = Emit {
            spot: None,
            ..*event
        };
        let _ = send::send_away(parts, to, Ask::Event(&plain));
    }
    parts
        .audience()
        .fan_out(to, &mut Outgoing::event(to, event));
}

/// The home of a namespace; `None`: its rooms keep nothing.
#[inline]
fn home_of(parts: &Parts, namespace: &str) -> Option<u16> {
    let keeping = &parts.rooms.kept.keeping;
    keeping.home_of(namespace, parts.ids.me.shards)
}

/// Brings an event to its home. Its publisher waits for slow shards of members, as it would if it sent the event there itself: the
/// home does not know it, and would send them more and more.
fn bring(parts: &mut Parts, to: &Target<'_>, event: &Emit<'_>) {
    if faults::is_back(Fault::RecordApart) {
        spread(parts, to, event, None, None);
    }
    match home_of(parts, to.namespace) {
        Some(home) if home != parts.ids.me.shard => {
            parts.traces.spoken(to.rooms);
            send::wait_for(parts, send::shards_of(parts, to));
            let event = Broadcast::new(to, event).said(&parts.people, event);
            send::send_to(parts, home, RoomNews::Publish(event));
        }
        _ => append(parts, to, event, None),
    }
}

/// Keeps an event at its home and sends it to all members in one step, so that no other comes between. `first`: its stamp, if another node
/// published it.
pub(crate) fn append(parts: &mut Parts, to: &Target<'_>, event: &Emit<'_>, first: Option<Stamp>) {
    if event
        .spot
        .is_some_and(|spot| parts.rooms.repeats.has(spot, parts.clock.now.mono_ms))
    {
        // This home has kept it already, and others may lack it.
        return spread(parts, to, event, None, first);
    }
    let keeps = parts.rooms.kept.keeping.of(to.namespace);
    let record = match keeps {
        // A reference is kept as its event would be.
        Some(keeps) if event.name == notices::LARGE => {
            let name = json::member(event.args, "\"event\"").and_then(json::unquote);
            keeps.record(event, name.as_deref().unwrap_or_default())
        }
        Some(keeps) if !notices::is_notice(event.name) => keeps.record(event, event.name),
        _ => Record::Passing,
    };
    let now_ms = parts.clock.now.wall_ms;
    // The room of a socket's id is that client's alone: nobody joins it later.
    let rooms = to.rooms.iter().copied().filter(|room| {
        let id = Id20::decode(room.as_bytes());
        !id.is_some_and(|id| id::may_be_socket(&id, now_ms))
    });
    if let Some(tap) = &parts.rooms.history_tap
        && !matches!(record, Record::Passing)
    {
        let author = parts.people.user_behind(event.author);
        tap.pass((to.namespace, rooms.clone()), event, author, now_ms);
    }
    let log = &mut parts.rooms.kept;
    let at = log.append(&mut parts.ids, to.namespace, rooms, record);
    if !faults::is_back(Fault::RecordApart) {
        spread(parts, to, event, at, first);
    }
}

/// Forgets on all nodes what these rooms keep; without rooms, what all rooms of the namespace keep.
pub(crate) fn forget(parts: &mut Parts, of: &Target<'_>, rooms: &[&str]) -> Reach {
    match home_of(parts, of.namespace) {
        Some(home) if home != parts.ids.me.shard => {
            let (namespace, rooms) = (of.namespace.to_owned(), owned(rooms));
            send::send_to(parts, home, RoomNews::Forget { namespace, rooms });
        }
        Some(_) => parts.rooms.kept.forget(of.namespace, rooms),
        None => return Reach::Everyone,
    }
    send::send_away(parts, of, Ask::Forget(rooms))
}

/// A socket that joined gets what is kept of the room. Until it is there, the member follows: it gets no kept events of the room.
fn catch_up(parts: &mut Parts, socket: SocketKey, name: &str) {
    let Some(slot) = parts.people.sockets.get(socket.id()) else {
        return;
    };
    let (id, namespace, session) = (slot.id, slot.namespace, slot.session);
    let Some(label) = parts.people.namespaces.label(namespace).map(Arc::clone) else {
        return;
    };
    let Some(home) = home_of(parts, &label) else {
        return;
    };
    let after = stream::resumes(&mut parts.people, session, name);
    if parts.rooms.arrivals.hide_the_past_of(&label) {
        // Members see nothing of before they joined, so nobody is asked for it.
        let nothing = Kept {
            events: String::new(),
            at: None,
            resumed: after.map(|_| false),
        };
        return tell_history(parts, socket, name, &nothing);
    }
    if home == parts.ids.me.shard {
        let log = &mut parts.rooms.kept;
        let kept = log.kept(&mut parts.ids, &label, name, after);
        return tell_history(parts, socket, name, &kept);
    }
    let Some(room) = parts.rooms.table.find(namespace, RoomKind::Named, name) else {
        return;
    };
    let sockets = &mut parts.people.sockets;
    if let Some(ticket) = parts.rooms.follow(sockets, socket.id(), room) {
        let request = RoomNews::Replay {
            namespace: label.to_string(),
            room: name.to_owned(),
            shard: parts.ids.me.shard,
            socket: id,
            ticket,
            after,
        };
        send::send_to(parts, home, request);
    }
}

/// Answers, at the home, a shard that asks for the history of a socket of its own.
pub(crate) fn replay(
    parts: &mut Parts,
    namespace: &str,
    room: &str,
    to: u16,
    socket: Id20,
    ticket: u64,
    after: Option<Position>,
) {
    let log = &mut parts.rooms.kept;
    let answer = RoomNews::Replayed {
        room: room.to_owned(),
        socket,
        ticket,
        kept: log.kept(&mut parts.ids, namespace, room, after),
    };
    send::send_to(parts, to, answer);
}

/// The history that a member of this shard waits for has come. A member that has left meanwhile, or joined again, waits for another one.
pub(crate) fn replayed(parts: &mut Parts, room: &str, socket: &Id20, ticket: u64, kept: &Kept) {
    let Some(index) = parts.people.sockets.find(socket) else {
        return;
    };
    let namespace = parts.people.sockets.get(index).map(|slot| slot.namespace);
    let found = namespace.and_then(|at| parts.rooms.table.find(at, RoomKind::Named, room));
    let sockets = &mut parts.people.sockets;
    if let Some(found) = found
        && parts.rooms.caught_up(sockets, index, found, ticket)
    {
        let key = parts.people.sockets.key(index);
        tell_history(parts, key, room, kept);
    }
}

/// A client that said what it has is told in any case whether these are all that it missed.
pub(crate) fn tell_history(parts: &mut Parts, socket: SocketKey, room: &str, kept: &Kept) {
    let at = kept
        .at
        .filter(|at| stream::is_told(&mut parts.people, socket, room, *at));
    if kept.events.is_empty() && kept.resumed.is_none() {
        if at.is_some() {
            stream::say_position(parts, socket);
        }
        return;
    }
    let mut args = b"{\"room\":".to_vec();
    wire::json::quote(&mut args, room);
    args.extend_from_slice(b",\"messages\":[");
    args.extend_from_slice(kept.events.as_bytes());
    args.extend_from_slice(match kept.resumed {
        None => b"]}",
        Some(true) => b"],\"resumed\":true}",
        Some(false) => b"],\"resumed\":false}",
    });
    let args = String::from_utf8_lossy(&args);
    let history = Emit::new(notices::HISTORY, &args);
    // The journal notes the history before the history itself: what rooms kept by then is in it (`Journal::told`).
    parking::tells_history(parts, socket, room);
    Member::new(parts, socket).emit_history(&history, room, at);
}
