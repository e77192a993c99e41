//! Checks at the end of a history.

use super::{Client, MET, POISON, Play};
use backend::Name;
use std::collections::{BTreeMap, BTreeSet};

impl Play<'_> {
    pub fn check(&self) {
        let seed = self.seed;
        let alive = self.processes.iter();
        let alive = alive
            .map(|process| (process.instance, process.life))
            .collect();
        let loses_workers =
            self.trouble.deaths || self.trouble.stalls || self.trouble.cuts || self.trouble.poison;
        for (name, client) in &self.clients {
            assert!(
                client.waits.is_empty(),
                "seed {seed}: {name:?} waits: {:?}",
                client.waits
            );
            for number in 1..=client.sent {
                let times = client.handled.iter().filter(|times| times.number == number);
                let unmarked = times.clone().filter(|times| !times.marked).count();
                assert!(
                    unmarked <= 1,
                    "seed {seed}: {name:?} event {number}: twice without a mark"
                );
                let ended = || client.had_by[&number].is_disjoint(&alive);
                let deadly = client.is_deadly(number) && ended();
                // Nobody hears the words of a socket that its worker has ended.
                let over = client.life_of(number).1.ends_at.is_some();
                let known = client.refused.contains(&number) || deadly || over;
                assert!(
                    known || times.count() > 0,
                    "seed {seed}: {name:?} event {number} is lost"
                );
            }
            let connects = client.lives().map(|(_, life)| &life.had_by);
            let most = client.had_by.values().chain(connects);
            let most = most.map(BTreeSet::len).max();
            assert!(
                most.is_none_or(|lives| lives <= MET),
                "seed {seed}: {name:?}: {:?}",
                client.had_by
            );
            let innocent = |number: &&u64| self.trouble.poison && **number != POISON;
            assert_eq!(
                client.deadly.iter().find(innocent),
                None,
                "seed {seed}: {name:?} said nothing that ends a worker"
            );
            self.check_order(name, client);
            assert!(
                loses_workers || client.handled.iter().all(|times| !times.marked),
                "seed {seed}: a mark without a loss"
            );
            self.check_lives(name, client, loses_workers);
        }
        assert_eq!(
            (self.backend.sockets(), self.backend.bytes()),
            (0, 0),
            "seed {seed}"
        );
        let events = self.events + self.backend.counts().events;
        assert!(events > 0, "seed {seed}: nothing happened");
        assert!(self.settings.window_bytes > 0);
    }

    /// Somebody decided about each connection, and heard of its end.
    fn check_lives(&self, name: &Name, client: &Client, loses_workers: bool) {
        let seed = self.seed;
        for (at, life) in client.lives() {
            let decided = life.admitted.is_some() || life.gone;
            assert!(decided, "seed {seed}: {name:?} still waits, life {at}");
            let heard = life.admitted != Some(true) || life.gone_heard > 0;
            assert!(
                heard,
                "seed {seed}: nobody heard that {name:?} is gone, life {at}"
            );
            assert!(
                loses_workers || life.gone_heard <= 1,
                "seed {seed}: the end of {name:?} was told twice, life {at}"
            );
        }
    }

    /// In order at each worker; what is not marked, in order over all of them.
    fn check_order(&self, name: &Name, client: &Client) {
        let mut last_of = BTreeMap::new();
        let mut last_unmarked = 0;
        for handled in &client.handled {
            let last = last_of.insert(handled.by, handled.number);
            let in_order = last.is_none_or(|last| last < handled.number);
            assert!(
                in_order,
                "seed {}: {name:?}: {:?}",
                self.seed, client.handled
            );
            if !handled.marked {
                assert!(
                    last_unmarked < handled.number,
                    "seed {}: {name:?}",
                    self.seed
                );
                last_unmarked = handled.number;
            }
        }
    }
}
