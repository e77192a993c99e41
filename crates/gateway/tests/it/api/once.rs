//! Idempotency-Keys over two nodes on a real Redis or NATS: what one node carried out, the other one does not do again.

use super::cluster::{is_ready, nodes, nodes_over_nats, nodes_with};
use super::{KEY, accepted, call_with, config, members, post};
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use ::client::full::SocketIo;
use serde_json::{Value, json};
use servers::{Cluster, Nats, Redis};

/// An event for the room under a key.
fn emit(node: &Gateway, key: &str, body: &Value) -> (u16, Value) {
    let header = format!("Idempotency-Key: {key}\r\n");
    let (answer, told) = call_with(node, &KEY.0, &header, "POST", "/v1/emit", &body.to_string());
    (answer.status, told)
}

fn news(n: u64) -> Value {
    json!({"event": "n", "rooms": ["room"], "args": [n]})
}

fn question() -> Value {
    json!({"event": "q", "rooms": ["room"], "ack": {"timeout_ms": 20_000}})
}

fn answer(client: &mut SocketIo) {
    let question = client.next_named("q").ack.expect("an ack is wanted");
    client.answer(question, &[json!("yes")]);
}

/// Nothing but this event has come since.
fn heard_no_more(node: &Gateway, client: &mut SocketIo) {
    assert_eq!(
        post(node, "/v1/emit", &json!({"event": "last", "all": true})).0,
        202
    );
    assert_eq!(client.until("last").len(), 0);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_call_that_is_repeated_at_another_node_is_carried_out_once() {
    let redis = Redis::start();
    repeated_calls_are_carried_out_once(&nodes(&redis));
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_call_that_is_repeated_at_another_node_over_nats_is_carried_out_once() {
    let nats = Nats::start();
    repeated_calls_are_carried_out_once(&nodes_over_nats(&nats));
}

fn repeated_calls_are_carried_out_once(nodes: &[Gateway; 2]) {
    let mut client = members(&nodes[0], "room", 1).remove(0);
    for at in [0, 1, 1, 0] {
        assert_eq!(emit(&nodes[at], "a", &news(1)), accepted());
    }
    let (status, problem) = emit(&nodes[1], "a", &news(2));
    assert_eq!(
        (status, &problem["type"]),
        (422, &json!("urn:sockeye:problem:idempotency-key-reused"))
    );
    assert_eq!(emit(&nodes[1], "b", &news(3)), accepted());
    assert_eq!(client.expect("n"), [json!(1)]);
    assert_eq!(client.expect("n"), [json!(3)]);
    // A key is for one namespace.
    let elsewhere = json!({"event": "n", "namespace": "/other", "all": true});
    assert_ne!(emit(&nodes[1], "a", &elsewhere).0, 422);

    // At once at both: one asks the client, the other one waits for its answer.
    let told = std::thread::scope(|scope| {
        let asked = [0, 1, 0, 1].map(|at| {
            let node = &nodes[at];
            scope.spawn(move || emit(node, "q", &question()))
        });
        answer(&mut client);
        asked.map(|asked| asked.join().expect("an answer"))
    });
    for told in told {
        assert_eq!((told.0, &told.1["acked"]), (200, &json!(1)), "{told:?}");
    }
    heard_no_more(&nodes[0], &mut client);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_call_whose_node_was_killed_is_not_done_again_in_silence() {
    let redis = Redis::start();
    calls_of_a_killed_node_are_told(nodes(&redis));
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_call_whose_node_was_killed_is_not_done_again_in_silence_over_nats() {
    let nats = Nats::start();
    calls_of_a_killed_node_are_told(nodes_over_nats(&nats));
}

fn calls_of_a_killed_node_are_told(mut nodes: [Gateway; 2]) {
    let mut client = members(&nodes[1], "room", 1).remove(0);
    let (first, rest) = nodes.split_at_mut(1);
    let body = question().to_string();
    let mut asked = RawConn::connect(first[0].admin);
    asked.send(format!(
        "POST /v1/emit HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nIdempotency-Key: q\r\nContent-Length: {}\r\n\r\n{body}",
        KEY.0,
        body.len()
    ));
    client.next_named("q");
    let told = std::thread::scope(|scope| {
        let node = &rest[0];
        let waits = scope.spawn(move || emit(node, "q", &question()));
        let waiting = node.reaches("sockeye_api_keys_total{outcome=\"waited\"}", 1.0);
        assert_eq!(waiting, 1.0);
        first[0].kill();
        waits.join().expect("an answer")
    });
    assert_eq!(
        (told.0, &told.1["type"]),
        (504, &json!("urn:sockeye:problem:no-answer")),
        "{told:?}"
    );
    assert_eq!(emit(&rest[0], "q", &question()).0, 504, "at once");
    assert_eq!(emit(&rest[0], "new", &news(1)).0, 202);
    assert_eq!(client.expect("n"), [json!(1)]);
    heard_no_more(&rest[0], &mut client);
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_call_while_redis_is_away_is_refused_and_one_that_redis_forgot_is_not_done_again() {
    let mut redis = Redis::start();
    let nodes = nodes(&redis);
    what_a_server_forgot_is_not_done_again(&nodes, &mut redis, Redis::kill, Redis::restart);
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_call_while_nats_is_away_is_refused_and_one_that_nats_forgot_is_not_done_again() {
    let mut nats = Nats::start();
    let nodes = nodes_over_nats(&nats);
    what_a_server_forgot_is_not_done_again(&nodes, &mut nats, Nats::kill, Nats::restart);
}

fn what_a_server_forgot_is_not_done_again<S>(
    nodes: &[Gateway; 2],
    server: &mut S,
    kill: fn(&mut S),
    restart: fn(&mut S),
) {
    let mut client = members(&nodes[0], "room", 1).remove(0);
    assert_eq!(emit(&nodes[0], "a", &news(1)), accepted());
    assert_eq!(client.expect("n"), [json!(1)]);
    // The answer comes while the server is dead, so that the other node does not hear of it.
    let told = std::thread::scope(|scope| {
        let node = &nodes[0];
        let asked = scope.spawn(move || emit(node, "q", &question()));
        let question = client.next_named("q").ack.expect("an ack is wanted");
        kill(server);
        client.answer(question, &[json!("yes")]);
        asked.join().expect("an answer")
    });
    assert_eq!((told.0, &told.1["acked"]), (200, &json!(1)), "{told:?}");
    let (status, problem) = emit(&nodes[1], "b", &news(2));
    assert_eq!(
        (status, &problem["type"]),
        (503, &json!("urn:sockeye:problem:busy")),
        "{problem}"
    );
    assert_eq!(emit(&nodes[0], "a", &news(1)), accepted(), "it knows");

    // It comes back empty: the first node says again what it carried out.
    restart(server);
    let back = eventually(PATIENCE, || emit(&nodes[1], "a", &news(1)).0 == 202);
    assert!(back, "the server is back");
    let again = emit(&nodes[1], "q", &question());
    assert_eq!(again, told);
    assert_eq!(emit(&nodes[1], "b", &news(2)).0, 202);
    assert_eq!(client.expect("n"), [json!(2)]);
    heard_no_more(&nodes[0], &mut client);
}

/// The rights that operators are told to give are enough.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn no_other_rights_are_needed_than_those_of_nodes() {
    let redis = Redis::start();
    let rights = nodes::redis::ACL.split_whitespace();
    let user = ["ACL", "SETUSER", "sockeye", "on", ">p"];
    let words: Vec<&str> = user.into_iter().chain(rights).collect();
    redis.ask(&words);
    let nodes = nodes_with(&redis, "user = \"sockeye\"\npassword = \"p\"");
    for node in &nodes {
        assert_eq!(emit(node, "a", &news(1)), accepted());
    }
    assert_eq!(emit(&nodes[1], "a", &news(2)).0, 422);
}

/// All keys of the ledger are in one slot. While its master is away, nothing is done.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_cluster_of_redis_keeps_keys_as_a_single_one_does() {
    let redis = Cluster::start_with(600_000, &[]);
    let urls: Vec<String> = redis.nodes.iter().map(|redis| redis.url()).collect();
    let cluster = format!("[cluster]\nadapter = \"redis\"\nmode = \"cluster\"\nurls = {urls:?}\n");
    let nodes = [(); 2].map(|()| Gateway::start(&config(&cluster)));
    for node in &nodes {
        assert!(eventually(PATIENCE, || is_ready(node)), "ready");
    }
    assert_eq!(emit(&nodes[0], "a", &news(1)).0, 202);
    assert_eq!(emit(&nodes[1], "a", &news(2)).0, 422);
    let owner = redis.owner(0, "sockeye:{once}");
    redis.nodes[owner].freeze();
    assert_eq!(emit(&nodes[1], "b", &news(3)).0, 503);
    redis.nodes[owner].thaw();
    let back = eventually(PATIENCE, || emit(&nodes[1], "b", &news(3)).0 == 202);
    assert!(back, "its master is back");
    let repeated = || emit(&nodes[0], "b", &news(4)).0 == 422;
    assert!(eventually(PATIENCE, repeated), "the other node knows");
}

/// Several servers make a bucket anew that they lost, with its old name: nothing under a key is done there.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn calls_under_a_key_are_refused_where_several_servers_of_nats_are() {
    let servers = Nats::cluster();
    let nodes = nodes_over_nats(&servers[0]);
    let mut client = members(&nodes[0], "room", 1).remove(0);
    let (status, problem) = emit(&nodes[1], "a", &news(1));
    assert_eq!(status, 503);
    let why = problem["detail"].as_str().unwrap_or_default();
    assert!(why.contains("several servers of NATS"), "{problem}");
    heard_no_more(&nodes[0], &mut client);
}

/// What two nodes say at once to a server that has just lost everything.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn calls_at_both_nodes_are_carried_out_once_while_nats_restarts_again_and_again() {
    let mut nats = Nats::start();
    let nodes = nodes_over_nats(&nats);
    let mut client = members(&nodes[0], "room", 1).remove(0);
    for n in 0..4 {
        let key = format!("key-{n}");
        let both = || {
            std::thread::scope(|scope| {
                let called = [0, 1, 0, 1].map(|at| {
                    let (node, key) = (&nodes[at], &key);
                    scope.spawn(move || emit(node, key, &news(n)).0)
                });
                called.map(|called| called.join().expect("an answer"))
            })
        };
        assert!(eventually(PATIENCE, || both() == [202; 4]), "call {n}");
        nats.restart();
        assert!(
            eventually(PATIENCE, || both() == [202; 4]),
            "call {n} again"
        );
        assert_eq!(client.expect("n"), [json!(n)]);
    }
    heard_no_more(&nodes[0], &mut client);
    for node in &nodes {
        let doubled = "sockeye_api_keys_total{outcome=\"doubled\"}";
        assert_eq!(node.metric(doubled), 0.0);
    }
}
