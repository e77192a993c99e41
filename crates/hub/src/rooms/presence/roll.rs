//! One room: the members that sit here, and what the other shards said last of their people.

use super::crowd::Crowd;
use super::entry::{Entry, Flag};
use super::speech::Speech;
use super::word::{Person, Who, Word};
use crate::books::config::PresenceOf;
use crate::tables::id::Place;
use crate::tables::slot::SocketId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Something that a room is looked at for later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Lingers(Who),
    Doubted(Place),
    Watched,
    /// The first word is followed by another.
    SaysAgain,
}

/// What another shard said last.
#[derive(Debug)]
pub(super) struct Peer {
    /// 0: the shard is asked for all that it has.
    pub(super) version: u64,
    pub(super) count: u32,
    pub(super) nameless: bool,
    /// Its node went, or a word of it was missed: its people go then, unless it says all it has before.
    pub(super) doubted_ms: Option<u64>,
}

impl Peer {
    /// All its people are known by name, or will not be.
    pub(super) fn is_named(&self) -> bool {
        let is_awaited = self.version == 0 && self.doubted_ms.is_none();
        self.count == 0 || !self.nameless && !is_awaited
    }
}

/// What members here were told.
#[derive(Debug)]
pub(super) struct View {
    /// Members here see names.
    pub(super) names: bool,
    /// The count that they saw last.
    pub(super) count: Option<u64>,
    /// Somebody got the list after members were told last, and has what they were not told yet.
    pub(super) answered: bool,
}

impl Default for View {
    fn default() -> Self {
        Self {
            names: true,
            count: None,
            answered: false,
        }
    }
}

/// A room whose members are told who is there.
#[derive(Debug)]
pub(super) struct Roll {
    pub(super) rule: Arc<PresenceOf>,
    seats: HashMap<SocketId, Who>,
    pub(super) crowd: Crowd,
    pub(super) peers: BTreeMap<Place, Peer>,
    pub(super) speech: Speech,
    pub(super) view: View,
    /// A program asked for it, and may ask again until then.
    pub(super) watched_ms: Option<u64>,
}

impl Roll {
    pub(super) fn new(rule: &Arc<PresenceOf>) -> Self {
        Self {
            rule: Arc::clone(rule),
            seats: HashMap::new(),
            crowd: Crowd::default(),
            peers: BTreeMap::new(),
            speech: Speech::default(),
            view: View::default(),
            watched_ms: None,
        }
    }

    // ---- people here --------------------------------------------------------------------------------------------------

    /// A socket takes its seat; when its member would have gone, if it was about to.
    pub(super) fn came(&mut self, socket: SocketId, who: &Who) -> Option<u64> {
        let was_due_ms = self.crowd.change(who, |entry| {
            entry.sits_down(socket);
            entry.linger(None)
        });
        self.seats.insert(socket, who.clone());
        was_due_ms
    }

    /// A socket leaves its seat. `lost_ms`: its connection was lost then, and it may come back. Its member, and the times at which it
    /// would have gone before and goes now, whatever its other sockets do.
    pub(super) fn went(
        &mut self,
        socket: SocketId,
        lost_ms: Option<u64>,
    ) -> Option<(Who, Option<u64>, Option<u64>)> {
        let who = self.seats.remove(&socket)?;
        if self.seats.len() < self.seats.capacity() / 8 {
            self.seats.shrink_to(2 * self.seats.len());
        }
        let seat = self.other_seat(socket, &who);
        let grace_ms = self.rule.grace.as_millis() as u64;
        let (before, after) = self.crowd.change(&who, |entry| {
            entry.gets_up(socket, seat);
            // A member that others were not told of needs no grace.
            let lingers = lost_ms.filter(|_| entry.is(Flag::Told) && grace_ms > 0);
            let before = entry.lingers_ms();
            entry.linger(lingers.map(|lost_ms| lost_ms + grace_ms).or(before));
            (before, entry.lingers_ms())
        });
        Some((who, before, after))
    }

    /// The seat at which a member's info is read once the socket that came first is gone, if others were not told of the member yet.
    fn other_seat(&self, socket: SocketId, who: &Who) -> Option<SocketId> {
        let entry = self.crowd.get(who)?;
        let looks = !entry.is(Flag::Informed) && entry.sockets() > 1;
        let looks = looks && entry.socket() == Some(socket);
        let mut seats = self.seats.iter().filter(|_| looks);
        seats
            .find(|(_, other)| *other == who)
            .map(|(seat, _)| *seat)
    }

    /// A member that lingered did not come back.
    pub(super) fn gives_up(&mut self, who: &Who) {
        self.crowd.change(who, |entry| entry.linger(None));
    }

    pub(super) fn seat(&self, socket: SocketId) -> Option<&Who> {
        self.seats.get(&socket)
    }

    /// Whether somebody is here, or others do not know yet that nobody is.
    pub(super) fn has_own(&self) -> bool {
        self.crowd.here() > 0 || self.crowd.has_unsaid() || self.speech.is_believed
    }

    /// What the room is looked at for later.
    pub(super) fn due(&self) -> impl Iterator<Item = (u64, Due)> {
        let lingers = self.crowd.iter().filter_map(|entry| {
            let due_ms = entry.lingers_ms()?;
            Some((due_ms, Due::Lingers(entry.who())))
        });
        let doubted = self.peers.iter().filter_map(|(place, peer)| {
            let due_ms = peer.doubted_ms?;
            Some((due_ms, Due::Doubted(*place)))
        });
        let watched = self.watched_ms.map(|due_ms| (due_ms, Due::Watched));
        let again = self
            .speech
            .again_ms()
            .map(|due_ms| (due_ms, Due::SaysAgain));
        lingers.chain(doubted).chain(watched).chain(again)
    }

    // ---- people elsewhere ---------------------------------------------------------------------------------------------

    pub(super) fn drop_peer(&mut self, place: Place) {
        if self.peers.remove(&place).is_some() {
            self.forget_people_of(place, true, |_| false);
        }
    }

    /// Another shard has its people no more, except some. `lost`: it did not say so.
    fn forget_people_of(&mut self, place: Place, lost: bool, stays: impl Fn(&Who) -> bool) {
        let mut gone = self.crowd.which(|entry| entry.is_at(place));
        gone.retain(|who| !stays(who));
        self.crowd.leave(&gone, place, lost);
    }

    fn found_at(&mut self, place: Place, person: &Person) {
        let knows_info = self.crowd.change(&person.who, |entry| {
            entry.appears(place);
            entry.is(Flag::Informed) || entry.socket().is_some()
        });
        if !knows_info {
            self.crowd.set_info(&person.who, &person.info);
        }
    }

    /// Takes what another shard says of its people. `false`: it does not follow what that shard said before.
    pub(super) fn take(&mut self, from: Place, word: &Word) -> bool {
        let known = self.peers.get(&from).map(|peer| peer.version);
        if known.is_some_and(|version| version >= word.version) {
            // A later word has overtaken this one.
            return true;
        }
        // A word that names nobody is all there is, whatever went before: its shard may not be there to be asked.
        let is_all = word.since == 0 || word.count == 0;
        if !is_all && known != Some(word.since) {
            return false;
        }
        // A shard without names keeps none of others.
        if self.speech.names {
            if is_all {
                let has: BTreeSet<&Who> = word.joined.iter().map(|person| &person.who).collect();
                self.forget_people_of(from, false, |who| has.contains(who));
            }
            self.crowd.leave(&word.left, from, false);
            word.joined.iter().for_each(|one| self.found_at(from, one));
        }
        let peer = Peer {
            version: word.version,
            count: word.count,
            nameless: word.nameless,
            doubted_ms: None,
        };
        self.peers.insert(from, peer);
        true
    }

    /// Members here and on all shards that said how many they have. One that is on several of them counts as often.
    pub(super) fn sum(&self) -> u64 {
        let elsewhere = self.peers.values().map(|peer| u64::from(peer.count));
        u64::from(self.crowd.here()) + elsewhere.sum::<u64>()
    }

    /// All members are known by name.
    pub(super) fn knows_names(&self) -> bool {
        self.speech.names && self.peers.values().all(Peer::is_named)
    }

    /// Whether names are said follows from how many people there are on all shards.
    pub(super) fn choose_names(&mut self) {
        let max = u64::from(self.rule.members_max);
        // Names come back at nine tenths of the bound, so that they do not come and go all the time.
        let few = max.saturating_sub((max / 10).max(1)).max(1);
        let names = match self.speech.names {
            // Where all names are known, a member on several shards counts once.
            true if self.knows_names() => u64::from(self.crowd.present()) <= max,
            true => self.sum() <= max,
            false => self.sum() <= few,
        };
        if names == self.speech.names {
            return;
        }
        (self.speech.names, self.speech.whole) = (names, true);
        if names {
            // Names that came before were not kept.
            self.speech.asks = true;
            self.peers.values_mut().for_each(|peer| peer.version = 0);
        } else {
            let named = self.crowd.which(Entry::is_elsewhere);
            for who in &named {
                self.crowd.change(who, Entry::is_nowhere_else);
            }
        }
    }

    /// Sockets with a seat.
    pub(super) fn seated(&self) -> usize {
        let sockets = self.crowd.counted();
        debug_assert_eq!(sockets, self.seats.len());
        sockets
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.seats.capacity() * size_of::<(SocketId, Who)>()
            + self.crowd.heap_bytes()
            + self.peers.len() * size_of::<(Place, Peer)>()
    }
}
