//! Namespaces in which somebody speaks to each node by itself, as a worker does that has links to several. Such an event has no place in
//! the order of the nodes. Nobody can tell which of its parts a socket has that goes from one node to another, so sockets of these
//! namespaces stay (ADR 59).

use crate::bounds::{APART_MS, APART_NAMESPACES_MAX, APART_NOTE_MS};
use std::sync::atomic::{AtomicU64, Ordering};

/// The time of the last such event by namespace, for all shards of a process.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    last_ms: papaya::HashMap<Box<str>, u64>,
    any_ms: AtomicU64,
}

impl Apart {
    /// Is called before such an event is published here.
    pub(crate) fn note(&self, namespace: &str, now_ms: u64) {
        let namespaces = self.last_ms.pin();
        let last_ms = namespaces.get(namespace).copied();
        if last_ms.is_some_and(|last_ms| now_ms.saturating_sub(last_ms) < APART_NOTE_MS) {
            return;
        }
        // A namespace that finds no room holds the sockets of all: too many stay, never too few.
        match last_ms.is_none() && namespaces.len() >= APART_NAMESPACES_MAX {
            true => drop(self.any_ms.fetch_max(now_ms, Ordering::Release)),
            false => drop(namespaces.insert(namespace.into(), now_ms)),
        }
    }

    /// The namespaces whose sockets stay, and for how long it has been so; empty in place of a name: all.
    pub(crate) fn ages(&self, now_ms: u64) -> Vec<(String, u64)> {
        let namespaces = self.last_ms.pin();
        let named = namespaces
            .iter()
            .map(|(name, last_ms)| (name.to_string(), *last_ms));
        let any = (String::new(), self.any_ms.load(Ordering::Acquire));
        let all = named.chain([any]).filter(|(_, last_ms)| *last_ms > 0);
        let ages = all.map(|(name, last_ms)| (name, now_ms.saturating_sub(last_ms)));
        ages.filter(|(_, age_ms)| *age_ms < APART_MS).collect()
    }

    /// The process before noted this so long ago. That may be longer than the clock of this process counts: then sockets stay for a little
    /// longer.
    pub(crate) fn go_on_with(&self, namespace: &str, age_ms: u64, now_ms: u64) {
        // 0 means that nobody spoke.
        let last_ms = now_ms.saturating_sub(age_ms).max(1);
        let namespaces = self.last_ms.pin();
        match namespace.is_empty() || namespaces.len() >= APART_NAMESPACES_MAX {
            true => drop(self.any_ms.fetch_max(last_ms, Ordering::Release)),
            false => drop(namespaces.insert(namespace.into(), last_ms)),
        }
    }

    /// Whether sockets of this namespace stay.
    pub(crate) fn holds(&self, namespace: &str, now_ms: u64) -> bool {
        let is_recent = |last_ms: u64| last_ms != 0 && now_ms < last_ms + APART_MS;
        let own = self.last_ms.pin().get(namespace).copied();
        own.is_some_and(is_recent) || is_recent(self.any_ms.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_apart_holds_for_ten_minutes_behind_the_last_of_it() {
        let apart = Apart::default();
        assert!(!apart.holds("/a", 5));
        apart.note("/a", 1_000);
        apart.note("/a", 1_999);
        assert!(apart.holds("/a", 600_999) && !apart.holds("/a", 601_000));
        assert!(!apart.holds("/b", 5_000));
        apart.note("/a", 500_000);
        assert!(apart.holds("/a", 1_099_999));
    }

    #[test]
    fn with_too_many_namespaces_it_holds_for_all() {
        let apart = Apart::default();
        (0..=APART_NAMESPACES_MAX).for_each(|n| apart.note(&format!("/{n}"), 1_000));
        assert_eq!(apart.last_ms.len(), APART_NAMESPACES_MAX);
        assert!(apart.holds("/elsewhere", 2_000));
        assert!(!apart.holds("/elsewhere", 700_000));
    }
}
