//! Records that were handed over already. A group reads the end of a partition again after a consumer failed.

use crate::bounds::{OFFSETS_MAX, PARTITIONS_MAX};
use crate::place::Place;
use std::collections::HashMap;
use std::time::Instant;

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

/// The commands of one partition that were handed over.
#[derive(Debug)]
struct Partition {
    slots: Vec<Record>,
    /// The furthest, and when it was handed over.
    last: Record,
    at: Instant,
}

/// How far a partition was handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// The offset behind the furthest record.
    pub next: i64,
    /// When that was handed over.
    pub at: Instant,
}

impl Partition {
    fn new(record: Record) -> Self {
        let mut all = Self {
            slots: vec![NONE; OFFSETS_MAX],
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
        let slot = &mut self.slots[slot(record.offset)];
        // The topic was made anew.
        let is_anew = slot.offset == record.offset && slot.time_ms < record.time_ms;
        *slot = record;
        if record.offset > self.last.offset || is_anew {
            self.last = record;
            self.at = Instant::now();
        }
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

    /// How far each partition was handed over.
    pub fn reached(&self) -> Vec<Reached> {
        let all = self.topics.iter().flat_map(|(topic, of)| {
            of.iter().map(|(number, all)| Reached {
                topic: topic.clone(),
                partition: *number,
                next: all.last.offset + 1,
                at: all.at,
            })
        });
        all.collect()
    }

    fn partitions(&self) -> usize {
        self.topics.values().map(HashMap::len).sum()
    }
}

fn slot(offset: i64) -> usize {
    offset.rem_euclid(OFFSETS_MAX as i64) as usize
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
        window.add(place("t", 0, 7 + OFFSETS_MAX as i64, 200));
        assert!(!window.has(place("t", 0, 7, 100)));
    }

    #[test]
    fn the_furthest_record_of_each_partition_counts() {
        let reached = |window: &Window| {
            let all = window.reached().into_iter();
            let mut all: Vec<_> = all.map(|of| (of.partition, of.next)).collect();
            all.sort_unstable();
            all
        };
        let mut window = Window::default();
        for (partition, offset, time_ms) in [(0, 6, 100), (0, 7, 101), (1, 3, 50), (0, 6, 100)] {
            window.add(place("t", partition, offset, time_ms));
        }
        assert_eq!(reached(&window), [(0, 8), (1, 4)], "one was read again");
        let before = window.reached();
        // One that was left out before: those behind it were handed over.
        window.add(place("t", 0, 5, 999));
        assert_eq!(window.reached(), before, "nor is it later");
        // The topic was made anew.
        window.add(place("t", 0, 6, 2_000));
        assert_eq!(reached(&window), [(0, 7), (1, 4)]);
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
