//! SIGTERM under load: every client is told and closed with 1001, nobody new comes in, the process ends with 0 in time.

use super::client::{Encoding, PATIENCE, Plain, SocketIo, request};
use crate::harness::client::{Poller, poll_request};
use crate::harness::{Alone, Ended, Gateway, RawConn, eventually};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Over WebSocket.
const CLIENTS: usize = 1_900;
/// Over long-polling, each with a poll that waits.
const POLLING: usize = 100;
const WINDOW: Duration = Duration::from_secs(3);
const NOTICE: &str = "Server is shutting down";

enum Client {
    SocketIo(SocketIo),
    Plain(Plain),
}

impl Client {
    /// Of twenty clients twelve speak Socket.IO, five plain JSON and three MessagePack.
    fn connect(addr: SocketAddr, n: usize) -> Self {
        let client = match n % 20 {
            0..=11 => Self::SocketIo(SocketIo::websocket(addr, "/", json!({}))),
            12..=16 => Self::Plain(Plain::connect(addr, Encoding::Json)),
            _ => Self::Plain(Plain::connect(addr, Encoding::Msgpack)),
        };
        client.joined(n)
    }

    /// Every fourth is in the room where the load is.
    fn joined(mut self, n: usize) -> Self {
        match &mut self {
            _ if !n.is_multiple_of(4) => {}
            Self::SocketIo(client) => drop(client.ask("join", &["load".into()])),
            Self::Plain(client) => drop(client.join("load")),
        }
        self
    }

    /// Reads to the end and closes: how often it was told, and how it was closed.
    fn end(self) -> (usize, Option<u16>, String) {
        match self {
            Self::SocketIo(mut client) => {
                let (events, code, how) = client.until_closed();
                let told = events.iter().filter(|event| {
                    event.name == "SERVER_SHUTDOWN" && event.args.iter().any(is_notice)
                });
                (told.count(), code, how)
            }
            Self::Plain(mut client) => {
                let (messages, code, how) = client.until_closed();
                (
                    messages
                        .iter()
                        .filter(|message| {
                            message["type"] == "SERVER_SHUTDOWN" && is_notice(message)
                        })
                        .count(),
                    code,
                    how,
                )
            }
        }
    }
}

/// It says what happens, and when to come back: not before the last one has left, and not all at once.
fn is_notice(notice: &Value) -> bool {
    let returns_ms = notice["retry_after_ms"].as_u64().unwrap_or(0);
    notice["message"] == NOTICE && (1..=WINDOW.as_millis() as u64 * 2 + 1).contains(&returns_ms)
}

/// Long-polling clients on connections that are kept, as browsers keep them: the notice answers the poll that waits, and
/// the next one, on the same connection, is answered with the end.
fn poll_to_the_end(clients: Vec<(RawConn, String)>) {
    let told = clients.into_iter().enumerate().map(|(n, (mut conn, sid))| {
        let packet = polled(&mut conn);
        let event: Value = serde_json::from_str(&packet[2..]).expect("an event");
        assert_eq!(event[0], "SERVER_SHUTDOWN", "polling client {n}");
        assert!(is_notice(&event[1]), "polling client {n}: {packet}");
        conn.send(poll_request(&sid));
        conn
    });
    let told: Vec<RawConn> = told.collect();
    for (n, mut conn) in told.into_iter().enumerate() {
        // A poll that comes behind the end has a noop before it.
        let end = polled(&mut conn);
        assert!(
            ["1", "6\u{1e}1"].contains(&end.as_str()),
            "polling client {n}: {end:?}"
        );
    }
}

/// The answer to a poll.
fn polled(conn: &mut RawConn) -> String {
    let answer = conn
        .response_within(PATIENCE)
        .expect("an answer to the poll");
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

/// Publishes to the room until it is closed itself; says how much it sent and how it was closed.
fn publish(mut client: SocketIo, started: &AtomicBool) -> (u64, Option<u16>) {
    for n in 0.. {
        if n == 20 {
            started.store(true, Ordering::Release);
        }
        client.ask_later("load", &[n.into(), Value::from("x".repeat(200))]);
        match client.ack_or_end() {
            Ok(_) => std::thread::sleep(Duration::from_millis(2)),
            Err((code, _)) => return (n, code),
        }
    }
    unreachable!("the loop ends with its session")
}

#[test]
fn everyone_is_told_and_closed_in_time() {
    let _alone = Alone::or_with_a_quiet_one();
    let config = "profile = \"socket.io\"\n[server]\nshards = 4\ndrain_window = \"3s\"\ndrain_grace = \"5s\"\n";
    let mut gateway = Gateway::start(config);
    let addr = gateway.addr;
    let clients: Vec<Client> = (0..CLIENTS).map(|n| Client::connect(addr, n)).collect();
    let polling = (0..POLLING).map(|_| {
        let poller = Poller::connect(addr);
        (poller.begin_poll(), poller.sid)
    });
    let polling: Vec<_> = polling.collect();
    let started = Arc::new(AtomicBool::new(false));
    let mut publisher = SocketIo::websocket(addr, "/", json!({}));
    publisher.ask("join", &["load".into()]);
    let publishing = {
        let started = Arc::clone(&started);
        std::thread::spawn(move || publish(publisher, &started))
    };
    assert!(
        eventually(PATIENCE, || started.load(Ordering::Acquire)),
        "no load"
    );

    let asked = Instant::now();
    gateway.terminate();
    let polling = std::thread::spawn(|| poll_to_the_end(polling));
    let readiness = || request(gateway.admin, "GET", "/ready", "", "");
    let unready = eventually(PATIENCE, || readiness().status == 503);
    assert!(unready, "{:?}", readiness());
    assert_eq!(
        request(gateway.admin, "GET", "/health", "", "").status,
        200,
        "draining is not being ill"
    );
    // Not ready is told first: those who came because of the last "ready" are still served.
    assert!(
        eventually(PATIENCE, || is_refused(addr)),
        "new clients are taken"
    );
    assert!((0..10).all(|_| is_refused(addr)), "and none later");
    let last = clients.into_iter().enumerate().map(|(n, client)| {
        let (told, code, how) = client.end();
        assert_eq!(
            told, 1,
            "client {n} was told {told} times; closed {code:?} {how}"
        );
        assert_eq!(
            (code, how.as_str()),
            (Some(1001), "server shutting down"),
            "client {n}"
        );
        asked.elapsed()
    });
    let last = last.max().expect("clients");
    assert!(
        last >= WINDOW * 2 / 3,
        "all at once, after {last:?}, is not paced"
    );
    let status = gateway.exit_status(PATIENCE).expect("the process ends");
    assert_eq!(status.code(), Some(0));
    let took = asked.elapsed();
    assert!(took < WINDOW + Duration::from_secs(5), "{took:?}");
    polling.join().expect("those who poll are told and closed");
    let (sent, code) = publishing.join().expect("the publisher");
    assert_eq!(code, Some(1001), "the publisher too, after {sent} events");
    assert!(
        gateway.logged("\"message\":\"stopped\"", PATIENCE),
        "{:?}",
        gateway.log().last()
    );
}

/// A new client is not taken: not connected, reset, or answered 503.
fn is_refused(addr: SocketAddr) -> bool {
    let Ok(mut conn) = RawConn::try_connect(addr) else {
        return true;
    };
    conn.try_send("GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\n\r\n");
    match conn.response_within(PATIENCE) {
        Ok(answer) => answer.status == 503,
        Err(ended) => ended != Ended::Open,
    }
}

#[test]
fn an_interrupt_ends_an_idle_process_at_once_and_a_second_one_a_busy_one() {
    let mut gateway = Gateway::start("profile = \"socket.io\"\n");
    gateway.signal(rustix::process::Signal::INT);
    let status = gateway
        .exit_status(PATIENCE)
        .expect("nobody is there to wait for");
    assert_eq!(status.code(), Some(0));

    let mut gateway = Gateway::start("profile = \"socket.io\"\nserver.drain_window = \"60s\"\n");
    let clients: Vec<SocketIo> = (0..20)
        .map(|_| SocketIo::websocket(gateway.addr, "/", json!({})))
        .collect();
    gateway.terminate();
    assert!(gateway.logged("\"message\":\"draining\"", PATIENCE));
    assert!(
        gateway.exit_status(Duration::from_millis(500)).is_none(),
        "the window is a minute"
    );
    gateway.terminate();
    let status = gateway.exit_status(PATIENCE).expect("hurried");
    assert_eq!(status.code(), Some(0));
    drop(clients);
}
