//! `/debug/memory` of the real process.

use crate::harness::{Gateway, RawConn, SocketIo};
use serde_json::{Value, json};

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
