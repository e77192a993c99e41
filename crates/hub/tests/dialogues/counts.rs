//! Members of a room, counted over several processes.

use crate::heard::Heard;
use crate::nodes::{Obedient, fill, world};
use crate::rig::nodes::Nodes;

/// What each of so many shards was told last of the members of `counted`.
fn counted(handler: &Obedient, nodes: &mut Nodes, shards: usize) -> Vec<u64> {
    (0..5).for_each(|_| nodes.pass(1_000));
    let heard = handler.0.heard();
    let counts = heard.iter().filter_map(|heard| match heard {
        Heard::Count(count) => Some(*count),
        _ => None,
    });
    let counts: Vec<u64> = counts.collect();
    counts[counts.len().saturating_sub(shards)..].to_vec()
}

/// Each node told its own clients how many members it had itself.
#[test]
fn the_members_of_a_room_are_counted_over_all_nodes() {
    let (handler, mut nodes, clients) = world(3);
    for (at, (node, client)) in clients.iter().enumerate() {
        nodes.say(*node, *client, "42[\"join\",\"counted\"]");
        let members = at as u64 + 1;
        let last = counted(&handler, &mut nodes, at + 1);
        assert_eq!(last, vec![members; at + 1]);
    }
    let (node, client) = clients[5];
    nodes.say(node, client, "42[\"leave\",\"counted\"]");
    assert_eq!(counted(&handler, &mut nodes, 5), [5; 5]);
    // A node that dies takes its members along.
    nodes.dies(1);
    assert_eq!(counted(&handler, &mut nodes, 3), [3; 3]);
}

/// A node that was taken for dead and comes back is counted again.
#[test]
fn members_of_a_node_that_comes_back_are_counted_again() {
    let (handler, mut nodes, clients) = world(2);
    for (node, client) in &clients {
        nodes.say(*node, *client, "42[\"join\",\"counted\"]");
    }
    assert_eq!(counted(&handler, &mut nodes, 4), [4; 4]);
    nodes.dies(1);
    assert_eq!(counted(&handler, &mut nodes, 2), [2; 2]);
    nodes.comes_back(1);
    assert_eq!(counted(&handler, &mut nodes, 2), [4; 2]);
}

/// What a node said of a room was lost with the rest, and told. If it was that its last member had left, the others counted that
/// member for ever.
#[test]
fn the_last_member_of_a_node_that_left_unheard_was_counted_for_ever() {
    let (handler, mut nodes, clients) = world(3);
    for (node, client) in &clients {
        nodes.say(*node, *client, "42[\"join\",\"counted\"]");
    }
    assert_eq!(counted(&handler, &mut nodes, 6), [6; 6]);
    nodes.cut_off(2, true);
    for (node, client) in &clients[4..] {
        nodes.say(*node, *client, "42[\"leave\",\"counted\"]");
    }
    counted(&handler, &mut nodes, 0);
    nodes.loses(2);
    nodes.comes_back(2);
    assert_eq!(counted(&handler, &mut nodes, 4), [4; 4]);
}

/// News of rooms were let in however much waited for other nodes: rooms that came and went while Redis was away took memory
/// without end. If they had been refused like the rest, the numbers of members would have stayed wrong.
#[test]
fn numbers_of_members_that_find_no_room_are_told_when_there_is_some() {
    let (handler, mut nodes, clients) = world(2);
    for (node, client) in &clients {
        nodes.say(*node, *client, "42[\"join\",\"counted\"]");
    }
    assert_eq!(counted(&handler, &mut nodes, 4), [4; 4]);
    nodes.cut_off(0, true);
    fill(&mut nodes, clients[0]);
    let (full, (_, client)) = (nodes.waiting(0), clients[1]);
    for n in 0..20 {
        for deed in ["join", "leave"] {
            nodes.say(0, client, &format!("42[\"{deed}\",\"passing{n}\"]"));
            nodes.pass(100);
        }
    }
    nodes.say(0, client, "42[\"leave\",\"counted\"]");
    nodes.pass(1_000);
    // Keys are told in any case: a few bytes, which cancel out behind this door.
    assert!(
        nodes.waiting(0) < full + 50 * 64,
        "{} bytes",
        nodes.waiting(0)
    );
    nodes.cut_off(0, false);
    nodes.settle();
    assert_eq!(counted(&handler, &mut nodes, 3), [3; 3]);
    nodes.say(0, clients[0].1, "42[\"leave\",\"counted\"]");
    assert_eq!(counted(&handler, &mut nodes, 2), [2; 2]);
}
