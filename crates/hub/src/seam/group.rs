//! The sockets that an event is for, as a handler acts on them: on every shard and node, or on this shard only.

use crate::cluster::letter::{Scope, Target};
use crate::cluster::send::Reach;
use crate::cluster::wire::Ask;
use crate::cluster::{asking, listing, send};
use crate::dialect::notices;
use crate::dialect::speech::Emit;
use crate::life::ending;
use crate::parts::Parts;
use crate::rooms::outgoing::Outgoing;
use crate::seam::context::{Context, may_emit, millis};
use crate::seam::inside::Inside;
use crate::seam::member::Member;
use crate::seam::orders;
use crate::seam::publish;
use crate::seam::told::{Collected, Told};
use crate::tables::shards::ShardSet;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;
use wire::base64url::Id20;

/// The sockets that something is for, wherever they are: all of a namespace, or those that `to` and `to_users` name, less those
/// that `except` names.
#[derive(Debug)]
#[must_use = "a group does nothing by itself: emit to it"]
pub struct Group<'a, 't> {
    parts: &'a mut Parts,
    to: Target<'t>,
    /// The socket that speaks: the group is of its namespace, and without it.
    speaker: Option<(Arc<str>, Id20)>,
}

impl<'a> Context<'a> {
    /// All sockets of a namespace, on every shard and node; [`Group::to`] and [`Group::except`] choose among them.
    pub fn of<'t>(&mut self, namespace: &'t str) -> Group<'_, 't> {
        let to = Target {
            namespace,
            ..Target::default()
        };
        Group {
            parts: self.parts,
            to,
            speaker: None,
        }
    }

    /// What is about to be published in the namespace reaches other nodes by ways of their own. It has no place in the order of the nodes,
    /// so sockets that come back stay at their node.
    pub fn speaks_apart(&mut self, namespace: &str) {
        let recover = self.parts.books.config.recovery.of(namespace);
        // Only sockets that go from node to node are concerned (ADR 59).
        if recover.is_some_and(|recover| recover.goes_abroad)
            && let Some(away) = &self.parts.away
        {
            away.speaks_apart(namespace, self.parts.clock.now.mono_ms);
        }
    }
}

impl<'a> Member<'a> {
    /// The members of these rooms but the socket itself, in its namespace; with no rooms all other sockets of the namespace.
    pub fn to<'t>(&mut self, rooms: &'t [&'t str]) -> Group<'_, 't> {
        let slot = self.known();
        let speaker = slot.and_then(|slot| {
            let namespace = self.parts.people.namespaces.label(slot.namespace)?;
            Some((Arc::clone(namespace), slot.id))
        });
        Group {
            parts: self.parts,
            // Without such a socket the group is nobody: no namespace has an empty name.
            to: Target {
                rooms,
                ..Target::default()
            },
            speaker,
        }
    }
}

impl<'a, 't> Group<'a, 't> {
    /// Only sockets in these rooms. A socket's id is the name of a room that holds just that socket.
    pub fn to(mut self, rooms: &'t [&'t str]) -> Self {
        self.to.rooms = rooms;
        self
    }

    /// Only sockets of these users; with [`to`](Self::to): those, too.
    pub fn to_users(mut self, users: &'t [&'t str]) -> Self {
        self.to.users = users;
        self
    }

    /// No sockets in these rooms.
    pub fn except(mut self, rooms: &'t [&'t str]) -> Self {
        self.to.except = rooms;
        self
    }

    /// No sockets of these nodes: the application tells them itself.
    pub fn without(mut self, nodes: &'t [u16]) -> Self {
        self.to.without = nodes;
        self
    }

    /// Only those of this node.
    pub fn local(mut self) -> Self {
        self.to.scope = Scope::Node;
        self
    }

    /// Only those of this shard.
    pub fn here(self) -> Here<'a, 't> {
        Here(self)
    }

    /// Only those of this shard, for a command that each shard is told by itself; with `leads` also those of other nodes.
    pub fn apart(mut self, leads: bool) -> Apart<'a, 't> {
        if !leads {
            self.to.scope = Scope::Node;
        }
        Apart { group: self, leads }
    }

    /// Only those of other nodes.
    pub fn away(self) -> Away<'a, 't> {
        Away(self)
    }

    /// The group as one target.
    #[inline]
    fn with<R>(self, act: impl FnOnce(&mut Parts, &Target<'_>) -> R) -> R {
        let Some((namespace, id)) = &self.speaker else {
            return act(self.parts, &self.to);
        };
        let id = id.encode();
        let mut except = SmallVec::<[&str; 4]>::from_slice(self.to.except);
        // The room of its own id leaves the speaker out.
        except.extend(std::str::from_utf8(&id));
        let to = Target {
            namespace,
            except: &except,
            ..self.to
        };
        act(self.parts, &to)
    }
}

impl Group<'_, '_> {
    /// Sends them an event, and says whether other nodes will do it, too. HOT PATH.
    pub fn emit(self, event: &Emit<'_>) -> Reach {
        let _inside = Inside::enter();
        if !may_emit(&mut self.parts.outbound, event) {
            return Reach::Everyone;
        }
        self.with(|parts, to| publish::publish(parts, to, event))
    }

    /// Sends them an event that wants an ack; `Handler::collected` follows.
    pub fn collect(self, event: &Emit<'_>, timeout: Duration, token: u64) {
        let _inside = Inside::enter();
        self.collect_of(send::shards_of, event, timeout, token);
    }

    fn collect_of(self, shards: ShardsOf, event: &Emit<'_>, timeout: Duration, token: u64) {
        if !may_emit(&mut self.parts.outbound, event) {
            // The handler gets an answer in any case, as its contract says.
            let collected = Collected::default();
            let told = Told::Collected { token, collected };
            return self.parts.outbound.tell(told);
        }
        self.with(|parts, to| {
            let mut out = Outgoing::event(to, event);
            let shards = shards(parts, to);
            asking::collect(parts, to, shards, &mut out, millis(timeout), token);
        });
    }

    /// Asks who they are; `Handler::found` follows.
    pub fn fetch(self, timeout: Duration, token: u64) {
        let _inside = Inside::enter();
        self.fetch_of(send::shards_of, timeout, token);
    }

    fn fetch_of(self, shards: ShardsOf, timeout: Duration, token: u64) {
        let _inside = Inside::enter();
        self.with(|parts, to| {
            let shards = shards(parts, to);
            listing::fetch(parts, to, shards, millis(timeout), token);
        });
    }

    /// Lets them join rooms.
    pub fn join(self, rooms: &[&str]) -> Reach {
        let _inside = Inside::enter();
        self.with(|parts, of| orders::join_all(parts, of, rooms))
    }

    /// Lets them leave rooms.
    pub fn leave(self, rooms: &[&str]) -> Reach {
        let _inside = Inside::enter();
        self.with(|parts, of| orders::leave_all(parts, of, rooms))
    }

    /// Lets rooms forget the events that they keep for members that join; without rooms, all rooms of the namespace do. That is not of the
    /// group alone.
    pub fn forget(self, rooms: &[&str]) -> Reach {
        let _inside = Inside::enter();
        self.with(|parts, of| publish::forget(parts, of, rooms))
    }

    /// Ends their memberships in the namespace; with `close` their sessions.
    pub fn disconnect(self, close: bool) -> Reach {
        let _inside = Inside::enter();
        self.with(|parts, of| orders::disconnect_all(parts, of, close))
    }
}

/// The part of a group that is on this shard; with `leads`, also the part on other nodes. Every shard asks its own part and one of them
/// leads: so the whole group is asked, and on each shard in order with all else that the shard is told.
#[derive(Debug)]
#[must_use = "a group does nothing by itself: ask it"]
pub struct Apart<'a, 't> {
    group: Group<'a, 't>,
    leads: bool,
}

impl Apart<'_, '_> {
    /// Sends them an event. In a namespace that keeps events only the shard that leads publishes it, by their home, to all of the group.
    pub fn emit(self, event: &Emit<'_>) {
        let _inside = Inside::enter();
        let Self { group, leads } = self;
        if may_emit(&mut group.parts.outbound, event) {
            group.with(|parts, to| publish::publish_apart(parts, to, event, leads));
        }
    }

    /// Sends them an event that wants an ack; `Handler::collected` follows on this shard.
    pub fn collect(self, event: &Emit<'_>, timeout: Duration, token: u64) {
        let _inside = Inside::enter();
        self.group.collect_of(no_shards, event, timeout, token);
    }

    /// Asks who they are; `Handler::found` follows on this shard.
    pub fn fetch(self, timeout: Duration, token: u64) {
        let _inside = Inside::enter();
        self.group.fetch_of(no_shards, timeout, token);
    }
}

/// Which other shards of this node are asked.
type ShardsOf = fn(&Parts, &Target<'_>) -> ShardSet;

fn no_shards(_: &Parts, _: &Target<'_>) -> ShardSet {
    ShardSet::default()
}

/// The part of a group that is on other nodes. With [`Here`] on every shard, it is the whole group.
#[derive(Debug)]
#[must_use = "a group does nothing by itself: emit to it"]
pub struct Away<'a, 't>(Group<'a, 't>);

impl Away<'_, '_> {
    /// Puts them into rooms.
    pub fn join(self, rooms: &[&str]) {
        let _inside = Inside::enter();
        self.ask(Ask::Join(rooms));
    }

    /// Takes them out of rooms.
    pub fn leave(self, rooms: &[&str]) {
        let _inside = Inside::enter();
        self.ask(Ask::Leave(rooms));
    }

    /// Ends their memberships in the namespace; with `close` their sessions.
    pub fn disconnect(self, close: bool) {
        let _inside = Inside::enter();
        self.ask(Ask::Disconnect { close });
    }

    fn ask(self, ask: Ask<'_>) {
        // An order that finds no room is counted; nobody waits to be told.
        let _ = self.0.with(|parts, to| send::send_away(parts, to, ask));
    }
}

/// The part of a group that is on this shard. A letter to another shard is for that shard alone.
#[derive(Debug)]
#[must_use = "a group does nothing by itself: emit to it"]
pub struct Here<'a, 't>(Group<'a, 't>);

impl Here<'_, '_> {
    /// Tells them something in the gateway's own name. It is no publication: it has no place among the events of rooms.
    pub fn notice(self, notice: &Emit<'_>) {
        let _inside = Inside::enter();
        debug_assert!(
            notices::is_notice(notice.name),
            "{} is no notice",
            notice.name
        );
        self.0.with(|parts, to| {
            let mut out = Outgoing::event(to, notice);
            out.passes = true;
            parts.audience().fan_out(to, &mut out);
        });
    }

    /// Puts them into rooms. With the news of it comes `by` ([`Handler::moved`](crate::Handler::moved)).
    pub fn join(self, rooms: &[&str], by: u64) {
        let _inside = Inside::enter();
        self.0
            .with(|parts, of| orders::join_selected(parts, of, rooms, by));
    }

    /// Takes them out of rooms, likewise.
    pub fn leave(self, rooms: &[&str], by: u64) {
        let _inside = Inside::enter();
        self.0
            .with(|parts, of| orders::leave_selected(parts, of, rooms, by));
    }

    /// Ends their memberships in the namespace; with `close` their sessions.
    pub fn disconnect(self, close: bool) {
        let _inside = Inside::enter();
        self.0
            .with(|parts, of| ending::disconnect_selected(parts, of, close));
    }
}
