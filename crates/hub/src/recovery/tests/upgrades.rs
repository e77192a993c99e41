//! Another process takes over from a node: what its shards know goes through records, and all who may come back come back there.

use super::*;

impl World<'_> {
    /// A node that is there. Claims between nodes are waited for.
    pub(super) fn upgrade(&mut self) {
        let mut shards = self.shards.iter();
        let is_claimed =
            |shard: &Shard| !shard.waiting.is_empty() || shard.recovery.parked.passing() > 0;
        if self.setting.nodes > 1 && shards.any(is_claimed) {
            return;
        }
        let shard = self.any_shard();
        let node = self.node_of(shard);
        self.trace(|| format!("another process goes on as node {node}"));
        let own: Vec<usize> = (0..self.shards.len())
            .filter(|shard| self.node_of(*shard) == node)
            .collect();
        self.come_to_rest(node, &own);
        // Clients that wait are told to come back.
        for shard in &own {
            let waiting = std::mem::take(&mut self.shards[*shard].waiting);
            for (client, transport) in waiting.into_values() {
                if self.clients[client].transport == transport && self.clients[client].connected {
                    self.cut(client);
                }
            }
        }
        for shard in &own {
            self.take_over(*shard);
        }
        for shard in own {
            self.settle(shard);
        }
        self.counts.upgrades += 1;
    }

    /// What is under way within the node arrives.
    fn come_to_rest(&mut self, node: usize, own: &[usize]) {
        let mut from = own.to_vec();
        from.push(self.shards.len() + node);
        loop {
            let lanes = from
                .iter()
                .flat_map(|from| own.iter().map(move |to| (*from, *to)));
            let mut lanes = lanes.filter(|(from, to)| !self.mail[*from][*to].is_empty());
            let Some((from, to)) = lanes.next() else {
                return;
            };
            let letter = self.mail[from][to].pop_front().expect("a letter");
            self.open(to, letter);
        }
    }

    fn take_over(&mut self, shard: usize) {
        let mut heir = Shard::new(self.setting, shard, &mut self.rng);
        let old = &self.shards[shard];
        let (from, to, now_ms) = (&old.recovery, &mut heir.recovery, self.now_ms);
        to.ways.abroad = from.ways.abroad.clone();
        to.takings.known = from.takings.known;
        // Some while clients were served, and the rest in any pieces.
        let (mut copied, piece) = (0, self.rng.usize(1..4_000));
        loop {
            let (first, entries) = from.journal.records(copied, piece, now_ms);
            if entries.is_empty() {
                break;
            }
            copied = first + entries.len() as u64 - 1;
            let entries = handoff::Keepsakes {
                first,
                entries,
                ..handoff::Keepsakes::default()
            };
            let entries = through_bytes(&entries);
            let follows = to.journal.take_in(entries.first, &entries.entries, now_ms);
            assert!(follows, "a piece is missing");
        }
        let word = handoff::Keepsakes {
            journal: Some(from.word(now_ms)),
            ..handoff::Keepsakes::default()
        };
        let word = through_bytes(&word).journal.expect("a word");
        assert!(to.go_on_as(&word, now_ms), "entries are missing");
        let mut at = 0;
        while let Some((place, record, left_ms)) = from.parked.from(at, now_ms) {
            at = place + 1;
            let record = Record {
                life: Life::of_record(&record.life.record()),
                ..record.clone()
            };
            to.parked.park(record, now_ms + left_ms);
        }
        let live = old.live.iter().map(|live| Live {
            record: Record {
                life: Life::of_record(&live.record.life.record()),
                ..live.record.clone()
            },
            ..*live
        });
        heir.live = live.collect();
        assert_eq!(to.journal.head(), from.journal.head());
        self.shards[shard] = heir;
    }
}

fn through_bytes(keepsakes: &handoff::Keepsakes) -> handoff::Keepsakes {
    let read = handoff::Keepsakes::read(&keepsakes.write()).expect("a record");
    assert_eq!(read.check(), Ok(()));
    read
}

/// Shards of one node: nobody is refused that would have been recovered without upgrades.
#[test]
fn who_comes_back_to_the_next_process_has_missed_nothing() {
    for shards in 1..=3 {
        let upgraded = Setting {
            upgrades: true,
            ..setting(shards)
        };
        let Some(counts) = play(upgraded, 150) else {
            continue;
        };
        assert!(counts.recovered > 300, "{shards} shards: {counts:?}");
        assert!(counts.upgrades > 300, "{shards} shards: {counts:?}");
        let refused = counts.refused;
        assert_eq!((refused.trimmed, refused.late), (0, 0), "{counts:?}");
    }
}

/// In doubt a client gets a new socket, and windows end when they would have ended.
#[test]
fn small_windows_and_journals_are_said_by_the_next_process_as_well() {
    let mut tight = Setting {
        upgrades: true,
        ..setting(3)
    };
    tight.window_ms = 250;
    tight.bounds.journal.bytes_max = 6_000;
    tight.bounds.journal.window_ms = 400;
    tight.bounds.parked.records_max = 3;
    let Some(counts) = play(tight, 150) else {
        return;
    };
    assert!(counts.upgrades > 300, "{counts:?}");
    assert!(counts.recovered > 250, "{counts:?}");
    let refused = counts.refused;
    assert!(refused.unknown > 25 && refused.trimmed > 2, "{counts:?}");
}

/// Three nodes, one of which is upgraded while no socket is on its way.
#[test]
fn a_node_goes_on_in_the_next_process_and_its_sockets_go_to_others() {
    let between = Setting {
        nodes: 3,
        steps: 900,
        upgrades: true,
        ..setting(2)
    };
    let Some(counts) = play(between, 100) else {
        return;
    };
    assert!(counts.upgrades > 50, "{counts:?}");
    assert!(counts.abroad > 75, "{counts:?}");
}
