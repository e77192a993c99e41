//! One room: the people on this shard, and those of the others as they said last.

use super::word::{Person, Presence, Who, Word};
use crate::books::config::PresenceOf;
use crate::clients::people::People;
use crate::tables::id::Place;
use crate::tables::slot::SocketId;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use wire::json;

/// The public data of a member may have so many bytes; with more it has none.
const INFO_BYTES_MAX: usize = 1024;

/// Something that a room is looked at for later.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    Lingers(Who),
    Doubted(Place),
    Watched,
}

/// What another shard said last.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) version: u64,
    pub(super) count: u32,
    pub(super) nameless: bool,
    /// Its node went, or a word of it was missed: its people go then, unless it says all it has before.
    pub(super) doubted_ms: Option<u64>,
}

#[derive(Debug, Default)]
struct Entry {
    /// Sockets here.
    sockets: u32,
    /// The last of them lost its connection; the member goes then.
    lingers_ms: Option<u64>,
    /// Others were told that it is here.
    told: bool,
    /// Members here were told that it is in the room.
    shown: bool,
    /// In the list of those of whom others are to be told, and of those of whom members here are.
    unsaid: bool,
    unshown: bool,
    /// `None`: it is read from the data of a socket here when others are told.
    info: Option<Arc<str>>,
    socket: Option<SocketId>,
    /// Shards that have it, too.
    elsewhere: SmallVec<[Place; 1]>,
}

impl Entry {
    fn is_here(&self) -> bool {
        self.sockets > 0 || self.lingers_ms.is_some()
    }

    fn is_present(&self) -> bool {
        self.is_here() || !self.elsewhere.is_empty()
    }
}

/// A room whose members are told who is there.
#[derive(Debug)]
pub(super) struct Roll {
    pub(super) rule: Arc<PresenceOf>,
    seats: HashMap<SocketId, Who>,
    people: HashMap<Who, Entry>,
    /// People that are here.
    here: u32,
    /// Those of whom others are to be told, and those of whom members here are.
    unsaid: Vec<Who>,
    unshown: Vec<Who>,
    pub(super) peers: BTreeMap<Place, Peer>,
    pub(super) version: u64,
    /// A program asked for it, and may ask again until then.
    pub(super) watched_ms: Option<u64>,
    /// The next word says all there is.
    pub(super) whole: bool,
    pub(super) asks: bool,
    /// The first word waits, so that others know of this shard before it asks them.
    pub(super) waited: bool,
    /// This shard names its own people.
    names: bool,
    /// Members here see names.
    shows_names: bool,
    /// The count that they saw last.
    shown_count: Option<u64>,
}

impl Roll {
    pub(super) fn new(rule: &Arc<PresenceOf>) -> Self {
        Self {
            rule: Arc::clone(rule),
            seats: HashMap::new(),
            people: HashMap::new(),
            here: 0,
            unsaid: Vec::new(),
            unshown: Vec::new(),
            peers: BTreeMap::new(),
            version: 0,
            watched_ms: None,
            whole: true,
            asks: true,
            waited: false,
            names: true,
            shows_names: true,
            shown_count: None,
        }
    }

    // ---- people here --------------------------------------------------------------------------------------------------

    /// A socket takes its seat; when its member would have gone, if it was about to.
    pub(super) fn came(&mut self, socket: SocketId, who: &Who) -> Option<u64> {
        let was_due_ms = self.here(who, |entry| {
            entry.sockets += 1;
            entry.socket.get_or_insert(socket);
            entry.lingers_ms.take()
        });
        self.seats.insert(socket, who.clone());
        was_due_ms
    }

    /// A socket leaves its seat. `lost_ms`: its connection was lost then. The member lingers, if it does, until the time that comes back.
    pub(super) fn went(&mut self, socket: SocketId, lost_ms: Option<u64>) -> Option<(u64, Who)> {
        let who = self.seats.remove(&socket)?;
        let grace_ms = self.rule.grace.as_millis() as u64;
        let due_ms = self.here(&who, |entry| {
            entry.sockets -= 1;
            entry.socket = entry.socket.filter(|other| *other != socket);
            let lingers = entry.sockets == 0 && entry.told && grace_ms > 0;
            entry.lingers_ms = lost_ms.filter(|_| lingers).map(|lost| lost + grace_ms);
            entry.lingers_ms
        });
        Some((due_ms?, who))
    }

    /// A member that lingered did not come back.
    pub(super) fn gives_up(&mut self, who: &Who) {
        self.here(who, |entry| entry.lingers_ms = None);
    }

    /// The one way by which something changes of a member here.
    fn here<T>(&mut self, who: &Who, change: impl FnOnce(&mut Entry) -> T) -> T {
        let entry = self.people.entry(who.clone()).or_default();
        if !std::mem::replace(&mut entry.unsaid, true) {
            self.unsaid.push(who.clone());
        }
        if !std::mem::replace(&mut entry.unshown, true) {
            self.unshown.push(who.clone());
        }
        let was = entry.is_here();
        let result = change(entry);
        self.here = self.here + u32::from(entry.is_here()) - u32::from(was);
        result
    }

    pub(super) fn has_seat(&self, socket: SocketId) -> bool {
        self.seats.contains_key(&socket)
    }

    /// Somebody is here, or others do not know yet that nobody is.
    pub(super) fn has_own(&self) -> bool {
        self.here > 0 || self.has_unsaid()
    }

    pub(super) fn has_unsaid(&self) -> bool {
        !self.unsaid.is_empty()
    }

    // ---- people elsewhere ---------------------------------------------------------------------------------------------

    /// A member of which something changes elsewhere.
    fn elsewhere(&mut self, who: &Who) -> &mut Entry {
        let entry = self.people.entry(who.clone()).or_default();
        if !std::mem::replace(&mut entry.unshown, true) {
            self.unshown.push(who.clone());
        }
        entry
    }

    /// What the room is looked at for later.
    pub(super) fn due(&self) -> impl Iterator<Item = (u64, Due)> {
        let lingers = self.people.iter().filter_map(|(who, entry)| {
            let due_ms = entry.lingers_ms?;
            Some((due_ms, Due::Lingers(who.clone())))
        });
        let doubted = self.peers.iter().filter_map(|(place, peer)| {
            let due_ms = peer.doubted_ms?;
            Some((due_ms, Due::Doubted(*place)))
        });
        let watched = self.watched_ms.map(|due_ms| (due_ms, Due::Watched));
        lingers.chain(doubted).chain(watched)
    }

    pub(super) fn drop_peer(&mut self, place: Place) {
        if self.peers.remove(&place).is_some() {
            self.forget_people_of(place, |_| false);
        }
    }

    /// People that another shard has no more, but for some.
    fn forget_people_of(&mut self, place: Place, stays: impl Fn(&Who) -> bool) {
        for (who, entry) in &mut self.people {
            if let Some(at) = entry.elsewhere.iter().position(|other| *other == place)
                && !stays(who)
            {
                entry.elsewhere.swap_remove(at);
                if !std::mem::replace(&mut entry.unshown, true) {
                    self.unshown.push(who.clone());
                }
            }
        }
    }

    fn found_at(&mut self, place: Place, person: &Person) {
        let entry = self.elsewhere(&person.who);
        if !entry.elsewhere.contains(&place) {
            entry.elsewhere.push(place);
        }
        if entry.info.is_none() && entry.socket.is_none() {
            entry.info = Some(Arc::clone(&person.info));
        }
    }

    /// All that others were told of the people here. `None`: nothing yet, and it will be all.
    pub(super) fn told(&self) -> Option<Word> {
        let told = self.people.iter().filter(|(_, entry)| entry.told);
        let joined = told.clone().map(|(who, entry)| Person {
            who: who.clone(),
            info: entry.info.clone().unwrap_or_else(|| Arc::from("")),
        });
        (self.version > 0).then(|| Word {
            version: self.version,
            count: told.clone().count() as u32,
            nameless: !self.names,
            joined: match self.names {
                true => joined.collect(),
                false => Vec::new(),
            },
            ..Word::default()
        })
    }

    /// Takes what another shard says of its people. `false`: it does not follow what that shard said before.
    pub(super) fn take(&mut self, from: Place, word: &Word) -> bool {
        let known = self.peers.get(&from).map(|peer| peer.version);
        if known.is_some_and(|version| version >= word.version) {
            // It was overtaken.
            return true;
        }
        if word.since != 0 && known != Some(word.since) {
            return false;
        }
        if word.since == 0 {
            let has: BTreeSet<&Who> = word.joined.iter().map(|person| &person.who).collect();
            self.forget_people_of(from, |who| has.contains(who));
        }
        for who in &word.left {
            if let Some(at) = self
                .people
                .get(who)
                .and_then(|entry| entry.elsewhere.iter().position(|other| *other == from))
            {
                self.elsewhere(who).elsewhere.swap_remove(at);
            }
        }
        // What this shard could not name, it does not keep.
        if self.names {
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

    /// Whether names are said follows from how many people there are on all shards.
    pub(super) fn choose_names(&mut self) {
        let elsewhere = self.peers.values().map(|peer| u64::from(peer.count));
        let all = u64::from(self.here) + elsewhere.sum::<u64>();
        let max = u64::from(self.rule.members_max);
        if self.names && all > max {
            self.names = false;
            self.whole = true;
            let places: Vec<Place> = self.peers.keys().copied().collect();
            for place in places {
                self.forget_people_of(place, |_| false);
            }
        } else if !self.names && all <= max - max / 10 {
            (self.names, self.whole, self.asks) = (true, true, true);
            // Names that came before were not kept.
            self.peers.values_mut().for_each(|peer| peer.version = 0);
        }
    }

    /// The same, which stays so from now on.
    fn read_info(&mut self, who: &Who, people: &People) -> Arc<str> {
        let Some(entry) = self.people.get(who) else {
            return Arc::from("");
        };
        let info = self.info(entry, people);
        if let Some(entry) = self.people.get_mut(who) {
            entry.info = Some(Arc::clone(&info));
        }
        info
    }

    /// What others are told. `withheld`: nodes cannot be told now.
    pub(super) fn say(
        &mut self,
        people: &People,
        versions: &mut u64,
        withheld: bool,
    ) -> Option<Word> {
        let mut word = Word {
            count: self.here,
            nameless: !self.names,
            ..Word::default()
        };
        let mut says = self.whole || self.asks;
        for who in std::mem::take(&mut self.unsaid) {
            let Some(entry) = self.people.get_mut(&who) else {
                continue;
            };
            entry.unsaid = false;
            let is_here = entry.is_here();
            if std::mem::replace(&mut entry.told, is_here) == is_here {
                continue;
            }
            says = true;
            match is_here {
                true if self.names => {
                    let info = self.read_info(&who, people);
                    word.joined.push(Person { who, info });
                }
                false if self.names => word.left.push(who),
                _ => {}
            }
        }
        if !says {
            return None;
        }
        *versions += 1;
        word.since = std::mem::replace(&mut self.version, *versions);
        word.version = self.version;
        word.asks = std::mem::take(&mut self.asks);
        if std::mem::take(&mut self.whole) {
            (word.since, word.joined, word.left) = (0, self.all_here(people), Vec::new());
        }
        if withheld {
            // Nodes miss this one.
            (self.whole, self.asks) = (true, word.asks);
        }
        Some(word)
    }

    /// What members here are told.
    pub(super) fn show(&mut self, people: &People) -> Option<Presence> {
        let unshown = std::mem::take(&mut self.unshown);
        let presence = self.news(&unshown, people);
        for who in &unshown {
            if let Some(entry) = self.people.get_mut(who) {
                entry.unshown = false;
                if !entry.is_present() && !entry.told {
                    self.people.remove(who);
                }
            }
        }
        presence
    }

    fn all_here(&mut self, people: &People) -> Vec<Person> {
        if !self.names {
            return Vec::new();
        }
        let here = self.people.iter().filter(|(_, entry)| entry.is_here());
        let here: Vec<Who> = here.map(|(who, _)| who.clone()).collect();
        here.into_iter()
            .map(|who| Person {
                info: self.read_info(&who, people),
                who,
            })
            .collect()
    }

    /// All members, though those here may not have been told yet.
    pub(super) fn all(&self, people: &People) -> Presence {
        let present = self.people.iter().filter(|(_, entry)| entry.is_present());
        let present = present.map(|(who, entry)| Person {
            who: who.clone(),
            info: self.info(entry, people),
        });
        let mut joined: Vec<Person> = match self.shows_names {
            true => present.collect(),
            false => Vec::new(),
        };
        joined.sort_by(|a, b| a.who.cmp(&b.who));
        Presence {
            count: self.count(),
            nameless: !self.shows_names,
            fresh: self.version == 0,
            joined,
            left: Vec::new(),
        }
    }

    /// What others may see of a member.
    fn info(&self, entry: &Entry, people: &People) -> Arc<str> {
        entry.info.clone().unwrap_or_else(|| {
            let data = entry.socket.and_then(|socket| people.data_of(socket));
            info_of(data.unwrap_or_default(), &self.rule.info)
        })
    }

    /// Of the members that changed.
    fn news(&mut self, listed: &[Who], people: &People) -> Option<Presence> {
        let names = self.names && self.peers.values().all(|peer| !peer.nameless);
        let turns = std::mem::replace(&mut self.shows_names, names) != names;
        if turns {
            self.people.values_mut().for_each(|one| one.shown = false);
        }
        if !names {
            let count = self.count();
            let news = self.shown_count != Some(count) || turns;
            self.shown_count = Some(count);
            return news.then(|| Presence {
                count,
                nameless: true,
                ..Presence::default()
            });
        }
        let (mut joined, mut left) = (Vec::new(), Vec::new());
        let all: Vec<Who>;
        let looked_at = match turns {
            true => {
                all = self.people.keys().cloned().collect();
                &all
            }
            false => listed,
        };
        for who in looked_at {
            let Some(entry) = self.people.get_mut(who) else {
                continue;
            };
            let is = entry.is_present();
            if is == std::mem::replace(&mut entry.shown, is) {
                continue;
            }
            match is {
                true => {
                    let info = self.read_info(who, people);
                    let who = who.clone();
                    joined.push(Person { who, info });
                }
                false => left.push(who.clone()),
            }
        }
        let count = self.count();
        self.shown_count = Some(count);
        (!joined.is_empty() || !left.is_empty()).then_some(Presence {
            count,
            joined,
            left,
            ..Presence::default()
        })
    }

    fn count(&self) -> u64 {
        match self.shows_names {
            true => {
                let present = self.people.values().filter(|entry| entry.is_present());
                present.count() as u64
            }
            false => {
                let elsewhere = self.peers.values().map(|peer| u64::from(peer.count));
                u64::from(self.here) + elsewhere.sum::<u64>()
            }
        }
    }

    /// Sockets with a seat.
    pub(super) fn seated(&self) -> usize {
        let sockets: u32 = self.people.values().map(|entry| entry.sockets).sum();
        debug_assert_eq!(sockets as usize, self.seats.len());
        let here = self.people.values().filter(|entry| entry.is_here());
        debug_assert_eq!(here.count(), self.here as usize);
        sockets as usize
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let names = self.people.iter().map(|(who, one)| {
            let (Who::User(name) | Who::Socket(name)) = who;
            name.len() + one.info.as_ref().map_or(0, |info| info.len())
        });
        self.seats.capacity() * size_of::<(SocketId, Who)>()
            + self.people.capacity() * size_of::<(Who, Entry)>()
            + names.sum::<usize>()
            + self.peers.len() * size_of::<(Place, Peer)>()
    }
}

/// The chosen members of a socket's data, as an object.
fn info_of(data: &str, members: &[String]) -> Arc<str> {
    let mut info = String::new();
    for name in members {
        if let Some(value) = json::member(data, name) {
            info.push(if info.is_empty() { '{' } else { ',' });
            info.push_str(name);
            info.push(':');
            info.push_str(value);
        }
    }
    if !info.is_empty() {
        info.push('}');
    }
    match info.len() {
        ..=INFO_BYTES_MAX => info.into(),
        _ => Arc::from(""),
    }
}
