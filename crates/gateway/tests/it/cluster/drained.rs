//! Clients with recovery whose node is drained: they come back elsewhere and have missed nothing.

use super::{all_up, closed};
use crate::e2e::recovery::{Client, say};
use crate::harness::{Alone, Gateway, PATIENCE, eventually};
use serde_json::Value;
use servers::Redis;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: u64 = 24;

fn config(redis: &Redis, level: &str, pace: &str) -> String {
    let recovers = format!(
        "[namespaces.\"/\"]\nclient_joins = true\n[namespaces.\"/\".recovery]\nlevel = {level:?}\n\
         [namespaces.\"/\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\n\
         [namespaces.\"/\".events.echo]\naction = \"reply\"\n"
    );
    closed(redis, &recovers).replace("shards = 2", &format!("shards = 2\n{pace}"))
}

/// A client of the node that drains: what it hears until it is sent away and, some time later, at the other node.
fn life(client: Client, number: u64, other: &Gateway, over: &AtomicBool) -> Vec<u64> {
    let sid = client.sid.clone();
    let (mut heard, auth) = client.sent_away();
    // Stock clients come back after half a second to one and a half.
    std::thread::sleep(Duration::from_millis(500 + 1_000 * number / CLIENTS));
    let mut back = Client::comes_back(other, auth);
    assert_eq!(back.sid, sid, "client {number} is recovered");
    while !over.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(20));
    }
    heard.extend(back.hears());
    heard
}

/// All hear all that is said during the drain, and once.
fn a_drain_loses_nothing(level: &str, pace: &str) {
    let _alone = Alone::or_with_a_quiet_one();
    let redis = Redis::start();
    let text = config(&redis, level, pace);
    let mut nodes: [Gateway; 2] = std::array::from_fn(|_| Gateway::start(&text));
    all_up(&nodes);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::new(&nodes[0])).collect();
    clients.iter_mut().for_each(|client| client.join("room"));
    let mut speaker = Client::new(&nodes[1]);
    let (over, said) = (AtomicBool::new(false), AtomicU64::new(0));
    let [draining, other] = &mut nodes;
    let (other, over, said) = (&*other, &over, &said);
    let heard: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let _ends = crate::harness::Stop(over);
        let lives: Vec<_> = (0..)
            .zip(clients.drain(..))
            .map(|(number, client)| scope.spawn(move || life(client, number, other, over)))
            .collect();
        let back = || {
            let first = said.fetch_add(3, Ordering::Relaxed);
            say(&mut speaker, "room", first..first + 3, "x");
            std::thread::sleep(Duration::from_millis(50));
            other.metric("sockeye_returns_total{outcome=\"recovered\"}") == CLIENTS as f64
        };
        draining.terminate();
        assert!(eventually(3 * PATIENCE, back), "all come back");
        let status = draining.exit_status(PATIENCE).expect("the process ends");
        assert_eq!(status.code(), Some(0));
        over.store(true, Ordering::Release);
        let lives = lives.into_iter().map(|life| life.join().expect("a life"));
        lives.collect()
    });
    let all: Vec<u64> = (0..said.load(Ordering::Relaxed)).collect();
    for (number, heard) in heard.iter().enumerate() {
        assert_eq!(*heard, all, "client {number}");
    }
}

/// 63 of 333 were told that they are new: the node had ended when they came.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn clients_of_a_drained_node_were_new_elsewhere() {
    a_drain_loses_nothing("node", "drain_window = \"1s\"\ndrain_grace = \"16s\"");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn clients_of_a_drained_node_come_back_by_the_stream() {
    a_drain_loses_nothing("cluster", "drain_window = \"1s\"\ndrain_grace = \"16s\"");
}

/// A client that does as it is told: it comes back so long after the notice.
fn obedient(mut client: Client, other: &Gateway) -> bool {
    let sid = client.sid.clone();
    let (delay, told) = (client.told_to_leave(), Instant::now());
    let (_, auth) = client.sent_away();
    std::thread::sleep(delay.saturating_sub(told.elapsed()));
    Client::comes_back(other, auth).sid == sid
}

/// Delays were spread over the window, and the node had ended: of 24 clients five to ten were new.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn clients_that_came_when_they_were_told_found_their_node_gone() {
    let _alone = Alone::or_with_a_quiet_one();
    let redis = Redis::start();
    let pace = "drain_window = \"6s\"\ndrain_grace = \"9s\"";
    let text = config(&redis, "node", pace);
    let mut nodes: [Gateway; 2] = std::array::from_fn(|_| Gateway::start(&text));
    all_up(&nodes);
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::new(&nodes[0])).collect();
    clients.iter_mut().for_each(|client| client.join("room"));
    let [draining, other] = &mut nodes;
    let other = &*other;
    let recovered = std::thread::scope(|scope| {
        let lives = clients.drain(..);
        let lives = lives.map(|client| scope.spawn(move || obedient(client, other)));
        let lives: Vec<_> = lives.collect();
        draining.terminate();
        let lives = lives.into_iter().map(|life| life.join().expect("a life"));
        lives.filter(|recovered| *recovered).count() as u64
    });
    assert_eq!(recovered, CLIENTS);
    let status = draining.exit_status(PATIENCE).expect("the process ends");
    assert_eq!(status.code(), Some(0));
}

/// Nobody could take it: a node alone does not wait for its clients.
#[test]
fn a_node_alone_ends_at_once() {
    let text = "profile = \"socket.io\"\n[server]\nshards = 2\ndrain_window = \"0s\"\ndrain_grace = \"60s\"\n\
        [namespaces.\"/\".recovery]\nlevel = \"node\"\n";
    let mut node = Gateway::start(text);
    let mut client = Client::new(&node);
    client.join("room");
    let parked: Value = client.lose();
    assert!(parked["pid"].is_string());
    assert_eq!(
        node.metric_settles("sockeye_parked_sockets", |parked| parked == 1.0),
        Ok(1.0)
    );
    node.terminate();
    let status = node
        .exit_status(2 * PATIENCE)
        .expect("it ends before its grace");
    assert_eq!(status.code(), Some(0));
}
