//! Brokers and gateways that fail.

use super::{Brokers, Program, broker, comes, config, key, make_topics, read, soon, text};
use crate::harness::{Gateway, RawConn, Stop};
use ::client::full::{Frame, SocketIo, WebSocket};
use rdkafka::message::Message;
use serde_json::{Value, json};
use servers::Kafka;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const AWAY: &str = "sockeye_kafka_events_total{outcome=\"failed\"}";
const REFUSED: &str = "sockeye_kafka_events_total{outcome=\"refused\"}";

fn error(ack: &[Value]) -> String {
    let error = ack.first().and_then(|answer| answer["error"].as_str());
    error.unwrap_or_default().to_owned()
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn while_brokers_are_away_clients_are_told_and_others_are_served() {
    let mut kafka = Kafka::stopped();
    let out = "ack = \"kafka\"\ntime = \"1s\"\nrecord_max = \"64KiB\"\nwaiting_max = \"100KiB\"";
    let say = "[namespaces.\"/\".events.say]\naction = \"reply\"";
    let node = Gateway::start(&config(&kafka.brokers(), out, say));
    let mut client = comes(&node, "");
    let away = client.ask("order", &[json!(1)]);
    assert!(
        error(&away).contains("has not acknowledged the event in time"),
        "{away:?}"
    );
    assert_eq!(node.reaches(AWAY, 1.0), 1.0);
    // Without an ack nobody waits, and 100 KiB are soon full.
    for _ in 0..3 {
        client.emit("order", &[json!("x".repeat(40_000))]);
    }
    let full = client.ask("order", &[json!("x".repeat(40_000))]);
    assert!(
        error(&full).contains("Too much waits for Kafka"),
        "{full:?}"
    );
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
    // Brokers that come are found.
    kafka.restart();
    make_topics(&kafka, 1);
    soon("Kafka takes events", || {
        error(&client.ask("order", &[json!(2)])).is_empty()
    });
    Program::new(&kafka).say(&[("X-Operator", "broadcast")], "[\"heard\"]");
    client.next_named("heard");
}

/// Clients that wait for Kafka leave room for the tokens of newcomers.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn while_brokers_are_away_newcomers_with_tokens_come_in() {
    let kafka = Kafka::stopped();
    let out = "ack = \"kafka\"\ntime = \"60s\"";
    // Of each of two shards.
    let limits = "[limits]\nasks_outstanding_max = 8\n";
    let node = Gateway::start(&config(&kafka.brokers(), out, limits));
    let mut clients: Vec<_> = (0..4).map(|_| comes(&node, "")).collect();
    for client in &mut clients {
        for n in 0..12 {
            client.ask_later("order", &[json!(n)]);
        }
    }
    // Four acks of each shard wait, and both may have clients.
    assert!(node.reaches(REFUSED, 40.0) >= 40.0);
    for user in ["ada", "bob", "cat", "dan"] {
        let mut client = comes(&node, user);
        client.ask("join", &[json!("hall")]);
    }
}

/// Events whose ack means Kafka, each behind the ack of the one before it, until the deeds are done: each is there once, in order. Returns how
/// many there were. The deeds get what the gateway's metrics say.
pub(super) fn all_that_is_acknowledged_is_there<K: Brokers>(
    kafka: &mut K,
    node: &Gateway,
    deeds: impl FnOnce(&mut K),
) -> usize {
    const CLIENTS: usize = 6;
    let over = AtomicBool::new(false);
    let sent: BTreeMap<String, u64> = thread::scope(|scope| {
        let _stop = Stop(&over);
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = comes(node, "");
                    let mut n = 0;
                    while !over.load(Ordering::Relaxed) {
                        assert!(client.ask("order", &[json!(n)]).is_empty(), "event {n}");
                        n += 1;
                    }
                    (client.id.clone(), n)
                })
            })
            .collect();
        deeds(kafka);
        over.store(true, Ordering::Relaxed);
        let ended = clients.into_iter();
        ended
            .map(|client| client.join().expect("all are acknowledged"))
            .collect()
    });
    let count: u64 = sent.values().sum();
    let records = read(kafka, "events", count as usize);
    let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in &records {
        of.entry(key(record)).or_default().push(text(record));
    }
    for (id, sent) in sent {
        let expected: Vec<String> = (0..sent).map(|n| format!("[\"order\",{n}]")).collect();
        assert_eq!(of[&id], expected);
    }
    assert_eq!(records.len() as u64, count);
    assert_eq!(node.metric(AWAY) + node.metric(REFUSED), 0.0);
    records.len()
}

/// Waits until Kafka has so many more events.
pub(super) fn more_are_produced(node: &Gateway, more: f64) {
    let produced = || node.metric("sockeye_kafka_events_total{outcome=\"produced\"}");
    let before = produced();
    soon("events", || produced() >= before + more);
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn nothing_acknowledged_is_lost_or_doubled_while_the_broker_restarts() {
    let mut kafka = broker(2);
    let out = "ack = \"kafka\"\nkey = \"socket\"\ntime = \"60s\"";
    let node = Gateway::start(&config(&kafka.brokers(), out, ""));
    all_that_is_acknowledged_is_there(&mut kafka, &node, |kafka| {
        more_are_produced(&node, 100.0);
        kafka.stop();
        kafka.restart();
        more_are_produced(&node, 100.0);
        kafka.kill();
        kafka.restart();
        more_are_produced(&node, 100.0);
    });
}

/// Killed while it reads: its successor in the group goes on, and nothing is left out.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn after_a_gateway_was_killed_another_one_goes_on() {
    const COMMANDS: u64 = 2_000;
    let kafka = broker(2);
    let program = Program::new(&kafka);
    let text = config(&kafka.brokers(), "ack = \"kafka\"", "");
    let mut node = Gateway::start(&text);
    let mut client = comes(&node, "");
    for n in 0..COMMANDS {
        let headers = [("X-Operator", "broadcast")];
        program.write((n % 2) as i32, &headers, &format!("[\"say\",{n}]"));
    }
    program.flush();
    let number = |client: &mut SocketIo| client.expect("say")[0].as_u64().expect("a number");
    // Its events are in Kafka when their ack is there.
    assert!(client.ask("order", &[json!("acknowledged")]).is_empty());
    let mut heard: BTreeSet<u64> = (0..100).map(|_| number(&mut client)).collect();
    node.kill();
    // The rest of what was on its way to the client.
    let (rest, ..) = client.until_closed();
    heard.extend(rest.iter().filter_map(|event| event.args[0].as_u64()));
    let node = Gateway::start(&text);
    let mut client = comes(&node, "");
    let mut after = Vec::new();
    while heard.len() < COMMANDS as usize {
        let n = number(&mut client);
        after.push(n);
        heard.insert(n);
    }
    assert_eq!(heard, (0..COMMANDS).collect());
    for partition in 0..2 {
        assert!(after.iter().filter(|n| *n % 2 == partition).is_sorted());
    }
    assert_eq!(
        read(&kafka, "events", 1)[0].payload(),
        Some(&b"[\"order\",\"acknowledged\"]"[..])
    );
}

/// Keeps so many questions under way; the socket's id, and those that had an ack.
fn ask_until_the_end(addr: SocketAddr, under_way: usize) -> (String, BTreeSet<usize>) {
    let mut socket = WebSocket::connect(addr, "/socket.io/?EIO=4&transport=websocket", "");
    let (mut id, mut sent, mut acked) = (String::new(), 0, BTreeSet::new());
    socket.text("40");
    loop {
        match socket.frame() {
            Frame::Text(text) if text == "2" => assert!(socket.try_text("3")),
            Frame::Text(text) if text.starts_with('0') => {}
            Frame::Text(text) if text.starts_with("40") => {
                let opened: Value = serde_json::from_str(&text[2..]).expect("JSON");
                id = opened["sid"].as_str().expect("an id").to_owned();
            }
            Frame::Text(text) => {
                // They come in any order.
                let number = text
                    .strip_prefix("43")
                    .and_then(|rest| rest.strip_suffix("[]"));
                let number = number.and_then(|number| number.parse().ok());
                assert!(
                    acked.insert(number.expect("an ack without an error")),
                    "{text}"
                );
            }
            _ => return (id, acked),
        }
        while !id.is_empty() && sent < acked.len() + under_way {
            // The gateway may be gone.
            let _ = socket.try_text(&format!("42{sent}[\"order\",{sent}]"));
            sent += 1;
        }
    }
}

/// Killed while it writes: what clients have an ack for is there, once and in order; what was under way may be there.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn what_a_killed_gateway_has_acknowledged_is_there() {
    const CLIENTS: usize = 6;
    const UNDER_WAY: usize = 20;
    let kafka = broker(2);
    let mut node = Gateway::start(&config(
        &kafka.brokers(),
        "ack = \"kafka\"\nkey = \"socket\"",
        "",
    ));
    let addr = node.addr;
    let acked: BTreeMap<String, BTreeSet<usize>> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(move || ask_until_the_end(addr, UNDER_WAY)))
            .collect();
        more_are_produced(&node, 2_000.0);
        node.kill();
        let ended = clients.into_iter();
        ended
            .map(|client| client.join().expect("it ends"))
            .collect()
    });
    let count: usize = acked.values().map(BTreeSet::len).sum();
    let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for record in &read(&kafka, "events", count) {
        of.entry(key(record)).or_default().push(text(record));
    }
    let mut more = 0;
    for (id, acked) in acked {
        let there = &of[&id];
        let expected: Vec<String> = (0..there.len())
            .map(|n| format!("[\"order\",{n}]"))
            .collect();
        assert_eq!(*there, expected);
        assert!(acked.iter().all(|n| *n < there.len()), "{acked:?}");
        more += there.len() - acked.len();
    }
    eprintln!("kill -9: {count} acknowledged, all there once and in order, and {more} more");
}

/// At the end what waits is written, and the partitions are another's at once.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn an_orderly_end_writes_what_waits() {
    let kafka = broker(1);
    let life = "kafka_lifecycle = true\nclient_joins = true";
    let text = config(&kafka.brokers(), "", "").replace("client_joins = true", life);
    let mut node = Gateway::start(&text);
    let mut client = comes(&node, "");
    client.emit("order", &[json!(1)]);
    assert!(client.ask("order", &[json!(2)]).is_empty());
    node.terminate();
    let status = node.exit_status(Duration::from_secs(30));
    assert!(status.is_some_and(|status| status.success()));
    let records = read(&kafka, "events", 4);
    let bodies: Vec<String> = records.iter().map(super::text).collect();
    let expected = [
        "[\"connect\"]",
        "[\"order\",1]",
        "[\"order\",2]",
        "[\"disconnect\",\"server shutting down\"]",
    ];
    assert_eq!(bodies, expected);
}

/// Neither reading nor writing keeps a process that is told to stop.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn brokers_that_are_away_do_not_hold_up_the_end() {
    let mut kafka = broker(1);
    for frozen in [true, false] {
        let mut node = Gateway::start(&config(&kafka.brokers(), "", ""));
        let mut client = comes(&node, "");
        // It reads.
        Program::new(&kafka).say(&[("X-Operator", "broadcast")], "[\"heard\"]");
        client.next_named("heard");
        match frozen {
            true => kafka.freeze(),
            false => kafka.kill(),
        }
        assert!(client.ask("order", &[json!(1)]).is_empty());
        node.terminate();
        let status = node.exit_status(Duration::from_secs(40));
        assert!(
            status.is_some_and(|status| status.success()),
            "frozen: {frozen}"
        );
        if frozen {
            kafka.thaw();
        }
    }
}
