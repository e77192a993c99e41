//! Several nodes and a real Redis: rooms do not end at the process.

mod appearing;
mod away;
mod chronicle;
mod clocks;
mod death;
mod departures;
mod directory;
mod drained;
mod engine;
mod feed;
mod figures;
mod foreign;
mod lab;
mod last_word;
mod limits;
mod looks;
mod masters;
mod moving;
mod over_nats;
mod poison;
mod polling_crowd;
mod python;
pub mod questions;
mod regions;
pub mod relay;
mod returning;
pub mod roam;
mod rollout;
mod silence;
mod starting;

use crate::harness::{Alone, Gateway, PATIENCE, RawConn, eventually};
use client::full::SocketIo;
use serde_json::{Value, json};
use servers::Redis;
use std::process::Command;

const BINARY: &str = env!("CARGO_BIN_EXE_sockeye");

/// A node of the cluster at a Redis, which hears servers of other kinds. Clients join rooms by name; what they send goes to all their
/// rooms.
fn config(redis: &Redis, more: &str) -> String {
    const OPEN: &str = "[compat]\nenabled = true\n";
    match more.contains("[compat]\n") {
        true => closed(redis, &more.replace("[compat]\n", OPEN)),
        false => closed(redis, &format!("{more}\n{OPEN}")),
    }
}

/// The same without servers of other kinds.
fn closed(redis: &Redis, more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n{more}",
        redis.url()
    )
}

/// The number that a node took.
fn number(node: &Gateway) -> u64 {
    let lines = node.log().into_iter();
    let mut lines = lines.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
    let listening = lines.find(|line| line["message"] == "listening");
    let number = listening.expect("the line")["node"].as_u64();
    number.expect("a number")
}

/// A node was in the cluster, and cannot reach the others now.
fn is_cut_off(node: &Gateway) -> bool {
    node.metric("sockeye_cluster_up") == 0.0
}

fn is_ready(node: &Gateway) -> bool {
    let request = "GET /ready HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n";
    RawConn::exchange(node.admin, request).status == 200
}

/// So many nodes that know each other.
fn nodes<const N: usize>(redis: &Redis) -> [Gateway; N] {
    nodes_with(redis, "")
}

/// The same; `more`: keys of the cluster, and tables.
fn nodes_with<const N: usize>(redis: &Redis, more: &str) -> [Gateway; N] {
    let nodes = std::array::from_fn(|_| Gateway::start(&config(redis, more)));
    all_up(&nodes);
    nodes
}

fn all_up(nodes: &[Gateway]) {
    all_up_of(&nodes.iter().collect::<Vec<_>>());
}

pub fn all_up_of(nodes: &[&Gateway]) {
    let others = nodes.len() as f64 - 1.0;
    for node in nodes {
        assert!(eventually(PATIENCE, || is_ready(node)), "ready");
        let up = node.metric_settles("sockeye_cluster_up", |up| up == 1.0);
        assert_eq!(up, Ok(1.0));
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

/// What is measured as "no coalescing" is that.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn messages_share_frames_unless_each_shall_have_its_own() {
    let redis = Redis::start();
    let settings = ["", "frame_letters = 1"];
    let nodes = settings.map(|more| Gateway::start(&config(&redis, more)));
    all_up(&nodes);
    let mut members = [&nodes[0], &nodes[1]].map(|node| member(node, "room"));
    let events: Vec<(&str, Vec<Value>)> = (0..500).map(|n| ("n", vec![json!(n)])).collect();
    for at in [0, 1] {
        members[at].emit_all(&events);
        assert_eq!(numbers(&mut members[1 - at], 500).len(), 500);
    }
    let [shared, alone] = [&nodes[0], &nodes[1]].map(|node| {
        move || {
            let letters = node.metric("sockeye_cluster_letters_total");
            letters - node.metric("sockeye_cluster_frames_total")
        }
    });
    // Nodes also tell each other of their keys now and then, perhaps between the two figures.
    assert!(eventually(PATIENCE, || alone() == 0.0), "{}", alone());
    assert!(eventually(PATIENCE, || shared() > 100.0), "{}", shared());
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
    assert!(eventually(PATIENCE, || is_cut_off(&nodes[0])), "cut off");
    for n in 1..100 {
        assert_eq!(here.ask("n", &[json!(n)]), Vec::<Value>::new());
    }
    redis.restart();
    assert_eq!(numbers(&mut there, 99), (1..100).collect::<Vec<u64>>());
    all_up(&nodes);
    assert_eq!(nodes[1].metric("sockeye_cluster_lost_total"), 0.0);
}

/// A message that was published right after the ack of a join missed the new member, whose node was not known to have one.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn what_is_published_after_the_ack_of_a_join_arrives() {
    let redis = Redis::start();
    // Long enough for the confirmation on a busy machine.
    let nodes: [Gateway; 2] = nodes_with(&redis, "join_wait = \"1s\"");
    for n in 0..25 {
        let room = format!("room {n}");
        let mut publisher = member(&nodes[1], &room);
        let mut joiner = member(&nodes[0], &room);
        publisher.emit("n", &[json!(n)]);
        assert_eq!(numbers(&mut joiner, 1), [n]);
    }
    assert_eq!(
        nodes[0].metric("sockeye_cluster_joins_unconfirmed_total"),
        0.0
    );
}

/// Others do not wait for a node that stands still. When it went on, what its clients said missed those who had joined meanwhile.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_went_on_after_a_standstill_missed_those_who_had_joined_meanwhile() {
    let redis = Redis::start();
    let nodes: [Gateway; 2] = nodes_with(&redis, "join_wait = \"5s\"");
    for n in 0..3 {
        let room = format!("room {n}");
        let mut speaker = member(&nodes[1], &room);
        nodes[1].freeze();
        let mut joiner = member(&nodes[0], &room);
        speaker.emit("n", &[json!(n)]);
        nodes[1].signal(rustix::process::Signal::CONT);
        assert_eq!(numbers(&mut joiner, 1), [n]);
    }
}

/// It ended without a word, though its last messages were lost.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_leaves_while_redis_is_away_tells_operators_what_is_lost() {
    let mut redis = Redis::start();
    let mut nodes: [Gateway; 2] = nodes(&redis);
    let (mut here, _there) = (member(&nodes[0], "room"), member(&nodes[1], "room"));
    redis.kill();
    assert_eq!(here.ask("n", &[json!(0)]), Vec::<Value>::new());
    nodes[0].terminate();
    let status = nodes[0].exit_status(PATIENCE);
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    let lost = "messages among them are lost";
    assert!(nodes[0].logged(lost, PATIENCE), "{:?}", nodes[0].log());
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_leaves_says_so_and_its_last_messages_arrive() {
    let redis = Redis::start();
    let mut nodes: [Gateway; 2] = nodes(&redis);
    let (mut here, mut there) = (member(&nodes[0], "room"), member(&nodes[1], "room"));
    let events: Vec<(&str, Vec<Value>)> = (0..200).map(|n| ("n", vec![json!(n)])).collect();
    here.emit_all(&events);
    nodes[0].terminate();
    assert_eq!(numbers(&mut there, 200), (0..200).collect::<Vec<u64>>());
    let status = nodes[0].exit_status(PATIENCE);
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    let peers = nodes[1].metric_settles("sockeye_cluster_peers", |peers| peers == 0.0);
    assert_eq!(peers, Ok(0.0));
    assert_eq!(nodes[1].metric("sockeye_cluster_lost_total"), 0.0);
    let key = format!("sockeye:{{nodes}}:{}", number(&nodes[0]));
    let number = redis.ask(&["GET", &key]);
    assert_eq!(number.trim(), "", "it is free again");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_stands_still_is_gone_after_a_while_and_may_come_back() {
    let redis = Redis::start();
    let nodes: [Gateway; 2] = nodes(&redis);
    nodes[0].freeze();
    let peers = nodes[1].metric_settles("sockeye_cluster_peers", |peers| peers == 0.0);
    assert_eq!(peers, Ok(0.0));
    assert!(is_ready(&nodes[1]));
    nodes[0].signal(rustix::process::Signal::CONT);
    all_up(&nodes);
    let (mut here, mut there) = (member(&nodes[0], "room"), member(&nodes[1], "room"));
    here.emit("n", &[json!(1)]);
    assert_eq!(numbers(&mut there, 1), [1]);
    // It was given up, and what was for it was not.
    let lost =
        ["lost", "resyncs"].map(|what| nodes[0].metric(&format!("sockeye_cluster_{what}_total")));
    assert_eq!(lost, [0.0, 0.0]);
}

/// They were ready, did not see each other, and said nothing.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn nodes_of_two_secrets_tell_operators_why_they_do_not_see_each_other() {
    let redis = Redis::start();
    let ours = config(&redis, "");
    let theirs = ours.replace("secret = \"s\"", "secret = \"other\"");
    assert_ne!(ours, theirs);
    let nodes = [ours, theirs].map(|config| Gateway::start(&config));
    for node in &nodes {
        let why = "all nodes need the same secret";
        assert!(node.logged(why, PATIENCE), "{:?}", node.log());
        assert_eq!(node.metric("sockeye_cluster_peers"), 0.0);
    }
}

/// Nodes of builds before leases had a code were missed in silence.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_lease_without_a_code_is_told_to_operators() {
    let redis = Redis::start();
    let node = Gateway::start(&config(&redis, ""));
    all_up_of(&[&node]);
    let other = (number(&node) + 1) % 1_024;
    let key = format!("sockeye:{{nodes}}:{other}");
    let bare = "1795836254722453 {\"life\":1,\"name\":\"vm/1\",\"sessions\":0}";
    redis.ask(&["SET", &key, bare, "PX", "60000"]);
    let why = "upgrade all such nodes at once, or give it the secret";
    assert!(node.logged(why, PATIENCE), "{:?}", node.log());
}

/// Its ids are another's now.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_whose_number_is_taken_tells_its_clients_and_ends() {
    let redis = Redis::start();
    // With a secret, only another node could write that key.
    let open = config(&redis, "").replace("secret = \"s\"\n", "");
    let mut node = Gateway::start(&open);
    all_up_of(&[&node]);
    let mut client = member(&node, "room");
    let key = format!("sockeye:{{nodes}}:{}", number(&node));
    redis.ask(&["SET", &key, "9999999999999999 another", "PX", "60000"]);
    assert_eq!(client.until_closed().1, Some(1001));
    let status = node.exit_status(PATIENCE);
    assert_eq!(status.and_then(|status| status.code()), Some(1));
    assert!(node.logged("this node's number", PATIENCE));
}

/// The next start may have better luck: exit 1, not 2.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_finds_no_redis_says_why_and_ends() {
    let mut redis = Redis::start();
    redis.kill();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sockeye.toml");
    let settings = config(&redis, "start = \"fail\"");
    std::fs::write(&file, settings).expect("write the configuration");
    let mut command = Command::new(BINARY);
    command.args([
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--config",
    ]);
    let ended = command.arg(&file).output().expect("start sockeye");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains(&redis.addr()), "{said}");
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn publishers_are_told_when_too_much_waits_for_redis() {
    let mut redis = Redis::start();
    let node = Gateway::start(&config(&redis, "queue_bytes = \"20KB\""));
    let other = Gateway::start(&config(&redis, ""));
    all_up_of(&[&node, &other]);
    let (mut here, mut beside) = (member(&node, "room"), member(&node, "room"));
    let mut there = member(&other, "room");
    redis.kill();
    let told = (0..1_000u64).find_map(|n| {
        let answer = here.ask("n", &[json!(n), json!("x".repeat(100))]);
        (!answer.is_empty()).then_some((n, answer))
    });
    let (refused, answer) = told.expect("a refusal");
    assert!(
        answer[0]["error"]
            .as_str()
            .is_some_and(|text| text.contains("Other nodes"))
    );
    assert!(node.metric("sockeye_cluster_refused_total") >= 1.0);
    // The node's own members got that one too.
    assert_eq!(numbers(&mut beside, refused + 1).len() as u64, refused + 1);
    redis.restart();
    let taken: Vec<u64> = (0..refused).collect();
    assert_eq!(numbers(&mut there, refused), taken);
}

/// A program without a connection of its own reaches the clients of all nodes by any of them.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn sockeye_emit_reaches_a_room_on_all_nodes_and_needs_a_key() {
    let redis = Redis::start();
    let (key, entry) = identity::keys::generate("ci", &[]).expect("a key");
    let more = format!("[admin]\napi_keys = [{entry:?}]\n");
    let nodes = [(); 2].map(|()| Gateway::start(&config(&redis, &more)));
    all_up(&nodes);
    let mut members = [&nodes[0], &nodes[1]].map(|node| member(node, "room"));
    let emit = |key: &str| {
        let mut command = Command::new(BINARY);
        command.args(["emit", "n", "7", "--room", "room", "--key", key]);
        let ended = command
            .args(["--admin", &nodes[0].admin.to_string()])
            .output();
        ended.expect("run sockeye emit").status.code()
    };
    assert_eq!(emit("wrong"), Some(1));
    assert_eq!(emit(&key), Some(0));
    for client in &mut members {
        assert_eq!(numbers(client, 1), [7]);
    }
}

/// The room of a socket's id is that client's alone: a client of another node could join it and listen.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_client_of_another_node_joined_the_room_of_a_socket() {
    let redis = Redis::start();
    let nodes: [Gateway; 2] = nodes(&redis);
    let victim = member(&nodes[0], "room");
    let mut stranger = member(&nodes[1], "room");
    let answer = stranger.ask("join", &[json!(victim.id)]);
    assert_eq!(answer, [json!({"error": "Invalid room name"})]);
}

/// A node published before it knew who else was there: nobody got that, and nobody was told.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_had_just_started_sent_its_first_messages_to_nobody() {
    let _alone = Alone::or_with_a_quiet_one();
    let redis = Redis::start();
    let first = Gateway::start(&config(&redis, ""));
    assert!(eventually(PATIENCE, || is_ready(&first)), "ready");
    let mut there = member(&first, "room");
    // It has a number, and says nothing for now.
    first.freeze();
    let (key, entry) = identity::keys::generate("ci", &[]).expect("a key");
    let second = Gateway::start(&config(
        &redis,
        &format!("[admin]\napi_keys = [{entry:?}]\n"),
    ));
    // Its own probes tell it after two seconds that nobody else speaks. A client's CONNECT and join would take as long: they wait for the
    // silent node. A program does not.
    assert!(!is_ready(&second), "the other node was not heard yet");
    let body = json!({"event": "n", "rooms": ["room"], "args": [1]}).to_string();
    let order = format!(
        "POST /v1/emit HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {key}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let taken = RawConn::exchange(second.admin, order);
    assert_eq!(taken.status, 202, "it is promised: {taken:?}");
    first.signal(rustix::process::Signal::CONT);
    assert_eq!(numbers(&mut there, 1), [1]);
    assert!(eventually(PATIENCE, || is_ready(&second)), "ready");
}

/// The same after the newcomer has given up waiting for it: what was promised then reached that node never, and nobody counted it.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_stood_still_while_another_one_started_missed_what_it_said() {
    let _alone = Alone::or_with_a_quiet_one();
    let redis = Redis::start();
    let first = Gateway::start(&config(&redis, ""));
    assert!(eventually(PATIENCE, || is_ready(&first)), "ready");
    let mut there = member(&first, "room");
    first.freeze();
    let second = Gateway::start(&config(&redis, ""));
    assert!(eventually(PATIENCE, || is_ready(&second)), "ready");
    let mut here = member(&second, "room");
    let said: Vec<u64> = (0..100).collect();
    for n in &said {
        assert_eq!(here.ask("n", &[json!(n)]), [] as [Value; 0]);
    }
    first.signal(rustix::process::Signal::CONT);
    assert_eq!(numbers(&mut there, 100), said);
    assert_eq!(first.metric("sockeye_cluster_lost_total"), 0.0);
}

/// A node that died leaves its number for a while, and never speaks: others that start then do not wait for it for long.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_starts_beside_the_number_of_a_dead_one() {
    let redis = Redis::start();
    let mut dead = Gateway::start(&config(&redis, ""));
    assert!(eventually(PATIENCE, || is_ready(&dead)), "ready");
    dead.kill();
    let node = Gateway::start(&config(&redis, ""));
    let mut here = member(&node, "room");
    assert_eq!(here.ask("n", &[json!(1)]), [] as [Value; 0]);
    assert!(eventually(PATIENCE, || is_ready(&node)), "ready");
}
