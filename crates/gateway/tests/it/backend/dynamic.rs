//! Namespaces that clients make by connecting, beside Node servers.

use super::{KEY, Worker};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::SocketIo;
use serde_json::{Value, json};
use servers::{NodePeer, Redis};
use std::net::SocketAddr;

/// A gateway whose backend has every namespace, and where workers come.
fn gateway(redis: &Redis) -> (Gateway, SocketAddr) {
    let config = format!(
        "[server]\nshards = 2\n[workers]\nlisten = \"127.0.0.1:0\"\n[namespaces.\"*\"]\nbackend = \"kitchen\"\n\
         [backends.kitchen]\napi_keys = [{:?}]\n[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n\
         [compat]\nsharded = \"never\"\n",
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

/// It was heard only once something had been said there.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_namespace_that_a_client_made_was_not_heard_before_somebody_spoke_there() {
    let redis = Redis::start();
    let (gateway, workers) = gateway(&redis);
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
