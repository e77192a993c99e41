//! How far partitions came, until the letters of their commands to other nodes have left: what is committed is read by nobody again.

use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A letter waits some milliseconds.
const LETTERS_TIME: Duration = Duration::from_millis(250);

/// The offset behind the last command, by topic and partition.
pub(crate) type Reached = BTreeMap<(String, i32), i64>;

/// Those that wait.
#[derive(Default)]
pub(crate) struct Offsets(Mutex<State>);

#[derive(Default)]
struct State {
    /// What came up to there is ripe so long after it.
    since: Option<Instant>,
    first: Reached,
    later: Reached,
}

impl Offsets {
    pub(crate) fn add(&self, reached: Reached, now: Instant) {
        if reached.is_empty() {
            return;
        }
        let mut state = self.state();
        match state.since {
            None => (state.since, state.first) = (Some(now), reached),
            Some(_) => state.later.extend(reached),
        }
    }

    /// Those whose letters have left by now.
    pub(crate) fn take_ripe(&self, now: Instant) -> TopicPartitionList {
        let mut state = self.state();
        let is_ripe = |since| now.saturating_duration_since(since) >= LETTERS_TIME;
        if !state.since.is_some_and(is_ripe) {
            return TopicPartitionList::new();
        }
        let later = std::mem::take(&mut state.later);
        state.since = (!later.is_empty()).then_some(now);
        list(std::mem::replace(&mut state.first, later))
    }

    /// All: this process lives on, and its letters leave.
    pub(crate) fn take_all(&self) -> TopicPartitionList {
        let State {
            mut first, later, ..
        } = std::mem::take(&mut *self.state());
        first.extend(later);
        list(first)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn list(reached: Reached) -> TopicPartitionList {
    let mut list = TopicPartitionList::new();
    for ((topic, partition), offset) in reached {
        // The names are those of a client: it takes them.
        let _ = list.add_partition_offset(&topic, partition, Offset::Offset(offset));
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(partition: i32, offset: i64) -> Reached {
        [(("t".to_owned(), partition), offset)].into()
    }

    fn offset(list: &TopicPartitionList, partition: i32) -> Option<i64> {
        list.find_partition("t", partition)?.offset().to_raw()
    }

    #[test]
    fn an_offset_waits_for_its_letters() {
        let (offsets, began) = (Offsets::default(), Instant::now());
        let at = |ms| began + Duration::from_millis(ms);
        offsets.add(reached(0, 5), at(0));
        offsets.add(reached(0, 7), at(200));
        offsets.add(reached(1, 3), at(200));
        assert_eq!(offsets.take_ripe(at(249)).count(), 0);
        let ripe = offsets.take_ripe(at(250));
        assert_eq!((offset(&ripe, 0), offset(&ripe, 1)), (Some(5), None));
        assert_eq!(offsets.take_ripe(at(499)).count(), 0);
        let ripe = offsets.take_ripe(at(500));
        assert_eq!((offset(&ripe, 0), offset(&ripe, 1)), (Some(7), Some(3)));
        assert_eq!(offsets.take_ripe(at(9_000)).count(), 0);
    }

    #[test]
    fn at_the_end_nothing_waits() {
        let (offsets, now) = (Offsets::default(), Instant::now());
        offsets.add(reached(0, 5), now);
        offsets.add(reached(0, 7), now);
        assert_eq!(offset(&offsets.take_all(), 0), Some(7));
        assert_eq!(offsets.take_all().count(), 0);
    }
}
