//! The tap: copies of chosen events for programs outside, taken where events are published. Without one nothing is copied.

use crate::dialect::speech::Emit;
use crate::output::copies::{Copies, Weigh};
use crate::rooms::target::{Scope, Target};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

/// Cost of a copy beside its texts.
const OVERHEAD_BYTES: usize = 128;

/// A copy of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// The channel it is published on.
    pub namespace: String,
    /// Its name.
    pub event: String,
    /// Its arguments: raw JSON elements, separated by commas.
    pub args: String,
    /// Rooms that it is for.
    pub rooms: Vec<String>,
    /// Users that it is for; without rooms and users it is for the whole namespace.
    pub users: Vec<String>,
}

impl Weigh for Tapped {
    fn bytes(&self) -> usize {
        let names = self.rooms.iter().chain(&self.users);
        let names: usize = names.map(|name| name.len() + size_of::<String>()).sum();
        self.namespace.len() + self.event.len() + self.args.len() + names + OVERHEAD_BYTES
    }
}

/// The events that are copied, and the copies that wait for the reader.
#[derive(Debug)]
pub struct Tap {
    /// Names of events, by namespace.
    chosen: HashMap<String, Vec<String>>,
    /// Events with longer arguments are not copied.
    args_bytes_max: usize,
    copies: Copies<Tapped>,
    unfit: AtomicU64,
}

impl Tap {
    /// Chooses events by namespace and name.
    pub fn new(chosen: impl Iterator<Item = (String, String)>, args_bytes_max: usize) -> Self {
        let mut by_namespace = HashMap::<String, Vec<String>>::new();
        for (namespace, event) in chosen {
            by_namespace.entry(namespace).or_default().push(event);
        }
        Self {
            chosen: by_namespace,
            args_bytes_max,
            copies: Copies::default(),
            unfit: AtomicU64::new(0),
        }
    }

    /// Wakes the one reader for each copy from now on.
    pub fn wake_for_each(&self, reader: Waker) {
        self.copies.wake_for_each(reader);
    }

    /// The next copy; those of one shard are in order.
    pub fn next(&self) -> Option<Tapped> {
        self.copies.next()
    }

    /// Events that were not copied because too many copies waited.
    pub fn dropped(&self) -> u64 {
        self.copies.dropped()
    }

    /// Events that were not copied because they are too large, or have binary attachments.
    pub fn unfit(&self) -> u64 {
        self.unfit.load(Ordering::Relaxed)
    }

    /// Copies an event that is published here for all nodes, if it is chosen.
    #[inline]
    pub(crate) fn pass(&self, to: &Target<'_>, event: &Emit<'_>) {
        let chosen = self.chosen.get(to.namespace);
        if to.scope == Scope::Everywhere
            && chosen.is_some_and(|names| names.iter().any(|name| name == event.name))
        {
            self.copy(to, event);
        }
    }

    #[cold]
    fn copy(&self, to: &Target<'_>, event: &Emit<'_>) {
        if event.args.len() > self.args_bytes_max || !event.attachments.is_empty() {
            self.unfit.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let copy = Tapped {
            namespace: to.namespace.to_owned(),
            event: event.name.to_owned(),
            args: event.args.to_owned(),
            rooms: owned(to.rooms),
            users: owned(to.users),
        };
        // A copy that finds no room is counted.
        let _ = self.copies.push(copy);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tap() -> Tap {
        let chosen = [("/", "news"), ("/", "chat"), ("/a", "news")];
        let chosen = chosen.map(|(namespace, event)| (namespace.to_owned(), event.to_owned()));
        Tap::new(chosen.into_iter(), 1_000)
    }

    #[test]
    fn chosen_events_for_all_nodes_are_copied_and_no_others() {
        let tap = tap();
        let to = Target {
            namespace: "/",
            rooms: &["den"],
            ..Target::default()
        };
        for (namespace, event) in [
            ("/", "news"),
            ("/", "other"),
            ("/a", "chat"),
            ("/b", "news"),
        ] {
            tap.pass(&Target { namespace, ..to }, &Emit::new(event, "1"));
        }
        let local = Target {
            scope: Scope::Node,
            ..to
        };
        tap.pass(&local, &Emit::new("news", "2"));
        let copy = tap.next().expect("one of them");
        assert_eq!((&*copy.event, &*copy.args), ("news", "1"));
        assert_eq!(copy.rooms, ["den"]);
        assert_eq!(tap.next(), None);
        assert_eq!((tap.dropped(), tap.unfit()), (0, 0));
    }

    #[test]
    fn a_reader_that_stands_still_costs_bounded_memory() {
        let tap = tap();
        let to = Target {
            namespace: "/",
            ..Target::default()
        };
        let args = "7".repeat(1_000);
        for _ in 0..20_000 {
            tap.pass(&to, &Emit::new("news", &args));
        }
        tap.pass(&to, &Emit::new("news", &"7".repeat(1_001)));
        let kept = std::iter::from_fn(|| tap.next()).count() as u64;
        assert_eq!((kept + tap.dropped(), tap.unfit()), (20_000, 1));
    }
}
