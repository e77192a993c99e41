//! What goes through an established connection: pages, polling from shard to shard, WebSockets, large messages, slow readers.

use super::pki::{Client, Pki, Secure};
use crate::harness::client::{PLAIN, SOCKETIO, poll_request, post_request};
use crate::harness::{PATIENCE, SocketIo, eventually};
use client::OpCode;
use serde_json::{Value, json};

/// Relays every event of `/` to the others.
const RELAY: &str = "profile = \"socket.io\"\n";

fn relay(pki: &Pki, more: &str) -> Secure {
    let config = format!("{RELAY}{}{more}", pki.section(""));
    Secure::new(crate::harness::Gateway::start(&config))
}

fn websocket(client: &Client, secure: &Secure) -> SocketIo {
    let mut socket = SocketIo::over(client.connect(secure.addr).upgraded(SOCKETIO, ""));
    socket.join_namespace("/", "");
    socket
}

#[test]
fn the_chat_page_and_health_come_over_https() {
    let pki = Pki::new();
    let secure = pki.gateway("", "");
    for _ in 0..3 {
        let mut conn = pki.client().connect(secure.addr);
        conn.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let page = conn.response();
        assert_eq!(page.status, 200);
        assert!(page.body.contains("<html"), "{page:?}");
        // The page server closes politely: close_notify, then FIN.
        assert_eq!(conn.ended(PATIENCE), crate::harness::Ended::Cleanly);
    }
    let bundle = "GET /socket.io/socket.io.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let bundle = pki.client().exchange(secure.addr, bundle);
    assert!(bundle.body.len() > 20_000, "{}", bundle.body.len());
    let health = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(pki.client().exchange(secure.addr, health).status, 200);
}

#[test]
fn events_go_both_ways_over_wss() {
    let pki = Pki::new();
    let secure = relay(&pki, "");
    let client = pki.client();
    let (mut sender, mut receiver) = (websocket(&client, &secure), websocket(&client, &secure));
    let room = json!(["join", "room"]);
    sender.ask(1, &room);
    receiver.ask(1, &room);
    for n in 0..100 {
        sender.emit(&json!(["hello", n, "x".repeat(n)]));
    }
    for n in 0..100 {
        assert_eq!(receiver.expect("hello"), [json!(n), json!("x".repeat(n))]);
    }
}

#[test]
fn who_speaks_tls_and_who_does_not_meet_in_a_room() {
    let pki = Pki::new();
    let secure = relay(&pki, "");
    let mut inside = websocket(&pki.client(), &secure);
    let mut outside = SocketIo::connect(secure.gateway.addr);
    for client in [&mut inside, &mut outside] {
        client.ask(1, &json!(["join", "room"]));
    }
    outside.emit(&json!(["hello", "from outside"]));
    assert_eq!(inside.expect("hello"), ["from outside"]);
    inside.emit(&json!(["hello", "from inside"]));
    assert_eq!(outside.expect("hello"), ["from inside"]);
}

#[test]
fn polling_over_tls_finds_its_shard() {
    let pki = Pki::new();
    let secure = relay(&pki, "[server]\nshards = 2\n");
    let client = pki.client();
    let moved = || secure.gateway.metric("sockeye_connections_moved_total");
    let before = moved();
    for _ in 0..8 {
        let exchange = |request: String| client.exchange(secure.addr, request);
        let open = exchange(poll_request(""));
        let open: Value = serde_json::from_str(&open.body[1..]).expect("an open packet");
        let sid = open["sid"].as_str().expect("a session id");
        assert_eq!(exchange(post_request(sid, "40")).status, 200);
        assert!(exchange(poll_request(sid)).body.starts_with("40{"));
        assert_eq!(
            exchange(post_request(sid, "421[\"join\",\"room\"]")).status,
            200
        );
        let acked = exchange(poll_request(sid));
        assert!(acked.body.starts_with("431["), "{acked:?}");
    }
    assert!(moved() > before, "no request came to the other shard");
}

#[test]
fn requests_on_one_connection_move_with_it_and_back() {
    let pki = Pki::new();
    let secure = relay(&pki, "[server]\nshards = 2\n");
    let client = pki.client();
    // The kernel deals connections by chance: with so many, both shards have some.
    let mut sids = Vec::new();
    for _ in 0..32 {
        let open = client.exchange(secure.addr, poll_request(""));
        let open: Value = serde_json::from_str(&open.body[1..]).expect("an open packet");
        sids.push(open["sid"].as_str().expect("a session id").to_owned());
    }
    let mut conn = client.connect(secure.addr);
    for sid in sids.iter().chain(&sids) {
        conn.send(post_request(sid, "6"));
        assert_eq!(conn.response().status, 200);
    }
    assert!(
        secure
            .gateway
            .reaches("sockeye_connections_moved_total", 2.0)
            >= 2.0
    );
}

#[test]
fn large_messages_pass_in_both_directions() {
    let pki = Pki::new();
    let secure = relay(&pki, "");
    let client = pki.client();
    let (mut sender, mut receiver) = (websocket(&client, &secure), websocket(&client, &secure));
    sender.ask(1, &json!(["join", "room"]));
    receiver.ask(1, &json!(["join", "room"]));
    // Around the size of a record, of a read, of a flush, and far beyond.
    for len in [16_300, 16_384, 16_500, 65_500, 131_072, 900_000] {
        let text: String = ('a'..='z').cycle().take(len).collect();
        sender.emit(&json!(["large", text]));
        let arrived = receiver.expect("large");
        assert!(arrived == [json!(text)], "{len} bytes arrived changed");
    }
}

/// Bytes that TLS connections hold now.
fn held(secure: &Secure) -> f64 {
    secure.gateway.metric("sockeye_tls_memory_bytes")
}

#[test]
fn a_slow_reader_costs_no_more_than_its_bound() {
    let pki = Pki::new();
    let policy = "[limits]\nslow_consumer = \"drop-oldest\"\n[server]\nshards = 1\n";
    let secure = relay(&pki, policy);
    let client = pki.client();
    let mut sender = websocket(&client, &secure);
    sender.ask(1, &json!(["join", "room"]));
    let mut slow = websocket(&client, &secure);
    slow.ask(1, &json!(["join", "room"]));
    slow.conn.shrink_receive_buffer(4096);
    let (before, idle) = (secure.gateway.memory(), held(&secure));
    let text = "x".repeat(50_000);
    let mut most = 0;
    for n in 0..1_500 {
        sender.emit(&json!(["flood", text]));
        if n % 100 == 99 {
            sender.ask(n, &json!(["join", "room"]));
            most = secure.gateway.memory().max(most);
        }
    }
    // 75 MB were sent. The outbox may hold one of them; the rest is what the allocator and the turn's log keep.
    let grown = most.saturating_sub(before);
    assert!(grown < 24 << 20, "{grown} bytes more");
    assert!(secure.gateway.metric("sockeye_dropped_slow_total") > 1_000.0);
    let waiting = held(&secure) - idle;
    assert!(waiting < 40_000.0, "{waiting} bytes of records wait");
    drop(slow);
    let settles = eventually(PATIENCE, || held(&secure) == idle / 2.0);
    assert!(settles, "{} of {idle}", held(&secure));
}

#[test]
fn a_reader_that_pauses_gets_every_byte_in_order() {
    let pki = Pki::new();
    let limits = "[limits]\noutbox_bytes_max = \"64MiB\"\n[server]\nshards = 1\n";
    let secure = relay(&pki, limits);
    let client = pki.client();
    let (mut sender, mut reader) = (websocket(&client, &secure), websocket(&client, &secure));
    sender.ask(1, &json!(["join", "room"]));
    reader.ask(1, &json!(["join", "room"]));
    reader.conn.shrink_receive_buffer(128 * 1024);
    let idle = held(&secure);
    // More than the kernel's buffers of both ends take: the rest waits in the gateway, as ciphertext and as plaintext.
    let sent = 900;
    for n in 0..sent {
        sender.emit(&json!(["part", n, "y".repeat(10_000 + n)]));
    }
    let waits = eventually(PATIENCE, || held(&secure) > idle);
    assert!(waits, "nothing had to wait");
    for n in 0..sent {
        let arrived = reader.expect("part");
        let wanted = [json!(n), json!("y".repeat(10_000 + n))];
        assert!(arrived == wanted, "part {n}");
    }
    assert!(eventually(PATIENCE, || held(&secure) == idle));
}

#[test]
fn an_idle_connection_gives_its_buffers_back() {
    let pki = Pki::new();
    let secure = relay(&pki, "[server]\nshards = 1\n");
    let mut socket = websocket(&pki.client(), &secure);
    let held = || held(&secure);
    let idle = held();
    assert!(idle > 1_000.0, "{idle}");
    let large = json!(["nowhere", "z".repeat(500_000)]);
    socket.emit(&large);
    socket.ask(7, &json!(["join", "room"]));
    assert!(eventually(PATIENCE, || held() == idle), "{} {idle}", held());
}

#[test]
fn plain_protocol_pings_and_binary_pass_too() {
    let pki = Pki::new();
    let secure = relay(&pki, "");
    let mut conn = pki.client().connect(secure.addr).upgraded(PLAIN, "");
    conn.send_frame(true, OpCode::Ping, b"still there?");
    let pong = conn.frame_within(PATIENCE).expect("a pong");
    assert_eq!(
        (pong.opcode, &pong.payload[..]),
        (OpCode::Pong, &b"still there?"[..])
    );
    conn.send_text(json!({"type": "join", "room": "r", "id": 9}).to_string());
    let reply: Value = serde_json::from_slice(&conn.frame().payload).expect("JSON");
    assert_eq!((&reply["type"], &reply["id"]), (&json!("ack"), &json!(9)));
}

#[test]
fn a_proxys_word_comes_before_the_handshake() {
    let pki = Pki::new();
    let server =
        "[server]\nshards = 2\ntrusted_proxies = [\"127.0.0.1\"]\nproxy_protocol = \"required\"\n";
    let secure = relay(&pki, server);
    let client = pki.client();
    let through = |preface: &[u8]| {
        crate::harness::RawConn::try_secure(secure.addr, client.begin("localhost"), preface)
    };
    let conn = through(b"PROXY TCP4 203.0.113.9 192.0.2.1 56324 443\r\n");
    let conn = conn.expect("a handshake behind the header");
    let mut socket = SocketIo::over(conn.upgraded(SOCKETIO, ""));
    socket.join_namespace("/", "");
    assert!(secure.gateway.logged("\"peer\":\"203.0.113.9\"", PATIENCE));
    assert!(through(b"").is_err(), "a handshake without the header");
}
