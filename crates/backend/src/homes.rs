//! The sockets that a backend knows, and those of them that have no worker.

use crate::entry::Entry;
use crate::home::Home;
use crate::name::Name;
use foldhash::fast::FixedState;
use std::collections::{BTreeSet, HashMap, VecDeque};

/// A client that comes back has the id that it had, and lives anew: items of one life are none of another's, and the next life begins for workers when
/// nothing is left of the one before. Ids of sockets are random, and the shards make them: a fast hash without a secret is enough. A table that grows has up to two places
/// for each socket, so that homes stand beside it.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    all: HashMap<Name, Box<Home>, FixedState>,
    /// Lives that wait for the end of the one before, the oldest first.
    later: HashMap<Name, VecDeque<Box<Home>>, FixedState>,
    /// Sockets of which a life ended while the next one waits.
    over: Vec<Name>,
    /// Lives so far.
    lives: u64,
    /// Sockets without a worker.
    homeless: BTreeSet<Name>,
    /// When each of these is looked at, at most once.
    looks: BTreeSet<(u64, Name)>,
}

impl Homes {
    pub(crate) fn get(&self, name: &Name) -> Option<&Home> {
        self.all.get(name).map(|home| &**home)
    }

    pub(crate) fn get_mut(&mut self, name: &Name) -> Option<&mut Home> {
        self.all.get_mut(name).map(|home| &mut **home)
    }

    /// The home of the socket that an entry is about, in the life that the entry is about.
    pub(crate) fn of(&self, entry: &Entry) -> Option<&Home> {
        let home = self.get(entry.about.as_ref()?)?;
        (home.items.life() == entry.life).then_some(home)
    }

    pub(crate) fn of_mut(&mut self, entry: &Entry) -> Option<&mut Home> {
        let home = self.get_mut(entry.about.as_ref()?)?;
        (home.items.life() == entry.life).then_some(home)
    }

    pub(crate) fn has(&self, name: &Name) -> bool {
        self.all.contains_key(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Name, &Home)> {
        self.all.iter().map(|(name, home)| (name, &**home))
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn remove(&mut self, name: &Name) -> Option<Box<Home>> {
        let home = self.all.remove(name)?;
        self.homeless.remove(name);
        self.looks.remove(&(home.look_ms, *name));
        if self.later.contains_key(name) {
            self.over.push(*name);
        }
        Some(home)
    }

    // ---- lives ----------------------------------------------------------------------------------------------------------------

    pub(crate) fn lives(&self) -> u64 {
        self.lives
    }

    pub(crate) fn go_on_from(&mut self, lives: u64) {
        self.lives = lives;
    }

    /// Another life begins, for its shard: for workers as soon as nothing is left of those before.
    pub(crate) fn begin(&mut self, name: Name, mut home: Home) {
        self.lives += 1;
        home.items.live(self.lives);
        self.insert(name, home);
    }

    /// The same for one that another process began. Those of a name come in their order.
    pub(crate) fn insert(&mut self, name: Name, home: Home) {
        let home = Box::new(home);
        match self.all.contains_key(&name) || self.later.contains_key(&name) {
            true => {
                let later = self.later.entry(name);
                // Most have one.
                let later = later.or_insert_with(|| VecDeque::with_capacity(1));
                later.push_back(home);
            }
            false => drop(self.all.insert(name, home)),
        }
    }

    /// The last life of a socket: the one that its shard speaks of.
    pub(crate) fn last(&self, name: &Name) -> Option<&Home> {
        let later = self.later.get(name).and_then(VecDeque::back);
        later.map(|home| &**home).or_else(|| self.get(name))
    }

    pub(crate) fn last_mut(&mut self, name: &Name) -> Option<&mut Home> {
        match self.later.get_mut(name).and_then(VecDeque::back_mut) {
            Some(home) => Some(home),
            None => self.all.get_mut(name).map(|home| &mut **home),
        }
    }

    /// The client of its last life waits for the decision about this CONNECT.
    pub(crate) fn waits_for_decision(&self, name: &Name, number: u64) -> bool {
        let last = self.last(name);
        last.is_some_and(|home| home.deciding() == Some(number))
    }

    /// The last life, if it waits for one before.
    pub(crate) fn later_mut(&mut self, name: &Name) -> Option<&mut Home> {
        self.later.get_mut(name)?.back_mut().map(|home| &mut **home)
    }

    pub(crate) fn remove_later(&mut self, name: &Name) -> Option<Box<Home>> {
        self.take_later(name, VecDeque::pop_back)
    }

    fn take_later(
        &mut self,
        name: &Name,
        take: fn(&mut VecDeque<Box<Home>>) -> Option<Box<Home>>,
    ) -> Option<Box<Home>> {
        let later = self.later.get_mut(name)?;
        let home = take(later);
        if later.is_empty() {
            self.later.remove(name);
        }
        home
    }

    /// Those that wait, by their sockets.
    pub(crate) fn all_later(&self) -> impl Iterator<Item = (&Name, &Home)> {
        let later = self.later.iter();
        later.flat_map(|(name, homes)| homes.iter().map(move |home| (name, &**home)))
    }

    /// Leaves out those of them that are not kept.
    pub(crate) fn retain_later(&mut self, mut keep: impl FnMut(Name, &mut Home) -> bool) {
        self.later.retain(|name, homes| {
            homes.retain_mut(|home| keep(*name, home));
            !homes.is_empty()
        });
    }

    /// Each of all lives.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Home> {
        let later = self.later.values_mut().flatten();
        self.all.values_mut().chain(later).map(|home| &mut **home)
    }

    /// Those whose time has come are the first of their sockets now.
    pub(crate) fn begin_next(&mut self) -> Vec<Name> {
        let mut names = std::mem::take(&mut self.over);
        names.retain(|name| {
            let next = self.take_later(name, VecDeque::pop_front);
            let begins = next.is_some();
            self.all.extend(next.map(|home| (*name, home)));
            begins
        });
        names
    }

    // ---- those without a worker -----------------------------------------------------------------------------------------------

    pub(crate) fn homeless(&self) -> &BTreeSet<Name> {
        &self.homeless
    }

    pub(crate) fn lacks_worker(&mut self, name: Name) {
        if self.get(&name).is_some_and(|home| home.worker.is_none()) {
            self.homeless.insert(name);
        }
    }

    pub(crate) fn has_worker(&mut self, name: Name) {
        self.homeless.remove(&name);
        if let Some(home) = self.all.get_mut(&name) {
            let look_ms = std::mem::take(&mut home.look_ms);
            self.looks.remove(&(look_ms, name));
        }
    }

    /// Looks at a socket without a worker then, or before.
    pub(crate) fn look_by(&mut self, name: Name, due_ms: u64) {
        let Some(home) = self.all.get_mut(&name) else {
            return;
        };
        if home.look_ms != 0 && home.look_ms <= due_ms {
            return;
        }
        self.looks.remove(&(home.look_ms, name));
        home.look_ms = due_ms.max(1);
        self.looks.insert((home.look_ms, name));
    }

    /// The next to be looked at by now.
    pub(crate) fn next_look(&mut self, now_ms: u64) -> Option<Name> {
        let (_, name) = *self.looks.first().filter(|(due_ms, _)| *due_ms <= now_ms)?;
        self.looks.pop_first();
        if let Some(home) = self.all.get_mut(&name) {
            home.look_ms = 0;
        }
        Some(name)
    }
}
