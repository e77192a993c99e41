//! Records that were handed over already. A group reads the end of a partition again after a consumer failed.

use crate::place::Place;
use std::collections::HashMap;

/// The last offsets of each partition.
const OFFSETS: usize = 4_096;
/// Of all topics. One that is not among them gets the memory of all others.
const PARTITIONS_MAX: usize = 1_024;

/// Which record stood at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    offset: i64,
    time_ms: i64,
}

impl Record {
    fn of(place: Place<'_>) -> Self {
        Self {
            offset: place.offset,
            time_ms: place.time_ms,
        }
    }
}

const NONE: Record = Record {
    offset: -1,
    time_ms: -1,
};

/// Remembers the last 4,096 records of each of 1,024 partitions, 64 KiB for each.
#[derive(Debug, Default)]
pub struct Window {
    topics: HashMap<String, HashMap<i32, Vec<Record>>>,
}

impl Window {
    /// Whether the record was handed over before, as far as this reaches.
    pub fn has(&self, place: Place<'_>) -> bool {
        let of = self.topics.get(place.topic);
        let of = of.and_then(|of| of.get(&place.partition));
        of.is_some_and(|slots| slots[slot(place.offset)] == Record::of(place))
    }

    /// Remembers it.
    pub fn add(&mut self, place: Place<'_>) {
        let known = self.topics.get_mut(place.topic);
        let known = known.and_then(|of| of.get_mut(&place.partition));
        if let Some(slots) = known {
            slots[slot(place.offset)] = Record::of(place);
            return;
        }
        if self.partitions() >= PARTITIONS_MAX {
            self.topics.clear();
        }
        let mut slots = vec![NONE; OFFSETS];
        slots[slot(place.offset)] = Record::of(place);
        let of = self.topics.entry(place.topic.to_owned()).or_default();
        of.insert(place.partition, slots);
    }

    fn partitions(&self) -> usize {
        self.topics.values().map(HashMap::len).sum()
    }
}

fn slot(offset: i64) -> usize {
    offset.rem_euclid(OFFSETS as i64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(topic: &str, partition: i32, offset: i64, time_ms: i64) -> Place<'_> {
        Place {
            topic,
            partition,
            offset,
            time_ms,
        }
    }

    #[test]
    fn a_repeat_is_the_same_record_of_the_same_partition() {
        let mut window = Window::default();
        window.add(place("t", 0, 7, 100));
        assert!(window.has(place("t", 0, 7, 100)));
        assert!(!window.has(place("t", 1, 7, 100)));
        assert!(!window.has(place("u", 0, 7, 100)));
        // The topic was made anew.
        assert!(!window.has(place("t", 0, 7, 101)));
        // Behind the window, an operator who sets the offset back gets the records again.
        window.add(place("t", 0, 7 + OFFSETS as i64, 200));
        assert!(!window.has(place("t", 0, 7, 100)));
    }

    #[test]
    fn memory_is_bounded() {
        let mut window = Window::default();
        for partition in 0..=PARTITIONS_MAX as i32 {
            window.add(place("t", partition, 0, 0));
        }
        assert_eq!(window.partitions(), 1);
    }
}
