//! A crowd that only polls, behind a balancer without a memory: two of three waiting polls are at a node that does not have the session.

use super::relay::{know_addresses, quick};
use super::{all_up, member};
use crate::harness::client::{poll_request, post_request};
use crate::harness::{Alone, Gateway, PATIENCE, RawConn, eventually};
use serde_json::{Value, json};
use servers::Redis;
use std::net::SocketAddr;
use std::thread::{scope, spawn};

/// Clients of each node, and descriptors that its process may have.
const CLIENTS: usize = 5_000;
const DESCRIPTORS: u32 = 20_000;

/// A session with its first packets read, whose requests all went by one connection.
fn opened(conn: &mut RawConn) -> String {
    let mut ask = |request: String| {
        conn.send(request);
        let answer = conn.response();
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    };
    let open = ask(poll_request(""));
    let sid = open.split('"').nth(3).expect("a session id").to_owned();
    ask(post_request(&sid, "40\u{1e}42[\"join\",\"crowd\"]"));
    let told = ask(poll_request(&sid));
    assert!(told.starts_with("40{"), "{told}");
    sid
}

/// Sessions of one node. A third of their polls waits at each of the nodes.
fn crowd(nodes: [SocketAddr; 3], owner: usize) -> Vec<RawConn> {
    let mut conn = RawConn::connect(nodes[owner]);
    let wait = |n: usize| {
        let sid = opened(&mut conn);
        let mut poll = RawConn::connect(nodes[n % 3]);
        poll.send(poll_request(&sid));
        poll
    };
    (0..CLIENTS).map(wait).collect()
}

/// Beyond 940 clients a node, requests got "Session ID unknown", and clients began anew.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn three_nodes_of_5000_polling_clients_needed_sticky_sessions() {
    let _alone = Alone::wait();
    let redis = Redis::start();
    // Nobody is asked for a sign of life meanwhile, and no newcomer waits for a busy shard.
    let more =
        "relay_tls = false\n[socketio]\nping_interval = \"10m\"\n[admission]\nturn_max = \"0s\"\n";
    let start = |()| Gateway::start_limited(&quick(&redis, more), DESCRIPTORS);
    let nodes = [(); 3].map(start);
    all_up(&nodes);
    know_addresses(&nodes.each_ref());
    let addrs = nodes.each_ref().map(|node| node.addr);
    let crowds = [0, 1, 2].map(|owner| spawn(move || crowd(addrs, owner)));
    let mut polls: Vec<RawConn> = crowds
        .into_iter()
        .flat_map(|crowd| crowd.join().expect("a crowd"))
        .collect();
    let relayed = || -> f64 {
        let open = |node: &Gateway| node.metric("sockeye_relay_connections");
        nodes.iter().map(open).sum()
    };
    let all = (3 * CLIENTS - 3 * CLIENTS.div_ceil(3)) as f64;
    assert!(
        eventually(PATIENCE, || relayed() >= all - 3.0),
        "{}",
        relayed()
    );
    for node in &nodes {
        assert!(node.descriptors() < DESCRIPTORS as usize);
        assert_eq!(node.metric("sockeye_relay_refused_total"), 0.0);
        let sessions = node.metric_settles("sockeye_sessions", |n| n == CLIENTS as f64);
        assert_eq!(sessions, Ok(CLIENTS as f64));
    }
    let mut speaker = member(&nodes[0], "other");
    assert_eq!(speaker.ask("join", &[json!("crowd")]), [json!(["crowd"])]);
    assert_eq!(speaker.ask("n", &[json!(1)]), [] as [Value; 0]);
    let part = polls.len().div_ceil(4);
    scope(|threads| {
        for part in polls.chunks_mut(part) {
            threads.spawn(move || {
                for poll in part {
                    let answer = poll.response_within(3 * PATIENCE).expect("an answer");
                    assert_eq!((answer.status, &*answer.body), (200, r#"42["n",1]"#));
                }
            });
        }
    });
    for node in &nodes {
        assert_eq!(node.metric("sockeye_relay_failed_total"), 0.0);
        assert!(node.metric("sockeye_sessions") >= CLIENTS as f64);
    }
}
