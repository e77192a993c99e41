//! Nanoseconds of a message's whole walk through a hub: eight events in one read, each acknowledged, and the flush of the answers.
//! Best of many short rounds, one thread: `cargo run --release -p hub --example walk`. With a number it takes so many turns of
//! the first kind and says nothing: for tools that count instructions.

use hub::config::Config;
use hub::metrics::Cells;
use hub::{
    ConnId, Effect, HandlerFactory, Hub, Identity, Now, Sink, Spent, World, Writes, Written,
};
use rules::{Action, EventRule, NamespaceRules, Rules, RulesFactory};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::websocket::frame::{self, OpCode};

/// Events of one read.
const DEPTH: usize = 8;
const ROUND: Duration = Duration::from_millis(20);
const ROUNDS: usize = 40;

const NOW: Now = Now {
    mono_ms: 1_000,
    wall_ms: 1_750_000_000_000,
};

/// A kernel that takes everything.
struct Taker;

impl Sink for Taker {
    fn write(&mut self, writes: Writes<'_>) {
        writes.one_by_one(|_, slices| Written::Bytes(slices.iter().map(|slice| slice.len()).sum()));
    }
}

impl World for Taker {
    fn carry_out(&mut self, _: Effect) {}
}

fn hub() -> Hub {
    let namespace = NamespaceRules {
        backend: None,
        chat: false,
        client_joins: false,
        auto_join: Vec::new(),
        events: [("echo".to_owned(), EventRule::new(Action::Reply))].into(),
        default_event: EventRule::new(Action::Drop),
    };
    let rules = Rules {
        namespaces: [("/".to_owned(), namespace)].into(),
    };
    let handler = RulesFactory::new(&rules, &|_| Err("no schemas".to_owned()));
    let handler = handler.expect("sound rules").build(0);
    let me = Identity {
        node: 0,
        shard: 0,
        shards: 1,
    };
    let entropy = |bytes: &mut [u8]| bytes.fill(7);
    let cells = Arc::new(Cells::default());
    Hub::new(
        Arc::new(Config::default()),
        me,
        handler,
        cells,
        Box::new(entropy),
    )
}

fn turn(hub: &mut Hub, conn: ConnId, bytes: &mut [u8]) {
    let mut sink = Taker;
    let mut turn = hub.turn(NOW, &mut sink);
    turn.bytes(conn, bytes);
    turn.end(false, |_| Spent { us: 10, mailbox: 0 });
}

fn message(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_masked(
        &mut bytes,
        true,
        OpCode::Text,
        text.as_bytes(),
        [1, 2, 3, 4],
    );
    bytes
}

fn measure(
    name: &str,
    target: &str,
    greeting: &[&str],
    turns: Option<usize>,
    event: impl Fn(usize) -> String,
) {
    let mut hub = hub();
    let conn = hub
        .turn(NOW, &mut Taker)
        .opened([127, 0, 0, 1].into(), |_, _| true);
    let mut head = format!(
        "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    .into_bytes();
    turn(&mut hub, conn, &mut head);
    for text in greeting {
        turn(&mut hub, conn, &mut message(text));
    }
    let read: Vec<u8> = (0..DEPTH).flat_map(|id| message(&event(id))).collect();
    let mut buf = read.clone();
    if let Some(turns) = turns {
        for _ in 0..turns {
            buf.copy_from_slice(&read);
            turn(&mut hub, conn, &mut buf);
        }
        return;
    }
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let (started, mut turns) = (Instant::now(), 0);
        while started.elapsed() < ROUND {
            for _ in 0..64 {
                buf.copy_from_slice(&read);
                turn(&mut hub, conn, &mut buf);
            }
            turns += 64;
        }
        best = best.min(started.elapsed().as_nanos() as f64 / (turns * DEPTH) as f64);
    }
    println!("{name:<40} {best:7.1} ns an event");
}

fn main() {
    let turns = std::env::args().nth(1);
    if let Some(turns) = turns.and_then(|turns| turns.parse().ok()) {
        let target = "/socket.io/?EIO=4&transport=websocket";
        return measure("", target, &["40"], Some(turns), |id| {
            format!("42{id}[\"echo\",{id}]")
        });
    }
    let text = r#"{"text":"Shall we meet at the usual place?","list":[1,2.5,null]}"#;
    let socketio = "/socket.io/?EIO=4&transport=websocket";
    measure("Socket.IO, short", socketio, &["40"], None, |id| {
        format!("42{id}[\"echo\",{id}]")
    });
    measure("Socket.IO, 64 bytes", socketio, &["40"], None, |id| {
        format!("42{id}[\"echo\",{text}]")
    });
    measure("plain, short", "/ws", &[], None, |id| {
        format!("{{\"type\":\"echo\",\"id\":{id},\"payload\":{id}}}")
    });
    measure("plain, 64 bytes", "/ws", &[], None, |id| {
        format!("{{\"type\":\"echo\",\"id\":{id},\"payload\":{text}}}")
    });
}
