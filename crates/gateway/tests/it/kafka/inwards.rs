//! Records of programs, as commands.

use super::{Program, broker, comes, config, header, read, soon, text};
use crate::harness::Gateway;
use ::client::full::request;
use serde_json::{Value, json};
use servers::Redis;
use std::collections::BTreeSet;

/// Headers and value of a record, and what the reason says.
type Bad<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str);

/// One that everybody hears after all that was said before.
fn last(program: &Program) {
    program.say(&[("X-Operator", "broadcast")], "[\"last\"]");
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn each_operator_reaches_whom_it_means() {
    let kafka = broker(1);
    let node = Gateway::start(&config(&kafka.brokers(), "", ""));
    let program = Program::new(&kafka);
    let (mut ada, mut bob) = (comes(&node, "ada"), comes(&node, "bob"));
    ada.ask("join", &[json!("hall")]);
    let id = ada.id.clone();
    let to = |operator, more: &[(&'static str, &str)], value: &str| {
        let operator = [("X-Operator", operator)];
        program.say(&[&operator, more].concat(), value);
    };
    to(
        "unicast",
        &[("X-ID", &id)],
        " [ \"one\" , 1.50, {\"a\":[]} ] ",
    );
    to("user", &[("X-Uid", "bob")], "[\"user\",\"ä\"]");
    to("room", &[("X-Guid", "hall")], "[\"room\"]");
    let inner = |what, more: &[(&'static str, &str)]| {
        to("internal", &[&[("X-Inner", what)], more].concat(), "");
    };
    inner("join", &[("X-Uid", "bob"), ("X-Guid", "hall")]);
    to("room", &[("X-Guid", "hall")], "[\"both\"]");
    inner("leave", &[("X-ID", &id), ("X-Guid", "hall")]);
    to("room", &[("X-Guid", "hall")], "[\"rest\"]");
    let binary = "[\"bytes\",{\"_placeholder\":true,\"num\":0}]\0\u{1}";
    to(
        "user",
        &[("X-Uid", "ada"), ("X-Sockeye-Attachments", "2")],
        binary,
    );
    last(&program);
    let names = |events: Vec<client::full::Event>| -> Vec<String> {
        events.into_iter().map(|event| event.name).collect()
    };
    let one = ada.next();
    assert_eq!(
        (&*one.name, one.args),
        ("one", vec![json!(1.5), json!({"a": []})])
    );
    assert_eq!(names(ada.until("last")), ["room", "both", "bytes"]);
    assert_eq!(bob.expect("user"), [json!("ä")]);
    assert_eq!(names(bob.until("last")), ["both", "rest"]);
    inner("disconnect", &[("X-Uid", "bob")]);
    bob.until_closed();
    let handed = "sockeye_kafka_commands_total{outcome=\"handed\"}";
    assert_eq!(node.reaches(handed, 10.0), 10.0);
    soon("nothing waits", || node.metric("sockeye_kafka_lag") == 0.0);
}

#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn what_is_no_command_becomes_a_dead_letter_and_holds_nothing_up() {
    let kafka = broker(1);
    let (key, entry) = identity::keys::generate("ops", &[]).expect("a key");
    let admin = format!("[admin]\napi_keys = [{entry:?}]");
    let node = Gateway::start(&config(&kafka.brokers(), "", &admin));
    let mut client = comes(&node, "");
    let program = Program::new(&kafka);
    let broadcast = ("X-Operator", "broadcast");
    let long = "r".repeat(300);
    let unicast = ("X-Operator", "unicast");
    let join = [
        ("X-Operator", "internal"),
        ("X-Inner", "join"),
        ("X-Uid", "ada"),
    ];
    let bad: [Bad<'_>; 8] = [
        (&[], "[\"say\"]", "X-Operator is missing"),
        (&[broadcast], "no JSON", "no JSON array"),
        (&[broadcast], "{}", "no JSON array"),
        (&[broadcast], "[\"connect\"]", "reserved"),
        (
            &[broadcast, ("X-Sockeye-Encoding", "msgpack")],
            "x",
            "MessagePack",
        ),
        (
            &[broadcast, ("X-Sockeye-Namespace", "/other")],
            "[\"say\"]",
            "no right",
        ),
        (&[unicast, ("X-ID", "short")], "[\"say\"]", "no socket's id"),
        (
            &[join[0], join[1], join[2], ("X-Guid", &long)],
            "",
            "room_name_bytes_max",
        ),
    ];
    for (headers, value, _) in &bad {
        program.say(headers, value);
    }
    program.say(&[broadcast], "[\"good\"]");
    assert_eq!(client.next().name, "good");
    let letters = read(&kafka, "dead", bad.len());
    assert_eq!(letters.len(), bad.len());
    for (letter, (_, value, reason)) in letters.iter().zip(bad) {
        let why = header(letter, "X-Sockeye-Reason").expect("a reason");
        assert!(why.contains(reason), "{why:?} and not {reason:?}");
        assert_eq!(text(letter), value);
        assert_eq!(
            header(letter, "X-Sockeye-From-Topic").as_deref(),
            Some("commands")
        );
    }
    let dead = "sockeye_kafka_commands_total{outcome=\"dead\"}";
    assert_eq!(node.metric(dead), bad.len() as f64);
    let headers = format!("Authorization: Bearer {key}\r\n");
    let path = "/v1/node/failures?bridge=kafka&reason=x";
    let shown = request(node.admin, "GET", path, &headers, "");
    let shown: Value = serde_json::from_str(&shown.body).expect("JSON");
    let second = &shown["failures"][6];
    assert_eq!(second["what"], "no command", "{shown}");
    assert_eq!(second["said"][0]["body"], "no JSON");
    assert_eq!(
        second["said"][0]["names"],
        "commands, partition 0, offset 1"
    );
}

/// One of the group has the record, and clients of all nodes get it, once.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn a_command_reaches_the_clients_of_all_nodes_once() {
    const COMMANDS: u64 = 200;
    let (kafka, redis) = (broker(4), Redis::start());
    let cluster = format!(
        "[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n",
        redis.url()
    );
    let nodes = [(); 2].map(|()| Gateway::start(&config(&kafka.brokers(), "", &cluster)));
    let mut clients = nodes.each_ref().map(|node| comes(node, ""));
    for node in &nodes {
        soon("the nodes know each other", || {
            node.metric("sockeye_cluster_peers") >= 1.0
        });
    }
    let program = Program::new(&kafka);
    let broadcast = [("X-Operator", "broadcast")];
    for n in 0..COMMANDS {
        program.write((n % 4) as i32, &broadcast, &format!("[\"say\",{n}]"));
    }
    program.flush();
    for client in &mut clients {
        let heard = (0..COMMANDS).map(|_| client.expect("say")[0].as_u64().expect("a number"));
        let mut heard: Vec<u64> = heard.collect();
        // Those of a partition in order.
        for partition in 0..4 {
            let own = heard.iter().filter(|n| **n % 4 == partition);
            assert!(own.is_sorted(), "{heard:?}");
        }
        heard.sort_unstable();
        assert_eq!(heard, (0..COMMANDS).collect::<Vec<_>>());
    }
    last(&program);
    for client in &mut clients {
        assert_eq!(client.next().name, "last");
    }
}

/// A node is killed while it reads: the other one reads its partitions, and its clients miss nothing.
#[test]
#[ignore = "needs Kafka: cargo xtask test foreign"]
fn when_a_node_is_killed_the_other_one_reads_on() {
    const COMMANDS: u64 = 4_000;
    let (kafka, redis) = (broker(4), Redis::start());
    let cluster = format!(
        "[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n",
        redis.url()
    );
    let text = config(&kafka.brokers(), "", &cluster);
    let (node, mut other) = (Gateway::start(&text), Gateway::start(&text));
    for node in [&node, &other] {
        soon("the nodes know each other", || {
            node.metric("sockeye_cluster_peers") >= 1.0
        });
    }
    let mut client = comes(&node, "");
    let program = Program::new(&kafka);
    let handed = "sockeye_kafka_commands_total{outcome=\"handed\"}";
    let mut written = 0;
    let mut write = |count: u64| {
        for n in written..written + count {
            let value = format!("[\"say\",{n}]");
            program.write((n % 4) as i32, &[("X-Operator", "broadcast")], &value);
        }
        program.flush();
        written += count;
    };
    // Both have partitions.
    while node.metric(handed) == 0.0 || other.metric(handed) == 0.0 {
        write(4);
    }
    write(COMMANDS / 2);
    other.kill();
    write(COMMANDS / 2);
    let mut missing: BTreeSet<u64> = (0..written).collect();
    while !missing.is_empty() {
        let n = client.expect("say")[0].as_u64().expect("a number");
        missing.remove(&n);
    }
}
