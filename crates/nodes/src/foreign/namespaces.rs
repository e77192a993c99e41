//! Namespaces that are shared with other servers. Clients may make namespaces by connecting, so they are bounded.

use std::collections::HashMap;

/// So many at once.
const NAMESPACES_MAX: usize = 1_000;
/// One that no client is in and that nothing is said to is left after so long.
const QUIET_MS: u64 = 60_000;

/// What is to be done about a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    Shared,
    /// It is shared from now on.
    New,
    /// Too many others are.
    Full,
}

#[derive(Debug, Default)]
pub(super) struct Namespaces {
    /// When something happened last in those that are shared.
    shared: HashMap<String, u64>,
    /// Shards of ours that have sockets, in all namespaces.
    shards: HashMap<String, u32>,
}

impl Namespaces {
    /// A shard has its first socket there, or had its last.
    pub(super) fn count(&mut self, namespace: &str, came: bool, now_ms: u64) {
        if let Some(seen_ms) = self.shared.get_mut(namespace) {
            *seen_ms = now_ms;
        }
        match (self.shards.get_mut(namespace), came) {
            (Some(shards), true) => *shards += 1,
            (Some(1), false) => drop(self.shards.remove(namespace)),
            (Some(shards), false) => *shards -= 1,
            (None, true) => drop(self.shards.insert(namespace.to_owned(), 1)),
            (None, false) => {}
        }
    }

    /// Something happens there.
    pub(super) fn enter(&mut self, namespace: &str, now_ms: u64) -> Entry {
        if let Some(seen_ms) = self.shared.get_mut(namespace) {
            *seen_ms = now_ms;
            return Entry::Shared;
        }
        if self.shared.len() == NAMESPACES_MAX {
            return Entry::Full;
        }
        self.shared.insert(namespace.to_owned(), now_ms);
        Entry::New
    }

    /// Takes out those in which nothing happens any more.
    pub(super) fn leave_quiet(&mut self, now_ms: u64) -> Vec<String> {
        let shards = &self.shards;
        let is_quiet = |namespace: &String, seen_ms: &mut u64| {
            now_ms.saturating_sub(*seen_ms) >= QUIET_MS && !shards.contains_key(namespace)
        };
        let left = self.shared.extract_if(is_quiet);
        left.map(|(namespace, _)| namespace).collect()
    }

    /// Those with clients that found no room, as far as there is room by now.
    pub(super) fn latecomers(&self) -> Vec<String> {
        let room = NAMESPACES_MAX - self.shared.len();
        let waits = |namespace: &&String| !self.shared.contains_key(*namespace);
        let late = self.shards.keys().filter(waits);
        late.take(room).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: &str = "/late";

    fn full() -> Namespaces {
        let mut namespaces = Namespaces::default();
        for number in 0..NAMESPACES_MAX {
            assert_eq!(namespaces.enter(&format!("/{number}"), 0), Entry::New);
        }
        namespaces
    }

    /// It was never shared, though there was room a minute later.
    #[test]
    fn a_namespace_that_found_no_room_is_shared_when_there_is() {
        let mut namespaces = full();
        namespaces.count(LATE, true, 1);
        assert_eq!(namespaces.enter(LATE, 1), Entry::Full);
        assert!(namespaces.latecomers().is_empty());
        assert_eq!(namespaces.leave_quiet(QUIET_MS).len(), NAMESPACES_MAX);
        assert_eq!(namespaces.latecomers(), [LATE]);
        assert_eq!(namespaces.enter(LATE, QUIET_MS), Entry::New);
        assert!(namespaces.latecomers().is_empty());
    }

    /// Its clients had come while there was no room, and were not counted.
    #[test]
    fn a_namespace_with_clients_was_left_after_a_quiet_minute() {
        let mut namespaces = full();
        namespaces.count(LATE, true, 1);
        namespaces.count(LATE, true, 1);
        namespaces.leave_quiet(QUIET_MS);
        assert_eq!(namespaces.enter(LATE, QUIET_MS), Entry::New);
        namespaces.count(LATE, false, QUIET_MS);
        assert!(namespaces.leave_quiet(3 * QUIET_MS).is_empty());
        namespaces.count(LATE, false, 3 * QUIET_MS);
        assert_eq!(namespaces.leave_quiet(4 * QUIET_MS), [LATE]);
        assert!(namespaces.shards.is_empty());
    }
}
