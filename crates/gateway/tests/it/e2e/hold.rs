//! Five thousand clients over four shards: everyone gets every broadcast, and each costs little memory.

use super::client::{Event, SocketIo};
use super::crowd::{SHARDS, parts};
use crate::harness::Gateway;
use serde_json::{Value, json};

const CLIENTS: usize = 5_000;
/// The slope is measured from here on, when tables and buffers exist.
const FIRST: usize = 1_000;
const BROADCASTS: u64 = 30;
/// Of resident memory per idle Socket.IO session, in a process that also logs. The measured figures are in
/// docs/performance.md; this bound is against forgetting, not for boasting.
const BYTES_MAX: u64 = 1_024;

const CONFIG: &str = r#"
[server]
shards = 4
[log]
connections = false
# Clients answer no ping before all of them are there.
[socketio]
ping_interval = "300s"
[namespaces."/"]
auto_join = ["everyone"]
[namespaces."/".events.news]
action = "rooms"
echo = true
"#;

fn connect(gateway: &Gateway, count: usize) -> Vec<SocketIo> {
    (0..count)
        .map(|_| SocketIo::websocket(gateway.addr, "/", json!({})))
        .collect()
}

#[test]
fn five_thousand_clients_get_everything() {
    let gateway = Gateway::start_with(CONFIG, &["--profile", "socket.io"]);
    let mut clients = connect(&gateway, FIRST);
    let before = gateway.memory();
    clients.extend(connect(&gateway, CLIENTS - FIRST));
    let slope = gateway.memory().saturating_sub(before) / (CLIENTS - FIRST) as u64;
    println!("resident memory per idle Socket.IO session, {FIRST} to {CLIENTS}: {slope} B");
    assert!(slope < BYTES_MAX, "{slope} bytes per session");
    assert_eq!(
        gateway.reaches("websocket_connections_total", CLIENTS as f64),
        CLIENTS as f64
    );
    let mut counts = [0; SHARDS];
    clients
        .iter()
        .for_each(|client| counts[parts(&client.id).1] += 1);
    let share = CLIENTS / SHARDS;
    assert!(
        counts
            .iter()
            .all(|count| (share / 2..share * 2).contains(count)),
        "{counts:?}"
    );

    let filler = Value::from("x".repeat(128));
    for n in 0..BROADCASTS {
        let sender = n as usize * 97 % CLIENTS;
        clients[sender].emit("news", &[n.into(), filler.clone()]);
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let mut came: Vec<u64> = (0..BROADCASTS).map(|_| sequence(&client.next())).collect();
        came.sort_unstable();
        assert_eq!(came, (0..BROADCASTS).collect::<Vec<_>>(), "client {number}");
    }
    let delivered = (CLIENTS as u64 * BROADCASTS) as f64;
    assert_eq!(
        gateway.metric_settles("sockeye_deliveries_total", |n| n == delivered),
        Ok(delivered)
    );
    assert_eq!(
        gateway.metric("websocket_connections_total"),
        CLIENTS as f64,
        "nobody was lost"
    );
    // Gone at once: nothing stays counted.
    drop(clients);
    for name in [
        "websocket_connections_total",
        "sockeye_sessions",
        "sockeye_sockets",
        "sockeye_rooms",
    ] {
        assert_eq!(
            gateway.metric_settles(name, |n| n == 0.0),
            Ok(0.0),
            "{name}"
        );
    }
}

fn sequence(event: &Event) -> u64 {
    assert_eq!(event.name, "news");
    event.args[0].as_u64().expect("a number")
}
