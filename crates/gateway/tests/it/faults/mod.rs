//! Nothing is lost between nodes, whatever Redis or NATS goes through: three nodes, 5,000 numbered messages a second to rooms on one and on
//! two other nodes, and one fault in the middle. Each message arrives once, in its publisher's order over both rooms.
//!
//! `FAULT_SEEDS=3..20` plays other histories than the first; `FAULT_RECORD=file` appends a line for each, and leaves out those that it has.

mod bursts;
mod fault;
mod nats;
mod newcomers;
mod record;
pub mod traffic;

use crate::harness::Gateway;
use fault::{Fault, Scene};
use record::Record;
use serde_json::json;
use servers::NodePeer;
use std::ops::Range;

/// Histories to play.
fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("FAULT_SEEDS") else {
        return 0..1;
    };
    let bounds = text.split_once("..").and_then(|(first, end)| {
        let bounds: (u64, u64) = (first.parse().ok()?, end.parse().ok()?);
        Some(bounds)
    });
    let (first, end) = bounds.expect("FAULT_SEEDS=FIRST..END");
    first..end
}

fn nothing_is_lost(fault: Fault) {
    nothing_is_lost_in("", Scene::set, fault);
}

fn nothing_is_lost_in(carrier: &str, set: fn(Fault, u64) -> Scene, fault: Fault) {
    let name = format!("{carrier}{fault:?}");
    for seed in seeds().filter(|seed| !record::has(&name, *seed)) {
        let mut scene = set(fault, seed);
        let nodes = scene.start_nodes();
        let record = play(&mut scene, &nodes, seed);
        record.keep();
        assert!(record.is_clean(), "seed {seed}: {record:?}");
        for node in &nodes {
            let lost = node.metric("sockeye_cluster_lost_total");
            assert_eq!(
                lost, 0.0,
                "seed {seed}: the node itself says that messages are lost"
            );
        }
    }
}

fn play(scene: &mut Scene, nodes: &[Gateway; 3], seed: u64) -> Record {
    let traffic = traffic::Traffic::start(nodes, seed);
    let outage = scene.happen();
    let came = traffic.end();
    Record::new(scene.name(), seed, outage, came)
}

/// What goes to rooms goes by Redis twice then, once for the Node server, which may miss some: the way between the nodes does not.
fn nothing_is_lost_beside_a_node_server(fault: Fault) {
    let mut scene = Scene::set(fault, 0);
    let nodes = scene.start_nodes();
    let mut peer = NodePeer::start(&scene.redis_url(), "classic", "/");
    let traffic = traffic::Traffic::start(&nodes, 0);
    let written = |more: f64| {
        let written = "sockeye_foreign_written_total";
        nodes[0].metric_settles(written, |written| written > more)
    };
    let before = written(0.0).expect("nodes write for the Node server");
    let outage = scene.happen();
    let came = traffic.end();
    let record = Record::new(scene.name(), 0, outage, came);
    assert!(record.is_clean(), "{record:?}");
    written(before + 1_000.0).expect("they did all the time");
    for node in &nodes {
        assert_eq!(node.metric("sockeye_cluster_lost_total"), 0.0);
    }
    let alive = peer.call_until_answered(&json!({"do": "fetch", "to": ["nobody"]}));
    assert_eq!(alive, json!([]));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn subscribers_that_are_kicked_beside_a_node_server_miss_nothing() {
    nothing_is_lost_beside_a_node_server(Fault::Kick);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_restart_of_redis_beside_a_node_server_loses_nothing() {
    nothing_is_lost_beside_a_node_server(Fault::Restart);
}

/// The ring holds less than the outage lasts: what cannot be had any more is counted to the letter, and the rest comes in order.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn what_cannot_be_repaired_is_counted() {
    losses_are_counted(Scene::set(Fault::Cut, 0));
}

fn losses_are_counted(scene: Scene) {
    let mut scene = scene.with_ring("256KiB");
    let nodes = scene.start_nodes();
    let record = play(&mut scene, &nodes, 0);
    let lost = |node: &Gateway| node.metric("sockeye_cluster_lost_total") as u64;
    let counted = nodes.each_ref().map(lost);
    // Both members on that node miss the same. The nodes' own letters, such as a digest, are counted as well.
    let &[missed, too] = record.lost_at(1) else {
        panic!("{record:?}");
    };
    assert_eq!(missed, too, "{counted:?} of {record:?}");
    assert!(
        (missed..missed + 5).contains(&counted[1]),
        "{counted:?} of {record:?}"
    );
    assert!(missed > 0 && record.is_in_order(), "{record:?}");
    // A ring that holds a quarter of a second of this traffic may be too short for the third node, too, which a busy machine keeps waiting. While
    // nothing is heard of that node it is sent everything, also what its member does not want.
    let &[missed] = record.lost_at(2) else {
        panic!("{record:?}");
    };
    assert!(missed <= counted[2], "{counted:?} of {record:?}");
    assert_eq!(record.lost_at(0), [0], "no letter brings these: {record:?}");
    let told = nodes[1].log();
    let told = told
        .iter()
        .any(|line| line.contains("letters of a node are lost"));
    assert!(told, "the log tells it");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn subscribers_that_are_kicked_miss_nothing() {
    nothing_is_lost(Fault::Kick);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_restart_of_redis_loses_nothing() {
    nothing_is_lost(Fault::Restart);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_without_network_misses_nothing() {
    nothing_is_lost(Fault::Cut);
}

/// After 15 seconds the others gave it up, and all that it had missed was lost, though the ring held it.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_was_given_up_and_came_back_lost_everything() {
    nothing_is_lost(Fault::LongCut);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_killed_master_loses_nothing() {
    nothing_is_lost(Fault::Kill);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_frozen_master_loses_nothing() {
    nothing_is_lost(Fault::Freeze);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_graceful_failover_loses_nothing() {
    nothing_is_lost(Fault::Failover);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn slots_that_move_lose_nothing() {
    nothing_is_lost(Fault::Migrate);
}
