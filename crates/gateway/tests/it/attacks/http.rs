//! Requests and handshakes: refused ones, oversized ones, smuggled ones, and noise.

use super::{SOON, assert_serves, gateway, noise};
use crate::harness::raw::{KEY, upgrade_request};
use crate::harness::{Alone, Ended, Poller, RawConn, Response};
use client::OpCode;
use fastrand::Rng;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const TARGETS: [&str; 2] = ["/ws", "/socket.io/?EIO=4&transport=websocket"];

/// A good upgrade request with parts of it replaced.
fn upgrade(target: &str, replace: &[(&str, &str)]) -> String {
    let mut text = String::from_utf8(upgrade_request(target, "")).expect("ASCII");
    for (from, to) in replace {
        assert!(text.contains(from), "{from:?} is not in the request");
        text = text.replacen(from, to, 1);
    }
    text
}

/// What a spoiled upgrade gets, on both protocols' paths.
fn refusals(replace: &[(&str, &str)]) -> Vec<Response> {
    let gateway = gateway();
    let answers = TARGETS.map(|target| RawConn::exchange(gateway.addr, upgrade(target, replace)));
    assert_serves(gateway.addr);
    answers.into()
}

#[track_caller]
fn assert_status(answers: &[Response], allowed: &[u16]) {
    for answer in answers {
        assert!(
            allowed.contains(&answer.status),
            "{allowed:?} expected: {answer:?}"
        );
    }
}

/// Attack H01.
#[test]
fn upgrade_by_post_is_refused() {
    assert_status(&refusals(&[("GET ", "POST ")]), &[400, 405, 426]);
}

/// Attack H02.
#[test]
fn upgrade_over_http_1_0_is_refused() {
    assert_status(&refusals(&[("HTTP/1.1", "HTTP/1.0")]), &[400, 405, 426]);
}

/// Attack H03.
#[test]
fn upgrade_without_connection_upgrade_is_refused() {
    assert_status(
        &refusals(&[("Connection: Upgrade\r\n", "")]),
        &[400, 405, 426],
    );
}

/// Attack H04.
#[test]
fn upgrade_to_another_protocol_is_refused() {
    assert_status(
        &refusals(&[("Upgrade: websocket", "Upgrade: h2c")]),
        &[400, 405, 426],
    );
}

/// Attack H05.
#[test]
fn unknown_websocket_version_is_answered_with_ours() {
    for answer in refusals(&[("Version: 13", "Version: 99")]) {
        assert!(matches!(answer.status, 426 | 400), "{answer:?}");
        assert_eq!(
            answer.header("sec-websocket-version"),
            Some("13"),
            "{answer:?}"
        );
    }
}

/// Attacks H06, H07, H08.
#[test]
fn missing_malformed_and_repeated_keys_are_refused() {
    let key = KEY.to_owned();
    let line = format!("Sec-WebSocket-Key: {key}\r\n");
    let twice = format!("{line}{line}");
    for (from, to) in [
        (&*line, ""),
        (&*key, ""),
        (&*key, "short=="),
        (&*key, "!"),
        (&*line, &*twice),
    ] {
        assert_status(&refusals(&[(from, to)]), &[400]);
    }
}

/// A refused upgrade is the end of its connection: attack H28 needs it.
fn assert_refused_or_cut(conn: &mut RawConn, allowed: &[u16]) {
    match conn.response_within(SOON) {
        Ok(answer) => assert!(allowed.contains(&answer.status), "{allowed:?}: {answer:?}"),
        Err(ended) => assert_ne!(ended, Ended::Open, "neither answered nor closed"),
    }
    assert_ne!(conn.ended(SOON), Ended::Open, "still open after the answer");
}

/// Attack H09.
#[test]
fn two_thousand_headers_are_too_many() {
    let gateway = gateway();
    for target in TARGETS {
        let headers: String = (0..2_000).map(|n| format!("X-{n}: y\r\n")).collect();
        let mut conn = RawConn::connect(gateway.addr);
        conn.try_send(upgrade_request(target, &headers));
        assert_refused_or_cut(&mut conn, &[431]);
    }
    assert_serves(gateway.addr);
}

/// Attack H10.
#[test]
fn a_header_of_a_mebibyte_is_too_large() {
    let gateway = gateway();
    let header = format!("X-Long: {}\r\n", "a".repeat(1 << 20));
    let mut conn = RawConn::connect(gateway.addr);
    conn.try_send(upgrade_request("/ws", &header));
    assert_refused_or_cut(&mut conn, &[431]);
    assert_serves(gateway.addr);
}

/// Attack H11.
#[test]
fn a_target_of_a_mebibyte_is_too_long() {
    let gateway = gateway();
    let target = format!("/ws?{}", "a".repeat(1 << 20));
    let mut conn = RawConn::connect(gateway.addr);
    conn.try_send(upgrade_request(&target, ""));
    assert_refused_or_cut(&mut conn, &[414, 431]);
    assert_serves(gateway.addr);
}

fn assert_answered_within_a_second(extra: &str) {
    let gateway = gateway();
    for target in TARGETS {
        let started = Instant::now();
        let mut conn = RawConn::connect(gateway.addr);
        conn.try_send(upgrade_request(target, extra));
        let answer = conn.response();
        assert!(
            started.elapsed() < Duration::from_secs(1),
            "{:?}",
            started.elapsed()
        );
        assert!(matches!(answer.status, 101 | 400 | 431), "{answer:?}");
    }
    assert_serves(gateway.addr);
}

/// Attack H12: lists are split in linear time. The second list fits into a request head.
#[test]
fn fifteen_thousand_blanks_in_the_protocol_list_cost_no_time() {
    let _alone = Alone::wait();
    for blanks in [15_000, 7_000] {
        let list = " ,".repeat(blanks / 2);
        assert_answered_within_a_second(&format!("Sec-WebSocket-Protocol: x{list}y\r\n"));
        let blank = " ".repeat(blanks);
        assert_answered_within_a_second(&format!("Sec-WebSocket-Protocol: x,{blank}y\r\n"));
    }
}

/// Attack H15.
#[test]
fn a_thousand_extension_offers_cost_no_time() {
    let _alone = Alone::wait();
    for offers in [1_000, 300] {
        let list = vec!["permessage-deflate"; offers].join(", ");
        assert_answered_within_a_second(&format!("Sec-WebSocket-Extensions: {list}\r\n"));
    }
}

/// RFC 9110 §9.3.2: the header fields of the answer to GET, and the next answer right behind them.
#[test]
fn head_was_answered_with_a_body() {
    let gateway = gateway();
    let poller = Poller::connect(gateway.addr);
    let session = format!("/socket.io/?EIO=4&transport=polling&sid={}", poller.sid);
    for (target, status) in [
        ("/socket.io/?EIO=4&transport=polling", 400),
        ("/socket.io/", 400),
        (session.as_str(), 405),
        ("/ws", 405),
        ("/health", 200),
    ] {
        let mut conn = RawConn::connect(gateway.addr);
        let head = format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        conn.send(format!("{head}HEAD /ws HTTP/1.1\r\nHost: a\r\n\r\n"));
        let answers = conn.rest(SOON);
        assert!(
            answers.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answers}"
        );
        for answer in answers.split_inclusive("\r\n\r\n") {
            assert!(
                answer.starts_with("HTTP/1.1 ") && answer.ends_with("\r\n\r\n"),
                "{answers}"
            );
        }
    }
    assert!(poller.is_alive());
    assert_serves(gateway.addr);
}

/// RFC 9110 §6.6.1: an answer says when it was made.
#[test]
fn answers_had_no_date() {
    let gateway = gateway();
    let poller = Poller::connect(gateway.addr);
    let refusal = RawConn::exchange(gateway.addr, "GET /ws HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(refusal.status, 426);
    let nonsense = RawConn::exchange(gateway.addr, "nonsense\r\n\r\n");
    for answer in [
        poller.post("6"),
        poller.post("x"),
        poller.poll(),
        refusal,
        nonsense,
    ] {
        let date = answer
            .header("date")
            .unwrap_or_else(|| panic!("{answer:?}"));
        let clock = Command::new("date").args(["+%s", "-d", date]).output();
        let clock = String::from_utf8(clock.expect("run date").stdout).expect("a number");
        let seconds: u64 = clock.trim().parse().expect("a date that others can read");
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        assert!(now.as_secs().abs_diff(seconds) < 600, "{date}");
        assert!(date.len() == 29 && date.ends_with(" GMT"), "{date}");
    }
    assert_serves(gateway.addr);
}

/// Attack H13.
#[test]
fn a_malformed_list_of_subprotocols_was_accepted() {
    let gateway = gateway();
    for target in TARGETS {
        let mut request = upgrade_request(target, "Sec-WebSocket-Protocol: @@@@\r\n");
        let at = request
            .windows(4)
            .position(|bytes| bytes == b"@@@@")
            .expect("the marker");
        request[at..at + 4].copy_from_slice(&[0xff, 0xc3, 0x28, 0x80]);
        let answer = RawConn::exchange(gateway.addr, request);
        assert_eq!(answer.status, 400, "{answer:?}");
        for list in ["", ",", "a,,b", "a b", "a, a", "a/b", "\"a\""] {
            let list = format!("Sec-WebSocket-Protocol: {list}\r\n");
            let answer = RawConn::exchange(gateway.addr, upgrade_request(target, &list));
            assert_eq!(answer.status, 400, "{list} {answer:?}");
        }
    }
    assert_serves(gateway.addr);
}

/// Attack H14.
#[test]
fn impossible_deflate_parameters_are_never_echoed() {
    let gateway = gateway();
    let parameters = [
        "server_max_window_bits=99",
        "client_max_window_bits=7",
        "server_max_window_bits=-1",
    ];
    for (target, parameter) in TARGETS.into_iter().flat_map(|t| parameters.map(|p| (t, p))) {
        let extra = format!("Sec-WebSocket-Extensions: permessage-deflate; {parameter}\r\n");
        let answer = RawConn::exchange(gateway.addr, upgrade_request(target, &extra));
        assert!(matches!(answer.status, 400 | 101), "{answer:?}");
        assert_eq!(
            answer.header("sec-websocket-extensions"),
            None,
            "{answer:?}"
        );
    }
    assert_serves(gateway.addr);
}

/// Attacks H18, H19, H20, H21, H22, H23, H24, H25, H26: what two readers could frame differently is read by nobody.
#[test]
fn ambiguous_requests_are_refused_and_the_connection_closed() {
    let gateway = gateway();
    let spoilers: [(&str, &str); 14] = [
        (
            "length and coding",
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        ),
        ("signed length", "Content-Length: +5\r\n"),
        ("negative length", "Content-Length: -1\r\n"),
        ("two lengths", "Content-Length: 5\r\nContent-Length: 6\r\n"),
        (
            "same length twice",
            "Content-Length: 5\r\nContent-Length: 5\r\n",
        ),
        ("list of lengths", "Content-Length: 5, 5\r\n"),
        ("huge length", "Content-Length: 99999999999999999999\r\n"),
        ("unknown coding", "Transfer-Encoding: xchunked\r\n"),
        (
            "two codings",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        ),
        ("space before colon", "Content-Length : 5\r\n"),
        ("folded line", "X-Folded: a\r\n b\r\n"),
        ("NUL", "X-Nul: a\0b\r\n"),
        ("bare CR", "X-Cr: a\rb\r\n"),
        ("second host", "Host: evil\r\n"),
    ];
    for (name, line) in spoilers {
        for request in [
            String::from_utf8(upgrade_request("/ws", line)).expect("ASCII"),
            String::from_utf8(upgrade_request(TARGETS[1], line)).expect("ASCII"),
            format!(
                "POST /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\n{line}\r\nhello"
            ),
            format!("GET /health HTTP/1.1\r\nHost: a\r\n{line}\r\n"),
        ] {
            assert_one_refusal(&gateway, name, &request);
        }
    }
    let hostless = "GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    assert_one_refusal(&gateway, "no host", hostless);
    assert_serves(gateway.addr);
}

fn assert_one_refusal(gateway: &super::Gateway, name: &str, request: &str) {
    let mut conn = RawConn::connect(gateway.addr);
    conn.send(request);
    let answer = conn.response();
    assert_eq!(answer.status, 400, "{name}: {answer:?}\nto {request}");
    assert_ne!(conn.ended(SOON), Ended::Open, "{name}: still open");
}

/// Attack H27.
#[test]
fn a_request_in_the_body_of_a_handshake_is_not_answered() {
    let gateway = gateway();
    let hidden = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
    for target in TARGETS {
        let mut request = upgrade_request(target, &format!("Content-Length: {}\r\n", hidden.len()));
        request.extend_from_slice(hidden.as_bytes());
        assert_answered_once(&gateway, &request);
    }
    assert_serves(gateway.addr);
}

/// Attack H28.
#[test]
fn a_request_after_a_refused_upgrade_is_not_answered() {
    let gateway = gateway();
    for target in TARGETS {
        let mut request = upgrade(target, &[("Version: 13", "Version: 99")]);
        request.push_str("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_answered_once(&gateway, request.as_bytes());
    }
    assert_serves(gateway.addr);
}

fn assert_answered_once(gateway: &super::Gateway, request: &[u8]) {
    let mut conn = RawConn::connect(gateway.addr);
    conn.send(request);
    let answer = conn.response();
    assert!(matches!(answer.status, 400 | 426), "{answer:?}");
    let second = conn.response_within(SOON);
    assert!(
        matches!(second, Err(Ended::Cleanly | Ended::Reset)),
        "{second:?}"
    );
}

/// Attack H29.
#[test]
fn a_frame_in_the_segment_of_the_handshake_is_answered() {
    let gateway = gateway();
    let mut conn = RawConn::connect(gateway.addr);
    let mut both = upgrade_request("/ws", "");
    both.extend(crate::harness::raw::masked(true, OpCode::Ping, "early"));
    conn.send(both);
    assert_eq!(conn.response().status, 101);
    let pong = conn.frame();
    assert_eq!(
        (pong.opcode, &*pong.payload),
        (OpCode::Pong, b"early".as_slice())
    );
}

/// Attack H30.
#[test]
fn other_protocols_and_noise_are_closed() {
    let gateway = gateway();
    let mut random = Rng::with_seed(0x9e37_79b9);
    let mut openings: Vec<Vec<u8>> = vec![
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(),
        b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(),
        b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n".to_vec(),
        b"*1\r\n$4\r\nPING\r\n".to_vec(),
        b"\r\n\r\n\r\n\r\n".to_vec(),
        vec![0; 4_096],
    ];
    openings.extend((1..40).map(|n| noise(&mut random, n * 37)));
    for opening in openings {
        let mut conn = RawConn::connect(gateway.addr);
        conn.try_send(&opening);
        assert_ne!(conn.ended(SOON), Ended::Open, "{opening:?}");
    }
    assert_serves(gateway.addr);
}

/// Attacks H33 and A17: a path is what it says, letter by letter. Nothing is decoded, resolved or cut off before it is looked
/// up, so what another program would take for `/metrics` is not found here.
#[test]
fn odd_paths_are_not_found() {
    let gateway = gateway();
    let long = format!("/{}", "a/".repeat(3_000));
    for path in [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/ws/",
        "/WS",
        "/ws%00",
        "/metrics",
        "/metrics/..;/",
        "/health/..;/metrics",
        "/..;/metrics",
        "//metrics",
        "/%6detrics",
        "/debug/memory",
        &long,
    ] {
        assert_eq!(page(&gateway, path).status, 404, "{path}");
    }
    // Below the path of Socket.IO, what is no file is a request without a transport.
    let below = "/socket.io/socket.io.js/../../x";
    assert_eq!(page(&gateway, below).status, 400);
    assert_serves(gateway.addr);
}

/// Attack H33: what is no path, and what begins like one of ours.
#[test]
fn other_targets_are_harmless() {
    let gateway = gateway();
    for (target, status) in [
        ("*", 404),
        ("?", 400),
        ("ws", 404),
        ("http://other/ws", 426),
        ("http://other/metrics", 404),
        ("/?", 404),
        ("/ws", 426),
        ("/socket.io", 404),
        ("/socket.io/x", 400),
        ("/socket.io/%00", 400),
        ("/socket.io/../metrics", 400),
        ("/socket.io/../../etc/passwd", 400),
    ] {
        let answer = page(&gateway, target);
        assert_eq!(answer.status, status, "{target}: {answer:?}");
        let secrets = ["root:", "sockeye_connections", "counted_bytes"];
        assert!(
            !secrets.iter().any(|word| answer.body.contains(word)),
            "{target}: {answer:?}"
        );
    }
    assert_serves(gateway.addr);
}

fn page(gateway: &super::Gateway, target: &str) -> Response {
    let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    RawConn::exchange(gateway.addr, request)
}

/// Attack H35: not an attack at all, but what browsers and proxies send.
#[test]
fn spellings_of_browsers_are_accepted() {
    let gateway = gateway();
    let spellings: [&[(&str, &str)]; 4] = [
        &[("Connection: Upgrade", "Connection: keep-alive, Upgrade")],
        &[("Upgrade: websocket", "Upgrade: WebSocket")],
        &[
            ("Upgrade: websocket", "UPGRADE: websocket"),
            ("Connection:", "connection:"),
        ],
        &[(
            "Connection: Upgrade",
            "Connection: upgrade\r\nPragma: no-cache\r\nCache-Control: no-cache",
        )],
    ];
    for (target, spelling) in TARGETS.into_iter().flat_map(|t| spellings.map(|s| (t, s))) {
        let answer = RawConn::exchange(gateway.addr, upgrade(target, spelling));
        assert_eq!(answer.status, 101, "{spelling:?}: {answer:?}");
    }
}
