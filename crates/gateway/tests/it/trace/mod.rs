//! Live traces: operators see what passes, with the decision about it, and nothing that is not theirs to see.

mod command;
mod listening;
mod nodes;
mod reader;

use crate::backend::receiver::{Receiver, Reply, Told};
use crate::harness::token::{SECRET, token};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::{Encoding, Plain, SocketIo, request};
use reader::Reader;
use serde_json::{Value, json};
use std::sync::LazyLock;
use std::time::Duration;

const BINARY: &str = env!("CARGO_BIN_EXE_sockeye");

fn key(name: &str, allowed: &[&str]) -> (String, String) {
    let allowed: Vec<String> = allowed.iter().map(|word| (*word).to_owned()).collect();
    identity::keys::generate(name, &allowed).expect("a key")
}

static OPS: LazyLock<(String, String)> = LazyLock::new(|| key("ops", &[]));
static DESK: LazyLock<(String, String)> = LazyLock::new(|| key("desk", &["trace"]));
static LAB: LazyLock<(String, String)> = LazyLock::new(|| key("lab", &["trace", "/lab"]));
static EARS: LazyLock<(String, String)> =
    LazyLock::new(|| key("ears", &["trace:payload", "members"]));
static VIEWER: LazyLock<(String, String)> = LazyLock::new(|| key("viewer", &["read"]));

fn config(more: &str) -> String {
    let keys = [&OPS.1, &DESK.1, &LAB.1, &EARS.1, &VIEWER.1];
    format!(
        "profile = \"socket.io\"\n[server]\nshards = 2\n[admin]\napi_keys = {keys:?}\n[auth]\nsecret = \"{SECRET}\"\nrequired = false\n\
         [namespaces.\"/\"]\nclient_joins = true\n[namespaces.\"/\".events.checked]\nschema = '{{\"type\":\"string\"}}'\n\
         [namespaces.\"/\".events.slow]\nrate = \"1/1h\"\n[namespaces.\"/\".events.nowhere]\naction = \"drop\"\n\
         [namespaces.\"/\".events.echo]\naction = \"reply\"\n[namespaces.\"/lab\"]\n{more}\n"
    )
}

/// A socket of a user, in a room.
fn comes(node: &Gateway, user: &str, room: &str) -> SocketIo {
    let mut client = SocketIo::websocket(node.addr, "/", json!({"token": token(user)}));
    assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
    client
}

fn ops(node: &Gateway, query: &str) -> Reader {
    Reader::begun(node.admin, &OPS.0, query)
}

fn audit(node: &Gateway) -> Value {
    let headers = format!("Authorization: Bearer {}\r\n", OPS.0);
    let answer = request(node.admin, "GET", "/v1/node/audit", &headers, "");
    let answer: Value = serde_json::from_str(&answer.body).expect("JSON");
    answer["actions"].clone()
}

/// Members of a line, in this order.
fn seen<const N: usize>(line: &Value, members: [&str; N]) -> [Value; N] {
    members.map(|member| line[member].clone())
}

#[test]
fn what_becomes_of_the_events_of_a_user_is_told_line_by_line() {
    let node = Gateway::start(&config(""));
    let mut bob = comes(&node, "bob", "den");
    let mut trace = ops(&node, "user=ada");
    let mut ada = comes(&node, "ada", "den");
    let line = trace.line();
    let wanted = ["connect", "joined", "ada", "websocket", "/"].map(Value::from);
    let members = ["what", "decision", "user", "transport", "namespace"];
    assert_eq!(seen(&line, members), wanted);
    assert_eq!(line["socket"], ada.id.as_str());
    let line = trace.line();
    let wanted = ["in", "event", "join", "handled"].map(Value::from);
    assert_eq!(
        seen(&line, ["direction", "what", "event", "decision"]),
        wanted
    );
    assert_eq!(line["rule"], "/ default: built in");
    let line = trace.line();
    let wanted = ["out", "answer", "join", "answered"].map(Value::from);
    assert_eq!(
        seen(&line, ["direction", "what", "event", "decision"]),
        wanted
    );
    assert!(line["after_ms"].as_u64().is_some(), "{line}");

    // Sent on to a room, on this shard or the other one.
    ada.emit("chat", &[json!("geheim"), json!({"a": 1}), json!(7)]);
    assert_eq!(bob.expect("chat")[0], "geheim");
    let line = trace.line();
    assert_eq!(line["args"], "string(6), object(7), number");
    assert_eq!(seen(&line, ["bytes", "rooms"]), [json!(18), json!(["den"])]);
    assert_eq!(line["decision"], "relayed");
    assert_eq!(
        line["sockets"].as_u64().unwrap() + line["shards"].as_u64().unwrap(),
        1
    );

    // Refused by its schema, for its rate, by a rule, and because no rule knows it.
    let refused = ada.ask("checked", &[json!(7)]);
    assert!(refused[0]["error"].is_string(), "{refused:?}");
    let line = trace.until("refusal", |line| line["event"] == "checked");
    assert_eq!(
        seen(&line, ["decision", "code"]),
        ["refused", "INVALID_PAYLOAD"]
    );
    assert!(
        line["why"]
            .as_str()
            .unwrap()
            .starts_with("Invalid payload: "),
        "{line}"
    );
    assert_eq!(line["rule"], "/ events.checked: rooms");
    for wanted in ["relayed", "refused"] {
        ada.emit("slow", &[]);
        let fits = |line: &Value| line["event"] == "slow" && line["direction"] == "in";
        assert_eq!(trace.until("slow", fits)["decision"], wanted);
    }
    ada.emit("nowhere", &[]);
    let line = trace.until("nowhere", |line| line["event"] == "nowhere");
    assert_eq!(
        seen(&line, ["decision", "why"]),
        ["dropped", "its rule says so"]
    );
    assert_eq!(ada.ask("echo", &[json!(1)]), [json!(1)]);
    let line = trace.until("echo", |line| line["event"] == "echo");
    assert_eq!(
        seen(&line, ["decision", "rule"]),
        ["handled", "/ events.echo: reply"]
    );

    // Others' events as she gets them, and none that she does not get.
    bob.emit("chat", &[json!("x")]);
    assert_eq!(ada.next_named("chat").args, [json!("x")]);
    let line = trace.until("event", |line| line["event"] == "chat");
    assert_eq!(seen(&line, ["direction", "decision"]), ["out", "delivered"]);
    assert_eq!(line["socket"], ada.id.as_str());
    bob.leave_session();
    ada.leave_session();
    let line = trace.until("end", |line| line["what"] == "end");
    assert_eq!(
        seen(&line, ["user", "decision", "why"]),
        ["ada", "ended", "transport_close"]
    );
    assert!(
        !trace.heard.concat().contains("geheim"),
        "payload is redacted"
    );
}

#[test]
fn a_trace_of_a_room_an_event_or_a_session_has_no_other_lines() {
    let node = Gateway::start(&config(""));
    let (mut ada, mut bob) = (comes(&node, "ada", "den"), comes(&node, "bob", "hall"));
    let mut carol = comes(&node, "carol", "den");
    let mut room = ops(&node, "room=den");
    let mut event = ops(&node, "event=chat");
    let mut session = ops(&node, &format!("session={}", ada.id));
    let mut by_sid = ops(&node, &format!("session={}", ada.sid));
    let mut elsewhere = ops(&node, "room=den&namespace=/lab");
    bob.emit("chat", &[json!("to the hall")]);
    ada.emit("news", &[json!("to the den")]);
    assert_eq!(carol.expect("news"), [json!("to the den")]);
    let line = room.until("news", |line| line["direction"] == "in");
    assert_eq!(
        seen(&line, ["event", "user", "decision"]),
        ["news", "ada", "relayed"]
    );
    let line = event.line();
    assert_eq!(
        seen(&line, ["event", "user", "decision"]),
        ["chat", "bob", "relayed"]
    );
    for session in [&mut session, &mut by_sid] {
        let line = session.line();
        assert_eq!(seen(&line, ["event", "socket"]), ["news", ada.id.as_str()]);
        // The whole id of a session lets its bearer speak for it.
        assert!(!session.heard.concat().contains(&ada.sid));
    }
    // Somebody comes into the room, and goes.
    assert_eq!(bob.ask("join", &[json!("den")]), [json!(["den"])]);
    let line = room.until("join", |line| line["event"] == "join");
    assert_eq!(seen(&line, ["user", "decision"]), ["bob", "handled"]);
    for trace in [&mut room, &mut event] {
        assert!(!trace.heard.concat().contains("\"event\":\"hall\""));
        assert!(trace.heard.iter().all(|line| !line.contains("carol")));
    }
    assert!(elsewhere.is_silent(Duration::from_millis(300)));
}

/// Events to a member of a room, left out by `except` (its sender), were once taken for delivered.
#[test]
fn a_sender_that_is_left_out_gets_no_line_of_its_own_event() {
    let node = Gateway::start(&config("").replace("shards = 2", "shards = 1"));
    let (mut ada, mut bob) = (comes(&node, "ada", "den"), comes(&node, "bob", "den"));
    let mut trace = ops(&node, "user=ada");
    ada.emit("chat", &[json!(1)]);
    assert_eq!(bob.expect("chat"), [json!(1)]);
    let line = trace.line();
    assert_eq!(
        seen(&line, ["direction", "sockets"]),
        [json!("in"), json!(1)]
    );
    bob.emit("chat", &[json!(2)]);
    let wanted = ["out", "delivered", "bob"];
    assert_eq!(seen(&trace.line(), ["direction", "decision", "by"]), wanted);
    assert!(
        trace.is_silent(Duration::from_millis(300)),
        "{:?}",
        trace.heard
    );
}

fn kitchen(told: &Told) -> Reply {
    let events = told.events();
    match events[0]["event"].as_str() {
        Some("order") => {
            std::thread::sleep(Duration::from_millis(60));
            Reply::json(&json!({"commands": [{"ack": {"args": ["soup"]}}]}))
        }
        _ => Reply::empty(),
    }
}

#[test]
fn an_event_for_a_backend_is_followed_to_its_answer() {
    let receiver = Receiver::open(kitchen);
    let more = format!(
        "backend = \"kitchen\"\n[backends.kitchen]\nurl = \"http://{}/\"\nprivate_addresses = true",
        receiver.addr
    );
    let node = Gateway::start(&config(&more));
    let mut client = SocketIo::websocket(node.addr, "/lab", json!({}));
    let mut trace = ops(&node, "event=order&namespace=/lab");
    assert_eq!(client.ask("order", &[json!("menu")]), [json!("soup")]);
    let line = trace.line();
    assert_eq!(seen(&line, ["decision", "event"]), ["backend", "order"]);
    let line = trace.line();
    assert_eq!(
        seen(&line, ["what", "decision", "event"]),
        ["answer", "answered", "order"]
    );
    assert!(line["after_ms"].as_u64() >= Some(50), "{line}");
    assert_eq!(line["args"], "string(4)");
}

#[test]
fn payload_is_shown_for_a_reason_that_the_audit_keeps_and_never_a_token() {
    let node = Gateway::start(&config(""));
    let mut ada = comes(&node, "ada", "den");
    let refused = Reader::open(node.admin, &DESK.0, "user=ada&payload=true&reason=x");
    assert_eq!(refused.status, 403);
    let refused = Reader::open(node.admin, &OPS.0, "user=ada&payload=true");
    assert_eq!(refused.status, 400);
    let mut trace = ops(&node, "user=ada&payload=true&reason=case%207&seconds=600");
    ada.emit("chat", &[json!("plain text"), json!({"a": [1]})]);
    let line = trace.line();
    assert_eq!(line["args"], r#""plain text",{"a":[1]}"#);
    let long = "x".repeat(100_000);
    ada.emit("chat", &[json!(long)]);
    let line = trace.line();
    assert_eq!(line["bytes"], 100_002);
    assert_eq!(line["args"].as_str().map(str::len), Some(4_096));
    let fresh = token("ada");
    ada.emit("token-refresh", &[json!({"token": fresh})]);
    let line = trace.until("refresh", |line| line["event"] == "token-refresh");
    assert!(
        line["args"].as_str().unwrap().starts_with("object("),
        "{line}"
    );
    assert!(!trace.heard.concat().contains(&fresh));
    let action = &audit(&node)[0];
    let of = "user ada with payload, because: case 7";
    assert_eq!(
        seen(action, ["key", "what", "of", "outcome"]),
        ["ops", "trace", of, "ordered"]
    );
    drop(trace);
    assert!(eventually(PATIENCE, || audit(&node)[0]["outcome"] == "done"));
}

#[test]
fn the_name_by_which_a_client_comes_back_is_never_shown() {
    let more = "[namespaces.\"/back\"]\nclient_joins = true\nrecovery.level = \"node\"";
    let node = Gateway::start(&config(more));
    let mut trace = ops(&node, "event=n&namespace=/back&payload=true&reason=x");
    let socket =
        ::client::full::WebSocket::connect(node.addr, "/socket.io/?EIO=4&transport=websocket", "");
    let mut socket = socket;
    socket.text("40/back,");
    let mut frames = Vec::new();
    let mut connected = || loop {
        if let ::client::full::Frame::Text(text) = socket.frame() {
            frames.push(text.clone());
            if text.starts_with("40/back,") {
                return text;
            }
        }
    };
    let answer = connected();
    let answer: Value = serde_json::from_str(&answer["40/back,".len()..]).expect("JSON");
    let pid = answer["pid"].as_str().expect("a pid").to_owned();
    let mut all = ops(
        &node,
        &format!(
            "session={}&payload=true&reason=x",
            answer["sid"].as_str().unwrap()
        ),
    );
    let headers = format!("Authorization: Bearer {}\r\n", OPS.0);
    let body =
        json!({"namespace": "/back", "event": "n", "all": true, "args": ["seen"]}).to_string();
    let emitted = request(node.admin, "POST", "/v1/emit", &headers, &body);
    assert_eq!(emitted.status, 202, "{}", emitted.body);
    let offset = loop {
        if let ::client::full::Frame::Text(text) = socket.frame()
            && let Some(event) = text.strip_prefix("42/back,")
        {
            let event: Value = serde_json::from_str(event).expect("JSON");
            break event[2].as_str().expect("an offset").to_owned();
        }
    };
    for trace in [&mut trace, &mut all] {
        assert_eq!(trace.line()["args"], "\"seen\"");
        let heard = trace.heard.concat();
        assert!(!heard.contains(&pid) && !heard.contains(&offset), "{heard}");
    }
}

#[test]
fn a_key_sees_its_namespaces_and_a_query_that_cannot_be_used_is_refused() {
    let node = Gateway::start(&config(""));
    let lab = |query: &str| Reader::open(node.admin, &LAB.0, query).status;
    for query in [
        "user=ada",
        "room=den",
        "event=chat&namespace=/",
        "session=AAAAAAAAAAAAAAAAAAAA",
    ] {
        assert_eq!(lab(query), 400, "{query}");
    }
    assert_eq!(lab("user=ada&namespace=/lab"), 200);
    assert_eq!(Reader::open(node.admin, &VIEWER.0, "user=ada").status, 403);
    assert_eq!(Reader::open(node.admin, "wrong", "user=ada").status, 401);
    for query in [
        "",
        "user=a&room=b",
        "user=a&seconds=601",
        "user=a&lines=0",
        "usr=a",
    ] {
        assert_eq!(
            Reader::open(node.admin, &OPS.0, query).status,
            400,
            "{query}"
        );
    }
    // A trace that sees one namespace gets no line of a session's other ones.
    let mut trace = Reader::begun(node.admin, &LAB.0, "user=ada&namespace=/lab");
    let mut ada = comes(&node, "ada", "den");
    ada.emit("chat", &[json!(1)]);
    let mut there = SocketIo::websocket(node.addr, "/lab", json!({"token": token("ada")}));
    there.emit("chat", &[json!(2)]);
    let lines = [trace.line(), trace.line()];
    assert_eq!(
        lines.map(|line| line["namespace"].clone()),
        ["/lab", "/lab"]
    );
    let open = config("").replace("api_keys", "conns_max = 32 #");
    let node = Gateway::start(&open);
    assert_eq!(Reader::open(node.admin, "any", "user=ada").status, 403);
}

#[test]
fn a_trace_ends_with_its_time_its_key_its_reader_and_its_node() {
    let node = Gateway::start(&config(""));
    let traces = || node.metric("sockeye_traces_live");
    assert_eq!(ops(&node, "user=ada&seconds=1").end(), "its time is over");
    assert!(eventually(PATIENCE, || traces() == 0.0));
    // The ninth finds no place, until one of the others hangs up.
    let mut eight: Vec<Reader> = (0..8).map(|_| ops(&node, "event=n")).collect();
    assert_eq!(traces(), 8.0);
    assert_eq!(Reader::open(node.admin, &OPS.0, "event=n").status, 503);
    eight.pop();
    assert!(eventually(PATIENCE, || traces() == 7.0));
    let revoked = Reader::begun(node.admin, &DESK.0, "user=ada");
    let (key, other) = (&DESK.1, &VIEWER.1);
    node.reload(&config("").replace(&format!("{key:?}, "), ""));
    assert_eq!(
        revoked.end(),
        "the key or the login of its caller has ended"
    );
    assert_ne!(key, other);
    drop(eight);
    assert!(eventually(PATIENCE, || traces() == 0.0));
    let last = ops(&node, "user=ada");
    let headers = format!("Authorization: Bearer {}\r\n", OPS.0);
    let drained = request(node.admin, "POST", "/v1/nodes/0/drain", &headers, "");
    assert_eq!(drained.status, 202);
    let why = last.end();
    assert!(why.starts_with("this node is drained"), "{why}");
}

#[test]
fn a_reader_that_stands_still_costs_bounded_memory_and_is_told_what_it_missed() {
    let node = Gateway::start(&config(""));
    let (mut ada, mut bob) = (comes(&node, "ada", "den"), comes(&node, "bob", "den"));
    let mut still = ops(&node, "event=n&lines=1000&payload=true&reason=x");
    let mut slow = ops(&node, "event=n&lines=3");
    let before = node.own_memory();
    let text = "x".repeat(4_000);
    for n in 0..6_000 {
        ada.emit("n", &[json!(n), json!(text)]);
        assert_eq!(bob.expect("n")[0], n);
    }
    let grown = node.own_memory().saturating_sub(before);
    assert!(grown < 24 << 20, "{grown} bytes");
    let line = slow.until("dropped", |line| line["kind"] == "dropped");
    assert!(line["lines"].as_u64() > Some(0), "{line}");
    let line = still.until("dropped", |line| line["kind"] == "dropped");
    assert!(line["lines"].as_u64() > Some(0), "{line}");
}

#[test]
fn clients_of_the_plain_protocol_are_followed_too() {
    let node = Gateway::start(&config(""));
    let mut trace = ops(&node, "room=den");
    let mut plain = Plain::connect(node.addr, Encoding::Json);
    plain.join("den");
    let mut ada = comes(&node, "ada", "den");
    plain.emit("chat", &[json!("x")]);
    assert_eq!(ada.expect("chat"), [json!("x")]);
    let line = trace.until("chat", |line| line["event"] == "chat");
    assert_eq!(seen(&line, ["direction", "decision"]), ["in", "relayed"]);
    ada.emit("chat", &[json!("y")]);
    let fits = |line: &Value| line["event"] == "chat" && line["user"] == "ada";
    assert_eq!(trace.until("chat", fits)["decision"], "relayed");
}

#[test]
fn each_line_is_as_the_document_says() {
    let node = Gateway::start(&config(""));
    let document = request(node.admin, "GET", "/v1/openapi.json", "", "");
    let document: Value = serde_json::from_str(&document.body).expect("JSON");
    let answer = &document["paths"]["/v1/trace"]["get"]["responses"]["200"]["content"];
    let mut schema = answer["application/x-ndjson"]["schema"].clone();
    schema["components"] = document["components"].clone();
    let schema = jsonschema::draft202012::new(&schema).expect("a schema");
    let mut trace = ops(&node, "user=ada");
    let mut ada = comes(&node, "ada", "den");
    ada.emit("chat", &[json!("x")]);
    ada.ask("checked", &[json!(7)]);
    ada.emit("nowhere", &[]);
    ada.leave_session();
    loop {
        let line = trace.line();
        let fits = schema.validate(&line);
        fits.unwrap_or_else(|error| panic!("{error}: {line}"));
        if line["what"] == "end" {
            break;
        }
    }
}
