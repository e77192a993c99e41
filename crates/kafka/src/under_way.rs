//! Records that were handed over, until they are settled: their commands are carried out while the next ones are read.

use crate::offsets::Reached;
use bridge::{Handed, Past, Place, Reached as Furthest};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Records under way at once, and bytes of their values.
const RECORDS_MAX: usize = 128;
const BYTES_MAX: usize = 1 << 20;

/// What was done with a record.
pub(crate) enum Step {
    /// Its command was handed over.
    Handed(Handed),
    /// It is a dead letter, or was handed over before.
    LeftOut,
}

struct Record {
    topic: String,
    partition: i32,
    offset: i64,
    time_ms: i64,
    step: Step,
}

/// What became of those under way.
pub(crate) struct Settled {
    /// Commands that were carried out.
    pub(crate) handed: u64,
    /// How far each partition came.
    pub(crate) reached: Reached,
    /// `false`: one was not carried out, and no offset from there on is told. Those behind it are known if they come again.
    pub(crate) is_whole: bool,
}

/// Of one reader. Its thread alone uses it: as it reads, and as the client tells it within a poll of partitions that it gives up.
#[derive(Default)]
pub(crate) struct UnderWay {
    past: Past,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    records: VecDeque<Record>,
    bytes: usize,
    namespace: String,
    has_failed: bool,
}

impl UnderWay {
    /// `past`: what readers before this one settled.
    pub(crate) fn behind(past: Past) -> Self {
        Self {
            past,
            ..Self::default()
        }
    }

    /// How far partitions were settled, also by readers before.
    pub(crate) fn furthest(&self) -> Vec<Furthest> {
        self.past.reached()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().records.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        let state = self.state();
        state.records.len() >= RECORDS_MAX || state.bytes >= BYTES_MAX
    }

    /// Whether the record was settled before.
    pub(crate) fn has(&self, place: Place<'_>) -> bool {
        self.past.has(place)
    }

    /// Whether commands of another namespace are under way: other shards may carry them out, at their own pace.
    pub(crate) fn is_elsewhere(&self, namespace: &str) -> bool {
        let state = self.state();
        !state.records.is_empty() && state.namespace != namespace
    }

    /// From now on commands are of this one.
    pub(crate) fn be_in(&self, namespace: &str) {
        let mut state = self.state();
        if state.namespace != namespace {
            namespace.clone_into(&mut state.namespace);
        }
    }

    pub(crate) fn add(&self, place: Place<'_>, step: Step, bytes: usize) {
        let mut state = self.state();
        state.bytes += bytes;
        state.records.push_back(Record {
            topic: place.topic.to_owned(),
            partition: place.partition,
            offset: place.offset,
            time_ms: place.time_ms,
            step,
        });
    }

    /// Blocks until everything under way is carried out.
    pub(crate) fn settle(&self) -> Settled {
        let mut state = self.state();
        let State {
            records,
            bytes,
            has_failed,
            ..
        } = &mut *state;
        let (mut handed, mut reached) = (0, Reached::new());
        for record in records.drain(..) {
            let Record {
                topic,
                partition,
                offset,
                time_ms,
                step,
            } = record;
            if let Step::Handed(step) = step {
                if !step.is_done() {
                    *has_failed = true;
                    continue;
                }
                handed += 1;
            }
            self.past.add(Place {
                topic: &topic,
                partition,
                offset,
                time_ms,
            });
            if !*has_failed {
                reached.insert((topic, partition), offset + 1);
            }
        }
        *bytes = 0;
        Settled {
            handed,
            reached,
            is_whole: !*has_failed,
        }
    }

    /// With another client, which reads from the last offset that was told.
    pub(crate) fn begin_again(&self) {
        self.state().has_failed = false;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(partition: i32, offset: i64) -> Place<'static> {
        Place {
            topic: "t",
            partition,
            offset,
            time_ms: 7,
        }
    }

    fn hand(all: &UnderWay, partition: i32, offset: i64, is_done: bool) {
        let step = Step::Handed(Handed::UnderWay(Box::new(move || is_done)));
        all.add(place(partition, offset), step, 1);
    }

    fn offset(settled: &Settled, partition: i32) -> Option<i64> {
        settled.reached.get(&("t".to_owned(), partition)).copied()
    }

    #[test]
    fn offsets_are_those_behind_the_last_command_of_each_partition() {
        let all = UnderWay::default();
        hand(&all, 0, 4, true);
        hand(&all, 1, 9, true);
        all.add(place(0, 5), Step::LeftOut, 1);
        assert!(!all.has(place(0, 4)), "it is not carried out yet");
        let settled = all.settle();
        assert!(settled.is_whole && all.is_empty());
        assert_eq!(settled.handed, 2);
        assert_eq!(
            (offset(&settled, 0), offset(&settled, 1)),
            (Some(6), Some(10))
        );
        assert!(all.has(place(0, 5)) && !all.has(place(0, 6)));
    }

    /// It comes again with another client; those behind it do too, and are left out.
    #[test]
    fn no_offset_passes_a_command_that_was_not_carried_out() {
        let all = UnderWay::default();
        for (offset, is_done) in [(0, true), (1, false), (2, true)] {
            hand(&all, 0, offset, is_done);
        }
        let settled = all.settle();
        assert!(!settled.is_whole);
        assert_eq!((settled.handed, offset(&settled, 0)), (2, Some(1)));
        assert!(!all.has(place(0, 1)) && all.has(place(0, 2)));
        hand(&all, 0, 3, true);
        assert_eq!(
            offset(&all.settle(), 0),
            None,
            "until there is another client"
        );
        all.begin_again();
        hand(&all, 0, 1, true);
        assert_eq!(offset(&all.settle(), 0), Some(2));
    }

    /// An upgrade that was given up: the broker has no offset of what the reader before handed over.
    #[test]
    fn the_next_reader_leaves_out_what_the_one_before_handed_over() {
        let past = Past::default();
        let before = UnderWay::behind(past.clone());
        for (offset, is_done) in [(0, true), (1, false), (2, true)] {
            hand(&before, 0, offset, is_done);
        }
        before.settle();
        let next = UnderWay::behind(past);
        assert!(next.has(place(0, 0)) && !next.has(place(0, 1)) && next.has(place(0, 2)));
        let furthest = next.furthest();
        assert_eq!((furthest.len(), furthest[0].next), (1, 3));
    }

    #[test]
    fn records_and_their_bytes_are_bounded() {
        let all = UnderWay::default();
        for offset in 0..RECORDS_MAX {
            assert!(!all.is_full());
            hand(&all, 0, offset as i64, true);
        }
        assert!(all.is_full());
        all.settle();
        assert!(!all.is_full());
        all.add(place(0, 0), Step::LeftOut, BYTES_MAX);
        assert!(all.is_full());
    }

    #[test]
    fn commands_of_two_namespaces_do_not_go_side_by_side() {
        let all = UnderWay::default();
        assert!(!all.is_elsewhere("/a"));
        all.be_in("/a");
        hand(&all, 0, 0, true);
        assert!(all.is_elsewhere("/b") && !all.is_elsewhere("/a"));
    }
}
