//! Several nodes, one store: each event is there once, whoever said it where.

use super::{all, config, is_stored, join, publish, soon};
use crate::harness::Gateway;
use client::full::SocketIo;
use serde_json::json;
use servers::{Postgres, Redis};
use std::collections::BTreeSet;

fn nodes(redis: &Redis, history: &str) -> [Gateway; 2] {
    let cluster = format!(
        "[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n",
        redis.url()
    );
    [(); 2].map(|()| Gateway::start(&config(history, "", &cluster)))
}

fn hear(client: &mut SocketIo, count: usize) -> Vec<u64> {
    let heard = (0..count).map(|_| {
        client.next_named("say").args[0]["n"]
            .as_u64()
            .expect("a number")
    });
    heard.collect()
}

fn once_each(history: &str, redis: &Redis) {
    let nodes = nodes(redis, history);
    let mut clients = [join(&nodes[0], "on-a"), join(&nodes[1], "on-a")];
    // Both are known on both nodes when both have heard both.
    for at in [0, 1] {
        soon("the other node has a member", || {
            publish(&nodes[at], "on-b", 1) == is_stored()
                && nodes[at].metric("sockeye_cluster_peers") >= 1.0
        });
    }
    for n in 0..100 {
        for (at, client) in clients.iter_mut().enumerate() {
            client.emit("say", &[json!({"room": "on-a", "n": 2 * n + at as u64})]);
        }
    }
    for client in &mut clients {
        let heard: BTreeSet<u64> = hear(client, 200).into_iter().collect();
        assert_eq!(heard.len(), 200);
    }
    for node in &nodes {
        soon("all is stored", || all(node, "on-a").len() >= 200);
        let stored = all(node, "on-a");
        assert_eq!(stored.len(), 200, "each once");
        // What one publisher said keeps its order.
        for at in [0, 1] {
            let own: Vec<u64> = stored.iter().copied().filter(|n| n % 2 == at).collect();
            assert!(own.is_sorted(), "{own:?}");
        }
    }
    assert_eq!(all(&nodes[0], "on-a"), all(&nodes[1], "on-a"));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn redis_has_each_event_of_two_nodes_once() {
    let redis = Redis::start();
    once_each(
        &format!("store = \"redis\"\nurl = {:?}", redis.url()),
        &redis,
    );
}

#[test]
#[ignore = "needs PostgreSQL: cargo xtask test foreign"]
fn postgres_has_each_event_of_two_nodes_once() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    once_each(
        &format!("store = \"postgres\"\nurl = {:?}", postgres.url()),
        &redis,
    );
}
