//! How far a shard had come in the streams that all nodes read, by time. A client that answers a ping has all from before the ping.

use crate::bounds::STREAM_MARKS_MAX;
use crate::recovery::stamp::Stamp;
use crate::tables::id::Place;
use std::collections::{BTreeMap, VecDeque};

/// The marks of a shard.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    by_place: BTreeMap<Place, VecDeque<(u64, u64)>>,
}

impl Marks {
    pub(crate) fn note(&mut self, now_ms: u64, stamp: Stamp) {
        let marks = self.by_place.entry(stamp.from).or_default();
        marks.push_back((now_ms, stamp.number));
        if marks.len() > STREAM_MARKS_MAX {
            marks.pop_front();
        }
    }

    /// The last number that was reached before that time.
    pub(crate) fn before(&self, place: Place, ms: u64) -> Option<u64> {
        let marks = self.by_place.get(&place)?;
        // A mark of the same millisecond may have come after the ping.
        let earlier = marks.partition_point(|(at_ms, _)| *at_ms < ms);
        marks
            .get(earlier.checked_sub(1)?)
            .map(|(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::stamp::ShardLife;

    #[test]
    fn a_ping_confirms_what_was_reached_before_it() {
        let from = Place { node: 1, shard: 2 };
        let mut marks = Marks::default();
        (1..=300).for_each(|n| {
            let stamp = Stamp {
                from,
                life: ShardLife::OF_STREAMS,
                number: 10 * n,
            };
            marks.note(n, stamp);
        });
        assert_eq!(marks.before(from, 250), Some(2_490));
        assert_eq!(marks.before(from, 1_000), Some(3_000));
        assert_eq!(marks.before(from, 100), None, "forgotten");
        assert_eq!(marks.before(Place { node: 2, shard: 2 }, 250), None);
    }
}
