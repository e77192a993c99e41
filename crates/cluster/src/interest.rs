//! Which node holds which key. A key is a 64-bit hash of a namespace, a room or a user; two that collide cost a needless message.
//!
//! A node floods changes of its own keys. A node that is not known completely, or of which nothing new was heard for
//! [`DOUBT_US`], counts as interested in everything: a message may be sent needlessly, but never to too few.

use crate::bounds::EXPECTED_MAX;
use crate::frame::NodeId;
use crate::keys::{Change, mix};
use handoff::cluster as record;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

/// What a peer held is believed for so long. The peer lets the ack of a join leave unconfirmed only after a longer time.
pub const DOUBT_US: u64 = 700_000;

/// Where to send a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the inboxes of these nodes.
    Nodes(Vec<NodeId>),
    /// To everyone: more than half of the nodes hold a key.
    Flood,
}

/// The nodes that a letter is for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Address<'a> {
    /// Those that hold any of these keys.
    pub keys: &'a [u64],
    /// And these.
    pub nodes: &'a [NodeId],
    /// But none of these.
    pub without: &'a [NodeId],
}

#[derive(Debug, Default)]
struct Theirs {
    keys: HashSet<u64>,
    digest: u64,
    complete: bool,
    /// All that it held then is known.
    known_us: u64,
    /// Until then it may hold any key soon.
    expected_us: u64,
}

impl Theirs {
    fn is_unheard(&self, now_us: u64) -> bool {
        now_us > self.known_us + DOUBT_US
    }

    fn is_doubted(&self, now_us: u64) -> bool {
        !self.complete || self.is_unheard(now_us) || now_us < self.expected_us
    }
}

/// The keys of all peers.
#[derive(Debug, Default)]
pub struct Interest {
    peers: BTreeMap<NodeId, Theirs>,
    holders: HashMap<u64, Vec<NodeId>>,
    /// Times that what is known of a peer turned out to be incomplete.
    misses: u64,
    /// Keys that peers may hold soon, and until when that is believed, in that order.
    expected: VecDeque<(u64, u64, NodeId)>,
    /// The same by key.
    expected_at: HashMap<u64, Vec<NodeId>>,
}

impl Interest {
    /// Keys that nodes may hold soon.
    pub(crate) fn expected(&self) -> impl Iterator<Item = record::Expected> + '_ {
        let keys = self.expected.iter();
        keys.map(|(until_us, key, node)| record::Expected {
            node: u32::from(node.0),
            key: *key,
            until_us: *until_us,
        })
    }

    /// Until when a peer may hold any key soon.
    pub(crate) fn expected_of(&self, node: NodeId) -> u64 {
        self.peers.get(&node).map_or(0, |theirs| theirs.expected_us)
    }

    /// The same, as another process has known it.
    pub(crate) fn expect_all_of(&mut self, node: NodeId, until_us: u64) {
        if let Some(theirs) = self.peers.get_mut(&node) {
            theirs.expected_us = until_us;
        }
    }

    /// Nodes that may hold keys soon.
    pub(crate) fn expect(&mut self, nodes: &[NodeId], keys: &[u64], until_us: u64) {
        let more = nodes.len() * keys.len();
        if self.expected.len() + more > EXPECTED_MAX {
            for node in nodes {
                if let Some(theirs) = self.peers.get_mut(node) {
                    theirs.expected_us = theirs.expected_us.max(until_us);
                }
            }
            return;
        }
        for node in nodes {
            for key in keys {
                self.expected.push_back((until_us, *key, *node));
                self.expected_at.entry(*key).or_default().push(*node);
            }
        }
    }

    /// Joins under way that have had time enough are no longer believed.
    fn forget_expected(&mut self, now_us: u64) {
        let is_over = |(until_us, ..): &mut (u64, u64, NodeId)| *until_us <= now_us;
        while let Some((_, key, node)) = self.expected.pop_front_if(is_over) {
            let Some(nodes) = self.expected_at.get_mut(&key) else {
                continue;
            };
            if let Some(at) = nodes.iter().position(|expected| *expected == node) {
                nodes.swap_remove(at);
            }
            if nodes.is_empty() {
                self.expected_at.remove(&key);
            }
        }
    }

    /// A peer that is not known completely yet.
    pub(crate) fn add(&mut self, node: NodeId) {
        self.remove(node);
        self.peers.insert(node, Theirs::default());
    }

    /// Forgets a peer and its keys.
    pub(crate) fn remove(&mut self, node: NodeId) {
        if let Some(theirs) = self.peers.remove(&node) {
            for key in theirs.keys {
                self.drop_holder(key, node);
            }
        }
    }

    fn drop_holder(&mut self, key: u64, node: NodeId) {
        if let Some(nodes) = self.holders.get_mut(&key) {
            nodes.retain(|holder| *holder != node);
            if nodes.is_empty() {
                self.holders.remove(&key);
            }
        }
    }

    /// Letters of the peer are missing: it counts as interested in everything until it was asked.
    pub(crate) fn doubt(&mut self, node: NodeId) {
        if let Some(theirs) = self.peers.get_mut(&node) {
            self.misses += u64::from(std::mem::take(&mut theirs.complete));
        }
    }

    /// A peer's key came or went.
    pub(crate) fn apply(&mut self, node: NodeId, (key, on): Change) {
        let Some(theirs) = self.peers.get_mut(&node) else {
            return;
        };
        let changed = if on {
            theirs.keys.insert(key)
        } else {
            theirs.keys.remove(&key)
        };
        if !changed {
            return;
        }
        theirs.digest ^= mix(key);
        if on {
            self.holders.entry(key).or_default().push(node);
        } else {
            self.drop_holder(key, node);
        }
    }

    /// All that a peer held at this time is known.
    pub(crate) fn knows(&mut self, node: NodeId, at_us: u64) {
        if let Some(theirs) = self.peers.get_mut(&node) {
            theirs.known_us = theirs.known_us.max(at_us);
        }
    }

    /// Whether a peer counts as interested in everything.
    pub(crate) fn is_doubted(&self, node: NodeId, now_us: u64) -> bool {
        let theirs = self.peers.get(&node);
        theirs.is_some_and(|theirs| theirs.is_doubted(now_us))
    }

    /// Whether a peer has told nothing for long.
    pub(crate) fn is_unheard(&self, node: NodeId, now_us: u64) -> bool {
        let theirs = self.peers.get(&node);
        theirs.is_some_and(|theirs| theirs.is_unheard(now_us))
    }

    /// Counts a doubt that began because nothing was heard.
    pub(crate) fn count_miss(&mut self) {
        self.misses += 1;
    }

    /// A part of a peer's snapshot.
    pub(crate) fn apply_snapshot(&mut self, node: NodeId, keys: &[u64], first: bool, last: bool) {
        if first && let Some(theirs) = self.peers.get(&node) {
            let anew = Theirs {
                known_us: theirs.known_us,
                expected_us: theirs.expected_us,
                ..Theirs::default()
            };
            self.remove(node);
            self.peers.insert(node, anew);
        }
        keys.iter().for_each(|key| self.apply(node, (*key, true)));
        if last && let Some(theirs) = self.peers.get_mut(&node) {
            theirs.complete = true;
        }
    }

    /// A peer's digest. `false`: it does not match, and the peer must be asked.
    pub(crate) fn agrees(&mut self, node: NodeId, (count, digest): (u64, u64)) -> bool {
        let Some(theirs) = self.peers.get_mut(&node) else {
            return true;
        };
        let same = theirs.keys.len() as u64 == count && theirs.digest == digest;
        if !same {
            self.doubt(node);
        }
        self.peers[&node].complete
    }

    /// Where a letter goes. One that is for named nodes only, such as an answer, is nobody else's business.
    pub fn route(&mut self, to: &Address<'_>, now_us: u64) -> Route {
        let mut nodes = to.nodes.to_vec();
        if !to.keys.is_empty() {
            self.add_holders(to.keys, &mut nodes, now_us);
        }
        nodes.retain(|node| !to.without.contains(node));
        nodes.sort_unstable();
        nodes.dedup();
        let is_for_many = nodes.len() > 1 && nodes.len() * 2 > self.peers.len();
        if is_for_many && !to.keys.is_empty() && to.without.is_empty() {
            Route::Flood
        } else {
            Route::Nodes(nodes)
        }
    }

    /// The nodes that may hold any of the keys.
    fn add_holders(&mut self, keys: &[u64], nodes: &mut Vec<NodeId>, now_us: u64) {
        self.forget_expected(now_us);
        let doubted = self.peers.iter();
        let doubted = doubted.filter(|(_, theirs)| theirs.is_doubted(now_us));
        nodes.extend(doubted.map(|(node, _)| *node));
        for key in keys {
            let holders = self.holders.get(key).into_iter().flatten();
            nodes.extend(holders);
            let expected = self.expected_at.get(key).into_iter().flatten();
            nodes.extend(expected.filter(|node| self.peers.contains_key(node)));
        }
    }

    /// Times that what was known of a peer's keys turned out to be incomplete.
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Nodes that hold a key, as far as is known.
    pub fn holders(&self, key: u64) -> usize {
        self.holders.get(&key).map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;

    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn route(interest: &mut Interest, key: u64, now_us: u64) -> Route {
        let keys = &[key];
        let to = Address {
            keys,
            ..Address::default()
        };
        interest.route(&to, now_us)
    }

    #[test]
    fn a_peer_that_is_not_known_gets_everything() {
        let mut interest = Interest::default();
        (1..=4).map(NodeId).for_each(|node| interest.add(node));
        for node in [B, NodeId(3), NodeId(4)] {
            interest.apply_snapshot(node, &[], true, true);
        }
        assert_eq!(route(&mut interest, 9, 0), Route::Nodes(vec![A]));
        interest.apply_snapshot(A, &[7], true, true);
        assert_eq!(route(&mut interest, 9, 0), Route::Nodes(vec![]));
        assert_eq!(route(&mut interest, 7, 0), Route::Nodes(vec![A]));
        interest.doubt(A);
        assert_eq!(route(&mut interest, 9, 0), Route::Nodes(vec![A]));
    }

    #[test]
    fn a_peer_of_which_nothing_was_heard_gets_everything() {
        let mut interest = Interest::default();
        for node in (1..=4).map(NodeId) {
            interest.add(node);
            interest.apply_snapshot(node, &[], true, true);
            interest.knows(node, 1_000_000);
        }
        interest.knows(A, 900_000);
        interest.knows(B, 1_000);
        assert_eq!(route(&mut interest, 9, 1_700_000), Route::Nodes(vec![]));
        (2..=4).for_each(|node| interest.knows(NodeId(node), 1_000_001));
        assert_eq!(route(&mut interest, 9, 1_700_001), Route::Nodes(vec![A]));
        // Its keys come anew: that says nothing of when they were told.
        interest.apply_snapshot(A, &[7], true, true);
        assert_eq!(route(&mut interest, 9, 1_700_001), Route::Nodes(vec![A]));
        interest.knows(A, 1_000_001);
        assert_eq!(route(&mut interest, 9, 1_700_001), Route::Nodes(vec![]));
    }

    #[test]
    fn more_than_half_of_the_nodes_are_flooded() {
        let mut interest = Interest::default();
        for node in (1..=4).map(NodeId) {
            interest.add(node);
            interest.apply_snapshot(node, &[], true, true);
        }
        interest.apply(A, (7, true));
        interest.apply(B, (7, true));
        assert_eq!(route(&mut interest, 7, 0), Route::Nodes(vec![A, B]));
        interest.apply(NodeId(3), (7, true));
        assert_eq!(route(&mut interest, 7, 0), Route::Flood);
        let to = |without| Address {
            keys: &[7],
            nodes: &[],
            without,
        };
        let route = interest.route(&to(&[B, NodeId(9)]), 0);
        assert_eq!(route, Route::Nodes(vec![A, NodeId(3)]));
        interest.remove(NodeId(3));
        assert_eq!(interest.holders(7), 2);
    }

    /// A node that had just come got the answers that others were owed, and took them for its own.
    #[test]
    fn an_answer_went_to_a_node_that_had_not_asked() {
        let mut interest = Interest::default();
        for node in (1..=3).map(NodeId) {
            interest.add(node);
        }
        let to = Address {
            nodes: &[A],
            ..Address::default()
        };
        assert_eq!(interest.route(&to, 0), Route::Nodes(vec![A]));
    }

    /// `socketsJoin` on another node, and at once a message to that room: it was sent to nobody there.
    #[test]
    fn a_node_that_was_asked_to_join_counts_as_a_holder() {
        let mut interest = Interest::default();
        interest.add(A);
        interest.apply_snapshot(A, &[], true, true);
        interest.expect(&[A, B], &[5], 1_000);
        assert_eq!(route(&mut interest, 5, 999), Route::Nodes(vec![A]));
        assert_eq!(route(&mut interest, 6, 999), Route::Nodes(vec![]));
        assert_eq!(route(&mut interest, 5, 1_000), Route::Nodes(vec![]));
    }

    /// Only 4,096 pairs of key and node were remembered, and the first join under way was forgotten for the last.
    #[test]
    fn many_joins_under_way_made_the_first_one_forgotten() {
        let mut interest = Interest::default();
        for node in (1..=3).map(NodeId) {
            interest.add(node);
            interest.apply_snapshot(node, &[], true, true);
        }
        let keys: Vec<u64> = (0..EXPECTED_MAX as u64).collect();
        keys.chunks(1_000)
            .for_each(|keys| interest.expect(&[A], keys, 1_000));
        for key in [0, EXPECTED_MAX as u64 - 1] {
            assert_eq!(route(&mut interest, key, 999), Route::Nodes(vec![A]));
        }
        // No more are remembered one by one.
        interest.expect(&[B], &[1 << 40], 1_500);
        assert_eq!(route(&mut interest, 1 << 40, 999), Route::Nodes(vec![B]));
        assert_eq!(route(&mut interest, 1 << 40, 1_499), Route::Nodes(vec![B]));
        assert_eq!(route(&mut interest, 0, 1_500), Route::Nodes(vec![]));
        assert!(interest.expected.is_empty() && interest.expected_at.is_empty());
    }

    #[test]
    fn a_digest_finds_a_missed_change() {
        let (mut ours, mut theirs) = (Interest::default(), Keys::default());
        ours.add(A);
        for key in 1..5 {
            theirs.hold(key);
        }
        let changes = theirs.take_changes(usize::MAX);
        ours.apply_snapshot(A, &[], true, true);
        changes.iter().for_each(|change| ours.apply(A, *change));
        assert!(ours.agrees(A, theirs.digest()));
        theirs.release(3, 0);
        theirs.take_changes(usize::MAX);
        assert!(!ours.agrees(A, theirs.digest()));
    }
}
