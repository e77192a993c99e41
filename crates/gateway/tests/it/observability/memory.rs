//! `/debug/memory` of the real process.

use crate::backend::worker::Worker;
use crate::backend::{KEY, Kitchen};
use crate::harness::{Gateway, PATIENCE, RawConn, SocketIo, eventually};
use serde_json::{Value, json};
use std::net::SocketAddr;

fn get(gateway: &Gateway, path: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let response = RawConn::exchange(gateway.admin, request);
    (response.status, response.body)
}

fn memory(gateway: &Gateway) -> Value {
    let (status, body) = get(gateway, "/debug/memory");
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).expect("JSON")
}

#[test]
fn each_part_grows_with_what_is_in_it() {
    let gateway = Gateway::start("profile = \"socket.io\"\n[server]\nshards = 2\npin = false\n");
    let before = memory(&gateway);
    let mut clients: Vec<_> = (0..200).map(|_| SocketIo::connect(gateway.addr)).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        client.ask(1, &json!(["join", format!("room-{n}")]));
    }
    let after = memory(&gateway);
    assert_eq!(after["connections"], 200, "{after:#}");
    assert_eq!(after["shards_without_answer"], 0, "{after:#}");
    assert_eq!(after["shards"].as_array().map(Vec::len), Some(2));
    let part = |memory: &Value, name: &str| {
        memory["total"][name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name} in {memory:#}"))
    };
    for name in [
        "connections",
        "sessions",
        "sockets",
        "rooms",
        "timers",
        "streams",
    ] {
        assert!(
            part(&after, name) > part(&before, name),
            "{name}: {before:#} {after:#}"
        );
    }
    let counted = after["counted_bytes"].as_u64().expect("a sum");
    let resident = after["resident_bytes"].as_u64().expect("resident memory");
    assert!(counted > 100_000 && counted < resident, "{after:#}");
    let committed = after["allocator"]["committed_bytes"].as_u64();
    assert!(committed > Some(counted), "{after:#}");
    // Shards add up to the total.
    let rooms = after["shards"].as_array().expect("shards").iter();
    let rooms: u64 = rooms
        .filter_map(|shard| shard["parts"]["rooms"].as_u64())
        .sum();
    assert_eq!(rooms, part(&after, "rooms"));
}

/// A namespace for each kind of load: `/` has a worker, `/hall` has recovery and history.
const LOADED: &str = "park_timeout = \"10m\"\nanswer_timeout = \"10m\"\n\
    [limits]\noutbox_bytes_max = \"16MiB\"\n\
    [namespaces.\"/hall\"]\nclient_joins = true\n\
    [namespaces.\"/hall\".recovery]\nlevel = \"node\"\n\
    [namespaces.\"/hall\".events.say]\naction = \"rooms\"\nroom_field = \"room\"\nhistory = true\n";
/// A message is just below a size that the allocator has.
const TEXT: usize = 14_000;

fn member(addr: SocketAddr, room: &str) -> SocketIo {
    let mut client = SocketIo::open(addr);
    client.join_namespace("/hall", "{}");
    enter(&mut client, room);
    client
}

fn enter(client: &mut SocketIo, room: &str) {
    client.send(&format!("42/hall,1{}", json!(["join", room])));
    client.packet_starting("43/hall,1");
}

/// Says so much to each of these rooms, and waits until all is said.
fn fill(speaker: &mut SocketIo, rooms: impl Iterator<Item = String>, times: usize) {
    let text = "x".repeat(TEXT);
    for room in rooms {
        enter(speaker, &room);
        for _ in 0..times {
            let said = json!(["say", { "room": room, "text": text }]);
            speaker.send(&format!("42/hall,{said}"));
        }
    }
    enter(speaker, "end");
}

/// Slow readers, sockets without a connection and what was said meanwhile, history, events for a worker that is away.
#[test]
fn the_page_adds_up_under_load() {
    let kitchen = Kitchen::open(LOADED);
    let (gateway, addr) = (&kitchen.gateway, kitchen.gateway.addr);
    let worker = Worker::attach(kitchen.workers, &KEY.0, "a");
    let mut talkers: Vec<_> = (0..20).map(|_| SocketIo::connect(addr)).collect();
    let mut speaker = member(addr, "end");
    let slow: Vec<_> = (0..6).map(|n| member(addr, &format!("slow{n}"))).collect();
    slow.iter()
        .for_each(|client| client.conn.shrink_receive_buffer(4_096));
    let parked: Vec<_> = (0..500)
        .map(|n| member(addr, &format!("parked{n}")))
        .collect();
    let before = memory(gateway);
    worker.die();
    drop(parked);
    let is_parked = |sockets: f64| sockets == 500.0;
    let sockets = gateway.metric_settles("sockeye_parked_sockets", is_parked);
    assert!(sockets.is_ok(), "{sockets:?}");
    fill(&mut speaker, (0..6).map(|n| format!("slow{n}")), 600);
    fill(&mut speaker, (0..200).map(|n| format!("parked{n}")), 4);
    let text = "x".repeat(TEXT);
    for talker in &mut talkers {
        (0..60).for_each(|_| talker.emit(&json!(["order", text])));
    }
    // What came first has been freed by then, and goes back to the system a little later.
    let waits = (20 * 60 * TEXT) as u64;
    let mut last = Value::Null;
    let adds_up = eventually(PATIENCE, || {
        last = memory(gateway);
        let [counted, resident] = ["counted_bytes", "resident_bytes"].map(|name| {
            let [before, after] = [&before, &last].map(|memory| memory[name].as_f64());
            after.expect("bytes") - before.expect("bytes")
        });
        let all_wait = last["total"]["backends"].as_u64() > Some(waits);
        all_wait && (0.85..1.1).contains(&(counted / resident))
    });
    assert!(adds_up, "{before:#} {last:#}");
    for (part, least) in [
        ("outboxes", 16),
        ("recovery", 30),
        ("history", 10),
        ("backends", 16),
    ] {
        let bytes = last["total"][part].as_u64();
        assert!(bytes > Some(least << 20), "{part}: {last:#}");
    }
    drop(slow);
}

/// Attack A17: what is for operators is on their listener, under its exact name, and nowhere else.
#[test]
fn the_public_listener_has_nothing_for_operators() {
    let gateway = Gateway::start("profile = \"chat\"\n");
    assert!(get(&gateway, "/debug/").1.contains("/debug/memory"));
    for path in [
        "/metrics",
        "/metrics/..;/",
        "/..;/metrics",
        "/debug/",
        "/debug/memory",
        "/socket.io/../metrics",
        "/%6detrics",
        "//metrics",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = RawConn::exchange(gateway.addr, request);
        assert!((400..500).contains(&answer.status), "{path}: {answer:?}");
        assert!(!answer.body.contains("sockeye_") && !answer.body.contains("counted_bytes"));
    }
    for path in [
        "/metrics/..;/",
        "/debug/../metrics",
        "//metrics",
        "/%6detrics",
        "/debug",
        "/debug/memory/",
    ] {
        let (status, body) = get(&gateway, path);
        assert_eq!(status, 404, "{path}: {body}");
    }
}
