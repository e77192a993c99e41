//! Whether servers of a dialect are in a namespace. We write to them only while they are: listening costs little, writing costs
//! Redis and every Node server.

use crate::bounds::{HEARD_MS, SERVERS_MAX, STAYS_MS, TAIL_MS};
use std::collections::{HashMap, VecDeque};

/// Servers of one dialect in one namespace.
#[derive(Debug, Default)]
pub struct Presence {
    seen_ms: Option<u64>,
    /// When each server was heard last.
    heard: HashMap<String, u64>,
}

impl Presence {
    /// A message of a server, by its uid. Emitters are no servers: they hear nothing.
    pub fn heard(&mut self, uid: &str, now_ms: u64) {
        if uid.is_empty() || uid == "emitter" {
            return;
        }
        self.seen_ms = Some(now_ms);
        if self.heard.len() == SERVERS_MAX && !self.heard.contains_key(uid) {
            let lately = |_: &String, seen: &mut u64| now_ms.saturating_sub(*seen) < HEARD_MS;
            self.heard.retain(lately);
            if self.heard.len() == SERVERS_MAX {
                return;
            }
        }
        self.heard.insert(uid.to_owned(), now_ms);
    }

    /// A server says that it leaves.
    pub fn left(&mut self, uid: &str) {
        self.heard.remove(uid);
    }

    /// Redis counts `subscribers` of a channel to which each server and each of our `own` nodes subscribes once. Returns how many
    /// others there are.
    pub fn counted(&mut self, subscribers: u64, own: u64, now_ms: u64) -> u64 {
        let others = subscribers.saturating_sub(own);
        if others > 0 {
            self.seen_ms = Some(now_ms);
        }
        others
    }

    /// Whether there is a server to write to.
    pub fn is_there(&self, now_ms: u64) -> bool {
        let since = self.seen_ms.map(|seen| now_ms.saturating_sub(seen));
        since.is_some_and(|since| since < STAYS_MS)
    }

    /// How many servers were heard in the last 10 seconds.
    pub fn heard_lately(&self, now_ms: u64) -> u64 {
        let lately = |seen: &&u64| now_ms.saturating_sub(**seen) < HEARD_MS;
        self.heard.values().filter(lately).count() as u64
    }
}

/// The latest letters of a namespace without servers. A server that appears is told: between its subscription and our
/// knowledge of it, it would miss that.
#[derive(Debug)]
pub struct Tail<T> {
    said: VecDeque<(u64, usize, T)>,
    bytes: usize,
    bytes_max: usize,
}

impl<T> Tail<T> {
    /// A tail that holds no more than `bytes_max`.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            said: VecDeque::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Notes what was said; `bytes` is its size. Older messages, and those that do not fit, are forgotten, the oldest first.
    pub fn push(&mut self, what: T, bytes: usize, now_ms: u64) {
        self.said.push_back((now_ms, bytes, what));
        self.bytes += bytes;
        self.trim(now_ms);
    }

    /// Takes all of it, in the order in which it was said.
    pub fn take(&mut self, now_ms: u64) -> impl Iterator<Item = T> + '_ {
        self.trim(now_ms);
        self.bytes = 0;
        self.said.drain(..).map(|(_, _, what)| what)
    }

    /// Forgets what is too old.
    pub fn trim(&mut self, now_ms: u64) {
        while let Some((said_ms, bytes, _)) = self.said.front() {
            if now_ms.saturating_sub(*said_ms) <= TAIL_MS && self.bytes <= self.bytes_max {
                break;
            }
            self.bytes -= bytes;
            self.said.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_is_written_to_for_a_minute_after_its_last_server() {
        let mut presence = Presence::default();
        assert!(!presence.is_there(0));
        assert_eq!(presence.counted(2, 2, 5), 0);
        assert!(!presence.is_there(5), "our own nodes are no servers");
        assert_eq!(presence.counted(3, 2, 10), 1);
        assert!(presence.is_there(60_009));
        assert!(!presence.is_there(60_010));
        presence.heard("3J1VvJ", 70_000);
        assert!(presence.is_there(70_000));
    }

    #[test]
    fn an_emitter_is_no_server() {
        let mut presence = Presence::default();
        presence.heard("emitter", 1);
        presence.heard("", 1);
        assert!(!presence.is_there(1));
        assert_eq!(presence.heard_lately(1), 0);
    }

    #[test]
    fn servers_are_expected_to_answer_for_ten_seconds() {
        let mut presence = Presence::default();
        presence.heard("a", 0);
        presence.heard("b", 9_000);
        presence.heard("b", 9_500);
        assert_eq!(presence.heard_lately(9_999), 2);
        assert_eq!(presence.heard_lately(10_000), 1);
        presence.left("b");
        assert_eq!(presence.heard_lately(10_000), 0);
    }

    #[test]
    fn strangers_with_many_names_take_bounded_memory() {
        let mut presence = Presence::default();
        for number in 0..3 * SERVERS_MAX as u64 {
            presence.heard(&number.to_string(), number);
        }
        assert_eq!(presence.heard.len(), SERVERS_MAX);
        assert!(presence.is_there(3 * SERVERS_MAX as u64));
        presence.heard("later", 30_000);
        assert_eq!(presence.heard_lately(30_000), 1);
    }

    #[test]
    fn a_tail_has_a_length_and_is_bounded() {
        let mut tail = Tail::new(100);
        tail.push("old", 10, 0);
        tail.push("a", 40, 500);
        tail.push("b", 40, 900);
        assert_eq!(tail.take(1_700).collect::<Vec<_>>(), ["a", "b"]);
        tail.push("c", 60, 1_800);
        tail.push("d", 60, 1_800);
        assert_eq!(tail.take(1_800).collect::<Vec<_>>(), ["d"]);
        tail.push("too large", 101, 1_900);
        assert_eq!(tail.take(1_900).count(), 0);
        assert_eq!(tail.bytes, 0);
    }
}
