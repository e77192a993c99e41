//! Places in a cluster that are no records: each is refused, or is a node that can be driven.

mod common;

use cluster::frame::{Epoch, NodeId, Peer};
use cluster::node::{Limits, Node};

const SECOND: u64 = 1_000_000;

fn peer(node: u16) -> Peer {
    Peer {
        node: NodeId(node),
        epoch: Epoch(7),
    }
}

/// Of a node with peers, keys, kept frames and open letters.
fn place() -> Vec<u8> {
    let mut now_us = SECOND;
    let mut nodes = [1, 2, 3].map(|node| Node::new(peer(node), Limits::default()));
    for (node, key) in nodes.iter_mut().zip([5, 5, 6]) {
        node.begin(now_us);
        node.hold(key);
    }
    {
        let mut all: Vec<&mut Node> = nodes.iter_mut().collect();
        common::run(&mut all, &mut now_us, 2 * SECOND);
    }
    for node in &mut nodes {
        node.send(&[5], b"one");
        node.send(&[6], b"two");
    }
    {
        let mut all: Vec<&mut Node> = nodes.iter_mut().collect();
        common::run(&mut all, &mut now_us, SECOND);
    }
    nodes[0].send(&[5], b"three");
    nodes
        .iter_mut()
        .for_each(|node| node.events().for_each(drop));
    nodes[0].record().expect("nothing is under way")
}

fn drive(mut node: Node) {
    let mut now_us = node.now_us();
    node.settle();
    for _ in 0..20 {
        now_us += SECOND / 10;
        node.begin(now_us);
        let mut batch = Vec::new();
        node.take(&mut batch);
        batch
            .iter()
            .for_each(|one| node.arrived(one.frame.to_vec()));
        if !batch.is_empty() {
            node.ended(batch, |_| true);
        }
        node.events().for_each(drop);
        let _ = node.due();
    }
}

#[test]
fn a_place_is_read_as_it_was_written() {
    let place = place();
    let node = Node::restored(peer(1), Limits::default(), &place).expect("a place");
    assert_eq!(node.neighbours().up().count(), 2);
    drive(node);
    assert!(Node::restored(peer(2), Limits::default(), &place).is_err());
}

/// Until its first heartbeat had come back, nobody was looked for at other nodes: clients were new who had come in that moment.
#[test]
fn the_next_process_of_a_node_was_deaf_for_a_moment() {
    let place = place();
    let mut node = Node::restored(peer(1), Limits::default(), &place).expect("a place");
    let began_us = node.now_us();
    for (passed_us, hears) in [(0, true), (SECOND, true), (3 * SECOND, false)] {
        node.begin(began_us + passed_us);
        assert_eq!(node.hears_all_peers(2 * SECOND), hears, "{passed_us}");
    }
    let mut new = Node::new(peer(9), Limits::default());
    new.begin(SECOND);
    assert!(!new.hears_all_peers(2 * SECOND), "it has heard nothing yet");
}

#[test]
fn torn_and_altered_places_are_refused_or_can_be_driven() {
    let whole = place();
    for end in 0..whole.len() {
        if let Ok(node) = Node::restored(peer(1), Limits::default(), &whole[..end]) {
            drive(node);
        }
    }
    for at in 0..whole.len() {
        for change in [1, 0x40, 0x80, 0xff] {
            let mut altered = whole.clone();
            altered[at] ^= change;
            if let Ok(node) = Node::restored(peer(1), Limits::default(), &altered) {
                drive(node);
            }
        }
    }
}
