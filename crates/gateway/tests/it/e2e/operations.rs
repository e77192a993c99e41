//! What operators see: health, readiness, the log, metrics, faults of handlers, starts that cannot succeed.

use super::application::Application;
use super::client::{Encoding, PATIENCE, Plain, SocketIo, request};
use super::crowd::{lab, parts};
use crate::harness::{Gateway, eventually};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;

const CONFIG: &str = "profile = \"socket.io\"\n[server]\nshards = 4\n";

#[test]
fn health_and_readiness_are_told_on_both_listeners() {
    let gateway = Gateway::start(CONFIG);
    for addr in [gateway.addr, gateway.admin] {
        for (path, status) in [("/health", "healthy"), ("/ready", "ready")] {
            let answer = request(addr, "GET", path, "", "");
            assert_eq!(answer.status, 200, "{answer:?}");
            assert!(
                answer
                    .head
                    .to_ascii_lowercase()
                    .contains("content-type: application/json"),
                "{answer:?}"
            );
            let body: Value = serde_json::from_str(&answer.body).expect("JSON");
            assert_eq!(body["status"], status);
            assert!(
                body["timestamp"]
                    .as_u64()
                    .is_some_and(|ms| ms > 1_700_000_000_000),
                "{body}"
            );
            assert_eq!(body.as_object().map(serde_json::Map::len), Some(2));
        }
    }
}

/// The line about a socket with this message.
fn line(gateway: &Gateway, id: &str, message: &str) -> Value {
    let mut found = None;
    let wanted = |line: &String| -> Option<Value> {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        (line["id"] == id && line["message"] == message).then_some(line)
    };
    eventually(PATIENCE, || {
        found = gateway.log().iter().find_map(wanted);
        found.is_some()
    });
    found.unwrap_or_else(|| panic!("no line {message:?} about {id}"))
}

#[test]
fn the_log_is_json_and_names_who_came_and_why_they_left() {
    let gateway = Gateway::start(CONFIG);
    let mut left = SocketIo::websocket(gateway.addr, "/", json!({}));
    let dropped = SocketIo::websocket(gateway.addr, "/", json!({}));
    let mut polled = SocketIo::polling(gateway.addr, "/", json!({}));
    for (client, transport) in [
        (&left, "websocket"),
        (&dropped, "websocket"),
        (&polled, "polling"),
    ] {
        let line = line(&gateway, &client.id, "connected");
        assert_eq!(
            (&line["peer"], &line["transport"]),
            (&json!("127.0.0.1"), &json!(transport)),
            "{line}"
        );
        assert!(
            line["timestamp"].is_string() && line["level"] == "INFO",
            "{line}"
        );
    }
    left.leave_namespace();
    let dropped_id = dropped.id.clone();
    drop(dropped);
    polled.leave_session();
    for (id, reason) in [
        (&left.id, "client_namespace_disconnect"),
        (&dropped_id, "transport_close"),
        (&polled.id, "transport_close"),
    ] {
        let line = line(&gateway, id, "disconnected");
        assert_eq!(
            (&line["peer"], &line["reason"]),
            (&json!("127.0.0.1"), &json!(reason)),
            "{line}"
        );
    }
}

#[test]
fn metrics_have_their_names_and_count_what_happened() {
    let gateway = Gateway::start(CONFIG);
    let mut ann = SocketIo::websocket(gateway.addr, "/", json!({}));
    let mut ben = SocketIo::polling(gateway.addr, "/", json!({}));
    let mut cleo = Plain::connect(gateway.addr, Encoding::Json);
    ann.ask("join", &["r".into()]);
    ben.ask("join", &["r".into()]);
    cleo.join("r");
    for n in 0..10 {
        ann.emit("n", &[n.into()]);
        assert_eq!(ben.expect("n"), [n]);
        assert_eq!(cleo.next().args, [n]);
    }
    cleo.send(&json!({ "no": "type" }));
    assert_eq!(cleo.receive()["error"], "INVALID_MESSAGE_FORMAT");
    // A frame that is not masked: a protocol error.
    let mut bad = crate::harness::RawConn::websocket(gateway.addr, "/ws");
    bad.send(b"\x81\x01x");
    assert_eq!(bad.close_code(PATIENCE), 1002);
    drop(bad);

    let open = "Accept: application/openmetrics-text;version=1.0.0\r\n";
    let text = request(gateway.admin, "GET", "/metrics", open, "").body;
    for (name, kind) in [
        ("websocket_connections_total", "gauge"),
        ("websocket_messages", "counter"),
        ("websocket_message_duration_ms", "histogram"),
        ("websocket_errors", "counter"),
        ("websocket_connection_rate", "gauge"),
        ("redis_publish_lag_ms", "histogram"),
        ("message_queue_depth", "gauge"),
        ("process_resident_memory_bytes", "gauge"),
        ("process_cpu_seconds", "counter"),
        ("process_open_fds", "gauge"),
    ] {
        assert!(
            text.contains(&format!("# TYPE {name} {kind}\n")),
            "{name} {kind} in\n{text}"
        );
    }
    assert!(text.ends_with("# EOF\n"));

    let settled = gateway.metric_settles("websocket_connections_total", |open| open == 2.0);
    assert_eq!(
        settled,
        Ok(2.0),
        "ann and cleo; ben polls, the bad one is gone"
    );
    let metrics = gateway.metrics();
    let value = |name: &str| {
        *metrics
            .get(name)
            .unwrap_or_else(|| panic!("no {name} in\n{text}"))
    };
    // Two CONNECT packets, three joins, ten events, one invalid message.
    assert_eq!(value("websocket_messages_total"), 16.0);
    assert_eq!(value("sockeye_deliveries_total"), 20.0);
    for (protocol, deliveries) in [("websocket", 0.0), ("polling", 10.0), ("plain_json", 10.0)] {
        let name = format!("sockeye_protocol_deliveries_total{{protocol=\"{protocol}\"}}");
        assert_eq!(value(&name), deliveries, "{name}");
    }
    assert_eq!(
        value("websocket_errors_total{type=\"protocol_error\"}"),
        1.0
    );
    assert_eq!(value("websocket_errors_total{type=\"slow_consumer\"}"), 0.0);
    let invalid = "websocket_errors_total{type=\"invalid_message_format\"}";
    assert_eq!(
        value(invalid),
        1.0,
        "they stayed 0 for messages that were answered and not closed for"
    );
    assert_eq!(value("sockeye_sessions"), 3.0);
    assert_eq!(value("sockeye_sockets"), 3.0);
    assert_eq!(value("message_queue_depth"), 0.0);
    let buckets: Vec<f64> = ["0.1", "5", "15", "50", "100", "500", "+Inf"]
        .iter()
        .map(|bound| {
            value(&format!(
                "websocket_message_duration_ms_bucket{{le=\"{bound}\"}}"
            ))
        })
        .collect();
    assert!(
        buckets.is_sorted() && buckets[6] == value("websocket_message_duration_ms_count"),
        "{buckets:?}"
    );
    assert!(buckets[6] >= 14.0, "{buckets:?}");
    let memory = value("process_resident_memory_bytes");
    assert!((1e6..1e9).contains(&memory), "{memory}");
    // Sampled once a second.
    let mut rate = 0.0;
    eventually(PATIENCE, || {
        drop(Plain::connect(gateway.addr, Encoding::Json));
        rate = gateway.metric("websocket_connection_rate");
        rate > 0.0
    });
    assert!(rate > 0.0 && rate < 1_000.0, "{rate}");
}

#[test]
fn a_failing_handler_ends_the_session_that_triggered_it_and_no_other() {
    let application = Application::start();
    // Two on each shard: one of each pair fails.
    let mut clients = lab(application.addr, 2, |_| json!({}));
    for n in 0..4 {
        clients[n].emit("panic", &[]);
        let (events, code, _) = clients[n].until_closed();
        assert_eq!((events.len(), code), (0, Some(1011)));
        assert_eq!(
            parts(&clients[n].id).1,
            parts(&clients[n + 4].id).1,
            "they share a shard"
        );
    }
    let mut others = clients.split_off(4);
    others[0].emit("all", &["alive".into()]);
    for client in &mut others {
        assert!(client.expect("alive").is_empty());
        assert_eq!(client.ask("echo", &[1.into()]), [1]);
    }
    // Also one that polls, and whoever comes next.
    let mut polling = SocketIo::polling(application.addr, "/lab", json!({}));
    polling.emit("panic", &[]);
    let (_, _, how) = polling.until_closed();
    assert!(how == "close packet" || how.starts_with("400 "), "{how}");
    let mut next = SocketIo::websocket(application.addr, "/lab", json!({}));
    assert_eq!(next.ask("echo", &[2.into()]), [2]);
}

/// Each reload tells what it changed, also when it takes back what the one before had changed.
#[test]
fn a_reload_is_compared_with_what_runs() {
    let config = |window: &str, shards: u32| {
        format!("[server]\nshards = {shards}\npin = false\ndrain_window = \"{window}\"\n")
    };
    let gateway = Gateway::start(&config("1s", 1));
    let loads = [("3s", 1), ("1s", 2), ("1s", 2)];
    let told = loads.map(|(window, shards)| gateway.reloaded(&config(window, shards)));
    let keys = |applied: &str, later: &str| (applied.to_owned(), later.to_owned());
    assert_eq!(
        told,
        [
            keys("server.drain_window", ""),
            keys("server.drain_window", "server.shards"),
            keys("", "server.shards"),
        ]
    );
}

#[test]
fn flags_go_before_environment_before_file_before_profile() {
    let file = "profile = \"plain\"\n[server]\nshards = 2\nnode = 2\ndrain_window = \"2s\"\n";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sockeye.toml");
    fs::write(&path, file).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_sockeye"));
    command
        .args(["config", "show", "--json", "--shards", "3", "--config"])
        .arg(&path);
    command
        .env("SOCKEYE__SERVER__SHARDS", "4")
        .env("SOCKEYE__SERVER__NODE", "5");
    let output = command.output().expect("run sockeye");
    let text = String::from_utf8_lossy(&output.stdout);
    let shown: Value =
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("no JSON: {output:?}"));
    for (key, value, source) in [
        ("server.shards", json!(3), "--shards"),
        ("server.node", json!(5), "SOCKEYE__SERVER__NODE"),
        ("server.drain_window", json!("2s"), "sockeye.toml"),
        ("socketio.ping_interval", json!("30s"), "plain"),
        ("socketio.ping_timeout", json!("20s"), "default"),
    ] {
        let entry = &shown[key];
        assert_eq!(entry["value"], value, "{key} in {text}");
        assert!(
            entry.to_string().contains(source),
            "{key} from {source}, not {entry}"
        );
    }
}
