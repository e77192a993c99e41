//! Records that were handed over already. A group reads the end of a partition again after a consumer failed.

use crate::place::Place;
use std::collections::HashMap;
use std::time::{Duration, Instant};

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

/// What was handed over of one partition.
#[derive(Debug)]
struct Partition {
    slots: Vec<Record>,
    /// The furthest, and when one was handed over last.
    last: Record,
    at: Instant,
}

impl Partition {
    fn new(record: Record) -> Self {
        let mut all = Self {
            slots: vec![NONE; OFFSETS],
            last: NONE,
            at: Instant::now(),
        };
        all.add(record);
        all
    }

    fn has(&self, record: Record) -> bool {
        self.slots[slot(record.offset)] == record
    }

    fn add(&mut self, record: Record) {
        // A topic that was made anew begins with low offsets and late times.
        let is_anew = !self.has(record) && record.time_ms > self.last.time_ms;
        if record.offset >= self.last.offset || is_anew {
            self.last = record;
        }
        self.slots[slot(record.offset)] = record;
        self.at = Instant::now();
    }
}

/// Remembers the last 4,096 records of each of 1,024 partitions, 64 KiB for each.
#[derive(Debug, Default)]
pub struct Window {
    topics: HashMap<String, HashMap<i32, Partition>>,
}

impl Window {
    /// Whether the record was handed over before, as far as this reaches.
    pub fn has(&self, place: Place<'_>) -> bool {
        let of = self.topics.get(place.topic);
        let of = of.and_then(|of| of.get(&place.partition));
        of.is_some_and(|all| all.has(Record::of(place)))
    }

    /// Remembers it.
    pub fn add(&mut self, place: Place<'_>) {
        let known = self.topics.get_mut(place.topic);
        let known = known.and_then(|of| of.get_mut(&place.partition));
        if let Some(all) = known {
            return all.add(Record::of(place));
        }
        if self.partitions() >= PARTITIONS_MAX {
            self.topics.clear();
        }
        let of = self.topics.entry(place.topic.to_owned()).or_default();
        of.insert(place.partition, Partition::new(Record::of(place)));
    }

    /// How far the partitions were handed over of which something was within this time: topic, number, and the offset of the next record.
    pub fn reached(&self, within: Duration) -> Vec<(String, i32, i64)> {
        let all = self.topics.iter().flat_map(|(topic, of)| {
            of.iter()
                .filter(|(_, all)| all.at.elapsed() <= within)
                .map(|(number, all)| (topic.clone(), *number, all.last.offset + 1))
        });
        all.collect()
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
    fn the_furthest_record_of_each_partition_counts() {
        let reached = |window: &Window| {
            let mut all = window.reached(Duration::from_secs(60));
            all.sort();
            all
        };
        let mut window = Window::default();
        for (partition, offset, time_ms) in [(0, 6, 100), (0, 7, 101), (1, 3, 50), (0, 6, 100)] {
            window.add(place("t", partition, offset, time_ms));
        }
        let expected = [("t".to_owned(), 0, 8), ("t".to_owned(), 1, 4)];
        assert_eq!(reached(&window), expected, "what was read again, too");
        // One that was left out before: those behind it were handed over.
        window.add(place("t", 0, 5, 99));
        assert_eq!(reached(&window)[0].2, 8);
        // The topic was made anew.
        window.add(place("t", 0, 2, 500));
        assert_eq!(reached(&window)[0].2, 3);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(window.reached(Duration::ZERO), []);
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
