//! Several nodes and a real Redis: rooms do not end at the process.

use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use client::full::SocketIo;
use serde_json::{Value, json};
use servers::Redis;

/// A node of the cluster at a Redis. Clients join rooms by name; what they send goes to all their rooms.
fn config(redis: &Redis, more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n{more}",
        redis.url()
    )
}

fn is_ready(node: &Gateway) -> bool {
    let request = "GET /ready HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n";
    RawConn::exchange(node.admin, request).status == 200
}

/// So many nodes that know each other.
fn nodes<const N: usize>(redis: &Redis) -> [Gateway; N] {
    let nodes = std::array::from_fn(|_| Gateway::start(&config(redis, "")));
    all_up(&nodes);
    nodes
}

fn all_up(nodes: &[Gateway]) {
    let others = nodes.len() as f64 - 1.0;
    for node in nodes {
        assert!(eventually(PATIENCE, || is_ready(node)), "ready");
        let peers = node.metric_settles("sockeye_cluster_peers", |peers| peers == others);
        assert_eq!(peers, Ok(others));
    }
}

fn member(node: &Gateway, room: &str) -> SocketIo {
    let mut client = SocketIo::websocket(node.addr, "/", json!({}));
    assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
    client
}

fn numbers(client: &mut SocketIo, count: u64) -> Vec<u64> {
    let next = |_| client.expect("n")[0].as_u64().expect("a number");
    (0..count).map(next).collect()
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_room_spans_nodes_in_both_directions_and_in_order() {
    let redis = Redis::start();
    let nodes: [Gateway; 2] = nodes(&redis);
    let mut members = [&nodes[0], &nodes[1]].map(|node| member(node, "room"));
    for at in [0, 1] {
        let events: Vec<(&str, Vec<Value>)> = (0..500).map(|n| ("n", vec![json!(n)])).collect();
        members[at].emit_all(&events);
        let expected: Vec<u64> = (0..500).collect();
        assert_eq!(numbers(&mut members[1 - at], 500), expected);
    }
}

/// Every node got every message.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_without_members_gets_no_letters() {
    let redis = Redis::start();
    let nodes: [Gateway; 3] = nodes(&redis);
    let (mut here, mut there) = (member(&nodes[0], "room"), member(&nodes[1], "room"));
    let _elsewhere = member(&nodes[2], "other");
    let events: Vec<(&str, Vec<Value>)> = (0..200).map(|n| ("n", vec![json!(n)])).collect();
    here.emit_all(&events);
    assert_eq!(numbers(&mut there, 200).len(), 200);
    assert!(nodes[1].reaches("sockeye_cluster_received_total", 200.0) >= 200.0);
    assert_eq!(nodes[2].metric("sockeye_cluster_received_total"), 0.0);
}

/// A restart of Redis lost what was published while it was away.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_restart_of_redis_costs_no_message() {
    let mut redis = Redis::start();
    let nodes: [Gateway; 2] = nodes(&redis);
    let (mut here, mut there) = (member(&nodes[0], "room"), member(&nodes[1], "room"));
    here.emit("n", &[json!(0)]);
    assert_eq!(numbers(&mut there, 1), [0]);
    redis.kill();
    assert!(eventually(PATIENCE, || !is_ready(&nodes[0])), "not ready");
    for n in 1..100 {
        assert_eq!(here.ask("n", &[json!(n)]), Vec::<Value>::new());
    }
    redis.restart();
    assert_eq!(numbers(&mut there, 99), (1..100).collect::<Vec<u64>>());
    all_up(&nodes);
    assert_eq!(nodes[1].metric("sockeye_cluster_lost_total"), 0.0);
}
