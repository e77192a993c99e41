//! The members of one room, those here and those elsewhere, and what follows from them: counts, and the members that others are to be told
//! of.

use super::entry::{Entry, Flag};
use super::table::Table;
use super::word::{Leaver, Who};
use crate::tables::id::Place;
use std::sync::Arc;

/// Members and former members that somebody is still to be told of.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    people: Table,
    /// The numbers of members that are here, and of all.
    here: u32,
    present: u32,
    /// Members that others are to be told of, and members that those here are to be told of.
    unsaid: Vec<Who>,
    unshown: Vec<Who>,
    /// What members have besides their rows.
    heap_bytes: usize,
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

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.people.iter()
    }

    /// The members that fit.
    pub(super) fn which(&self, fits: impl Fn(&Entry) -> bool) -> Vec<Who> {
        let fitting = self.people.iter().filter(|entry| fits(entry));
        fitting.map(Entry::who).collect()
    }

    /// The one way by which a member comes, goes, or changes where it is.
    pub(super) fn change<T>(&mut self, who: &Who, change: impl FnOnce(&mut Entry) -> T) -> T {
        let count = self.people.len();
        let entry = self.people.get_or_add(who);
        let before = (entry.is_here(), entry.is_present());
        let bytes = entry.heap_bytes();
        let result = change(entry);
        entry.tidy();
        let after = (entry.is_here(), entry.is_present());
        self.heap_bytes += entry.heap_bytes();
        self.here = self.here + u32::from(after.0) - u32::from(before.0);
        self.present = self.present + u32::from(after.1) - u32::from(before.1);
        if before.0 != after.0 && !entry.set(Flag::Unsaid, true) {
            self.unsaid.push(who.clone());
        }
        if after.1 {
            entry.set(Flag::Lost, false);
        }
        // A member that is gone is shown once more before it is forgotten.
        let shows = before.1 != after.1 || !after.1;
        if shows && !entry.set(Flag::Unshown, true) {
            self.unshown.push(who.clone());
        }
        // The bytes of a new entry were not counted before.
        if count == self.people.len() {
            self.heap_bytes -= bytes;
        }
        result
    }

    /// These people have left a shard. `lost`: nobody said so, because the shard is gone.
    pub(super) fn leave(&mut self, who: &[Who], place: Place, lost: bool) {
        for who in who {
            if self.people.get(who).is_some() {
                self.change(who, |one| {
                    one.disappears(place);
                    one.set(Flag::Lost, lost);
                });
            }
        }
    }

    pub(super) fn set_info(&mut self, who: &Who, info: &Arc<str>) {
        if let Some(entry) = self.people.get_mut(who) {
            let before = entry.heap_bytes();
            entry.set_info(info);
            self.heap_bytes += entry.heap_bytes();
            self.heap_bytes -= before;
        }
    }

    /// Takes the members that others are to be told of, each with whether it is here now, if that is news.
    pub(super) fn take_unsaid(&mut self) -> Vec<(Who, bool)> {
        let mut news = Vec::new();
        for who in std::mem::take(&mut self.unsaid) {
            if let Some(entry) = self.people.get_mut(&who) {
                entry.set(Flag::Unsaid, false);
                let is_here = entry.is_here();
                if entry.set(Flag::Told, is_here) != is_here {
                    news.push((who, is_here));
                }
            }
        }
        news
    }

    /// Members here are to be told of all again.
    pub(super) fn forget_shown(&mut self) {
        self.unshown = self.people.iter().map(Entry::who).collect();
        for entry in self.people.iter_mut() {
            entry.set(Flag::Shown, false);
            entry.set(Flag::Unshown, true);
        }
    }

    /// Takes the members that those here are to be told of: the ones that are in the room now, and the ones that are not. `all`: also where
    /// that is no news.
    pub(super) fn take_unshown(&mut self, all: bool) -> (Vec<Who>, Vec<Leaver>) {
        let (mut here, mut gone) = (Vec::new(), Vec::new());
        for who in std::mem::take(&mut self.unshown) {
            let Some(entry) = self.people.get_mut(&who) else {
                continue;
            };
            entry.set(Flag::Unshown, false);
            let (is, lost) = (entry.is_present(), entry.is(Flag::Lost));
            let was = entry.set(Flag::Shown, is);
            // A member that others were told of stays until they are told that it is gone.
            if !is && !entry.is(Flag::Told) {
                self.heap_bytes -= entry.heap_bytes();
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

    /// Checks the counts; sockets of members.
    pub(super) fn counted(&self) -> usize {
        let entries = || self.people.iter();
        let here = entries().filter(|entry| entry.is_here()).count();
        let present = entries().filter(|entry| entry.is_present()).count();
        debug_assert_eq!((here, present), (self.here as usize, self.present as usize));
        let bytes = entries().map(Entry::heap_bytes);
        debug_assert_eq!(bytes.sum::<usize>(), self.heap_bytes);
        entries().map(|entry| entry.sockets() as usize).sum()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let lists = self.unsaid.capacity() + self.unshown.capacity();
        self.people.heap_bytes() + lists * size_of::<Who>() + self.heap_bytes
    }
}
