//! Clients that come back to another node than the one that they left.

use super::relay::know_addresses;
use super::roam::RoundRobin;
use super::{all_up, closed};
use crate::e2e::recovery::{Client, say};
use crate::harness::{Gateway, PATIENCE, eventually};
use serde_json::{Value, json};
use servers::{Redis, stock_returns};
use std::time::{Duration, Instant};

const RECOVERS: &str = "[namespaces.\"/\"]\nclient_joins = true\n\
    [namespaces.\"/\".recovery]\nlevel = \"node\"\n\
    [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\n\
    [namespaces.\"/\".events.echo]\naction = \"reply\"\n";

fn nodes<const N: usize>(redis: &Redis) -> [Gateway; N] {
    let nodes = std::array::from_fn(|_| Gateway::start(&closed(redis, RECOVERS)));
    all_up(&nodes);
    nodes
}

/// Clients that came back, by how that went, on all of these nodes.
fn outcomes(nodes: &[Gateway], outcome: &str) -> f64 {
    let name = format!("sockeye_returns_total{{outcome=\"{outcome}\"}}");
    nodes.iter().map(|node| node.metric(&name)).sum()
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn clients_that_come_back_to_another_node_have_missed_nothing() {
    const CLIENTS: usize = 24;
    let redis = Redis::start();
    let nodes: [Gateway; 3] = nodes(&redis);
    let mut speakers = [0, 1, 2].map(|node| Client::new(&nodes[node]));
    let mut clients: Vec<Client> = (0..CLIENTS).map(|n| Client::new(&nodes[n % 2])).collect();
    clients.iter_mut().for_each(|client| client.join("room"));
    let mut said = 0;
    for round in 0..3 {
        let ids: Vec<String> = clients.iter().map(|client| client.sid.clone()).collect();
        let lost: Vec<Value> = clients.drain(..).map(Client::lose).collect();
        let begun = said;
        for speaker in &mut speakers {
            say(speaker, "room", said..said + 10, &"x".repeat(4_000));
            said += 10;
        }
        for (n, (id, auth)) in ids.iter().zip(lost).enumerate() {
            let mut client = Client::comes_back(&nodes[(n + round + 1) % 3], auth);
            assert_eq!(client.sid, *id, "{:?}", outcomes(&nodes, "nodes"));
            let mut missed = client.hears();
            // Each node has an order of its own.
            missed.sort_unstable();
            assert_eq!(missed, (begun..said).collect::<Vec<u64>>());
            clients.push(client);
        }
        say(&mut speakers[round], "room", said..said + 5, "");
        let live: Vec<u64> = (said..said + 5).collect();
        said += 5;
        for client in &mut clients {
            let mut news = Vec::new();
            let came = eventually(PATIENCE, || {
                news.extend(client.hears());
                news.len() >= live.len()
            });
            assert!(came, "{news:?}");
            assert_eq!(news, live);
        }
    }
    assert_eq!(outcomes(&nodes, "recovered"), 3.0 * CLIENTS as f64);
}

/// Behind a balancer that gives each connection to the next node: by long-polling, WebSocket and upgrade, cut by resets, silence and
/// restarts of a proxy.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn stock_clients_behind_a_plain_balancer_miss_nothing() {
    const CLIENTS: u64 = 9;
    const ROUNDS: u64 = 6;
    let redis = Redis::start();
    let nodes: [Gateway; 3] = nodes(&redis);
    know_addresses(&nodes.each_ref());
    let balancer = RoundRobin::start(nodes.iter().map(|node| node.addr).collect());
    let speaker = format!("http://{}", nodes[0].addr);
    let told = stock_returns(&balancer.url(), &speaker, CLIENTS, ROUNDS);
    let wrong = json!([]);
    let cuts = CLIENTS * ROUNDS;
    let expected = json!({ "lost": cuts, "recovered": cuts, "fresh": 0, "wrong": wrong });
    assert_eq!(told, expected);
    assert!(outcomes(&nodes, "recovered") >= cuts as f64);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_socket_dies_with_its_node_and_nobody_waits_long_for_it() {
    let redis = Redis::start();
    let mut nodes: [Gateway; 2] = nodes(&redis);
    let mut client = Client::new(&nodes[0]);
    client.join("room");
    let (sid, auth) = (client.sid.clone(), client.lose());
    nodes[0].kill();
    let came = Instant::now();
    let mut back = Client::comes_back(&nodes[1], auth.clone());
    assert_ne!(back.sid, sid);
    assert!(
        came.elapsed() < Duration::from_secs(10),
        "{:?}",
        came.elapsed()
    );
    back.join("room");
    say(&mut back, "room", 0..1, "");
    // It is silent for so long that nobody is asked any more.
    let silent = Duration::from_secs(4).saturating_sub(came.elapsed());
    std::thread::sleep(silent);
    let count = |why| outcomes(&nodes[1..], why);
    let late = count("late");
    let again = Client::comes_back(&nodes[1], auth);
    assert_ne!(again.sid, sid);
    let reasons = || ["nodes", "late", "unknown"].map(count);
    let both = || reasons().iter().sum::<f64>() == 2.0;
    assert!(eventually(PATIENCE, both), "{:?}", reasons());
    assert_eq!(count("late"), late, "it waited for somebody");
}

/// What other Socket.IO servers say has no place in the order of the nodes.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn while_other_servers_are_heard_sockets_stay_at_their_node() {
    let redis = Redis::start();
    let open = |_| Gateway::start(&super::config(&redis, RECOVERS));
    let nodes: [Gateway; 2] = std::array::from_fn(open);
    all_up(&nodes);
    let client = Client::new(&nodes[0]);
    let (sid, auth) = (client.sid.clone(), client.lose());
    assert_ne!(Client::comes_back(&nodes[1], auth.clone()).sid, sid);
    assert_eq!(outcomes(&nodes, "unknown"), 1.0);
    assert_eq!(Client::comes_back(&nodes[0], auth).sid, sid);
}
