//! The one door by which events are published to rooms.
//!
//! A room whose events are kept has a home shard, the same for all shards. Its events go there first: the home keeps the event,
//! gives it its position and sends it on, to all shards in one order. A shard asks the home for the history of a socket that
//! joined, and sends that socket no kept events until the answer is there. What the home sends to one shard arrives in order, so
//! the history ends exactly where the live stream begins: no event is missed, none comes twice, and all members see one order.

use crate::books::faults::{self, Fault};
use crate::cluster::letter::{Broadcast, Order, RoomNews, Target};
use crate::cluster::send::{self, Reach};
use crate::cluster::wire::Ask;
use crate::dialect::speech::Emit;
use crate::life::stream;
use crate::parts::Parts;
use crate::rooms::log::{Kept, Position, home};
use crate::rooms::membership::NewCount;
use crate::rooms::outgoing::Outgoing;
use crate::rooms::room::RoomKind;
use crate::seam::inside::Inside;
use crate::seam::member::Member;
use crate::seam::notices;
use crate::tables::slot::SocketKey;
use std::sync::Arc;
use wire::base64url::Id20;

/// What clients that join later get of an event.
#[derive(Clone, Copy, Debug, Default)]
pub enum Record<'a> {
    /// Its rooms keep nothing: it takes the shortest way.
    #[default]
    Nothing,
    /// Its rooms keep other events, among which it has its place; it is not kept itself.
    Passing,
    /// This raw JSON, in the `messages` of the `history` event.
    Kept(&'a str),
}

impl Member<'_> {
    /// Sends it, when it has just joined a room, the event `history` `{room, messages}`, if something is kept of the room, and
    /// behind it what is published from then on.
    pub fn replay(&mut self, room: &str) {
        let _inside = Inside::enter();
        if self.live().is_some() {
            catch_up(self.parts, self.key(), room);
        }
    }
}

/// Sends an event to everyone the target means, and keeps it for clients that join its rooms later. HOT PATH.
pub(crate) fn publish_by(
    parts: &mut Parts,
    to: &Target<'_>,
    event: &Emit<'_>,
    record: Record<'_>,
) -> Reach {
    let kept = match record {
        Record::Nothing => return publish(parts, to, event),
        Record::Passing => None,
        Record::Kept(text) => Some(text),
    };
    if to.rooms.is_empty() || !to.users.is_empty() {
        return publish(parts, to, event);
    }
    let reach = send::reach(parts);
    for (n, room) in to.rooms.iter().enumerate() {
        // A socket in several of the rooms gets the event by the first of them.
        let except = [to.except, &to.rooms[..n]].concat();
        let one = Target {
            rooms: &[room],
            except: &except,
            ..*to
        };
        sequence(parts, &one, event, kept, reach);
    }
    reach
}

/// Tells the other shards of counts that changed; returns what the handler is to be told.
pub(crate) fn announce_changes(parts: &mut Parts) -> Vec<NewCount> {
    let now_ms = parts.clock.now.mono_ms;
    if parts.counts_nodes {
        parts.rooms.nodes_take_counts(send::has_room(parts));
    }
    let counts = parts.rooms.new_counts(&mut parts.people, now_ms);
    if parts.counts_nodes {
        counts.iter().for_each(|count| tell_nodes(parts, count));
    }
    for count in counts.iter().filter(|count| !count.announce.is_empty()) {
        let (namespace, room) = (Arc::clone(&count.namespace), Arc::clone(&count.room));
        send::send_all(parts, count.announce, RoomNews::Changed { namespace, room });
    }
    counts
}

fn tell_nodes(parts: &mut Parts, count: &NewCount) {
    let Some((members, asks)) = count.away else {
        return;
    };
    let to = Target {
        namespace: &count.namespace,
        rooms: &[&count.room],
        ..Target::default()
    };
    let shard = parts.ids.me.shard;
    let ask = Ask::Count {
        shard,
        members,
        asks,
    };
    // Rooms whose news find no room wait: [`Rooms::nodes_take_counts`](crate::rooms::room::Rooms::nodes_take_counts).
    send::let_in(parts, &to, ask);
}

/// Sends an event to all shards and nodes with receivers, this one included.
pub(crate) fn publish(parts: &mut Parts, to: &Target<'_>, event: &Emit<'_>) -> Reach {
    let shards = send::shards_of(parts, to);
    if !shards.is_empty() {
        send::send_all(
            parts,
            shards,
            Order::Broadcast(Broadcast::new(to, event), None),
        );
    }
    let reach = send::send_away(parts, to, Ask::Event(event));
    parts
        .audience()
        .fan_out(to, &mut Outgoing::event(to, event));
    reach
}

fn home_of(parts: &Parts, namespace: &str, room: &str) -> u16 {
    home(namespace, room, parts.ids.me.shards)
}

/// Brings an event for one room to the room's home.
fn sequence(
    parts: &mut Parts,
    to: &Target<'_>,
    event: &Emit<'_>,
    kept: Option<&str>,
    reach: Reach,
) {
    let home = home_of(parts, to.namespace, to.rooms[0]);
    if faults::is_back(Fault::RecordApart) {
        publish(parts, to, event);
    }
    match (home == parts.ids.me.shard, reach) {
        (true, Reach::Everyone) => return append(parts, to, event, kept),
        (true, Reach::ThisNode) => return append_here(parts, to, event, kept),
        (false, _) => {}
    }
    let (event, kept) = (Broadcast::new(to, event), kept.map(str::to_owned));
    let news = match reach {
        Reach::Everyone => RoomNews::Append(event, kept),
        Reach::ThisNode => RoomNews::Arrived(event, kept),
    };
    send::send_to(parts, home, news);
}

/// At the home: the event is kept and sent to all members in one step, so that no other comes between.
pub(crate) fn append(parts: &mut Parts, to: &Target<'_>, event: &Emit<'_>, kept: Option<&str>) {
    // The publisher's shard has asked whether there is room, and told the publisher.
    send::let_in(parts, to, Ask::Kept(event, kept));
    append_here(parts, to, event, kept);
}

/// The same without other nodes, each of which keeps what its members got.
pub(crate) fn append_here(
    parts: &mut Parts,
    to: &Target<'_>,
    event: &Emit<'_>,
    kept: Option<&str>,
) {
    let now_ms = parts.clock.now.wall_ms;
    let [room] = to.rooms else {
        debug_assert!(false, "one room has one home: {:?}", to.rooms);
        return;
    };
    let at = kept.and_then(|text| parts.rooms.kept.append(to.namespace, room, text, now_ms));
    if faults::is_back(Fault::RecordApart) {
        return;
    }
    let shards = send::shards_of(parts, to);
    if !shards.is_empty() {
        let mut copy = Broadcast::new(to, event);
        copy.at = at;
        send::send_all(parts, shards, Order::Broadcast(copy, None));
    }
    let mut out = Outgoing::event(to, event);
    out.at = at;
    parts.audience().fan_out(to, &mut out);
}

/// A socket that joined gets what is kept of the room. Until it is there, the member follows: it gets no kept events.
fn catch_up(parts: &mut Parts, socket: SocketKey, name: &str) {
    let Some(slot) = parts.people.sockets.get(socket.id()) else {
        return;
    };
    let (id, namespace, session) = (slot.id, slot.namespace, slot.session);
    let Some(label) = parts.people.label(namespace) else {
        return;
    };
    let label = Arc::clone(label);
    let home = home_of(parts, &label, name);
    let after = stream::resumes(&mut parts.people, session, name);
    if home == parts.ids.me.shard {
        let kept = parts.rooms.kept.kept(&label, name, after);
        return tell_history(parts, socket, name, &kept);
    }
    let Some(room) = parts.rooms.find(namespace, RoomKind::Named, name) else {
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

/// At the home: a shard asks for the history of a socket of its own.
pub(crate) fn replay(
    parts: &mut Parts,
    namespace: &str,
    room: &str,
    to: u16,
    socket: Id20,
    ticket: u64,
    after: Option<Position>,
) {
    let answer = RoomNews::Replayed {
        room: room.to_owned(),
        socket,
        ticket,
        kept: parts.rooms.kept.kept(namespace, room, after),
    };
    send::send_to(parts, to, answer);
}

/// The history that a member of this shard waits for. One that has left meanwhile, or joined again, waits for another.
pub(crate) fn replayed(parts: &mut Parts, room: &str, socket: &Id20, ticket: u64, kept: &Kept) {
    let Some(index) = parts.people.find_socket(socket) else {
        return;
    };
    let namespace = parts.people.sockets.get(index).map(|slot| slot.namespace);
    let found = namespace.and_then(|at| parts.rooms.find(at, RoomKind::Named, room));
    let sockets = &mut parts.people.sockets;
    if let Some(found) = found
        && parts.rooms.caught_up(sockets, index, found, ticket)
    {
        let key = parts.people.socket_key(index);
        tell_history(parts, key, room, kept);
    }
}

/// A client that said what it has is told in any case whether these are all that it missed.
pub(crate) fn tell_history(parts: &mut Parts, socket: SocketKey, room: &str, kept: &Kept) {
    if kept.events.is_empty() && kept.resumed.is_none() {
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
    Member::new(parts, socket).emit_with(&history, None, Some(room));
    if let Some(at) = kept.at {
        stream::note_position(parts, socket, at);
    }
}
