//! Attacks and broken input against the real binary: what is sent, what must come back, and that
//! everybody else is served as before. Row ids such as "attack F12" number the cases.

#[path = "../harness/mod.rs"]
mod harness;

mod compression;
mod engineio;
mod frames;
mod http;
mod memory;
mod names;
mod slow;
mod socketio;

use harness::{Gateway, RawConn, Shared, SocketIo};
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Short deadlines, so that the tests see them pass.
const SETTINGS: &str = r#"
profile = "socket.io"

[server]
shards = 2
pin = false

[socketio]
connect_timeout = "60s"

[limits]
handshake_timeout = "1s"
message_timeout = "1s"
close_timeout = "1s"

[namespaces."/".events.echo]
action = "reply"

[namespaces."/chat"]
chat = true
client_joins = true
"#;

/// Deadlines of a second pass within this, on a busy machine too.
const SOON: Duration = Duration::from_secs(4);

static GATEWAY: Shared = Shared::new();

/// The gateway that most attacks share; an attack must not be felt by the others.
fn gateway() -> Arc<Gateway> {
    GATEWAY.get(SETTINGS)
}

/// A new well-behaved client gets in and is answered within two seconds.
fn assert_serves(addr: SocketAddr) {
    let started = Instant::now();
    let mut client = SocketIo::connect(addr);
    assert_eq!(
        client.ask(7, &json!(["echo", "still here"])),
        json!(["still here"])
    );
    let took = started.elapsed();
    assert!(
        took < Duration::from_secs(2),
        "a newcomer had to wait {took:?}"
    );
}

/// Ordinary clients come, talk and go: what the gateway keeps from then on is its working memory.
/// Returns how much that is.
fn warmed(gateway: &Gateway) -> u64 {
    for payload in [100, 1_000, 60_000] {
        let clients: Vec<_> = (0..100)
            .map(|_| {
                let mut client = SocketIo::connect(gateway.addr);
                client.ask(7, &json!(["echo", "w".repeat(payload)]));
                client
            })
            .collect();
        drop(clients);
    }
    let left = gateway.metric_settles("sockeye_connections", |open| open == 0.0);
    assert!(left.is_ok(), "{left:?} connections left");
    gateway.memory()
}

/// A WebSocket of each protocol, past its greeting.
fn websockets(addr: SocketAddr) -> [RawConn; 2] {
    [
        SocketIo::connect(addr).conn,
        RawConn::websocket(addr, harness::client::PLAIN),
    ]
}

/// Numbers that look random and are the same on every run (xorshift).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next().to_le_bytes()[3]).collect()
    }
}
