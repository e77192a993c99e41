//! Peers that are slow, silent, gone without a word, or too many.

use super::{IN_TIME, SOON, assert_serves, gateway};
use crate::harness::client::{SOCKETIO, poll_request};
use crate::harness::raw::{masked, upgrade_request};
use crate::harness::{Alone, Ended, Gateway, Plain, Poller, RawConn, SocketIo, eventually};
use client::OpCode;
use serde_json::json;
use std::time::{Duration, Instant};

/// The gateway of this file: alone with its metrics.
fn lonely(more: &str) -> Gateway {
    Gateway::start(&super::SETTINGS.replace("[limits]", &format!("[limits]\n{more}")))
}

/// Attack H16.
#[test]
fn a_dripping_request_head_is_cut_at_the_handshake_timeout() {
    let _alone = Alone::or_with_a_quiet_one();
    let gateway = gateway();
    let request = upgrade_request("/ws", "");
    let mut conn = RawConn::connect(gateway.addr);
    let started = Instant::now();
    for byte in &request {
        if !conn.try_send([*byte]) || started.elapsed() > SOON {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let took = started.elapsed();
    assert_ne!(conn.ended(SOON), Ended::Open);
    assert!(
        (Duration::from_millis(900)..IN_TIME).contains(&took),
        "cut after {took:?}"
    );
    assert_serves(gateway.addr);
}

/// Attack H17.
#[test]
fn a_silent_connection_is_cut_at_the_handshake_timeout() {
    let _alone = Alone::or_with_a_quiet_one();
    let gateway = lonely("");
    let started = Instant::now();
    let mut silent: Vec<_> = (0..50).map(|_| RawConn::connect(gateway.addr)).collect();
    for conn in &mut silent {
        assert_ne!(conn.ended(SOON), Ended::Open);
    }
    let took = started.elapsed();
    assert!(
        (Duration::from_millis(900)..IN_TIME).contains(&took),
        "cut after {took:?}"
    );
    assert!(gateway.hits_reach("handshake_timeout", 50.0) >= 50.0);
    drop(silent);
    assert!(
        gateway
            .metric_settles("sockeye_connections", |open| open == 0.0)
            .is_ok()
    );
    assert_serves(gateway.addr);
}

/// Attack F25.
#[test]
fn a_dripping_frame_is_cut_at_the_message_timeout() {
    let _alone = Alone::or_with_a_quiet_one();
    let gateway = gateway();
    let frame = masked(true, OpCode::Text, vec![b'a'; 1_000]);
    for mut conn in super::websockets(gateway.addr) {
        let started = Instant::now();
        for byte in &frame {
            if !conn.try_send([*byte]) || !conn.is_quiet(Duration::from_millis(20)) {
                break;
            }
        }
        assert_eq!(conn.close_code(SOON), 4002);
        let took = started.elapsed();
        assert!(
            (Duration::from_millis(900)..IN_TIME).contains(&took),
            "cut after {took:?}"
        );
    }
    assert_serves(gateway.addr);
}

/// Attacks F22 and F23 without haste: a fragment now and then does not make the time longer that a message has.
#[test]
fn dripping_fragments_are_cut_at_the_message_timeout() {
    let gateway = gateway();
    for payload in [&b"a"[..], b""] {
        for mut conn in super::websockets(gateway.addr) {
            let started = Instant::now();
            conn.send_frame(false, OpCode::Text, payload);
            let fragment = masked(false, OpCode::Continuation, payload);
            while conn.is_quiet(Duration::from_millis(50)) {
                assert!(started.elapsed() < SOON, "still open");
                conn.try_send(&fragment);
            }
            assert_eq!(conn.close_code(SOON), 4002);
            let took = started.elapsed();
            assert!(took >= Duration::from_millis(900), "cut after {took:?}");
        }
    }
    assert_serves(gateway.addr);
}

/// Attack F25: the same with the body of a POST.
#[test]
fn a_dripping_post_is_cut_at_the_message_timeout() {
    let _alone = Alone::or_with_a_quiet_one();
    let gateway = gateway();
    let poller = crate::harness::Poller::connect(gateway.addr);
    let mut conn = RawConn::connect(gateway.addr);
    let request = crate::harness::client::post_request(&poller.sid, &"6".repeat(1_000));
    let started = Instant::now();
    conn.send(&request[..request.len() - 990]);
    assert_ne!(conn.ended(SOON), Ended::Open);
    let took = started.elapsed();
    assert!(
        (Duration::from_millis(900)..IN_TIME).contains(&took),
        "cut after {took:?}"
    );
    assert_serves(gateway.addr);
}

/// Attack F26: the queue is bounded, then the slow one goes; memory stays within the bound.
#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let (grown, _) = starve(|_| 0);
    assert!(grown < 8 << 20, "{grown} bytes");
    // To count what waits takes memory, too, and is done apart. It is the bound, and the message that broke it.
    let (_, queued) = starve(|gateway| gateway.memory_part("outboxes"));
    assert!(
        (100_000..256 * 1_024 + 51_000).contains(&queued),
        "{queued} bytes queued"
    );
}

/// Has a client not read until it is disconnected; bytes by which the gateway grew, and the most that was looked at meanwhile.
fn starve(look: impl Fn(&Gateway) -> u64) -> (u64, u64) {
    let settings =
        super::SETTINGS.replace("[socketio]", "[socketio]\nmax_http_buffer_size = \"64KiB\"");
    let settings = settings.replace("[limits]", "[limits]\noutbox_bytes_max = \"256KiB\"");
    let gateway = Gateway::start(&settings);
    let before = super::warmed(&gateway);
    let mut slow = SocketIo::connect(gateway.addr);
    slow.conn.shrink_receive_buffer(4_096);
    slow.ask(1, &json!(["join", "news"]));
    let mut neighbour = SocketIo::connect(gateway.addr);
    neighbour.ask(1, &json!(["join", "news"]));
    let mut speaker = SocketIo::connect(gateway.addr);
    speaker.ask(1, &json!(["join", "news"]));
    let text = "n".repeat(50_000);
    let (mut sent, mut queued) = (0, 0);
    while gateway.closes("slow_consumer") == 0.0 && sent < 1_000 {
        speaker.ask(2, &json!(["message", text]));
        assert_eq!(neighbour.expect("message"), [json!(text)]);
        queued = look(&gateway).max(queued);
        sent += 1;
    }
    assert_eq!(
        gateway.closes("slow_consumer"),
        1.0,
        "after {sent} messages of 50 kB"
    );
    assert!(gateway.hits_reach("outbox_bytes", 1.0) >= 1.0);
    let grown = gateway.memory().saturating_sub(before);
    let sockets = gateway.metric_settles("sockeye_sockets", |sockets| sockets == 2.0);
    assert!(sockets.is_ok(), "{sockets:?}");
    assert_serves(gateway.addr);
    (grown, queued)
}

/// Attack F24: one pong at a time waits for a peer that pings and does not read.
#[test]
fn a_ping_flood_with_unread_pongs_is_bounded_and_ends() {
    let settings = "[server]\nshards = 1\npin = false\n[socketio]\nping_interval = \"1s\"\n\
        ping_timeout = \"1s\"\n[limits]\nclose_timeout = \"1s\"\n\
        [namespaces.\"/\".events.echo]\naction = \"reply\"\n";
    let gateway = Gateway::start(settings);
    let before = super::warmed(&gateway);
    let mut flooder = SocketIo::connect(gateway.addr);
    flooder.conn.shrink_receive_buffer(4_096);
    let burst = masked(true, OpCode::Ping, [b'p'; 125]).repeat(1_000);
    let started = Instant::now();
    let (mut pings, mut queued) = (0, 0);
    while flooder.conn.try_send(&burst) && started.elapsed() < SOON {
        pings += 1_000;
        queued = gateway.memory_part("outboxes").max(queued);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(started.elapsed() < SOON, "still open after {pings} pings");
    // Pongs for what one read brought; while these wait, no other ping is answered.
    assert!(queued <= 2 * 64 * 1_024, "{queued} bytes of pongs");
    let grown = gateway.memory().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes after {pings} pings");
    assert_serves(gateway.addr);
}

/// Attack F24 on the plain protocol, where only silence is asked about.
#[test]
fn a_plain_client_that_pings_and_does_not_read_is_closed() {
    let settings = "[server]\nshards = 1\npin = false\n[plain]\nping_interval = \"1s\"\n\
        [socketio]\nping_timeout = \"1s\"\n[limits]\nclose_timeout = \"1s\"\n";
    let gateway = Gateway::start(settings);
    let mut flooder = Plain::connect(gateway.addr);
    flooder.conn.shrink_receive_buffer(4_096);
    let burst = masked(true, OpCode::Ping, [b'p'; 125]).repeat(1_000);
    let started = Instant::now();
    while flooder.conn.try_send(&burst) && started.elapsed() < SOON {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(started.elapsed() < SOON, "still open");
}

/// Attack F26 by polling: a session that nobody polls is a slow consumer too.
#[test]
fn a_session_that_is_not_polled_is_disconnected() {
    let settings = super::SETTINGS
        .replace("[socketio]", "[socketio]\nmax_http_buffer_size = \"64KiB\"")
        .replace("[limits]", "[limits]\noutbox_bytes_max = \"256KiB\"");
    let gateway = Gateway::start(&settings);
    let poller = crate::harness::Poller::connect(gateway.addr);
    assert_eq!(poller.post("42[\"join\",\"news\"]").status, 200);
    let mut speaker = SocketIo::connect(gateway.addr);
    speaker.ask(1, &json!(["join", "news"]));
    for _ in 0..10 {
        speaker.ask(2, &json!(["message", "n".repeat(50_000)]));
    }
    let closed = || gateway.closes("slow_consumer") == 1.0;
    assert!(
        eventually(SOON, closed),
        "{}",
        gateway.closes("slow_consumer")
    );
    assert_serves(gateway.addr);
}

/// A client that asks, is answered and never reads, under either policy.
#[test]
fn unread_answers_are_bounded() {
    for policy in ["disconnect", "drop-oldest"] {
        let gateway = lonely(&format!("slow_consumer = \"{policy}\"\n"));
        let before = super::warmed(&gateway);
        let mut deaf = SocketIo::connect(gateway.addr);
        deaf.conn.shrink_receive_buffer(4_096);
        let text = "e".repeat(10_000);
        let burst = masked(true, OpCode::Text, format!("421[\"echo\",\"{text}\"]")).repeat(2_000);
        let flood = std::thread::spawn(move || (deaf.conn.try_send(&burst), deaf));
        let mut most = 0;
        // Twenty megabytes each way, on a machine that is busy with other tests: the time is not what is tested.
        let ended = eventually(SOON, || {
            most = gateway.memory().max(most);
            flood.is_finished()
        });
        assert!(ended, "the flood is neither taken nor refused");
        let grown = most.saturating_sub(before);
        assert!(grown < 16 << 20, "{policy}: {grown} bytes");
        assert_serves(gateway.addr);
        drop(flood.join());
    }
}

/// Attack H16 on a connection that has behaved once.
#[test]
fn a_dripping_second_request_is_cut() {
    let gateway = gateway();
    let mut conn = RawConn::connect(gateway.addr);
    conn.send(crate::harness::client::poll_request(""));
    assert_eq!(conn.response().status, 200);
    conn.send("GET /socket.io/?EIO=4&transp");
    let started = Instant::now();
    assert_ne!(conn.ended(SOON), Ended::Open);
    assert!(
        started.elapsed() >= Duration::from_millis(900),
        "{:?}",
        started.elapsed()
    );
    assert_serves(gateway.addr);
}

/// Attack F27.
#[test]
fn a_half_closed_connection_is_freed() {
    let gateway = lonely("");
    for (conn, begun) in super::websockets(gateway.addr)
        .into_iter()
        .zip([false, true])
    {
        let mut conn = conn;
        if begun {
            conn.send(&masked(true, OpCode::Text, "unfinished")[..9]);
        }
        conn.half_close();
        assert_ne!(conn.ended(SOON), Ended::Open);
    }
    let freed = gateway.metric_settles("sockeye_connections", |open| open == 0.0);
    assert!(freed.is_ok(), "{freed:?} connections");
    assert_eq!(
        gateway.metric_settles("sockeye_sessions", |n| n == 0.0),
        Ok(0.0)
    );
    assert_serves(gateway.addr);
}

/// Attack F28.
#[test]
fn a_reset_inside_a_frame_frees_the_connection_at_once() {
    let _alone = Alone::wait();
    let gateway = lonely("");
    for mut conn in super::websockets(gateway.addr) {
        conn.send(&masked(true, OpCode::Text, "unfinished")[..9]);
        conn.reset();
    }
    let left = |name| gateway.metric(name);
    let freed = || left("sockeye_connections") + left("sockeye_sockets") == 0.0;
    assert!(eventually(Duration::from_secs(1), freed));
    assert_serves(gateway.addr);
}

/// Attack F29.
#[test]
fn a_client_that_ignores_our_close_is_cut() {
    let gateway = lonely("");
    let mut deaf = Plain::connect(gateway.addr);
    // A protocol error makes the gateway close; the client neither answers nor goes.
    deaf.conn.send(b"\x81\x02hi");
    assert_eq!(deaf.conn.close_code(SOON), 1002);
    let freed = || gateway.metric("sockeye_connections") == 0.0;
    assert!(eventually(SOON, freed));
    assert_serves(gateway.addr);
}

/// Attack F29: the same, and it keeps sending what nobody reads any more.
#[test]
fn a_client_that_sends_on_after_our_close_is_cut() {
    let gateway = lonely("");
    for mut conn in super::websockets(gateway.addr) {
        conn.send(b"\x81\x02hi");
        let started = Instant::now();
        let burst = masked(true, OpCode::Text, vec![b'a'; 10_000]);
        while conn.try_send(&burst) && started.elapsed() < SOON {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(started.elapsed() < SOON, "still taken");
    }
    let freed = gateway.metric_settles("sockeye_connections", |open| open == 0.0);
    assert!(freed.is_ok(), "{freed:?} connections");
    assert_serves(gateway.addr);
}

/// Attack F25: a body in chunks that never ends, a byte at a time.
#[test]
fn a_dripping_chunked_post_is_cut_at_the_message_timeout() {
    let gateway = gateway();
    let poller = crate::harness::Poller::connect(gateway.addr);
    let mut conn = RawConn::connect(gateway.addr);
    let head = crate::harness::client::post_request(&poller.sid, "");
    conn.send(head.replace("Content-Length: 0", "Transfer-Encoding: chunked"));
    let started = Instant::now();
    while conn.try_send("1\r\n6\r\n") && conn.is_quiet(Duration::from_millis(20)) {
        assert!(started.elapsed() < SOON, "still taken");
    }
    assert_ne!(conn.ended(SOON), Ended::Open);
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(900), "cut after {took:?}");
    assert_serves(gateway.addr);
}

/// Attack A14: connections above the limit of the process are told to come back later, and may.
#[test]
fn connections_above_the_limit_are_shed() {
    let gateway = lonely("conns_max = 20\n");
    let mut clients: Vec<_> = (0..20).map(|_| SocketIo::connect(gateway.addr)).collect();
    for _ in 0..30 {
        let mut conn = RawConn::connect(gateway.addr);
        conn.send(upgrade_request("/ws", ""));
        let answer = conn.response();
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
    for client in &mut clients {
        assert_eq!(client.ask(7, &json!(["echo", 1])), json!([1]));
    }
    assert!(gateway.reaches("sockeye_connections_shed_total", 30.0) >= 30.0);
    clients.truncate(10);
    let open = gateway.metric_settles("sockeye_connections", |open| open == 10.0);
    assert!(open.is_ok(), "{open:?}");
    assert_serves(gateway.addr);
}

/// Before descriptors run out newcomers are refused in words; health checks and those who are in
/// notice nothing, and when some leave others get in.
#[test]
fn a_shortage_of_descriptors_is_told_to_newcomers() {
    let _alone = Alone::wait();
    let gateway = Gateway::start_limited(super::SETTINGS, 150);
    let poller = Poller::connect(gateway.addr);
    let mut inside = Vec::new();
    let refusal = loop {
        assert!(inside.len() < 150, "more clients than descriptors");
        let mut conn = RawConn::connect(gateway.addr);
        conn.try_send(upgrade_request("/ws", ""));
        match conn.response() {
            answer if answer.status == 101 => inside.push(Plain { conn }),
            answer => break answer,
        }
    };
    assert_eq!(refusal.status, 503, "{refusal:?}");
    assert!(refusal.header("retry-after").is_some(), "{refusal:?}");
    assert_serves_its_own(&gateway, &poller);
    let busy = busy_while(&gateway, || {
        for _ in 0..100 {
            let mut conn = RawConn::connect(gateway.addr);
            conn.try_send(upgrade_request("/ws", ""));
            conn.ended(SOON);
        }
        std::thread::sleep(Duration::from_secs(2));
    });
    assert!(
        busy < 0.05,
        "{:.0} % of a processor while refusing",
        busy * 100.0
    );
    for client in &mut inside {
        client.send(&json!({"type": "echo", "payload": "inside"}));
        assert_eq!(client.expect_type("echo")["payload"], "inside");
    }
    assert!(gateway.reaches("sockeye_connections_shed_total", 100.0) >= 100.0);
    inside.truncate(10);
    assert!(
        gateway
            .metric_settles("sockeye_connections", |open| open <= 10.0)
            .is_ok()
    );
    assert_serves(gateway.addr);
}

/// A full node is alive, and its sessions go on: health checks, a session's POST and poll, and its upgrade.
fn assert_serves_its_own(gateway: &Gateway, poller: &Poller) {
    for probe in ["/health", "/ready"] {
        let request = format!("GET {probe} HTTP/1.1\r\nHost: a\r\n\r\n");
        let answer = RawConn::exchange(gateway.addr, request);
        assert_eq!(answer.status, 200, "{probe} {answer:?}");
    }
    for n in 0..4 {
        let posted = poller.post(&format!("42{n}[\"echo\",{n}]"));
        assert_eq!(posted.body, "ok", "{posted:?}");
        assert_eq!(poller.poll().body, format!("43{n}[{n}]"));
    }
}

/// A newcomer is told to come later, whatever it wants.
fn assert_turns_away(gateway: &Gateway, status: u16) {
    let page = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for request in [page, &poll_request("")] {
        let answer = RawConn::exchange(gateway.addr, request);
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
    }
}

/// At the bound on connections the public health check and the next poll of a session were answered like newcomers, with 503.
#[test]
fn health_and_sessions_were_shed_like_newcomers() {
    let settings = super::SETTINGS.replace("[limits]", "[limits]\nconns_max = 20\n");
    let gateway = Gateway::start(&settings);
    let poller = Poller::connect(gateway.addr);
    let mut clients: Vec<_> = (0..19).map(|_| SocketIo::connect(gateway.addr)).collect();
    let mut idle = RawConn::connect(gateway.addr);
    idle.send("GET /socket.io/ HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(idle.response().status, 400);
    let full = gateway.metric_settles("sockeye_connections", |open| open == 20.0);
    assert_eq!(full, Ok(20.0));
    assert_turns_away(&gateway, 503);
    assert_serves_its_own(&gateway, &poller);
    // The session moves to a WebSocket, which takes a place from the reserve.
    let target = format!("{SOCKETIO}&sid={}", poller.sid);
    let mut conn = RawConn::websocket(gateway.addr, &target);
    for (said, heard) in [
        ("2probe", "3probe"),
        ("5", ""),
        ("429[\"echo\",9]", "439[9]"),
    ] {
        conn.send_text(said);
        assert!(heard.is_empty() || conn.frame().text() == heard, "{said}");
    }
    assert_turns_away(&gateway, 503);
    for client in &mut clients {
        assert_eq!(client.ask(7, &json!(["echo", 1])), json!([1]));
    }
    drop((clients, idle, conn));
    let open = gateway.metric_settles("sockeye_connections", |open| open == 0.0);
    assert!(open.is_ok(), "{open:?}");
    assert_serves(gateway.addr);
}

/// A reserve that silent connections fill is given back: each of them must say soon what it wants, long before the handshake
/// timeout.
#[test]
fn silent_connections_do_not_keep_the_reserve() {
    let short = "handshake_timeout = \"1s\"";
    let long = "handshake_timeout = \"60s\"\nconns_max = 20";
    let gateway = Gateway::start(&super::SETTINGS.replace(short, long));
    let _clients: Vec<_> = (0..19).map(|_| SocketIo::connect(gateway.addr)).collect();
    let poller = Poller::connect(gateway.addr);
    let shed = "sockeye_connections_shed_total";
    let come = || gateway.metric("sockeye_connections_accepted_total") + gateway.metric(shed);
    let before = come();
    let _silent: Vec<_> = (0..100).map(|_| RawConn::connect(gateway.addr)).collect();
    // Each shard accepts its own: one of them may answer while the other has not yet filled the reserve.
    assert!(eventually(SOON, || come() >= before + 100.0), "{}", come());
    assert!(gateway.metric(shed) >= 1.0, "the reserve was never full");
    let probe = || {
        let mut conn = RawConn::connect(gateway.addr);
        conn.try_send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
        conn.response_within(SOON)
            .is_ok_and(|answer| answer.status == 200)
    };
    assert!(eventually(SOON, probe));
    assert_serves_its_own(&gateway, &poller);
}

/// At the bound of its address, too, a session comes before a newcomer.
#[test]
fn an_addresss_own_sessions_were_shed_at_its_bound() {
    let gateway = lonely("conns_per_address_max = 4\n");
    let poller = Poller::connect(gateway.addr);
    let none = gateway.metric_settles("sockeye_connections", |open| open == 0.0);
    assert_eq!(none, Ok(0.0));
    let _clients: Vec<_> = (0..4).map(|_| SocketIo::connect(gateway.addr)).collect();
    assert_turns_away(&gateway, 429);
    assert_serves_its_own(&gateway, &poller);
}

/// Attack X07: descriptors do run out, here because somebody lowers their limit. Accepting pauses without a busy loop, those who
/// are in are served, and it goes on by itself.
#[test]
#[cfg(target_os = "linux")] // `prlimit`
fn running_out_of_descriptors_pauses_accepting_only() {
    const LIMIT: u64 = 120;
    let _alone = Alone::wait();
    let gateway = Gateway::start_limited(super::SETTINGS, LIMIT as u32);
    let mut inside: Vec<_> = (0..20).map(|_| SocketIo::connect(gateway.addr)).collect();
    gateway.limit_descriptors(gateway.next_descriptor(), LIMIT);
    // The kernel completes their handshakes; the gateway cannot accept them.
    let mut outside: Vec<_> = (0..20).map(|_| RawConn::connect(gateway.addr)).collect();
    for conn in &mut outside {
        conn.send(upgrade_request("/ws", ""));
    }
    let busy = busy_while(&gateway, || std::thread::sleep(Duration::from_secs(2)));
    assert!(
        busy < 0.05,
        "{:.0} % of a processor while out of descriptors",
        busy * 100.0
    );
    for client in &mut inside {
        assert_eq!(client.ask(7, &json!(["echo", "inside"])), json!(["inside"]));
    }
    for conn in &mut outside {
        let early = conn.response_within(Duration::from_millis(1));
        assert_eq!(
            early.map(|answer| answer.status),
            Err(Ended::Open),
            "{}",
            gateway.descriptors()
        );
    }
    gateway.limit_descriptors(LIMIT, LIMIT);
    // Those who waited get in, not only new ones.
    for conn in &mut outside {
        assert_eq!(
            conn.response_within(SOON).map(|answer| answer.status),
            Ok(101)
        );
    }
    assert!(gateway.reaches("sockeye_accept_pauses_total", 1.0) >= 1.0);
    assert_serves(gateway.addr);
}

/// Processor time of the gateway as a share of the time that `wait` takes.
fn busy_while(gateway: &Gateway, wait: impl FnOnce()) -> f64 {
    let (cpu, started) = (gateway.cpu(), Instant::now());
    wait();
    (gateway.cpu() - cpu).as_secs_f64() / started.elapsed().as_secs_f64()
}
