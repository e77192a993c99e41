//! Records that were handed over already. A group reads the end of a partition again after a consumer failed.

use std::collections::HashMap;

/// The last offsets of each partition.
const OFFSETS: usize = 4_096;
/// Of all topics. One that is not among them gets the memory of all others.
const PARTITIONS_MAX: usize = 1_024;

/// Which record stood at an offset: topics that are made anew begin with the same offsets, but at another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    offset: i64,
    time_ms: i64,
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
    pub fn has(&self, topic: &str, partition: i32, offset: i64, time_ms: i64) -> bool {
        let of = self.topics.get(topic).and_then(|of| of.get(&partition));
        of.is_some_and(|slots| slots[slot(offset)] == Record { offset, time_ms })
    }

    /// Remembers it.
    pub fn add(&mut self, topic: &str, partition: i32, offset: i64, time_ms: i64) {
        let known = self
            .topics
            .get_mut(topic)
            .and_then(|of| of.get_mut(&partition));
        if let Some(slots) = known {
            slots[slot(offset)] = Record { offset, time_ms };
            return;
        }
        if self.partitions() >= PARTITIONS_MAX {
            self.topics.clear();
        }
        let mut slots = vec![NONE; OFFSETS];
        slots[slot(offset)] = Record { offset, time_ms };
        let of = self.topics.entry(topic.to_owned()).or_default();
        of.insert(partition, slots);
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

    #[test]
    fn a_repeat_is_the_same_record_of_the_same_partition() {
        let mut window = Window::default();
        window.add("t", 0, 7, 100);
        assert!(window.has("t", 0, 7, 100));
        assert!(!window.has("t", 1, 7, 100));
        assert!(!window.has("u", 0, 7, 100));
        // The topic was made anew.
        assert!(!window.has("t", 0, 7, 101));
        // Behind the window, an operator who sets the offset back gets the records again.
        window.add("t", 0, 7 + OFFSETS as i64, 200);
        assert!(!window.has("t", 0, 7, 100));
    }

    #[test]
    fn memory_is_bounded() {
        let mut window = Window::default();
        for partition in 0..=PARTITIONS_MAX as i32 {
            window.add("t", partition, 0, 0);
        }
        assert_eq!(window.partitions(), 1);
    }
}
