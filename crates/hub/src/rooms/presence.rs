//! Who is in a room, by user: many sockets of one user are one member, and a socket without a user is one by itself.
//!
//! Each shard tells the others that have the room, and other nodes, of its own people; nobody else speaks for them. A word is a
//! change since the one before it, by number, or all that the shard has. So every shard answers from its own copy. A word that
//! does not follow the last one is not used, and all shards are asked for all they have.

mod roll;
mod word;

use crate::books::config::PresenceOf;
use crate::clients::people::People;
use crate::tables::id::Place;
use crate::tables::slot::{RoomId, SocketId};
use roll::{Due, Roll};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
pub(crate) use word::Word;
pub use word::{Person, Presence, Who};

/// The people of a node that went, or of which something was missed, stay for so long. By then those of a node that is dead have come
/// back to another, and one that is not has said all it has.
const DOUBT_MS: u64 = 3_000;
/// A room that a program asked for is heard of for so long.
const WATCH_MS: u64 = 60_000;
/// Rooms without members here that programs asked for.
const WATCHED_MAX: usize = 1_000;

/// The rooms of a shard whose members are told who is there.
#[derive(Debug, Default)]
pub(crate) struct Rolls {
    rules: BTreeMap<String, Option<Arc<PresenceOf>>>,
    rolls: HashMap<RoomId, Roll>,
    /// Words that were said of any room: the next one has a higher number, also of a room that was gone.
    versions: u64,
    watched: usize,
    due: BTreeSet<(u64, RoomId, Due)>,
}

impl Rolls {
    pub(crate) fn new(rules: &BTreeMap<String, Option<Arc<PresenceOf>>>) -> Self {
        Self {
            rules: rules.clone(),
            ..Self::default()
        }
    }

    /// Some rooms may have presence.
    pub(crate) fn is_on(&self) -> bool {
        !self.rules.is_empty()
    }

    /// A new room of that name.
    pub(crate) fn made(&mut self, room: RoomId, namespace: &str, name: &str) {
        if let Some(rule) = self.rule(namespace, name) {
            let roll = Roll::new(rule);
            self.rolls.insert(room, roll);
        }
    }

    /// Presence of a room, if it has any.
    fn rule(&self, namespace: &str, name: &str) -> Option<&Arc<PresenceOf>> {
        let rule = self.rules.get(namespace).or_else(|| self.rules.get("*"));
        rule?.as_ref().filter(|rule| rule.fits(name))
    }

    /// Whether a program may ask for this room now.
    pub(crate) fn may_watch(&self, namespace: &str, name: &str) -> bool {
        self.rule(namespace, name).is_some() && self.watched < WATCHED_MAX
    }

    /// A program asks for a room: the room stays for a while, with members here or without.
    pub(crate) fn watch(&mut self, room: RoomId, now_ms: u64) {
        if let Some(roll) = self.rolls.get_mut(&room) {
            let due = now_ms + WATCH_MS;
            match roll.watched_ms.replace(due) {
                Some(before) => drop(self.due.remove(&(before, room, Due::Watched))),
                None => self.watched += 1,
            }
            self.due.insert((due, room, Due::Watched));
        }
    }

    /// A room is gone, or is no more one whose members are told of each other.
    pub(crate) fn forget(&mut self, room: RoomId) {
        let Some(roll) = self.rolls.remove(&room) else {
            return;
        };
        self.watched -= usize::from(roll.watched_ms.is_some());
        for (due_ms, what) in roll.due() {
            self.due.remove(&(due_ms, room, what));
        }
    }

    /// The room must not be forgotten yet: somebody lingers, or others do not know that the last one is gone.
    pub(crate) fn holds(&self, room: RoomId) -> bool {
        let roll = self.rolls.get(&room);
        roll.is_some_and(|roll| roll.watched_ms.is_some() || roll.has_own())
    }

    pub(crate) fn came(&mut self, room: RoomId, socket: SocketId, who: impl FnOnce() -> Who) {
        let Some(roll) = self.rolls.get_mut(&room) else {
            return;
        };
        let who = who();
        if let Some(due_ms) = roll.came(socket, &who) {
            self.due.remove(&(due_ms, room, Due::Lingers(who)));
        }
    }

    /// `lost_ms`: its connection was lost then, and the member may come back.
    pub(crate) fn went(&mut self, room: RoomId, socket: SocketId, lost_ms: Option<u64>) {
        let roll = self.rolls.get_mut(&room);
        let lingers = roll.and_then(|roll| roll.went(socket, lost_ms));
        if let Some((due_ms, who)) = lingers {
            self.due.insert((due_ms, room, Due::Lingers(who)));
        }
    }

    /// A socket became another user's.
    pub(crate) fn renamed(&mut self, room: RoomId, socket: SocketId, who: impl FnOnce() -> Who) {
        if self
            .rolls
            .get(&room)
            .is_some_and(|roll| roll.has_seat(socket))
        {
            self.went(room, socket, None);
            self.came(room, socket, who);
        }
    }

    /// Another shard says something of its people; what it is to be told.
    pub(crate) fn hear(&mut self, room: RoomId, from: Place, word: &Word) -> Option<Word> {
        let roll = self.rolls.get_mut(&room)?;
        let is_new = !roll.peers.contains_key(&from) && word.count > 0;
        if let Some(due) = roll.peers.get_mut(&from).and_then(|peer| peer.doubted_ms)
            && word.since == 0
        {
            self.due.remove(&(due, room, Due::Doubted(from)));
        }
        if !roll.take(from, word) {
            roll.asks = true;
        }
        (is_new || word.asks).then(|| roll.told()).flatten()
    }

    /// It could not be told that: all are told all there is.
    pub(crate) fn owes(&mut self, room: RoomId) {
        if let Some(roll) = self.rolls.get_mut(&room) {
            roll.whole = true;
        }
    }

    /// A node is gone, or something that it said was missed: its people stay for a while, unless it says all it has before.
    pub(crate) fn doubt_node(&mut self, node: u16, now_ms: u64) {
        for (room, roll) in &mut self.rolls {
            let due_ms = now_ms + DOUBT_MS.min(roll.rule.grace.as_millis() as u64);
            for (place, peer) in &mut roll.peers {
                if place.node == node && peer.doubted_ms.is_none() {
                    peer.doubted_ms = Some(due_ms);
                    // The next change does not follow what was heard.
                    peer.version = 0;
                    self.due.insert((due_ms, *room, Due::Doubted(*place)));
                }
            }
        }
    }

    /// Others are told all there is, and asked for the same.
    pub(crate) fn tell_all_again(&mut self) {
        for roll in self.rolls.values_mut() {
            (roll.whole, roll.asks) = (true, true);
        }
    }

    pub(crate) fn next_due_ms(&self) -> Option<u64> {
        self.due.first().map(|(due, ..)| *due)
    }

    /// A room in which somebody is gone for good now.
    pub(crate) fn pop_due(&mut self, now_ms: u64) -> Option<RoomId> {
        self.due.first().filter(|(due, ..)| *due <= now_ms)?;
        let (_, room, what) = self.due.pop_first()?;
        if let Some(roll) = self.rolls.get_mut(&room) {
            match what {
                Due::Lingers(who) => roll.gives_up(&who),
                Due::Doubted(place) => roll.drop_peer(place),
                Due::Watched => {
                    roll.watched_ms = None;
                    self.watched -= 1;
                }
            }
        }
        Some(room)
    }

    /// Whether a room has something to say to others.
    pub(crate) fn has_news(&mut self, room: RoomId) -> bool {
        let roll = self.rolls.get_mut(&room);
        roll.is_some_and(|roll| {
            roll.choose_names();
            roll.has_unsaid() || roll.whole || roll.asks
        })
    }

    /// Whether the first word of a room waits for the next time.
    pub(crate) fn waits(&mut self, room: RoomId) -> bool {
        let roll = self.rolls.get_mut(&room);
        roll.is_some_and(|roll| !std::mem::replace(&mut roll.waited, true))
    }

    /// What others are told of a room. `withheld`: nodes cannot be told now.
    pub(crate) fn say(
        &mut self,
        room: RoomId,
        people: &People,
        wall_ms: u64,
        withheld: bool,
    ) -> Option<Word> {
        if self.versions == 0 {
            // Above all that a process before this one said under the number of this node.
            self.versions = wall_ms << 12;
        }
        let (roll, versions) = (self.rolls.get_mut(&room)?, &mut self.versions);
        roll.say(people, versions, withheld)
    }

    /// What members here are told.
    pub(crate) fn show(&mut self, room: RoomId, people: &People) -> Option<Presence> {
        self.rolls.get_mut(&room)?.show(people)
    }

    /// All members of a room; `None`: it is no room with presence.
    pub(crate) fn of(&self, room: RoomId, people: &People) -> Option<Presence> {
        self.rolls.get(&room).map(|roll| roll.all(people))
    }

    /// Whether a room is one with presence.
    pub(crate) fn has(&self, room: RoomId) -> bool {
        self.rolls.contains_key(&room)
    }

    /// Sockets that are seated in a room.
    pub(crate) fn seated(&self, room: RoomId) -> Option<usize> {
        self.rolls.get(&room).map(Roll::seated)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let rolls: usize = self.rolls.values().map(Roll::heap_bytes).sum();
        rolls + self.due.len() * size_of::<(u64, RoomId, Due)>()
    }
}
