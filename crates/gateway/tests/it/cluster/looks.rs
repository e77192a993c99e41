//! Operators who look for sessions, rooms, ends and links of all nodes: nodes ask each other by the door for relayed connections, and one that stands
//! still is named.

use super::{all_up, closed, number};
use crate::harness::{Gateway, PATIENCE, eventually};
use ::client::full::{SocketIo, request};
use rustix::process::Signal;
use serde_json::{Value, json};
use servers::Redis;
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

static OPS: LazyLock<(String, String)> =
    LazyLock::new(|| identity::keys::generate("ops", &[]).expect("a key"));
static EMITTER: LazyLock<(String, String)> =
    LazyLock::new(|| identity::keys::generate("emitter", &["emit".to_owned()]).expect("a key"));

fn nodes<const N: usize>(redis: &Redis, more: &str) -> [Gateway; N] {
    let tables = format!(
        "{more}\n[admin]\napi_keys = {:?}\n[namespaces.\"/\"]\nclient_joins = true\n",
        [&OPS.1, &EMITTER.1]
    );
    let nodes = std::array::from_fn(|_| Gateway::start(&closed(redis, &tables)));
    all_up(&nodes);
    nodes
}

fn asked(node: &Gateway, key: &str, path: &str) -> (u16, Value) {
    let headers = format!("Authorization: Bearer {key}\r\n");
    let answer = request(node.admin, "GET", path, &headers, "");
    let body = serde_json::from_str(&answer.body).unwrap_or_default();
    (answer.status, body)
}

fn ask(node: &Gateway, path: &str) -> Value {
    let (status, body) = asked(node, &OPS.0, path);
    assert_eq!(status, 200, "{path}: {body}");
    body
}

fn comes(node: &Gateway, rooms: &[&str]) -> SocketIo {
    let mut client = SocketIo::websocket(node.addr, "/", json!({}));
    for room in rooms {
        assert_eq!(client.ask("join", &[json!(room)]), [json!([room])]);
    }
    client
}

/// Numbers of the nodes of the sessions that were found.
fn at(found: &Value) -> Vec<u64> {
    let sessions = found["sessions"].as_array().expect("sessions").iter();
    let mut at: Vec<u64> = sessions.filter_map(|one| one["node"].as_u64()).collect();
    at.sort_unstable();
    at
}

/// The nodes that did not answer, and the reason of the first.
fn missing(found: &Value) -> (Vec<u64>, String) {
    let nodes = found["nodes"].as_array().expect("nodes").iter();
    let silent: Vec<&Value> = nodes.filter(|node| node["answered"] == false).collect();
    let numbers = silent.iter().filter_map(|node| node["node"].as_u64());
    let why = silent.first().and_then(|node| node["why"].as_str());
    (numbers.collect(), why.unwrap_or_default().to_owned())
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn all_nodes_are_looked_at_from_each_of_them() {
    let redis = Redis::start();
    let [a, b, c] = nodes::<3>(&redis, "");
    let mut numbers = [number(&a), number(&b), number(&c)];
    numbers.sort_unstable();
    let clients = [
        comes(&a, &["den", "<b>"]),
        comes(&b, &["den"]),
        comes(&c, &["den"]),
        comes(&c, &[]),
    ];
    for node in [&a, &b, &c] {
        let found = ask(node, "/v1/nodes/sessions?room=den");
        assert_eq!(at(&found), numbers, "{found}");
        assert_eq!(
            (&found["matched"], &found["complete"]),
            (&json!(3), &json!(true))
        );
        let few = ask(node, "/v1/nodes/sessions?limit=2");
        assert_eq!((at(&few).len(), &few["matched"]), (2, &json!(4)));
    }
    let rooms = ask(&b, "/v1/nodes/rooms?contains=de");
    let room = &rooms["rooms"][0];
    assert_eq!(
        (&room["room"], &room["members"]),
        (&json!("den"), &json!(3))
    );
    assert_eq!(room["nodes"].as_array().map(Vec::len), Some(3));
    // A session of another node, with all that its own node tells of it.
    let path = format!(
        "/v1/nodes/sessions?id={}&node={}",
        clients[3].id,
        number(&c)
    );
    let one = ask(&a, &path);
    assert_eq!((at(&one), &one["matched"]), (vec![number(&c)], &json!(1)));
    assert!(
        one["sessions"][0]["kernel"]["rtt_us"].as_u64() > Some(0),
        "{one}"
    );
    let [first, ..] = clients;
    drop(first);
    let told = eventually(PATIENCE, || {
        let ends = ask(&c, "/v1/nodes/ends?limit=5");
        ends["ends"][0]["node"] == number(&a)
    });
    assert!(told);

    let (status, problem) = asked(&a, &OPS.0, "/v1/nodes/sessions?address=x");
    assert_eq!((status, &problem["field"]), (400, &json!("address")));
    for wrong in ["node=9", "node=x", "limit=201", "node=1&node=2", "usr=ada"] {
        let (status, problem) = asked(&a, &OPS.0, &format!("/v1/nodes/sessions?{wrong}"));
        assert_eq!(status, 400, "{wrong}: {problem}");
    }
    for path in ["sessions", "rooms", "ends", "links"] {
        let path = format!("/v1/nodes/{path}");
        assert_eq!(asked(&a, &EMITTER.0, &path).0, 403, "{path}");
        assert_eq!(asked(&a, "wrong", &path).0, 401, "{path}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command.args(["sessions", "--all-nodes", "--admin", &a.admin.to_string()]);
    let output = command.env("SOCKEYE_API_KEY", &OPS.0).output();
    let said = String::from_utf8(output.expect("it runs").stdout).expect("text");
    assert!(said.starts_with("NODE  SOCKET"), "{said}");
    assert_eq!(said.matches("websocket").count(), 3, "{said}");
}

/// It takes connections and answers nothing: what it has is missing, and the others are shown.
#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn a_node_that_stands_still_is_named_and_holds_up_nobody_for_long() {
    let redis = Redis::start();
    let [a, b, c] = nodes::<3>(&redis, "");
    let _clients = [
        comes(&a, &["den"]),
        comes(&b, &["den"]),
        comes(&c, &["den"]),
    ];
    b.freeze();
    let began = Instant::now();
    let found = ask(&a, "/v1/nodes/sessions?room=den");
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
    let (nodes, why) = missing(&found);
    assert_eq!(nodes, [number(&b)], "{found}");
    assert!(
        why.contains("did not answer") || why.contains("silent"),
        "{why}"
    );
    assert_eq!((&found["complete"], at(&found).len()), (&json!(false), 2));
    // More questions than may be open: each gets an answer.
    let many: Vec<_> = (0..12)
        .map(|_| {
            let admin = a.admin;
            std::thread::spawn(move || {
                let headers = format!("Authorization: Bearer {}\r\n", OPS.0);
                request(admin, "GET", "/v1/nodes/rooms", &headers, "").status
            })
        })
        .collect();
    for answer in many {
        let status = answer.join().expect("an answer");
        assert!([200, 503].contains(&status), "{status}");
    }
    b.signal(Signal::CONT);
    let back = eventually(PATIENCE, || {
        ask(&a, "/v1/nodes/sessions?room=den")["complete"] == true
    });
    assert!(back);
}

/// What a node tells of itself among the links of all.
fn links_of(found: &Value, node: u64) -> &Value {
    let links = found["links"].as_array().expect("links").iter();
    let mut own = links.filter(|one| one["node"] == node);
    own.next().unwrap_or(&Value::Null)
}

/// How a node hears another one.
fn heard(links: &Value, to: u64) -> &Value {
    let others = links["others"].as_array().into_iter().flatten();
    let mut one = others.filter(|other| other["to"] == to);
    one.next().unwrap_or(&Value::Null)
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn nodes_tell_whom_they_hear_and_one_that_stands_still_is_silent() {
    let redis = Redis::start();
    let [a, b, c] = nodes::<3>(&redis, "");
    let mut first = comes(&a, &["den"]);
    let _others = [comes(&b, &["den"]), comes(&c, &["den"])];
    let numbers = [number(&a), number(&b), number(&c)];
    let ask_links = |node: &Gateway| ask(node, "/v1/nodes/links");
    let all = eventually(PATIENCE, || {
        first.emit("news", &[json!("x")]);
        let found = ask_links(&b);
        let is_well = |own: u64| {
            let links = links_of(&found, own);
            let engine = &links["engine"];
            let hears =
                |to: &u64| *to == own || heard(links, *to)["silent_ms"].as_u64() < Some(2_000);
            (&engine["name"], &engine["up"]) == (&json!("Redis"), &json!(true))
                && engine["round_trip_ms"].as_f64() > Some(0.0)
                && links["cores"].as_u64() > Some(0)
                && links["memory_bytes"].as_u64() > Some(0)
                && numbers.iter().all(hears)
        };
        found["complete"] == true && numbers.iter().all(|own| is_well(*own))
    });
    assert!(all, "{}", ask_links(&b));
    let of_b = ask(&a, &format!("/v1/nodes/links?node={}", number(&b)));
    assert_eq!(of_b["links"].as_array().map(Vec::len), Some(1), "{of_b}");
    b.freeze();
    let silent = eventually(PATIENCE, || {
        let found = ask_links(&a);
        let of = links_of(&found, number(&a));
        missing(&found).0 == [number(&b)]
            && heard(of, number(&b))["silent_ms"].as_u64() > Some(1_000)
            && heard(of, number(&c))["silent_ms"].as_u64() < Some(1_000)
    });
    assert!(silent, "{}", ask_links(&a));
    pages_share_an_answer(&a);
    b.signal(Signal::CONT);
    assert!(eventually(PATIENCE, || ask_links(&a)["complete"] == true));
    let (status, problem) = asked(&a, &OPS.0, "/v1/nodes/links?limit=3");
    assert_eq!((status, &problem["field"]), (400, &json!("limit")));
}

/// More pages than there are places for questions, while a node takes its time: nobody is refused, and who looks for something is not either.
fn pages_share_an_answer(node: &Gateway) {
    std::thread::scope(|scope| {
        let links = || ask(node, "/v1/nodes/links")["at_ms"].as_u64();
        let pages: Vec<_> = (0..40).map(|_| scope.spawn(links)).collect();
        assert_eq!(at(&ask(node, "/v1/nodes/sessions?room=den")).len(), 2);
        let mut times: Vec<_> = pages
            .into_iter()
            .map(|page| page.join().expect("an answer"))
            .collect();
        times.sort_unstable();
        times.dedup();
        assert!(times.len() <= 2, "{times:?}");
    });
    let (status, problem) = asked(node, &OPS.0, "/v1/nodes/links?node=60000");
    assert_eq!((status, &problem["field"]), (400, &json!("node")));
}

#[test]
#[ignore = "needs Redis: cargo xtask test foreign"]
fn nodes_without_a_door_for_others_say_so() {
    let redis = Redis::start();
    let [a, b] = nodes::<2>(&redis, "relay_listen = \"off\"\n");
    let _clients = [comes(&a, &[]), comes(&b, &[])];
    let found = ask(&a, "/v1/nodes/sessions");
    let (nodes, why) = missing(&found);
    assert_eq!(nodes, [number(&b)], "{found}");
    assert!(why.contains("cluster.relay_listen"), "{why}");
    assert_eq!(at(&found), [number(&a)]);
}
