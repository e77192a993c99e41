//! The members of rooms, by user: many sockets of one user are one member, and a socket without a user is one by itself.
//!
//! Each shard tells the others that have the room, and other nodes, of its own people; nobody else speaks for them. A word is a
//! change since the one before it, by number, or all that the shard has. So every shard answers from its own copy. A word that
//! does not follow the last one is not used, and all shards are asked for all they have.

mod crowd;
mod entry;
mod roll;
mod saying;
mod showing;
mod speech;
mod table;
mod word;

use crate::books::config::PresenceOf;
use crate::bounds::{DOUBT_MS, LEFT_MS, WATCH_MS, WATCHED_MAX};
use crate::clients::people::People;
use crate::tables::clock::Now;
use crate::tables::id::Place;
use crate::tables::slot::{RoomId, SocketId};
use roll::{Due, Roll};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
pub(crate) use word::Word;
pub use word::{Leaver, Person, Presence, Who};

/// Why a program is not told of the members of a room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwatched {
    /// Rooms of that name have no presence.
    NoPresence,
    /// Too many rooms without members here are asked for.
    TooMany,
}

/// The consequences of a word of another shard.
pub(crate) struct Heard {
    /// Members here, or other shards, may have to be told.
    pub(crate) is_news: bool,
    /// What that shard is to be told.
    pub(crate) answer: Option<Word>,
}

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

    /// Whether some rooms may have presence.
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

    /// Whether a program may ask for this room now. A room with members here is told in any case. `room`: the room, if it is here.
    pub(crate) fn may_watch(
        &self,
        namespace: &str,
        name: &str,
        room: Option<RoomId>,
    ) -> Result<(), Unwatched> {
        self.rule(namespace, name).ok_or(Unwatched::NoPresence)?;
        let is_held = room.is_some_and(|room| self.holds(room));
        match is_held || self.watched < WATCHED_MAX {
            true => Ok(()),
            false => Err(Unwatched::TooMany),
        }
    }

    /// A program asks for a room: without members here it stays for a while.
    pub(crate) fn watch(&mut self, room: RoomId, now_ms: u64) {
        let roll = self.rolls.get(&room);
        if roll.is_some_and(|roll| roll.watched_ms.is_some() || !roll.has_own()) {
            self.watch_until(room, now_ms + WATCH_MS);
        }
    }

    fn watch_until(&mut self, room: RoomId, until_ms: u64) {
        if let Some(roll) = self.rolls.get_mut(&room) {
            let before = roll.watched_ms;
            let after = before.max(Some(until_ms));
            roll.watched_ms = after;
            self.watched += usize::from(before.is_none());
            self.moves(room, &Due::Watched, before, after);
        }
    }

    /// Changes the time at which a room is looked at for something. There is no other way.
    fn moves(&mut self, room: RoomId, what: &Due, before: Option<u64>, after: Option<u64>) {
        if let Some(due_ms) = before {
            self.due.remove(&(due_ms, room, what.clone()));
        }
        if let Some(due_ms) = after {
            self.due.insert((due_ms, room, what.clone()));
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

    /// Whether the room must not be forgotten yet: somebody lingers, or others do not know that the last one is gone.
    pub(crate) fn holds(&self, room: RoomId) -> bool {
        let roll = self.rolls.get(&room);
        roll.is_some_and(|roll| roll.watched_ms.is_some() || roll.has_own())
    }

    pub(crate) fn came(&mut self, room: RoomId, socket: SocketId, who: impl FnOnce() -> Who) {
        let Some(roll) = self.rolls.get_mut(&room) else {
            return;
        };
        let who = who();
        let before = roll.came(socket, &who);
        self.moves(room, &Due::Lingers(who), before, None);
    }

    /// `lost_ms`: its connection was lost then, and the member may come back.
    pub(crate) fn went(&mut self, room: RoomId, socket: SocketId, lost_ms: Option<u64>) {
        let roll = self.rolls.get_mut(&room);
        if let Some((who, before, after)) = roll.and_then(|roll| roll.went(socket, lost_ms)) {
            self.moves(room, &Due::Lingers(who), before, after);
        }
    }

    /// A socket may have become another user's; whether it did.
    pub(crate) fn renamed(&mut self, room: RoomId, socket: SocketId, who: &Who) -> bool {
        let roll = self.rolls.get(&room);
        let seat = roll.and_then(|roll| roll.seat(socket));
        if seat.is_none_or(|seat| seat == who) {
            return false;
        }
        self.went(room, socket, None);
        self.came(room, socket, || who.clone());
        true
    }

    /// Another shard says something of its people.
    pub(crate) fn hear(&mut self, room: RoomId, from: Place, word: &Word) -> Option<Heard> {
        let roll = self.rolls.get_mut(&room)?;
        let known = roll.peers.get(&from);
        let is_new = known.is_none() && (word.count > 0 || word.since > 0);
        let before = known.map(|peer| (peer.count, peer.is_named()));
        let doubted_ms = known.and_then(|peer| peer.doubted_ms);
        roll.speech.asks |= !roll.take(from, word);
        let after = roll.peers.get(&from);
        let is_doubted = after.is_some_and(|peer| peer.doubted_ms.is_some());
        let changed = before != after.map(|peer| (peer.count, peer.is_named()));
        let heard = Heard {
            is_news: changed || roll.speech.asks || roll.crowd.has_unshown(),
            answer: (is_new || word.asks).then(|| roll.told()).flatten(),
        };
        if !is_doubted {
            self.moves(room, &Due::Doubted(from), doubted_ms, None);
        }
        Some(heard)
    }

    /// Another node was told what it asked for. If it could not be told, the next word says all there is to all of them.
    pub(crate) fn answered_node(&mut self, room: RoomId, arrives: bool) {
        if let Some(roll) = self.rolls.get_mut(&room) {
            roll.speech.whole |= !arrives;
            roll.speech.is_believed |= arrives && roll.crowd.here() > 0;
        }
    }

    /// A node is gone, or something that it said was missed: its people stay for a while, unless it says all it has before.
    pub(crate) fn doubt_node(&mut self, node: u16, now_ms: u64) {
        for (room, roll) in &mut self.rolls {
            let due_ms = now_ms + DOUBT_MS.min(roll.rule.grace.as_millis() as u64);
            for (place, peer) in &mut roll.peers {
                if place.node == node && peer.doubted_ms.is_none() {
                    peer.doubted_ms = Some(due_ms);
                    // The next change does not follow what was heard, so the shard is asked for all it has.
                    peer.version = 0;
                    self.due.insert((due_ms, *room, Due::Doubted(*place)));
                }
            }
        }
    }

    /// Others are told all there is, and asked for the same.
    pub(crate) fn tell_all_again(&mut self) {
        for roll in self.rolls.values_mut() {
            (roll.speech.whole, roll.speech.asks) = (true, true);
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
                Due::SaysAgain => roll.speech.again = true,
            }
        }
        Some(room)
    }

    /// Whether a room has something to say to others.
    pub(crate) fn has_news(&mut self, room: RoomId) -> bool {
        let roll = self.rolls.get_mut(&room);
        roll.is_some_and(|roll| {
            roll.choose_names();
            roll.has_news()
        })
    }

    /// Whether the first word of a room waits.
    pub(crate) fn waits(&mut self, room: RoomId, now_ms: u64) -> bool {
        let roll = self.rolls.get_mut(&room);
        roll.is_some_and(|roll| roll.speech.waits(now_ms))
    }

    /// What others are told of a room. `withheld`: nodes cannot be told now.
    pub(crate) fn say(
        &mut self,
        room: RoomId,
        people: &People,
        now: Now,
        withheld: bool,
    ) -> Option<Word> {
        if self.versions == 0 {
            // Above all that a process before this one said under the number of this node.
            self.versions = now.wall_ms << 12;
        }
        let roll = self.rolls.get_mut(&room)?;
        let (is_first, was_believed) = (roll.speech.version == 0, roll.speech.is_believed);
        let word = roll.say(people, now.mono_ms, &mut self.versions, withheld)?;
        let again_ms = roll.speech.again_ms();
        if is_first {
            self.moves(room, &Due::SaysAgain, None, again_ms);
        }
        let is_left = was_believed && word.count == 0;
        if is_left && self.watched < WATCHED_MAX / 2 {
            self.watch_until(room, now.mono_ms + LEFT_MS);
        }
        Some(word)
    }

    /// What members here are told.
    pub(crate) fn show(&mut self, room: RoomId, people: &People) -> Option<Presence> {
        self.rolls.get_mut(&room)?.show(people)
    }

    /// All members of a room, for one of them; `None`: it is no room with presence.
    pub(crate) fn answer(&mut self, room: RoomId, people: &People, now: Now) -> Option<Presence> {
        let roll = self.rolls.get_mut(&room)?;
        Some(roll.answer(people, now.mono_ms))
    }

    /// All members of a room, for a program.
    pub(crate) fn of(&self, room: RoomId, people: &People, now: Now) -> Option<Presence> {
        let roll = self.rolls.get(&room)?;
        Some(roll.all(people, now.mono_ms))
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
