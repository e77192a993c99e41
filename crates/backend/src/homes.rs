//! The sockets that a backend knows, and those of them that have no worker.

use crate::entry::Entry;
use crate::home::Home;
use crate::name::Name;
use foldhash::fast::FixedState;
use std::collections::{BTreeSet, HashMap};

/// Ids of sockets are random, and the shards make them: a fast hash without a secret is enough. A table that grows has up to two places for each
/// socket, so that homes stand beside it.
#[derive(Debug, Default)]
pub(crate) struct Homes {
    all: HashMap<Name, Box<Home>, FixedState>,
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

    /// The home of the socket that an entry is about.
    pub(crate) fn of(&self, entry: &Entry) -> Option<&Home> {
        self.get(entry.about.as_ref()?)
    }

    pub(crate) fn of_mut(&mut self, entry: &Entry) -> Option<&mut Home> {
        self.get_mut(entry.about.as_ref()?)
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

    pub(crate) fn insert(&mut self, name: Name, home: Home) {
        self.all.insert(name, Box::new(home));
    }

    /// The one that is there stays.
    pub(crate) fn keep_or_insert(&mut self, name: Name, home: Home) {
        self.all.entry(name).or_insert_with(|| Box::new(home));
    }

    pub(crate) fn remove(&mut self, name: &Name) -> Option<Box<Home>> {
        let home = self.all.remove(name)?;
        self.homeless.remove(name);
        self.looks.remove(&(home.look_ms, *name));
        Some(home)
    }

    // ---- those without a worker -----------------------------------------------------------------------------------------------

    pub(crate) fn homeless(&self) -> &BTreeSet<Name> {
        &self.homeless
    }

    pub(crate) fn lacks_worker(&mut self, name: Name) {
        self.homeless.insert(name);
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
