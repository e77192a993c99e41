//! What clients do, as messages.

use super::{PRODUCED, Program, comes, config, header, text};
use crate::harness::Gateway;
use ::client::full::bytes;
use futures_util::StreamExt;
use serde_json::json;
use servers::Nats;
use std::collections::HashMap;

const NEEDS: &str = "[namespaces.\"/\".events.join]\nnats = true\n[namespaces.\"/\".events.beside]\naction = \"reply\"\nnats = true\n";

fn start(url: &str, out: &str) -> Gateway {
    let text = config(url, out, "", NEEDS);
    Gateway::start(&text.replace(
        "client_joins = true",
        "client_joins = true\nnats_lifecycle = true",
    ))
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn a_life_is_a_row_of_messages_with_headers() {
    let nats = Nats::start();
    let program = Program::with_streams(&nats);
    let node = start(
        &nats.url(),
        "room = \"doc-*\"\noperator = \"unicast\"\nack = \"nats\"",
    );
    let mut ada = comes(&node, "ada");
    let id = ada.id.clone();
    ada.ask("join", &[json!("doc-1")]);
    assert!(ada.ask("order", &[json!({"n": 1.50})]).is_empty());
    assert_eq!(ada.ask("beside", &[json!(7)]), [json!(7)]);
    assert!(ada.ask("order", &[bytes(b"\x00\xff")]).is_empty());
    let refused = ada.ask("order", &[json!({ "doc": "doc-2" })]);
    assert_eq!(refused[0]["error"], "Not in that room");
    ada.leave_namespace();
    let messages = program.read("EVENTS", 6);
    let expected = [
        ("connect", "Connect", "", "[\"connect\"]"),
        ("join", "Message", "doc-1", "[\"join\",\"doc-1\"]"),
        ("order", "Message", "doc-1", "[\"order\",{\"n\":1.5}]"),
        ("beside", "Message", "doc-1", "[\"beside\",7]"),
        ("order", "Message", "doc-1", ""),
        (
            "disconnect",
            "Disconnect",
            "doc-1",
            "[\"disconnect\",\"client namespace disconnect\"]",
        ),
    ];
    assert_eq!(messages.len(), expected.len());
    for (at, (message, (name, moment, room, value))) in messages.iter().zip(expected).enumerate() {
        let is = |name: &str| header(message, name).unwrap_or_default();
        assert_eq!(message.subject.as_str(), format!("sockeye._.{name}"));
        assert_eq!((&*is("X-Event"), &*is("X-Guid")), (moment, room));
        let said = ["X-ID", "X-Uid", "X-Operator", "X-Auth-Type"].map(is);
        assert_eq!(said, [&id, "ada", "unicast", "token"]);
        assert_eq!(is("X-Sockeye-Sequence"), (at + 1).to_string());
        assert!(!is("Nats-Msg-Id").is_empty());
        match value {
            "" => {
                assert!(message.payload.ends_with(b"]\x00\xff"));
                assert_eq!(is("X-Sockeye-Attachments"), "2");
            }
            value => assert_eq!(text(message), value),
        }
    }
    assert_eq!(node.reaches(PRODUCED, 6.0), 6.0);
}

#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn without_a_stream_those_who_listen_get_all_in_order() {
    const EVENTS: u64 = 2_000;
    let nats = Nats::start();
    let program = Program::new(&nats);
    let node = start(&nats.url(), "mode = \"core\"");
    let heard = program.client.subscribe("sockeye._.order");
    let mut heard = program.runtime.block_on(heard).expect("it listens");
    program.flush();
    let mut clients = [comes(&node, ""), comes(&node, "")];
    for n in 0..EVENTS {
        for client in &mut clients {
            client.emit("order", &[json!(n)]);
        }
    }
    let mut next: HashMap<String, u64> = HashMap::new();
    for _ in 0..EVENTS * 2 {
        let message = program.runtime.block_on(heard.next()).expect("a message");
        let n = next
            .entry(header(&message, "X-ID").expect("a socket"))
            .or_default();
        assert_eq!(text(&message), format!("[\"order\",{n}]"));
        *n += 1;
    }
}

/// A name that no header can have, and one that is more than a token.
#[test]
#[ignore = "needs NATS: cargo xtask test foreign"]
fn names_that_nats_cannot_carry_are_refused_or_written_otherwise() {
    let nats = Nats::start();
    let program = Program::with_streams(&nats);
    let more = "[namespaces.\"/\".default]\naction = \"nats\"\n";
    let node = Gateway::start(&config(&nats.url(), "ack = \"nats\"", "", more));
    let mut client = comes(&node, "");
    let bad = client.ask("a\r\nX-Uid: root", &[]);
    assert_eq!(bad[0]["error"], "NATS does not take the event");
    let long = client.ask(&"x".repeat(1_500), &[]);
    assert_eq!(long[0]["error"], "NATS does not take the event");
    assert!(client.ask("a.b *>", &[]).is_empty());
    let messages = program.read("EVENTS", 1);
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].subject.as_str(), "sockeye._.a%2Eb%20%2A%3E");
    assert_eq!(
        header(&messages[0], "X-Sockeye-Name").as_deref(),
        Some("a.b *>")
    );
}
