//! WebSocket frames that break RFC 6455, promise too much or never end a message.

use super::{SOON, assert_serves, gateway, noise, websockets};
use crate::harness::raw::masked;
use crate::harness::{Ended, Plain, RawConn, SocketIo, eventually};
use client::OpCode;
use fastrand::Rng;
use serde_json::json;

/// Sends bytes on a WebSocket of each protocol; each must be closed with `code` and then TCP ended.
#[track_caller]
fn assert_closed(code: u16, bytes: &[u8]) {
    let gateway = gateway();
    let reason = match code {
        1007 => "invalid_utf8",
        1009 => "message_too_big",
        _ => "protocol_error",
    };
    let before = gateway.closes(reason);
    for mut conn in websockets(gateway.addr) {
        conn.send(bytes);
        let shown = &bytes[..bytes.len().min(20)];
        assert_eq!(conn.close_code(SOON), code, "after {shown:02x?}");
    }
    let counted = || gateway.closes(reason) >= before + 2.0;
    assert!(eventually(SOON, counted), "{reason} is not counted");
    assert_serves(gateway.addr);
}

/// A masked frame of which one header byte is changed.
fn spoiled(at: usize, change: impl Fn(u8) -> u8, opcode: OpCode, payload: &[u8]) -> Vec<u8> {
    let mut bytes = masked(true, opcode, payload);
    bytes[at] = change(bytes[at]);
    bytes
}

/// A header without the payload it declares.
fn declared(opcode: OpCode, len: u64) -> Vec<u8> {
    let mut bytes = vec![0x80 | opcode as u8, 0x80 | 127];
    bytes.extend(len.to_be_bytes());
    bytes.extend([1, 2, 3, 4]);
    bytes
}

/// Attack F01.
#[test]
fn an_unmasked_frame_is_a_protocol_error() {
    assert_closed(1002, b"\x81\x02{}");
}

/// Attack F02.
#[test]
fn reserved_bits_are_a_protocol_error() {
    for bits in [0x10, 0x20, 0x30, 0x50, 0x70] {
        assert_closed(1002, &spoiled(0, |byte| byte | bits, OpCode::Text, b"{}"));
    }
}

/// Attack F03.
#[test]
fn reserved_opcodes_are_a_protocol_error() {
    for opcode in [3, 7, 11, 15] {
        assert_closed(1002, &spoiled(0, |_| 0x80 | opcode, OpCode::Text, b"{}"));
    }
}

/// Attack F04.
#[test]
fn a_fragmented_control_frame_is_a_protocol_error() {
    for opcode in [OpCode::Ping, OpCode::Pong, OpCode::Close] {
        assert_closed(1002, &masked(false, opcode, b""));
    }
}

/// Attack F05.
#[test]
fn a_control_frame_of_126_bytes_is_a_protocol_error() {
    for opcode in [OpCode::Ping, OpCode::Pong, OpCode::Close] {
        assert_closed(1002, &masked(true, opcode, [b'a'; 126]));
    }
}

/// Attack F06.
#[test]
fn a_continuation_of_nothing_is_a_protocol_error() {
    assert_closed(1002, &masked(true, OpCode::Continuation, b"{}"));
    assert_closed(1002, &masked(false, OpCode::Continuation, b"{}"));
}

/// Attack F07.
#[test]
fn a_message_inside_a_message_is_a_protocol_error() {
    let mut bytes = masked(false, OpCode::Text, b"{");
    bytes.extend(masked(true, OpCode::Text, b"{}"));
    assert_closed(1002, &bytes);
}

/// Attack F08.
#[test]
fn a_length_in_more_bytes_than_needed_is_a_protocol_error() {
    assert_closed(1002, &[0x81, 0xfe, 0, 5, 1, 2, 3, 4, 0, 0, 0, 0, 0]);
    assert_closed(1002, &declared(OpCode::Text, 5));
}

/// Attack F09.
#[test]
fn a_length_of_64_bits_is_a_protocol_error() {
    assert_closed(1002, &declared(OpCode::Binary, 1 << 63));
    assert_closed(1002, &declared(OpCode::Binary, u64::MAX));
}

/// Attack F10: refused from the header, no byte of payload follows.
#[test]
fn a_declared_length_of_exabytes_is_too_big() {
    for opcode in [OpCode::Text, OpCode::Binary] {
        assert_closed(1009, &declared(opcode, 1 << 62));
        assert_closed(1009, &declared(opcode, 100_000_000));
    }
}

/// Attack F11: one byte over the limit of each protocol, as one frame and in fragments.
#[test]
fn one_byte_over_the_limit_is_too_big() {
    let gateway = gateway();
    for (n, limit) in [1_000_000, 64 * 1024].into_iter().enumerate() {
        let mut conn = websockets(gateway.addr)
            .into_iter()
            .nth(n)
            .expect("two protocols");
        conn.send(declared(OpCode::Text, limit + 1));
        assert_eq!(conn.close_code(SOON), 1009);
        let mut conn = websockets(gateway.addr)
            .into_iter()
            .nth(n)
            .expect("two protocols");
        conn.send_frame(false, OpCode::Text, vec![b'a'; limit as usize]);
        conn.try_send(masked(true, OpCode::Continuation, b"a"));
        assert_eq!(conn.close_code(SOON), 1009);
    }
    assert_serves(gateway.addr);
}

/// The other side of attack F11: exactly the limit is served.
#[test]
fn a_message_of_exactly_the_limit_is_served() {
    let gateway = gateway();
    let mut client = SocketIo::connect(gateway.addr);
    let text = "a".repeat(1_000_000 - r#"427["echo",""]"#.len());
    assert_eq!(client.ask(7, &json!(["echo", text])), json!([text]));
}

/// Attack F13.
#[test]
fn text_that_is_not_utf8_is_refused() {
    for text in [
        &b"42\xff"[..],
        b"\xc0\xaf",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"a\x80",
        b"\xc3",
    ] {
        assert_closed(1007, &masked(true, OpCode::Text, text));
    }
}

/// Attack F14.
#[test]
fn fragments_that_together_are_not_utf8_are_refused() {
    let mut bytes = masked(false, OpCode::Text, b"42\xe2\x82");
    bytes.extend(masked(true, OpCode::Continuation, b"(\xac"));
    assert_closed(1007, &bytes);
    let mut unfinished = masked(false, OpCode::Text, b"42");
    unfinished.extend(masked(true, OpCode::Continuation, b"\xe2\x82"));
    assert_closed(1007, &unfinished);
}

/// Attacks F15 and F16.
#[test]
fn close_codes_that_nobody_may_send_are_a_protocol_error() {
    for code in [0, 999, 1004, 1005, 1006, 1015, 1016, 2_999, 5_000, u16::MAX] {
        assert_closed(1002, &masked(true, OpCode::Close, code.to_be_bytes()));
    }
    assert_closed(1002, &masked(true, OpCode::Close, [3]));
}

/// Attack F17.
#[test]
fn a_close_reason_that_is_not_utf8_is_refused() {
    assert_closed(1007, &masked(true, OpCode::Close, b"\x03\xe8\xff\xfe"));
}

/// Attack F18: the close is answered, and nobody sees what came after it.
#[test]
fn data_after_a_close_frame_is_ignored() {
    let gateway = gateway();
    let mut witness = Plain::join(gateway.addr, "after-close");
    let mut attacker = Plain::join(gateway.addr, "after-close");
    let mut bytes = masked(true, OpCode::Close, 1000_u16.to_be_bytes());
    let late = json!({"type": "message", "room": "after-close", "payload": "late"});
    bytes.extend(masked(true, OpCode::Text, late.to_string()));
    attacker.conn.send(bytes);
    assert_eq!(attacker.conn.close_code(SOON), 1000);
    let mut other = Plain::join(gateway.addr, "after-close");
    other.send(&json!({"type": "message", "room": "after-close", "payload": "in time"}));
    assert_eq!(witness.expect_type("message")["payload"], "in time");
}

/// Attack F21: compression was not negotiated.
#[test]
fn a_compressed_frame_is_a_protocol_error() {
    assert_closed(1002, &spoiled(0, |byte| byte | 0x40, OpCode::Text, b"{}"));
    assert_closed(1002, &spoiled(0, |byte| byte | 0x40, OpCode::Binary, b"\0"));
}

/// Attacks F22 and F23.
#[test]
fn endless_fragments_are_cut() {
    let gateway = gateway();
    for payload in [&b"a"[..], b""] {
        let mut bytes = masked(false, OpCode::Text, payload);
        for _ in 0..130_000 {
            bytes.extend(masked(false, OpCode::Continuation, payload));
        }
        for mut conn in websockets(gateway.addr) {
            conn.try_send(&bytes);
            let code = conn.close_code(SOON);
            assert!(matches!(code, 1008 | 1009), "{code}");
        }
    }
    assert_serves(gateway.addr);
}

/// Attack F31.
#[test]
fn deep_nesting_does_not_reach_the_stack() {
    let gateway = gateway();
    let brackets = "[".repeat(60_000);
    let mut client = SocketIo::connect(gateway.addr);
    client.send(&format!("42{}", "[".repeat(100_000)));
    assert_eq!(client.conn.close_code(SOON), 4500);
    for text in [
        brackets.clone(),
        format!("{{\"type\":\"x\",\"payload\":{brackets}"),
    ] {
        let mut plain = Plain::connect(gateway.addr);
        plain.conn.send_text(text);
        assert_eq!(plain.message()["error"], "INVALID_MESSAGE_FORMAT");
    }
    let mut packed = RawConn::websocket_with(
        gateway.addr,
        "/ws",
        "Sec-WebSocket-Protocol: sockeye.msgpack\r\n",
    );
    packed.send_binary(vec![0x91; 60_000]);
    assert_eq!(packed.frame().opcode, OpCode::Binary);
    assert_serves(gateway.addr);
}

/// Attack F37: a hundred connections of noise, as frames and inside frames.
#[test]
fn random_bytes_do_no_harm() {
    let gateway = gateway();
    let mut random = Rng::with_seed(0x5eed);
    for round in 0..50 {
        let bytes = noise(&mut random, 1 + round * 40);
        for mut conn in websockets(gateway.addr) {
            conn.try_send(&bytes);
            // What looks like the beginning of a frame may wait for its end, but not for long.
            assert_ne!(conn.ended(SOON), Ended::Open, "{bytes:02x?}");
        }
        for (opcode, mut conn) in [OpCode::Text, OpCode::Binary]
            .into_iter()
            .zip(websockets(gateway.addr))
        {
            let text: Vec<u8> = bytes.iter().map(|byte| byte & 0x7f).collect();
            conn.try_send(masked(true, opcode, text));
            conn.try_send(masked(true, OpCode::Close, b""));
            assert_ne!(conn.ended(SOON), Ended::Open, "{bytes:02x?}");
        }
    }
    assert_serves(gateway.addr);
}
