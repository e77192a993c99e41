//! The members of one room, those here and those elsewhere, and what follows from them: counts, and of whom others are to be told.

use super::places::Places;
use super::word::{Leaver, Who};
use crate::tables::id::Place;
use crate::tables::slot::SocketId;
use std::collections::HashMap;
use std::num::NonZeroU64;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Sockets here.
    pub(super) sockets: u32,
    /// A socket here lost its connection; until then it may come back, whatever the others do.
    lingers_ms: Option<NonZeroU64>,
    /// Others were told that it is here.
    pub(super) told: bool,
    /// Members here were told that it is in the room.
    pub(super) shown: bool,
    /// In the list of those of whom others are to be told, and of those of whom members here are.
    unsaid: bool,
    unshown: bool,
    /// `None`: it is read from the data of a socket here when others are told.
    pub(super) info: Option<Arc<str>>,
    pub(super) socket: Option<SocketId>,
    /// Shards that have it, too.
    pub(super) elsewhere: Places,
    /// The last that had it are gone without a word.
    lost: bool,
}

impl Entry {
    pub(super) fn is_here(&self) -> bool {
        self.sockets > 0 || self.lingers_ms.is_some()
    }

    pub(super) fn is_present(&self) -> bool {
        self.is_here() || !self.elsewhere.is_empty()
    }

    pub(super) fn lingers_ms(&self) -> Option<u64> {
        self.lingers_ms.map(NonZeroU64::get)
    }

    /// What it was before.
    pub(super) fn linger(&mut self, until_ms: Option<u64>) -> Option<u64> {
        let before = self.lingers_ms();
        self.lingers_ms = until_ms.map(|ms| NonZeroU64::MIN.saturating_add(ms.saturating_sub(1)));
        before
    }
}

/// Members and former members that somebody is still to be told of.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    people: HashMap<Who, Entry>,
    /// Members that are here, and all.
    here: u32,
    present: u32,
    /// Those of whom others are to be told, and those of whom members here are.
    unsaid: Vec<Who>,
    unshown: Vec<Who>,
    /// Of names and infos.
    text_bytes: usize,
}

impl Crowd {
    pub(super) fn here(&self) -> u32 {
        self.here
    }

    pub(super) fn present(&self) -> u32 {
        self.present
    }

    pub(super) fn has_unsaid(&self) -> bool {
        !self.unsaid.is_empty()
    }

    pub(super) fn has_unshown(&self) -> bool {
        !self.unshown.is_empty()
    }

    pub(super) fn get(&self, who: &Who) -> Option<&Entry> {
        self.people.get(who)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Who, &Entry)> + Clone {
        self.people.iter()
    }

    /// Of members that need a change, by what they are.
    pub(super) fn which(&self, fits: impl Fn(&Entry) -> bool) -> Vec<Who> {
        let fitting = self.people.iter().filter(|(_, entry)| fits(entry));
        fitting.map(|(who, _)| who.clone()).collect()
    }

    /// The one way by which a member comes, goes, or changes where it is.
    pub(super) fn change<T>(&mut self, who: &Who, change: impl FnOnce(&mut Entry) -> T) -> T {
        let entry = self.people.entry(who.clone()).or_insert_with(|| {
            self.text_bytes += who.name().len();
            Entry::default()
        });
        let before = (entry.is_here(), entry.is_present());
        let result = change(entry);
        let after = (entry.is_here(), entry.is_present());
        self.here = self.here + u32::from(after.0) - u32::from(before.0);
        self.present = self.present + u32::from(after.1) - u32::from(before.1);
        if before.0 != after.0 && !std::mem::replace(&mut entry.unsaid, true) {
            self.unsaid.push(who.clone());
        }
        entry.lost &= !after.1;
        // Those that are gone are forgotten when they were shown.
        let shows = before.1 != after.1 || !after.1;
        if shows && !std::mem::replace(&mut entry.unshown, true) {
            self.unshown.push(who.clone());
        }
        result
    }

    /// A shard has none of these any more. `lost`: nobody said so, it is gone.
    pub(super) fn leave(&mut self, who: &[Who], place: Place, lost: bool) {
        for who in who {
            if self.people.contains_key(who) {
                self.change(who, |one| {
                    one.elsewhere.remove(place);
                    one.lost = lost;
                });
            }
        }
    }

    pub(super) fn set_info(&mut self, who: &Who, info: &Arc<str>) {
        if let Some(entry) = self.people.get_mut(who) {
            // All without one share it.
            let info = match info.is_empty() {
                true => Arc::default(),
                false => Arc::clone(info),
            };
            self.text_bytes += info.len();
            let before = entry.info.replace(info);
            self.text_bytes -= before.map_or(0, |info| info.len());
        }
    }

    /// Those of whom others are to be told: each with whether it is here now, if that is news.
    pub(super) fn take_unsaid(&mut self) -> Vec<(Who, bool)> {
        let mut news = Vec::new();
        for who in std::mem::take(&mut self.unsaid) {
            if let Some(entry) = self.people.get_mut(&who) {
                entry.unsaid = false;
                let is_here = entry.is_here();
                if std::mem::replace(&mut entry.told, is_here) != is_here {
                    news.push((who, is_here));
                }
            }
        }
        news
    }

    /// Members here are to be told of all again.
    pub(super) fn forget_shown(&mut self) {
        self.unshown = self.people.keys().cloned().collect();
        for entry in self.people.values_mut() {
            (entry.shown, entry.unshown) = (false, true);
        }
    }

    /// Those of whom members here are to be told: who is in the room now, and who is not. `all`: also those of whom that is no news.
    pub(super) fn take_unshown(&mut self, all: bool) -> (Vec<Who>, Vec<Leaver>) {
        let (mut here, mut gone) = (Vec::new(), Vec::new());
        for who in std::mem::take(&mut self.unshown) {
            let Some(entry) = self.people.get_mut(&who) else {
                continue;
            };
            entry.unshown = false;
            let (is, lost) = (entry.is_present(), entry.lost);
            let was = std::mem::replace(&mut entry.shown, is);
            if !is && !entry.told {
                self.text_bytes -=
                    who.name().len() + entry.info.as_ref().map_or(0, |info| info.len());
                self.people.remove(&who);
            }
            match is {
                _ if is == was && !all => {}
                true => here.push(who),
                false => gone.push(Leaver { who, lost }),
            }
        }
        (here, gone)
    }

    /// What a member costs in the table, without its name.
    #[cfg(test)]
    pub(super) const ENTRY_BYTES: usize = size_of::<(Who, Entry)>();

    /// Checks the counts; sockets of members.
    pub(super) fn counted(&self) -> usize {
        let entries = || self.people.values();
        let here = entries().filter(|entry| entry.is_here()).count();
        let present = entries().filter(|entry| entry.is_present()).count();
        debug_assert_eq!((here, present), (self.here as usize, self.present as usize));
        let texts = self.people.iter().map(|(who, one)| {
            let info = one.info.as_ref().map_or(0, |info| info.len());
            who.name().len() + info
        });
        debug_assert_eq!(texts.sum::<usize>(), self.text_bytes);
        entries().map(|entry| entry.sockets as usize).sum()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let lists = self.unsaid.capacity() + self.unshown.capacity();
        self.people.capacity() * size_of::<(Who, Entry)>()
            + lists * size_of::<Who>()
            + self.text_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every member of every room with presence costs it on every shard that has the room.
    #[test]
    fn a_member_is_small() {
        const { assert!(Crowd::ENTRY_BYTES <= 80) }
    }
}
