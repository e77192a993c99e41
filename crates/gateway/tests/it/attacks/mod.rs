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

use crate::harness::{Alone, Gateway, PATIENCE, RawConn, SocketIo, eventually};
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

[namespaces."/chat".events.chat-message]
rate = "10000/s"
"#;

/// What is due is waited for so long, on a machine that is busy with other tests.
const SOON: Duration = PATIENCE;

/// Deadlines of a second pass within this, where a test is alone.
const IN_TIME: Duration = Duration::from_secs(4);

/// Bytes of the largest message there is by default.
const LARGEST: u64 = 1_000_000;

/// A gateway that must be as it was before when its test is over: nobody connected and no descriptor more. Clients of the test
/// are dropped before, being declared later.
struct Attacked {
    gateway: Gateway,
    descriptors: usize,
    /// What it held when ordinary clients had used it; it must come back to that, where a test looks at memory.
    memory: Option<u64>,
}

/// With the settings that most attacks need.
fn gateway() -> Attacked {
    Attacked::start(SETTINGS)
}

impl Attacked {
    fn start(settings: &str) -> Attacked {
        let gateway = Gateway::start(settings);
        // What it opens for its first client, it keeps.
        drop(SocketIo::open(gateway.addr));
        let open = gateway.metric_settles("sockeye_connections", |open| open == 0.0);
        assert!(open.is_ok(), "{open:?} connections left");
        Attacked {
            descriptors: gateway.descriptors(),
            memory: None,
            gateway,
        }
    }

    /// With its memory looked at in the end.
    fn weighed(settings: &str) -> Attacked {
        let gateway = Gateway::start(settings);
        Attacked {
            memory: Some(warmed(&gateway)),
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
        let Some(before) = self.memory else { return };
        // What comes on top is what an allocator keeps for the next few messages of the largest size.
        let limit = before * 11 / 10 + 4 * LARGEST;
        let returned = eventually(SOON, || self.gateway.memory() <= limit);
        let after = self.gateway.memory();
        println!("resident memory: {before} bytes before, {after} after");
        assert!(returned, "{after} bytes, {before} before");
    }
}

/// A new well-behaved client gets in and is answered; where a test is alone, within two seconds.
fn assert_serves(addr: SocketAddr) {
    let started = Instant::now();
    let mut client = SocketIo::connect(addr);
    assert_eq!(
        client.ask(7, &json!(["echo", "still here"])),
        json!(["still here"])
    );
    let took = started.elapsed();
    assert!(
        took < Duration::from_secs(2) || !Alone::is_held(),
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
