//! Channels of plain JSON: real programs hear what clients are told, and tell them something, once, over several nodes.

use super::{all_up, closed};
use crate::harness::{Gateway, PATIENCE, eventually};
use client::full::SocketIo;
use serde_json::{Value, json};
use servers::{NodePeer, Redis, installed};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

const PAGE: &str = include_str!("../../../../../docs/feed.md");
const CHAT: &str = "[cluster.feed.\"chat:messages\"]\npublish = [\"chat-message\"]\ntake = [\"chat-message\"]\nroom = \"global\"\nbare = true\n";
const NEWS: &str = "[cluster.feed.news]\npublish = [\"said\"]\ntake = [\"said\"]\nper_second_max = 50\nbytes_max = \"2KiB\"\n";

/// A node whose namespace has the chat events.
fn chat(redis: &Redis, more: &str) -> Gateway {
    let config = closed(redis, more);
    Gateway::start(&config.replace("profile = \"socket.io\"", "profile = \"chat\""))
}

/// A program, and the lines that it prints.
struct Program {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Program {
    fn start(mut command: Command) -> Program {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let out = BufReader::new(child.stdout.take().expect("piped"));
        let heard = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                heard.lock().expect("lines").push(line);
            }
        });
        Program { child, lines }
    }

    fn count(&self, wanted: &str) -> usize {
        let lines = self.lines.lock().expect("lines");
        lines.iter().filter(|line| *line == wanted).count()
    }

    fn prints(&self, wanted: &str) {
        let printed = eventually(PATIENCE, || self.count(wanted) > 0);
        assert!(printed, "{wanted:?} is not in {:?}", self.lines.lock());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program as the page has it, from its first line to the last before the end of the block.
fn program(language: &str) -> String {
    let (_, rest) = PAGE
        .split_once(&format!("```{language}\n"))
        .expect("a program");
    rest.split_once("```").expect("its end").0.to_owned()
}

/// A subscriber that is no library: what it prints is what Redis sends.
fn subscriber(redis: &Redis, channel: &str) -> Program {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/bin/redis-cli");
    let cli = if tools.exists() {
        tools
    } else {
        "redis-cli".into()
    };
    let mut command = Command::new(cli);
    command.args(["-p", &redis.port().to_string(), "SUBSCRIBE", channel]);
    let program = Program::start(command);
    program.prints("subscribe");
    program
}

fn said(client: &mut SocketIo, content: &str) {
    let acked = client.ask("chat-message", &[json!({"content": content})]);
    assert!(acked[0]["id"].is_string(), "{acked:?}");
}

/// Contents of the next so many messages of the chat.
fn contents(client: &mut SocketIo, count: usize) -> Vec<String> {
    let next = |_| {
        let event = client.next_named("chat-message");
        event.args[0]["content"]
            .as_str()
            .expect("a text")
            .to_owned()
    };
    (0..count).map(next).collect()
}

fn received(node: &Gateway, result: &str) -> f64 {
    node.metric(&format!(
        "sockeye_feed_received_total{{result=\"{result}\"}}"
    ))
}

fn subscribed(redis: &Redis, channel: &str, count: usize) {
    let answer = || redis.ask(&["PUBSUB", "NUMSUB", channel]);
    let number = || answer().lines().last().and_then(|line| line.parse().ok());
    assert!(
        eventually(PATIENCE, || number() == Some(count)),
        "{}",
        answer()
    );
}

/// The programs of the page, a client on each of two nodes: everybody hears everybody once.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn programs_in_node_and_python_chat_with_clients() {
    let redis = Redis::start();
    let nodes = [chat(&redis, CHAT), chat(&redis, CHAT)];
    all_up(&nodes);
    subscribed(&redis, "chat:messages", 2);
    // Their packages are those of the servers beside ours.
    drop(NodePeer::start(&redis.url(), "none", "/"));
    let folder = installed("cluster");
    let mut clients =
        [&nodes[0], &nodes[1]].map(|node| SocketIo::websocket(node.addr, "/", json!({})));
    let script = tempfile::Builder::new().suffix(".mjs").tempfile_in(&folder);
    let script = script.expect("a file beside its packages");
    std::fs::write(&script, program("js")).expect("write it");
    let mut command = Command::new("node");
    command.arg(script.path()).arg(redis.url());
    let node = Program::start(command);
    node.prints("node: hello from Node");
    let mut command = Command::new(folder.join(".venv/bin/python"));
    command.args(["-c", &program("python"), &redis.url()]);
    let python = Program::start(command);
    python.prints("python: hello from Python");
    for client in &mut clients {
        assert_eq!(
            contents(client, 2),
            ["hello from Node", "hello from Python"]
        );
    }
    said(&mut clients[0], "hello from Rust");
    said(&mut clients[1], "and from another node");
    for program in [&node, &python] {
        let lines = || program.lines.lock().expect("lines").clone();
        let both = eventually(PATIENCE, || {
            lines().iter().filter(|line| line.contains("from")).count() >= 3
                && lines()
                    .iter()
                    .any(|line| line.ends_with(": hello from Rust"))
                && lines()
                    .iter()
                    .any(|line| line.ends_with(": and from another node"))
        });
        assert!(both, "{:?}", lines());
    }
    // What came back from Redis was told to nobody a second time: the fence is the next that each hears.
    redis.publish(
        "PUBLISH",
        "chat:messages",
        br#"{"sender":"x","content":"fence"}"#,
    );
    let mut heard = clients.map(|mut client| {
        let mut heard = Vec::new();
        while heard.last().is_none_or(|last| last != "fence") {
            heard.extend(contents(&mut client, 1));
        }
        heard.sort();
        heard
    });
    heard.sort();
    assert_eq!(
        heard[0],
        ["and from another node", "fence", "hello from Rust"]
    );
    assert_eq!(heard[1], heard[0]);
    for node in &nodes {
        assert!(eventually(PATIENCE, || received(node, "own") == 2.0));
        assert!(eventually(PATIENCE, || received(node, "told") == 3.0));
    }
}

/// What clients and the server API say is one message on the channel, whoever is where.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn an_event_is_published_once_and_in_order() {
    let redis = Redis::start();
    let nodes = [0, 1].map(|_| Gateway::start(&closed(&redis, NEWS)));
    all_up(&nodes);
    subscribed(&redis, "news", 2);
    let heard = subscriber(&redis, "news");
    let mut speaker = super::member(&nodes[0], "den");
    let mut member = super::member(&nodes[1], "den");
    let events: Vec<(&str, Vec<Value>)> = (0..200)
        .map(|n| ("said", vec![json!(n), json!({"a": [n]})]))
        .collect();
    speaker.emit_all(&events);
    for n in 0..200 {
        assert_eq!(member.expect("said")[0], n);
    }
    let messages = || -> Vec<Value> {
        let lines = heard.lines.lock().expect("lines");
        let parsed = lines
            .iter()
            .filter_map(|line| serde_json::from_str(line).ok());
        parsed.filter(Value::is_object).collect()
    };
    assert!(eventually(PATIENCE, || messages().len() >= 200));
    let fence = json!({"event": "said", "args": ["fence"], "rooms": ["den"]}).to_string();
    assert_eq!(redis.publish("PUBLISH", "news", fence.as_bytes()), 3);
    assert_eq!(
        member.expect("said"),
        [json!("fence")],
        "nothing came twice"
    );
    assert!(eventually(PATIENCE, || messages().len() > 200));
    let messages = messages();
    let number = super::number(&nodes[0]);
    for (n, message) in messages[..200].iter().enumerate() {
        let expected = json!({
            "namespace": "/", "event": "said", "rooms": ["den"], "users": [], "all": false, "args": [n, {"a": [n]}],
            "sockeye": {"cluster": "sockeye:", "node": number},
        });
        assert_eq!(*message, expected);
    }
    assert_eq!(
        messages.len(),
        201,
        "the fence was published by us, and by nobody else"
    );
    assert!(eventually(PATIENCE, || received(&nodes[1], "own") == 200.0));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn messages_that_nobody_understands_are_counted_and_told_once() {
    let redis = Redis::start();
    let node = Gateway::start(&closed(&redis, NEWS));
    subscribed(&redis, "news", 1);
    let mut member = super::member(&node, "den");
    let huge = format!(
        "{{\"event\":\"said\",\"args\":[\"{}\"]}}",
        "x".repeat(1 << 20)
    );
    let deep = "[".repeat(2_000);
    let malformed: [&[u8]; 6] = [
        b"no json",
        b"\xff\xfe",
        b"{}",
        b"7",
        deep.as_bytes(),
        // The whole namespace is meant by `all` alone.
        b"{\"event\":\"said\",\"rooms\":[]}",
    ];
    for body in malformed {
        assert_eq!(redis.publish("PUBLISH", "news", body), 1);
    }
    redis.publish("PUBLISH", "news", huge.as_bytes());
    redis.publish("PUBLISH", "news", br#"{"event":"secret","args":[1]}"#);
    redis.publish(
        "PUBLISH",
        "news",
        br#"{"event":"said","args":[1],"rooms":["other"]}"#,
    );
    redis.publish(
        "PUBLISH",
        "news",
        br#"{"event":"said","args":["end"],"all":true}"#,
    );
    assert_eq!(member.expect("said"), [json!("end")]);
    assert_eq!(received(&node, "malformed"), 6.0);
    assert_eq!(
        (received(&node, "large"), received(&node, "unchosen")),
        (1.0, 1.0)
    );
    let log = node.log();
    let told = log
        .iter()
        .filter(|line| line.contains("a message of a program outside was skipped"));
    assert_eq!(told.count(), 1);
}

/// A program that says too much is heard as much as it may be.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_flood_of_a_program_is_bounded() {
    let redis = Redis::start();
    let node = Gateway::start(&closed(&redis, NEWS));
    subscribed(&redis, "news", 1);
    let _member = super::member(&node, "den");
    let script = "for n = 1, 5000 do redis.call('PUBLISH', 'news', '{\"event\":\"said\",\"all\":true,\"args\":[' .. n .. ']}') end";
    redis.ask(&["EVAL", script, "0"]);
    let counted = || received(&node, "told") + received(&node, "rate") + received(&node, "missed");
    assert!(
        eventually(PATIENCE, || counted() == 5_000.0),
        "{}",
        counted()
    );
    // Fifty a second, for as long as it took.
    assert!(received(&node, "told") >= 50.0 && received(&node, "rate") > 1_000.0);
}

/// Redis is away: clients do not notice, what they say meanwhile is counted, and the channel is heard again afterwards.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn clients_do_not_wait_for_a_channel_that_is_away() {
    let mut redis = Redis::start();
    let node = Gateway::start(&closed(&redis, NEWS));
    subscribed(&redis, "news", 1);
    let (mut speaker, mut member) = (super::member(&node, "den"), super::member(&node, "den"));
    redis.kill();
    speaker.emit("said", &[json!("alone")]);
    assert_eq!(member.expect("said"), [json!("alone")]);
    let failed = "sockeye_feed_published_total{result=\"failed\"}";
    assert_eq!(node.reaches(failed, 1.0), 1.0);
    redis.restart();
    subscribed(&redis, "news", 1);
    redis.publish(
        "PUBLISH",
        "news",
        br#"{"event":"said","args":["back"],"all":true}"#,
    );
    assert_eq!(member.expect("said"), [json!("back")]);
}

#[test]
fn channels_that_cannot_work_are_refused_at_the_start() {
    for (table, told) in [
        ("[cluster.feed.a]", "nothing uses the channel"),
        (
            "[cluster.feed.\"sockeye:x\"]\ntake = [\"e\"]",
            "one of the nodes'",
        ),
        (
            "[cluster.feed.a]\ntake = [\"connect\"]",
            "\"connect\" is no event of a program",
        ),
        (
            "[cluster.feed.a]\ntake = [\"a\", \"b\"]\nbare = true",
            "a bare message does not say which",
        ),
    ] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let cluster = "[cluster]\nadapter = \"redis\"\nurls = [\"redis://127.0.0.1:1\"]\n";
        std::fs::write(&file, format!("{cluster}{table}\n")).expect("write");
        let mut command = Command::new(super::BINARY);
        command
            .args(["config", "check", "--config"])
            .arg(file.path());
        let output = command.output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && text.contains(told),
            "{table}: {text}"
        );
    }
}
