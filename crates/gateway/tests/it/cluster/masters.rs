//! Several masters of Redis, one of which is away.

use super::{all_up, is_cut_off, member, numbers};
use crate::harness::{Gateway, PATIENCE, eventually};
use serde_json::json;
use servers::Cluster;

/// A master that is silent for so long is replaced: not in this test.
const NO_FAILOVER_MS: u32 = 600_000;

fn node(cluster: &Cluster, number: usize) -> Gateway {
    let urls: Vec<String> = cluster.nodes.iter().map(|redis| redis.url()).collect();
    Gateway::start(&format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\nnode = {number}\n\
         [cluster]\nadapter = \"redis\"\nmode = \"cluster\"\nurls = {urls:?}\n"
    ))
}

/// Nothing went to any node until that master was back or replaced.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_master_that_was_away_held_up_the_channels_of_the_others() {
    let cluster = Cluster::start_with(NO_FAILOVER_MS, &[]);
    // The third sees to it that one of two receivers is not most of the nodes: what is for it goes by its own channel.
    let nodes: [Gateway; 3] = std::array::from_fn(|at| node(&cluster, at + 1));
    all_up(&nodes);
    let (mut here, mut there) = (member(&nodes[0], "room"), member(&nodes[1], "room"));
    let needed = ["sockeye:{all}", "sockeye:{n2}"].map(|channel| cluster.owner(0, channel));
    let spare = (0..3).find(|master| !needed.contains(master));
    let spare = spare.expect("two channels, three masters");
    cluster.nodes[spare].freeze();
    assert!(eventually(PATIENCE, || is_cut_off(&nodes[0])), "cut off");
    for n in 0..100 {
        here.emit("n", &[json!(n)]);
    }
    assert_eq!(numbers(&mut there, 100), (0..100).collect::<Vec<u64>>());
    assert!(is_cut_off(&nodes[0]), "it is still away");
    cluster.nodes[spare].thaw();
    all_up(&nodes);
}
