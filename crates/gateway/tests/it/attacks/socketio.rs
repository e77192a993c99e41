//! Socket.IO packets that are not what they claim to be.

use super::{SOON, assert_serves, gateway};
use crate::harness::client::PLAIN;
use crate::harness::raw::masked;
use crate::harness::{Ended, Gateway, Plain, Poller, RawConn, SocketIo, eventually};
use client::OpCode;
use serde_json::json;
use std::time::Duration;

/// Close code for `parse error`.
const PARSE_ERROR: u16 = 4500;

/// Each packet, sent by a client of its own, must be answered with a close.
#[track_caller]
fn assert_parse_errors(packets: &[&str]) {
    let gateway = gateway();
    let before = gateway.closes("parse_error");
    for packet in packets {
        let mut client = SocketIo::connect(gateway.addr);
        client.send(packet);
        assert_eq!(
            client.conn.close_code(SOON),
            PARSE_ERROR,
            "after {packet:?}"
        );
    }
    let counted = || gateway.closes("parse_error") >= before + packets.len() as f64;
    assert!(eventually(SOON, counted), "not all are counted");
    assert_serves(gateway.addr);
}

/// Attacks E15 and E16: counts that are too large, zero, negative or not numbers.
#[test]
fn impossible_attachment_counts_are_parse_errors() {
    assert_parse_errors(&[
        "45100000-[\"x\",{\"_placeholder\":true,\"num\":0}]",
        "4511-[\"x\",{\"_placeholder\":true,\"num\":0}]",
        "4599999999999999999999-[\"x\"]",
        "450-[\"x\"]",
        "45-1-[\"x\"]",
        "45-[\"x\"]",
        "451[\"x\"]",
        "451",
        "45",
        "461e1-1[\"x\"]",
        "460-1[]",
    ]);
}

/// Attack E17: names that are not names.
#[test]
fn event_names_of_another_type_are_parse_errors() {
    assert_parse_errors(&[
        "42[]",
        "42[{}]",
        "42[null]",
        "42[[\"x\"]]",
        "42[true]",
        "42[{\"toString\":\"x\"}]",
    ]);
}

/// Attack E18: names that only the libraries themselves may emit.
#[test]
fn reserved_event_names_are_parse_errors() {
    assert_parse_errors(&[
        "42[\"connect\"]",
        "42[\"connect_error\"]",
        "42[\"disconnect\"]",
        "42[\"disconnecting\",\"x\"]",
        "42[\"newListener\"]",
        "42[\"removeListener\"]",
        "42[\"disc\\u006fnnect\"]",
    ]);
}

/// Attack E19.
#[test]
fn packets_that_cannot_be_parsed_are_parse_errors() {
    assert_parse_errors(&[
        "4",
        "4x",
        "47",
        "49[\"x\"]",
        "42[\"x\"",
        "42[\"x\"]]",
        "42{\"x\":1}",
        "42\"x\"",
        "42[\"x\",]",
        "42[\"x\",01]",
        "42[\"x\" 1]",
        "42[\"\\x\"]",
        "42['x']",
        "42[\"x\",NaN]",
        "42/none,[\"x\"]x",
        "43{}",
        "431{}",
        "40[]",
        "4042",
        "41[]",
        "44",
        "44{}",
        "40",
    ]);
}

/// Attack E31: what Engine.IO itself does not know, or what only servers send.
#[test]
fn unknown_engine_packets_are_parse_errors() {
    assert_parse_errors(&["", "7", "x", "\0", "2", "2probe", "0{}", "b!", "b===="]);
}

/// Attack E34: placeholders that name nothing.
#[test]
fn bad_placeholders_are_parse_errors() {
    assert_parse_errors(&[
        "451-[\"x\",{\"_placeholder\":true,\"num\":1}]",
        "451-[\"x\",{\"_placeholder\":true,\"num\":-1}]",
        "451-[\"x\",{\"_placeholder\":true,\"num\":\"0\"}]",
        "451-[\"x\",{\"_placeholder\":true,\"num\":0.5}]",
        "451-[\"x\",{\"_placeholder\":true,\"num\":\"splice\"}]",
        "451-[\"x\",{\"_placeholder\":true}]",
        "451-[\"x\",{\"_placeholder\":true,\"num\":99999999999999999999}]",
    ]);
}

/// Attack E40: seven thousand placeholders for one attachment, in a room with plain members, who would get as many copies of it.
#[test]
fn an_attachment_named_again_is_a_parse_error() {
    let gateway = gateway();
    let mut json = Plain::join(gateway.addr, "den");
    let subprotocol = "Sec-WebSocket-Protocol: sockeye.msgpack\r\n";
    let mut msgpack = RawConn::websocket_with(gateway.addr, PLAIN, subprotocol);
    msgpack.send_binary(b"\x82\xa4type\xa4join\xa4room\xa3den");
    let before = gateway.peak_memory();
    let places = vec![json!({"_placeholder": true, "num": 0}); 7_000];
    let places = json!(places).to_string();
    let places = places.trim_matches(['[', ']']);
    for packet in [format!("451-[\"x\",{places}]"), format!("461-0[{places}]")] {
        let mut client = SocketIo::connect(gateway.addr);
        client.ask(1, &json!(["join", "den"]));
        client.send(&packet);
        client
            .conn
            .try_send(masked(true, OpCode::Binary, [b'z'; 14_000]));
        assert_eq!(client.conn.close_code(SOON), PARSE_ERROR);
    }
    let quiet = Duration::from_millis(300);
    assert!(json.conn.is_quiet(quiet) && msgpack.is_quiet(quiet));
    let grown = gateway.peak_memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
    assert_serves(gateway.addr);
}

/// Attack E35: a binary frame that no packet announced.
#[test]
fn unannounced_binary_is_a_parse_error() {
    let gateway = gateway();
    for bytes in [&b""[..], b"x", &[0; 100_000]] {
        let mut client = SocketIo::connect(gateway.addr);
        client.conn.send_binary(bytes);
        assert_eq!(client.conn.close_code(SOON), PARSE_ERROR);
    }
    assert_serves(gateway.addr);
}

/// Attack E36: text where an attachment must come.
#[test]
fn text_between_attachments_is_a_parse_error() {
    let gateway = gateway();
    for packet in [
        "42[\"x\"]",
        "451-[\"x\",{\"_placeholder\":true,\"num\":0}]",
        "42",
    ] {
        let mut client = SocketIo::connect(gateway.addr);
        client.send(
            "452-[\"x\",{\"_placeholder\":true,\"num\":0},{\"_placeholder\":true,\"num\":1}]",
        );
        client.conn.send_binary(b"first");
        client.send(packet);
        assert_eq!(
            client.conn.close_code(SOON),
            PARSE_ERROR,
            "after {packet:?}"
        );
    }
    assert_serves(gateway.addr);
}

/// The other side of E36: a heartbeat in between is none of its business.
#[test]
fn a_pong_between_attachments_is_harmless() {
    let gateway = gateway();
    let mut client = SocketIo::connect(gateway.addr);
    client.send("451-7[\"echo\",{\"_placeholder\":true,\"num\":0}]");
    client.send("3");
    client.conn.send_binary(b"bytes");
    assert_eq!(client.packet(), "461-7[{\"_placeholder\":true,\"num\":0}]");
    assert_eq!(client.conn.frame().payload, b"bytes");
}

/// Attack E39: arrays and objects nested ten thousand deep.
#[test]
fn deep_nesting_is_a_parse_error() {
    let arrays = format!("42[\"x\",{}{}]", "[".repeat(10_000), "]".repeat(10_000));
    let objects = format!(
        "42[\"x\",{}1{}]",
        "{\"a\":".repeat(10_000),
        "}".repeat(10_000)
    );
    let auth = format!(
        "40/other,{}1{}",
        "{\"a\":".repeat(10_000),
        "}".repeat(10_000)
    );
    assert_parse_errors(&[&arrays, &objects, &auth]);
}

/// Attack E39: `42` alone is ignored, as the reference server does.
#[test]
fn an_event_without_data_is_ignored() {
    let gateway = gateway();
    let mut client = SocketIo::connect(gateway.addr);
    client.send("42");
    client.send("421");
    assert_eq!(client.ask(7, &json!(["echo", "alive"])), json!(["alive"]));
}

/// Attack E21: five thousand namespaces.
#[test]
fn unknown_namespaces_are_refused_and_not_remembered() {
    let gateway = gateway();
    let mut client = SocketIo::connect(gateway.addr);
    let mut refused = 0;
    for n in 0..5_000 {
        if !client
            .conn
            .try_send(masked(true, OpCode::Text, format!("40/guess-{n},")))
        {
            break;
        }
    }
    let code = loop {
        let frame = client.conn.frame();
        if let Some(code) = frame.close_code() {
            break code;
        }
        if frame.text().starts_with("44/guess-") {
            assert!(frame.text().contains("Invalid namespace"), "{frame:?}");
            refused += 1;
        }
    };
    assert_eq!((code, refused), (1008, 32));
    assert_ne!(client.conn.ended(SOON), Ended::Open);
    assert!(gateway.hits_reach("namespace_refusals", 1.0) >= 1.0);
    assert_serves(gateway.addr);
}

/// Attack E22: an event, an ack or a disconnect for a namespace that was never joined.
#[test]
fn packets_before_connect_end_the_session() {
    let gateway = gateway();
    for packet in ["42[\"x\"]", "431[]", "41", "42/admin,[\"x\"]", "41/admin,"] {
        let mut client = SocketIo::open(gateway.addr);
        client.send(packet);
        assert_eq!(
            client.conn.close_code(SOON),
            PARSE_ERROR,
            "after {packet:?}"
        );
        let poller = Poller::open(gateway.addr);
        poller.post(packet);
        let over = || poller.poll().status == 400;
        assert!(eventually(SOON, over), "{packet:?} by polling");
    }
    assert_serves(gateway.addr);
}

/// Attack E23: acks that nobody asked for, among them those without an id: one ended the session.
#[test]
fn acks_nobody_asked_for_are_ignored() {
    let gateway = gateway();
    let mut client = SocketIo::connect(gateway.addr);
    for packet in ["43", "431", "461-[{\"_placeholder\":true,\"num\":0}]"] {
        client.send(packet);
    }
    client.conn.send_binary(b"forged");
    for id in [
        "",
        "0",
        "1",
        "9007199254740993",
        "18446744073709551616",
        "99999999999999999999999999",
        "007",
    ] {
        client.send(&format!("43{id}[\"forged\"]"));
    }
    assert_eq!(client.ask(7, &json!(["echo", "alive"])), json!(["alive"]));
    assert_serves(gateway.addr);
}

/// Attack E23, the other way round: an answer would have to go out under another id.
#[test]
fn ids_beyond_what_javascript_counts_to_are_parse_errors() {
    assert_parse_errors(&[
        "429007199254740992[\"echo\"]",
        "4299999999999999999999999999[\"echo\"]",
    ]);
}

/// Attack E41: stock clients throw when they read `connect` as an event, and go: one message would empty the room.
#[test]
fn reserved_events_of_plain_clients_are_not_relayed() {
    let gateway = gateway();
    let mut member = SocketIo::connect(gateway.addr);
    member.ask(1, &json!(["join", "den"]));
    let mut json = Plain::join(gateway.addr, "den");
    for name in [
        "connect",
        "connect_error",
        "disconnect",
        "disconnecting",
        "newListener",
        "removeListener",
    ] {
        json.send(&json!({"type": name, "payload": 1}));
        assert_eq!(json.message()["error"], "INVALID_MESSAGE_FORMAT", "{name}");
    }
    let subprotocol = "Sec-WebSocket-Protocol: sockeye.msgpack\r\n";
    let mut msgpack = RawConn::websocket_with(gateway.addr, PLAIN, subprotocol);
    msgpack.send_binary(b"\x83\xa4type\xa4join\xa4room\xa3den\xa2id\x01");
    msgpack.frame();
    msgpack.send_binary(b"\x82\xa4type\xa7connect\xa7payload\x01");
    let answer = msgpack.frame().payload;
    let told = answer.windows(22).any(|at| at == b"INVALID_MESSAGE_FORMAT");
    assert!(told, "{answer:?}");
    json.send(&json!({"type": "news", "payload": 1}));
    assert_eq!(member.packet(), "42[\"news\",1]");
    assert_serves(gateway.addr);
}

/// Attack E37: attachments that never come, on a deadline.
#[test]
fn missing_attachments_are_waited_for_one_message_timeout() {
    let gateway = gateway();
    let mut clients: Vec<_> = (0..50).map(|_| SocketIo::connect(gateway.addr)).collect();
    for client in &mut clients {
        client.send(
            "452-[\"x\",{\"_placeholder\":true,\"num\":0},{\"_placeholder\":true,\"num\":1}]",
        );
        client.conn.send_binary([7; 1_000]);
    }
    for client in &mut clients {
        assert_eq!(client.conn.close_code(SOON), 4002);
    }
    assert_serves(gateway.addr);
}

/// Attack E15: attachments that together are larger than a message may be.
#[test]
fn attachments_together_are_bounded() {
    let gateway = gateway();
    let mut client = SocketIo::connect(gateway.addr);
    let places: Vec<_> = (0..10)
        .map(|num| json!({"_placeholder": true, "num": num}))
        .collect();
    client.send(&format!("4510-[\"x\",{}]", json!(places)));
    for _ in 0..10 {
        let frame = masked(true, OpCode::Binary, vec![1; 900_000]);
        client.conn.try_send(frame);
    }
    assert_eq!(client.conn.close_code(SOON), 1009);
    assert_serves(gateway.addr);
}

/// Two attachments of a packet may be as large as one message together, and not each.
#[test]
fn two_attachments_summed_to_twice_the_maximum() {
    let gateway = gateway();
    let packet =
        "452-7[\"echo\",{\"_placeholder\":true,\"num\":0},{\"_placeholder\":true,\"num\":1}]";
    for (second, fits) in [(500_000, true), (500_001, false)] {
        let mut client = SocketIo::connect(gateway.addr);
        client.send(packet);
        client.conn.send_binary(vec![1; 500_000]);
        client.conn.send_binary(vec![2; second]);
        if fits {
            assert!(client.packet().starts_with("462-7["));
            let sizes = [(); 2].map(|()| client.conn.frame().payload.len());
            assert_eq!(sizes, [500_000, second]);
        } else {
            assert_eq!(client.conn.close_code(SOON), 1009);
        }
    }
    assert_serves(gateway.addr);
}

/// What was on its way to a namespace that the client left is forgiven; a namespace that it never was in is not.
#[test]
fn a_disconnect_pardoned_packets_to_every_namespace() {
    let gateway = gateway();
    let mut client = SocketIo::connect(gateway.addr);
    client.join_namespace("/chat", "");
    client.send("41/chat,");
    client.send("42/chat,[\"late\"]");
    client.send("43/chat,1[]");
    assert_eq!(client.ask(7, &json!(["echo", 7])), json!([7]));
    client.send("42/never,[\"x\"]");
    assert_eq!(client.conn.close_code(SOON), PARSE_ERROR);
    assert_serves(gateway.addr);
}

/// Packets whose attachments nothing names were kept, relayed and read by nobody.
#[test]
fn an_attachment_that_nobody_names_was_accepted() {
    assert_parse_errors(&[
        "451-[\"x\"]",
        "452-[\"x\",{\"_placeholder\":true,\"num\":0}]",
        "461-0[]",
    ]);
}

/// More namespaces than a session may be in.
#[test]
fn a_session_joins_a_bounded_number_of_namespaces() {
    let namespaces: String = (0..40)
        .map(|n| format!("[namespaces.\"/n{n}\"]\nclient_joins = false\n"))
        .collect();
    let gateway = Gateway::start(&format!("[server]\nshards = 1\npin = false\n{namespaces}"));
    let mut client = SocketIo::open(gateway.addr);
    for n in 0..32 {
        client.join_namespace(&format!("/n{n}"), "");
    }
    client.send("40/n32,");
    assert_eq!(client.conn.close_code(SOON), 1008);
    assert_serves_main(&gateway);
}

fn assert_serves_main(gateway: &Gateway) {
    SocketIo::connect(gateway.addr);
}
