//! The shards that letters go to: those with somebody that a target may mean.

use crate::cluster::letter::{Found, Letter, More, Response, Return, RoundId, Scope, Target};
use crate::cluster::wire::Ask;
use crate::parts::Parts;
use crate::recovery::circle::Door;
use crate::rooms::directory::RoomName;
use crate::rooms::room::RoomKind;
use crate::seam::effect::Effect;
use crate::tables::id;
use crate::tables::id::Ids;
use crate::tables::shards::ShardSet;
use std::sync::Arc;
use wire::base64url::Id20;

/// How far a publication gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All receivers, on whichever node.
    Everyone,
    /// Other nodes cannot be reached, and too much waits for them: only this node's members got it.
    ThisNode,
    /// What all nodes read cannot be written: nobody gets it.
    Nobody,
}

impl Reach {
    /// The shorter one.
    pub(crate) fn and(self, other: Self) -> Self {
        match self {
            Self::Everyone => other,
            short => short,
        }
    }
}

/// Other shards that have somebody that the target may mean.
pub(crate) fn shards_of(parts: &Parts, target: &Target<'_>) -> ShardSet {
    let mut set = ShardSet::default();
    if parts.ids.me.shards == 1 {
        return set;
    }
    if target.rooms.is_empty() && target.users.is_empty() {
        set = members_elsewhere(parts, target.namespace, RoomKind::All, "");
    }
    for name in target.rooms {
        set = set.union(members_elsewhere(
            parts,
            target.namespace,
            RoomKind::Named,
            name,
        ));
        // A socket's own room is on its shard, and no card tells of it.
        if let Some(id) = Id20::decode(name.as_bytes()) {
            let owner = id::socket_owner(&id);
            if owner.node == parts.ids.me.node && owner.shard < parts.ids.me.shards {
                set.insert(owner.shard);
            }
        }
    }
    if !target.users.is_empty() {
        // A user's few sockets may be anywhere, and their shards tell nobody: asking all costs less than knowing.
        return other_shards(&parts.ids);
    }
    set.remove(parts.ids.me.shard);
    set
}

fn members_elsewhere(parts: &Parts, namespace: &str, kind: RoomKind, name: &str) -> ShardSet {
    let room = RoomName {
        namespace,
        kind,
        name,
    };
    parts
        .rooms
        .table
        .shards_of(parts.people.namespaces.find(namespace), room)
}

pub(crate) fn send_to(parts: &mut Parts, shard: u16, letter: impl Into<Letter>) {
    let mut one = ShardSet::default();
    one.insert(shard);
    send_all(parts, one, letter);
}

/// Every letter to another shard goes through here: it is charged to the turn, and its sender waits for long mailboxes.
pub(crate) fn send_all(parts: &mut Parts, shards: ShardSet, letter: impl Into<Letter>) {
    hand_on(parts, shards, &Arc::new(letter.into()));
}

/// The same for a letter that came from elsewhere.
pub(crate) fn hand_on(parts: &mut Parts, shards: ShardSet, letter: &Arc<Letter>) {
    let bytes = letter.bytes();
    for shard in shards.iter() {
        parts.books.counts.relayed += 1;
        parts.line.budget.post(bytes);
        parts.outbound.push(Effect::Send {
            shard,
            letter: Arc::clone(letter),
        });
    }
    wait_for(parts, shards);
}

/// The client that speaks now is read again when the mailboxes of these shards are short.
pub(crate) fn wait_for(parts: &mut Parts, shards: ShardSet) {
    let limits = &parts.books.config.limits;
    for shard in shards.iter() {
        if parts.line.intake.loads.is_long(shard, limits) {
            parts.line.intake.wait_for(shard);
        }
    }
}

/// Whether there may be other nodes that are concerned.
pub(crate) fn has_away(parts: &Parts, to: &Target<'_>) -> bool {
    parts.away.is_some() && to.scope == Scope::Everywhere
}

/// Whether letters to other nodes are taken now.
pub(crate) fn has_room(parts: &Parts) -> bool {
    !parts.away.as_ref().is_some_and(|away| away.is_full())
}

/// How far something gets now; what does not reach other nodes is counted.
pub(crate) fn reach(parts: &mut Parts, to: &Target<'_>) -> Reach {
    if has_away(parts, to) && !has_room(parts) {
        parts.books.counts.away_refused += 1;
        return Reach::ThisNode;
    }
    Reach::Everyone
}

/// Asks the sockets that a target means on other nodes for something, unless too much waits for them already.
#[must_use = "somebody must be told that other nodes were not asked"]
pub(crate) fn send_away(parts: &mut Parts, to: &Target<'_>, ask: Ask<'_>) -> Reach {
    let reach = reach(parts, to);
    if reach == Reach::Everyone {
        let_in(parts, to, ask);
    }
    reach
}

/// The same, after the question whether there is room.
pub(crate) fn let_in(parts: &mut Parts, to: &Target<'_>, ask: Ask<'_>) {
    if to.scope != Scope::Everywhere {
        return;
    }
    if let Some(away) = &mut parts.away {
        let bytes = away.ask(to, ask, parts.clock.now.wall_ms);
        parts.line.budget.post(bytes);
        parts.books.counts.sent_away += 1;
    }
}

/// Tells one node something. `false`: too much waits for other nodes.
pub(crate) fn tell_node(parts: &mut Parts, node: u16, to: &Target<'_>, ask: Ask<'_>) -> bool {
    let Some(away) = parts.away.as_mut().filter(|away| !away.is_full()) else {
        return false;
    };
    let bytes = away.tell(node, to, ask);
    parts.line.budget.post(bytes);
    parts.books.counts.sent_away += 1;
    true
}

/// An answer to another node always leaves: its asker waits, and there are no more answers than were asked for. A list of sockets leaves
/// without its content where it would keep clients from publishing: the asker is told that it is incomplete.
pub(crate) fn respond_away(parts: &mut Parts, of: RoundId, response: &Response) {
    if let Some(away) = &mut parts.away {
        let empty = Response::Sockets(Found {
            sockets: Vec::new(),
            complete: false,
        });
        let response = match response {
            Response::Sockets(_) if !away.has_room_for_list(response.bytes()) => {
                parts.books.counts.away_refused += 1;
                &empty
            }
            _ => response,
        };
        let bytes = away.respond(of, response);
        parts.line.budget.post(bytes);
        parts.books.counts.sent_away += 1;
    }
}

/// Asks for the next page of a list. The question always leaves: no more than one page is asked for at a time.
pub(crate) fn ask_more_away(parts: &mut Parts, node: u16, shard: u16, more: &More) {
    if let Some(away) = &mut parts.away {
        let bytes = away.more(node, shard, more);
        parts.line.budget.post(bytes);
        parts.books.counts.sent_away += 1;
    }
}

/// Sends a step by which a shard takes a socket from a shard of another node. It always leaves: somebody waits, and claims are bounded.
pub(crate) fn step_away(parts: &mut Parts, node: u16, door: Door, step: &Return) {
    if let Some(away) = &mut parts.away {
        let bytes = away.step(node, door, step);
        parts.line.budget.post(bytes);
        parts.books.counts.sent_away += 1;
    }
}

/// What the turn has for other nodes leaves.
pub(crate) fn post_parcel(parts: &mut Parts) {
    note_interest(parts);
    if let Some(parcel) = parts.away.as_mut().and_then(|away| away.take()) {
        parts.outbound.push(Effect::Away(parcel));
    }
}

/// Other nodes will be told what this hub has members of.
pub(crate) fn note_interest(parts: &mut Parts) {
    if let Some(away) = &mut parts.away {
        away.note(&mut parts.people.interest);
    }
}

fn other_shards(ids: &Ids) -> ShardSet {
    let mut set = ShardSet::first(ids.me.shards);
    set.remove(ids.me.shard);
    set
}
