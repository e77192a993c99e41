//! Namespaces that clients make by connecting, beside Node servers.

use super::{KEY, Worker};
use crate::harness::token::{SECRET, token};
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use ::client::full::SocketIo;
use serde_json::{Value, json};
use servers::{NodePeer, Redis};
use std::net::SocketAddr;

/// A gateway whose backend has every namespace, and where workers come. `cluster`: more keys of its cluster, and tables.
fn gateway(redis: &Redis, cluster: &str) -> (Gateway, SocketAddr) {
    let config = format!(
        "[server]\nshards = 2\n[workers]\nlisten = \"127.0.0.1:0\"\n[admin]\napi_keys = [{:?}]\n\
         [namespaces.\"*\"]\nbackend = \"kitchen\"\nauto_join = [\"lobby\"]\n\
         [backends.kitchen]\napi_keys = [{:?}]\n[compat]\nenabled = true\nsharded = \"never\"\n\
         [cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n{cluster}\n",
        KEY.1,
        KEY.1,
        redis.url()
    );
    let gateway = Gateway::start_with(&config, &["--profile", "socket.io"]);
    let log = gateway.log();
    let line = log.iter().find(|line| line.contains("\"listening\""));
    let line: Value = serde_json::from_str(line.expect("a line")).expect("JSON");
    let workers = line["workers"].as_str().expect("an address");
    (gateway, workers.parse().expect("an address"))
}

/// A call of the server API, on a connection that is there already.
fn emit_at_once(call: &mut RawConn, body: &Value) {
    let (key, body) = (&KEY.0, body.to_string());
    call.send(format!(
        "POST /v1/emit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
}

/// A client was told of its CONNECT before other nodes knew of it. What they said at once to all of its namespace, to its user or to
/// a room that every client is put into did not reach it.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn what_another_node_said_behind_the_connect_of_a_first_client_missed_it() {
    let redis = Redis::start();
    let more = format!("join_wait = \"5s\"\n[auth]\nsecret = {SECRET:?}");
    let nodes = [(); 2].map(|()| gateway(&redis, &more));
    let workers = [&nodes[0], &nodes[1]].map(|(_, workers)| Worker::attach(*workers, &KEY.0, "a"));
    for (node, _) in &nodes {
        let peers = node.metric_settles("sockeye_cluster_peers", |peers| peers == 1.0);
        assert_eq!(peers, Ok(1.0));
    }
    let auth = json!({"token": token("ann")});
    for n in 0..300 {
        let ((here, _), (there, _)) = (&nodes[n % 2], &nodes[1 - n % 2]);
        let namespace = format!("/n{n}");
        let mut body = json!({"namespace": namespace, "event": "n", "args": [n]});
        match n % 3 {
            0 => body["all"] = json!(true),
            1 => body["users"] = json!(["ann"]),
            _ => body["rooms"] = json!(["lobby"]),
        }
        let mut call = RawConn::connect(there.admin);
        let mut client = match n % 4 {
            0 => SocketIo::polling(here.addr, &namespace, auth.clone()),
            _ => SocketIo::websocket(here.addr, &namespace, auth.clone()),
        };
        emit_at_once(&mut call, &body);
        assert_eq!(client.expect("n"), [json!(n)]);
    }
    for (node, _) in &nodes {
        assert_eq!(node.metric("sockeye_cluster_joins_unconfirmed_total"), 0.0);
    }
    drop(workers);
}

/// It was heard only once something had been said there.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_namespace_that_a_client_made_was_not_heard_before_somebody_spoke_there() {
    let redis = Redis::start();
    let (gateway, workers) = gateway(&redis, "");
    let _worker = Worker::attach(workers, &KEY.0, "a");
    let mut peer = NodePeer::start(&redis.url(), "classic", "/,/dyn-1");
    let mut silent = SocketIo::websocket(gateway.addr, "/dyn-1", json!({}));
    let is_heard = || {
        let channels = redis.ask(&["PUBSUB", "NUMSUB", "socket.io-request#/dyn-1#"]);
        channels.lines().last() == Some("2")
    };
    assert!(eventually(PATIENCE, is_heard));
    peer.call(json!({"do": "emit", "nsp": "/dyn-1", "event": "ev", "args": [1]}));
    assert_eq!(silent.next_named("ev").args, [json!(1)]);
    let found = peer.call(json!({"do": "fetch", "nsp": "/dyn-1"}));
    assert_eq!(found[0]["id"], json!(silent.id), "{found}");
}
