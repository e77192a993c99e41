//! Memory follows what arrived, not what was announced, and comes back afterwards. Each test has a
//! gateway of its own and runs its attack twice: what the second run adds would be a leak.

use super::{SOON, assert_serves};
use crate::harness::client::{SOCKETIO, poll_request};
use crate::harness::raw::{masked, upgrade_request};
use crate::harness::{Ended, Gateway, Plain, Poller, RawConn, SocketIo, eventually};
use client::OpCode;
use serde_json::json;
use std::time::Duration;

pub(super) const MIB: u64 = 1 << 20;

/// Bytes by which the gateway may grow while an attack is under way.
pub(super) struct Growth(pub(super) u64);

/// Runs an attack twice. It returns what keeps it going; memory is looked at before that is dropped.
pub(super) fn assert_bounded<T>(gateway: &Gateway, growth: Growth, attack: impl Fn(&Gateway) -> T) {
    let calm = super::warmed(gateway);
    let descriptors = gateway.descriptors();
    let mut after = 0;
    for round in 0..2 {
        let under_way = attack(gateway);
        let grown = gateway.memory().saturating_sub(calm);
        assert!(
            grown <= growth.0,
            "round {round}: {grown} bytes more, allowed {}",
            growth.0
        );
        drop(under_way);
        let open = gateway.metric_settles("sockeye_connections", |open| open == 0.0);
        assert!(open.is_ok(), "{open:?} connections left");
        assert_serves(gateway.addr);
        if round == 0 {
            after = gateway.memory();
        }
    }
    let freed = || gateway.descriptors() <= descriptors;
    assert!(
        eventually(SOON, freed),
        "{} descriptors, {descriptors} before",
        gateway.descriptors()
    );
    // What the allocator keeps for the next time is no leak.
    let limit = after.max(calm) * 11 / 10;
    let returned = || gateway.memory() <= limit;
    assert!(
        eventually(SOON, returned),
        "{} bytes, {limit} at most",
        gateway.memory()
    );
}

fn start() -> Gateway {
    // Long enough for all connections of an attack to be there at once.
    let settings = super::SETTINGS.replace("message_timeout = \"1s\"", "message_timeout = \"5s\"");
    Gateway::start(&settings)
}

/// Nobody comes after a crowd that left, so nobody takes its timers off their queues before they are due.
#[test]
fn timers_of_a_crowd_that_left_stayed_for_a_ping_interval() {
    const CROWD: usize = 400;
    let gateway = Gateway::start("profile = \"socket.io\"\n[server]\nshards = 1\n");
    for _ in 0..25 {
        let crowd: Vec<_> = (0..CROWD)
            .map(|_| SocketIo::connect(gateway.addr))
            .collect();
        drop(crowd);
    }
    let left = gateway.metric_settles("sockeye_connections", |open| open == 0.0);
    assert!(left.is_ok(), "{left:?} connections");
    // 10,000 pings to come would be 160 KiB. Each of the few queues keeps a chunk or two of 8 KiB.
    let timers = gateway.memory_part("timers");
    assert!(timers <= 64 << 10, "{timers} bytes of timers");
}

/// Attack F12: almost a whole message is declared, a kilobyte of it comes.
#[test]
fn declared_lengths_take_no_memory() {
    let gateway = start();
    assert_bounded(&gateway, Growth(8 * MIB), |gateway| {
        let clients: Vec<_> = (0..200)
            .map(|_| {
                let mut client = SocketIo::connect(gateway.addr);
                let frame = masked(true, OpCode::Text, vec![b'a'; 999_999]);
                client.conn.send(&frame[..1_000]);
                client
            })
            .collect();
        std::thread::sleep(Duration::from_millis(200));
        clients
    });
}

/// Attack F12: those connections do not stay.
#[test]
fn declared_lengths_are_waited_for_one_message_timeout() {
    let gateway = Gateway::start(super::SETTINGS);
    let mut clients: Vec<_> = (0..200).map(|_| Plain::connect(gateway.addr)).collect();
    for client in &mut clients {
        client
            .conn
            .send(&masked(true, OpCode::Text, vec![b'a'; 65_535])[..100]);
    }
    let closed = || gateway.closes("message_timeout") == 200.0;
    assert!(
        eventually(SOON, closed),
        "{} closed",
        gateway.closes("message_timeout")
    );
    assert_serves(gateway.addr);
}

/// Attacks F22 and F23: fragments cost their bytes and not an object each.
#[test]
fn tiny_fragments_take_little_memory() {
    let gateway = start();
    let mut fragments = masked(false, OpCode::Text, b"a");
    for _ in 0..10_000 {
        fragments.extend(masked(false, OpCode::Continuation, b"a"));
    }
    assert_bounded(&gateway, Growth(8 * MIB), |gateway| {
        let clients: Vec<_> = (0..100)
            .map(|_| {
                let mut client = Plain::connect(gateway.addr);
                client.conn.send(&fragments);
                client.conn.send_frame(true, OpCode::Ping, "");
                assert_eq!(client.conn.frame().opcode, OpCode::Pong);
                client
            })
            .collect();
        clients
    });
}

/// Attack E37: attachments announced on 200 connections, half of them sent.
#[test]
fn half_sent_attachments_take_what_was_sent() {
    let gateway = start();
    let places: Vec<_> = (0..10)
        .map(|num| json!({"_placeholder": true, "num": num}))
        .collect();
    let packet = format!("4510-[\"x\",{}]", json!(places));
    let sent = 200 * 5 * 10_000;
    assert_bounded(&gateway, Growth(2 * sent + 8 * MIB), |gateway| {
        let clients: Vec<_> = (0..200)
            .map(|_| {
                let mut client = SocketIo::connect(gateway.addr);
                client.send(&packet);
                (0..5).for_each(|_| client.conn.send_binary([1; 10_000]));
                client
            })
            .collect();
        std::thread::sleep(Duration::from_millis(200));
        clients
    });
}

/// Attacks H09, H10, H11: at most 16 KiB of a head that never ends.
#[test]
fn endless_heads_take_little_memory() {
    let gateway = start();
    let header = format!("GET /ws HTTP/1.1\r\nHost: a\r\nX: {}", "a".repeat(1 << 20));
    assert_bounded(&gateway, Growth(100 * 64 * 1_024), |gateway| {
        let conns: Vec<_> = (0..100)
            .map(|_| {
                let mut conn = RawConn::connect(gateway.addr);
                conn.try_send(&header);
                conn
            })
            .collect();
        conns
    });
}

/// Attack E26: a thousand sessions that nobody polls.
#[test]
fn abandoned_polling_sessions_are_small_and_go() {
    let gateway = Gateway::start(
        "[server]\nshards = 2\npin = false\n[socketio]\nping_interval = \"2s\"\nping_timeout = \"2s\"\n\
         [namespaces.\"/\".events.echo]\naction = \"reply\"\n",
    );
    let before = super::warmed(&gateway);
    let request = poll_request("").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
    for _ in 0..1_000 {
        assert_eq!(RawConn::exchange(gateway.addr, &request).status, 200);
    }
    let grown = gateway.memory().saturating_sub(before);
    println!("{grown} bytes for 1,000 sessions");
    assert!(grown < 1_000 * 2_000, "{grown} bytes for 1,000 sessions");
    let gone = || gateway.metric("sockeye_sessions") == 0.0;
    assert!(
        eventually(SOON, gone),
        "{}",
        gateway.metric("sockeye_sessions")
    );
    assert_serves(gateway.addr);
}

/// Attack E26: sessions that live without connections have a bound of their own.
#[test]
fn polling_sessions_are_bounded_in_number() {
    let settings = super::SETTINGS
        .replace("shards = 2", "shards = 1")
        .replace("[limits]", "[limits]\nconns_max = 20");
    let gateway = Gateway::start(&settings);
    let pollers: Vec<_> = (0..20).map(|_| Poller::open(gateway.addr)).collect();
    // All in one segment, as somebody would who means harm.
    let mut conn = RawConn::connect(gateway.addr);
    conn.send(poll_request("").repeat(100));
    assert_eq!(conn.response().status, 503);
    assert_ne!(conn.ended(SOON), Ended::Open);
    assert_eq!(gateway.reaches("sockeye_sessions", 20.0), 20.0);
    assert_eq!(pollers[0].post("1").status, 200);
    assert!(
        gateway
            .metric_settles("sockeye_sessions", |sessions| sessions == 19.0)
            .is_ok()
    );
    Poller::open(gateway.addr);
}

/// Attack A26: what a handshake carried is not kept. Two thousand large ones cost what two thousand small ones do.
#[test]
fn large_handshakes_leave_no_copies() {
    let gateway = start();
    let target = format!("{SOCKETIO}&other={}", "q".repeat(6_000));
    let large = upgrade_request(&target, &format!("Cookie: a={}\r\n", "c".repeat(8_000)));
    let small = upgrade_request(SOCKETIO, "");
    let grown = |request: &[u8]| {
        let before = gateway.memory();
        let conns: Vec<_> = (0..2_000)
            .map(|_| {
                let mut conn = RawConn::connect(gateway.addr);
                conn.send(request);
                assert_eq!(conn.response().status, 101);
                conn
            })
            .collect();
        (gateway.memory().saturating_sub(before), conns)
    };
    let (_tables, few) = grown(&large);
    let (by_small, more) = grown(&small);
    let (by_large, most) = grown(&large);
    println!("2,000 handshakes: {by_small} bytes for small ones, {by_large} for large ones");
    assert!(by_large < by_small + 2_000 * 1_000, "{by_small} {by_large}");
    drop((few, more, most));
    assert_serves(gateway.addr);
}

/// Answers asked for in bursts by a client that does not read, however many rooms it is in: its queue overflows and it goes,
/// before the answers of one burst have filled the memory.
#[test]
fn answers_that_nobody_reads_are_bounded() {
    let gateway = start();
    let before = super::warmed(&gateway);
    let mut greedy = SocketIo::connect(gateway.addr);
    for n in 0..999 {
        greedy.emit(&json!(["join", format!("{n}{}", "r".repeat(250))]));
    }
    greedy.ask(1, &json!(["echo"]));
    greedy.conn.shrink_receive_buffer(4_096);
    let leave = format!("421[\"leave\",\"{}\"]", "x".repeat(200));
    let burst = masked(true, OpCode::Text, leave.as_bytes()).repeat(50_000);
    assert_flood_bounded(&gateway, before, Growth(48 * MIB), greedy, &burst);
}

/// A join brings the room's history, but not to somebody who joins again and again: that client stays, and costs nothing.
#[test]
fn repeated_joins_of_a_room_with_history_are_bounded() {
    let gateway = start();
    let before = super::warmed(&gateway);
    let mut greedy = SocketIo::connect(gateway.addr);
    greedy.join_namespace("/chat", "");
    for n in 0..200 {
        let content = "h".repeat(1_000);
        greedy.send(&format!(
            "42/chat,{n}[\"chat-message\",{{\"content\":\"{content}\"}}]"
        ));
        greedy.packet_starting(&format!("43/chat,{n}["));
    }
    // Its kernel has room for the history once: with a full buffer it would also drop the acknowledgements of what it sends.
    let burst = masked(true, OpCode::Text, b"42/chat,[\"join\",\"global\"]").repeat(50_000);
    let flood = std::thread::spawn(move || {
        greedy.conn.try_send(&burst);
        greedy
    });
    let taken = || gateway.metrics()["websocket_messages_total"] >= 50_200.0;
    assert!(eventually(SOON, taken), "{:#?}", gateway.metrics());
    let grown = gateway.peak_memory().saturating_sub(before);
    assert!(grown < 32 * MIB, "{grown} bytes");
    drop(flood.join().expect("the flood"));
    assert_serves(gateway.addr);
}

/// Sends the burst without reading; the gateway must end it while staying small.
fn assert_flood_bounded(
    gateway: &Gateway,
    before: u64,
    growth: Growth,
    mut greedy: SocketIo,
    burst: &[u8],
) {
    let burst = burst.to_vec();
    let flood = std::thread::spawn(move || {
        greedy.conn.try_send(&burst);
        greedy
    });
    let ended = eventually(SOON, || gateway.closes("slow_consumer") == 1.0);
    let grown = gateway.peak_memory().saturating_sub(before);
    assert!(grown < growth.0, "{grown} bytes");
    assert!(
        ended,
        "the greedy client is still there: {:#?}",
        gateway.metrics()
    );
    drop(flood.join().expect("the flood"));
    assert_serves(gateway.addr);
}
