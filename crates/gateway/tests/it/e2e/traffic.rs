//! Clients that send too much or come too often, on the real binary with shards that count together.

use super::client::PATIENCE;
use crate::harness::client::SOCKETIO;
use crate::harness::raw::{Ended, upgrade_request};
use crate::harness::{Gateway, Plain, RawConn, SocketIo, eventually};
use serde_json::json;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::process::Command;

/// Shards may be one message behind, then their peers stop reading.
const CLOSE_BEHIND: &str = "profile = \"socket.io\"\nserver.shards = 2\nlimits.mailbox_messages_max = 1\nlimits.deliveries_per_turn = 1\n";
const CROWD: &str =
    "profile = \"socket.io\"\nserver.shards = 2\nlimits.conns_per_address_max = 10\n";

#[test]
fn profile_public_bounds_addresses_and_rates() {
    let gateway = Gateway::start("profile = \"public\"\nserver.shards = 2\n");
    let mut clients: Vec<SocketIo> = (0..10).map(|_| SocketIo::connect(gateway.addr)).collect();
    let mut eleventh = RawConn::websocket(gateway.addr, SOCKETIO);
    assert_eq!(eleventh.close_code(PATIENCE), 1008);
    for n in 0..120 {
        clients[0].send(&format!("42[\"message\",{n}]"));
    }
    let told = clients[0].expect("error");
    assert_eq!(
        told[0]["message"],
        "Rate limit exceeded: 100 messages/60 seconds"
    );
    assert!(gateway.reaches("sockeye_rate_limited_total{scope=\"session\"}", 19.0) >= 19.0);
}

/// Nothing is lost between shards: who sends waits, and the pause is counted.
#[test]
fn a_mailbox_that_is_full_makes_senders_wait() {
    // Enough that the kernel does not give all of them to one shard.
    const MEMBERS: usize = 20;
    const EACH: usize = 40;
    let gateway = Gateway::start(CLOSE_BEHIND);
    let mut members: Vec<SocketIo> = (0..MEMBERS)
        .map(|_| SocketIo::connect(gateway.addr))
        .collect();
    for member in &mut members {
        member.ask(1, &json!(["join", "crowd"]));
    }
    assert_eq!(gateway.hits("mailbox"), 0.0);
    for n in 0..EACH {
        for member in &mut members {
            member.send(&format!("42[\"note\",{n}]"));
        }
    }
    for member in &mut members {
        for _ in 0..(MEMBERS - 1) * EACH {
            member.expect("note");
        }
    }
    assert!(gateway.hits_reach("mailbox", 1.0) >= 1.0);
}

#[test]
fn plain_clients_are_told_when_to_go_on() {
    let config = "profile = \"plain\"\nrates.session = \"5/3600s\"\n";
    let gateway = Gateway::start(config);
    let mut client = Plain::connect(gateway.addr);
    for n in 0..6 {
        client.send(&json!({ "type": "note", "payload": n }));
    }
    let told = client.message();
    assert_eq!(told["error"], "RATE_LIMIT_EXCEEDED");
    // Five at once use up an hour; one of them comes back every twelve minutes.
    let seconds = told["retryAfter"].as_u64().expect("seconds");
    assert!((600..=720).contains(&seconds), "{seconds}");
}

#[test]
fn a_user_and_an_address_are_one_sender_on_all_shards() {
    let config = "profile = \"socket.io\"\nserver.shards = 4\nrates.address = \"30/3600s\"\n\
                  [namespaces.\"/\".events.echo]\naction = \"reply\"\n";
    let gateway = Gateway::start(config);
    // Joining is a message too.
    let mut clients: Vec<SocketIo> = (0..8).map(|_| SocketIo::connect(gateway.addr)).collect();
    let mut answered = 0;
    for _ in 0..5 {
        for client in &mut clients {
            client.send("42[\"echo\"]");
            let packet = client.packet_within(PATIENCE).expect("an answer");
            answered += usize::from(packet == "42[\"echo\"]");
            assert!(
                packet == "42[\"echo\"]" || packet.contains("Rate limit exceeded"),
                "{packet}"
            );
        }
    }
    assert_eq!(answered, 30 - 8);
}

/// Large rates are booked in lots; neither short sessions nor a long flood get more through than there is.
#[test]
fn a_large_rate_holds_for_many_sessions_and_one() {
    let config = "profile = \"socket.io\"\nserver.shards = 2\nrates.address = \"2048/3600s\"\n\
                  limits.flood_rejections_max = 60000\n[namespaces.\"/\".events.echo]\naction = \"reply\"\n";
    let gateway = Gateway::start(config);
    // Of each session one message is to join.
    let mut passed = 0;
    for _ in 0..300 {
        passed += 1 + echoes(&mut SocketIo::connect(gateway.addr), 4);
    }
    assert_eq!(passed, 1_500, "there is plenty");
    let mut long = SocketIo::connect(gateway.addr);
    passed += 1 + echoes(&mut long, 2_000);
    assert!((2_048..2_100).contains(&passed), "{passed}");
    // The stock client waits for an answer to its CONNECT.
    let mut late = SocketIo::open(gateway.addr);
    let told = "{\"message\":\"Rate limit exceeded: 2048 messages/3600 seconds\"}";
    for namespace in ["", "/other,"] {
        late.send(&format!("40{namespace}"));
        assert_eq!(late.packet(), format!("44{namespace}{told}"));
    }
}

/// How many of so many echoes come back.
fn echoes(client: &mut SocketIo, messages: usize) -> usize {
    let mut passed = 0;
    for _ in 0..messages.div_ceil(100) {
        let portion = messages.min(100);
        (0..portion).for_each(|_| client.send("421[\"echo\"]"));
        passed += (0..portion).filter(|_| client.packet() == "431[]").count();
    }
    passed
}

/// One process of the crowd: so many connections that come and go in every way.
#[test]
fn crowd_member() {
    let Ok(task) = std::env::var("SOCKEYE_CROWD") else {
        return crowd_of_one(&Gateway::start(CROWD));
    };
    let (addr, share) = task.split_once(' ').expect("ADDRESS SHARE");
    let share: u32 = share.parse().expect("a number");
    for n in 0..25_000 {
        come_and_go(addr.parse().expect("an address"), share, n);
    }
}

/// Without a crowd around it: each way to come and go, and nothing is left.
fn crowd_of_one(gateway: &Gateway) {
    (0..400).for_each(|n| come_and_go(gateway.addr, 0, n));
    assert_counts_nothing(gateway);
}

/// Attack A14: 100,000 connections from four processes, on two shards, and the counts are exact.
#[test]
fn counts_per_address_are_exact_after_a_hundred_thousand() {
    let gateway = Gateway::start(CROWD);
    let exe = std::env::current_exe().expect("this test");
    let crowd: Vec<_> = (0..4)
        .map(|share| {
            Command::new(&exe)
                .args(["--exact", "e2e::traffic::crowd_member", "--nocapture"])
                .env("SOCKEYE_CROWD", format!("{} {share}", gateway.addr))
                .spawn()
                .expect("a process of the crowd")
        })
        .collect();
    for mut member in crowd {
        assert!(member.wait().expect("it ends").success());
    }
    assert!(gateway.reaches("sockeye_connections_accepted_total", 100_000.0) >= 100_000.0);
    assert_counts_nothing(&gateway);
    // Ten get in from each address, and not one more.
    for last in [1, 2, 3] {
        let from = Ipv4Addr::new(127, 0, 0, last);
        let held: Vec<TcpStream> = (0..11).map(|_| dial(gateway.addr, from)).collect();
        let mut conns: Vec<RawConn> = held.into_iter().map(RawConn::from).collect();
        for conn in &mut conns {
            conn.send(upgrade_request(SOCKETIO, ""));
            assert_eq!(conn.response().status, 101);
        }
        let closed = conns
            .iter_mut()
            .filter_map(|conn| conn.frame_within(PATIENCE).ok());
        let closed = closed
            .filter(|frame| frame.close_code() == Some(1008))
            .count();
        assert_eq!(closed, 1, "from {from}");
    }
}

fn assert_counts_nothing(gateway: &Gateway) {
    let gone = gateway.metric_settles("sockeye_connections", |open| open == 0.0);
    assert!(gone.is_ok(), "{gone:?} connections are left");
    assert!(eventually(PATIENCE, || gateway.metric("sockeye_addresses") == 0.0));
}

fn dial(addr: SocketAddr, from: Ipv4Addr) -> TcpStream {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let local = SocketAddr::new(IpAddr::V4(from), 0);
    socket
        .bind(&local.into())
        .expect("an address of the loopback");
    socket.connect(&addr.into()).expect("the gateway listens");
    socket.into()
}

fn come_and_go(addr: SocketAddr, share: u32, n: u32) {
    // One address of its own, and some that all processes share.
    let last = if n.is_multiple_of(3) {
        10 + share
    } else {
        1 + n % 3
    };
    let mut stream = dial(addr, Ipv4Addr::new(127, 0, 0, last as u8));
    let request = upgrade_request(if n.is_multiple_of(2) { SOCKETIO } else { "/ws" }, "");
    let sent = match n % 8 {
        0 => Ok(()),
        1 => stream.write_all(&request[..20]),
        2 => {
            stream.write_all(b"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\n\r\n")
        }
        3 => stream.write_all(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"),
        4 => stream.write_all(b"nonsense\r\n\r\n"),
        _ => stream.write_all(&request),
    };
    // The gateway may have closed it unheard.
    let _ = sent;
    // Those who asked for something may wait for it.
    if n % 5 < 2 && n % 8 > 1 {
        let mut conn = RawConn::from(stream);
        let _: Result<_, Ended> = conn.response_within(PATIENCE);
        conn.reset();
    } else if n % 5 == 2 {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    } else {
        RawConn::from(stream).reset();
    }
}
