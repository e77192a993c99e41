//! Compressed input that is broken or explodes, offers that nobody can meet, and what must never be
//! compressed.

use super::memory::{Growth, MIB, assert_bounded};
use super::{Attacked, SOON, assert_serves, noise};
use crate::harness::client::{PLAIN, SOCKETIO};
use crate::harness::raw::{masked, upgrade_request};
use crate::harness::{Alone, Gateway, RawConn, SocketIo};
use client::OpCode;
use fastrand::Rng;
use serde_json::json;
use std::time::Duration;
use wire::websocket::deflate::Deflater;

const OFFER: &str = "Sec-WebSocket-Extensions: permessage-deflate\r\n";

fn settings() -> String {
    format!("{}\n[compression]\nwebsocket = true\n", super::SETTINGS)
}

fn gateway() -> Attacked {
    Attacked::weighed(&settings())
}

/// A WebSocket of each protocol that agreed on compression.
fn compressing(gateway: &Gateway) -> [RawConn; 2] {
    [SOCKETIO, PLAIN].map(|target| {
        let mut conn = RawConn::websocket_with(gateway.addr, target, OFFER);
        if target == SOCKETIO {
            assert_eq!(conn.frame().payload[0], b'0', "the open packet");
        }
        conn
    })
}

fn deflated(message: &[u8]) -> Vec<u8> {
    let mut payload = Vec::new();
    assert!(Deflater::new(9, 15).deflate(message, &mut payload));
    payload
}

/// A masked frame with RSV1.
fn compressed(fin: bool, opcode: OpCode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = masked(fin, opcode, payload);
    bytes[0] |= 0x40;
    bytes
}

#[track_caller]
fn assert_closed(gateway: &Gateway, code: u16, bytes: &[u8]) {
    for mut conn in compressing(gateway) {
        conn.send(bytes);
        let shown = &bytes[..bytes.len().min(20)];
        assert_eq!(conn.close_code(SOON), code, "after {shown:02x?}");
    }
    assert_serves(gateway.addr);
}

/// Attack H14: declined and never echoed; the connection works without.
#[test]
fn impossible_parameters_are_declined() {
    let gateway = gateway();
    for parameters in [
        "server_max_window_bits=7",
        "server_max_window_bits=8",
        "server_max_window_bits=16",
        "server_max_window_bits=-9",
        "server_max_window_bits=99999999999999999999",
        "server_max_window_bits",
        "client_max_window_bits=0",
        "client_max_window_bits=16",
        "client_no_context_takeover=yes",
        "server_no_context_takeover; server_no_context_takeover",
        "unknown_parameter",
        "server_max_window_bits=\"\\9\"",
        ";",
        "\u{fc}=1",
    ] {
        let extra = format!("Sec-WebSocket-Extensions: permessage-deflate; {parameters}\r\n");
        let mut conn = RawConn::connect(gateway.addr);
        conn.send(upgrade_request(PLAIN, &extra));
        let response = conn.response();
        assert_eq!(response.status, 101, "{parameters}: {response:?}");
        assert_eq!(
            response.header("sec-websocket-extensions"),
            None,
            "{parameters}"
        );
        conn.send(masked(true, OpCode::Ping, b"alive"));
        assert_eq!(conn.frame().opcode, OpCode::Pong, "{parameters}");
    }
    assert_serves(gateway.addr);
}

/// Attack H14: as many offers as a head holds; what counts is the gateway's own time.
#[test]
fn a_head_full_of_offers_is_read_once() {
    let _alone = Alone::wait();
    let gateway = Gateway::start(&settings());
    let offers = "permessage-deflate;x,".repeat(700);
    let before = gateway.cpu();
    for _ in 0..50 {
        let extra = format!("Sec-WebSocket-Extensions: {offers} permessage-deflate\r\n");
        let mut conn = RawConn::connect(gateway.addr);
        conn.send(upgrade_request(PLAIN, &extra));
        let response = conn.response();
        let answer = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        assert_eq!(response.header("sec-websocket-extensions"), Some(answer));
    }
    let took = gateway.cpu() - before;
    assert!(took < Duration::from_secs(1), "50 handshakes took {took:?}");
}

/// Attack F20.
#[test]
fn broken_deflate_data_is_refused() {
    let gateway = gateway();
    let whole = deflated(&[b'a'; 5_000]);
    for payload in [
        b"".as_slice(),
        &[0xff; 30],
        &[0x06, 0x00],
        &whole[..whole.len() - 3],
    ] {
        assert_closed(&gateway, 1007, &compressed(true, OpCode::Text, payload));
    }
    let not_utf8 = deflated(&[0xff; 500]);
    assert_closed(&gateway, 1007, &compressed(true, OpCode::Text, &not_utf8));
    assert!(gateway.reaches("sockeye_inflate_errors_total", 8.0) >= 8.0);
    let mut random = Rng::with_seed(7);
    for _ in 0..200 {
        let [mut conn, _] = compressing(&gateway);
        let payload = noise(&mut random, 100);
        conn.send(compressed(true, OpCode::Binary, &payload));
        // Some noise is deflate data, and then it is no packet of Engine.IO.
        let code = conn.close_code(SOON);
        assert!(matches!(code, 1000..=1011), "{code} after {payload:02x?}");
    }
    assert_serves(gateway.addr);
}

/// Attack F21.
#[test]
fn rsv1_where_it_must_not_be_is_a_protocol_error() {
    let gateway = gateway();
    let payload = deflated(&[b'a'; 5_000]);
    for target in [SOCKETIO, PLAIN] {
        let mut conn = RawConn::websocket(gateway.addr, target);
        conn.send(compressed(true, OpCode::Text, &payload));
        assert_eq!(conn.close_code(SOON), 1002, "it was not agreed on");
    }
    for opcode in [
        OpCode::Ping,
        OpCode::Pong,
        OpCode::Close,
        OpCode::Continuation,
    ] {
        assert_closed(&gateway, 1002, &compressed(true, opcode, b""));
    }
    let mut twice = compressed(false, OpCode::Text, &payload[..5]);
    twice.extend(compressed(true, OpCode::Continuation, &payload[5..]));
    assert_closed(&gateway, 1002, &twice);
}

/// A thousand to one: 200 MB in a payload of 200 kB.
fn bomb() -> Vec<u8> {
    let bomb = deflated(&vec![b'a'; 200_000_000]);
    assert!(bomb.len() < 201_000, "{} bytes", bomb.len());
    bomb
}

/// Bytes by which the process's peak grows in twenty attacks: nothing that was given back in time is
/// overlooked. A limit of 1 MB and 16 MiB are allowed.
fn assert_peak_bounded(attack: impl Fn(&Gateway)) {
    let gateway = Gateway::start(&settings());
    super::warmed(&gateway);
    let before = gateway.peak_memory();
    for _ in 0..20 {
        attack(&gateway);
    }
    let grown = gateway.peak_memory().saturating_sub(before);
    assert!(
        grown <= 1_000_000 + 16 * MIB,
        "{grown} bytes more at the peak"
    );
    assert!(gateway.hits_reach("payload", 20.0) >= 20.0);
    assert_serves(gateway.addr);
}

/// Attack F19. For the plain protocol the bomb is too big before it is inflated.
#[test]
fn a_bomb_stops_at_the_limit() {
    let whole = compressed(true, OpCode::Binary, &bomb());
    assert_peak_bounded(|gateway| {
        let [mut conn, mut plain] = compressing(gateway);
        conn.send(&whole);
        assert_eq!(conn.close_code(SOON), 1009);
        plain.try_send(&whole);
        assert_eq!(plain.close_code(SOON), 1009);
    });
}

/// Attack F36.
#[test]
fn a_bomb_in_fragments_stops_at_the_limit() {
    let bomb = bomb();
    let mut pieces = compressed(false, OpCode::Text, &bomb[..1_000]);
    for piece in bomb[1_000..].chunks(20_000) {
        pieces.extend(masked(false, OpCode::Continuation, piece));
        pieces.extend(masked(true, OpCode::Ping, b"tick"));
    }
    pieces.extend(masked(true, OpCode::Continuation, b""));
    assert_peak_bounded(|gateway| {
        let [mut conn, _] = compressing(gateway);
        conn.try_send(&pieces);
        assert_eq!(conn.close_code(SOON), 1009);
    });
}

/// Attack F19 on many connections at once: what each may hold is what it sent.
#[test]
fn many_bombs_take_no_memory_together() {
    let gateway = Gateway::start(&settings());
    let bomb = compressed(true, OpCode::Binary, &deflated(&vec![b'a'; 20_000_000]));
    assert_bounded(&gateway, Growth(16 * MIB), |gateway| {
        let mut clients: Vec<_> = (0..200)
            .map(|_| {
                let [mut conn, _] = compressing(gateway);
                conn.send(&bomb);
                conn
            })
            .collect();
        for conn in &mut clients {
            assert_eq!(conn.close_code(SOON), 1009);
        }
        clients
    });
}

/// Messages just below the limit, a kilobyte each on the wire: the others do not wait for them.
#[test]
fn a_flood_of_small_bombs_leaves_room_for_others() {
    let gateway = Gateway::start(&settings());
    let text = format!("42[\"void\",\"{}\"]", "a".repeat(990_000));
    let flood = compressed(true, OpCode::Text, &deflated(text.as_bytes())).repeat(40);
    let mut floods: Vec<_> = (0..4)
        .map(|_| {
            let [mut conn, _] = compressing(&gateway);
            conn.send(masked(true, OpCode::Text, b"40"));
            conn.frame();
            conn
        })
        .collect();
    for conn in &mut floods {
        conn.send(&flood);
    }
    assert_serves(gateway.addr);
    let read = gateway.metric_settles("sockeye_inflate_messages_total", |count| count == 160.0);
    assert!(read.is_ok(), "{read:?} messages were read");
}

/// Attack A21: in a room that is marked, the length of a message tells nothing.
#[test]
fn marked_rooms_are_not_compressed() {
    let marks = "\n[namespaces.\"/\"]\nuncompressed_rooms = [\"secret\"]\nclient_joins = true\n";
    let settings = settings().replace(
        "[namespaces.\"/\".events.echo]",
        &format!("{marks}[namespaces.\"/\".events.echo]"),
    );
    let gateway = Gateway::start(&settings);
    let mut lengths = Vec::new();
    for room in ["secret", "public"] {
        let mut reader = RawConn::websocket_with(gateway.addr, SOCKETIO, OFFER);
        reader.frame();
        reader.send(masked(true, OpCode::Text, b"40"));
        reader.frame();
        reader.send(masked(
            true,
            OpCode::Text,
            format!("421[\"join\",\"{room}\"]"),
        ));
        assert!(reader.frame().text().starts_with("431["));
        let mut writer = SocketIo::connect(gateway.addr);
        writer.ask(2, &json!(["join", room]));
        for guess in ["token=4f9a", "token=zzzz"] {
            let text = format!("token=4f9a {guess} {}", "padding ".repeat(200));
            writer.emit(&json!(["said", text]));
            let frame = reader.frame();
            assert_eq!(frame.compressed, room == "public");
            lengths.push(frame.payload.len());
        }
    }
    assert_eq!(lengths[0], lengths[1], "a right and a wrong guess");
    assert!(lengths[0] > 1_600 && lengths[2] < 300, "{lengths:?}");
}

/// Attack A21: whoever keeps a window keeps it alone. The messages of one user make nothing shorter for another.
#[test]
fn windows_are_not_shared_between_users() {
    let takeover = "websocket = true\nserver_takeover = true\n";
    let gateway = Attacked::weighed(&settings().replace("websocket = true\n", takeover));
    let text = "a line that nobody else may find out about, said once to each of them. ".repeat(20);
    let event = format!("421[\"echo\",\"{text}\"]");
    let mut lengths = Vec::new();
    for _ in 0..3 {
        let mut conn = RawConn::websocket_with(gateway.addr, SOCKETIO, OFFER);
        conn.frame();
        conn.send(masked(true, OpCode::Text, b"40"));
        conn.frame();
        let mut said = || {
            conn.send(masked(true, OpCode::Text, &event));
            let frame = conn.frame();
            assert!(frame.compressed);
            frame.payload.len()
        };
        lengths.push((said(), said()));
    }
    let (first, again) = lengths[0];
    assert!(again < first / 2, "there is a window to share: {lengths:?}");
    assert_eq!(lengths, [(first, again); 3]);
}

/// Answers to polls are compressed for whoever asks, and the body says what it is.
#[test]
fn polls_are_compressed_for_who_accepts_it() {
    let gateway = gateway();
    let open = RawConn::exchange(
        gateway.addr,
        "GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    let sid = &open.body[open.body.find("\"sid\":\"").expect("an open packet") + 7..][..20];
    let request = |method: &str, headers: &str, body: &str| {
        let length = body.len();
        format!(
            "{method} /socket.io/?EIO=4&transport=polling&sid={sid} HTTP/1.1\r\nHost: a\r\n{headers}\
             Connection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let event = format!("42[\"echo\",\"{}\"]", "again and ".repeat(300));
    let posted = format!("40\x1e{event}");
    assert_eq!(
        RawConn::exchange(gateway.addr, request("POST", "", &posted)).body,
        "ok"
    );
    let answer = RawConn::exchange(
        gateway.addr,
        request("GET", "Accept-Encoding: br, gzip\r\n", ""),
    );
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    let length: usize = answer
        .header("content-length")
        .and_then(|n| n.parse().ok())
        .expect("a length");
    assert!(length < 300, "{length} bytes");
    assert_eq!(
        RawConn::exchange(gateway.addr, request("POST", "", &event)).body,
        "ok"
    );
    let answer = RawConn::exchange(gateway.addr, request("GET", "", ""));
    assert_eq!(answer.header("content-encoding"), None);
    assert_eq!(answer.body, event);
}
