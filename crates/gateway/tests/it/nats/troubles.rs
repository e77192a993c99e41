//! Servers and gateways that fail.

use super::{PRODUCED, Program, STREAM, comes, config, header, soon, text};
use crate::harness::{Gateway, PATIENCE, RawConn, Stop};
use serde_json::{Value, json};
use servers::Nats;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const FAILED: &str = "sockeye_nats_events_total{outcome=\"failed\"}";
const REFUSED: &str = "sockeye_nats_events_total{outcome=\"refused\"}";

fn error(ack: &[Value]) -> String {
    let error = ack.first().and_then(|answer| answer["error"].as_str());
    error.unwrap_or_default().to_owned()
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn while_servers_are_away_clients_are_told_and_others_are_served() {
    let mut nats = Nats::stopped("");
    let out = "ack = \"nats\"\ntime = \"1s\"\nrecord_max = \"64KiB\"\nwaiting_max = \"100KiB\"";
    let say = "[namespaces.\"/\".events.say]\naction = \"reply\"";
    let node = Gateway::start(&config(&nats.url(), out, STREAM, say));
    let mut client = comes(&node, "");
    let away = client.ask("order", &[json!(1)]);
    let late = "has not acknowledged the event in time";
    assert!(error(&away).contains(late), "{away:?}");
    assert_eq!(node.reaches(FAILED, 1.0), 1.0);
    // Without an ack nobody waits, and 100 KiB are soon full.
    for _ in 0..3 {
        client.emit("order", &[json!("x".repeat(40_000))]);
    }
    let full = client.ask("order", &[json!("x".repeat(40_000))]);
    assert!(error(&full).contains("Too much waits for NATS"), "{full:?}");
    assert!(node.reaches(REFUSED, 2.0) >= 2.0);
    let large = client.ask("order", &[json!("x".repeat(70_000))]);
    assert!(
        error(&large).contains("does not take the event"),
        "{large:?}"
    );
    // Everything else goes on.
    assert_eq!(client.ask("say", &[json!(7)]), [json!(7)]);
    let ready = "GET /ready HTTP/1.1\r\nHost: admin\r\nConnection: close\r\n\r\n";
    assert_eq!(RawConn::exchange(node.admin, ready).status, 200);
    // Servers that come are found; without a stream nothing is acknowledged.
    nats.restart();
    let none = client.ask("order", &[json!(2)]);
    assert!(error(&none).contains(late), "{none:?}");
    let program = Program::with_streams(&nats);
    soon("a stream takes events", || {
        error(&client.ask("order", &[json!(3)])).is_empty()
    });
    program.say(&[("X-Operator", "broadcast")], "[\"heard\"]");
    client.next_named("heard");
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn wrong_credentials_are_told_to_the_log_and_to_clients() {
    let nats = Nats::with("authorization { user: gateway, password: right }");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "wrong\n").expect("a password");
    let out = "ack = \"nats\"\ntime = \"1s\"";
    let text = config(&nats.url(), out, "", "").replace(
        "[nats.out]",
        &format!(
            "user = \"gateway\"\npassword_file = {:?}\n[nats.out]",
            file.path().display().to_string()
        ),
    );
    let node = Gateway::start(&text);
    let mut client = comes(&node, "");
    let away = client.ask("order", &[json!(1)]);
    assert!(
        error(&away).contains("NATS has not acknowledged"),
        "{away:?}"
    );
    assert!(node.logged("authorization", PATIENCE));
    // The right one is read when the gateway asks again. There is no stream.
    std::fs::write(file.path(), "right\n").expect("a password");
    assert!(node.logged("connected to NATS", PATIENCE));
}

/// Events whose ack means NATS: each is in the stream once, in order, whatever the server does.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn nothing_acknowledged_is_lost_or_doubled_while_the_server_restarts() {
    const CLIENTS: usize = 6;
    let mut nats = Nats::start();
    drop(Program::with_streams(&nats));
    let out = "ack = \"nats\"\nkey = \"socket\"\ntime = \"60s\"";
    let node = Gateway::start(&config(&nats.url(), out, "", ""));
    let over = AtomicBool::new(false);
    let sent: BTreeMap<String, u64> = thread::scope(|scope| {
        let _stop = Stop(&over);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = comes(&node, "");
                    let mut n = 0;
                    while !over.load(Ordering::Relaxed) {
                        // Ten beside each other: their order is the bridge's.
                        for _ in 0..9 {
                            client.emit("order", &[json!(n)]);
                            n += 1;
                        }
                        assert!(client.ask("order", &[json!(n)]).is_empty(), "event {n}");
                        n += 1;
                    }
                    (client.id.clone(), n)
                })
            })
            .collect();
        let more = |least: f64| {
            let before = node.metric(PRODUCED);
            soon("events", || node.metric(PRODUCED) >= before + least);
        };
        more(500.0);
        nats.stop();
        nats.restart();
        more(500.0);
        nats.stop();
        thread::sleep(Duration::from_secs(1));
        nats.restart();
        more(500.0);
        nats.freeze();
        thread::sleep(Duration::from_secs(4));
        nats.thaw();
        more(500.0);
        over.store(true, Ordering::Relaxed);
        let ends = clients.into_iter().map(|client| client.join());
        ends.map(|end| end.expect("a client")).collect()
    });
    let all: u64 = sent.values().sum();
    let messages = Program::new(&nats).read("EVENTS", all as usize);
    let mut stored: BTreeMap<String, u64> = BTreeMap::new();
    for message in &messages {
        let n = stored
            .entry(header(message, "X-ID").expect("a socket"))
            .or_default();
        assert_eq!(text(message), format!("[\"order\",{n}]"));
        *n += 1;
    }
    assert_eq!(stored, sent);
    eprintln!(
        "{all} events, {} of them sent again",
        node.metric("sockeye_nats_retries_total")
    );
    assert_eq!((node.metric(FAILED), node.metric(REFUSED)), (0.0, 0.0));
}

/// A gateway is killed: what it had acknowledged is in the stream.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn what_a_killed_gateway_had_acknowledged_is_stored() {
    let nats = Nats::start();
    let program = Program::with_streams(&nats);
    let out = "ack = \"nats\"\nkey = \"socket\"";
    let mut node = Gateway::start(&config(&nats.url(), out, "", ""));
    let mut client = comes(&node, "");
    for n in 0..200 {
        assert!(client.ask("order", &[json!(n)]).is_empty());
    }
    for n in 200..400 {
        client.emit("order", &[json!(n)]);
    }
    node.kill();
    let messages = program.read("EVENTS", 200);
    let values: Vec<String> = messages.iter().map(text).collect();
    let expected: Vec<String> = (0..values.len())
        .map(|n| format!("[\"order\",{n}]"))
        .collect();
    assert_eq!(values, expected);
    let unique: BTreeSet<&String> = values.iter().collect();
    assert_eq!(unique.len(), values.len());
}

/// A node that ends in order writes what waits, and ends in time where nobody answers.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn the_end_of_a_node_waits_for_the_stream_and_not_for_ever() {
    let nats = Nats::start();
    let program = Program::with_streams(&nats);
    let start = || Gateway::start(&config(&nats.url(), "key = \"socket\"", STREAM, ""));
    let ends = |mut node: Gateway| {
        node.terminate();
        let status = node.exit_status(Duration::from_secs(40));
        assert!(status.is_some_and(|status| status.success()));
    };
    let node = start();
    let mut client = comes(&node, "");
    for n in 0..500 {
        client.emit("order", &[json!(n)]);
    }
    assert!(client.ask("order", &[json!(500)]).is_empty());
    ends(node);
    assert_eq!(program.read("EVENTS", 501).len(), 501);
    let node = start();
    let mut client = comes(&node, "");
    soon("the stream takes events", || {
        client.ask("order", &[json!(0)]);
        node.metric(PRODUCED) >= 1.0
    });
    nats.freeze();
    assert!(client.ask("order", &[json!(1)]).is_empty());
    ends(node);
    nats.thaw();
}
