//! Attacks and broken input against the real binary: what is sent, what must come back, and that
//! everybody else is served as before. Row ids such as "attack F12" number the cases.

mod compression;
mod crowds;
mod engineio;
mod frames;
mod http;
mod identity;
mod memory;
mod names;
mod page;
mod slow;
mod socketio;

use crate::harness::{Gateway, RawConn, SocketIo, eventually};
use fastrand::Rng;
use serde_json::json;
use std::net::SocketAddr;
use std::ops::Deref;
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

/// Bytes of the largest message there is by default.
const LARGEST: u64 = 1_000_000;

/// A gateway that ordinary clients have used before. When its test is over it must be as it was then: nobody connected, no
/// descriptor more, and its memory back. Clients of the test are dropped before, being declared later.
struct Attacked {
    gateway: Gateway,
    memory: u64,
    descriptors: usize,
}

/// With the settings that most attacks need.
fn gateway() -> Attacked {
    Attacked::start(SETTINGS)
}

impl Attacked {
    fn start(settings: &str) -> Attacked {
        let gateway = Gateway::start(settings);
        Attacked {
            memory: warmed(&gateway),
            descriptors: gateway.descriptors(),
            gateway,
        }
    }
}

impl Deref for Attacked {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}

impl Drop for Attacked {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let open = self.metric_settles("sockeye_connections", |open| open == 0.0);
        assert!(open.is_ok(), "{open:?} connections left");
        let freed = || self.gateway.descriptors() <= self.descriptors;
        assert!(
            eventually(SOON, freed),
            "{} descriptors, {} before",
            self.gateway.descriptors(),
            self.descriptors
        );
        // What comes on top is what an allocator keeps for the next few messages of the largest size.
        let limit = self.memory * 11 / 10 + 4 * LARGEST;
        let returned = eventually(SOON, || self.gateway.memory() <= limit);
        let after = self.gateway.memory();
        println!(
            "resident memory: {} bytes before, {after} after",
            self.memory
        );
        assert!(returned, "{after} bytes, {} before", self.memory);
    }
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
    let largest = SocketIo::open(gateway.addr).open["maxPayload"].as_u64();
    let largest = largest.expect("a limit") as usize - 1_000;
    for (payload, clients) in [(100, 100), (1_000, 100), (60_000, 100), (largest, 16)] {
        let clients: Vec<_> = (0..clients)
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
        RawConn::websocket(addr, crate::harness::client::PLAIN),
    ]
}

/// The same for the same seed.
fn noise(random: &mut Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}
