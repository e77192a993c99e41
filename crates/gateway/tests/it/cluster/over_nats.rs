//! Nodes that share NATS.

use super::relay::know_addresses;
use super::{all_up, all_up_of, is_cut_off, member, number, numbers};
use crate::harness::{Gateway, PATIENCE, RawConn, eventually};
use client::brief::{Poller, poll_request, post_request};
use serde_json::{Value, json};
use servers::Nats;
use std::process::{Command, Output, Stdio};

/// A node at a NATS. `more`: keys of the cluster, and tables.
fn config(nats: &Nats, more: &str) -> String {
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[cluster]\nadapter = \"nats\"\nurls = [{:?}]\nsecret = \"s\"\n{more}",
        nats.url()
    )
}

fn nodes<const N: usize>(nats: &Nats) -> [Gateway; N] {
    let nodes = std::array::from_fn(|_| Gateway::start(&config(nats, "")));
    all_up(&nodes);
    nodes
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_room_spans_nodes_over_nats_in_both_directions_and_in_order() {
    let nats = Nats::start();
    let nodes: [Gateway; 2] = nodes(&nats);
    assert_ne!(number(&nodes[0]), number(&nodes[1]));
    let mut members = [&nodes[0], &nodes[1]].map(|node| member(node, "room"));
    for at in [0, 1] {
        let events: Vec<(&str, Vec<Value>)> = (0..500).map(|n| ("n", vec![json!(n)])).collect();
        members[at].emit_all(&events);
        let expected: Vec<u64> = (0..500).collect();
        assert_eq!(numbers(&mut members[1 - at], 500), expected);
    }
}

/// A server takes messages of 64 KiB here.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn an_event_above_max_payload_goes_in_parts_between_others() {
    let nats = Nats::with("max_payload: 65536");
    let more = "[limits]\noutbox_bytes_max = \"16MiB\"\n";
    let nodes = [(); 2].map(|()| Gateway::start(&config(&nats, more)));
    all_up(&nodes);
    let (mut here, mut there) = (member(&nodes[0], "room"), member(&nodes[1], "room"));
    for n in 0..3 {
        here.emit("n", &[json!(2 * n)]);
        here.emit("n", &[json!(2 * n + 1), json!("x".repeat(700_000))]);
    }
    for n in 0..6_u64 {
        let came = there.expect("n");
        assert_eq!(came[0], n);
        assert_eq!(came.len() as u64, 1 + n % 2);
    }
}

/// A session that polls goes to another node with each request.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_poll_at_another_node_reaches_its_session_over_nats() {
    let nats = Nats::start();
    let nodes: [Gateway; 2] = nodes(&nats);
    know_addresses(&nodes.each_ref());
    let session = Poller::connect(nodes[0].addr);
    let post = post_request(&session.sid, r#"421["join","room"]"#);
    assert_eq!(RawConn::exchange(nodes[1].addr, post).body, "ok");
    let polled = RawConn::exchange(nodes[1].addr, poll_request(&session.sid));
    assert_eq!(polled.body, r#"431[["room"]]"#);
}

/// The others give it up, and a node that comes takes its place.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_node_that_is_killed_is_given_up_and_a_newcomer_meets_the_rest() {
    let nats = Nats::start();
    let mut nodes: [Gateway; 3] = nodes(&nats);
    let (mut here, mut there) = (member(&nodes[0], "room"), member(&nodes[1], "room"));
    nodes[2].kill();
    for n in 0..50 {
        here.emit("n", &[json!(n)]);
    }
    assert_eq!(numbers(&mut there, 50), (0..50).collect::<Vec<u64>>());
    let newcomer = Gateway::start(&config(&nats, ""));
    all_up_of(&[&nodes[0], &nodes[1], &newcomer]);
    let mut third = member(&newcomer, "room");
    here.emit("n", &[json!(7)]);
    assert_eq!(numbers(&mut third, 1), [7]);
}

/// It starts while NATS is away, and is there when NATS is.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_newcomer_waits_for_nats_and_the_others_keep_their_numbers() {
    let mut nats = Nats::start();
    let nodes: [Gateway; 2] = nodes(&nats);
    let before = [number(&nodes[0]), number(&nodes[1])];
    nats.kill();
    assert!(eventually(PATIENCE, || is_cut_off(&nodes[0])), "cut off");
    let newcomer = Gateway::start_waiting(&config(&nats, ""));
    assert!(newcomer.logged("waiting for the cluster", PATIENCE));
    // Its memory is gone: nobody has a number, as far as it knows.
    nats.restart();
    all_up_of(&[&nodes[0], &nodes[1], &newcomer]);
    assert!(!before.contains(&number(&newcomer)));
    let (mut here, mut there) = (member(&nodes[0], "room"), member(&newcomer, "room"));
    here.emit("n", &[json!(1)]);
    assert_eq!(numbers(&mut there, 1), [1]);
}

/// One budget of connections for both.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn nodes_share_a_limit_over_nats() {
    let nats = Nats::start();
    let more = "[limits]\nconns_per_address_max = 10\nconns_per_address_scope = \"cluster\"\n";
    let nodes = [(); 2].map(|()| Gateway::start(&config(&nats, more)));
    all_up(&nodes);
    let exchanges = "sockeye_budget_exchanges_total{outcome=\"answered\"}";
    for node in &nodes {
        assert!(node.reaches(exchanges, 10.0) >= 10.0);
        assert_eq!(node.metric("sockeye_budget_up"), 1.0);
    }
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn wrong_passwords_and_missing_rights_end_a_node_at_its_start() {
    let rights = "authorization { users: [ \
        { user: right, password: right }, \
        { user: mute, password: right, permissions: { publish: [\"_INBOX.>\", \"$JS.API.>\"] } } ] }";
    let nats = Nats::with(rights);
    let run = |user: &str, password: &str| -> Output {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("sockeye.toml");
        let more = format!("user = {user:?}\npassword = {password:?}\n");
        std::fs::write(&file, config(&nats, &more)).expect("a file");
        let mut sockeye = Command::new(super::BINARY);
        sockeye
            .args(["config", "check", "--online", "--config"])
            .arg(&file);
        sockeye.stdin(Stdio::null()).output().expect("run sockeye")
    };
    for (user, password, said) in [
        ("right", "right", "cluster.urls answer: nats 2."),
        ("right", "wrong", "authorization violation"),
        ("mute", "right", "let this user publish and subscribe"),
    ] {
        let output = run(user, password);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(text.contains(said), "{user}: {text}");
        assert_eq!(output.status.code() == Some(0), password == user, "{text}");
    }
    let mut ended =
        Gateway::start_waiting(&config(&nats, "user = \"right\"\npassword = \"wrong\"\n"));
    let code = ended.exit_status(PATIENCE).and_then(|status| status.code());
    assert_eq!(
        code,
        Some(1),
        "it does not wait for what waiting does not mend"
    );
}
