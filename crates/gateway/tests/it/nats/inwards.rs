//! Messages of programs, as commands.

use super::{HANDED, Program, STREAM, comes, config, header, listens, soon, text};
use crate::harness::{Gateway, PATIENCE};
use ::client::full::request;
use serde_json::{Value, json};
use servers::{Nats, Redis};
use std::collections::BTreeSet;
use std::io::Write;
use std::net::TcpStream;

/// Headers and value of a message, and what the reason says.
type Bad<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str);

const BROADCAST: (&str, &str) = ("X-Operator", "broadcast");
const LOST: &str = "sockeye_nats_commands_total{outcome=\"lost\"}";
const DEAD: &str = "sockeye_nats_commands_total{outcome=\"dead\"}";

/// Nothing is published: a rule that names `order` is not there.
fn reads(url: &str, inlet: &str, more: &str) -> Gateway {
    Gateway::start(&config(url, "", inlet, more))
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn each_operator_reaches_whom_it_means() {
    for inlet in ["", STREAM] {
        let nats = Nats::start();
        let program = Program::with_streams(&nats);
        let node = reads(&nats.url(), inlet, "");
        listens(&node, &program);
        let (mut ada, mut bob) = (comes(&node, "ada"), comes(&node, "bob"));
        ada.ask("join", &[json!("hall")]);
        let id = ada.id.clone();
        let to = |operator, more: &[(&'static str, &str)], value: &str| {
            let operator = [("X-Operator", operator)];
            program.say(&[&operator, more].concat(), value);
        };
        to("unicast", &[("X-ID", &id)], " [ \"one\" , 1.50 ] ");
        to("user", &[("X-Uid", "bob")], "[\"user\",\"ä\"]");
        to("room", &[("X-Guid", "hall")], "[\"room\"]");
        let join = [("X-Inner", "join"), ("X-Uid", "bob"), ("X-Guid", "hall")];
        to("internal", &join, "");
        to("room", &[("X-Guid", "hall")], "[\"both\"]");
        let bytes = "[\"bytes\",{\"_placeholder\":true,\"num\":0}]\0\u{1}";
        to(
            "user",
            &[("X-Uid", "ada"), ("X-Sockeye-Attachments", "2")],
            bytes,
        );
        program.say(&[BROADCAST], "[\"last\"]");
        let names = |events: Vec<client::full::Event>| -> Vec<String> {
            events.into_iter().map(|event| event.name).collect()
        };
        assert_eq!(ada.expect("one"), [json!(1.5)]);
        assert_eq!(names(ada.until("last")), ["room", "both", "bytes"]);
        assert_eq!(bob.expect("user"), [json!("ä")]);
        assert_eq!(names(bob.until("last")), ["both"]);
        to(
            "internal",
            &[("X-Inner", "disconnect"), ("X-Uid", "bob")],
            "",
        );
        bob.until_closed();
        soon("nothing waits", || node.metric("sockeye_nats_lag") == 0.0);
    }
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn what_is_no_command_becomes_a_dead_letter_and_holds_nothing_up() {
    for inlet in ["", STREAM] {
        let nats = Nats::start();
        let program = Program::with_streams(&nats);
        let (key, entry) = identity::keys::generate("ops", &[]).expect("a key");
        let key = format!("Authorization: Bearer {key}\r\n");
        let admin = format!("[admin]\napi_keys = [{entry:?}]");
        let node = reads(&nats.url(), inlet, &admin);
        listens(&node, &program);
        let mut client = comes(&node, "");
        let bad: [Bad<'_>; 6] = [
            (&[], "[\"say\"]", "X-Operator is missing"),
            (&[BROADCAST], "no JSON", "no JSON array"),
            (&[BROADCAST, BROADCAST], "[\"say\"]", "twice"),
            (
                &[BROADCAST, ("X-Sockeye-Namespace", "/other")],
                "[\"say\"]",
                "no right",
            ),
            (
                &[("X-Operator", "unicast"), ("X-ID", "short")],
                "[\"say\"]",
                "no socket's id",
            ),
            // The server would take the letter for the message.
            (
                &[("Nats-Msg-Id", "one"), ("X-Sockeye-Reason", "a lie")],
                "",
                "X-Operator is missing",
            ),
        ];
        for (headers, value, _) in &bad {
            program.say(headers, value);
        }
        program.say(&[BROADCAST], "[\"good\"]");
        assert_eq!(client.next().name, "good");
        let letters = program.read("DEAD", bad.len());
        assert_eq!(letters.len(), bad.len());
        for (letter, (_, value, reason)) in letters.iter().zip(bad) {
            let why = header(letter, "X-Sockeye-Reason").expect("a reason");
            assert!(why.contains(reason), "{why:?} and not {reason:?}");
            assert_eq!(text(letter), value);
            let from = header(letter, "X-Sockeye-From-Topic");
            assert_eq!(from.as_deref(), Some("commands"));
            let stream = header(letter, "X-Sockeye-From-Stream");
            assert_eq!(stream.is_some(), !inlet.is_empty());
        }
        assert_eq!(node.metric(DEAD), bad.len() as f64);
        let shown = request(
            node.admin,
            "GET",
            "/v1/node/failures?bridge=nats&reason=x",
            &key,
            "",
        );
        let shown: Value = serde_json::from_str(&shown.body).expect("JSON");
        let newest = &shown["failures"][0];
        assert_eq!(newest["what"], "no command", "{shown}");
        assert_eq!(shown["failures"][4]["said"][0]["body"], "no JSON");
        assert_eq!(shown["failures"][4]["said"][0]["names"], "commands");
    }
}

/// Headers that the gateway's client cannot read end its connection. It comes back, and reads what stands behind them.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn headers_that_nobody_can_read_hold_nothing_up() {
    for inlet in ["", STREAM] {
        let nats = Nats::start();
        let program = Program::with_streams(&nats);
        let node = reads(&nats.url(), inlet, "");
        listens(&node, &program);
        let mut client = comes(&node, "");
        for headers in [
            &b"NATS/1.0\r\nX-Uid: \xff\r\n\r\n"[..],
            b"NATS/1.0\r\nno colon\r\n\r\n",
        ] {
            let mut raw = TcpStream::connect(("127.0.0.1", nats.port())).expect("a connection");
            let mut said = b"CONNECT {\"headers\":true,\"verbose\":false}\r\n".to_vec();
            let sizes = format!("HPUB commands {0} {0}\r\n", headers.len());
            said.extend_from_slice(sizes.as_bytes());
            said.extend_from_slice(headers);
            said.extend_from_slice(b"\r\nPING\r\n");
            raw.write_all(&said).expect("it is sent");
            let before = node.metric(HANDED);
            soon("the gateway reads on", || {
                program.say(&[BROADCAST], "[\"behind\"]");
                node.metric(HANDED) > before
            });
            client.next_named("behind");
        }
    }
}

/// One of the nodes has the message, and clients of all nodes get it, once.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_command_reaches_the_clients_of_all_nodes_once() {
    const COMMANDS: u64 = 200;
    for inlet in ["", STREAM, "stream = \"COMMANDS\"\npending_max = 1"] {
        let (nats, redis) = (Nats::start(), Redis::start());
        let program = Program::with_streams(&nats);
        let nodes = [(); 2].map(|()| reads(&nats.url(), inlet, &cluster(&redis)));
        let mut clients = nodes.each_ref().map(|node| comes(node, ""));
        together(&nodes);
        soon("both read", || {
            program.say(&[("X-Operator", "user"), ("X-Uid", "nobody")], "[\"x\"]");
            nodes.iter().all(|node| node.metric(HANDED) >= 1.0)
        });
        for n in 0..COMMANDS {
            program.publish("commands", &[BROADCAST], &format!("[\"say\",{n}]"));
        }
        program.flush();
        for client in &mut clients {
            let heard = (0..COMMANDS).map(|_| client.expect("say")[0].as_u64().expect("a number"));
            let mut heard: Vec<u64> = heard.collect();
            heard.sort_unstable();
            assert_eq!(heard, (0..COMMANDS).collect::<Vec<_>>());
        }
        program.say(&[BROADCAST], "[\"last\"]");
        for client in &mut clients {
            assert_eq!(client.next().name, "last");
        }
        assert_eq!(nodes.iter().map(|node| node.metric(LOST)).sum::<f64>(), 0.0);
    }
}

/// A node is killed while it reads: the other one gets what it had not acknowledged, and its clients get each command once.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn when_a_node_is_killed_the_other_one_reads_on() {
    const COMMANDS: u64 = 2_000;
    let (nats, redis) = (Nats::start(), Redis::start());
    let program = Program::with_streams(&nats);
    let mut nodes = [(); 2].map(|()| reads(&nats.url(), STREAM, &cluster(&redis)));
    together(&nodes);
    let mut client = comes(&nodes[0], "");
    let mut written = 0;
    let mut write = |count: u64| {
        for n in written..written + count {
            program.publish("commands", &[BROADCAST], &format!("[\"say\",{n}]"));
        }
        program.flush();
        written += count;
    };
    soon("both read", || {
        write(4);
        nodes.iter().all(|node| node.metric(HANDED) >= 1.0)
    });
    write(COMMANDS / 2);
    nodes[1].kill();
    write(COMMANDS / 2);
    let mut missing: BTreeSet<u64> = (0..written).collect();
    while !missing.is_empty() {
        let n = client.expect("say")[0].as_u64().expect("a number");
        assert!(missing.remove(&n), "{n} came twice");
    }
    // What the other one had not acknowledged comes ten seconds behind its end.
    soon("a repeat", || {
        nodes[0].metric("sockeye_cluster_repeats_total") >= 1.0
    });
    program.say(&[BROADCAST], "[\"last\"]");
    assert_eq!(client.next().name, "last");
}

/// The consumer that is there reads something else: its rights are not those of the table.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_consumer_of_somebody_else_is_not_used() {
    use async_nats::jetstream::consumer::pull::Config;
    let nats = Nats::start();
    let program = Program::with_streams(&nats);
    let made = program.runtime.block_on(async {
        let stream = program.streams().get_stream("COMMANDS").await;
        let config = Config {
            durable_name: Some("sockeye".to_owned()),
            max_ack_pending: 7,
            ..Config::default()
        };
        stream.expect("a stream").create_consumer(config).await
    });
    made.expect("a consumer");
    let node = reads(&nats.url(), STREAM, "");
    program.say(&[BROADCAST], "[\"say\"]");
    assert!(node.logged("delete it, or name another one", PATIENCE));
    assert_eq!(node.metric(HANDED), 0.0);
}

fn cluster(redis: &Redis) -> String {
    format!(
        "[cluster]\nadapter = \"redis\"\nurls = [{:?}]\nsecret = \"s\"\n",
        redis.url()
    )
}

fn together(nodes: &[Gateway]) {
    for node in nodes {
        soon("the nodes know each other", || {
            node.metric("sockeye_cluster_peers") >= 1.0
        });
    }
}
