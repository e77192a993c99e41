//! A queue without room for all that a node has to say of its keys.

mod common;

use cluster::frame::{Epoch, NodeId, Peer};
use cluster::node::{Limits, Node};
use common::run;

const HERE: NodeId = NodeId(1);

/// A node with a queue of so many bytes, which sends each letter alone.
fn node(node: NodeId, queue_bytes: usize) -> Node {
    let epoch = Epoch(1);
    let mut limits = Limits::default();
    limits.outlet.queue_bytes = queue_bytes;
    limits.outlet.frame_letters = 1;
    Node::new(Peer { node, epoch }, limits)
}

/// Two nodes that know each other, the first with so much room; and bytes that wait there while the engine takes nothing.
fn waiting(queue_bytes: usize) -> (Node, Node, u64, usize) {
    let (mut here, mut there) = (node(HERE, queue_bytes), node(NodeId(2), 1 << 20));
    let mut now_us = 0;
    run(&mut [&mut here, &mut there], &mut now_us, 1_000_000);
    there.hold(1);
    run(&mut [&mut here, &mut there], &mut now_us, 1_000_000);
    for _ in 0..20 {
        let to = here.send(&[1], &[0; 500]);
        assert_eq!(to, [NodeId(2)]);
    }
    let bytes = here.counts().queued_bytes;
    (here, there, now_us, bytes)
}

/// A queue with room for a byte took no news of a room, and the node forgot that it had any. Other nodes sent nothing to that room
/// for ten seconds.
#[test]
fn news_of_a_room_that_found_no_room_in_the_queue_was_forgotten() {
    let (.., bytes) = waiting(1 << 20);
    let (mut here, mut there, mut now_us, _) = waiting(bytes + 1);
    here.hold(7);
    assert_eq!(here.told(), None, "a join is not confirmed by that");
    run(&mut [&mut here, &mut there], &mut now_us, 1_000_000);
    assert!(here.told().is_some());
    assert_eq!(there.send(&[7], b"news"), [HERE]);
}

/// A list of keys has several parts. One that found no room was left out, and the list passed for a whole one.
#[test]
fn a_list_of_keys_with_a_hole_passed_for_a_whole_one() {
    let (mut here, mut there) = (node(HERE, 13_000), node(NodeId(2), 1 << 20));
    let mut now_us = 0;
    let keys = 1..=2_500;
    for key in keys.clone() {
        here.hold(key);
    }
    run(&mut [&mut here], &mut now_us, 3_000_000);
    assert!(here.told().is_some());
    run(&mut [&mut here, &mut there], &mut now_us, 2_000_000);
    for key in keys {
        assert_eq!(there.send(&[key], b"news"), [HERE], "{key}");
    }
}
