//! A trace sees what passes on all nodes of the cluster: those that were there, newcomers, and those that were lost.

use super::reader::Reader;
use super::{BINARY, OPS};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::SocketIo;
use serde_json::{Value, json};
use servers::Redis;

fn config(redis: &Redis, more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[admin]\napi_keys = [{:?}]\n[cluster]\nadapter = \"redis\"\nurls = [{:?}]\n{more}\n",
        OPS.1,
        redis.url()
    )
}

fn followed(trace: &mut Reader, state: &str) -> Value {
    trace.until(state, |line| {
        line["kind"] == "node" && line["state"] == state
    })
}

fn others(node: &Gateway) -> f64 {
    node.metric("sockeye_cluster_peers")
}

fn emits(node: &Gateway, client: &mut SocketIo, trace: &mut Reader) -> Value {
    client.emit("n", &[json!("x")]);
    let me = client.id.clone();
    let line = trace.until("event", |line| line["socket"] == me.as_str());
    assert!(line["sockets"].is_u64(), "{line} of {}", node.admin);
    line
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn events_of_a_name_are_seen_on_all_nodes_newcomers_and_lost_ones() {
    let redis = Redis::start();
    let with = config(&redis, "secret = \"s\"");
    let first = Gateway::start(&with);
    let mut second = Gateway::start(&with);
    assert!(eventually(PATIENCE, || others(&first) == 1.0));
    let mut trace = Reader::begun(first.admin, &OPS.0, "event=n&seconds=600");
    let number = followed(&mut trace, "followed")["node"].clone();
    let mut here = SocketIo::websocket(first.addr, "/", json!({}));
    let mut there = SocketIo::websocket(second.addr, "/", json!({}));
    let line = emits(&first, &mut here, &mut trace);
    assert_ne!(line["node"], number);
    let line = emits(&second, &mut there, &mut trace);
    assert_eq!(line["node"], number);
    // A node comes while somebody looks.
    let third = Gateway::start(&with);
    followed(&mut trace, "followed");
    let mut fresh = SocketIo::websocket(third.addr, "/", json!({}));
    emits(&third, &mut fresh, &mut trace);
    // A node is lost.
    second.kill();
    let lost = followed(&mut trace, "lost");
    assert_eq!(lost["node"], number);
    emits(&third, &mut fresh, &mut trace);
    emits(&first, &mut here, &mut trace);
    // The traces of other nodes end with the one who reads.
    assert_eq!(third.metric("sockeye_traces_live"), 1.0);
    drop(trace);
    assert!(eventually(PATIENCE, || third.metric("sockeye_traces_live") == 0.0));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_cannot_be_followed_is_named_with_the_reason() {
    let redis = Redis::start();
    let nodes = [(); 2].map(|()| Gateway::start(&config(&redis, "")));
    assert!(eventually(PATIENCE, || others(&nodes[0]) == 1.0));
    let mut trace = Reader::begun(nodes[0].admin, &OPS.0, "event=n");
    let line = followed(&mut trace, "not followed");
    assert!(
        line["why"].as_str().unwrap().contains("cluster.secret"),
        "{line}"
    );
    let mut alone = Reader::begun(nodes[0].admin, &OPS.0, "event=n&local=true&seconds=1");
    while let Some(line) = alone.next() {
        assert_ne!(line["kind"], "node", "{line}");
    }
    assert!(std::path::Path::new(BINARY).exists());
}

/// A frozen node says nothing, and its silence is told.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_stands_still_is_lost_and_found_again() {
    let redis = Redis::start();
    let with = config(&redis, "secret = \"s\"\nrelay_tls = false");
    let nodes = [(); 2].map(|()| Gateway::start(&with));
    assert!(eventually(PATIENCE, || others(&nodes[0]) == 1.0));
    let mut trace = Reader::begun(nodes[0].admin, &OPS.0, "event=n&seconds=600");
    followed(&mut trace, "followed");
    nodes[1].freeze();
    followed(&mut trace, "lost");
    nodes[1].signal(rustix::process::Signal::CONT);
    followed(&mut trace, "followed");
    let mut there = SocketIo::websocket(nodes[1].addr, "/", json!({}));
    emits(&nodes[1], &mut there, &mut trace);
}
