//! Engine.IO requests, polling and upgrades: wrong, doubled, broken in the middle.

use super::{SOON, assert_serves, gateway};
use crate::harness::client::{SOCKETIO, poll_request, post_request};
use crate::harness::raw::upgrade_request;
use crate::harness::{Alone, Ended, Gateway, Poller, RawConn, Response, SocketIo, eventually};
use client::OpCode;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn get(gateway: &Gateway, target: &str) -> Response {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
    RawConn::exchange(gateway.addr, request)
}

#[track_caller]
fn assert_error(answer: &Response, code: u64) {
    assert_eq!(answer.status, 400, "{answer:?}");
    let body: Value = serde_json::from_str(&answer.body).expect("JSON");
    assert_eq!(body["code"], code, "{answer:?}");
}

/// Attack E01.
#[test]
fn an_unknown_protocol_version_is_refused() {
    let gateway = gateway();
    for version in ["3", "5", "99", "", "x", "4%00"] {
        let target = format!("/socket.io/?EIO={version}&transport=polling");
        assert_error(&get(&gateway, &target), 5);
    }
    assert_error(&get(&gateway, "/socket.io/?transport=polling"), 5);
    assert_serves(gateway.addr);
}

/// Attack E02.
#[test]
fn an_unknown_transport_is_refused() {
    let gateway = gateway();
    for transport in ["flashsocket", "", "__proto__", "webtransport"] {
        assert_error(
            &get(
                &gateway,
                &format!("/socket.io/?EIO=4&transport={transport}"),
            ),
            0,
        );
    }
    assert_error(&get(&gateway, "/socket.io/?EIO=4"), 0);
    assert_serves(gateway.addr);
}

/// Attack E03.
#[test]
fn an_unknown_session_is_refused() {
    let gateway = gateway();
    for sid in [
        "abc",
        "",
        "AAAAAAAAAAAAAAAAAAAA",
        "____________________",
        "%00",
        "__proto__",
        &"a".repeat(4_000),
    ] {
        let target = format!("/socket.io/?EIO=4&transport=polling&sid={sid}");
        assert_error(&get(&gateway, &target), 1);
        let upgrade = upgrade_request(&format!("{SOCKETIO}&sid={sid}"), "");
        assert_eq!(RawConn::exchange(gateway.addr, upgrade).status, 400);
    }
    assert_serves(gateway.addr);
}

/// Attack E04.
#[test]
fn a_handshake_by_another_method_is_refused() {
    let gateway = gateway();
    for method in ["POST", "PUT", "DELETE", "TRACE", "X-ODD"] {
        let request = format!(
            "{method} /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        );
        assert_error(&RawConn::exchange(gateway.addr, request), 2);
    }
    assert_serves(gateway.addr);
}

/// Attack E05.
#[test]
fn the_websocket_transport_without_an_upgrade_is_refused() {
    let gateway = gateway();
    assert_error(&get(&gateway, SOCKETIO), 3);
    let upgrade = upgrade_request("/socket.io/?EIO=4&transport=polling", "");
    assert_eq!(RawConn::exchange(gateway.addr, upgrade).status, 400);
    assert_serves(gateway.addr);
}

/// Attack E06: refused from the head; the session lives.
#[test]
fn a_body_over_the_limit_is_refused_unread() {
    let gateway = gateway();
    let poller = Poller::connect(gateway.addr);
    for length in [1_000_001_u64, 100_000_000, u64::MAX] {
        let head = post_request(&poller.sid, "")
            .replace("Content-Length: 0", &format!("Content-Length: {length}"));
        let mut conn = RawConn::connect(gateway.addr);
        conn.send(head);
        assert_eq!(conn.response().status, 413);
        assert_ne!(conn.ended(SOON), Ended::Open);
    }
    assert!(poller.is_alive());
    let mut conn = RawConn::connect(gateway.addr);
    let head =
        post_request(&poller.sid, "").replace("Content-Length: 0", "Transfer-Encoding: chunked");
    conn.send(head);
    let chunk = format!("10000\r\n{}\r\n", "a".repeat(0x10000));
    // It stops reading somewhere in here.
    let _ = (0..20).all(|_| conn.try_send(&chunk));
    assert_eq!(conn.response().status, 413);
    assert_serves(gateway.addr);
}

/// Attack E07.
#[test]
fn a_binary_post_is_refused_at_once() {
    let gateway = gateway();
    let poller = Poller::connect(gateway.addr);
    let request = post_request(&poller.sid, "4\x01\x02")
        .replace("text/plain;charset=UTF-8", "application/octet-stream");
    let answer = RawConn::exchange(gateway.addr, request);
    assert_error(&answer, 3);
    assert_error(&poller.poll(), 1);
    assert_serves(gateway.addr);
}

/// Attack E08: every branch answers, and the session is closed.
#[test]
fn garbage_posts_are_answered_and_end_the_session() {
    let gateway = gateway();
    let bodies = [
        "abc",
        "9",
        "6\u{1e}\u{1e}",
        "\u{1e}",
        "",
        "b!!!!",
        "2",
        "0{}",
        "bAA=A",
        "6\u{1e}x",
    ];
    for body in bodies {
        let poller = Poller::connect(gateway.addr);
        let answer = poller.post(body);
        assert_eq!(answer.status, 400, "{body:?}: {answer:?}");
        assert_error(&poller.poll(), 1);
    }
    // A message that is not Socket.IO is Engine.IO all the same: it is taken, and the next poll fetches the end (NOOP and CLOSE, as from
    // Node's server).
    for body in ["4\u{1e}\u{1e}", "4\0\u{1e}x", "4abc"] {
        let poller = Poller::connect(gateway.addr);
        assert_eq!(poller.post(body).body, "ok", "{body:?}");
        assert_eq!(poller.poll().body, "6\u{1e}1", "{body:?}");
        assert_error(&poller.poll(), 1);
    }
    assert_serves(gateway.addr);
}

/// Attack E08 in chunks: sizes that overflow, lie or are no numbers, and trailers that are requests.
#[test]
fn broken_chunks_are_answered_and_end_the_session() {
    let gateway = gateway();
    let bodies = [
        "ffffffffffffffff1\r\n",
        "10000000000000005\r\n46\r\n",
        "-1\r\n6\r\n0\r\n\r\n",
        "+1\r\n6\r\n0\r\n\r\n",
        "0x1\r\n6\r\n0\r\n\r\n",
        "1\n6\n0\n\n",
        "1\r\n66\r\n0\r\n\r\n",
        "\r\n6\r\n",
        "1;\0\r\n6\r\n0\r\n\r\n",
        "1;\r6\r\n6\r\n0\r\n\r\n",
        "1\r\n6\r\n0\r\nX: \ry\r\n\r\n",
        "1\r\n6\r\n0\r\nGET / HTTP/1.1\r\n\r\n",
        "1\r\n6\r\n0\r\nX : a\r\n\r\n",
        "1\r\n6\r\n0\r\nX: a\r\n b\r\n\r\n",
    ];
    for body in bodies {
        let poller = Poller::connect(gateway.addr);
        let head = post_request(&poller.sid, "");
        let mut conn = RawConn::connect(gateway.addr);
        conn.send(head.replace("Content-Length: 0", "Transfer-Encoding: chunked") + body);
        let answer = conn.response();
        assert!(matches!(answer.status, 400 | 413), "{body:?}: {answer:?}");
        assert_ne!(conn.ended(SOON), Ended::Open, "{body:?}");
        match answer.status {
            413 => assert!(poller.is_alive(), "{body:?}"),
            _ => assert_error(&poller.poll(), 1),
        }
    }
    assert_serves(gateway.addr);
}

/// Attack E09.
#[test]
fn a_second_poll_at_once_ends_the_session() {
    let gateway = gateway();
    let poller = Poller::connect(gateway.addr);
    let mut first = poller.begin_poll();
    assert!(first.is_quiet(Duration::from_millis(200)));
    assert_error(&poller.poll(), 3);
    assert_eq!(first.response().body, "1");
    assert_error(&poller.poll(), 1);
    assert_serves(gateway.addr);
}

/// Attack E09.
#[test]
fn a_second_post_at_once_ends_the_session() {
    let gateway = gateway();
    let poller = Poller::connect(gateway.addr);
    let mut first = RawConn::connect(gateway.addr);
    let request = post_request(&poller.sid, "4half of this is missing");
    first.send(&request[..request.len() - 10]);
    assert!(first.is_quiet(Duration::from_millis(200)));
    assert_error(&poller.post("6"), 3);
    assert_error(&poller.poll(), 1);
    assert_serves(gateway.addr);
}

/// Attack E42: who is ended joins once more before its last poll, so that its socket outlives it in a room.
#[test]
fn a_session_that_was_ended_joins_nothing() {
    let gateway = gateway();
    let mut member = SocketIo::connect(gateway.addr);
    let refusals: Vec<String> = (0..33).map(|n| format!("40/no-{n},")).collect();
    for _ in 0..50 {
        let poller = Poller::open(gateway.addr);
        assert_eq!(poller.post(&refusals.join("\u{1e}")).status, 200);
        for packet in ["40", "40/chat,", "42/chat,[\"join\",\"private\"]"] {
            assert_eq!(poller.post(packet).body, "ok", "taken, and not heard");
        }
        while !poller.poll().body.ends_with('1') {}
        assert_error(&poller.poll(), 1);
    }
    assert_eq!(
        gateway.metric_settles("sockeye_sockets", |n| n == 1.0),
        Ok(1.0)
    );
    // The next client has nobody's rooms.
    let next = Poller::connect(gateway.addr);
    member.join_namespace("/chat", "");
    for said in [
        "42/chat,[\"join\",\"private\"]",
        "42/chat,[\"chat-message\",{\"content\":\"secret\"}]",
    ] {
        member.send(said);
    }
    member.packet_starting("42/chat,[\"chat-message\"");
    let mut poll = next.begin_poll();
    assert!(poll.is_quiet(Duration::from_millis(200)));
    assert_serves(gateway.addr);
}

/// Attack E11.
#[test]
fn a_hundred_thousand_packets_in_one_post_are_refused_quickly() {
    let _alone = Alone::wait();
    let gateway = gateway();
    for packet in ["6", "42[\"x\"]"] {
        let poller = Poller::connect(gateway.addr);
        let count = 990_000 / (packet.len() + 1);
        let body = vec![packet; count.min(100_000)].join("\u{1e}");
        let started = Instant::now();
        assert_eq!(poller.post(&body).status, 400);
        assert!(
            started.elapsed() < Duration::from_secs(1),
            "{:?}",
            started.elapsed()
        );
    }
    assert_serves(gateway.addr);
}

/// A WebSocket that was accepted for the session of a poller.
fn probe(gateway: &Gateway, poller: &Poller) -> RawConn {
    RawConn::websocket(gateway.addr, &format!("{SOCKETIO}&sid={}", poller.sid))
}

/// Attack E12.
#[test]
fn a_wrong_probe_costs_the_websocket_and_not_the_session() {
    let gateway = gateway();
    for packet in ["5", "2", "2probe2", "3probe", "42[\"x\"]", "", "x"] {
        let poller = Poller::connect(gateway.addr);
        let mut conn = probe(&gateway, &poller);
        conn.send_text(packet);
        conn.close_code(SOON);
        assert!(poller.is_alive(), "{packet:?} cost the session");
    }
    assert_serves(gateway.addr);
}

/// Attack E13.
#[test]
fn a_broken_frame_during_the_upgrade_costs_only_the_websocket() {
    let gateway = gateway();
    for bytes in [&b"\x81\x02hi"[..], b"\xff\xff", b"\x83\x80\x01\x02\x03\x04"] {
        for probed in [false, true] {
            let poller = Poller::connect(gateway.addr);
            let mut conn = probe(&gateway, &poller);
            if probed {
                conn.send_text("2probe");
                assert_eq!(conn.frame().text(), "3probe");
            }
            conn.send(bytes);
            assert_eq!(conn.close_code(SOON), 1002);
            assert!(poller.is_alive(), "{bytes:02x?} cost the session");
        }
    }
    assert_serves(gateway.addr);
}

/// Attack A06: a session may move to a WebSocket from another address, as phones do; its id alone says whose it is.
#[test]
fn a_session_is_upgraded_from_another_address() {
    let gateway = gateway();
    let poller = Poller::connect(gateway.addr);
    let target = format!("{SOCKETIO}&sid={}", poller.sid);
    let mut conn = RawConn::connect_from([127, 0, 0, 2], gateway.addr).upgraded(&target, "");
    conn.send_text("2probe");
    assert_eq!(conn.frame().text(), "3probe");
    conn.send_text("5");
    conn.send_text("427[\"echo\",1]");
    assert_eq!(conn.frame().text(), "437[1]");
    assert_serves(gateway.addr);
}

/// Attack E14.
#[test]
fn dead_and_upgraded_sessions_cannot_be_upgraded() {
    let gateway = gateway();
    let poller = Poller::connect(gateway.addr);
    let mut conn = probe(&gateway, &poller);
    conn.send_text("2probe");
    assert_eq!(conn.frame().text(), "3probe");
    probe(&gateway, &poller).close_code(SOON);
    conn.send_text("5");
    conn.send_text("427[\"echo\",1]");
    assert_eq!(conn.frame().text(), "437[1]");
    // It is a WebSocket's now: the second one is closed, a poll is a mistake.
    probe(&gateway, &poller).close_code(SOON);
    assert_error(&poller.poll(), 3);
    conn.send_text("428[\"echo\",2]");
    assert_eq!(conn.frame().text(), "438[2]");
    conn.send_text("1");
    assert_ne!(conn.ended(SOON), Ended::Open);
    let request = upgrade_request(&format!("{SOCKETIO}&sid={}", poller.sid), "");
    let dead = || RawConn::exchange(gateway.addr, &request).status == 400;
    assert!(eventually(SOON, dead));
    assert_serves(gateway.addr);
}

/// Attacks E20 and E38: deadlines of sessions, each on a gateway with short ones.
#[test]
fn sessions_that_never_join_or_never_answer_are_closed() {
    let gateway = Gateway::start(
        "[server]\nshards = 1\npin = false\n[socketio]\nping_interval = \"600ms\"\n\
         ping_timeout = \"400ms\"\nconnect_timeout = \"800ms\"\n",
    );
    let started = Instant::now();
    let mut joined = SocketIo::connect(gateway.addr);
    let mut stranger = SocketIo::open(gateway.addr);
    let polled = Poller::connect(gateway.addr);
    // It answers heartbeats, so the connect timeout finds it.
    let end = loop {
        match stranger.conn.frame() {
            frame if frame.opcode == OpCode::Close => break frame,
            _ => stranger.conn.send_text("3"),
        }
    };
    assert_eq!(end.close_code(), Some(4003));
    assert_eq!(joined.conn.close_code(SOON), 4000);
    assert!(
        started.elapsed() >= Duration::from_millis(900),
        "{:?}",
        started.elapsed()
    );
    let timeouts = || gateway.closes("ping_timeout") == 2.0;
    assert!(
        eventually(SOON, timeouts),
        "{}",
        gateway.closes("ping_timeout")
    );
    let errors = gateway.metric("websocket_errors_total{type=\"ping_timeout\"}");
    assert_eq!(errors, 2.0, "ping timeouts were not counted as errors");
    assert_eq!(
        gateway.metric_settles("sockeye_sessions", |n| n == 0.0),
        Ok(0.0)
    );
    assert_error(&polled.poll(), 1);
}

/// Attack E27.
#[test]
fn foreign_origins_get_no_credentials_and_no_entry() {
    let gateway = Gateway::start(
        "[server]\nshards = 1\npin = false\n[socketio]\norigins = [\"https://good.example\"]\n\
         cors = [\"https://good.example\"]\n",
    );
    let with_origin = |request: &str, origin: &str| {
        let request = request.replacen("\r\n", &format!("\r\nOrigin: {origin}\r\n"), 1);
        RawConn::exchange(gateway.addr, request)
    };
    let upgrades = [SOCKETIO, "/ws"].map(|target| upgrade_request(target, ""));
    let upgrades = upgrades.map(|bytes| String::from_utf8(bytes).expect("ASCII"));
    for request in upgrades.iter().chain([&poll_request("")]) {
        for origin in [
            "https://evil.example",
            "null",
            "https://good.example.evil",
            "https://good.exampl",
            "",
        ] {
            let answer = with_origin(request, origin);
            assert_eq!(answer.status, 403, "{origin}: {answer:?}");
            assert_eq!(
                answer.header("access-control-allow-credentials"),
                None,
                "{answer:?}"
            );
        }
        let answer = with_origin(request, "https://good.example");
        assert!(matches!(answer.status, 101 | 200), "{answer:?}");
    }
    let open = super::gateway();
    let request = poll_request("").replacen("\r\n", "\r\nOrigin: https://evil.example\r\n", 1);
    let answer = RawConn::exchange(open.addr, request);
    assert_eq!(
        answer.header("access-control-allow-credentials"),
        None,
        "{answer:?}"
    );
    assert_eq!(
        answer.header("access-control-allow-origin"),
        None,
        "{answer:?}"
    );
}

/// Attack A25: what an aborted poll was to bring comes with the next one, or the session is over.
#[test]
fn packets_of_an_aborted_poll_are_not_lost_silently() {
    let gateway = gateway();
    let mut sender = SocketIo::connect(gateway.addr);
    for round in 0..10 {
        let poller = Poller::connect(gateway.addr);
        let room = json!(["join", format!("aborted-{round}")]).to_string();
        assert_eq!(poller.post(&format!("42{room}")).status, 200);
        sender.ask(1, &json!(["join", format!("aborted-{round}")]));
        let request =
            poll_request(&poller.sid).replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n");
        let mut poll = RawConn::connect(gateway.addr);
        poll.send(request);
        poll.is_quiet(Duration::from_millis(20));
        if round % 2 == 0 {
            poll.reset()
        } else {
            drop(poll)
        }
        sender.ask(2, &json!(["message", "kept"]));
        assert!(eventually(SOON, || {
            let answer = poller.poll();
            let over = answer.status == 400 || answer.body == "1";
            over || answer.body.contains("kept")
        }));
    }
    assert_serves(gateway.addr);
}

/// Attack A25: an answer larger than the kernel takes at once, given up half-way. What is lost with
/// it must not be lost in silence: the session ends.
#[test]
fn an_answer_given_up_half_way_ends_the_session() {
    let settings = super::SETTINGS
        .replace("[socketio]", "[socketio]\nmax_http_buffer_size = \"8MiB\"")
        .replace("[limits]", "[limits]\noutbox_bytes_max = \"16MiB\"");
    let gateway = Gateway::start(&settings);
    for abort in [RawConn::reset, drop] {
        let poller = Poller::connect(gateway.addr);
        let mut poll = poller.begin_poll();
        poll.shrink_receive_buffer(4_096);
        let text = "p".repeat(7_000_000);
        assert_eq!(poller.post(&format!("42[\"echo\",\"{text}\"]")).status, 200);
        poll.bytes_within(100, SOON).expect("the answer has begun");
        abort(poll);
        // Until the gateway has noticed, the session is there to be polled.
        let left = gateway.metric_settles("sockeye_sessions", |sessions| sessions == 0.0);
        assert_eq!(left, Ok(0.0));
        // It must not go on without what was lost.
        assert_error(&poller.poll(), 1);
    }
    assert_serves(gateway.addr);
}
