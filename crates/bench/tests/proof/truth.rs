//! Owns the record of what the server really did, and its account by the simplest means there
//! are: a set and the highest number so far.

use std::collections::{HashMap, HashSet};

/// One message as it was written to a member.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Connection that sent it.
    pub publisher: usize,
    /// Counts the messages of this publisher to this room.
    pub number: u64,
    pub latency_ns: u64,
}

/// Everything about one member, in the order it happened.
#[derive(Clone, Debug, Default)]
pub struct MemberRecord {
    /// Messages published to its room by others while it was a member.
    pub expected: u64,
    pub written: Vec<Written>,
}

/// What the tester must find.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Truth {
    pub published: u64,
    pub expected: u64,
    /// Each once.
    pub delivered: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub reordered: u64,
    /// Of messages that asked for it, and of joining and leaving.
    pub acks_owed: u64,
    pub acks_given: u64,
    pub cut: u64,
    /// Of the first copy of each message, from due until written; ascending.
    pub latencies_ns: Vec<u64>,
}

impl Truth {
    pub fn count_ack(&mut self, given: bool) {
        self.acks_owed += 1;
        self.acks_given += u64::from(given);
    }

    pub fn add_member(&mut self, record: &MemberRecord) {
        let mut seen: HashSet<(usize, u64)> = HashSet::new();
        let mut highest: HashMap<usize, u64> = HashMap::new();
        for written in &record.written {
            if !seen.insert((written.publisher, written.number)) {
                self.duplicated += 1;
                continue;
            }
            self.latencies_ns.push(written.latency_ns);
            let before = highest.entry(written.publisher).or_insert(written.number);
            if written.number < *before {
                self.reordered += 1;
            }
            *before = written.number.max(*before);
        }
        self.expected += record.expected;
        self.delivered += seen.len() as u64;
        self.lost += record.expected - seen.len() as u64;
    }

    /// The latency that the share `quantile` of all first copies does not exceed.
    pub fn latency_ns(&self, quantile: f64) -> u64 {
        let rank = (quantile * self.latencies_ns.len() as f64).ceil() as usize;
        self.latencies_ns[rank.max(1) - 1]
    }
}
