//! The one door by which events are published to rooms.
//!
//! A room whose events are kept has a home shard, the same for all shards. Its events go there first: the home keeps the event,
//! gives it its position and sends it on, to all shards in one order. A shard asks the home for the history of a socket that
//! joined, and sends that socket no kept events until the answer is there. What the home sends to one shard arrives in order, so
//! the history ends exactly where the live stream begins: no event is missed, none comes twice, and all members see one order.

use crate::cluster::letter::{Address, Broadcast, Order, RoomNews, Target};
use crate::cluster::wire::Ask;
use crate::life::stream;
use crate::parts::Parts;
use crate::rooms::log::{Kept, Position};
use crate::rooms::membership::NewCount;
use crate::rooms::outgoing::Outgoing;
use crate::rooms::room::RoomKind;
use crate::seam::context::{Context, Emit};
use crate::seam::inside::Inside;
use crate::seam::notices;
use crate::tables::slot::SocketKey;
use std::hash::{BuildHasher, Hasher};
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

/// An event on its way to rooms. `record` needs rooms in `to`: what is for a whole namespace or for users is not kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Publication<'a> {
    pub to: Target<'a>,
    pub event: Emit<'a>,
    pub record: Record<'a>,
}

/// Who a publication is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Everyone,
    /// Other nodes cannot be reached, and too much waits for them: only this node's members got it.
    ThisNode,
}

impl Context<'_> {
    /// Sends an event to everyone the target means, and keeps it for clients that join its rooms later. HOT PATH.
    pub fn publish(&mut self, publication: &Publication<'_>) -> Reach {
        let _inside = Inside::enter();
        if !self.may_emit(&publication.event) {
            return Reach::Everyone;
        }
        let reach = self.parts.reach();
        self.publish_by(publication);
        reach
    }

    fn publish_by(&mut self, publication: &Publication<'_>) {
        let Publication { to, event, record } = publication;
        let kept = match record {
            Record::Nothing => return self.parts.publish(to, event),
            Record::Passing => None,
            Record::Kept(text) => Some(*text),
        };
        if to.rooms.is_empty() || !to.users.is_empty() {
            return self.parts.publish(to, event);
        }
        for (n, room) in to.rooms.iter().enumerate() {
            // A socket in several of the rooms gets the event by the first of them.
            let except = [to.except, &to.rooms[..n]].concat();
            let one = Target {
                namespace: to.namespace,
                rooms: &[room],
                users: &[],
                except: &except,
            };
            self.parts.sequence(&one, event, kept);
        }
    }

    /// Sends a socket that has just joined a room the event `history` `{room, messages}`, if something is kept of the room,
    /// and behind it what is published from then on.
    pub fn replay(&mut self, socket: SocketKey, room: &str) {
        let _inside = Inside::enter();
        if self.parts.people.socket(socket).is_some() {
            self.parts.catch_up(socket, room);
        }
    }
}

fn broadcast(to: &Target<'_>, event: &Emit<'_>) -> Broadcast {
    Broadcast {
        to: Address::from(to),
        name: event.name.to_owned(),
        args: event.args.to_owned(),
        attachments: event.attachments.to_vec(),
        volatile: event.volatile,
        at: None,
    }
}

/// Shard that gives the events of a room their order, and keeps them: the same answer on every shard.
pub(crate) fn home(namespace: &str, room: &str, shards: u16) -> u16 {
    if shards == 1 {
        return 0;
    }
    let mut hasher = foldhash::quality::FixedState::with_seed(0).build_hasher();
    hasher.write(namespace.as_bytes());
    hasher.write_u8(0);
    hasher.write(room.as_bytes());
    (hasher.finish() % u64::from(shards)) as u16
}

impl Parts {
    /// Tells the other shards of counts that changed; returns what the handler is to be told.
    pub(crate) fn announce_changes(&mut self) -> Vec<NewCount> {
        let now_ms = self.clock.now.mono_ms;
        let counts = self.rooms.new_counts(&mut self.people, now_ms);
        for count in counts.iter().filter(|count| !count.announce.is_empty()) {
            let (namespace, room) = (Arc::clone(&count.namespace), Arc::clone(&count.room));
            self.send_all(count.announce, RoomNews::Changed { namespace, room });
        }
        counts
    }

    /// Sends an event to all shards with receivers, this one included.
    fn publish(&mut self, to: &Target<'_>, event: &Emit<'_>) {
        let shards = self.shards_of(to);
        if !shards.is_empty() {
            self.send_all(shards, Order::Broadcast(broadcast(to, event), None));
        }
        self.send_away(to, Ask::Event(event));
        self.audience().fan_out(to, &mut Outgoing::event(to, event));
    }

    fn home(&self, namespace: &str, room: &str) -> u16 {
        home(namespace, room, self.ids.me.shards)
    }

    /// Brings an event for one room to the room's home.
    fn sequence(&mut self, to: &Target<'_>, event: &Emit<'_>, kept: Option<&str>) {
        let home = self.home(to.namespace, to.rooms[0]);
        if home == self.ids.me.shard {
            return self.append(to, event, kept);
        }
        let kept = kept.map(str::to_owned);
        self.send(home, RoomNews::Append(broadcast(to, event), kept));
    }

    /// At the home: the event is kept and sent to all members in one step, so that no other comes between.
    pub(crate) fn append(&mut self, to: &Target<'_>, event: &Emit<'_>, kept: Option<&str>) {
        self.send_away(to, Ask::Kept(event, kept));
        self.append_here(to, event, kept);
    }

    /// The same without other nodes, each of which keeps what its members got.
    pub(crate) fn append_here(&mut self, to: &Target<'_>, event: &Emit<'_>, kept: Option<&str>) {
        let now_ms = self.clock.now.wall_ms;
        let [room] = to.rooms else {
            debug_assert!(false, "one room has one home: {:?}", to.rooms);
            return;
        };
        let at = kept.and_then(|text| self.rooms.kept.append(to.namespace, room, text, now_ms));
        let shards = self.shards_of(to);
        if !shards.is_empty() {
            let mut copy = broadcast(to, event);
            copy.at = at;
            self.send_all(shards, Order::Broadcast(copy, None));
        }
        let mut out = Outgoing::event(to, event);
        out.at = at;
        self.audience().fan_out(to, &mut out);
    }

    /// A socket that joined gets what is kept of the room. Until it is there, the member follows: it gets no kept events.
    fn catch_up(&mut self, socket: SocketKey, name: &str) {
        let Some(slot) = self.people.sockets.get(socket.id()) else {
            return;
        };
        let (id, namespace, session) = (slot.id, slot.namespace, slot.session);
        let Some(label) = self.people.namespaces.get(namespace) else {
            return;
        };
        let label = label.name.clone();
        let home = self.home(&label, name);
        let after = stream::resumes(self, session, name);
        if home == self.ids.me.shard {
            let kept = self.rooms.kept.kept(&label, name, after);
            return self.tell_history(socket, name, &kept);
        }
        let Some(room) = self.rooms.find(namespace, RoomKind::Named, name) else {
            return;
        };
        let sockets = &mut self.people.sockets;
        if let Some(ticket) = self.rooms.follow(sockets, socket.id(), room) {
            let request = RoomNews::Replay {
                namespace: label.to_string(),
                room: name.to_owned(),
                shard: self.ids.me.shard,
                socket: id,
                ticket,
                after,
            };
            self.send(home, request);
        }
    }

    /// At the home: a shard asks for the history of a socket of its own.
    pub(crate) fn replay(
        &mut self,
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
            kept: self.rooms.kept.kept(namespace, room, after),
        };
        self.send(to, answer);
    }

    /// The history that a member of this shard waits for. One that has left meanwhile, or joined again, waits for another.
    pub(crate) fn replayed(&mut self, room: &str, socket: &Id20, ticket: u64, kept: &Kept) {
        let Some(index) = self.people.find_socket(socket) else {
            return;
        };
        let namespace = self.people.sockets.get(index).map(|slot| slot.namespace);
        let found = namespace.and_then(|at| self.rooms.find(at, RoomKind::Named, room));
        let sockets = &mut self.people.sockets;
        if let Some(found) = found
            && self.rooms.caught_up(sockets, index, found, ticket)
        {
            let key = self.people.socket_key(index);
            self.tell_history(key, room, kept);
        }
    }

    /// A client that said what it has is told in any case whether these are all that it missed.
    pub(crate) fn tell_history(&mut self, socket: SocketKey, room: &str, kept: &Kept) {
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
        let history = Emit {
            name: notices::HISTORY,
            args: &args,
            ..Emit::default()
        };
        Context { parts: self }.emit_with(socket, &history, None, Some(room));
        if let Some(at) = kept.at {
            stream::note_position(self, socket, at);
        }
    }
}
